from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coview.errors import InputError, UsageError
from coview.theory.bounds import (
    cross_modal,
    kernel_mismatch,
    misalignment,
    misalignment_bound,
    scaled_misalignment_bound,
)
from coview.theory.families import FAMILIES, random_good_modality, random_world
from coview.theory.spectral import positive_kernel, spectral_jepa
from coview.theory.verify import compare
from coview.theory.worlds import FiniteWorld, Modality


def random_pair(seed: int, kind: str = "bad") -> tuple[Modality, Modality]:
    rng = np.random.default_rng(seed)
    world = random_world(5, "rbf", rng=rng)
    first = random_good_modality(world, 2, rng)
    if kind == "bad":
        nuisance = random_world(3, "dense", rng=rng).joint
        return first, Modality.render(world, view="bad", nuisance_joint=nuisance)
    if kind == "aliased":
        return first, random_good_modality(world, 2, rng).merge(np.array([0, 0, 1, 2, 3, 3, 3, 4, 5, 6]))
    other = random_world(5, "rbf", marginal=world.marginal if kind == "other" else None, rng=rng)
    return first, random_good_modality(other, 2, rng)


def explicit_lifts(first: Modality, second: Modality) -> list[np.ndarray]:
    """Isometries to functions of every state (scene, x1, x2), written out state by state."""
    states = list(
        product(*(range(k) for k in (first.coupling.shape[1], *map(len, (first.joint, second.joint)))))
    )
    lifts = []
    for which, modality in enumerate((first, second)):
        lift = np.zeros((len(states), len(modality.joint)))
        for row, (s, *observations) in enumerate(states):
            mass = modality.scene_marginal[s]
            for m, x in zip((first, second), observations, strict=True):
                mass *= m.coupling[x, s] / m.scene_marginal[s]
            x = observations[which]
            lift[row, x] = np.sqrt(mass / modality.marginal[x])
        lifts.append(lift)
    return lifts


@pytest.mark.parametrize("kind", ["bad", "aliased", "other", "law"])
def test_the_common_space_measures_what_the_states_written_out_measure(kind):
    first, second = random_pair(0, kind)
    mismatch = kernel_mismatch(first, second)
    lifts = explicit_lifts(first, second)
    for lift, short in zip(lifts, mismatch.lifts, strict=True):
        assert lift.T @ lift == pytest.approx(np.eye(lift.shape[1]), abs=1e-12)
        assert short.T @ short == pytest.approx(np.eye(lift.shape[1]), abs=1e-9)
    one, two = (
        lift @ positive_kernel(m.joint)[0] @ lift.T for lift, m in zip(lifts, (first, second), strict=True)
    )
    assert mismatch.frobenius == pytest.approx(np.linalg.norm(one - two), abs=1e-9)
    assert mismatch.operator == pytest.approx(np.linalg.norm(one - two, 2), abs=1e-9)
    c1, c2 = (lift @ np.sqrt(m.marginal) for lift, m in zip(lifts, (first, second), strict=True))
    deflated = one - two - 1.5 * (np.outer(c1, c1) - np.outer(c2, c2))
    assert np.linalg.norm(mismatch.difference(1.5)) == pytest.approx(np.linalg.norm(deflated), abs=1e-9)


@pytest.mark.parametrize("kind", ["bad", "aliased", "other"])
def test_misalignment_is_the_residual_over_the_states_written_out(kind):
    first, second = random_pair(1, kind)
    e1, e2 = spectral_jepa(first.joint, 2), spectral_jepa(second.joint, 2)
    lifts = explicit_lifts(first, second)
    u1, u2 = lifts[0] @ e1.half_density, lifts[1] @ e2.half_density
    left, cosines, right = np.linalg.svd(u2.T @ u1)
    residual = u1 - u2 @ left @ right
    measured = misalignment(e1, e2, cross_modal(first, second))
    assert measured.frobenius == pytest.approx(np.linalg.norm(residual), abs=1e-10)
    assert measured.operator == pytest.approx(np.linalg.norm(residual, 2), abs=1e-10)
    assert measured.cosines == pytest.approx(cosines, abs=1e-10)
    assert measured.cka == pytest.approx((cosines**2).sum() / 2, abs=1e-10)
    assert measured.cka == pytest.approx(1 - (measured.sines**2).sum() / 2, abs=1e-10)
    assert measured.rotation.T @ measured.rotation == pytest.approx(np.eye(2))


