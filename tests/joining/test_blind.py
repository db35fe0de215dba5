"""A planted rotation is found without pairs, and where nothing identifies one that is what is said."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_limits

from coview.errors import InputError, UsageError
from coview.joining.blind import FOUND, NOT_IDENTIFIED, find_rotation
from coview.joining.planted import plant
from coview.joining.read_out import foscttm
from coview.joining.rotation import load_rotation, save_rotation

MATCHINGS = 2


def cloud(latent="clusters", *, noise=0.2, seed=0, n=900, d=32):
    return plant(latent, n=n, d=d, noise=noise, seed=seed, held=200)


def error(fit, planted):
    return foscttm(fit.rotation.map(planted.held_x), fit.rotation.target(planted.held_y))


@pytest.fixture(scope="module")
def found():
    planted = cloud()
    return planted, find_rotation(planted.x, planted.y, seed=0, matchings=MATCHINGS)


def test_clusters_are_joined(found, tmp_path):
    planted, fit = found
    assert (fit.verdict, fit.reasons) == (FOUND, ())
    assert error(fit, planted) < 0.02
    assert fit.score > fit.null
    assert fit.agreement > 0.99
    matrix = fit.rotation.matrix
    assert_allclose(matrix @ matrix.T, np.eye(32), atol=1e-4)
    assert min(one.skewness_z for one in fit.non_gaussianity) > 10
    save_rotation(tmp_path / "r.safetensors", fit.rotation)
    assert_array_equal(load_rotation(tmp_path / "r.safetensors").matrix, matrix)
    assert json.loads(json.dumps(fit.as_json()))["verdict"] == "found"


def test_offset_and_scale_of_a_side_change_nothing_that_is_read(found):
    planted, fit = found
    moved = find_rotation(planted.x * 4 + 8, planted.y, seed=0, matchings=MATCHINGS)
    assert moved.verdict == FOUND
    assert error(moved, type(planted)(**{**vars(planted), "held_x": planted.held_x * 4 + 8})) < 0.02
    mapped = moved.rotation.map(planted.held_x * 4 + 8), fit.rotation.map(planted.held_x)
    assert (mapped[0] * mapped[1]).sum(axis=1).mean() > 0.98


def test_the_number_of_threads_changes_no_bit(found):
    planted, fit = found
    with threadpool_limits(2):
        again = find_rotation(planted.x, planted.y, seed=0, matchings=MATCHINGS)
    assert_array_equal(again.rotation.matrix, fit.rotation.matrix)
    assert again.as_json() == fit.as_json()


@pytest.mark.parametrize("latent", ["isotropic", "gaussian", "independent"])
def test_what_nothing_identifies_is_not_identified(latent):
    planted = cloud(latent, noise=0.1, n=500, d=24)
    fit = find_rotation(planted.x, planted.y, matchings=MATCHINGS)
    assert fit.verdict == NOT_IDENTIFIED
    assert fit.rotation is None
    assert any("disagree" in reason for reason in fit.reasons)
    assert fit.as_json()["verdict"] == "not identified"


@pytest.fixture(scope="module")
def whitened_views():
    """Four noisy views of each item, whitened as SIGReg would have them."""
    rng = np.random.default_rng(0)
    planted = cloud(noise=0.0, n=1200)
    sides, held = [], []
    for rows, kept in ((planted.x, planted.held_x), (planted.y, planted.held_y)):
        views = np.repeat(rows, 4, axis=0) + 0.7 * rng.normal(size=(4 * len(rows), 32))
        values, vectors = np.linalg.eigh(np.cov(views.T))
        whitener = (vectors * values**-0.5) @ vectors.T
        sides.append(views @ whitener)
        held.append(kept @ whitener)
    return sides, np.repeat(np.arange(1200), 4), held


def test_sharpening_finds_what_whitening_hid_and_the_score_chooses_its_power(whitened_views):
    sides, scenes, held = whitened_views
    plain = find_rotation(*sides, views_x=scenes, views_y=scenes[::-1] + 5, powers=[0.0], matchings=MATCHINGS)
    assert plain.verdict == NOT_IDENTIFIED
    fit = find_rotation(*sides, views_x=scenes, views_y=scenes[::-1] + 5, matchings=MATCHINGS)
    assert fit.verdict == FOUND
    assert fit.items == (1200, 1200)
    assert set(fit.powers) <= {1.0, 2.0}
    assert foscttm(fit.rotation.map(held[0]), fit.rotation.target(held[1])) < 0.03


def test_few_pairs_help_and_pairs_that_lie_do_not():
    planted = cloud("isotropic", noise=0.1, n=300, d=8)
    rows = np.concatenate([planted.x, planted.held_x]), np.concatenate([planted.y, planted.held_y])
    pairs = 300 + np.arange(40)[:, None].repeat(2, axis=1)
    lying = np.stack([pairs[:, 0], np.roll(pairs[:, 1], 1)], axis=1)
    for known in (pairs, lying):
        fit = find_rotation(*rows, known_pairs=known, matchings=MATCHINGS)
        assert fit.known_pairs == 40
        assert fit.verdict == NOT_IDENTIFIED or error(fit, planted) < 0.05


@pytest.mark.parametrize(("n_x", "n_y", "d_x", "d_y"), [(50, 50, 8, 8), (260, 300, 8, 12), (300, 220, 70, 5)])
def test_small_unequal_constant_and_duplicated_rows_end_in_a_verdict(n_x, n_y, d_x, d_y):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(n_x, d_x)), rng.normal(size=(n_y, d_y))
    x[:, 0] = 3
    y[:20] = y[0]
    fit = find_rotation(x, y, matchings=MATCHINGS)
    assert fit.verdict == NOT_IDENTIFIED
    assert fit.reasons


def test_integers_are_rows_too_and_inputs_stay_as_they_are():
    x, y = np.random.default_rng(0).integers(-5, 5, size=(2, 210, 4))
    before = x.copy(), y.copy()
    assert find_rotation(x, y, matchings=1).verdict == NOT_IDENTIFIED
    assert_array_equal(x, before[0])
    assert_array_equal(y, before[1])


def test_what_is_wrong_is_said():
    x = np.random.default_rng(0).normal(size=(210, 4))
    with pytest.raises(InputError, match="row 210 is not among 210 rows"):
        find_rotation(x, x, known_pairs=[(0, 210)])
    with pytest.raises(InputError, match="row numbers"):
        find_rotation(x, x, known_pairs=[(0.5, 1.0)])
    with pytest.raises(UsageError, match="several views"):
        find_rotation(x, x, powers=[1.0], views_x=np.arange(210) // 2)
    with pytest.raises(UsageError, match="powers"):
        find_rotation(x, x, powers=[-1.0])
    with pytest.raises(InputError, match="NaN"):
        find_rotation(np.where(x > 2, np.nan, x), x)


@pytest.mark.slow
def test_ten_seeds_of_ten_and_never_a_wrong_one():
    right = 0
    for seed in range(10):
        planted = cloud(noise=0.3, seed=seed, n=2000)
        fit = find_rotation(planted.x, planted.y, seed=seed, matchings=6)
        if fit.verdict == FOUND:
            assert error(fit, planted) < 0.05
            right += 1
    assert right >= 9


@pytest.mark.slow
@pytest.mark.parametrize("latent", ["isotropic", "gaussian", "heavy-tailed", "independent"])
def test_over_seeds_nothing_is_found_where_there_is_nothing(latent):
    for seed in range(10):
        planted = cloud(latent, noise=0.1, seed=seed, d=16)
        assert find_rotation(planted.x, planted.y, seed=seed, matchings=3).verdict == NOT_IDENTIFIED
