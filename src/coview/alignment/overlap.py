"""Metrics on neighbour lists. Each returns one number a row; the score is their mean.

All take ranked lists of shape (N, k), as `top_neighbours` returns them: row i holds the neighbours of
sample i in that space, the most similar first.
"""

import numpy as np

# Beyond this many neighbours, sorting 2k numbers a row is cheaper than comparing k x k of them.
COMPARE_UP_TO = 48


def mutual_knn(neighbours_x: np.ndarray, neighbours_y: np.ndarray) -> np.ndarray:
    """Share of each row's k neighbours that both spaces agree on, shape (N,), between 0 and 1.

    Huh et al., "The Platonic Representation Hypothesis" (2024), equation of section 2. Chance is k / (N - 1).
    """
    k = neighbours_x.shape[1]
    return _common(np.ascontiguousarray(neighbours_x.T), np.ascontiguousarray(neighbours_y.T)) / k


def mutual_knn_score(top_x: np.ndarray, top_y: np.ndarray) -> float:
    """The mean of `mutual_knn` from transposed lists (k, N), without the numbers of single rows."""
    k, n = top_x.shape
    if k <= COMPARE_UP_TO and top_x[-1].min() >= 0:
        return sum(np.count_nonzero(top_x == neighbour) for neighbour in top_y) / (k * n)
    return float(_common(top_x, top_y).mean() / k)


def _common(top_x: np.ndarray, top_y: np.ndarray) -> np.ndarray:
    """How many ids two transposed lists (k, N) share in each column; -1 stands for no neighbour."""
    if len(top_x) > COMPARE_UP_TO:
        ids = np.sort(np.vstack([top_x, top_y]), axis=0)
        return ((ids[1:] == ids[:-1]) & (ids[1:] >= 0)).sum(axis=0)
    common = np.zeros(top_x.shape[1], dtype=np.int64)
    for neighbour in top_y:
        common += ((top_x == neighbour) & (neighbour >= 0)).any(axis=0)
    return common


def cycle_knn(neighbours_x: np.ndarray, neighbours_y: np.ndarray) -> np.ndarray:
    """1 where a row comes back to itself: one of its neighbours in y has it as a neighbour in x; else 0.

    Not symmetric. Near its ceiling already for modest k and N, where it says little.
    """
    rows = np.arange(len(neighbours_x))
    back = np.zeros(len(rows), dtype=bool)
    for neighbour in neighbours_y.T:
        known = neighbour >= 0
        back |= known & (neighbours_x[neighbour] == rows[:, None]).any(axis=1)
    return back.astype(np.float64)


def lcs_knn(neighbours_x: np.ndarray, neighbours_y: np.ndarray) -> np.ndarray:
    """Length, 0 to k, of the longest common subsequence of the two ranked lists of each row."""
    n, k = neighbours_x.shape
    previous = np.zeros((k + 1, n), dtype=np.int16)
    for a in neighbours_x.T:
        current = np.zeros_like(previous)
        for j, b in enumerate(neighbours_y.T, start=1):
            same = (a == b) & (a >= 0)
            current[j] = np.where(same, previous[j - 1] + 1, np.maximum(previous[j], current[j - 1]))
        previous = current
    return previous[k].astype(np.float64)


def edit_distance_knn(neighbours_x: np.ndarray, neighbours_y: np.ndarray) -> np.ndarray:
    """1 - Levenshtein distance / k of the two ranked lists of each row; 1 when they are equal."""
    n, k = neighbours_x.shape
    previous = np.repeat(np.arange(k + 1, dtype=np.int16)[:, None], n, axis=1)
    for i, a in enumerate(neighbours_x.T, start=1):
        current = np.empty_like(previous)
        current[0] = i
        for j, b in enumerate(neighbours_y.T, start=1):
            replaced = previous[j - 1] + ((a != b) | (a < 0))
            current[j] = np.minimum(replaced, np.minimum(previous[j], current[j - 1]) + 1)
        previous = current
    return 1 - previous[k] / k