def test_misalignment_undoes_a_rotation():
    world = random_world(8, "rbf", rng=np.random.default_rng(0))
    values = spectral_jepa(world.joint, 3).values
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    measured = misalignment(values, values @ rotation, np.diag(world.marginal))
    assert measured.frobenius < 1e-13
    assert measured.sines.max() < 1e-13  # sqrt(1 - cos^2) would read 1e-8 here
    assert measured.rotation == pytest.approx(rotation.T)
    with pytest.raises(UsageError, match="equal dimensions"):
        misalignment(values, values[:, :2], np.diag(world.marginal))


@settings(max_examples=60)
@given(st.integers(0, 10**9), st.sampled_from(["bad", "aliased", "other", "law"]), st.integers(1, 3))
def test_no_bound_of_any_form_is_broken(seed, kind, dim):
    for name, error, bound in compare(*random_pair(seed, kind), dim):
        assert error <= bound.value * (1 + 1e-9) + 1e-10, name


def rotated_pair(angle: float) -> tuple[Modality, Modality]:
    """Two worlds whose leading eigenfunction differs by a rotation within the first two."""
    basis = np.array([[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]]).T / 2
    modalities = []
    for turn in (0.0, angle):
        first = np.cos(turn) * basis[:, 1] + np.sin(turn) * basis[:, 2]
        second = -np.sin(turn) * basis[:, 1] + np.cos(turn) * basis[:, 2]
        kernel = np.outer(basis[:, 0], basis[:, 0]) + 0.4 * np.outer(first, first)
        kernel += 0.1 * np.outer(second, second)
        modalities.append(Modality.render(FiniteWorld.from_kernel(kernel, np.full(4, 0.25))))
    return modalities[0], modalities[1]


@pytest.mark.parametrize("angle", [1e-3, 0.1, 0.7, 1.5])
def test_the_rotated_world_attains_the_sharp_constant(angle):
    first, second = rotated_pair(angle)
    mismatch = kernel_mismatch(first, second)
    measured = misalignment(
        spectral_jepa(first.joint, 1), spectral_jepa(second.joint, 1), cross_modal(first, second)
    )
    for norm, error in (("fro", np.linalg.norm(measured.sines)), ("op", measured.sines.max())):
        bound = misalignment_bound(mismatch, 1, norm=norm, gap="both", of="angles")
        assert error == pytest.approx(np.sin(angle), rel=1e-6)
        assert error / bound.value == pytest.approx(1, abs=1e-6)


def test_the_forms_are_ordered_as_their_derivations_say():
    first, second = random_pair(3, "other")
    mismatch = kernel_mismatch(first, second)
    for norm in ("fro", "op"):
        one = misalignment_bound(mismatch, 2, norm=norm)
        both = misalignment_bound(mismatch, 2, norm=norm, gap="both")
        angles = misalignment_bound(mismatch, 2, norm=norm, gap="both", of="angles")
        assert both.value <= one.value
        assert both.value == pytest.approx(np.sqrt(2) * angles.value)
    assert misalignment_bound(mismatch, 2, match_scale=True).mismatch <= mismatch.frobenius + 1e-12
    # Yu, Wang and Samworth's textbook constant is sqrt(2) larger for a leading block.
    assert misalignment_bound(mismatch, 2).value <= 2**1.5 * mismatch.frobenius / one.gap + 1e-12


def test_matching_the_scale_removes_the_slack_of_same_scene_positives():
    world = random_world(9, "rbf", rng=np.random.default_rng(4))
    first, second = Modality.render(world), Modality.render(world.mixed_with_same_scene(0.3))
    mismatch = kernel_mismatch(first, second)
    assert mismatch.frobenius > 0.1
    assert misalignment_bound(mismatch, 2, match_scale=True).value < 1e-12
    size, scale = mismatch.scale_matched
    constant = np.outer(*mismatch.constants)
    one, two = (k - constant for k in mismatch.kernels)
    identity = np.eye(9) - constant
    nearby = [
        np.linalg.norm(one - (scale + a) * two - (b - 0.3 / 0.7) * identity)
        for a in (-0.01, 0, 0.01)
        for b in (-0.01, 0, 0.01)
    ]
    assert size <= min(nearby) + 1e-12


def test_no_gap_gives_no_bound():
    world = FiniteWorld.same_scene(np.full(5, 0.2))
    mismatch = kernel_mismatch(Modality.render(world), Modality.render(world))
    for gap in ("one", "both"):
        bound = misalignment_bound(mismatch, 2, gap=gap)
        assert bound.value == np.inf
        assert bound.vacuous


