"""k-means with careful starts: the clusters whose centres stand for a cloud of rows."""

import numpy as np


def k_means(
    rows: np.ndarray, clusters: int, rng: np.random.Generator, *, starts: int = 1, steps: int = 25
) -> tuple[np.ndarray, np.ndarray]:
    """Lloyd's algorithm from k-means++ starts; the start with the smallest inertia is kept.

    Parameters
    ----------
    rows : array of shape (N, D)
    clusters : int, at most N
    rng : where starts come from
    starts, steps : number of starts, largest number of steps in each

    Returns
    -------
    centres : ndarray of shape (clusters, D)
    labels : ndarray of N int
    """
    best: tuple[np.ndarray, np.ndarray] | None = None
    smallest = np.inf
    for _ in range(starts):
        centres = spread_out(rows, clusters, rng)
        labels = np.full(len(rows), -1)
        for _ in range(steps):
            distances = squared_distances(rows, centres)
            nearest = distances.argmin(axis=1)
            if (nearest == labels).all():
                break
            labels = nearest
            centres = _means(rows, labels, distances, clusters)
        inertia = float(squared_distances(rows, centres)[np.arange(len(rows)), labels].sum())
        if best is None or inertia < smallest:
            best, smallest = (centres, labels), inertia
    assert best is not None
    return best


def spread_out(rows: np.ndarray, clusters: int, rng: np.random.Generator) -> np.ndarray:
    """k-means++: each centre is a row drawn in proportion to its squared distance from the nearest so far."""
    chosen = [int(rng.integers(len(rows)))]
    distances = squared_distances(rows, rows[chosen])[:, 0]
    for _ in range(clusters - 1):
        reach = np.cumsum(np.maximum(distances, 0), dtype=np.float64)
        place = rng.random() * reach[-1]
        chosen.append(min(int(np.searchsorted(reach, place, side="right")), len(rows) - 1))
        distances = np.minimum(distances, squared_distances(rows, rows[chosen[-1:]])[:, 0])
    return rows[chosen].copy()


def squared_distances(rows: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Squared Euclidean distances, shape (N, clusters)."""
    lengths = np.linalg.vecdot(rows, rows)[:, None] + np.linalg.vecdot(centres, centres)[None]
    return np.maximum(lengths - 2 * (rows @ centres.T), 0)


def _means(rows: np.ndarray, labels: np.ndarray, distances: np.ndarray, clusters: int) -> np.ndarray:
    """Means of the clusters; one that lost all its rows starts again at the row farthest from its centre."""
    counts = np.bincount(labels, minlength=clusters)
    members = np.zeros((clusters, len(rows)), dtype=rows.dtype)
    members[labels, np.arange(len(rows))] = 1
    centres = members @ rows / np.maximum(counts, 1)[:, None].astype(rows.dtype)
    if (empty := np.flatnonzero(counts == 0)).size:
        far = np.argsort(-distances[np.arange(len(rows)), labels], kind="stable")[: len(empty)]
        centres[empty] = rows[far]
    return centres
