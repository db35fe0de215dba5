"""Metrics on lists, against sets and the textbook recursions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coview.alignment.overlap import (
    cycle_knn,
    edit_distance_knn,
    lcs_knn,
    mutual_knn,
    mutual_knn_score,
)


def random_lists(rng, n, k):
    others = [np.delete(np.arange(n), i) for i in range(n)]
    return np.array([rng.permutation(row)[:k] for row in others], dtype=np.int32)


def slow_lcs(a, b):
    table = np.zeros((len(a) + 1, len(b) + 1), dtype=int)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1, j + 1] = table[i, j] + 1 if x == y else max(table[i, j + 1], table[i + 1, j])
    return table[-1, -1]


def slow_levenshtein(a, b):
    table = np.zeros((len(a) + 1, len(b) + 1), dtype=int)
    table[:, 0], table[0] = range(len(a) + 1), range(len(b) + 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1, j + 1] = min(table[i, j] + (x != y), table[i, j + 1] + 1, table[i + 1, j] + 1)
    return table[-1, -1]


sizes = st.tuples(st.integers(0, 2**16), st.integers(3, 70)).flatmap(
    lambda pair: st.tuples(st.just(pair[0]), st.just(pair[1]), st.integers(1, pair[1] - 1))
)


@settings(max_examples=40)
@given(sizes)
def test_list_metrics_equal_their_slow_twins(sizes):
    seed, n, k = sizes
    rng = np.random.default_rng(seed)
    x, y = random_lists(rng, n, k), random_lists(rng, n, k)
    rows = range(n)
    shared = np.array([len(set(x[i]) & set(y[i])) / k for i in rows])
    np.testing.assert_allclose(mutual_knn(x, y), shared)
    assert mutual_knn_score(x.T.copy(), y.T.copy()) == pytest.approx(shared.mean())
    np.testing.assert_array_equal(cycle_knn(x, y), [any(i in x[b] for b in y[i]) for i in rows])
    np.testing.assert_array_equal(lcs_knn(x, y), [slow_lcs(x[i], y[i]) for i in rows])
    np.testing.assert_allclose(edit_distance_knn(x, y), [1 - slow_levenshtein(x[i], y[i]) / k for i in rows])


@settings(max_examples=40)
@given(sizes)
def test_overlap_obeys_the_triangle_property_row_by_row(sizes):
    """If A agrees with B and B with C, then A agrees with C at least so much (platonic-rep issue 4)."""
    seed, n, k = sizes
    rng = np.random.default_rng(seed)
    a, b, c = (random_lists(rng, n, k) for _ in range(3))
    assert (mutual_knn(a, c) >= mutual_knn(a, b) + mutual_knn(b, c) - 1 - 1e-12).all()


def test_missing_neighbours_agree_with_nothing():
    x = np.array([[1, -1], [0, 2], [1, -1]], dtype=np.int32)
    np.testing.assert_allclose(mutual_knn(x, x), [0.5, 1, 0.5])
    assert mutual_knn_score(x.T.copy(), x.T.copy()) == pytest.approx(2 / 3)
    np.testing.assert_array_equal(lcs_knn(x, x), [1, 2, 1])
    np.testing.assert_allclose(edit_distance_knn(x, x), [0.5, 1, 0.5])
    assert cycle_knn(x, x)[0] == 1  # 0 -> 1 -> 0
