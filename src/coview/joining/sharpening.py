"""One side of a join, and its sharpening: rows multiplied by a power of the covariance between good views.

The covariance between views of one scene, C, holds what views share. It turns as the rows turn, so that
multiplying each side by its own C to a power keeps the rotation between them, while it shrinks what is
particular to one view and restores the unequal variances that whitening (SIGReg) has taken away, which a
search without pairs lives on. No pair across the sides is used.
"""

from dataclasses import dataclass

import numpy as np

from coview.alignment.rows import read_rows
from coview.embeddings import check_finite
from coview.errors import InputError
from coview.joining.rotation import unit_rows

SMALLEST = 1e-4


@dataclass(frozen=True)
class Side:
    """Items of one space, without their partners.

    Attributes
    ----------
    items : ndarray of shape (N, D), float32, centred: scene means where views are known, else rows
    mean : ndarray of shape (D,), float32
    spread : float, root mean square distance of rows from the mean
    between : ndarray of shape (D, D), float64, or None
        Covariance between different views of one scene.
    """

    items: np.ndarray
    mean: np.ndarray
    spread: float
    between: np.ndarray | None

    def sharpener(self, power: float) -> np.ndarray:
        """C to a power, shape (D, D), float32; eigenvalues under 1e-4 of the largest are raised to that."""
        if power == 0 or self.between is None:
            return np.eye(self.items.shape[1], dtype=np.float32)
        values, vectors = np.linalg.eigh(self.between)
        values = np.maximum(values / values[-1], SMALLEST)
        return ((vectors * values**power) @ vectors.T).astype(np.float32)

    def at(self, power: float) -> np.ndarray:
        """Items sharpened and scaled to unit length, shape (N, D)."""
        return unit_rows(self.items @ self.sharpener(power) if power else self.items)


def open_side(rows, views=None, where: str = "X") -> Side:
    """Centre rows, average the views of a scene, and take the covariance between views.

    Parameters
    ----------
    rows : array of shape (N, D)
    views : sequence of N ids or None; rows with the same id are views of one scene
    where : how errors call the rows

    Raises
    ------
    InputError
        Not a matrix of finite numbers, or another number of views than rows.
    """
    if len(rows.shape) != 2 or 0 in rows.shape:
        raise InputError(f"expected rows of shape (N, D), found {tuple(rows.shape)}.", where=where)
    matrix = read_rows(rows, slice(None)).astype(np.float32)
    check_finite(matrix, where)
    mean = matrix.mean(axis=0, dtype=np.float64).astype(np.float32)
    matrix = matrix - mean
    spread = float(np.sqrt(np.square(matrix, dtype=np.float64).sum(axis=1).mean()))
    if views is None:
        return Side(matrix, mean, spread, None)
    if len(views) != len(matrix):
        raise InputError(f"{len(views)} scenes for {len(matrix)} rows.", where=where)
    scenes, counts = np.unique(np.asarray(views), return_inverse=True, return_counts=True)[1:]
    order = np.argsort(scenes, kind="stable")
    sums = np.add.reduceat(matrix[order], np.cumsum(counts) - counts, axis=0, dtype=np.float64)
    items = (sums / counts[:, None]).astype(np.float32)
    return Side(items, mean, spread, _between_views(matrix, sums, counts))


def _between_views(rows: np.ndarray, sums: np.ndarray, counts: np.ndarray) -> np.ndarray | None:
    """Mean outer product of two different views of a scene, over all ordered pairs of views.

    All pairs of a scene are those of its sum with itself less each view with itself.
    """
    pairs = float((counts * (counts - 1)).sum())
    if not pairs:
        return None
    wide = rows.astype(np.float64)
    between = (sums.T @ sums - wide.T @ wide) / pairs
    return between if np.linalg.eigvalsh(between)[-1] > 0 else None
