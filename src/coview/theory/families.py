"""Random finite worlds, in six families that differ in how positives link scenes."""

import numpy as np

from coview.errors import UsageError, did_you_mean
from coview.theory.worlds import FiniteWorld, Modality

FAMILIES = ("rbf", "clusters", "graph", "topics", "dense", "indefinite")


def random_world(
    n_states: int,
    family: str = "rbf",
    *,
    concentration: float = 1.0,
    marginal: np.ndarray | None = None,
    rng: np.random.Generator,
) -> FiniteWorld:
    """A random world of `n_states` scenes.

    Parameters
    ----------
    n_states : int
    family : {"rbf", "clusters", "graph", "topics", "dense", "indefinite"}
        rbf: positives are near in a plane. clusters: in the same cluster, with leaks. graph: neighbours on a
        sparse connected graph. topics: share a topic (low rank). dense: anything. indefinite: mostly
        from the other of two camps, so that half the spectrum is negative.
    concentration : float
        Dirichlet concentration of the scene law; inf is uniform. Not used when `marginal` is given.
    marginal : ndarray of shape (n_states,), optional
        The scene law; use it to draw two worlds that differ in their positives alone.
    """
    if family not in FAMILIES:
        raise UsageError(f"there is no family {family!r}.", hint=did_you_mean(family, FAMILIES))
    if marginal is None:
        uniform = np.full(n_states, 1 / n_states)
        marginal = uniform if np.isinf(concentration) else rng.dirichlet(np.full(n_states, concentration))
        marginal = (marginal + 1e-4) / (marginal + 1e-4).sum()
    return FiniteWorld(scale_to_marginal(_affinity(n_states, family, rng), marginal))


def _affinity(n: int, family: str, rng: np.random.Generator) -> np.ndarray:
    """Symmetric non-negative weights with a positive diagonal (so that any marginal can be reached)."""
    if family == "rbf":
        points = rng.normal(size=(n, 2))
        distance = ((points[:, None] - points) ** 2).sum(axis=-1)
        return np.exp(-distance / (2 * rng.uniform(0.3, 1.2) ** 2))
    if family == "clusters":
        cluster = rng.integers(0, max(2, n // 4), n)
        leak = rng.uniform(0.01, 0.3)
        same = cluster[:, None] == cluster
        weights = np.where(same, 1.0, leak) * rng.uniform(0.5, 1, (n, n))
    elif family == "graph":
        order = rng.permutation(n)
        weights = (rng.random((n, n)) < 2 / n) * rng.random((n, n))
        weights[order, np.roll(order, 1)] += rng.uniform(0.5, 1, n)
        weights = weights + np.diag(rng.uniform(0.2, 1, n))
    elif family == "topics":
        topics = rng.dirichlet(np.full(max(2, n // 3), 0.2), n)
        return topics @ topics.T + 1e-6
    elif family == "dense":
        weights = rng.random((n, n)) ** rng.uniform(1, 8)
    else:
        camp = rng.permutation(np.arange(n) % 2)
        other = camp[:, None] != camp
        weights = np.where(other, 1.0, rng.uniform(0.05, 0.5)) * rng.random((n, n)) ** 2
    return weights + weights.T + 0.02 * np.eye(n)


def scale_to_marginal(weights: np.ndarray, marginal: np.ndarray, iterations: int = 200) -> np.ndarray:
    """Symmetric joint diag(a) W diag(a) with the given row sums.

    The scaling (Sinkhorn's, in its symmetric form) stops short of the exact marginal; what is missing goes to
    the diagonal, which is exact to rounding and keeps the table symmetric.
    """
    scale = np.sqrt(marginal / weights.sum(axis=1))
    for _ in range(iterations):
        scale = np.sqrt(scale * marginal / (weights @ scale))
    joint = scale[:, None] * weights * scale
    joint = (joint + joint.T) / 2
    joint *= min(1.0, (marginal / joint.sum(axis=1)).min())
    return joint + np.diag(np.maximum(marginal - joint.sum(axis=1), 0))


def random_nuisance(n_scenes: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Rows q(n | s) of a nuisance that depends on the scene, shape (n_scenes, size)."""
    return rng.dirichlet(np.ones(size), n_scenes)


def random_good_modality(world: FiniteWorld, size: int, rng: np.random.Generator) -> Modality:
    """Good views of `world` with a nuisance of `size` values, observations in an order of their own."""
    modality = Modality.render(world, random_nuisance(len(world.joint), size, rng))
    return modality.permuted(rng.permutation(len(modality.joint)))
