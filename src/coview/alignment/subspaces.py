"""Metrics on whole feature matrices: SVCCA and Procrustes."""

from dataclasses import dataclass, replace

import numpy as np

from coview.alignment.kernels import Features, cross_product
from coview.alignment.recipes import Layer, column_mean
from coview.errors import InputError


@dataclass(frozen=True)
class Subspace:
    """An orthonormal basis (N, r) of the main directions of standardised features."""

    layer: Layer
    index: np.ndarray
    basis: np.ndarray

    @classmethod
    def of(cls, layer: Layer, components: int, index: np.ndarray | None = None) -> "Subspace":
        index = np.arange(len(layer)) if index is None else index
        rows = layer.rows(index).astype(np.float64)
        rows -= rows.mean(axis=0)
        deviation = rows.std(axis=0)
        rows = rows[:, deviation > 0] / deviation[deviation > 0]
        components = min(components, len(rows) - 1, rows.shape[1])
        if components < 1:
            raise InputError("SVCCA needs features that vary.")
        return cls(layer, index, _main_directions(rows, components))

    def __len__(self) -> int:
        return len(self.basis)

    def rows(self, index: np.ndarray) -> "Subspace":
        if len(index) == len(self):
            return replace(self, basis=self.basis[index], index=self.index[index])
        return Subspace.of(self.layer, self.basis.shape[1], self.index[index])

    def compare(self, other: "Subspace") -> float:
        """The mean canonical correlation of the two subspaces."""
        correlations = np.linalg.svd(self.basis.T @ other.basis, compute_uv=False)
        return float(correlations.mean())


def _main_directions(rows: np.ndarray, components: int) -> np.ndarray:
    """Left singular vectors of the largest singular values, from the smaller of the two Gram matrices."""
    n, d = rows.shape
    vectors = np.linalg.eigh(rows @ rows.T if n <= d else rows.T @ rows)[1][:, ::-1][:, :components]
    if n > d:
        vectors = np.linalg.qr(rows @ vectors)[0]
    return vectors


@dataclass(frozen=True)
class Shape:
    """Centred features up to rotation and scale; where D > N, the N coordinates that carry them all."""

    features: Features
    layer: Layer
    index: np.ndarray

    @classmethod
    def of(cls, layer: Layer, index: np.ndarray | None = None) -> "Shape":
        index = np.arange(len(layer)) if index is None else index
        chosen = Layer(layer, order=index)
        if layer.shape[1] > len(index):
            rows = chosen.matrix() - column_mean(chosen)
            values, vectors = np.linalg.eigh(rows @ rows.T)
            chosen = Layer(vectors * np.sqrt(np.maximum(values, 0)))
        return cls(Features.of(chosen, unbiased=False), layer, index)

    def __len__(self) -> int:
        return len(self.index)

    def rows(self, index: np.ndarray) -> "Shape":
        if len(index) == len(self):
            return replace(self, features=self.features.rows(index), index=self.index[index])
        return Shape.of(self.layer, self.index[index])

    def compare(self, other: "Shape") -> float:
        """1 - (squared Procrustes distance) / 2 of shapes of unit size: |X'Y|_* / (|X| |Y|)."""
        product = cross_product(self.features, other.features)
        size = (self.features.trace * other.features.trace) ** 0.5
        return float(np.linalg.svd(product, compute_uv=False).sum() / size)


def svcca(X, Y, *, components: int = 10) -> float:
    """Mean canonical correlation of the main directions of two feature matrices (Raghu et al. 2017).

    Columns are standardised, the `components` largest singular directions kept; exact, without the
    randomness of truncated solvers. Unrelated features score about sqrt(components / N), and 1 once
    components reach N - 1.

    Parameters
    ----------
    X, Y : arrays of shape (N, Dx) and (N, Dy)
    """
    x, y = (Subspace.of(Layer(np.asarray(side)), components) for side in (X, Y))
    return x.compare(y)


def procrustes(X, Y) -> float:
    """Procrustes similarity of two feature matrices, |X'Y|_* / (|X| |Y|) after centring, between 0 and 1.

    1 when a rotation and a scale carry one onto the other; 1 - similarity is half the squared distance that
    remains, at unit size. Widths may differ. Unrelated features are far from zero unless D is far below N.
    """
    x, y = (Shape.of(Layer(np.asarray(side))) for side in (X, Y))
    return x.compare(y)
