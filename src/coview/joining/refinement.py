"""From a rough rotation to a better one: match some rows under it, fit a rotation to the matches, repeat.

Rows of both sides are unit rows; none has a partner on the other side. A matching is soft (entropic, cheap
and smooth), one-to-one (exact, on batches that grow), or by mutual neighbours under CSLS (to finish).
"""

import numpy as np

from coview.joining.assignment import assign
from coview.joining.procrustes import nearest_rotation
from coview.joining.read_out import csls

SOFTNESS = 1 / 3
SINKHORN_STEPS = 5
MEMORY = 0.7
BATCHES = (600, 700, 850, 1000, 1150, 1300, 1500, 1500)
CSLS_ROWS = 1500
CSLS_STEPS = 5


def polar(cross: np.ndarray, known: np.ndarray | None = None) -> np.ndarray:
    """The rotation nearest to a cross-covariance, to which that of known pairs is added with equal weight."""
    if known is not None:
        size = np.linalg.norm(cross, "nuc"), np.linalg.norm(known, "nuc")
        cross = cross / max(size[0], 1e-30) + known / max(size[1], 1e-30)
    return nearest_rotation(cross.astype(np.float64))[0].astype(np.float32)


def draw(rng: np.random.Generator, rows: np.ndarray, size: int) -> np.ndarray:
    """Some rows without repetition, all if there are no more."""
    return rows[rng.permutation(len(rows))[:size]]


def matched_similarity(rotation: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """Mean cosine of the best one-to-one matching of two batches: the score of a rotation without pairs.

    On rows the rotation was not fitted on it is highest, or nearly, for the true rotation, as long as both
    clouds have the same shape.
    """
    similarity = (x @ rotation) @ y.T
    return float(similarity[assign(similarity)].mean())


def soft_steps(
    rotation: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    rng: np.random.Generator,
    *,
    rounds: int,
    size: int = 1200,
    steps: int = 4,
    known: np.ndarray | None = None,
) -> np.ndarray:
    """Entropic matching (Sinkhorn) and Procrustes, `steps` times on each of `rounds` fresh batches.

    The temperature is a third of the standard deviation of the similarities: it follows width and spectrum.
    """
    for _ in range(rounds):
        a, b = draw(rng, x, size), draw(rng, y, size)
        for _ in range(steps):
            similarity = (a @ rotation) @ b.T
            temperature = SOFTNESS * max(float(similarity.std()), 1e-6)
            kernel = np.exp((similarity - similarity.max()) / temperature) + np.float32(1e-30)
            columns = np.ones(len(b), dtype=np.float32)
            rows = columns
            for _ in range(SINKHORN_STEPS):
                rows = 1 / (kernel @ columns)
                columns = (len(a) / len(b)) / (kernel.T @ rows)
            rotation = polar((a * rows[:, None]).T @ (kernel @ (b * columns[:, None])), known)
    return rotation


def growing_steps(
    rotation: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    rng: np.random.Generator,
    *,
    batches: tuple[int, ...] = BATCHES,
    known: np.ndarray | None = None,
) -> np.ndarray:
    """Optimal one-to-one matching of growing batches and Procrustes (Grave, Joulin, Berthet, AISTATS 2019).

    Cross-covariances of past batches fade out rather than vanish: a single batch is noisy.
    """
    cross = np.zeros((x.shape[1], y.shape[1]), dtype=np.float32)
    for size in batches:
        a, b = draw(rng, x, size), draw(rng, y, size)
        rows, columns = assign((a @ rotation) @ b.T)
        cross = MEMORY * cross + a[rows].T @ b[columns] / len(rows)
        rotation = polar(cross, known)
    return rotation


def neighbour_steps(
    rotation: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    rng: np.random.Generator,
    *,
    known: np.ndarray | None = None,
) -> np.ndarray:
    """Procrustes on rows that are each other's nearest under CSLS (Conneau et al., ICLR 2018)."""
    cross = np.zeros((x.shape[1], y.shape[1]), dtype=np.float32)
    for _ in range(CSLS_STEPS):
        a, b = draw(rng, x, CSLS_ROWS), draw(rng, y, CSLS_ROWS)
        similarity = csls((a @ rotation) @ b.T)
        forth, back = similarity.argmax(axis=1), similarity.argmax(axis=0)
        mutual = np.flatnonzero(back[forth] == np.arange(len(a)))
        if len(mutual) < min(x.shape[1], y.shape[1]):
            break
        cross = MEMORY * cross + a[mutual].T @ b[forth[mutual]] / len(mutual)
        rotation = polar(cross, known)
    return rotation
