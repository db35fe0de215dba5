import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coview.errors import InputError, UsageError
from coview.theory.families import FAMILIES, random_world, scale_to_marginal
from coview.theory.spectral import positive_kernel
from coview.theory.worlds import FiniteWorld, Modality


def small_world(seed: int = 0, n: int = 7, family: str = "dense") -> FiniteWorld:
    return random_world(n, family, rng=np.random.default_rng(seed))


@settings(max_examples=30)
@given(st.integers(3, 20), st.sampled_from(FAMILIES), st.integers(0, 10**6))
def test_random_worlds_are_laws_with_kernels_of_norm_one(n, family, seed):
    world = small_world(seed, n, family)
    assert world.joint.sum() == pytest.approx(1, abs=1e-12)
    assert np.array_equal(world.joint, world.joint.T)
    values = np.linalg.eigvalsh(world.kernel)
    assert values[-1] == pytest.approx(1, abs=1e-9)
    assert values[0] >= -1 - 1e-9
    # The constant has eigenvalue 1; every other eigenvalue of K is in the spectrum.
    assert np.sort(np.append(world.spectrum(), 1.0)) == pytest.approx(np.sort(values), abs=1e-9)


def test_families_are_named_when_one_is_unknown():
    with pytest.raises(UsageError, match="clusters"):
        random_world(5, "cluster", rng=np.random.default_rng(0))


def test_the_indefinite_family_is_indefinite():
    assert small_world(1, 20, "indefinite").spectrum()[-1] < -0.2


def test_scaling_reaches_the_marginal_to_rounding():
    rng = np.random.default_rng(0)
    marginal = rng.dirichlet(np.ones(12))
    joint = scale_to_marginal(rng.random((12, 12)) + np.eye(12), marginal)
    joint = (joint + joint.T) / 2
    assert joint.sum(axis=1) == pytest.approx(marginal, abs=1e-15)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (np.ones((2, 3)) / 6, "square"),
        (np.array([[0.7, -0.2], [-0.2, 0.7]]), "not a probability"),
        (np.array([[np.nan, 0.5], [0.5, 0.5]]), "not a probability"),
        (np.eye(3), "sum to 3, not 1"),
        (np.array([[0.25, 0.5], [0.0, 0.25]]), "not symmetric"),
    ],
)
def test_a_table_that_is_no_joint_of_positives_is_refused_with_its_place(table, words):
    with pytest.raises(InputError, match=words) as caught:
        FiniteWorld(table)
    assert "joint" in caught.value.where


def test_weights_are_symmetrised_only_when_asked():
    weights = np.array([[1.0, 3.0], [1.0, 1.0]])
    with pytest.raises(InputError, match="not symmetric"):
        FiniteWorld.from_weights(weights)
    assert FiniteWorld.from_weights(weights, symmetrise=True).joint[0, 1] == pytest.approx(1 / 3)


def test_a_world_is_rebuilt_from_its_kernel():
    world = small_world()
    assert FiniteWorld.from_kernel(world.kernel, world.marginal).joint == pytest.approx(world.joint)


def test_components_come_first_with_eigenvalue_one():
    blocks = [small_world(seed, 4).joint / 3 for seed in range(3)]
    zero = np.zeros((4, 4))
    joint = np.block([[blocks[i] if i == j else zero for j in range(3)] for i in range(3)])
    world = FiniteWorld(joint)
    assert world.n_components == 3
    assert world.spectrum()[:2] == pytest.approx([1, 1])
    assert world.is_identifiable(2)
    assert not world.is_identifiable(1)


def test_good_views_have_the_scene_spectrum_and_zeros():
    world = small_world()
    nuisance = np.random.default_rng(1).dirichlet(np.ones(3), 7)
    modality = Modality.render(world, nuisance)
    expected = np.sort(np.concatenate([world.spectrum(), np.zeros(14)]))[::-1]
    assert modality.spectrum() == pytest.approx(expected, abs=1e-12)
    assert modality.scene_marginal == pytest.approx(world.marginal)
    assert modality.identifies_scene
    assert np.array_equal(modality.scene, np.repeat(np.arange(7), 3))


def test_bad_views_have_the_product_kernel():
    world, nuisance = small_world(), small_world(3, 3).joint
    modality = Modality.render(world, view="bad", nuisance_joint=nuisance)
    expected = np.kron(world.kernel, positive_kernel(nuisance)[0])
    assert positive_kernel(modality.joint)[0] == pytest.approx(expected)


def test_bad_views_that_share_nothing_are_good_views():
    world, nuisance = small_world(), small_world(3, 3).joint
    bad = Modality.render(world, view="bad", sharing=0, nuisance_joint=nuisance)
    good = Modality.render(world, np.tile(nuisance.sum(axis=1), (7, 1)))
    assert bad.joint == pytest.approx(good.joint)
    assert bad.coupling == pytest.approx(good.coupling)


def test_merging_compresses_the_kernel():
    modality = Modality.render(small_world())
    merged = modality.merge(np.array([0, 0, 1, 2, 3, 3, 4]))
    assert not merged.identifies_scene
    member = (np.arange(5)[:, None] == [0, 0, 1, 2, 3, 3, 4]) * np.sqrt(modality.marginal)
    member /= np.linalg.norm(member, axis=1, keepdims=True)
    compressed = member @ positive_kernel(modality.joint)[0] @ member.T
    assert positive_kernel(merged.joint)[0] == pytest.approx(compressed)


def test_impossible_observations_are_dropped():
    nuisance = np.array([[1.0, 0.0]] * 6 + [[0.5, 0.5]])
    modality = Modality.render(small_world(), nuisance)
    assert (modality.marginal == 0).sum() == 6
    assert len(modality.supported().joint) == 8
    assert len(modality.spectrum()) == 7


@pytest.mark.parametrize(
    "options",
    [
        {"view": "ugly"},
        {"view": "bad"},
        {"view": "good", "nuisance_joint": np.eye(2) / 2},
        {"view": "bad", "nuisance_joint": np.eye(2) / 2, "sharing": 1.5},
    ],
)
def test_options_that_do_not_belong_together_are_refused(options):
    with pytest.raises(UsageError):
        Modality.render(small_world(), **options)


def test_a_coupling_that_contradicts_the_joint_is_refused():
    world = small_world()
    with pytest.raises(InputError, match="different probabilities"):
        Modality(world.joint, np.eye(7) / 7)
