"""Clusters of points that are plainly apart, and corner cases."""

import numpy as np
from numpy.testing import assert_allclose

from coview.joining.k_means import k_means, squared_distances


def test_clusters_that_are_apart_are_found():
    rng = np.random.default_rng(0)
    centres = 10 * rng.normal(size=(6, 4))
    truth = np.arange(300) % 6
    rows = centres[truth] + 0.1 * rng.normal(size=(300, 4))
    found, labels = k_means(rows, 6, np.random.default_rng(1), starts=5)
    assert len({(a, b) for a, b in zip(truth, labels, strict=True)}) == 6
    means = np.stack([rows[labels == one].mean(axis=0) for one in range(6)])
    assert_allclose(found, means, atol=1e-9)


def test_distances_are_those_of_the_slow_way():
    rng = np.random.default_rng(2)
    rows, centres = rng.normal(size=(20, 5)), rng.normal(size=(3, 5))
    slow = ((rows[:, None] - centres[None]) ** 2).sum(axis=2)
    assert_allclose(squared_distances(rows, centres), slow)


def test_as_many_clusters_as_different_rows_and_duplicates():
    rows = np.repeat(np.eye(4), 5, axis=0)
    centres, labels = k_means(rows, 4, np.random.default_rng(0), starts=3)
    assert_allclose(centres[labels], rows)
    centres, _ = k_means(np.ones((10, 2)), 3, np.random.default_rng(0))
    assert np.isfinite(centres).all()
