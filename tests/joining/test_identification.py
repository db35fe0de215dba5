"""What counts as evidence, on rotations that are right, wrong and undetermined."""

import numpy as np
from numpy.testing import assert_allclose

from coview.joining.identification import Evidence, agreement, weigh
from coview.joining.planted import plant
from coview.joining.refinement import polar
from coview.joining.rotation import unit_rows


def halves(latent, noise=0.3):
    cloud = plant(latent, n=1200, d=24, noise=noise, seed=3)
    sides = [unit_rows(side - side.mean(axis=0)) for side in (cloud.x, cloud.y)]
    return [(side[:600], side[600:]) for side in sides], cloud.rotation.astype(np.float32)


def test_the_truth_of_clusters_has_no_objections():
    (x, y), truth = halves("clusters")
    evidence = weigh((truth, truth), x, y, np.random.default_rng(0))
    assert evidence.objections() == ()
    assert evidence.fit > 0.8
    assert_allclose(evidence.agreement, 1, atol=1e-3)


def test_any_rotation_of_an_isotropic_gaussian_is_as_good_as_the_truth():
    (x, y), truth = halves("isotropic", 0.1)
    evidence = weigh((truth, truth), x, y, np.random.default_rng(0))
    assert evidence.objections() != ()
    assert evidence.fit < 0.55


def test_signs_of_axes_of_a_gaussian_are_undetermined():
    (x, y), truth = halves("gaussian", 0.1)
    p_values = [weigh((truth, truth), x, y, np.random.default_rng(seed)).p_value for seed in range(2)]
    assert max(p_values) > 0.02


def test_halves_that_disagree_are_objected_to():
    (x, y), truth = halves("clusters")
    other = polar(np.random.default_rng(1).normal(size=truth.shape))
    evidence = weigh((truth, other), x, y, np.random.default_rng(0))
    assert any("disagree" in reason for reason in evidence.objections())
    assert abs(agreement(truth, other, x[0])) < 0.5


def test_shares_and_places_by_hand():
    evidence = Evidence(score=0.8, null=(0.5, 0.6, 0.9, 0.4), self_score=1.0, agreement=1.0)
    assert evidence.p_value == 2 / 5
    assert_allclose(evidence.fit, (0.8 - 0.6) / (1.0 - 0.6))
    assert Evidence(0.5, (0.5,), 0.5, 1.0).fit == 0
