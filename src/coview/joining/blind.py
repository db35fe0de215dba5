"""The rotation between two spaces, found without a single pair, or the answer that it cannot be found.

Items of both sides are split into halves that share nothing, and a rotation is searched on each: proposals
(`proposals`), a few steps of soft matching each, the best by the score on held-out rows refined on growing
batches (`refinement`). What both halves find alike is joined, refined on all rows and called found, if it
also passes the tests of `identification`. Where views of scenes are known, rows are sharpened first
(`sharpening`), by the power at which the halves agree best.

With one seed the outcome is the same to the bit at any number of threads: linear algebra runs on one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from coview.alignment.signature import format_signature
from coview.errors import InputError, UsageError
from coview.joining import refinement
from coview.joining.identification import Evidence, weigh
from coview.joining.non_gaussianity import NonGaussianity, non_gaussianity
from coview.joining.proposals import proposals
from coview.joining.refinement import draw, matched_similarity, polar, soft_steps
from coview.joining.rotation import Rotation
from coview.joining.sharpening import Side, open_side
from coview.joining.space import describe_space

FOUND, NOT_IDENTIFIED = "found", "not identified"
LEAST_ITEMS = 200
POWERS = (1.0, 2.0)
MATCHINGS = 9
REFINED = 3
HELD = 600


@dataclass(frozen=True)
class BlindFit:
    """What a search without pairs has found.

    Attributes
    ----------
    verdict : "found" or "not identified"
    reasons : tuple of str, why not
    rotation : Rotation, or None unless found
    evidence : Evidence, or None where there were too few items to search
    power : float, of the sharpening at which it was searched; 0 for none
    agreements : dict, agreement of the halves at each power that was tried
    non_gaussianity : NonGaussianity of X and of Y
    items : tuple of int, items of X and of Y
    known_pairs : int
    seed : int
    """

    verdict: str
    reasons: tuple[str, ...]
    rotation: Rotation | None
    evidence: Evidence | None
    power: float
    agreements: dict[float, float]
    non_gaussianity: tuple[NonGaussianity, NonGaussianity]
    items: tuple[int, int]
    known_pairs: int
    seed: int

    @property
    def score(self) -> float | None:
        """Mean cosine of rows matched one to one, held out from the search; see `Evidence`."""
        return self.evidence.score if self.evidence else None

    @property
    def null(self) -> float | None:
        """The best score that flips of principal axes reach."""
        return max(self.evidence.null) if self.evidence else None

    @property
    def agreement(self) -> float | None:
        """Of searches on disjoint halves: 1 the same rotation, 0 unrelated ones."""
        return self.evidence.agreement if self.evidence else None

    def as_json(self) -> dict:
        """The document of the fit; the rotation itself goes into a file of its own."""
        evidence = self.evidence and {
            "fit": self.evidence.fit,
            "p_value": self.evidence.p_value,
            "self_score": self.evidence.self_score,
        }
        return {
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "score": self.score,
            "null": self.null,
            "agreement": self.agreement,
            **(evidence or {}),
            "power": self.power,
            "agreements": {f"{power:g}": value for power, value in self.agreements.items()},
            "non_gaussianity": {
                side: one.as_json() for side, one in zip("xy", self.non_gaussianity, strict=True)
            },
            "items": list(self.items),
            "known_pairs": self.known_pairs,
            "seed": self.seed,
        }


def find_rotation(
    x,
    y,
    *,
    seed: int = 0,
    views_x: Sequence | None = None,
    views_y: Sequence | None = None,
    known_pairs: Sequence[tuple[int, int]] | None = None,
    powers: Sequence[float] | None = None,
    matchings: int = MATCHINGS,
    made_by: tuple[dict, dict] = ({}, {}),
    progress: Callable[[str], None] | None = None,
) -> BlindFit:
    """Search the rotation from X to Y with no pair, or with few.

    Parameters
    ----------
    x, y : arrays of shape (N, Dx) and (M, Dy), rows of two encoders; no row needs a partner
    seed : int
    views_x, views_y : sequences of N and M ids, optional
        The scene of each row. Rows of one scene are averaged and tell which directions views share.
        The two sides need not have a scene in common, and ids are never compared across sides.
    known_pairs : sequence of (row of X, row of Y), optional
        Pairs that are known after all; they pull at every step, as strongly as all matched rows.
    powers : sequence of float, optional
        Powers of sharpening to try: 1 and 2 where both sides have views, otherwise none (0).
    matchings : int, matchings of cluster centres in each search: more find more, and take longer
    made_by : manifests of the embeddings on both sides, by which their spaces are recognised later
    progress : called with a line of text as the search goes on

    Returns
    -------
    BlindFit
        Its matrix is (semi-)orthogonal and applies to rows as they are: sharpening serves the search alone.

    Raises
    ------
    InputError
        Rows that are no finite matrix; known pairs that point outside.
    UsageError
        A power other than 0 without views on both sides.
    """
    with threadpool_limits(1, "blas"):
        sides = open_side(x, views_x, "X"), open_side(y, views_y, "Y")
        pairs = _known_items(known_pairs, (views_x, views_y), (x.shape[0], y.shape[0]))
        return _find(sides, seed, pairs, _powers(powers, sides), matchings, made_by, progress or _silent)


def _find(sides, seed, pairs, powers, matchings, made_by, progress) -> BlindFit:
    counts = len(sides[0].items), len(sides[1].items)
    shapes = non_gaussianity(sides[0].items, seed), non_gaussianity(sides[1].items, seed)

    def outcome(reasons, rotation=None, evidence=None, power=0.0, agreements=None) -> BlindFit:
        verdict = FOUND if rotation is not None else NOT_IDENTIFIED
        return BlindFit(
            verdict,
            reasons,
            rotation,
            evidence,
            power,
            agreements or {},
            shapes,
            counts,
            len(pairs),
            seed,
        )

    if min(counts) < LEAST_ITEMS:
        return outcome((f"{min(counts)} items are too few to search on: {LEAST_ITEMS} are needed",))
    halves = tuple(
        np.array_split(np.random.default_rng([seed, 31, one]).permutation(count), 2)
        for one, count in enumerate(counts)
    )
    tried: dict[float, tuple[list[np.ndarray], Evidence]] = {}
    for power in powers:
        rows = [side.at(power) for side in sides]
        parts = [(rows[0][a], rows[1][b]) for a, b in zip(*halves, strict=True)]
        known = _known_cross(rows, pairs)
        found = []
        for half, (a, b) in enumerate(parts):
            progress(f"searching half {half + 1} of 2 at power {power:g}")
            rng = np.random.default_rng([seed, 32, half, round(1000 * power)])
            found.append(search(a, b, rng, matchings=matchings, known=known))
        rng = np.random.default_rng([seed, 33, round(1000 * power)])
        split_x, split_y = zip(*parts, strict=True)
        tried[power] = found, weigh((found[0], found[1]), split_x, split_y, rng)
    power = max(tried, key=lambda one: tried[one][1].agreement)
    found, evidence = tried[power]
    agreements = {one: weighed.agreement for one, (_, weighed) in tried.items()}
    reasons = evidence.objections()
    if reasons:
        return outcome(reasons, None, evidence, power, agreements)
    progress("refining on all rows")
    matrix = _join(sides, found, power, pairs, seed)
    recipe = {"method": "blind", "center": "train", "unit": True, "searched_at": power}
    details = {**recipe, "items": "x".join(map(str, counts)), "pairs": len(pairs), "seed": seed, "v": "0.1"}
    manifest = {
        "x": describe_space(sides[0].mean, sides[0].spread, made_by[0]),
        "y": describe_space(sides[1].mean, sides[1].spread, made_by[1]),
        "recipe": recipe,
        "pairs": len(pairs),
        "rank": min(matrix.shape),
        "seed": seed,
        "signature": format_signature("rotation", details),
    }
    rotation = Rotation(matrix.astype(np.float32), sides[0].mean, sides[1].mean, manifest)
    return outcome((), rotation, evidence, power, agreements)


def search(
    x: np.ndarray,
    y: np.ndarray,
    rng: np.random.Generator,
    *,
    matchings: int = MATCHINGS,
    known: np.ndarray | None = None,
) -> np.ndarray:
    """The best rotation (Dx, Dy) by the score on rows held out from proposals and refinement.

    Parameters
    ----------
    x, y : arrays of shape (N, Dx) and (M, Dy), unit rows
    """
    (x, held_x), (y, held_y) = _hold_out(x, rng), _hold_out(y, rng)
    candidates = [] if known is None else [polar(known)]
    candidates += [rotation for _, rotation in proposals(x, y, rng, matchings=matchings)]
    candidates = [soft_steps(one, x, y, rng, rounds=3, known=known) for one in candidates]
    candidates.sort(key=lambda one: -matched_similarity(one, held_x, held_y))
    refined = []
    for candidate in candidates[:REFINED]:
        refined += _refine(candidate, x, y, rng, known)
    return max(refined, key=lambda one: matched_similarity(one, held_x, held_y))


def _refine(rotation, x, y, rng, known) -> list[np.ndarray]:
    rotation = soft_steps(rotation, x, y, rng, rounds=8, known=known)
    grown = refinement.growing_steps(rotation, x, y, rng, known=known)
    return [rotation, grown, refinement.neighbour_steps(grown, x, y, rng, known=known)]


def _join(sides: tuple[Side, Side], found, power: float, pairs: np.ndarray, seed: int) -> np.ndarray:
    """Refine what both halves agree on, on all rows, sharpened less and less and at last not at all."""
    rng = np.random.default_rng([seed, 34])
    together = polar(found[0] + found[1])
    for at in dict.fromkeys((power, power / 2, 0.0)):
        x, y = (side.at(at) for side in sides)
        known = _known_cross([x, y], pairs)
        (x, held_x), (y, held_y) = _hold_out(x, rng), _hold_out(y, rng)
        choices = [together, *_refine(together, x, y, rng, known)]
        together = max(choices, key=lambda one: matched_similarity(one, held_x, held_y))
    return together


def _hold_out(rows: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    held = min(HELD, len(rows) // 4)
    rows = draw(rng, rows, len(rows))
    return rows[held:], rows[:held]


def _powers(powers: Sequence[float] | None, sides: tuple[Side, Side]) -> tuple[float, ...]:
    views = all(side.between is not None for side in sides)
    if powers is None:
        return POWERS if views else (0.0,)
    if not powers or any(not np.isfinite(power) or power < 0 for power in powers):
        raise UsageError("powers of sharpening are numbers from 0 up.")
    if any(powers) and not views:
        hint = "Name the scene of each row on both sides."
        raise UsageError("sharpening needs several views of a scene on both sides.", hint=hint)
    return tuple(float(power) for power in dict.fromkeys(powers))


def _known_items(known_pairs, views, counts) -> np.ndarray:
    """Known pairs of rows as pairs of items, shape (P, 2)."""
    pairs = np.asarray([] if known_pairs is None else known_pairs).reshape(-1, 2)
    if pairs.size and pairs.dtype.kind not in "iu":
        raise InputError("known pairs are pairs of row numbers.", where="known pairs")
    pairs = pairs.astype(np.int64)
    columns = []
    for rows, ids, count in zip(pairs.T, views, counts, strict=True):
        if rows.size and (rows.min() < 0 or rows.max() >= count):
            what = f"row {int(rows[(rows < 0) | (rows >= count)][0])} is not among {count:,} rows."
            raise InputError(what, where="known pairs")
        items = np.arange(count) if ids is None else np.unique(np.asarray(ids), return_inverse=True)[1]
        columns.append(items[rows])
    return np.stack(columns, axis=1)


def _known_cross(rows: Sequence[np.ndarray], pairs: np.ndarray) -> np.ndarray | None:
    return rows[0][pairs[:, 0]].T @ rows[1][pairs[:, 1]] if len(pairs) else None


def _silent(_: str) -> None:
    """Say nothing."""
