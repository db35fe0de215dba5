"""The metrics, by name, behind one shape: summarise a layer once, compare two summaries many times.

A summary can be asked for some of its rows in another order (`rows(index)`); permutation nulls and half-splits
need nothing else, whatever the metric.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from coview.alignment.calibration import overlap_chance
from coview.alignment.neighbours import NeighbourLists, half_depth, top_neighbours
from coview.alignment.overlap import cycle_knn, edit_distance_knn, lcs_knn, mutual_knn, mutual_knn_score
from coview.alignment.recipes import Layer

__all__ = ["METRICS", "Metric", "Settings", "cycle_knn", "edit_distance_knn", "lcs_knn", "mutual_knn"]


@dataclass(frozen=True)
class Settings:
    """Choices a metric may read.

    Attributes
    ----------
    k : int, neighbours
    similarity : "cosine", "dot" or "euclidean", what near means
    queries : array of Q row indices whose neighbours are compared, or None for all rows
    groups : array of N int, rows that are never neighbours of each other; or None
    """

    k: int = 10
    similarity: str = "cosine"
    queries: np.ndarray | None = None
    groups: np.ndarray | None = None


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes
    ----------
    summarise : Layer, Settings -> summary with `rows(index)`
    compare : summary, summary -> float
    per_row : ids (N, k), ids (N, k) -> (N,), whose mean is the score; None when it is no mean over rows
    chance : summary, summary, n, Settings -> expected value for unrelated spaces; None when only permutations tell
    perfect : k -> the value of identical spaces
    invariances : what may change on one side without changing the value
    symmetric : whether exchanging the sides changes nothing
    """

    summarise: Callable[[Layer, Settings], object]
    compare: Callable[[object, object], float]
    invariances: tuple[str, ...]
    per_row: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    chance: Callable[[object, object, int, Settings], float] | None = None
    perfect: Callable[[int], float] = lambda k: 1.0
    symmetric: bool = True


def neighbour_lists(layer: Layer, settings: Settings) -> NeighbourLists:
    """Ranked neighbours of one layer, deep enough for half-splits."""
    n, k = layer.shape[0], settings.k
    largest = 1 if settings.groups is None else int(np.bincount(settings.groups).max())
    depth = k if settings.queries is not None else half_depth(k, n, largest)
    ids = top_neighbours(
        layer, depth, metric=settings.similarity, queries=settings.queries, groups=settings.groups
    )
    return NeighbourLists(ids, k, settings.queries)


def _on_lists(per_row, **facts) -> Metric:
    def compare(x: NeighbourLists, y: NeighbourLists) -> float:
        return float(per_row(x.top.T, y.top.T).mean())

    facts = {"compare": compare, "invariances": ("rotation", "scale"), **facts}
    return Metric(summarise=neighbour_lists, per_row=per_row, **facts)


METRICS: dict[str, Metric] = {
    "mutual_knn": _on_lists(
        mutual_knn,
        compare=lambda x, y: mutual_knn_score(x.top, y.top),
        chance=lambda x, y, n, settings: overlap_chance(settings.k, n, settings.groups),
    ),
    "cycle_knn": _on_lists(cycle_knn, symmetric=False),
    "lcs_knn": _on_lists(lcs_knn, perfect=float),
    "edit_distance_knn": _on_lists(edit_distance_knn),
}
