"""Representational similarity analysis (Kriegeskorte 2008): do two spaces order pairs of rows alike?"""

from dataclasses import dataclass, replace

import numpy as np

from coview.alignment.kernels import require_pairwise, squared_distances
from coview.alignment.recipes import Layer
from coview.errors import InputError


@dataclass(frozen=True)
class Dissimilarities:
    """Ranks of the distances of all pairs of rows, centred, of unit length, as a symmetric (N, N)."""

    ranks: np.ndarray

    @classmethod
    def of(cls, distances: np.ndarray) -> "Dissimilarities":
        from scipy.stats import rankdata  # half a second to import, and only needed here

        if len(distances) < 3:
            raise InputError(f"RSA needs at least 3 rows; there are {len(distances)}.")
        above = np.triu_indices(len(distances), 1)
        ranks = rankdata(distances[above])
        ranks -= ranks.mean()
        length = np.linalg.norm(ranks)
        square = np.zeros_like(distances, dtype=np.float64)
        square[above] = ranks / length if length > 0 else np.nan
        return cls(square + square.T)

    def __len__(self) -> int:
        return len(self.ranks)

    def rows(self, index: np.ndarray) -> "Dissimilarities":
        chosen = self.ranks[index[:, None], index]
        return replace(self, ranks=chosen) if len(index) == len(self) else Dissimilarities.of(chosen)

    def compare(self, other: "Dissimilarities") -> float:
        """Spearman correlation over pairs of rows; each pair stands twice in the matrices."""
        return float(np.einsum("ij,ij->", self.ranks, other.ranks) / 2)


def dissimilarities(layer: Layer, similarity: str) -> Dissimilarities:
    require_pairwise(len(layer), "RSA")
    rows = layer.matrix().astype(np.float64)
    if similarity == "euclidean":
        return Dissimilarities.of(squared_distances(rows))
    if similarity == "cosine":
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return Dissimilarities.of(-(rows @ rows.T))


def rsa(X, Y, *, similarity: str = "cosine") -> float:
    """Spearman correlation of the dissimilarities of all pairs of rows.

    Its mean over all re-pairings is exactly 0.

    Parameters
    ----------
    X, Y : arrays of shape (N, Dx) and (N, Dy)
    similarity : "cosine" (1 - cosine as dissimilarity), "dot" or "euclidean"
    """
    x, y = (dissimilarities(Layer(np.asarray(side)), similarity) for side in (X, Y))
    return x.compare(y)
