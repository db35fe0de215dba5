"""Reading rows of features, whatever holds them, and the similarity of two of them."""

import numpy as np

ROWS_AT_ONCE = 4096


def read_rows(X, index) -> np.ndarray:
    """Rows of an array, a memory map, a prepared layer or a tensor, as float32 or float64 in memory."""
    rows = X.rows(index) if hasattr(X, "rows") else X[index]
    if hasattr(rows, "detach"):  # a PyTorch tensor; NumPy has no bfloat16
        rows = rows.detach().cpu()
        rows = (rows if str(rows.dtype) == "torch.float64" else rows.float()).numpy()
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


def first_of_duplicates(X, block: int = ROWS_AT_ONCE) -> np.ndarray:
    """For each row the index of the first row with identical values; arange(N) without duplicates."""
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
