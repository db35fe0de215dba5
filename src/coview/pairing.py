"""Which row of one encoder belongs to which row of another.

Rows are paired by id. When ids do not match row by row but scenes do, and one side has several rows a scene
(five captions of one photo), they are paired by scene and the captions reduced: ``mean`` averages a scene's
rows, ``first`` takes the first, ``each`` measures with every caption in turn. Only when a side has no ids at
all are rows paired by order, and that is said.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from coview.embeddings import Embeddings
from coview.errors import InputError, UsageError, did_you_mean
from coview.runs import hash_bytes

CAPTIONS = ("mean", "first", "each")


@dataclass(frozen=True)
class Rows:
    """Rows of a matrix (or of each matrix of a list) in an order; as they stand when `order` is None."""

    matrix: np.ndarray | list
    order: np.ndarray | None = None

    def __len__(self) -> int:
        if self.order is not None:
            return len(self.order)
        return len(self.matrix[0]) if isinstance(self.matrix, list) else len(self.matrix)


@dataclass(frozen=True)
class Pairs:
    """Sides whose rows correspond.

    Attributes
    ----------
    sides : one tuple of Rows for each encoder
        Holds one alternative, or with ``each`` one for every caption of a scene; all have the same length.
    ids : tuple of str, or None when paired by order
    groups : ndarray of int, or None; rows of one scene share a number, when any scene has several rows
    captions : "one", "mean", "first" or "each"
    notes : tuple of str, what was done that a reader should know
    """

    sides: tuple[tuple[Rows, ...], ...]
    ids: tuple[str, ...] | None = None
    groups: np.ndarray | None = None
    captions: str = "one"
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.sides[0][0])

    @property
    def rows_hash(self) -> str:
        """Eight digits that tell whether two measurements used the same samples."""
        return "by-order" if self.ids is None else hash_bytes("\n".join(self.ids).encode())[:8]


def pair(
    sides: Sequence[Embeddings],
    *,
    captions: str = "mean",
    exclude: Iterable[str] = (),
    names: Sequence[str] = (),
) -> Pairs:
    """Pair the rows of two or more encoders, sorted by id.

    Parameters
    ----------
    sides : Embeddings of each encoder
    captions : "mean", "first" or "each"
    exclude : ids or scenes to leave out, such as texts known to be in a training set
    names : how to call the sides in messages; A, B, ... by default

    Raises
    ------
    InputError
        The ids or scenes of two sides differ (three of each are shown), or without ids the lengths do.
    """
    if captions not in CAPTIONS:
        hint = did_you_mean(captions, CAPTIONS)
        raise UsageError(f"unknown way to reduce captions {captions!r}.", hint=hint)
    names = names or [chr(ord("A") + number) for number in range(len(sides))]
    excluded = frozenset(exclude)
    without = [name for name, side in zip(names, sides, strict=True) if side.ids is None]
    if without:
        return _by_order(sides, names, without, excluded)
    kept = [_kept(side, excluded) for side in sides]
    ids = [[_ids(side)[row] for row in rows] for side, rows in zip(sides, kept, strict=True)]
    if all(set(one) == set(ids[0]) for one in ids):
        orders = [rows[np.argsort(one)] for rows, one in zip(kept, ids, strict=True)]
        chosen = tuple((_rows(side, order),) for side, order in zip(sides, orders, strict=True))
        return Pairs(chosen, tuple(sorted(ids[0])), _groups(sides, orders))
    return _by_scene(sides, names, kept, captions)


def _by_order(sides, names, without, excluded) -> Pairs:
    if excluded:
        raise UsageError(f"ids can only be excluded where there are ids; {without[0]} has none.")
    for name, side in zip(names, sides, strict=True):
        if len(side.matrix) != len(sides[0].matrix):
            raise InputError(
                f"{len(sides[0].matrix)} rows of {names[0]} and {len(side.matrix)} of {name} "
                "cannot be paired by order.",
                hint="Give all sides ids: NAME.ids.txt beside the file, one id a line.",
            )
    lacking = f"{' and '.join(without)} {'has' if len(without) == 1 else 'have'} no ids"
    every = np.arange(len(sides[0].matrix))
    return Pairs(
        tuple((Rows(side.matrix),) for side in sides),
        groups=_groups(sides, [every] * len(sides)),
        notes=(f"rows paired by their order, because {lacking}",),
    )


def _by_scene(sides, names, kept, captions) -> Pairs:
    rows_of = [_rows_ofscenes_of(side, rows) for side, rows in zip(sides, kept, strict=True)]
    for name, rows in zip(names, rows_of, strict=True):
        if rows.keys() != rows_of[0].keys():
            only_first, only_other = sorted(rows_of[0].keys() - rows), sorted(rows.keys() - rows_of[0])
            raise InputError(
                f"the ids differ. Only in {names[0]} ({len(only_first)}): {_some(only_first)}. "
                f"Only in {name} ({len(only_other)}): {_some(only_other)}.",
                hint="Embed the same scenes on both sides, or leave rows out with --exclude-ids.",
            )
    scenes = sorted(rows_of[0])
    reduced, label, notes = [], "one", []
    for name, side, rows in zip(names, sides, rows_of, strict=True):
        counts = sorted(len(rows[scene]) for scene in scenes)
        several = counts[-1] > 1
        if several:
            label = captions
            span = f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
            notes.append(f"{name} has {span} rows a scene; captions: {captions}")
        if several and captions == "mean":
            reduced.append((Rows(_means(side.matrix, [rows[scene] for scene in scenes])),))
            continue
        slots = counts[0] if captions == "each" else 1
        orders = [np.array([rows[scene][slot] for scene in scenes]) for slot in range(slots)]
        reduced.append(tuple(Rows(side.matrix, order) for order in orders))
    return Pairs(tuple(reduced), tuple(scenes), None, label, tuple(notes))


def _ids(side: Embeddings) -> tuple[str, ...]:
    return side.ids if side.ids is not None else ()


def scenes_of(side: Embeddings) -> tuple[str, ...]:
    """A row without a scene is a scene of its own."""
    return side.scenes if side.scenes is not None else _ids(side)


def _kept(side: Embeddings, excluded: frozenset[str]) -> np.ndarray:
    named = zip(_ids(side), scenes_of(side), strict=True)
    rows = [row for row, words in enumerate(named) if excluded.isdisjoint(words)]
    if not rows:
        raise InputError("nothing is left after leaving ids out.")
    return np.array(rows)


def _rows(side: Embeddings, order: np.ndarray) -> Rows:
    as_it_stands = len(order) == len(side.matrix) and bool((np.diff(order) > 0).all())
    return Rows(side.matrix, None if as_it_stands else order)


def _groups(sides, orders) -> np.ndarray | None:
    for side, order in zip(sides, orders, strict=True):
        if side.scenes is not None:
            labels = np.unique(np.array(side.scenes)[order], return_inverse=True)[1]
            if labels.max() + 1 < len(labels):
                return labels
    return None


def _rows_ofscenes_of(side: Embeddings, kept: np.ndarray) -> dict[str, list[int]]:
    scenes: dict[str, list[int]] = {}
    for row in kept:
        scenes.setdefault(scenes_of(side)[row], []).append(int(row))
    return scenes


def _means(matrix: np.ndarray, rows: list[list[int]]) -> np.ndarray:
    means = [np.asarray(matrix[one], dtype=np.float64).mean(axis=0) for one in rows]
    return np.stack(means).astype(np.float32)


def _some(words: list[str]) -> str:
    return ", ".join(repr(word) for word in words[:3]) or "none"
