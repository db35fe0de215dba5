"""Each proposal recovers the rotation of a cloud it can see, exactly when there is no noise."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from coview.joining.proposals import by_axes, by_centroids, by_profiles, by_third_moments, proposals
from coview.joining.refinement import polar
from coview.joining.rotation import unit_rows


@pytest.fixture(scope="module")
def turned():
    """The same skewed rows on both sides, shuffled and turned."""
    rng = np.random.default_rng(0)
    rows = (rng.exponential(size=(400, 6)) - 1) * np.arange(6, 0, -1)
    x = unit_rows((rows - rows.mean(axis=0)).astype(np.float32))
    rotation = np.linalg.qr(rng.normal(size=(6, 6)))[0].astype(np.float32)
    return x, x[rng.permutation(400)] @ rotation, rotation


def test_profiles(turned):
    x, y, rotation = turned
    assert_allclose(polar(by_profiles(x, y)), rotation, atol=1e-3)


def test_axes(turned):
    x, y, rotation = turned
    assert_allclose(by_axes(x, y, 6), rotation, atol=1e-3)


def test_fewer_axes_leave_the_rest_out(turned):
    x, y, rotation = turned
    projection = by_axes(x, y, 3) @ rotation.T
    assert_allclose(np.trace(projection), 3, atol=1e-3)
    assert_allclose(projection @ projection, projection, atol=1e-3)


def test_third_moments_from_a_start_that_is_off(turned):
    x, y, rotation = turned
    rng = np.random.default_rng(1)
    off = polar(rotation + 0.25 * rng.normal(size=(6, 6)))
    assert np.abs(off - rotation).max() > 0.1
    assert_allclose(by_third_moments(off, x, y), rotation, atol=1e-2)


def test_centroids_of_clusters():
    rng = np.random.default_rng(2)
    centres = rng.normal(size=(8, 5))
    rotation = np.linalg.qr(rng.normal(size=(5, 5)))[0].astype(np.float32)
    labels = rng.integers(8, size=(2, 400))
    x, y = (unit_rows((centres[own] + 0.02 * rng.normal(size=(400, 5))).astype(np.float32)) for own in labels)
    found = [polar(by_centroids(x, y @ rotation, 8, np.random.default_rng(seed))) for seed in range(4)]
    assert min(np.abs(one - rotation).max() for one in found) < 0.05


def test_all_of_them_are_semi_orthogonal_for_unequal_widths(turned):
    x, y, _ = turned
    y = np.concatenate([y, np.zeros((400, 3), dtype=np.float32)], axis=1)
    for name, found in proposals(x, y, np.random.default_rng(3), matchings=2):
        assert found.shape == (6, 9), name
        size = np.linalg.svd(found, compute_uv=False)
        assert ((np.abs(size - 1) < 1e-4) | (size < 1e-4)).all(), name
