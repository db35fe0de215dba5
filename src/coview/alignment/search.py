"""The search behind `neighbours`: products of blocks, and from them the ranked nearest of every row.

Similarities come from single precision products, one block at a time. Wherever two of them are too close for
single precision to order, they are computed again in double precision, pair by pair.
"""

from dataclasses import dataclass

import numpy as np

from coview.alignment.gpu import TensorScores, gpu_of
from coview.alignment.rows import read_rows, row_norms, similarity
from coview.errors import InputError


@dataclass(frozen=True)
class ArrayScores:
    """Scores of some rows (R) against others (C) and the two questions the search asks of them."""

    values: np.ndarray

    @classmethod
    def multiply(cls, left: np.ndarray, right: np.ndarray) -> "ArrayScores":
        return cls(left @ right.T)

    def transposed(self) -> "ArrayScores":
        return ArrayScores(self.values.T)

    def less(self, offset: np.ndarray | None) -> "ArrayScores":
        """With a number for each column subtracted."""
        return self if offset is None else ArrayScores(self.values - offset)

    def about_largest(self, depth: int) -> np.ndarray:
        """A lower bound, nearly tight, of each row's depth-th largest, several times faster than a partition.

        Folding a row in two by the maximum keeps distinct entries of it, so the depth-th largest that is left
        is never above the depth-th largest of all.
        """
        values = self.values
        while values.shape[1] >= 8 * depth:
            half = values.shape[1] // 2
            values = np.maximum(values[:, :half], values[:, half : 2 * half])
        return np.partition(values, -depth, axis=1)[:, -depth]

    def at_least(self, floor: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows (ascending), columns and values of the entries that reach their row's floor."""
        mask = self.values >= floor[:, None]
        if mask.flags.c_contiguous:  # flatnonzero is several times faster than nonzero
            row, column = np.divmod(np.flatnonzero(mask), mask.shape[1])
        else:  # the transpose lies in order in memory
            column, row = np.divmod(np.flatnonzero(mask.T), len(mask))
            order = np.argsort(row, kind="stable")
            row, column = row[order], column[order]
        return row, column, self.values[row, column]


@dataclass(frozen=True)
class _Block:
    """Rows in working precision, of unit length for cosine, and what ranking them needs."""

    index: np.ndarray
    rows: np.ndarray
    norms: np.ndarray
    offset: np.ndarray | None = None


class Search:
    """One pass of queries over the gallery at one precision.

    Duplicate rows are searched once, through the first of them, and multiplied when the lists are ranked:
    matrix products may give equal rows values that differ in the last bit, depending on their place in a
    block.
    """

    def __init__(self, X, depth, metric, dtype, first, block, device=None):
        self.device = gpu_of(X) if device is None else device
        self.X, self.depth, self.metric, self.dtype, self.first = X, depth, metric, dtype, first
        self.unique = np.unique(first)
        self.depth_unique = min(depth, len(self.unique))
        self.block = max(block, 4 * depth)
        # Rounding error of a product of unit vectors; measured errors stay below half of it.
        self.slack = float(np.finfo(dtype).eps) * (4 + X.shape[1] ** 0.5 / 2)
        self.longest = 1.0
        if metric != "cosine":
            self.longest = max(float(self._block(index).norms.max()) for index in self._cut(self.unique))

    def run(self, queries: np.ndarray) -> np.ndarray | None:
        """Ranked neighbours (Q, >= depth) with the row itself included, or None if precision is too low."""
        asked, place = np.unique(self.first[queries], return_inverse=True)
        gallery = self._cut(self.unique)
        mirrored = len(asked) == len(self.unique)  # all rows ask: each product serves both of its sides
        asking = gallery if mirrored else self._cut(asked)
        found: list[tuple | None] = [None] * len(asking)
        tolerance = np.zeros(len(self.first))
        for b, members in enumerate(gallery):
            right = self._block(members)
            for a, index in enumerate(asking[: b + 1] if mirrored else asking):
                left = right if index is members else self._block(index)
                tolerance[index] = self._tolerance(left)
                products = self._multiply(left.rows, right.rows)
                found[a] = self._merge(found[a], products.less(right.offset), members, tolerance[index])
                if found[a] is None:
                    return None
                if mirrored and a < b:
                    tolerance[members] = self._tolerance(right)
                    scores = products.transposed().less(left.offset)
                    found[b] = self._merge(found[b], scores, index, tolerance[members])
                    if found[b] is None:
                        return None
        return self._rank(asked, found, tolerance[asked], place)

    def _multiply(self, left: np.ndarray, right: np.ndarray) -> ArrayScores | TensorScores:
        if self.device is None:
            return ArrayScores.multiply(left, right)
        return TensorScores.multiply(left, right, self.device)

    def _cut(self, index: np.ndarray) -> list[np.ndarray]:
        return [index[start : start + self.block] for start in range(0, len(index), self.block)]

    def _block(self, index: np.ndarray) -> _Block:
        dense = int(index[-1] - index[0]) + 1 == len(index)  # a slice of an array needs no copy
        rows = read_rows(self.X, slice(index[0], index[-1] + 1) if dense else index)
        rows = rows.astype(self.dtype, copy=False)
        norms = row_norms(rows)
        if not (np.isfinite(norms) & ((norms > 0) | (self.metric != "cosine"))).all():
            row = index[np.argmin(np.isfinite(norms) & (norms > 0))]
            raise InputError(f"row {row} is not finite or, for cosine, zero: it has no neighbours.")
        if self.metric == "cosine":
            if np.abs(norms - 1).max() > 4 * np.finfo(self.dtype).eps:
                rows = rows / norms[:, None]
            return _Block(index, rows, np.ones(len(rows)))
        offset = (
            (norms.astype(np.float64) ** 2 / 2).astype(self.dtype) if self.metric == "euclidean" else None
        )
        return _Block(index, rows, norms, offset)

    def _tolerance(self, block: _Block) -> np.ndarray:
        """How far the scores of a block's rows may be off."""
        products = block.norms * self.longest
        return self.slack * (products + self.longest**2 if self.metric == "euclidean" else products)

    def _merge(self, found, scores, members, tolerance):
        """Candidates so far and those of a new block: all that may still be among the `depth` nearest.

        Returns values and ids, sorted by value with equal values in any order, or None when single precision
        leaves too many in question.
        """
        depth = self.depth_unique
        nearest = scores.about_largest(depth) if found is None else found[0][:, depth - 1]
        row, column, value = scores.at_least((nearest - 2 * tolerance).astype(self.dtype))
        count = np.bincount(row, minlength=len(tolerance))
        width = int(count.max(initial=0))
        if self.dtype == np.float32 and width > 8 * self.depth + 64:
            return None
        values = np.full((len(tolerance), width), -np.inf, dtype=self.dtype)
        ids = np.full((len(tolerance), width), -1, dtype=np.int32)
        place = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        values[row, place], ids[row, place] = value, members[column]
        if found is not None:
            values, ids = np.hstack([found[0], values]), np.hstack([found[1], ids])
        order = np.argsort(-values, axis=1)
        values, ids = np.take_along_axis(values, order, axis=1), np.take_along_axis(ids, order, axis=1)
        needed = (values >= (values[:, depth - 1] - 2 * tolerance)[:, None]).sum(axis=1).max()
        return values[:, :needed], ids[:, :needed]

    def _rank(self, asked, found, tolerance, place) -> np.ndarray | None:
        width = max(values.shape[1] for values, _ in found)
        values = np.vstack([_widen(values, width, -np.inf) for values, _ in found]).astype(np.float64)
        ids = np.vstack([_widen(ids, width, -1) for _, ids in found])
        with np.errstate(invalid="ignore"):  # -inf - -inf where a row has fewer candidates
            close = values[:, :-1] - values[:, 1:] <= 2 * tolerance[:, None]
        unsure = np.zeros(values.shape, dtype=bool)
        unsure[:, :-1] |= close
        unsure[:, 1:] |= close
        if self.dtype == np.float32 and unsure.sum() > max(unsure.size / 8, 4096):
            return None
        row, column = np.nonzero(unsure)
        values[row, column] = similarity(self.X, asked[row], ids[row, column], self.metric)
        values, ids, place = self._multiply_duplicates(values, ids, place)
        changed = np.unique(row) if len(values) == len(unsure) else np.arange(len(values))
        order = np.lexsort((ids[changed], -values[changed]), axis=-1)
        ids[changed] = np.take_along_axis(ids[changed], order, axis=1)
        return ids[place]

    def _multiply_duplicates(self, values, ids, place):
        """Put all rows that equal a candidate beside it; unchanged when no row has a duplicate."""
        if len(self.unique) == len(self.first):
            return values, ids, place
        by_first = np.argsort(self.first, kind="stable")
        size = np.bincount(self.first, minlength=len(self.first))
        begin = np.cumsum(size) - size
        copies = np.where(ids >= 0, size[ids], 0)
        total = copies.sum(axis=1)
        shape = (len(ids), int(total.max()))
        wide_values, wide_ids = np.full(shape, -np.inf), np.full(shape, -1, dtype=np.int32)
        filled = np.arange(shape[1]) < total[:, None]
        repeats = copies.ravel()
        within = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        wide_values[filled] = np.repeat(values.ravel(), repeats)
        wide_ids[filled] = by_first[np.repeat(begin[ids].ravel(), repeats) + within]
        order = np.lexsort((wide_ids, -wide_values), axis=-1)[:, : self.depth]
        return (
            np.take_along_axis(wide_values, order, axis=1),
            np.take_along_axis(wide_ids, order, axis=1),
            place,
        )


def _widen(array: np.ndarray, width: int, fill) -> np.ndarray:
    return np.pad(array, ((0, 0), (0, width - array.shape[1])), constant_values=fill)
