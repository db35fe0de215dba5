"""What one space looks like, to read its alignment with: hubs, ties, duplicates, mean, dimensions."""

from dataclasses import dataclass

import numpy as np

from coview.alignment.neighbours import NeighbourLists
from coview.alignment.recipes import Layer, blocks, column_mean
from coview.alignment.rows import first_of_duplicates, row_norms, similarity

SAMPLE = 4096
MASSIVE_DIMENSIONS = 3


@dataclass(frozen=True)
class Diagnostics:
    """One space, as it was compared (after its recipe).

    Attributes
    ----------
    mean_cosine : float, average over pairs of rows; near 1 means that a common direction hides the rest
    participation_ratio : float, effective number of dimensions, (sum of eigenvalues)² / sum of squares of the
        covariance, of at most 4,096 rows
    massive_share : float, share of the summed squares that the three largest dimensions hold
    duplicate_share : float, rows identical to an earlier one
    max_in_degree : int, or None without neighbours; how many lists the most popular row is in
    in_degree_skew : float, or None; far above 0 means hubs
    tie_share : float, or None; rows whose k-th and next neighbour are equally near: the tie rule decides
    """

    mean_cosine: float
    participation_ratio: float
    massive_share: float
    duplicate_share: float
    max_in_degree: int | None = None
    in_degree_skew: float | None = None
    tie_share: float | None = None


def diagnose(layer: Layer, lists=None, metric: str = "cosine") -> Diagnostics:
    """Describe one prepared layer, and its neighbour lists if it has them and every row was asked."""
    n = len(layer)
    squares = sum((rows**2).sum(axis=0, dtype=np.float64) for rows in blocks(layer))
    largest = np.sort(squares)[::-1][:MASSIVE_DIMENSIONS]
    facts = {
        "mean_cosine": _mean_cosine(layer),
        "participation_ratio": _participation_ratio(layer),
        "massive_share": float(largest.sum() / np.sum(squares)),
        "duplicate_share": float((first_of_duplicates(layer) < np.arange(n)).mean()),
    }
    if not isinstance(lists, NeighbourLists) or lists.queries is not None:
        return Diagnostics(**facts)
    degrees = np.bincount(lists.top.ravel(), minlength=n)
    spread = degrees.std()
    skew = float((((degrees - degrees.mean()) / spread) ** 3).mean()) if spread > 0 else 0.0
    ties = None
    if lists.ids.shape[1] > lists.k:
        rows = np.arange(n)
        last, following = (similarity(layer, rows, lists.ids[:, k], metric) for k in (lists.k - 1, lists.k))
        ties = float((last == following).mean())
    return Diagnostics(**facts, max_in_degree=int(degrees.max()), in_degree_skew=skew, tie_share=ties)


def _mean_cosine(layer: Layer) -> float:
    """From the sum of the unit rows: |sum|² holds every pair twice and every row once."""
    total = sum((rows / row_norms(rows)[:, None]).sum(axis=0, dtype=np.float64) for rows in blocks(layer))
    n = len(layer)
    return float((np.sum(np.square(total)) - n) / (n * (n - 1)))


def _participation_ratio(layer: Layer) -> float:
    n = len(layer)
    index = np.arange(n) if n <= SAMPLE else np.linspace(0, n - 1, SAMPLE).astype(int)
    sample = Layer(layer, order=index)
    rows = sample.matrix() - column_mean(sample).astype(np.float32)
    covariance = rows @ rows.T if len(rows) < rows.shape[1] else rows.T @ rows
    return float(np.trace(covariance, dtype=np.float64) ** 2 / np.square(covariance, dtype=np.float64).sum())
