"""The metrics, by name, behind one shape: summarise a layer once, compare two summaries many times.

A summary can be asked for some of its rows in another order (`rows(index)`); permutation nulls and
half-splits need nothing else, whatever the metric.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coview.alignment.calibration import half_neighbours, overlap_chance, overlap_null_moments
from coview.alignment.cknna import NeighbourKernel
from coview.alignment.kernels import cka, cka_chance, gaussian_kernel, linear_kernel, unbiased_cka_deviation
from coview.alignment.neighbours import NeighbourLists, half_depth, top_neighbours
from coview.alignment.overlap import cycle_knn, edit_distance_knn, lcs_knn, mutual_knn, mutual_knn_score
from coview.alignment.recipes import Layer
from coview.alignment.rsa import dissimilarities, rsa
from coview.alignment.subspaces import Shape, Subspace, procrustes, svcca

__all__ = [
    "METRICS",
    "Metric",
    "Settings",
    "cka",
    "cknna",
    "cycle_knn",
    "edit_distance_knn",
    "lcs_knn",
    "mutual_knn",
    "procrustes",
    "rsa",
    "svcca",
]


@dataclass(frozen=True)
class Settings:
    """Choices a metric may read.

    Attributes
    ----------
    k : int, neighbours
    similarity : "cosine", "dot" or "euclidean", what near means
    queries : array of Q row indices whose neighbours are compared, or None for all rows
    groups : array of N int, rows that are never neighbours of each other; or None
    components : int, singular directions SVCCA keeps
    sigma : float, width of the Gaussian kernel, or None for each side's median distance
    halves : bool, whether neighbour lists must be deep enough for random halves of the rows
    """

    k: int = 10
    similarity: str = "cosine"
    queries: np.ndarray | None = None
    groups: np.ndarray | None = None
    components: int = 10
    sigma: float | None = None
    halves: bool = True


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes
    ----------
    summarise : Layer, Settings -> summary with `rows(index)`
    compare : summary, summary -> float
    invariances : what may change on one side, under the recipe ``raw``, without changing the value
    per_row : ids (N, k), ids (N, k) -> (N,), whose mean is the score; None when it is no mean over rows
    chance : summary, summary, n, Settings -> exact mean over re-pairings; None when only permutations tell
    deviation : summary, summary -> exact standard deviation over re-pairings; None likewise
    perfect : k -> the value of identical spaces
    symmetric : whether exchanging the sides changes nothing
    uses : the settings that move the value, which its signature names
    """

    summarise: Callable[[Layer, Settings], Any]
    compare: Callable[[Any, Any], float]
    invariances: tuple[str, ...]
    per_row: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    chance: Callable[[Any, Any, int, Settings], float] | None = None
    deviation: Callable[[Any, Any], float] | None = None
    perfect: Callable[[int], float] = lambda k: 1.0
    symmetric: bool = True
    uses: tuple[str, ...] = ()


def neighbour_lists(layer: Layer, settings: Settings, k_half: int | None = None) -> NeighbourLists:
    """Ranked neighbours of one layer, deeper than k where halves will be asked for `k_half` (k) of them."""
    n, k = layer.shape[0], settings.k
    largest = 1 if settings.groups is None else int(np.bincount(settings.groups).max())
    depth = k
    if settings.halves and settings.queries is None:
        depth = max(k, half_depth(k if k_half is None else k_half, n, largest))
    ids = top_neighbours(
        layer, depth, metric=settings.similarity, queries=settings.queries, groups=settings.groups
    )
    return NeighbourLists(ids, k, settings.queries)


def neighbour_kernel(layer: Layer, settings: Settings) -> NeighbourKernel:
    """Neighbours with the kernel's values; for cosine the rows are brought to unit length first."""
    if settings.similarity == "cosine":
        layer = replace(layer, unit=True)
    return NeighbourKernel(neighbour_lists(layer, settings), layer, np.arange(len(layer)))


def cknna(X, Y, k: int, *, similarity: str = "cosine") -> float:
    """CKNNA of two feature matrices (N, D) at k neighbours; see `coview.alignment.cknna`."""
    settings = Settings(k=k, similarity=similarity)
    x, y = (neighbour_kernel(Layer(np.asarray(side)), settings) for side in (X, Y))
    return x.compare(y)


def _on_lists(per_row, compare=None, **facts) -> Metric:
    def mean(x: NeighbourLists, y: NeighbourLists) -> float:
        return float(per_row(x.top.T, y.top.T).mean())

    return Metric(
        summarise=lambda layer, settings: neighbour_lists(layer, settings, half_neighbours(settings.k)),
        compare=compare or mean,
        invariances=("rotation", "scale"),
        per_row=per_row,
        uses=("k", "similarity"),
        **facts,
    )


def _on_kernels(summarise, *, unbiased: bool, **facts) -> Metric:
    return Metric(
        summarise=summarise,
        compare=lambda x, y: x.compare(y),
        invariances=("rotation", "scale", "translation"),
        chance=lambda x, y, n, settings: cka_chance(x, y),
        deviation=(lambda x, y: unbiased_cka_deviation(len(x))) if unbiased else None,
        **facts,
    )


METRICS: dict[str, Metric] = {
    "mutual_knn": _on_lists(
        mutual_knn,
        compare=lambda x, y: mutual_knn_score(x.top, y.top),
        chance=lambda x, y, n, settings: overlap_chance(settings.k, n, settings.groups),
        deviation=lambda x, y: overlap_null_moments(x.top.T, y.top.T)[1],
    ),
    "cycle_knn": _on_lists(cycle_knn, symmetric=False),
    "lcs_knn": _on_lists(lcs_knn, perfect=float),
    "edit_distance_knn": _on_lists(edit_distance_knn),
    "unbiased_cka": _on_kernels(
        lambda layer, settings: linear_kernel(layer, unbiased=True),
        unbiased=True,
    ),
    "cka": _on_kernels(
        lambda layer, settings: linear_kernel(layer, unbiased=False),
        unbiased=False,
    ),
    "unbiased_cka_rbf": _on_kernels(
        lambda layer, settings: gaussian_kernel(layer, sigma=settings.sigma, unbiased=True),
        unbiased=True,
        uses=("sigma",),
    ),
    "cka_rbf": _on_kernels(
        lambda layer, settings: gaussian_kernel(layer, sigma=settings.sigma, unbiased=False),
        unbiased=False,
        uses=("sigma",),
    ),
    "cknna": Metric(
        summarise=neighbour_kernel,
        compare=lambda x, y: x.compare(y),
        invariances=("rotation", "scale"),
        symmetric=False,
        uses=("k", "similarity"),
    ),
    "svcca": Metric(
        summarise=lambda layer, settings: Subspace.of(layer, settings.components),
        compare=lambda x, y: x.compare(y),
        invariances=("column scale", "translation"),
        uses=("components",),
    ),
    "procrustes": Metric(
        summarise=lambda layer, settings: Shape.of(layer),
        compare=lambda x, y: x.compare(y),
        invariances=("rotation", "scale", "translation"),
    ),
    "rsa": Metric(
        summarise=lambda layer, settings: dissimilarities(layer, settings.similarity),
        compare=lambda x, y: x.compare(y),
        invariances=("rotation", "scale"),
        chance=lambda x, y, n, settings: 0.0,
        uses=("similarity",),
    ),
}
