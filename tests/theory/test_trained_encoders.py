"""Gradient descent against the closed forms (minutes: run with -m slow)."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def example():
    path = Path(__file__).parents[2] / "examples" / "theory_meets_training.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("penalty", "tolerance"), [(2.0, 1e-6), (10.0, 1e-4)])
def test_soft_training_reaches_the_scaled_eigenfunctions(example, penalty, tolerance):
    assert example.soft_training(penalty) < tolerance


def test_lejepa_reaches_the_eigenfunctions_of_a_gaussian_world(example):
    world = example.gaussian_world()
    predicted = example.spectral_jepa(world.joint, 2).values
    runs = [example.lejepa_training(world, 2, seed=seed) for seed in (0, 1)]
    for run in runs:
        left = example.misalignment(predicted, run, np.diag(world.marginal))
        assert left.cosines.min() ** 2 > 0.995
        assert example.distance_a_dimension(world.joint, run, predicted) < 0.1
    assert example.distance_a_dimension(world.joint, *runs) < 0.01


def test_the_formula_is_the_trainers_sigreg(example):
    import torch

    values = np.random.default_rng(0).normal(size=(5, 3))
    for row, expected in zip(values, example.line_statistic(values), strict=True):
        column = torch.from_numpy(row[:, None])
        statistic = example.sigreg(column, torch.ones(1, 1, dtype=torch.float64)) / 3
        assert statistic.item() == pytest.approx(expected, rel=1e-9)


def test_lejepa_has_two_optima_on_three_states_that_no_rotation_joins(example):
    world = example.three_state_world()
    assert world.spectrum() == pytest.approx([0.55, 0.30])
    assert world.is_identifiable(1)
    found = example.three_state_optimum(10.0)
    assert found.symmetric_loss - found.loss > 0.2
    assert found.mirror_correlation == pytest.approx(0.57, abs=0.02)
    # Gradient descent on the trainer's own SIGReg ends in either, depending on the start.
    trained = [
        example.three_state_training(10.0, np.array(start)) for start in ([-1.0, 0.1, 0.8], [0.1, -1.0, 0.8])
    ]
    assert trained[0] == pytest.approx(found.best - found.best.mean(), abs=0.05)
    assert trained[1] == pytest.approx(trained[0][[1, 0, 2]], abs=1e-3)
    # The world is symmetric in states 0 and 1; second-order JEPA finds the encoder that is too.
    spectral = example.spectral_jepa(world.joint, 1).values[:, 0]
    assert spectral[0] == pytest.approx(spectral[1])
