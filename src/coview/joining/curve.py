"""How well a map joins two spaces, on scenes it has not seen, and how that grows with the number of pairs."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from coview.alignment.signature import format_signature
from coview.errors import InputError, UsageError
from coview.joining.paired import PairedRows, hold_out
from coview.joining.procrustes import choose_method, fit_rotation, least_pairs
from coview.joining.read_out import HUB_NEIGHBOURS, TOP, ReadOut, read_out
from coview.joining.rotation import Rotation
from coview.runs import hash_bytes

SIZES = (30, 100, 300, 1000, 5000)


@dataclass(frozen=True)
class Fitting:
    """How a map is fitted.

    Attributes
    ----------
    method : "procrustes", "whitened", "ridge"; None is procrustes where widths are equal
    reweight : power of the correlations, for "whitened"
    captions : rows of a scene that are fitted on: "mean", "first" or "each"
    """

    method: str | None = None
    reweight: float = 0.5
    captions: str = "mean"


@dataclass(frozen=True)
class Evaluation:
    """The plain cosine and CSLS, on the same rows, and a line that says what was measured."""

    plain: ReadOut
    csls: ReadOut
    signature: str

    def as_json(self) -> dict:
        return {"plain": self.plain.as_json(), "csls": self.csls.as_json(), "signature": self.signature}


@dataclass(frozen=True)
class Point:
    """One number of pairs: a read-out for each seed."""

    pairs: int
    evaluations: tuple[Evaluation, ...]

    def as_json(self) -> dict:
        document: dict = {"pairs": self.pairs, "seeds": len(self.evaluations)}
        for kind in ("plain", "csls"):
            read = [getattr(one, kind) for one in self.evaluations]
            document[kind] = {"foscttm": _spread([one.foscttm for one in read])}
            for way in ("x_to_y", "y_to_x"):
                found = [getattr(one, way) for one in read]
                document[kind][way] = {
                    **{f"recall_{k}": _spread([one.recall[k].value for one in found]) for k in TOP},
                    "median_rank": _spread([one.median_rank for one in found]),
                }
        return document


def fit(pairs: PairedRows, items: np.ndarray, fitting: Fitting, seed: int = 0) -> Rotation:
    """A map fitted on some items; what it was fitted on goes into it."""
    x, y = pairs.training_sides(items, fitting.captions)
    return fit_rotation(
        x,
        y,
        method=fitting.method,
        reweight=fitting.reweight,
        seed=seed,
        made_by=(pairs.x.manifest, pairs.y.manifest),
        scenes=tuple(pairs.scenes[item] for item in items),
    )


def evaluate(rotation: Rotation, pairs: PairedRows, items: np.ndarray, seed: int = 0) -> Evaluation:
    """Search some items with each other across the map, both ways, by the cosine and by CSLS."""
    x, y, items_x, items_y = pairs.galleries(items)
    mapped, target = rotation.map(x), rotation.target(y)
    plain, hubs_removed = (
        read_out(mapped, target, scenes_x=items_x, scenes_y=items_y, hub_neighbours=hubs, seed=seed)
        for hubs in (0, HUB_NEIGHBOURS)
    )
    parts = {
        "scenes": plain.scenes,
        "rows": f"{len(items_x)}x{len(items_y)}",
        "sim": "cosine",
        "csls": HUB_NEIGHBOURS,
        "center": "train",
        "ties": "expected",
        "items": hash_bytes(np.sort(items).tobytes(), pairs.rows_hash.encode())[:8],
        "map": rotation.manifest["recipe"]["method"],
        "pairs": rotation.manifest["pairs"],
        "v": "0.1",
    }
    return Evaluation(plain, hubs_removed, format_signature("cross_retrieval", parts))


def unseen(rotation: Rotation, pairs: PairedRows) -> tuple[np.ndarray, tuple[str, ...]]:
    """The items whose scenes a map was not fitted on, and what to say about the others.

    Raises
    ------
    InputError
        The map was fitted on all of them.
    """
    if rotation.fitted_on is None:
        return np.arange(len(pairs)), ("the map does not say what it was fitted on",)
    seen = rotation.was_fitted_on(pairs.scenes)
    if seen.all():
        raise InputError(
            f"the map was fitted on all {len(seen):,} of these scenes.", hint="Evaluate it on others."
        )
    known_by = " (known by their places in files of this length)" if pairs.names is None else ""
    left_out = f"{int(seen.sum()):,} items the map was fitted on are left out{known_by}"
    notes = (left_out,) if seen.any() else ()
    return np.flatnonzero(~seen), notes


def learning_curve(
    pairs: PairedRows,
    *,
    sizes: Iterable[int] = SIZES,
    seeds: Sequence[int] = (0, 1, 2),
    fitting: Fitting | None = None,
    held: int | None = None,
    test: PairedRows | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[list[Point], tuple[str, ...]]:
    """Read-outs of maps fitted on growing numbers of pairs, and on all.

    A seed draws which scenes are held out and the order of the others; smaller sets lie in larger ones.

    Parameters
    ----------
    pairs : PairedRows to fit on
    sizes : numbers of items to fit on; 0, which is chance, more than there are, and fewer than the method
        needs are left out, all are added
    seeds : one map for each
    fitting : Fitting
    held : int, scenes held out, see `hold_out`; of no use with `test`
    test : PairedRows to evaluate on instead of held-out items; scenes that are in it are never fitted on
    progress : called with the number of maps done

    Returns
    -------
    points : list of Point
    notes : tuple of str, which sizes were too small for the method

    Raises
    ------
    UsageError
        A size below 2, or no seed.
    InputError
        All pairs are too few for the method.
    """
    if not seeds:
        raise UsageError("a curve needs a seed.", where="--seeds")
    fitting = fitting or Fitting()
    plans = []
    for seed in seeds:
        if test is None:
            order, held_items = hold_out(pairs, held, seed)
        else:
            order, held_items = _outside(pairs, test, seed), np.arange(len(test))
        plans.append((seed, order, held_items))
    most = min(len(order) for _, order, _ in plans)
    sizes = sorted({size for size in sizes if 0 < size < most} | {most})
    if sizes[0] < 2:
        raise UsageError(f"a map cannot be fitted on {sizes[0]} pairs.", where="--sizes")
    sizes, notes = _large_enough(pairs, sizes, fitting)
    points, done = [], 0
    for size in sizes:
        found = []
        for seed, order, held_items in plans:
            rotation = fit(pairs, np.sort(order[:size]), fitting, seed)
            found.append(evaluate(rotation, test or pairs, held_items, seed))
            progress(done := done + 1)
        points.append(Point(size, tuple(found)))
    return points, notes


def _large_enough(pairs: PairedRows, sizes: list[int], fitting: Fitting) -> tuple[list[int], tuple[str, ...]]:
    """The sizes that the method can be fitted on, the last in any case, and a note that names the others."""
    widths = pairs.x.matrix.shape[1], pairs.y.matrix.shape[1]
    method = choose_method(fitting.method, *widths)
    least = math.ceil(least_pairs(method, *widths) / pairs.pairs_an_item(fitting.captions))
    small = [size for size in sizes[:-1] if size < least]
    if not small:
        return sizes, ()
    named = ", ".join(f"{size:,}" for size in small)
    needed = f"{method} between spaces of width {widths[0]:,} and {widths[1]:,} needs {least:,}"
    return sizes[len(small) :], (f"sizes left out: {named}; {needed}",)


def _outside(pairs: PairedRows, test: PairedRows, seed: int) -> np.ndarray:
    """Items of scenes that the test does not show, in an order drawn by seed."""
    order = np.random.default_rng([seed, 20]).permutation(len(pairs))
    if pairs.names is None or test.names is None:
        return order
    tested = set(test.scenes)
    kept = order[[pairs.scenes[item] not in tested for item in order]]
    if not len(kept):
        raise InputError("every scene to fit on is a test scene.")
    return kept


def _spread(values: list[float]) -> dict:
    """Mean over seeds and, of more than one, the standard deviation."""
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return {"mean": float(np.mean(values)), "deviation": deviation}
