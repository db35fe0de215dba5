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
    """The permutation under which two matrices agree best: a quadratic assignment.

    FAQ from the barycentre, from items matched by their profiles (sorted rows, which no permutation of the
    others changes), and from random doubly stochastic starts, each followed by the best exchanges of
    two; the best of all is kept. The problem is NP-hard and nothing proves the result optimal; on planted
    permutations of up to 100 items with little noise it is. Kernels should be standardised first.

    Parameters
    ----------
    a, b : arrays of shape (N, N); left as they are
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
        if start == 1:
            p = (p + _by_profiles(a, b)) / 2
        elif start:
            p = (p + _doubly_stochastic(rng, n)) / 2
        order = exchange_pairs(a, b, faq(a, b, p))
        if (reached := objective(a, b, order)) > value:
            best, value = order, reached
    return best, value


def faq(a: np.ndarray, b: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Fast approximate quadratic assignment (Vogelstein et al., PLoS ONE 2015), by Frank-Wolfe.

    Maximises the inner product of A and P B Pᵀ over doubly stochastic P from `start` (N, N), then takes the
    nearest permutation.
    """

    def pull(p: np.ndarray) -> np.ndarray:  # half the gradient; its inner product with P is the objective
        return (a @ p @ b.T + a.T @ p @ b) / 2

    p: np.ndarray = start
    for _ in range(STEPS):
        uphill = pull(p)
        rows, columns = assign(uphill)
        towards = np.zeros_like(p)
        towards[rows, columns] = 1
        towards -= p
        # On the segment P + t D the objective is f + 2 t slope + t² bend.
        slope, bend = float(np.vdot(uphill, towards)), float(np.vdot(pull(towards), towards))
        if slope <= GAIN * (1 + abs(float(np.vdot(uphill, p)))):
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
    a_own, b_own = np.diag(a), np.diag(b)
    corners = (a_own[:, None] - a_own) * (b_own - b_own[:, None]) + (a - a.T) * (b.T - b)
    return _gains_along_rows(a, b) + _gains_along_rows(a.T, b.T) + corners


def _gains_along_rows(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Sum over k other than r and s of (a[r, k] - a[s, k]) (b[s, k] - b[r, k])."""
    products = a @ b.T
    own = np.diag(products)
    every_k = products + products.T - own[:, None] - own
    a_own, b_own = np.diag(a), np.diag(b)
    k_is_r = (a_own[:, None] - a.T) * (b.T - b_own[:, None])
    k_is_s = (a - a_own) * (b_own - b)
    return every_k - k_is_r - k_is_s


def _by_profiles(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    one, other = np.sort(a, axis=1), np.sort(b, axis=1)
    rows, columns = assign(-np.linalg.norm(one[:, None] - other[None], axis=2))
    p = np.zeros_like(one)
    p[rows, columns] = 1
    return p


def _doubly_stochastic(rng: np.random.Generator, n: int) -> np.ndarray:
    p = rng.random((n, n))
    for _ in range(10):
        p /= p.sum(axis=1, keepdims=True)
        p /= p.sum(axis=0, keepdims=True)
    return p
