"""Matching one to one: by similarities (linear), or by the similarities within each side (quadratic)."""

import numpy as np
from scipy.optimize import linear_sum_assignment

STEPS = 60
GAIN = 1e-9


def assign(similarity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The one-to-one matching of rows with columns of largest total similarity.

    Parameters
    ----------
    similarity : array of shape (N, M)

    Returns
    -------
    rows, columns : ndarrays of shape (min(N, M),), rows in ascending order
    """
    return linear_sum_assignment(similarity, maximize=True)


def objective(a: np.ndarray, b: np.ndarray, order: np.ndarray) -> float:
    """Sum over i, j of ``a[i, j] * b[order[i], order[j]]``."""
    return float(np.vdot(a, b[np.ix_(order, order)]))


def standardise(kernel: np.ndarray) -> np.ndarray:
    """A copy with off-diagonal entries of mean 0 and variance 1 and a diagonal of 0; a constant one is all 0.

    Without its diagonal a Gram matrix is indefinite. With it the relaxed problem is convex, and its first
    step runs into the nearest corner.
    """
    kernel = np.array(kernel, dtype=np.float64)
    off = ~np.eye(len(kernel), dtype=bool)
    deviation = kernel[off].std()
    kernel -= kernel[off].mean()
    kernel /= deviation if deviation > 0 else 1
    np.fill_diagonal(kernel, 0)
    return kernel


def match_graphs(
    a: np.ndarray, b: np.ndarray, rng: np.random.Generator, *, restarts: int = 30
) -> tuple[np.ndarray, float]:
    """The permutation under which two symmetric matrices agree best: a quadratic assignment.

    FAQ from the barycentre and from random doubly stochastic starts, each followed by the best exchanges of
    two; the best of all is kept. The problem is NP-hard and nothing proves the result optimal; on planted
    permutations of up to 100 items with little noise it is. Kernels should be standardised first.

    Parameters
    ----------
    a, b : arrays of shape (N, N), symmetric; left as they are
    rng : where random starts come from
    restarts : number of starts

    Returns
    -------
    order : ndarray of N int; item i of `a` is item ``order[i]`` of `b`
    value : the `objective` reached
    """
    n = len(a)
    best, value = np.arange(n), -np.inf
    for start in range(restarts):
        p = np.full((n, n), 1 / n)
        if start:
            p = (p + _doubly_stochastic(rng, n)) / 2
        order = exchange_pairs(a, b, faq(a, b, p))
        if (reached := objective(a, b, order)) > value:
            best, value = order, reached
    return best, value


def faq(a: np.ndarray, b: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Fast approximate quadratic assignment (Vogelstein et al., PLoS ONE 2015), by Frank-Wolfe.

    Maximises tr(A P B Pᵀ) over doubly stochastic P from `start` (N, N), then takes the nearest permutation.
    """
    p = start
    for _ in range(STEPS):
        gradient = a @ p @ b
        rows, columns = assign(gradient)
        towards = np.zeros_like(p)
        towards[rows, columns] = 1
        towards -= p
        # On the segment P + t D the objective is f + 2 t slope + t² bend.
        slope, bend = np.vdot(gradient, towards), np.vdot(a @ towards @ b, towards)
        if slope <= GAIN * (1 + abs(np.vdot(gradient, p))):
            break
        step = 1.0 if bend >= 0 else min(1.0, -slope / bend)
        p = p + step * towards
    return assign(p)[1]


def exchange_pairs(a: np.ndarray, b: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Exchange the two partners that gain most until no exchange gains (2-opt)."""
    order = order.copy()
    scale = GAIN * (1 + np.abs(a).sum() * np.abs(b).max())
    while True:
        gains = exchange_gains(a, b[np.ix_(order, order)])
        one, other = np.unravel_index(np.argmax(gains), gains.shape)
        if gains[one, other] <= scale:
            return order
        order[[one, other]] = order[[other, one]]


def exchange_gains(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How much exchanging items r and s of `b` adds to the objective, for all r and s: shape (N, N)."""
    products = a @ b
    own, across = np.diag(products), products + products.T
    a_own, b_own = np.diag(a), np.diag(b)
    whole = across - own[:, None] - own[None, :]
    # The sum above counts k = r and k = s as if r and s stayed where they are; their true terms replace it.
    at_r = (a_own[:, None] - a) * (b - b_own[:, None])
    at_s = (a - a_own[None, :]) * (b_own[None, :] - b)
    return 2 * (whole - at_r - at_s) + (a_own[:, None] - a_own) * (b_own - b_own[:, None])


def _doubly_stochastic(rng: np.random.Generator, n: int) -> np.ndarray:
    p = rng.random((n, n))
    for _ in range(10):
        p /= p.sum(axis=1, keepdims=True)
        p /= p.sum(axis=0, keepdims=True)
    return p
