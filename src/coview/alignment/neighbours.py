"""The k nearest neighbours of every row: exact, blockwise, deterministic, in memory that grows as N, not N².

The lists are those of double precision, whatever the storage type, the block size or the number of threads.
Equal similarities are ordered by the lower index. A row never lists itself: it is excluded by its index,
not by its place in the list, so that exact duplicates keep each other.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from coview.alignment.rows import first_of_duplicates
from coview.alignment.search import Search
from coview.errors import UsageError, did_you_mean

SIMILARITIES = ("cosine", "dot", "euclidean")
BLOCK_ROWS = 4096


def top_neighbours(
    X, k, *, metric="cosine", queries=None, groups=None, block=BLOCK_ROWS, device=None
) -> np.ndarray:
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
    device : PyTorch device, optional
        Where products are computed: by default where X is, if that is a GPU, and by NumPy otherwise.
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
    require_k(k, n, excluded)
    queries = np.arange(n) if queries is None else np.asarray(queries)
    first, depth = first_of_duplicates(X), k + excluded
    ranked = Search(X, depth, metric, np.float32, first, block, device).run(queries)
    if ranked is None:  # too many similarities that single precision cannot tell apart
        ranked = Search(X, depth, metric, np.float64, first, block, device).run(queries)
    assert ranked is not None
    allowed = (ranked >= 0) & (groups[ranked] != groups[queries][:, None])
    return first_allowed(ranked, allowed, k)


def require_k(k: int, n: int, largest_group: int = 1) -> None:
    """Raise UsageError unless every one of n rows has k rows of other groups to choose from."""
    if not 1 <= k <= n - largest_group:
        grouped = f" in groups of up to {largest_group}" if largest_group > 1 else ""
        raise UsageError(
            f"k = {k} neighbours cannot be found among {n} rows{grouped}.",
            hint=f"Choose k between 1 and {n - largest_group}.",
        )


def first_allowed(ids: np.ndarray, allowed: np.ndarray, k: int) -> np.ndarray:
    """The first k allowed entries of each row, in order; -1 where a row has fewer."""
    kept = allowed & (np.cumsum(allowed, axis=1, dtype=np.int32) <= k)
    if kept.sum() == k * len(ids):
        return np.ascontiguousarray(ids[kept].reshape(-1, k))
    order = np.argsort(~kept, axis=1, kind="stable")[:, :k]
    return np.where(np.take_along_axis(kept, order, axis=1), np.take_along_axis(ids, order, axis=1), -1)


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

        Equal to a new search over the chosen rows, as long as `depth` is large enough (see `half_depth`).
        With sampled queries the gallery stays whole.
        """
        if self.queries is not None:
            return self._queries_exchanged(index)
        position = np.full(len(self), -1, dtype=np.int32)
        position[index] = np.arange(len(index), dtype=np.int32)
        if len(index) == len(self):
            return replace(self, ids=position[self.ids[index, : self.k]])
        moved = position[self.ids[index]]
        return replace(self, ids=first_allowed(moved, moved >= 0, self.k))

    def _queries_exchanged(self, index: np.ndarray) -> "NeighbourLists":
        """Some of the sampled queries; all of them in another order change places in the gallery too."""
        assert self.queries is not None
        if len(index) < len(self):
            return replace(self, ids=self.ids[index], queries=self.queries[index])
        name = np.arange(max(self.ids.max(), self.queries.max()) + 1, dtype=np.int32)
        name[self.queries[index]] = self.queries
        return replace(self, ids=name[self.ids[index]])


def half_depth(k: int, n: int, largest_group: int = 1) -> int:
    """How deep lists must be for a random half of the rows to hold k of them, all but surely.

    Of `depth` neighbours a half holds depth/2 on average with a standard deviation of sqrt(depth)/2;
    members of a group are kept or lost together.
    """
    units = -(-k // largest_group)
    depth = largest_group * (2 * units + int(8 * units**0.5) + 8)
    return max(k, min(depth, n - largest_group))
