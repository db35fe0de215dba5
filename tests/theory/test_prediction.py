"""The estimates against worlds whose truth is known."""

import numpy as np
import pytest

from coview.errors import UsageError
from coview.theory.corpus import Corpus, ViewSample, corpus_of_texts
from coview.theory.families import random_world
from coview.theory.nuisance import dimension_split
from coview.theory.prediction import held_out_eigenvalues, pair_moments, predict_views, solve
from coview.theory.worlds import Modality


def planted(
    scenes: int = 1000,
    views: int = 4,
    scene_dims: int = 4,
    style_dims: int = 4,
    noise: float = 0.3,
    seed: int = 0,
) -> Corpus:
    """Texts whose features are a mix of scene latents and text latents, and copies with isotropic noise.

    Scene latents have standard deviation 1 and a little text variation; text latents (style) have 1.5, so
    that bad views find style first and good views never do.
    """
    rng = np.random.default_rng([seed, 0])
    scene = np.repeat(np.arange(scenes), views)
    latent = np.hstack(
        [
            rng.normal(size=(scenes, scene_dims))[scene] + 0.3 * rng.normal(size=(len(scene), scene_dims)),
            1.5 * rng.normal(size=(len(scene), style_dims)),
        ]
    )
    mix = np.linalg.qr(rng.normal(size=(scene_dims + style_dims,) * 2))[0]
    rows = latent @ mix
    clean = ViewSample(rows, scene, scene)
    copies = np.repeat(rows, 2, axis=0)
    bad = ViewSample(
        copies + noise * rng.normal(size=copies.shape),
        np.repeat(np.arange(len(rows)), 2),
        np.repeat(scene, 2),
    )
    return Corpus(clean, {"good": clean, "bad": bad}, tuple(map(str, range(scenes))), "planted")


def test_pair_moments_equal_the_sum_over_pairs_written_out():
    rng = np.random.default_rng(0)
    group = np.array([0, 0, 0, 1, 1, 2, 3, 3])  # group 2 has no pair
    rows = rng.normal(size=(8, 3))
    total, cross = pair_moments(ViewSample(rows, group, group))
    groups = [rows[group == g] for g in (0, 1, 3)]
    centre = np.mean([g.mean(axis=0) for g in groups], axis=0)
    expected_total = np.mean(
        [np.mean([np.outer(x - centre, x - centre) for x in g], axis=0) for g in groups], axis=0
    )
    expected_cross = np.mean(
        [
            np.mean(
                [
                    np.outer(x - centre, y - centre)
                    for i, x in enumerate(g)
                    for j, y in enumerate(g)
                    if i != j
                ],
                axis=0,
            )
            for g in groups
        ],
        axis=0,
    )
    assert total == pytest.approx(expected_total)
    assert cross == pytest.approx(expected_cross)


def test_directions_are_orthonormal_and_diagonalise():
    sample = planted(200).clean
    total, cross = pair_moments(sample)
    values, directions = solve(total, cross)
    assert directions.T @ total @ directions == pytest.approx(np.eye(8), abs=1e-9)
    assert directions.T @ cross @ directions == pytest.approx(np.diag(values), abs=1e-9)
    assert np.all(np.diff(values) <= 0)
    assert held_out_eigenvalues(sample, directions) == pytest.approx(values)


