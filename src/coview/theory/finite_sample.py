"""How many positive pairs it takes: text encoders fitted to samples of good, bad and next-token pairs.

One world of scenes, an image modality of good views whose population optimum stands for a frozen image
encoder, and a text modality with a nuisance (style). Each arm sees n pairs of texts and is solved in closed
form from the empirical law of its pairs; nothing else differs.
"""

from dataclasses import dataclass

import numpy as np

from coview.alignment.neighbours import top_neighbours
from coview.alignment.overlap import mutual_knn
from coview.theory.families import scale_to_marginal
from coview.theory.next_token import next_token
from coview.theory.nuisance import scene_explained
from coview.theory.spectral import Embedding, spectral_jepa
from coview.theory.worlds import FiniteWorld, Modality

ARMS = ("good", "bad", "next-token")
SAMPLES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)


@dataclass(frozen=True)
class StudyWorld:
    """The world of the study.

    Attributes
    ----------
    world : FiniteWorld
    style_joint : ndarray of shape (3, 3), law of (style, style of the positive) of bad views
    image : Modality of good views
    texts : dict from arm to the text modality whose positives the arm sees
        The three have the same texts. "next-token" pairs a prefix and a continuation of one document: they
        share the style fully and less of the scene than two texts of a scene do (K_S to a power of 2).
    """

    world: FiniteWorld
    style_joint: np.ndarray
    image: Modality
    texts: dict[str, Modality]


@dataclass(frozen=True)
class SampleRecord:
    """One arm fitted to one sample.

    Attributes
    ----------
    arm : str
    samples : int, positive pairs seen; 0 stands for the population
    seed : int
    mutual_knn : float, with the image encoder, one text and one image a scene, by cosine
    scene_explained : float, population scene-explained fraction of the fitted encoder
    chance : float, mutual k-NN of unrelated embeddings
    """

    arm: str
    samples: int
    seed: int
    mutual_knn: float
    scene_explained: float
    chance: float


def study_world(
    seed: int = 0, *, n_scenes: int = 128, style_eigenvalues: tuple[float, float] = (0.85, 0.65)
) -> StudyWorld:
    """Scenes at random places, linked by nearness, and three styles with the given kernel eigenvalues."""
    rng = np.random.default_rng([seed, 0])
    points = rng.normal(size=(n_scenes, 3))
    distance = ((points[:, None] - points) ** 2).sum(axis=-1)
    marginal = np.full(n_scenes, 1 / n_scenes)
    world = FiniteWorld(scale_to_marginal(np.exp(-distance / 2.5), marginal))
    image = Modality.render(world, rng.dirichlet(np.ones(3), n_scenes))
    basis = np.array([[1, 1, 1], [1, -1, 0], [1, 1, -2]]) / np.sqrt([[3], [2], [6]])
    style = FiniteWorld.from_kernel(
        basis.T @ np.diag([1, *style_eigenvalues]) @ basis, np.full(3, 1 / 3)
    ).joint
    squared = FiniteWorld.from_kernel(world.kernel @ world.kernel, marginal)
    texts = {
        "good": Modality.render(world, np.full((n_scenes, 3), 1 / 3)),
        "bad": Modality.render(world, view="bad", nuisance_joint=style),
        "next-token": Modality.render(squared, view="bad", nuisance_joint=style),
    }
    return StudyWorld(world, style, image, texts)


def solve_arm(arm: str, joint: np.ndarray, dim: int) -> np.ndarray:
    """Whitened half-density of an arm's optimum for a law of pairs, as encoder values (n, dim).

    Next-token prediction is taken to second order and whitened: its optima differ by GL(d), and neighbours
    are compared up to rotations.
    """
    if arm != "next-token":
        return spectral_jepa(joint, dim).values
    marginal = joint.sum(axis=1)
    seen = marginal > 0
    root = np.sqrt(marginal[seen])[:, None]
    whitened, _, _ = np.linalg.svd(
        root * next_token(joint[np.ix_(seen, seen)], dim).values, full_matrices=False
    )
    values = np.full((len(joint), dim), np.nan)
    values[seen] = whitened / root
    return values


def empirical_joint(joint: np.ndarray, samples: int, rng: np.random.Generator) -> np.ndarray:
    """Symmetric law of `samples` positive pairs drawn from `joint`."""
    counts = rng.multinomial(samples, joint.ravel()).reshape(joint.shape)
    return (counts + counts.T) / (2 * samples)


def run_study(
    samples: tuple[int, ...] = SAMPLES, seeds: tuple[int, ...] = (0, 1, 2), *, dim: int = 6, k: int = 10
) -> list[SampleRecord]:
    """Fit every arm at every sample size and seed; sample size 0 is the population."""
    study = study_world()
    scenes = len(study.world.joint)
    image = spectral_jepa(study.image.joint, dim).values
    records = []
    for seed in seeds:
        # One image and one text a scene, the same for all arms and sample sizes.
        draw = np.random.default_rng([seed, 1]).random((2, scenes))
        shown = _one_observation_a_scene(study.image, draw[0])
        told = _one_observation_a_scene(study.texts["good"], draw[1])
        lists = top_neighbours(image[shown], k, metric="euclidean")
        for number, size in enumerate((0, *samples)):
            for arm in ARMS:
                modality = study.texts[arm]
                rng = np.random.default_rng([seed, 2, number])
                joint = empirical_joint(modality.joint, size, rng) if size else modality.joint
                values = np.nan_to_num(solve_arm(arm, joint, dim))
                neighbours = top_neighbours(values[told], k, metric="euclidean")
                records.append(
                    SampleRecord(
                        arm=arm,
                        samples=size,
                        seed=seed,
                        mutual_knn=float(mutual_knn(lists, neighbours).mean()),
                        scene_explained=scene_explained(
                            modality, Embedding(values, np.ones(len(values)), modality.marginal)
                        ),
                        chance=k / (scenes - 1),
                    )
                )
    return records


def _one_observation_a_scene(modality: Modality, draw: np.ndarray) -> np.ndarray:
    """An observation of each scene, drawn from p(x | s) by the uniform numbers `draw` (S,)."""
    cumulative = np.cumsum(modality.coupling / modality.scene_marginal, axis=0)
    return (cumulative < draw * (1 - 1e-12)).sum(axis=0)
