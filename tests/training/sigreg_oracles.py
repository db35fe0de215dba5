"""Slow, obvious ways to the SIGReg statistic, for the tests to compare with."""

import numpy as np
import torch
from scipy.spatial.distance import cdist
from scipy.special import roots_gegenbauer


def trapezoid(knots: int = 17, t_max: float = 3.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Knots, doubled trapezoid weights times exp(-t^2 / 2), and the target exp(-t^2 / 2); all from t = 0."""
    t = np.linspace(0, t_max, knots)
    phi = np.exp(-(t**2) / 2)
    lengths = np.full(knots, 2 * (t[1] - t[0]))
    lengths[[0, -1]] /= 2
    return t, lengths * phi, phi


def sigreg_plain(x: torch.Tensor, a: torch.Tensor, knots: int = 17, t_max: float = 3.0) -> torch.Tensor:
    """The formula as it is written, for autograd: (..., N, D) and (D, M) -> scalar. Holds N x M x knots."""
    t, weights, phi = (torch.as_tensor(array, dtype=x.dtype) for array in trapezoid(knots, t_max))
    angles = (x @ a).unsqueeze(-1) * t
    miss = (angles.cos().mean(-3) - phi).square() + angles.sin().mean(-3).square()
    return (x.shape[-2] * (miss @ weights)).mean()


def sigreg_slice_free(x: np.ndarray, knots: int = 17, t_max: float = 3.0) -> float:
    """SIGReg averaged over ALL directions, (N, D) -> float: no slices, hence no noise.

    For a uniform direction a, E cos(t a . v) = Omega_D(t |v|) depends on the length of v alone, so that
    T = (1/N) sum_ij K(|x_i - x_j|) - 2 sum_i K_1(|x_i|) + N sum_k w_k phi_k^2, with
    K(r) = sum_k w_k Omega(t_k r) and K_1(r) = sum_k w_k phi_k Omega(t_k r).
    """
    x = np.asarray(x, dtype=np.float64)
    rows, width = x.shape
    t, weights, phi = trapezoid(knots, t_max)
    # One coordinate u of a uniform direction has density (1 - u^2)^((D - 3) / 2): Gauss-Gegenbauer nodes.
    nodes, mass = roots_gegenbauer(64, (width - 2) / 2)

    def average(lengths: np.ndarray, by_knot: np.ndarray) -> np.ndarray:
        omega = np.cos(lengths[..., None, None] * t[:, None] * nodes) @ (mass / mass.sum())
        return omega @ by_knot

    pairs = sum(average(row, weights).sum() for row in cdist(x, x))
    singles = average(np.linalg.norm(x, axis=1), weights * phi).sum()
    return float(pairs / rows - 2 * singles + rows * (weights * phi**2).sum())
