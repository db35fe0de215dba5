"""Which dimensions bad views spend on nuisance, and how much of an embedding the scene explains.

Positives that share a nuisance independent of the scene have the kernel K_S x K_N: its eigenvalues are the
products of the two spectra (each with the constant's 1), and its eigenfunctions depend on the scene, on the
nuisance, or on both.
"""

from dataclasses import dataclass

import numpy as np

from coview.errors import UsageError
from coview.theory.spectral import TIE_RTOL, Embedding, spectrum
from coview.theory.worlds import FiniteWorld, Modality


def product_spectrum(
    world: FiniteWorld, nuisance_joint: np.ndarray, sharing: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Eigenvalues of bad views: of scene (S-1,), nuisance (N-1,) and mixed directions, each descending."""
    scene = world.spectrum()
    nuisance = sharing * spectrum(np.asarray(nuisance_joint, dtype=float))
    return scene, nuisance, np.sort(np.outer(scene, nuisance).ravel())[::-1]


def sharing_threshold(world: FiniteWorld, nuisance_joint: np.ndarray, dim: int) -> float:
    """Largest nuisance sharing at which bad views still learn exactly what good views learn.

    Below it all `dim` leading directions are scene directions; above it the first one is lost.

    Returns
    -------
    float
        l_d / n*, where n* is the largest eigenvalue at sharing 1 that is not a scene eigenvalue; above 1, or
        inf when n* <= 0, no sharing loses a dimension. n* is the first nuisance eigenvalue, except that two
        negative ones can have a larger product: a mixed direction can be the first to intrude.

    Raises
    ------
    UsageError
        l_d <= 0: nuisance directions (eigenvalue 0) come first even for good views.
    """
    scene, nuisance, mixed = product_spectrum(world, nuisance_joint)
    if not 1 <= dim <= len(scene):
        raise UsageError(f"dim is from 1 to {len(scene)} here, not {dim}.")
    if scene[dim - 1] <= 0:
        raise UsageError(
            f"scene eigenvalue {dim} is {scene[dim - 1]:.4g}: nuisance directions, with eigenvalue 0, "
            "come first even for good views.",
            hint=f"Choose a dimension up to {int((scene > 0).sum())}.",
        )
    intruder = max(nuisance.max(initial=-np.inf), mixed.max(initial=-np.inf))
    return float(scene[dim - 1] / intruder) if intruder > 0 else np.inf


@dataclass(frozen=True)
class DimensionSplit:
    """How the dimensions of a bad-view optimum divide.

    Attributes
    ----------
    scene, nuisance, mixed : number of dimensions of each kind
    tied : whether the cut goes through equal eigenvalues, so that the split is not determined
    """

    scene: int
    nuisance: int
    mixed: int
    tied: bool

    @property
    def scene_explained(self) -> float:
        """Scene-explained fraction of the whitened optimum: scene dimensions over all."""
        return self.scene / (self.scene + self.nuisance + self.mixed)


def dimension_split(
    world: FiniteWorld, nuisance_joint: np.ndarray, dim: int, *, sharing: float = 1.0
) -> DimensionSplit:
    """Count the kinds among the `dim` largest eigenvalues of bad views with this nuisance sharing."""
    kinds = product_spectrum(world, nuisance_joint, sharing)
    values = np.concatenate(kinds)
    kind = np.repeat([0, 1, 2], [len(k) for k in kinds])
    if not 1 <= dim <= len(values):
        raise UsageError(f"dim is from 1 to {len(values)} here, not {dim}.")
    order = np.argsort(-values, kind="stable")
    counts = np.bincount(kind[order[:dim]], minlength=3)
    after = values[order[dim]] if dim < len(values) else -np.inf
    tied = values[order[dim - 1]] - after <= TIE_RTOL
    return DimensionSplit(int(counts[0]), int(counts[1]), int(counts[2]), bool(tied))


def scene_explained(modality: Modality, embedding: Embedding) -> float:
    """Population scene-explained fraction tr Cov E[f | s] / tr Cov f of an optimum on a finite world."""
    seen = modality.marginal > 0
    half_density = embedding.half_density
    centred = half_density - np.outer(
        np.sqrt(modality.marginal[seen]), np.sqrt(modality.marginal[seen]) @ half_density
    )
    between = modality.channel[seen].T @ centred
    return float((between**2).sum() / (centred**2).sum())