def test_all_dimensions_of_a_world_always_agree():
    first, second = (
        random_world(6, f, marginal=np.full(6, 1 / 6), rng=np.random.default_rng(0)) for f in FAMILIES[:2]
    )
    pair = Modality.render(first), Modality.render(second)
    mismatch = kernel_mismatch(*pair)
    assert mismatch.frobenius > 0.1
    assert misalignment_bound(mismatch, 5).value == 0
    optima = [spectral_jepa(m.joint, 5) for m in pair]
    assert misalignment(*optima, cross_modal(*pair)).frobenius < 1e-9


def test_nuisance_zeros_stand_above_negative_scene_eigenvalues():
    world = random_world(8, "indefinite", rng=np.random.default_rng(2))
    spectrum = world.spectrum()
    dim = int((spectrum > 0).sum()) + 1
    assert spectrum[dim - 1] < 0
    rng = np.random.default_rng(3)
    lifted = kernel_mismatch(random_good_modality(world, 2, rng), random_good_modality(world, 3, rng))
    assert misalignment_bound(lifted, dim).value == np.inf
    plain = kernel_mismatch(Modality.render(world), Modality.render(world))
    assert misalignment_bound(plain, dim).value < 1e-9
    # One dimension fewer: the gap counts down to 0, not to the negative eigenvalue.
    assert misalignment_bound(lifted, dim - 1).gap == pytest.approx(spectrum[dim - 2])


def test_unequal_scene_laws_add_their_term():
    first, second = random_pair(5, "law")
    bound = misalignment_bound(kernel_mismatch(first, second), 2)
    assert bound.marginal_term > 0
    with pytest.raises(UsageError, match="equal scene laws"):
        misalignment_bound(kernel_mismatch(first, second), 2, match_scale=True)
    with pytest.raises(UsageError, match="equal scene laws"):
        scaled_misalignment_bound(kernel_mismatch(first, second), 2)


def test_scenes_that_one_modality_never_sees_are_refused():
    world = random_world(4, "rbf", rng=np.random.default_rng(0))
    joint = np.zeros((4, 4))
    joint[:3, :3] = random_world(3, "rbf", rng=np.random.default_rng(0)).joint
    with pytest.raises(InputError, match="scene 3 has positive probability in one modality only"):
        kernel_mismatch(Modality.render(world), Modality.render(FiniteWorld(joint)))
    small = random_world(3, "rbf", rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="observes 4 scenes, the other 3"):
        kernel_mismatch(Modality.render(world), Modality.render(small))


def test_scenes_that_neither_modality_sees_change_nothing():
    rng = np.random.default_rng(6)
    world, other = (random_world(5, "rbf", marginal=np.full(5, 0.2), rng=rng) for _ in range(2))

    def compared(worlds):
        first, second = (Modality.render(w, np.full((len(w.joint), 2), 0.5)) for w in worlds)
        optima = [spectral_jepa(m.joint, 2) for m in (first, second)]
        error = misalignment(*optima, cross_modal(first, second)).frobenius
        return error, misalignment_bound(kernel_mismatch(first, second), 2).value

    padded = [FiniteWorld(np.pad(w.joint, (0, 1))) for w in (world, other)]
    assert compared(padded) == pytest.approx(compared([world, other]))


def test_scaled_embeddings_of_full_rank_need_no_gap():
    rng = np.random.default_rng(0)
    marginal = np.full(6, 1 / 6)
    worlds = [random_world(6, "rbf", marginal=marginal, rng=rng) for _ in range(2)]
    # Half the time the same scene makes the kernels positive semidefinite.
    first, second = (Modality.render(w.mixed_with_same_scene(0.5)) for w in worlds)
    bound = scaled_misalignment_bound(kernel_mismatch(first, second), 5)
    optima = [spectral_jepa(m.joint, 5, penalty=1) for m in (first, second)]
    error = misalignment(*optima, cross_modal(first, second)).frobenius
    assert 0 < error <= bound.value < np.inf


@pytest.mark.parametrize(
    "options", [{"norm": "max"}, {"gap": "two"}, {"of": "cka"}, {"match_scale": True, "norm": "op"}]
)
def test_unknown_options_are_refused(options):
    with pytest.raises(UsageError):
        misalignment_bound(kernel_mismatch(*random_pair(0)), 2, **options)
    with pytest.raises(UsageError, match="from 1 to 9"):
        misalignment_bound(kernel_mismatch(*random_pair(0)), 10)
