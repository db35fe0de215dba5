"""CKNNA: kernel alignment restricted to neighbours that both spaces agree on (Huh et al. 2024).

As their code computes it: both kernels are masked by the directed edges that stand in both neighbour graphs,
and Song et al.'s HSIC is applied to the masked matrices as if they were symmetric, which makes the measure
slightly asymmetric. Here the masked kernels are lists of edges, and nothing is added to the denominator.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from coview.alignment.neighbours import NeighbourLists
from coview.alignment.recipes import Layer
from coview.alignment.rows import read_rows


@dataclass(frozen=True)
class NeighbourKernel:
    """Ranked neighbours of every row and the kernel's value on each edge.

    Attributes
    ----------
    lists : NeighbourLists
    layer : Layer, whose dot products are the kernel
    index : ndarray of shape (N,), the layer's row of each row of the lists
    """

    lists: NeighbourLists
    layer: Layer
    index: np.ndarray

    def __len__(self) -> int:
        return len(self.lists)

    def rows(self, index: np.ndarray) -> "NeighbourKernel":
        return replace(self, lists=self.lists.rows(index), index=self.index[index])

    @cached_property
    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Codes i * N + j of the edges, sorted, and the kernel on them."""
        ids = self.lists.top.T
        source, rank = np.nonzero(ids >= 0)
        target = ids[source, rank]
        values = np.concatenate(
            [
                np.einsum(
                    "ed,ed->e",
                    read_rows(self.layer, self.index[source[e : e + 4096]]).astype(np.float64),
                    read_rows(self.layer, self.index[target[e : e + 4096]]).astype(np.float64),
                )
                for e in range(0, len(source), 4096)
            ]
        )
        codes = source.astype(np.int64) * len(self) + target
        order = np.argsort(codes)
        return codes[order], values[order]

    @cached_property
    def norm(self) -> float:
        codes, values = self.edges
        own = _hsic(codes, values, values, len(self))
        return own**0.5 if own > 0 else float("nan")

    def compare(self, other: "NeighbourKernel") -> float:
        codes, here, there = np.intersect1d(
            self.edges[0], other.edges[0], assume_unique=True, return_indices=True
        )
        shared = _hsic(codes, self.edges[1][here], other.edges[1][there], len(self))
        return shared / (self.norm * other.norm)


def _hsic(codes: np.ndarray, k: np.ndarray, l: np.ndarray, n: int) -> float:  # noqa: E741 - HSIC of K and L
    """Song et al.'s HSIC of two sparse matrices on the same edges, up to the factor that CKNNA cancels."""
    source, target = np.divmod(codes, n)
    back = np.searchsorted(codes, target * n + source)
    back = np.minimum(back, len(codes) - 1)
    mutual = codes[back] == target * n + source if len(codes) else np.zeros(0, dtype=bool)
    product = float(k[mutual] @ l[back[mutual]])
    into = np.bincount(target, weights=k, minlength=n)
    out = np.bincount(source, weights=l, minlength=n)
    return product + k.sum() * l.sum() / ((n - 1) * (n - 2)) - 2 * float(into @ out) / (n - 2)
