"""Mardia's statistics: standard under a Gaussian, large for clusters, unchanged by any linear map."""

import numpy as np
from numpy.testing import assert_allclose

from coview.joining.non_gaussianity import non_gaussianity
from coview.joining.planted import plant


def test_a_gaussian_of_any_covariance_is_within_what_samples_vary():
    z = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        found = non_gaussianity(rng.normal(size=(800, 6)) @ rng.normal(size=(6, 6)))
        z.append((found.skewness_z, found.kurtosis_z))
    assert (np.abs(np.mean(z, axis=0)) < 1).all()
    assert (np.std(z, axis=0) < 2).all()


def test_the_slow_way_gives_the_same():
    rows = np.random.default_rng(0).exponential(size=(100, 3))
    centred = rows - rows.mean(axis=0)
    inverse = np.linalg.inv(centred.T @ centred / 100)
    products = np.array([[a @ inverse @ b for b in centred] for a in centred])
    found = non_gaussianity(rows)
    assert_allclose(found.kurtosis, (np.diag(products) ** 2).mean() / 15 - 1)
    assert_allclose(found.skewness_z, ((products**3).mean() * 100 / 6 - 10) / np.sqrt(20))


def test_clusters_and_skewed_clouds_stand_out_and_gaussians_do_not():
    shapes = {
        one: non_gaussianity(plant(one, n=1000, d=16, noise=0.3, seed=0).x)
        for one in ("clusters", "skewed", "heavy-tailed", "gaussian")
    }
    assert shapes["clusters"].skewness_z > 10
    assert shapes["skewed"].skewness_z > 10
    assert shapes["heavy-tailed"].kurtosis_z > 10
    assert abs(shapes["gaussian"].skewness_z) < 5
    assert abs(shapes["gaussian"].kurtosis_z) < 5


def test_constant_and_few_rows_have_no_shape():
    assert non_gaussianity(np.ones((10, 3))).directions == 0
    assert non_gaussianity(np.ones((1, 3))).skewness == 0
