"""Centred kernel alignment (CKA), biased and unbiased, with linear and Gaussian kernels.

CKA is HSIC(X, Y) / sqrt(HSIC(X, X) HSIC(Y, Y)). The biased HSIC is tr(KHLH) (Kornblith et al. 2019); it is
far from zero for unrelated features with more dimensions than samples, about
sqrt(dx dy / ((n + dx)(n + dy))). The unbiased one (Song et al. 2012) has mean exactly zero over all
re-pairings and may be negative.

Nothing is added to denominators, so that the scale of the features does not matter; features are centred
first and sums are kept in double precision, so that a common offset does not matter either. Linear CKA of
many rows goes through products of features, X'Y, and never holds an N x N matrix.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coview.alignment.recipes import Layer, column_mean
from coview.alignment.rows import ROWS_AT_ONCE, row_norms
from coview.errors import InputError, ResourceError, UsageError, did_you_mean

# Up to here N x N matrices are kept, one a layer; beyond, linear kernels go through the features.
GRAM_UP_TO = 2048
PAIRWISE_UP_TO = 16384


@dataclass(frozen=True)
class Gram:
    """A kernel matrix and what HSIC needs of it.

    Attributes
    ----------
    values : ndarray of shape (N, N); the diagonal is zero when unbiased
    sums : ndarray of shape (N,), row sums
    trace : float, of the centred matrix
    norm : float, square root of the kernel's HSIC with itself
    unbiased : bool
    """

    values: np.ndarray
    sums: np.ndarray
    trace: float
    unbiased: bool
    norm: float = 0.0

    @classmethod
    def of(cls, values: np.ndarray, unbiased: bool) -> "Gram":
        n = require_rows(len(values), unbiased)
        trace = float(np.trace(values, dtype=np.float64) - values.sum(dtype=np.float64) / n)
        if unbiased:
            values = values.copy()
            np.fill_diagonal(values, 0)
        kernel = cls(values, values.sum(axis=1, dtype=np.float64), trace, unbiased)
        return replace(kernel, norm=_root(kernel.hsic(kernel)))

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, index: np.ndarray) -> "Gram":
        values = self.values[index[:, None], index]
        if len(index) == len(self):
            return replace(self, values=values, sums=self.sums[index])
        return Gram.of(values, self.unbiased)

    def hsic(self, other: "Gram") -> float:
        product = float(np.einsum("ij,ij->i", self.values, other.values).sum(dtype=np.float64))
        return _centred(product, self.sums, other.sums, self.unbiased)

    def compare(self, other: "Gram") -> float:
        return self.hsic(other) / (self.norm * other.norm)


@dataclass(frozen=True)
class Features:
    """Features of a linear kernel, read block by block and centred: HSIC from X'Y, without N x N."""

    layer: Layer
    mean: np.ndarray
    index: np.ndarray
    squares: np.ndarray  # (N,), squared lengths of the centred rows: the kernel's diagonal
    unbiased: bool
    norm: float = 0.0

    @classmethod
    def of(cls, layer: Layer, unbiased: bool, index: np.ndarray | None = None) -> "Features":
        index = np.arange(len(layer)) if index is None else index
        require_rows(len(index), unbiased)
        mean = column_mean(Layer(layer, order=index))
        features = cls(layer, mean, index, np.empty(0), unbiased)
        squares = [np.square(row_norms(rows), dtype=np.float64) for rows in features.blocks()]
        features = replace(features, squares=np.concatenate(squares))
        return replace(features, norm=_root(features.hsic(features)))

    def __len__(self) -> int:
        return len(self.index)

    @property
    def trace(self) -> float:
        return float(self.squares.sum())

    def blocks(self):
        mean = None
        for start in range(0, len(self), ROWS_AT_ONCE):
            rows = self.layer.rows(self.index[start : start + ROWS_AT_ONCE])
            mean = self.mean.astype(rows.dtype) if mean is None else mean
            yield rows - mean

    def rows(self, index: np.ndarray) -> "Features":
        if len(index) == len(self):
            return replace(self, index=self.index[index], squares=self.squares[index])
        return Features.of(self.layer, self.unbiased, self.index[index])

    def hsic(self, other: "Features") -> float:
        product = float(np.sum(cross_product(self, other) ** 2))
        if not self.unbiased:
            return product
        # Centred rows of the kernel sum to zero; without its diagonal they sum to minus the diagonal.
        product -= float(self.squares @ other.squares)
        return _centred(product, -self.squares, -other.squares, True)

    def compare(self, other: "Features") -> float:
        return self.hsic(other) / (self.norm * other.norm)


def cross_product(x: Features, y: Features) -> np.ndarray:
    """X'Y of centred features, shape (Dx, Dy): single precision within a block, double between blocks."""
    total = np.zeros((len(x.mean), len(y.mean)))
    if x is y:  # half the work
        for rows in x.blocks():
            total += rows.T @ rows
        return total
    for rows_x, rows_y in zip(x.blocks(), y.blocks(), strict=True):
        total += rows_x.T @ rows_y
    return total


