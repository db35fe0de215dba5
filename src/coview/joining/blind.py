"""The rotation between two spaces, found without a single pair, or the answer that it cannot be found.

Items of both sides are split into halves that share nothing, and a rotation is searched on each: proposals
(`proposals`), a few steps of soft matching each, the best by the score on held-out rows refined on growing
batches (`search`, `refinement`). What both halves find alike is joined, refined on all rows and called
found, if it also passes the tests of `identification`. Where views of scenes are known, the search runs on
rows sharpened by several powers (`sharpening`), and the score chooses.

With one seed the outcome is the same to the bit at any number of threads: linear algebra runs on one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from coview.alignment.signature import format_signature
from coview.errors import InputError, UsageError
from coview.joining.identification import Evidence, weigh
from coview.joining.non_gaussianity import NonGaussianity, non_gaussianity
from coview.joining.rotation import Rotation
from coview.joining.search import MATCHINGS, clouds, join, search, split
from coview.joining.sharpening import Side, open_side
from coview.joining.space import describe_space

FOUND, NOT_IDENTIFIED = "found", "not identified"
LEAST_ITEMS = 200
POWERS = (0.5, 1.0, 2.0)


@dataclass(frozen=True)
class BlindFit:
    """What a search without pairs has found.

    Attributes
    ----------
    verdict : "found" or "not identified"
    reasons : tuple of str, why not
    rotation : Rotation, or None unless found
    evidence : Evidence, or None where there were too few items to search
    powers : tuple of float
        The sharpening at which the search on each half met what it settled on; 0 for none, empty if there
        was no search.
    non_gaussianity : NonGaussianity of X and of Y
    items : tuple of int, items of X and of Y
    known_pairs : int
    seed : int
    """

    verdict: str
    reasons: tuple[str, ...]
    rotation: Rotation | None
    evidence: Evidence | None
    powers: tuple[float, ...]
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
            "powers": list(self.powers),
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
        Powers of sharpening to search at: ½, 1 and 2 where both sides have views, otherwise none (0).
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
        A power other than 0 without views on both sides; no matchings.
    """
    with threadpool_limits(1, "blas"):
        sides = open_side(x, views_x, "X"), open_side(y, views_y, "Y")
        if matchings < 1:
            raise UsageError(f"{matchings} matchings of cluster centres; at least one is needed.")
        pairs = _known_items(known_pairs, (views_x, views_y), (x.shape[0], y.shape[0]))
        return _find(sides, seed, pairs, _powers(powers, sides), matchings, made_by, progress or _silent)


def _find(sides, seed, pairs, powers, matchings, made_by, progress) -> BlindFit:
    counts = len(sides[0].items), len(sides[1].items)
    shapes = non_gaussianity(sides[0].items, seed), non_gaussianity(sides[1].items, seed)

    def outcome(reasons, rotation=None, evidence=None, met=()) -> BlindFit:
        verdict = FOUND if rotation is not None else NOT_IDENTIFIED
        return BlindFit(verdict, reasons, rotation, evidence, met, shapes, counts, len(pairs), seed)

    if min(counts) < LEAST_ITEMS:
        return outcome((f"{min(counts)} items are too few to search on: {LEAST_ITEMS} are needed",))
    x, y = ({power: side.at(power) for power in powers} for side in sides)
    known = {power: _known_cross(x[power], y[power], pairs) for power in powers}
    halves = list(zip(*(split(count, seed, side) for side, count in enumerate(counts)), strict=True))
    found, met = [], []
    for half, (own_x, own_y) in enumerate(halves):
        progress(f"searching half {half + 1} of 2")
        rng = np.random.default_rng([seed, 32, half])
        part_x, part_y = ({at: rows[at][own] for at in powers} for rows, own in ((x, own_x), (y, own_y)))
        rotation, power = search(clouds(part_x, part_y, rng, known), rng, matchings=matchings)
        found.append(rotation)
        met.append(power)
    progress("weighing what was found")
    (ax, ay), (bx, by) = halves
    x_least, y_least = x[min(powers)], y[min(powers)]
    both = (x_least[ax], x_least[bx]), (y_least[ay], y_least[by])
    evidence = weigh((found[0], found[1]), *both, np.random.default_rng([seed, 33]))
    if reasons := evidence.objections():
        return outcome(reasons, None, evidence, tuple(met))
    progress("refining on all rows")
    rng = np.random.default_rng([seed, 34])
    x, y = ({power: side.at(power) for power in (min(powers), 0.0)} for side in sides)
    known = {power: _known_cross(x[power], y[power], pairs) for power in x}
    matrix = join((found[0], found[1]), clouds(x, y, rng, known), rng)
    recipe = {"method": "blind", "center": "train", "unit": True, "searched_at": list(powers)}
    details = {
        "method": "blind",
        "center": "train",
        "unit": True,
        "items": "x".join(map(str, counts)),
        "pairs": len(pairs),
        "seed": seed,
        "v": "0.1",
    }
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
    return outcome((), rotation, evidence, tuple(met))


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


def _known_cross(x: np.ndarray, y: np.ndarray, pairs: np.ndarray) -> np.ndarray | None:
    return x[pairs[:, 0]].T @ y[pairs[:, 1]] if len(pairs) else None


def _silent(_: str) -> None:
    """Say nothing."""
