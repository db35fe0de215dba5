import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from coview.errors import UsageError
from coview.theory.bounds import cross_modal, misalignment
from coview.theory.families import FAMILIES, random_world
from coview.theory.nuisance import dimension_split, product_spectrum, scene_explained, sharing_threshold
from coview.theory.spectral import spectral_jepa
from coview.theory.worlds import FiniteWorld, Modality


def drawn(seed: int, family: str = "rbf", nuisances: int = 3):
    rng = np.random.default_rng(seed)
    world = random_world(int(rng.integers(5, 12)), family, rng=rng)
    nuisance = random_world(nuisances, str(rng.choice(FAMILIES)), rng=rng).joint
    return world, nuisance


def explained(world: FiniteWorld, nuisance: np.ndarray, dim: int, sharing: float = 1.0) -> float:
    modality = Modality.render(world, view="bad", sharing=sharing, nuisance_joint=nuisance)
    return scene_explained(modality, spectral_jepa(modality.joint, dim))


@settings(max_examples=80)
@given(
    st.integers(0, 10**9), st.sampled_from(FAMILIES), st.integers(2, 4), st.integers(1, 6), st.floats(0.05, 1)
)
def test_the_counting_law_is_exact(seed, family, nuisances, dim, sharing):
    world, nuisance = drawn(seed, family, nuisances)
    assume(dim < len(world.joint))
    split = dimension_split(world, nuisance, dim, sharing=sharing)
    values = np.sort(np.concatenate(product_spectrum(world, nuisance, sharing)))[::-1]
    assume(values[dim - 1] - values[dim] > 1e-6)
    assert split.scene + split.nuisance + split.mixed == dim
    assert explained(world, nuisance, dim, sharing) == pytest.approx(split.scene_explained, abs=1e-8)


@settings(max_examples=60)
@given(st.integers(0, 10**9), st.sampled_from(FAMILIES), st.integers(2, 4), st.integers(1, 4))
def test_the_threshold_holds_on_both_sides(seed, family, nuisances, dim):
    world, nuisance = drawn(seed, family, nuisances)
    scene = world.spectrum()
    assume(dim < len(scene) and scene[dim - 1] - max(scene[dim], 0) > 1e-4)
    threshold = sharing_threshold(world, nuisance, dim)
    below = min(1.0, 0.99 * threshold)
    assert explained(world, nuisance, dim, below) == pytest.approx(1, abs=1e-8)
    if threshold < 0.99:
        assert explained(world, nuisance, dim, 1.01 * threshold) < 1 - 0.5 / dim


def test_two_negative_eigenvalues_can_intrude_first():
    """A mixed direction is the first to intrude although its nuisance eigenvalue is negative.

    Scene eigenvalues .3 and -.6, nuisance eigenvalue -.8: the mixed one is .48, more than .3. The threshold
    is .3 / .48, and not unlimited as a rule that looks at nuisance eigenvalues alone would have it.
    """
    basis = np.array([[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 1, -1]]).T / 2
    kernel = basis @ np.diag([1, 0.3, -0.6]) @ basis.T
    world = FiniteWorld.from_kernel(kernel, np.full(4, 0.25))
    nuisance = np.array([[0.05, 0.45], [0.45, 0.05]])
    threshold = sharing_threshold(world, nuisance, 1)
    assert threshold == pytest.approx(0.3 / (0.6 * 0.8))
    assert explained(world, nuisance, 1, 0.98 * threshold) == pytest.approx(1)
    assert explained(world, nuisance, 1, 1.02 * threshold) == pytest.approx(0, abs=1e-9)
    assert dimension_split(world, nuisance, 1, sharing=1.02 * threshold).mixed == 1


def test_no_rotation_aligns_what_is_spent_on_nuisance():
    """Procrustes^2 = 2 (d - shared) and CKA = shared / d for two modalities with nuisances of their own."""
    world, nuisance = drawn(3)
    other = random_world(4, "dense", rng=np.random.default_rng(9)).joint
    for dim in range(1, 6):
        splits = [dimension_split(world, joint, dim) for joint in (nuisance, other)]
        shared = min(s.scene for s in splits)
        pair = [Modality.render(world, view="bad", nuisance_joint=joint) for joint in (nuisance, other)]
        optima = [spectral_jepa(m.joint, dim) for m in pair]
        measured = misalignment(*optima, cross_modal(*pair))
        assert measured.frobenius**2 == pytest.approx(2 * (dim - shared), abs=1e-9)
        assert measured.cka == pytest.approx(shared / dim, abs=1e-9)


def test_good_views_are_explained_by_the_scene_alone():
    world, _ = drawn(5)
    modality = Modality.render(world, np.random.default_rng(0).dirichlet(np.ones(3), len(world.joint)))
    assert scene_explained(modality, spectral_jepa(modality.joint, 3)) == pytest.approx(1)


def test_a_tie_at_the_cut_is_told():
    world = random_world(6, "rbf", rng=np.random.default_rng(0))
    assert dimension_split(world, np.eye(3) / 3, 1).tied  # two nuisance eigenvalues of 1
    assert not dimension_split(world, np.eye(3) / 3, 2).tied


def test_dimensions_out_of_range_are_refused():
    world = random_world(8, "indefinite", rng=np.random.default_rng(2))
    with pytest.raises(UsageError, match="come first even for good views"):
        sharing_threshold(world, np.eye(2) / 2, 7)
    with pytest.raises(UsageError):
        sharing_threshold(world, np.eye(2) / 2, 8)
    with pytest.raises(UsageError):
        dimension_split(world, np.eye(2) / 2, 16)
