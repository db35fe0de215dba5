"""Two embedding files and which of their rows show the same scene; some scenes are always held out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coview.alignment.recipes import Layer
from coview.embeddings import Embeddings
from coview.errors import InputError, UsageError
from coview.pairing import CAPTIONS, Pairs, pair, scenes_of
from coview.runs import hash_bytes

LEAST_HELD = 2
MOST_HELD = 1000


@dataclass(frozen=True)
class PairedRows:
    """Items that both sides show; an item is a scene, or a row where both sides have the same ids.

    Attributes
    ----------
    x, y : Embeddings
    rows_x, rows_y : ndarrays of shape (N, Cx) and (N, Cy), int: the rows of each item on either side
    names : tuple of N str, or None where rows are paired by order
    scenes : tuple of N str: the scene of each item, several of which may share one; "row i of N" by order
    notes : tuple of str, what was done that a reader should know
    files : the two sides' names, for errors
    """

    x: Embeddings
    y: Embeddings
    rows_x: np.ndarray
    rows_y: np.ndarray
    names: tuple[str, ...] | None
    scenes: tuple[str, ...]
    notes: tuple[str, ...] = ()
    files: tuple[str, str] = ("A", "B")

    def __len__(self) -> int:
        return len(self.rows_x)

    @property
    def rows_hash(self) -> str:
        """Eight digits that tell whether two measurements used the same items."""
        return "by-order" if self.names is None else hash_bytes("\n".join(self.names).encode())[:8]

    @property
    def groups(self) -> np.ndarray:
        """The number of each item's scene: N int, from 0."""
        return np.unique(np.array(self.scenes), return_inverse=True)[1]

    def pairs_an_item(self, captions: str) -> int:
        """How many pairs of rows an item gives a fit."""
        return max(self.rows_x.shape[1], self.rows_y.shape[1]) if captions == "each" else 1

    def training_sides(self, items: np.ndarray, captions: str = "mean") -> tuple[Layer, Layer]:
        """Rows to fit a map on: for each item the mean of its rows, the first, or each of them."""
        if captions not in CAPTIONS:
            raise UsageError(f"unknown way to reduce captions {captions!r}.", hint=f"Known: {CAPTIONS}.")
        rows = self.rows_x[items], self.rows_y[items]
        slots = self.pairs_an_item(captions)
        sides = []
        for matrix, own, name in zip((self.x.matrix, self.y.matrix), rows, self.files, strict=True):
            if captions == "mean" and own.shape[1] > 1:
                total = sum(np.asarray(matrix[slot], dtype=np.float64) for slot in own.T)
                means = (total / own.shape[1]).astype(np.float32)
                sides.append(Layer(means, name=f"{name}, means of scenes"))
            else:
                order = np.concatenate([own[:, slot % own.shape[1]] for slot in range(slots)])
                sides.append(Layer(matrix, order=order, name=name))
        return sides[0], sides[1]

    def galleries(self, items: np.ndarray) -> tuple[Layer, Layer, np.ndarray, np.ndarray]:
        """All rows of some items: layers of both sides and the item of each row."""
        layers, labels = [], []
        for matrix, own in ((self.x.matrix, self.rows_x[items]), (self.y.matrix, self.rows_y[items])):
            layers.append(Layer(matrix, order=own.ravel()))
            labels.append(np.repeat(items, own.shape[1]))
        return layers[0], layers[1], labels[0], labels[1]


def pair_up(x: Embeddings, y: Embeddings, names: Sequence[str] = ("A", "B")) -> PairedRows:
    """Find the rows of both sides that belong together: by id where ids are shared, else by scene.

    What has no partner is left out, and that is said. A scene with several rows keeps the number that every
    scene has on that side.

    Raises
    ------
    InputError
        No id and no scene is on both sides; without ids, the numbers of rows differ; a side holds layers.
    """
    for side, name in zip((x, y), names, strict=True):
        if side.matrix.ndim != 2:
            what = f"it holds {side.matrix.shape[1]} layers; a map joins one with one."
            raise InputError(what, where=name, hint="coview embed --layers last keeps one.")
    left_out, notes = _without_partner(x, y, names)
    pairs = pair([x, y], captions="each", exclude=left_out, names=names)
    rows_x, rows_y = (_rows(pairs, side) for side in range(2))
    if pairs.ids is None:
        scenes = tuple(f"row {row} of {len(pairs)}" for row in range(len(pairs)))
    else:
        labelled = x if x.scenes is not None else y
        scenes = tuple(scenes_of(labelled)[row] for row in (rows_x if labelled is x else rows_y)[:, 0])
    notes += [note.removesuffix("; captions: each") for note in pairs.notes]
    return PairedRows(x, y, rows_x, rows_y, pairs.ids, scenes, tuple(notes), (names[0], names[1]))


def hold_out(pairs: PairedRows, held: int | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Items to fit on, in an order drawn by seed, and held-out items of other scenes.

    The first N of the former are the pairs of a fit with N pairs, so that smaller sets lie in larger ones.

    Parameters
    ----------
    held : int, scenes held out; a fifth of them, at most 1,000, by default

    Raises
    ------
    UsageError
        So many held out that none is left, or fewer than two.
    """
    groups = pairs.groups
    number = int(groups.max()) + 1
    held = min(MOST_HELD, max(LEAST_HELD, number // 5)) if held is None else held
    if not LEAST_HELD <= held < number:
        raise UsageError(
            f"of {number} scenes {held} cannot be held out: at least {LEAST_HELD}, and some must be left.",
            where="--holdout",
        )
    place = np.empty(number, dtype=np.int64)
    place[np.random.default_rng([seed, 20]).permutation(number)] = np.arange(number)
    order = np.argsort(place[groups], kind="stable")
    kept = place[groups[order]] >= held
    return order[kept], np.sort(order[~kept])


def _rows(pairs: Pairs, side: int) -> np.ndarray:
    every = np.arange(len(pairs))
    return np.stack([every if rows.order is None else rows.order for rows in pairs.sides[side]], axis=1)


def _without_partner(x: Embeddings, y: Embeddings, names: Sequence[str]) -> tuple[set[str], list[str]]:
    """Ids or scenes that one side lacks, and a note about them."""
    if x.ids is None or y.ids is None:
        return set(), []
    by_id = set(x.ids), set(y.ids)
    words = by_id if by_id[0] & by_id[1] else (set(scenes_of(x)), set(scenes_of(y)))
    if not words[0] & words[1]:
        shown = [", ".join(map(repr, side.ids[:3])) for side in (x, y) if side.ids]
        raise InputError(
            f"{names[0]} and {names[1]} share no id and no scene: {names[0]} has {shown[0]}, "
            f"{names[1]} has {shown[1]}.",
            hint="Embed the same scenes on both sides, or use --pairs none.",
        )
    only = words[0] - words[1], words[1] - words[0]
    kind = "ids" if words is by_id else "scenes"
    notes = [
        f"{len(alone):,} {kind} of {name} have no partner and were left out"
        for alone, name in zip(only, names, strict=True)
        if alone
    ]
    return only[0] | only[1], notes
