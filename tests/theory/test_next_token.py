import numpy as np
import pytest
from scipy.optimize import check_grad

from coview.alignment.neighbours import top_neighbours
from coview.alignment.overlap import mutual_knn
from coview.errors import InputError, UsageError
from coview.theory.families import random_world
from coview.theory.next_token import next_token, softmax_loss
from coview.theory.spectral import spectral_jepa


def random_joint(seed: int, n: int = 6, m: int = 5, strength: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows, columns = rng.dirichlet(np.full(n, 5)), rng.dirichlet(np.full(m, 5))
    free = np.outer(rows, columns)
    tilt = rng.normal(size=(n, m))
    tilt -= rows @ tilt
    tilt -= (tilt @ columns)[:, None]
    return free * (1 + strength * tilt / (np.abs(tilt).max() + 1e-12) * 0.9)


def mutual_information(joint: np.ndarray) -> float:
    free = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    return float((joint * np.log(joint / free)).sum())


def test_the_gradient_of_the_softmax_loss_is_right():
    joint, rng = random_joint(0), np.random.default_rng(1)
    f, g = rng.normal(size=(6, 2)), rng.normal(size=(5, 2))

    def value(bias):
        return softmax_loss(joint, f, g, bias)[0]

    def gradient(bias):
        return softmax_loss(joint, f, g, bias)[1].sum(axis=0)

    assert check_grad(value, gradient, rng.normal(size=5)) < 1e-6


def test_the_loss_is_cross_entropy_less_entropy():
    joint, rng = random_joint(0), np.random.default_rng(1)
    f, g, b = rng.normal(size=(6, 2)), rng.normal(size=(5, 2)), rng.normal(size=5)
    law = joint.sum(axis=0)
    scores = np.exp(f @ g.T + b) * law
    cross_entropy = -(joint * np.log(scores / scores.sum(axis=1, keepdims=True))).sum()
    entropy = -(law * np.log(law)).sum()
    assert softmax_loss(joint, f, g, b)[0] == pytest.approx(cross_entropy - entropy)


def test_the_softmax_reaches_minus_the_mutual_information_when_dimensions_suffice():
    joint = random_joint(2)
    whole = next_token(joint, 4, order="softmax")
    assert whole.loss == pytest.approx(-mutual_information(joint), abs=1e-7)
    logits = whole.values @ whole.targets.T + whole.bias
    pmi = np.log(joint / np.outer(joint.sum(axis=1), joint.sum(axis=0)))
    difference = logits - pmi
    assert np.ptp(difference, axis=1) == pytest.approx(np.zeros(6), abs=1e-3)
    assert next_token(joint, 1, order="softmax").loss > whole.loss


def test_the_second_order_form_is_the_best_low_rank_fit():
    joint = random_joint(3)
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    solution = next_token(joint, 2)
    fitted = (np.sqrt(rows)[:, None] * solution.values) @ (np.sqrt(columns)[:, None] * solution.targets).T
    correlation = joint / np.sqrt(np.outer(rows, columns)) - np.sqrt(np.outer(rows, columns))
    residual = np.linalg.norm(correlation - fitted) ** 2
    assert residual == pytest.approx((solution.singular_values[2:] ** 2).sum())


def test_both_forms_agree_when_correlations_are_weak():
    overlaps = []
    for strength in (0.5, 0.05):
        joint = random_joint(4, strength=strength)
        spans = []
        for order in (2, "softmax"):
            values = next_token(joint, 2, order=order).values
            spans.append(np.linalg.qr(np.sqrt(joint.sum(axis=1))[:, None] * values)[0])
        overlaps.append(np.linalg.norm(spans[0].T @ spans[1]) ** 2 / 2)
    assert 1 - overlaps[1] < 1e-3
    assert overlaps[1] > overlaps[0]


def test_for_exchangeable_pairs_it_is_the_jepa_that_selects_by_magnitude():
    world = random_world(9, "indefinite", rng=np.random.default_rng(5))
    tokens = np.sqrt(world.marginal)[:, None] * next_token(world.joint, 3).values
    jepa = spectral_jepa(world.joint, 3, select="magnitude").half_density
    singular = np.linalg.svd(np.linalg.qr(tokens)[0].T @ jepa, compute_uv=False)
    assert singular == pytest.approx(np.ones(3), abs=1e-9)


def test_an_invertible_map_changes_the_embedding_and_not_the_loss():
    joint = random_joint(6)
    solution = next_token(joint, 2)
    mix = np.array([[3.0, 1.0], [0.0, 0.2]])
    changed = softmax_loss(
        joint, solution.values @ mix, solution.targets @ np.linalg.inv(mix).T, solution.bias
    )
    assert changed[0] == pytest.approx(solution.loss)


def test_neighbours_of_equivalent_optima_agree_only_once_whitened():
    """A map in GL(d) leaves the loss alone and moves neighbours: whiten before comparing."""
    world = random_world(60, "rbf", rng=np.random.default_rng(8))
    values = next_token(world.joint, 3).values
    equivalent = values @ np.array([[4.0, 1.0, 0.0], [0.0, 0.3, 2.0], [1.0, 0.0, 1.0]])

    def agreement(x, y):
        return mutual_knn(top_neighbours(x, 5), top_neighbours(y, 5)).mean()

    def whitened(x):
        root = np.sqrt(world.marginal)[:, None]
        return np.linalg.svd(root * x, full_matrices=False)[0] / root

    assert agreement(values, equivalent) < 0.95
    assert agreement(whitened(values), whitened(equivalent)) == pytest.approx(1)


def test_bad_tables_and_dimensions_are_refused():
    joint = random_joint(7)
    with pytest.raises(InputError):
        next_token(joint * 2, 2)
    with pytest.raises(InputError, match="no empty row"):
        next_token(np.vstack([joint, np.zeros(5)]), 2)
    with pytest.raises(UsageError, match="from 1 to 4"):
        next_token(joint, 5)
    with pytest.raises(UsageError):
        next_token(joint, 2, order=3)
