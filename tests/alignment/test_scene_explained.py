import numpy as np
import pytest
from spaces import rotation

from coview.alignment.scene_explained import scene_explained_fraction
from coview.errors import InputError, UsageError


def views(scenes, counts, share, width, seed):
    """Rows whose scenes explain `share` of the variance; `counts` rows a scene."""
    rng = np.random.default_rng(seed)
    scene = np.repeat(np.arange(scenes), counts)
    between = rng.standard_normal((scenes, width))[scene] * share**0.5
    return between + rng.standard_normal((len(scene), width)) * (1 - share) ** 0.5, scene


def test_balanced_anova_equals_the_ratio_of_distances():
    Z, scene = views(30, 4, 0.6, 8, 0)
    squares = ((Z[:, None] - Z[None]) ** 2).sum(axis=-1)
    same = scene[:, None] == scene[None]
    apart = ~np.eye(len(Z), dtype=bool)
    ratio = 1 - squares[same & apart].mean() / squares[~same].mean()
    assert scene_explained_fraction(Z, scene).value == pytest.approx(ratio, abs=1e-10)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.8])
def test_anova_is_unbiased_and_naive_is_biased_as_known(share):
    found = [views(100, 5, share, 16, [seed, 1]) for seed in range(60)]
    anova = np.mean([scene_explained_fraction(*one).value for one in found])
    naive = np.mean([scene_explained_fraction(*one, estimator="naive").value for one in found])
    assert anova == pytest.approx(share, abs=0.005)
    assert naive == pytest.approx(share + (1 - share) / 5, abs=0.005)


def test_unequal_counts_are_unbiased_too():
    counts = np.random.default_rng(0).integers(1, 9, 100)
    values = [scene_explained_fraction(*views(100, counts, 0.5, 16, [seed, 2])).value for seed in range(60)]
    assert np.mean(values) == pytest.approx(0.5, abs=0.01)


def test_noise_may_come_out_negative():
    values = [scene_explained_fraction(*views(20, 2, 0.0, 2, [seed, 3])).value for seed in range(20)]
    assert min(values) < 0 < max(values)


def test_rotation_translation_and_scale_do_not_matter():
    Z, scene = views(40, 3, 0.5, 12, 4)
    changed = 7 * Z @ rotation(12) + 3
    assert scene_explained_fraction(changed, scene).value == pytest.approx(
        scene_explained_fraction(Z, scene).value
    )


def test_identical_views_explain_everything():
    Z, scene = views(20, 1, 1.0, 4, 5)
    assert scene_explained_fraction(np.repeat(Z, 3, axis=0), np.repeat(scene, 3)).value == pytest.approx(1)


def test_crossfitted_whitening_ignores_linear_maps_and_is_nearly_unbiased():
    values = []
    for seed in range(10):
        Z, scene = views(150, 4, 0.5, 32, [seed, 6])
        values.append(
            scene_explained_fraction(Z @ np.diag(np.linspace(0.1, 5, 32)), scene, whiten="crossfit").value
        )
    assert np.mean(values) == pytest.approx(0.5, abs=0.02)


def test_few_scenes_for_whitening_are_noted():
    Z, scene = views(30, 4, 0.5, 8, 7)
    assert "expect bias" in scene_explained_fraction(Z, scene, whiten="crossfit").notes[0]


@pytest.mark.parametrize("draws", [60, pytest.param(200, marks=pytest.mark.slow)])
def test_intervals_from_resampled_scenes_cover_the_truth(draws):
    covered = 0
    for seed in range(draws):
        Z, scene = views(100, 5, 0.5, 16, [seed, 8])
        low, high = scene_explained_fraction(Z, scene, ci=0.95, resamples=400, seed=seed).interval
        covered += low <= 0.5 <= high
    assert 0.87 <= covered / draws <= 0.99


def test_the_order_of_rows_and_the_names_of_scenes_do_not_matter():
    Z, scene = views(20, 3, 0.5, 5, 9)
    order = np.random.default_rng(0).permutation(len(Z))
    names = [f"scene {number}" for number in scene[order]]
    first = scene_explained_fraction(Z, scene, ci=0.9)
    second = scene_explained_fraction(Z[order], names, ci=0.9)
    assert second.value == pytest.approx(first.value)
    assert float(first) == first.value


def test_bad_input():
    Z, scene = views(10, 2, 0.5, 3, 10)
    with pytest.raises(InputError, match="cannot be split"):
        scene_explained_fraction(Z, np.arange(20))
    with pytest.raises(InputError, match="cannot be split"):
        scene_explained_fraction(Z, np.zeros(20))
    with pytest.raises(InputError, match="19 scene ids for 20 rows"):
        scene_explained_fraction(Z, scene[:-1])
    with pytest.raises(InputError, match="no variance"):
        scene_explained_fraction(np.ones((20, 3)), scene)
    with pytest.raises(UsageError, match="anova"):
        scene_explained_fraction(Z, scene, estimator="anovva")
    with pytest.raises(UsageError, match="crossfit"):
        scene_explained_fraction(Z, scene, whiten=True)
