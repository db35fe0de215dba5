import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from coview.errors import UsageError
from coview.theory.families import FAMILIES, random_world
from coview.theory.spectral import cut_spectrum, deflate, positive_kernel, spectral_jepa
from coview.theory.worlds import FiniteWorld, Modality


def world_of(seed: int, n: int = 8, family: str = "dense") -> FiniteWorld:
    return random_world(n, family, rng=np.random.default_rng(seed))


def invariance(joint: np.ndarray, values: np.ndarray) -> float:
    """E |f(x) - f(x+)|^2, pair by pair."""
    distance = ((values[:, None] - values) ** 2).sum(axis=-1)
    return float((joint * distance).sum())


def moments(marginal: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return marginal @ values, (values * marginal[:, None]).T @ values


@settings(max_examples=30)
@given(st.integers(4, 12), st.sampled_from(FAMILIES), st.integers(0, 10**6), st.data())
def test_the_solution_is_feasible_and_attains_the_optimal_value(n, family, seed, data):
    world = world_of(seed, n, family)
    dim = data.draw(st.integers(1, n - 1))
    optimum = spectral_jepa(world.joint, dim)
    mean, second = moments(world.marginal, optimum.values)
    assert mean == pytest.approx(np.zeros(dim), abs=1e-7)
    assert second == pytest.approx(np.eye(dim), abs=1e-7)
    expected = 2 * (1 - world.spectrum()[:dim]).sum()
    assert invariance(world.joint, optimum.values) == pytest.approx(expected, abs=1e-6)


def test_no_feasible_encoder_does_better():
    world, rng = world_of(0), np.random.default_rng(0)
    best = invariance(world.joint, spectral_jepa(world.joint, 3).values)
    root = np.sqrt(world.marginal)
    for _ in range(200):
        draw = rng.normal(size=(8, 3))
        draw -= np.outer(root, root @ draw)
        values = np.linalg.qr(draw)[0] / root[:, None]
        assert invariance(world.joint, values) >= best - 1e-12


@pytest.mark.parametrize("penalty", [0.8, 1, 2, 10])
def test_the_soft_solution_is_the_minimum_of_the_soft_objective(penalty):
    world, dim = world_of(1, 6), 3

    def objective(flat):
        values = flat.reshape(6, dim)
        mean, second = moments(world.marginal, values)
        off = second - np.outer(mean, mean) - np.eye(dim)
        return invariance(world.joint, values) + penalty * (off**2).sum()

    predicted = spectral_jepa(world.joint, dim, penalty=penalty)
    value = objective(predicted.values.ravel())
    starts = np.random.default_rng(2).normal(size=(4, 6 * dim))
    found = [minimize(objective, start, method="BFGS", options={"gtol": 1e-7}) for start in starts]
    assert min(f.fun for f in found) == pytest.approx(value, abs=1e-7)
    best = min(found, key=lambda f: f.fun).x.reshape(6, dim)
    best = best - world.marginal @ best
    assert best @ best.T == pytest.approx(predicted.values @ predicted.values.T, abs=1e-3)


def test_a_penalty_of_one_is_the_spectral_contrastive_embedding():
    world = world_of(2, 8, "indefinite")
    scaled = spectral_jepa(world.joint, 7, penalty=1).half_density
    deflated = deflate(world.kernel, world.marginal, amount=1)
    values, vectors = np.linalg.eigh(deflated)
    positive = (vectors * np.maximum(values, 0)) @ vectors.T
    assert scaled @ scaled.T == pytest.approx(positive, abs=1e-12)


def test_dimensions_below_the_penalty_collapse():
    world = world_of(3)
    eigenvalues = world.spectrum()
    penalty = 1 - (eigenvalues[1] + eigenvalues[2]) / 2
    optimum = spectral_jepa(world.joint, 5, penalty=penalty)
    assert optimum.rank == 2
    assert np.all(optimum.values[:, 2:] == 0)
    assert optimum.cut.is_identifiable


def test_a_soft_solution_pads_with_zeros_and_a_hard_one_refuses():
    world = world_of(4, 5)
    assert spectral_jepa(world.joint, 9, penalty=2).values.shape == (5, 9)
    assert spectral_jepa(world.joint, 4).eigengap == np.inf
    with pytest.raises(UsageError, match="there are 5"):
        spectral_jepa(world.joint, 5)


def test_deflating_once_would_insert_a_false_zero():
    world = world_of(5, 10, "indefinite")
    negatives = (world.spectrum() < 0).sum()
    assert negatives > 2
    dim = 9 - negatives + 1
    optimum = spectral_jepa(world.joint, dim)
    mean, second = moments(world.marginal, optimum.values)
    assert mean == pytest.approx(np.zeros(dim), abs=1e-9)
    assert second == pytest.approx(np.eye(dim), abs=1e-9)
    once = np.sort(np.linalg.eigvalsh(deflate(world.kernel, world.marginal, amount=1)))[::-1]
    assert abs(once[dim - 1]) < 1e-12  # the constant, in place of a negative eigenvalue
    assert optimum.eigenvalues[dim - 1] < -1e-3


def test_a_free_linear_predictor_selects_by_magnitude():
    world = world_of(6, 10, "indefinite")
    kernel = world.kernel
    best = spectral_jepa(world.joint, 3, select="magnitude").half_density
    plain = spectral_jepa(world.joint, 3).half_density
    assert np.linalg.norm(best.T @ kernel @ best) > np.linalg.norm(plain.T @ kernel @ plain) + 0.01
    magnitudes = np.sort(np.abs(world.spectrum()))[::-1]
    assert np.linalg.norm(best.T @ kernel @ best) == pytest.approx(np.linalg.norm(magnitudes[:3]))
    with pytest.raises(UsageError):
        spectral_jepa(world.joint, 3, select="magnitude", penalty=2)


def test_states_of_probability_zero_have_no_embedding():
    joint = np.zeros((6, 6))
    joint[:5, :5] = world_of(7, 5).joint
    optimum = spectral_jepa(joint, 2)
    assert np.isnan(optimum.values[5]).all()
    assert np.array_equal(optimum.seen, [True] * 5 + [False])
    assert optimum.values[:5] == pytest.approx(spectral_jepa(joint[:5, :5], 2).values)


def test_tiny_probabilities_do_no_harm():
    rng = np.random.default_rng(0)
    marginal = np.append(np.full(5, 0.2), 1e-14)
    world = random_world(6, "dense", marginal=marginal / marginal.sum(), rng=rng)
    optimum = spectral_jepa(world.joint, 3)
    assert optimum.half_density.T @ optimum.half_density == pytest.approx(np.eye(3), abs=1e-9)


def test_a_tie_at_the_cut_is_told_with_the_identified_part():
    cut = cut_spectrum(np.array([0.9, 0.5, 0.5, 0.5, 0.1]), 3)
    assert (cut.gap, cut.identified_dim, cut.next_dim, cut.is_identifiable) == (0, 1, 4, False)
    assert "only the first 1 of 3" in str(cut)
    assert "d=4" in str(cut)
    assert cut_spectrum(np.array([0.9, 0.5, 0.5, 0.5, 0.1]), 4).is_identifiable
    assert "gap 0.4" in str(cut_spectrum(np.array([0.9, 0.5, 0.5, 0.5, 0.1]), 4))


def test_same_scene_positives_identify_nothing_and_say_so():
    world = FiniteWorld.same_scene(np.full(6, 1 / 6))
    assert world.spectrum() == pytest.approx(np.ones(5))
    assert not any(world.is_identifiable(dim) for dim in range(1, 5))
    message = str(world.cut(2))
    assert "no gap; nothing is guaranteed" in message
    assert "link different observations" in message
    # Telling fewer states apart does not help; showing a state now so, now like another state does.
    observed = Modality.render(world).merge(np.array([0, 0, 1, 2, 3, 4]))
    assert observed.spectrum() == pytest.approx(np.ones(4))
    twofold = Modality.render(world, np.tile([0.7, 0.3], (6, 1)))
    overlapping = twofold.merge(np.array([0, 1, 2, 1, 3, 1, 4, 1, 5, 1, 6, 1]))
    assert overlapping.spectrum().max() < 0.9


def test_independent_solvers_of_a_tied_world_agree_as_far_as_predicted():
    """E CKA = (d'' + t^2 / r) / d for a cut at t of r tied directions with d'' identified ones above."""
    identified, tied, taken = 2, 5, 3
    rng = np.random.default_rng(0)
    agreements = []
    for _ in range(2000):
        planes = [np.linalg.qr(rng.normal(size=(tied, taken)))[0] for _ in range(2)]
        agreements.append((identified + np.linalg.norm(planes[0].T @ planes[1]) ** 2) / (identified + taken))
    expected = (identified + taken**2 / tied) / (identified + taken)
    assert np.mean(agreements) == pytest.approx(expected, abs=4 * np.std(agreements) / 2000**0.5)


def test_kernel_of_a_world_with_an_impossible_scene_is_smaller():
    joint = np.zeros((3, 3))
    joint[:2, :2] = [[0.3, 0.2], [0.2, 0.3]]
    kernel, marginal, seen = positive_kernel(joint)
    assert kernel == pytest.approx(np.array([[0.6, 0.4], [0.4, 0.6]]))
    assert marginal == pytest.approx([0.5, 0.5])
    assert np.array_equal(seen, [True, True, False])
