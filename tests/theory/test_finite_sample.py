import numpy as np
import pytest

from coview.theory.finite_sample import ARMS, empirical_joint, run_study, solve_arm, study_world


@pytest.fixture(scope="module")
def records():
    return run_study(samples=(1_000, 10_000, 100_000), seeds=(0, 1))


def test_good_views_are_never_behind(records):
    """For every seed and sample size; nothing is said of bad against next-token."""
    table = {(r.arm, r.samples, r.seed): r for r in records}
    for (arm, samples, seed), record in table.items():
        good = table["good", samples, seed]
        assert good.mutual_knn >= record.mutual_knn, (arm, samples, seed)
        assert good.scene_explained >= record.scene_explained - 1e-9, (arm, samples, seed)


def test_good_views_approach_perfect_alignment_and_the_others_do_not(records):
    for record in records:
        if record.samples == 0 and record.arm == "good":
            assert record.mutual_knn == pytest.approx(1)
            assert record.scene_explained == pytest.approx(1)
        elif record.samples == 0:
            assert record.mutual_knn < 0.5
            assert record.scene_explained == pytest.approx(0.5)
        elif record.samples == 100_000 and record.arm == "good":
            assert record.mutual_knn > 0.8


def test_the_texts_of_all_arms_are_the_same():
    texts = study_world().texts
    for arm in ARMS:
        assert texts[arm].coupling == pytest.approx(texts["good"].coupling)


def test_samples_are_a_law_and_converge():
    joint = study_world().texts["good"].joint
    few, many = (empirical_joint(joint, n, np.random.default_rng(0)) for n in (1_000, 1_000_000))
    assert many.sum() == pytest.approx(1)
    assert np.array_equal(many, many.T)
    assert np.abs(many - joint).sum() < np.abs(few - joint).sum() / 5


def test_texts_never_sampled_have_no_value():
    joint = np.zeros((5, 5))
    joint[:4, :4] = [[3, 1, 0, 0], [1, 2, 1, 0], [0, 1, 3, 1], [0, 0, 1, 2]]
    joint /= joint.sum()
    for arm in ARMS:
        values = solve_arm(arm, joint, 2)
        assert np.isnan(values[4]).all()
        weighted = np.sqrt(joint.sum(axis=1)[:4, None]) * values[:4]
        assert weighted.T @ weighted == pytest.approx(np.eye(2), abs=1e-9)