def _centred(product: float, sums_x: np.ndarray, sums_y: np.ndarray, unbiased: bool) -> float:
    """HSIC from <K, L> and row sums, up to the factor that CKA cancels."""
    n = len(sums_x)
    total = float(sums_x.sum() * sums_y.sum())
    shared = float(sums_x @ sums_y)
    if unbiased:
        return product + total / ((n - 1) * (n - 2)) - 2 * shared / (n - 2)
    return product - 2 * shared / n + total / n**2


def _root(value: float) -> float:
    """Square root of a self-HSIC; NaN when it is not positive, so that the score is NaN and others go on."""
    return value**0.5 if value > 0 else float("nan")


def require_rows(n: int, unbiased: bool) -> int:
    if n < (4 if unbiased else 2):
        raise InputError(
            f"{'unbiased ' * unbiased}CKA needs at least {4 if unbiased else 2} rows; there are {n}."
        )
    return n


def require_pairwise(n: int, metric: str) -> None:
    """Raise ResourceError where a metric would need more than a few gigabytes for all pairs of rows."""
    if n > PAIRWISE_UP_TO:
        raise ResourceError(
            f"{metric} compares all pairs of rows; {n:,} rows would need {n * n * 8 / 2**30:.0f} GiB.",
            hint=f"Take a sample of at most {PAIRWISE_UP_TO:,} rows.",
        )


def linear_kernel(layer: Layer, *, unbiased: bool) -> Gram | Features:
    if len(layer) > GRAM_UP_TO:
        return Features.of(layer, unbiased)
    rows = centred_matrix(layer)
    return Gram.of(rows @ rows.T, unbiased)


def gaussian_kernel(layer: Layer, *, sigma: float | None, unbiased: bool) -> Gram:
    """exp(-|x - y|² / 2 sigma²); sigma is the median distance unless given, which makes scale irrelevant."""
    require_pairwise(len(layer), "CKA with a Gaussian kernel")
    squares = squared_distances(centred_matrix(layer))
    if sigma is None:
        sigma = float(np.median(squares[np.triu_indices(len(squares), 1)]) ** 0.5)
    return Gram.of(np.exp(squares / (-2 * sigma**2)), unbiased)


def centred_matrix(layer: Layer) -> np.ndarray:
    """All rows less their mean, as one array."""
    return layer.matrix() - column_mean(layer).astype(np.float32)


def squared_distances(rows: np.ndarray) -> np.ndarray:
    """Squared distances of all pairs of rows, shape (N, N), never negative, zero on the diagonal."""
    rows = rows.astype(np.float64)
    squares = (rows**2).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares - 2 * (rows @ rows.T), 0)
    np.fill_diagonal(distances, 0)
    return distances


def cka_chance(x: Gram | Features, y: Gram | Features) -> float:
    """Exact mean over all re-pairings: 0 if unbiased, else tr(K) tr(L) / ((n - 1) |K| |L|), centred."""
    return 0.0 if x.unbiased else x.trace * y.trace / ((len(x) - 1) * x.norm * y.norm)


def unbiased_cka_deviation(n: int) -> float:
    """Exact standard deviation of unbiased CKA over all re-pairings: the same for all kernels.

    The second moment of sum_ij A_ij B_p(i)p(j) over p is a sum over the ways two index pairs can overlap. For
    U-centred kernels (symmetric, zero diagonal, zero row sums) every such sum is a multiple of sum A² sum B²,
    which the denominator cancels.
    """
    pairs, triples, quadruples = n * (n - 1), n * (n - 1) * (n - 2), n * (n - 1) * (n - 2) * (n - 3)
    return (2 / pairs + 4 / triples + 4 / quadruples) ** 0.5


def cka(X, Y, *, kernel: str = "linear", unbiased: bool = True, sigma: float | None = None) -> float:
    """Centred kernel alignment of two feature matrices.

    Parameters
    ----------
    X, Y : arrays of shape (N, Dx) and (N, Dy)
    kernel : "linear" or "rbf" (Gaussian)
    unbiased : bool, Song et al.'s estimator (default) or Kornblith et al.'s
    sigma : float, optional
        Width of the Gaussian kernel; by default each side's median distance.

    Raises
    ------
    InputError
        Fewer than 4 rows (2 when biased).
    """
    if kernel not in ("linear", "rbf"):
        raise UsageError(f"unknown kernel {kernel!r}.", hint=did_you_mean(kernel, ("linear", "rbf")))

    def summarise(side) -> Any:
        layer = Layer(np.asarray(side))
        if kernel == "rbf":
            return gaussian_kernel(layer, sigma=sigma, unbiased=unbiased)
        return linear_kernel(layer, unbiased=unbiased)

    return summarise(X).compare(summarise(Y))