def test_a_finite_world_sampled_gives_back_its_spectrum():
    """One-hot features make linear encoders free tables: the eigenvalues are those of the kernel."""
    rng = np.random.default_rng(0)
    world = random_world(6, "rbf", concentration=np.inf, rng=rng)
    nuisance = np.array([[0.4, 0.1], [0.1, 0.4]])
    for modality in (Modality.render(world, view="bad", nuisance_joint=nuisance), Modality.render(world)):
        n = len(modality.joint)
        pairs = rng.choice(n * n, 200_000, p=modality.joint.ravel() / modality.joint.sum())
        flip = rng.random(len(pairs)) < 0.5
        first, second = np.where(flip, pairs // n, pairs % n), np.where(flip, pairs % n, pairs // n)
        rows = np.eye(n)[np.column_stack([first, second]).ravel()]
        group = np.repeat(np.arange(len(pairs)), 2)
        values, _ = solve(*pair_moments(ViewSample(rows, group, group)))
        assert values == pytest.approx(modality.spectrum(), abs=0.01)


def test_a_bad_modality_sampled_gives_back_its_split():
    """Directions fitted to sampled bad pairs of a finite world spend the counted number on the scene."""
    rng = np.random.default_rng(1)
    world = random_world(8, "rbf", concentration=np.inf, rng=rng)
    nuisance = np.array([[0.45, 0.05], [0.05, 0.45]])
    modality = Modality.render(world, view="bad", nuisance_joint=nuisance)
    dim = 5
    split = dimension_split(world, nuisance, dim)
    assert 0 < split.scene < dim
    n = len(modality.joint)
    pairs = rng.choice(n * n, 100_000, p=modality.joint.ravel() / modality.joint.sum())
    group = np.repeat(np.arange(len(pairs)), 2)
    rows = np.eye(n)[np.column_stack([pairs // n, pairs % n]).ravel()]
    _, directions = solve(*pair_moments(ViewSample(rows, group, group)))
    # Views of one scene, nuisance drawn anew, as a corpus of several texts a scene has them.
    shown = rng.choice(8, 20_000, p=world.marginal)
    seen = np.repeat(shown, 2) * 2 + rng.integers(0, 2, 40_000)
    scene = np.repeat(np.arange(20_000), 2)
    about_scene = held_out_eigenvalues(ViewSample(np.eye(n)[seen], scene, scene), directions[:, :dim])
    assert about_scene.sum() == pytest.approx(split.scene, abs=0.1)


def test_planted_scene_and_style_dimensions_are_counted():
    prediction = predict_views(planted(), 4)
    truth = 1 / (1 + 0.3**2)
    good, bad = prediction.arms["good"], prediction.arms["bad"]
    assert good.scene_explained.mean() == pytest.approx(truth, abs=0.02)
    assert good.held_out[:4] == pytest.approx(np.full(4, truth), abs=0.03)
    assert good.held_out[4:] == pytest.approx(np.zeros(4), abs=0.05)
    assert good.scene_dimensions(4) == pytest.approx(4 * truth, abs=0.08)
    assert bad.scene_explained.mean() == pytest.approx(0, abs=0.05)
    style = 1.5**2 / (1.5**2 + 0.3**2)
    assert bad.held_out[:4] == pytest.approx(np.full(4, style), abs=0.03)
    advantage, error = prediction.advantage("bad")
    assert advantage == pytest.approx(truth, abs=0.05)
    assert error < 0.02
    assert good.across_views.mean() > 5 * prediction.chance
    assert bad.across_views.mean() < 2 * prediction.chance


def test_good_views_have_the_largest_explained_fraction_of_all_linear_encoders():
    prediction = predict_views(planted(scene_dims=6, style_dims=3, noise=1.5, seed=4), 3)
    assert np.all(prediction.arms["good"].scene_explained >= prediction.arms["bad"].scene_explained)


def test_cross_fitting_removes_the_optimism_of_the_fit():
    rng = np.random.default_rng(0)
    scene = np.repeat(np.arange(300), 2)
    noise = ViewSample(rng.normal(size=(600, 30)), scene, scene)
    corpus = Corpus(noise, {"good": noise}, tuple(map(str, range(300))), "noise")
    prediction = predict_views(corpus, 3)
    good = prediction.arms["good"]
    assert good.in_sample[:10].mean() > 0.15
    assert abs(good.held_out[:10].mean()) < 0.05


def test_an_encoder_that_sees_the_scene_is_predicted_to_align_with_good_views():
    corpus = planted(seed=2)
    rows = corpus.clean.rows
    latents = np.array([rows[corpus.clean.scene == s].mean(axis=0) for s in range(len(corpus.scenes))])
    _, directions = solve(*pair_moments(corpus.clean))
    prediction = predict_views(corpus, 4, against=latents @ directions[:, :4])
    good, bad = prediction.arms["good"].against, prediction.arms["bad"].against
    assert good is not None
    assert bad is not None
    assert good.mean() > 5 * bad.mean()
    assert prediction.advantage("bad", "against")[0] == pytest.approx(good.mean() - bad.mean())


def test_few_scenes_are_warned_of_and_bad_sizes_refused():
    corpus = planted(scenes=60)
    assert any("poor below 80" in note for note in predict_views(corpus, 4).notes)
    with pytest.raises(UsageError, match=r"--dim: 8 features allow 1 to 7 directions, not 8\. Lower --dim"):
        predict_views(corpus, 8)
    with pytest.raises(UsageError, match="do not fit the 12 scenes"):
        predict_views(corpus, 2, k=12)


def test_the_result_is_plain_numbers():
    import json

    texts = [[f"a{i % 7} b{i % 11} c{i % 5} d{j}" for j in range(3)] for i in range(200)]
    prediction = predict_views(corpus_of_texts(texts, list(map(str, range(200))), dim=8), 3)
    document = json.loads(json.dumps(prediction.as_json()))
    assert set(document["arms"]) == {"good", "bad", "next-token"}
    for arm in document["arms"].values():
        assert arm["scene_dimensions"] + arm["nuisance_dimensions"] == pytest.approx(3)
