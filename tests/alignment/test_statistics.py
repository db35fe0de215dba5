"""The statistics on simulated truth: intervals cover, p is uniform, cross-fitting removes selection bias.

Each runs small by default and, marked slow, at the sizes people have.
"""

import numpy as np
import pytest
from scipy.stats import kstest
from spaces import independent, latent_views, rotation

from coview.alignment import align
from coview.alignment.calibration import paired_error

SETTINGS = {
    "strong": {"noise": 1.5},
    "weak": {"noise": 4.0},
    "clusters": {"noise": 1.5, "clusters": 20},
}


def drawn_scores(draws, n, metric="mutual_knn", **setting):
    found = [
        align(*latent_views(n, [7, draw], **setting), metric=metric, permutations=0) for draw in range(draws)
    ]
    return np.array([one.score for one in found]), np.array([one.stderr for one in found])


@pytest.mark.parametrize("setting", SETTINGS)
def test_standard_errors_are_those_of_new_samples(setting):
    scores, errors = drawn_scores(30, 120, **SETTINGS[setting])
    assert 0.7 < np.sqrt((errors**2).mean()) / scores.std(ddof=1) < 1.6


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("metric", ["mutual_knn", "unbiased_cka"])
def test_nominal_intervals_cover_the_truth(setting, metric):
    """95 % intervals over 200 draws."""
    scores, errors = drawn_scores(200, 512, metric, **SETTINGS[setting])
    covered = (np.abs(scores - scores.mean()) < 1.96 * errors).mean()
    print(f"{metric} {setting}: covered {covered:.3f}")
    assert 0.90 <= covered <= 0.97


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_intervals_of_paired_differences_cover_the_truth(setting):
    """Two encoders against a third on the same samples."""
    differences, errors = [], []
    for draw in range(200):
        X, Y = latent_views(512, [8, draw], **SETTINGS[setting])
        noise = np.random.default_rng([9, draw]).standard_normal(Y.shape)
        first, second = (align(X, side, permutations=0) for side in (Y, Y + noise))
        differences.append(first.score - second.score)
        errors.append(paired_error(first.halves, second.halves))
    differences, errors = np.array(differences), np.array(errors)
    covered = (np.abs(differences - differences.mean()) < 1.96 * errors).mean()
    print(f"paired {setting}: covered {covered:.3f}")
    assert 0.90 <= covered <= 0.98


@pytest.mark.parametrize(
    ("draws", "n", "metric", "grouped"),
    [
        (60, 40, "mutual_knn", False),
        (50, 60, "mutual_knn", True),
        pytest.param(200, 256, "mutual_knn", False, marks=pytest.mark.slow),
        pytest.param(200, 128, "mutual_knn", True, marks=pytest.mark.slow),
        pytest.param(200, 128, "unbiased_cka", False, marks=pytest.mark.slow),
    ],
)
def test_p_is_uniform_for_unrelated_spaces(draws, n, metric, grouped):
    p = []
    for draw in range(draws):
        X, Y = independent(n, [10, draw])
        groups = None
        if grouped:  # captions that share their scene within a side, and whose place in it matters
            groups = np.arange(n) // 4
            X, Y = (side + 2 * side[::4][groups] for side in (X, Y))
        p.append(align(X, Y, metric=metric, groups=groups, permutations=99, splits=0, seed=draw).p)
    # A p of 100 possible values is moved to the middle of its step.
    found = kstest(np.array(p) - 0.005, "uniform").pvalue
    print(f"{metric} grouped={grouped}: KS p {found:.3f}")
    assert found > 0.01


def test_the_maximum_over_layers_has_a_valid_p():
    """Share of rejections at 10 % when the best of nine unrelated pairs is taken."""
    rejected = 0
    for draw in range(40):
        X, Y = (
            np.stack([independent(40, [11, draw, side, i])[0] for i in range(3)], axis=1) for side in (0, 1)
        )
        rejected += align(X, Y, permutations=49, splits=0, seed=draw).p <= 0.1
    assert rejected <= 10  # 4 expected; more than 10 happens once in eight hundred


def equally_good_layers(n, layers, seed):
    """Stacks whose layers hold the latent equally well, each turned its own way: the best is best by luck."""
    latent = 7 * np.random.default_rng([12, seed]).standard_normal((n, 8))
    stacks = []
    for side in (0, 1):
        noise = 5 * np.random.default_rng([14, seed, side]).standard_normal((n, layers, 48))
        turned = [latent @ rotation(48, [13, side, layer])[:8] for layer in range(layers)]
        stacks.append(np.stack(turned, axis=1) + noise)
    return stacks


@pytest.mark.parametrize(
    ("draws", "n", "layers"),
    [
        (6, 150, 5),
        pytest.param(20, 256, 13, marks=pytest.mark.slow),
        pytest.param(6, 1024, 13, marks=pytest.mark.slow),
    ],
)
def test_cross_fitting_removes_at_least_half_of_the_selection_bias(draws, n, layers):
    biased, crossed = [], []
    for draw in range(draws):
        found = align(*equally_good_layers(n, layers, draw), permutations=0)
        truth = found.matrix.mean()
        biased.append(found.score - truth)
        crossed.append(found.cross_fitted - truth)
    print(f"n {n}: bias of the maximum {np.mean(biased):.4f}, cross-fitted {np.mean(crossed):.4f}")
    assert np.mean(biased) > 0
    assert abs(np.mean(crossed)) <= 0.5 * np.mean(biased)
