"""The k nearest neighbours of every row: exact, blockwise, deterministic, in memory that does not grow as N x N.

Similarities come from single precision matrix products, one block at a time. Wherever two of them are too
close for single precision to order, they are computed again in double precision, row by row, so that the
lists are those of double precision whatever the storage type, block size or number of threads. Equal
similarities are ordered by the lower index. A row never lists itself: it is excluded by its index, not by its
place in the list, so that exact duplicates keep each other.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from coview.errors import UsageError, did_you_mean

SIMILARITIES = ("cosine", "dot", "euclidean")
BLOCK_ROWS = 2048


def top_neighbours(X, k, *, metric="cosine", queries=None, groups=None, block=BLOCK_ROWS) -> np.ndarray:
    """The k nearest neighbours of rows, most similar first.

    Parameters
    ----------
    X : array of shape (N, D), or anything with ``shape`` and ``rows(index)``
        Memory-mapped arrays are read in blocks. A PyTorch tensor on a GPU is searched there.
    k : int, neighbours a row
    metric : "cosine", "dot" or "euclidean"
    queries : array of Q int, optional
        Rows whose neighbours are wanted (all by default); the gallery is always all N rows.
    groups : array of N int, optional
        Rows of one group are never neighbours of each other, as captions of one image should not be.
    block : int, rows multiplied at once: blocks of rows x rows similarities are held

    Returns
    -------
    ndarray of shape (Q, k), int32

    Raises
    ------
    UsageError
        k is not between 1 and the number of rows that may be neighbours.
    """
    n = X.shape[0]
    if metric not in SIMILARITIES:
        raise UsageError(f"unknown similarity {metric!r}.", hint=did_you_mean(metric, SIMILARITIES))
    groups = np.arange(n) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    excluded = int(np.bincount(groups).max())
    if not 1 <= k <= n - excluded:
        raise UsageError(
            f"k = {k} neighbours cannot be found among {n} rows{f' in groups of {excluded}' * (excluded > 1)}.",
            hint=f"Choose k between 1 and {n - excluded}.",
        )
    queries = np.arange(n) if queries is None else np.asarray(queries)
    first = first_of_duplicates(X)
    for dtype in (np.float32, np.float64):
        search = _Search(X, k + excluded, metric, dtype, first, block)
        ranked = search.run(queries)
        if ranked is not None:
            break
    allowed = (ranked >= 0) & (groups[ranked] != groups[queries][:, None])
    return first_allowed(ranked, allowed, k)


def first_allowed(ids: np.ndarray, allowed: np.ndarray, k: int) -> np.ndarray:
    """The first k allowed entries of each row, in order; -1 where a row has fewer."""
    kept = allowed & (np.cumsum(allowed, axis=1, dtype=np.int32) <= k)
    if kept.sum() == k * len(ids):
        return np.ascontiguousarray(ids[kept].reshape(-1, k))
    order = np.argsort(~kept, axis=1, kind="stable")[:, :k]
    return np.where(np.take_along_axis(kept, order, axis=1), np.take_along_axis(ids, order, axis=1), -1)


def first_of_duplicates(X, block: int = BLOCK_ROWS) -> np.ndarray:
    """For each row the index of the first row with identical values; equal to arange(N) without duplicates."""
    n = X.shape[0]
    first = np.arange(n)
    sums = np.concatenate([read_rows(X, slice(s, s + block)).sum(axis=1) for s in range(0, n, block)])
    _, place, count = np.unique(sums, return_inverse=True, return_counts=True)
    suspects = np.flatnonzero(count[place] > 1)
    seen: dict[bytes, int] = {}
    for row in suspects:  # zero is added so that -0.0 equals 0.0 in bytes too
        values = (read_rows(X, slice(row, row + 1)) + 0.0).tobytes()
        first[row] = seen.setdefault(values, int(row))
    return first


def read_rows(X, index) -> np.ndarray:
    """Rows of an array, a memory map, a prepared layer or a tensor, as float32 or float64 in memory."""
    rows = X.rows(index) if hasattr(X, "rows") else X[index]
    if hasattr(rows, "detach"):
        rows = rows.detach().float().cpu().numpy()
    return np.asarray(rows, dtype=np.float64 if rows.dtype == np.float64 else np.float32)


def row_norms(rows: np.ndarray) -> np.ndarray:
    """Euclidean lengths of rows, shape (N,), in their precision; huge and tiny rows are scaled first."""
    with np.errstate(over="ignore", under="ignore"):
        squares = np.linalg.vecdot(rows, rows)
    if squares.min() > 1e-30 and squares.max() < 1e30:
        return np.sqrt(squares)
    return np.linalg.norm(rows.astype(np.float64), axis=1).astype(rows.dtype)


def similarity(X, left: np.ndarray, right: np.ndarray, metric: str = "cosine") -> np.ndarray:
    """Similarity of row pairs in double precision, each pair by itself: equal rows give equal values.

    For ``euclidean`` it is minus half the squared distance, up to a constant of the left row.
    """
    values = np.empty(len(left))
    for start in range(0, len(left), 2048):
        pairs = slice(start, start + 2048)
        a, b = (read_rows(X, index[pairs]).astype(np.float64) for index in (left, right))
        products = (a * b).sum(axis=1)
        if metric == "cosine":
            products /= np.sqrt((a * a).sum(axis=1)) * np.sqrt((b * b).sum(axis=1))
        elif metric == "euclidean":
            products -= (b * b).sum(axis=1) / 2
        values[pairs] = products
    return values


@dataclass(frozen=True)
class _Block:
    """Rows in working precision, of unit length for cosine, and what ranking them needs."""

    index: np.ndarray
    rows: np.ndarray
    norms: np.ndarray
    offset: np.ndarray | None = None

    def less_offset(self, products: np.ndarray) -> np.ndarray:
        """Scores against this block's rows, from dot products with them."""
        return products if self.offset is None else products - self.offset


