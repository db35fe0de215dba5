"""Trained encoders meet the theory: where gradient descent finds the predicted optimum, and where not.

Three checks on finite worlds small enough to know every optimum in closed form. The encoder is a table, one
free row for each observation, so that nothing but the objective is tested.

1. Soft second-order JEPA (the VICReg-like penalty) reaches the predicted, scaled eigenfunctions.
2. LeJEPA (SIGReg) reaches the whitened eigenfunctions of a Gaussian world, where they are Gaussian too.
3. LeJEPA does not on a world of three states, although the eigengap is wide: its optimum breaks a symmetry of
   the world, so there are two of them, no rotation joins them, and the theorem's uniqueness fails.

    python examples/theory_meets_training.py        about a minute on one core
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import norm

from coview.theory.bounds import misalignment
from coview.theory.families import random_world, scale_to_marginal
from coview.theory.spectral import spectral_jepa
from coview.theory.worlds import FiniteWorld
from coview.training.sigreg import directions, sigreg


def invariance(joint: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """E |f(x) - f(x+)|^2 over all positive pairs of the world."""
    marginal = joint.sum(dim=1)
    return 2 * (marginal @ table.square().sum(dim=1) - (joint @ table * table).sum())


def soft_covariance(joint: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """|Cov f - I|_F^2."""
    marginal = joint.sum(dim=1)
    centred = table - marginal @ table
    covariance = (centred * marginal[:, None]).T @ centred
    return (covariance - torch.eye(table.shape[1], dtype=table.dtype)).square().sum()


def train_table(
    joint: np.ndarray, loss_of, start: np.ndarray, *, steps: int, rate: float = 0.05
) -> np.ndarray:
    """Minimise `loss_of(joint, table, step)` over a table by Adam with a cosine schedule."""
    law = torch.from_numpy(joint)
    table = torch.from_numpy(start.copy()).requires_grad_()
    optimiser = torch.optim.Adam([table], lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for step in range(steps):
        optimiser.zero_grad()
        loss_of(law, table, step).backward()
        optimiser.step()
        schedule.step()
    values = table.detach().numpy()
    return values - joint.sum(axis=1) @ values


def distance_a_dimension(joint: np.ndarray, trained: np.ndarray, predicted: np.ndarray) -> float:
    """Root mean square distance a dimension after the best rotation."""
    left = misalignment(predicted, trained, np.diag(joint.sum(axis=1)))
    return left.frobenius / math.sqrt(trained.shape[1])


def soft_training(penalty: float = 2.0, *, dim: int = 3, steps: int = 3000, seed: int = 0) -> float:
    """Distance a dimension of soft second-order training from its closed form, on a random world."""
    world = random_world(24, "rbf", rng=np.random.default_rng([seed, 0]))
    start = np.random.default_rng([seed, 1]).normal(size=(24, dim))

    def loss(joint, table, step):
        return invariance(joint, table) + penalty * soft_covariance(joint, table)

    trained = train_table(world.joint, loss, start, steps=steps)
    return distance_a_dimension(world.joint, trained, spectral_jepa(world.joint, dim, penalty=penalty).values)


def gaussian_world(size: int = 20, correlations: tuple[float, float] = (0.8, 0.75)) -> FiniteWorld:
    """Two Ornstein-Uhlenbeck coordinates on a grid of `size` Gaussian quantiles each, all equally likely."""
    points = norm.ppf((np.arange(size) + 0.5) / size)
    joints = []
    for rho in correlations:
        exponent = rho * np.outer(points, points) - rho**2 * np.add.outer(points**2, points**2) / 2
        joints.append(scale_to_marginal(np.exp(exponent / (1 - rho**2)), np.full(size, 1 / size)))
    return FiniteWorld(np.kron(*joints))


def lejepa_training(
    world: FiniteWorld, dim: int, *, weight: float = 0.02, slices: int = 64, steps: int = 800, seed: int = 0
) -> np.ndarray:
    """LeJEPA with two views on a table over equally likely observations.

    The invariance term is the mean, over dimensions and views, of the squared distance from the views'
    centre: a quarter of E |f(x) - f(x+)|^2, over d.
    """
    states = len(world.joint)
    start = np.random.default_rng([seed, 2]).normal(size=(states, dim))

    def loss(joint, table, step):
        slanted = directions(dim, slices, seed, step, dtype=table.dtype)
        return (1 - weight) * invariance(joint, table) / (4 * dim) + weight * sigreg(table, slanted)

    return train_table(world.joint, loss, start, steps=steps)


def three_state_world() -> FiniteWorld:
    """Eigenvalues .55 along (1, 1, -2) and .30 along (1, -1, 0): states 0 and 1 can be exchanged."""
    functions = np.array([[1, 1, 1], [1, 1, -2], [1, -1, 0]])
    functions = functions / np.linalg.norm(functions, axis=1, keepdims=True)
    return FiniteWorld.from_kernel(functions.T @ np.diag([1, 0.55, 0.30]) @ functions, np.full(3, 1 / 3))


def line_statistic(values: np.ndarray) -> np.ndarray:
    """SIGReg / N of one-dimensional embeddings (..., N), by the formula: 17 knots, integral to 3, doubled."""
    knots = np.linspace(0, 3, 17)
    widths = np.full(17, 2 * knots[1])
    widths[[0, -1]] /= 2
    total = np.zeros(values.shape[:-1])
    for knot, width in zip(knots, widths, strict=True):
        target = math.exp(-(knot**2) / 2)
        real, imaginary = np.cos(knot * values).mean(axis=-1), np.sin(knot * values).mean(axis=-1)
        total += width * target * ((real - target) ** 2 + imaginary**2)
    return total


@dataclass(frozen=True)
class ThreeStateOptimum:
    """The best one-dimensional LeJEPA encoder of three states, and the best that treats 0 and 1 alike."""

    best: np.ndarray
    loss: float
    symmetric_loss: float

    @property
    def mirror_correlation(self) -> float:
        """Absolute correlation of the best encoder with its mirror image, states 0 and 1 exchanged."""
        return float(abs(np.corrcoef(self.best, self.best[[1, 0, 2]])[0, 1]))


def three_state_optimum(weight: float, reach: float = 2.2, step: float = 0.04) -> ThreeStateOptimum:
    """Minimise invariance + weight * SIGReg / N over a grid of every encoder within `reach`."""
    joint = three_state_world().joint
    axis = np.arange(-reach, reach + step / 2, step)
    f = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1)
    loss = 2 * ((f**2).mean(axis=-1) - np.einsum("...i,ij,...j->...", f, joint, f)) + weight * line_statistic(
        f
    )
    along = np.arange(len(axis))
    best = f[np.unravel_index(loss.argmin(), loss.shape)]
    return ThreeStateOptimum(best, float(loss.min()), float(loss[along, along].min()))


def three_state_training(weight: float, start: np.ndarray, steps: int = 400) -> np.ndarray:
    """The encoder, shape (3,), that Adam finds with the trainer's SIGReg from `start`."""

    def loss(joint, table, step):
        return invariance(joint, table) + weight * sigreg(table, torch.ones(1, 1, dtype=table.dtype)) / 3

    return train_table(three_state_world().joint, loss, start[:, None], steps=steps)[:, 0]


