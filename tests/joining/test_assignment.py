"""Matchings against exhaustive search and against recomputation."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from coview.joining.assignment import (
    assign,
    exchange_gains,
    exchange_pairs,
    faq,
    match_graphs,
    objective,
    standardise,
)


def distances(rows: np.ndarray) -> np.ndarray:
    return -np.linalg.norm(rows[:, None] - rows[None], axis=2)


def brute_force(a: np.ndarray, b: np.ndarray) -> float:
    return max(objective(a, b, np.array(order)) for order in permutations(range(len(a))))


@given(st.integers(0, 10_000), st.integers(2, 7), st.booleans())
def test_gains_of_exchanges_are_what_recomputing_gives(seed, n, symmetric):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n, n))
    if symmetric:
        a, b = a + a.T, b + b.T
    order = rng.permutation(n)
    gains = exchange_gains(a, b[np.ix_(order, order)])
    for r in range(n):
        for s in range(n):
            other = order.copy()
            other[[r, s]] = other[[s, r]]
            assert_allclose(gains[r, s], objective(a, b, other) - objective(a, b, order), atol=1e-9)


@pytest.mark.parametrize("n", [3, 5, 7])
@pytest.mark.parametrize("seed", range(4))
def test_the_best_permutation_of_few_items_is_found(n, seed):
    rng = np.random.default_rng([seed, n])
    x = rng.normal(size=(n, 3))
    y = x[rng.permutation(n)] + 0.3 * rng.normal(size=(n, 3))
    a, b = standardise(distances(x)), standardise(distances(y))
    order, value = match_graphs(a, b, np.random.default_rng(0))
    assert_allclose(value, brute_force(a, b))
    assert_allclose(value, objective(a, b, order))


@pytest.mark.parametrize("n", [20, 50])
def test_a_planted_permutation_is_found(n):
    rng = np.random.default_rng(n)
    x = rng.normal(size=(n, 16)) * np.arange(1, 17) ** -0.5
    planted = rng.permutation(n)
    y = np.empty_like(x)
    y[planted] = x + 0.08 * rng.normal(size=x.shape)
    order, _ = match_graphs(standardise(distances(x)), standardise(distances(y)), np.random.default_rng(1))
    assert_array_equal(order, planted)


def test_steps_never_lose():
    rng = np.random.default_rng(0)
    a, b = (standardise(distances(rng.normal(size=(12, 3)))) for _ in range(2))
    order = faq(a, b, np.full((12, 12), 1 / 12))
    assert objective(a, b, exchange_pairs(a, b, order)) >= objective(a, b, order) - 1e-9


def test_standardised_kernels_have_mean_nought_and_leave_their_source_alone():
    kernel = np.random.default_rng(0).normal(size=(6, 6))
    before = kernel.copy()
    off = standardise(kernel)[~np.eye(6, dtype=bool)]
    assert_allclose([off.mean(), off.std()], [0, 1], atol=1e-12)
    assert_array_equal(kernel, before)
    assert_array_equal(standardise(np.ones((4, 4))), np.zeros((4, 4)))


def test_unequal_sides_are_matched_as_far_as_they_go():
    similarity = np.array([[0.0, 5, 1], [9, 6, 0]])
    rows, columns = assign(similarity)
    assert_array_equal(rows, [0, 1])
    assert_array_equal(columns, [1, 0])
