"""Many encoders at once, from one search for neighbours each; and how scores move with the sample."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from coview.alignment.calibration import benjamini_hochberg
from coview.alignment.measure import Alignment, Plan, Progress, silent
from coview.alignment.sides import prepared_layers, summarise
from coview.errors import UsageError
from coview.pairing import Pairs, Rows


@dataclass(frozen=True)
class AlignmentTable:
    """Alignment of every pair of encoders.

    Attributes
    ----------
    names : tuple of M str
    pairs : dict of (i, j), i < j, to Alignment; the row encoder is the first side
    scores, errors : ndarrays of shape (M, M), symmetric; the diagonal is a space against itself
    adjusted_p : ndarray of shape (M, M), p adjusted for the number of pairs (Benjamini-Hochberg); NaN on the
        diagonal and without permutations
    """

    names: tuple[str, ...]
    pairs: dict[tuple[int, int], Alignment]
    scores: np.ndarray
    errors: np.ndarray
    adjusted_p: np.ndarray


def align_all(
    pairs: Pairs, plan: Plan, names: Sequence[str], *, progress: Progress = silent
) -> AlignmentTable:
    """Align every pair of M encoders on the same samples.

    Parameters
    ----------
    pairs : Pairs of M sides, from `coview.pairing.pair` or `sides.pair_any`
    plan : Plan, how to measure
    names : M str
    progress : see `align`
    """
    if len(names) < 2:
        raise UsageError("a table of alignments needs at least two encoders.")
    settings = plan.settings(len(pairs), pairs.groups)
    spaces = [
        summarise(prepared_layers(side, plan.recipe, name), plan.how, settings)
        for side, name in zip(pairs.sides, names, strict=True)
    ]
    m = len(spaces)
    every = [(i, j) for i in range(m) for j in range(i + 1, m)]
    found = {
        (i, j): plan.measure(spaces[i], spaces[j], len(pairs), settings, pairs)
        for i, j in progress(every, len(every), "pairs")
    }
    scores, errors, adjusted = (
        np.full((m, m), plan.how.perfect(plan.k)),
        np.zeros((m, m)),
        np.full((m, m), np.nan),
    )
    corrected = [float("nan")] * len(every)
    if plan.permutations:
        corrected = list(benjamini_hochberg(np.array([found[pair].p for pair in every])))
    for (i, j), p in zip(every, corrected, strict=True):
        scores[i, j] = scores[j, i] = found[i, j].score
        errors[i, j] = errors[j, i] = found[i, j].stderr
        adjusted[i, j] = adjusted[j, i] = p
    return AlignmentTable(tuple(names), found, scores, errors, adjusted)


@dataclass(frozen=True)
class CurvePoint:
    """The score at one sample size and one k, averaged over disjoint samples of that size."""

    n: int
    k: int
    score: float
    chance: float
    stderr: float
    samples: int


def alignment_curve(
    pairs: Pairs,
    sizes: Sequence[int],
    plan: Plan,
    *,
    share: float = 0.01,
    most_samples: int = 10,
    names: Sequence[str] = ("A", "B"),
) -> dict[str, list[CurvePoint]]:
    """How the score moves with the number of samples, at fixed k and at k a fixed share of n.

    At fixed k a score falls as the sample grows, because k neighbours reach less far; at a fixed share of n
    it hardly moves. Both belong in a report.

    Parameters
    ----------
    pairs : Pairs of two sides, from `coview.pairing.pair` or `sides.pair_any`
    sizes : sample sizes
    plan : Plan; its permutations are not used
    share : k / n of the second curve
    most_samples : disjoint samples averaged where the rows suffice for several

    Returns
    -------
    {"fixed_k": points, "fixed_share": points}
    """
    curves: dict[str, list[CurvePoint]] = {"fixed_k": [], "fixed_share": []}
    order = np.random.default_rng([plan.seed, 5]).permutation(len(pairs))
    for n in sorted(sizes):
        if not 2 <= n <= len(pairs):
            raise UsageError(f"a sample of {n:,} cannot be drawn from {len(pairs):,} rows.")
        samples = min(most_samples, len(pairs) // n)
        parts = [np.sort(order[s * n : (s + 1) * n]) for s in range(samples)]
        for curve, k in (("fixed_k", plan.k), ("fixed_share", max(1, round(share * n)))):
            if k >= n:
                continue
            results = [_on_sample(pairs, part, replace(plan, k=k, permutations=0), names) for part in parts]
            errors = np.array([result.stderr for result in results])
            curves[curve].append(
                CurvePoint(
                    n=n,
                    k=k,
                    score=float(np.mean([result.score for result in results])),
                    chance=results[0].chance,
                    stderr=float(np.sqrt(np.mean(errors**2) / samples)),
                    samples=samples,
                )
            )
    return curves


def _on_sample(pairs: Pairs, part: np.ndarray, plan: Plan, names) -> Alignment:
    sides = tuple(
        tuple(Rows(rows.matrix, part if rows.order is None else rows.order[part]) for rows in side)
        for side in pairs.sides
    )
    groups = None if pairs.groups is None else np.unique(pairs.groups[part], return_inverse=True)[1]
    sample = Pairs(sides, None, groups, pairs.captions)
    settings = plan.settings(len(part), groups)
    x, y = (
        summarise(prepared_layers(side, plan.recipe, name), plan.how, settings)
        for side, name in zip(sides, names, strict=True)
    )
    return plan.measure(x, y, len(part), settings, sample)