def main() -> None:
    print("1. soft second-order training against its closed form, distance a dimension")
    for penalty in (2.0, 10.0):
        print(f"   penalty {penalty:g}: {soft_training(penalty):.1e}")

    world = gaussian_world()
    predicted = spectral_jepa(world.joint, 2)
    print(f"2. LeJEPA on a Gaussian world of {len(world.joint)} states, eigengap {predicted.eigengap:.2f}")
    runs = [lejepa_training(world, 2, seed=seed) for seed in (0, 1)]
    for seed, run in enumerate(runs):
        left = misalignment(predicted, run, np.diag(world.marginal))
        distance = distance_a_dimension(world.joint, run, predicted.values)
        print(f"   seed {seed}: {distance:.3f} from the closed form,", end=" ")
        print(f"squared canonical correlations {np.round(left.cosines**2, 4)}")
    print(f"   the two seeds: {distance_a_dimension(world.joint, runs[0], runs[1]):.3f} from one another")

    world = three_state_world()
    predicted = spectral_jepa(world.joint, 1)
    print(
        f"3. three states, d = 1, eigengap {predicted.eigengap:.2f}: second-order JEPA is unique up to sign"
    )
    for weight in (3.0, 10.0):
        found = three_state_optimum(weight)
        print(
            f"   LeJEPA, weight {weight:g}: best encoder {np.round(found.best, 2)}, loss {found.loss:.3f}\n"
            f"     (the best that treats states 0 and 1 alike: {found.symmetric_loss:.3f}); its mirror image "
            f"is as good, and their correlation is {found.mirror_correlation:.2f}"
        )
    for start in ([-1.0, 0.1, 0.8], [0.1, -1.0, 0.8]):
        print(f"   Adam from {start}, weight 10: {np.round(three_state_training(10.0, np.array(start)), 2)}")


if __name__ == "__main__":
    main()
