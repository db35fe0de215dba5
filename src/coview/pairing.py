"""Which row of one encoder belongs to which row of another.

Rows are paired by id. When ids do not match row by row but scenes do, and one side has several rows a scene
(five captions of one photo) and the other one, they are paired by scene and the captions reduced: ``mean``
averages a scene's rows, ``first`` takes the first, ``each`` measures with every caption in turn. Only when a
side has no ids at all are rows paired by order, and that is said.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from coview.embeddings import Embeddings
from coview.errors import InputError, UsageError, did_you_mean
from coview.runs import hash_bytes

CAPTIONS = ("mean", "first", "each")


@dataclass(frozen=True)
class Rows:
    """Rows of a matrix in an order; all of them as they stand when `order` is None."""

    matrix: np.ndarray
    order: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.matrix) if self.order is None else len(self.order)


@dataclass(frozen=True)
class Pairs:
    """Two sides whose rows correspond.

    Attributes
    ----------
    x, y : tuple of Rows
        One alternative a side, or with ``each`` one for every caption of a scene; all have the same length.
    ids : tuple of str, or None when paired by order
    groups : ndarray of int, or None; rows of one scene share a number, when any scene has several rows
    captions : "one", "mean", "first" or "each"
    notes : tuple of str, what was done that a reader should know
    """

    x: tuple[Rows, ...]
    y: tuple[Rows, ...]
    ids: tuple[str, ...] | None
    groups: np.ndarray | None
    captions: str
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.x[0])

    @property
    def rows_hash(self) -> str:
        """Eight digits that tell whether two measurements used the same samples."""
        return "by-order" if self.ids is None else hash_bytes("\n".join(self.ids).encode())[:8]


def pair(
    x: Embeddings, y: Embeddings, *, captions: str = "mean", exclude: Iterable[str] = (), names=("A", "B")
) -> Pairs:
    """Pair the rows of two encoders.

    Parameters
    ----------
    x, y : Embeddings
    captions : "mean", "first" or "each"
    exclude : ids or scenes to leave out on both sides, such as texts known to be in a training set
    names : how to call the sides in messages

    Raises
    ------
    InputError
        The ids or scenes of the sides differ (three of each side are shown), or without ids the lengths do.
    """
    if captions not in CAPTIONS:
        raise UsageError(
            f"unknown way to reduce captions {captions!r}.", hint=did_you_mean(captions, CAPTIONS)
        )
    excluded = frozenset(exclude)
    if x.ids is None or y.ids is None:
        return _by_order(x, y, excluded, names)
    kept_x, kept_y = (_kept(side, excluded) for side in (x, y))
    ids_x, ids_y = ([side.ids[row] for row in kept] for side, kept in ((x, kept_x), (y, kept_y)))
    if set(ids_x) == set(ids_y):
        order_x, order_y = (kept[np.argsort(ids)] for kept, ids in ((kept_x, ids_x), (kept_y, ids_y)))
        ids = tuple(x.ids[row] for row in order_x)
        return Pairs((_rows(x, order_x),), (_rows(y, order_y),), ids, _groups(x, y, order_x, order_y), "one")
    return _by_scene(x, y, kept_x, kept_y, captions, names)


def _by_order(x: Embeddings, y: Embeddings, excluded: frozenset[str], names) -> Pairs:
    without = [name for name, side in zip(names, (x, y), strict=True) if side.ids is None]
    if excluded:
        raise UsageError(f"ids can only be excluded where there are ids; {without[0]} has none.")
    if len(x.matrix) != len(y.matrix):
        raise InputError(
            f"{len(x.matrix)} rows of {names[0]} cannot be paired with {len(y.matrix)} of {names[1]} by order.",
            hint="Give both sides ids: NAME.ids.txt beside the file, one id a line.",
        )
    note = f"rows paired by their order, because {' and '.join(without)} {'has' if len(without) == 1 else 'have'} no ids"
    every = np.arange(len(x.matrix))
    return Pairs((Rows(x.matrix),), (Rows(y.matrix),), None, _groups(x, y, every, every), "one", (note,))


def _by_scene(x, y, kept_x, kept_y, captions, names) -> Pairs:
    scenes_x, scenes_y = (_rows_of_scenes(side, kept) for side, kept in ((x, kept_x), (y, kept_y)))
    if scenes_x.keys() != scenes_y.keys():
        only_x, only_y = (
            sorted(a.keys() - b.keys()) for a, b in ((scenes_x, scenes_y), (scenes_y, scenes_x))
        )
        raise InputError(
            f"the ids differ. Only in {names[0]} ({len(only_x)}): {_some(only_x)}. "
            f"Only in {names[1]} ({len(only_y)}): {_some(only_y)}.",
            hint="Embed the same scenes on both sides, or leave rows out with --exclude-ids.",
        )
    scenes = sorted(scenes_x)
    sides, notes, reduced = [], [], "one"
    for name, side, rows in ((names[0], x, scenes_x), (names[1], y, scenes_y)):
        counts = [len(rows[scene]) for scene in scenes]
        if max(counts) == 1:
            sides.append((Rows(side.matrix, np.array([rows[scene][0] for scene in scenes])),))
            continue
        reduced = captions
        span = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
        notes.append(f"{name} has {span} rows a scene; captions: {captions}")
        if captions == "mean":
            sides.append((Rows(_means(side.matrix, [rows[scene] for scene in scenes])),))
        else:
            slots = min(counts) if captions == "each" else 1
            sides.append(
                tuple(
                    Rows(side.matrix, np.array([rows[scene][slot] for scene in scenes]))
                    for slot in range(slots)
                )
            )
    return Pairs(sides[0], sides[1], tuple(scenes), None, reduced, tuple(notes))


def _kept(side: Embeddings, excluded: frozenset[str]) -> np.ndarray:
    scenes = side.scenes or side.ids
    return np.array(
        [row for row, id in enumerate(side.ids or ()) if id not in excluded and scenes[row] not in excluded],
        dtype=np.int64,
    )


def _rows(side: Embeddings, order: np.ndarray) -> Rows:
    as_it_stands = len(order) == len(side.matrix) and bool((np.diff(order) > 0).all())
    return Rows(side.matrix, None if as_it_stands else order)


def _groups(x: Embeddings, y: Embeddings, order_x, order_y) -> np.ndarray | None:
    for side, order in ((x, order_x), (y, order_y)):
        if side.scenes is not None and len(set(side.scenes)) < len(side.scenes):
            return np.unique(np.array(side.scenes)[order], return_inverse=True)[1]
    return None


def _rows_of_scenes(side: Embeddings, kept: np.ndarray) -> dict[str, list[int]]:
    names = side.scenes or side.ids
    scenes: dict[str, list[int]] = {}
    for row in kept:
        scenes.setdefault(names[row], []).append(int(row))
    return scenes


def _means(matrix: np.ndarray, rows: list[list[int]]) -> np.ndarray:
    return np.stack([np.asarray(matrix[one], dtype=np.float64).mean(axis=0) for one in rows]).astype(
        np.float32
    )


def _some(words: list[str]) -> str:
    return ", ".join(repr(word) for word in words[:3]) or "none"