class _Search:
    """One pass of queries over the gallery at one precision.

    Duplicate rows are searched once, through the first of them, and multiplied when the lists are ranked:
    matrix products may give equal rows values that differ in the last bit, depending on their place in a
    block.
    """

    def __init__(self, X, depth, metric, dtype, first, block):
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
                products = left.rows @ right.rows.T
                found[a] = self._merge(found[a], right.less_offset(products), members, tolerance[index])
                if found[a] is None:
                    return None
                if mirrored and a < b:
                    tolerance[members] = self._tolerance(right)
                    scores = left.less_offset(np.ascontiguousarray(products.T))
                    found[b] = self._merge(found[b], scores, index, tolerance[members])
                    if found[b] is None:
                        return None
        return self._rank(asked, found, tolerance[asked], place)

    def _cut(self, index: np.ndarray) -> list[np.ndarray]:
        return [index[start : start + self.block] for start in range(0, len(index), self.block)]

    def _block(self, index: np.ndarray) -> _Block:
        dense = int(index[-1] - index[0]) + 1 == len(index)  # a slice of an array needs no copy
        rows = read_rows(self.X, slice(index[0], index[-1] + 1) if dense else index)
        rows = rows.astype(self.dtype, copy=False)
        norms = row_norms(rows)
        if self.metric == "cosine":
            if np.abs(norms - 1).max() > 4 * np.finfo(self.dtype).eps:
                rows = rows / norms[:, None]
            return _Block(index, rows, np.ones(len(rows)))
        offset = (norms.astype(np.float64) ** 2 / 2).astype(self.dtype) if self.metric == "euclidean" else None
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
        nearest = _depth_th_largest(scores, depth) if found is None else found[0][:, depth - 1]
        flat = np.flatnonzero(scores >= (nearest - 2 * tolerance).astype(self.dtype)[:, None])
        row, column = np.divmod(flat, scores.shape[1])
        count = np.bincount(row, minlength=len(scores))
        width = int(count.max(initial=0))
        if self.dtype == np.float32 and width > 8 * self.depth + 64:
            return None
        values = np.full((len(scores), width), -np.inf, dtype=self.dtype)
        ids = np.full((len(scores), width), -1, dtype=np.int32)
        place = np.arange(len(flat)) - np.repeat(np.cumsum(count) - count, count)
        values[row, place], ids[row, place] = scores.ravel()[flat], members[column]
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


def _depth_th_largest(scores: np.ndarray, depth: int) -> np.ndarray:
    """A lower bound, nearly tight, of each row's depth-th largest value, several times faster than a partition.

    Folding a row in two by the maximum keeps distinct entries of it, so the depth-th largest that is left is
    never above the depth-th largest of all.
    """
    while scores.shape[1] >= 8 * depth:
        half = scores.shape[1] // 2
        scores = np.maximum(scores[:, :half], scores[:, half : 2 * half])
    return np.partition(scores, -depth, axis=1)[:, -depth]


def _widen(array: np.ndarray, width: int, fill) -> np.ndarray:
    return np.pad(array, ((0, 0), (0, width - array.shape[1])), constant_values=fill)


@dataclass(frozen=True)
class NeighbourLists:
    """Ranked neighbours of every row of one layer, kept deeper than k so that subsets need no new search.

    Attributes
    ----------
    ids : ndarray of shape (Q, depth), int32; -1 where a subset left a row too few
    k : int, how many of them count
    queries : ndarray of shape (Q,), the gallery index of each row, or None when every row is asked
    """

    ids: np.ndarray
    k: int
    queries: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def top(self) -> np.ndarray:
        """The k nearest, shape (k, Q): contiguous in rows, as the overlap reads them."""
        return np.ascontiguousarray(self.ids[:, : self.k].T)

    def rows(self, index: np.ndarray) -> "NeighbourLists":
        """The lists of these rows in this order, among these rows only.

        Equal to a new search over the chosen rows, as long as `depth` is large enough (see `half_depth`). With
        sampled queries the gallery stays whole, and the sampled rows change places among themselves.
        """
        if self.queries is not None:
            name = np.arange(self.ids.max() + 1)
            name[self.queries[index]] = self.queries[: len(index)]
            return replace(self, ids=name[self.ids[index]], queries=self.queries[: len(index)])
        position = np.full(len(self), -1, dtype=np.int32)
        position[index] = np.arange(len(index), dtype=np.int32)
        if len(index) == len(self):
            return replace(self, ids=position[self.ids[index, : self.k]])
        moved = position[self.ids[index]]
        return replace(self, ids=first_allowed(moved, moved >= 0, self.k))


def half_depth(k: int, n: int, largest_group: int = 1) -> int:
    """How deep lists must be for a random half of the rows to hold k of them, all but surely.

    Of `depth` neighbours a half holds depth/2 on average with a standard deviation of sqrt(depth)/2; members of
    a group are kept or lost together.
    """
    units = -(-k // largest_group)
    depth = largest_group * (2 * units + int(8 * units**0.5) + 8)
    return max(k, min(depth, n - largest_group))
