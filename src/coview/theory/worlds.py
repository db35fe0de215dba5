"""A finite world: scenes, the observations a modality makes of them, and which two count as a positive pair.

Everything is a probability table. A `FiniteWorld` is a symmetric joint law of (scene, scene of the positive);
a `Modality` adds observations: a joint law of (observation, its positive) and the law that couples
observations to scenes. Half-density coordinates are used throughout: an encoder with values F (n, d) and
marginal p becomes U = diag(p)^(1/2) F, and the positive-pair kernel K = diag(p)^(-1/2) J diag(p)^(-1/2).
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from coview.errors import InputError, UsageError
from coview.theory.spectral import Cut, cut_spectrum, positive_kernel, spectrum

SYMMETRY_TOLERANCE = 1e-12
MASS_TOLERANCE = 1e-9


def check_joint(joint: np.ndarray, where: str = "joint") -> np.ndarray:
    """Return `joint` as float64, or raise InputError if it is not a symmetric probability table."""
    joint = np.asarray(joint, dtype=float)
    if joint.ndim != 2 or joint.shape[0] != joint.shape[1] or not joint.size:
        raise InputError(f"a joint of positives is a square table, not {joint.shape}.", where=where)
    bad = ~(np.isfinite(joint) & (joint >= 0))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise InputError(
            f"{joint[row, column]} is not a probability.", where=f"{where} row {row}, column {column}"
        )
    if abs(joint.sum() - 1) > MASS_TOLERANCE:
        raise InputError(
            f"the probabilities sum to {joint.sum():.12g}, not 1.",
            where=where,
            hint="Divide by the sum, or use FiniteWorld.from_weights.",
        )
    asymmetry = np.abs(joint - joint.T)
    if asymmetry.max() > SYMMETRY_TOLERANCE:
        row, column = np.unravel_index(asymmetry.argmax(), joint.shape)
        raise InputError(
            f"not symmetric ({joint[row, column]:.6g} one way, {joint[column, row]:.6g} the other): "
            "if x is a positive of y, y is a positive of x.",
            where=f"{where} row {row}, column {column}",
            hint="If the order of a pair means nothing, write the mean of the two in both places.",
        )
    return joint


@dataclass(frozen=True)
class FiniteWorld:
    """Scenes, and who is a view of whom.

    Attributes
    ----------
    joint : ndarray of shape (S, S), symmetric, non-negative, sum 1
        Probability that a positive pair shows scene s and scene s'. Its row sums are the scene law p(s).

    Raises
    ------
    InputError
        `joint` is not a symmetric probability table.
    """

    joint: np.ndarray

    def __post_init__(self):
        object.__setattr__(self, "joint", check_joint(self.joint))

    @classmethod
    def from_weights(cls, weights: np.ndarray, *, symmetrise: bool = False) -> "FiniteWorld":
        """Normalise non-negative weights to sum 1; average with the transpose only when asked."""
        weights = np.asarray(weights, dtype=float)
        if symmetrise:
            weights = (weights + weights.T) / 2
        return cls(weights / weights.sum())

    @classmethod
    def same_scene(cls, marginal: np.ndarray) -> "FiniteWorld":
        """The positive of a scene is the scene itself: K = I, every eigenvalue 1, nothing identified."""
        return cls(np.diag(np.asarray(marginal, dtype=float)))

    @classmethod
    def from_kernel(cls, kernel: np.ndarray, marginal: np.ndarray) -> "FiniteWorld":
        """The world of this kernel and scene law; InputError if a probability comes out negative."""
        root = np.sqrt(np.asarray(marginal, dtype=float))
        return cls(root[:, None] * kernel * root)

    def mixed_with_same_scene(self, share: float) -> "FiniteWorld":
        """The same world where a positive is, with probability `share`, the same scene: K -> (1-e)K + eI."""
        return FiniteWorld((1 - share) * self.joint + share * np.diag(self.marginal))

    @cached_property
    def marginal(self) -> np.ndarray:
        """The scene law p(s), shape (S,)."""
        return self.joint.sum(axis=1)

    @property
    def kernel(self) -> np.ndarray:
        """Positive-pair kernel on the scenes of positive probability."""
        return positive_kernel(self.joint)[0]

    def spectrum(self) -> np.ndarray:
        """Eigenvalues of the kernel on functions of mean 0, descending, shape (S-1,)."""
        return spectrum(self.joint)

    def cut(self, dim: int) -> Cut:
        """What a solution of `dim` dimensions identifies of this world."""
        return cut_spectrum(self.spectrum(), dim)

    def eigengap(self, dim: int) -> float:
        return self.cut(dim).gap

    def is_identifiable(self, dim: int, rtol: float = 1e-10) -> bool:
        """Whether the best `dim`-dimensional encoder is unique up to a rotation."""
        return cut_spectrum(self.spectrum(), dim, rtol).is_identifiable

    @property
    def n_components(self) -> int:
        """Number of groups of scenes that no chain of positives connects."""
        from scipy.sparse.csgraph import connected_components

        seen = self.marginal > 0
        return int(connected_components(self.joint[np.ix_(seen, seen)] > 0, directed=False)[0])


@dataclass(frozen=True)
class Modality:
    """Observations of scenes, and which two observations count as a positive pair.

    Attributes
    ----------
    joint : ndarray of shape (n, n), symmetric, sum 1
        Law of (observation, its positive).
    coupling : ndarray of shape (n, S), sum 1
        Law of (observation, scene); row sums are the observation law (the marginal of `joint`), column sums
        the scene law. Two modalities are taken to be independent given the scene.

    Raises
    ------
    InputError
        A table is not a law, or the two disagree on the observations' probabilities.
    """

    joint: np.ndarray
    coupling: np.ndarray

    def __post_init__(self):
        joint, coupling = check_joint(self.joint), np.asarray(self.coupling, dtype=float)
        object.__setattr__(self, "joint", joint)
        object.__setattr__(self, "coupling", coupling)
        if coupling.ndim != 2 or len(coupling) != len(joint) or not (coupling >= 0).all():
            raise InputError(
                f"expected a non-negative table with one row for each of {len(joint)} observations, "
                f"got {coupling.shape}.",
                where="coupling",
            )
        gap = np.abs(coupling.sum(axis=1) - self.marginal)
        if gap.max() > MASS_TOLERANCE:
            raise InputError(
                "the coupling and the joint of positives give this observation different probabilities.",
                where=f"observation {gap.argmax()}",
            )

    @classmethod
    def render(
        cls,
        world: FiniteWorld,
        nuisance: np.ndarray | None = None,
        *,
        view: str = "good",
        sharing: float = 1.0,
        nuisance_joint: np.ndarray | None = None,
    ) -> "Modality":
        """Observe each scene with a nuisance; observation number is scene * N + nuisance.

        Parameters
        ----------
        world : FiniteWorld of S scenes
        nuisance : ndarray of shape (S, N) with rows q(n | s), optional
            Good views only. Without it each scene has one observation.
        view : {"good", "bad"}
            Good: a positive draws its nuisance anew, J = J_S q q'. Bad: with probability `sharing` the
            nuisance of the positive comes from `nuisance_joint` (two corruptions of one observation keep
            its style), else anew: J = J_S x [sharing J_N + (1 - sharing) q q'].
        sharing : float in [0, 1]
        nuisance_joint : ndarray of shape (N, N), symmetric, sum 1
            Bad views only: law of (nuisance, nuisance of the positive), independent of the scene.

        Raises
        ------
        UsageError
            Options that do not belong together.
        """
        scenes = len(world.joint)
        if view == "good":
            if nuisance_joint is not None:
                raise UsageError("good views draw the nuisance anew: nuisance_joint belongs to bad views.")
            law = np.ones((scenes, 1)) if nuisance is None else np.asarray(nuisance, dtype=float)
            if law.ndim != 2 or len(law) != scenes or np.abs(law.sum(axis=1) - 1).max() > MASS_TOLERANCE:
                raise InputError(
                    f"expected {scenes} rows q(n | scene), each of sum 1.", where="nuisance", hint=""
                )
            flat = law.ravel()
            joint = np.kron(world.joint, np.ones((law.shape[1],) * 2)) * np.outer(flat, flat)
        elif view == "bad":
            if nuisance_joint is None or nuisance is not None:
                raise UsageError("bad views share the nuisance: give nuisance_joint, and not nuisance.")
            if not 0 <= sharing <= 1:
                raise UsageError(f"sharing is a probability, not {sharing}.")
            shared = check_joint(nuisance_joint, "nuisance_joint")
            anew = shared.sum(axis=1)
            joint = np.kron(world.joint, sharing * shared + (1 - sharing) * np.outer(anew, anew))
            law = np.tile(anew, (scenes, 1))
        else:
            raise UsageError(f"view is 'good' or 'bad', not {view!r}.")
        coupling = np.kron(np.eye(scenes), np.ones((law.shape[1], 1))) * world.marginal
        return cls(joint, coupling * law.reshape(-1, 1))

    def merge(self, labels: np.ndarray) -> "Modality":
        """Alias the observations: those with the same label (0, 1, ...; shape (n,)) can't be told apart."""
        labels = np.asarray(labels)
        if labels.shape != (len(self.joint),) or set(labels) != set(range(labels.max() + 1)):
            raise InputError(f"expected {len(self.joint)} labels 0, 1, ... without a hole.", where="merge")
        member = (np.arange(labels.max() + 1)[:, None] == labels).astype(float)
        return Modality(member @ self.joint @ member.T, member @ self.coupling)

    def permuted(self, order: np.ndarray) -> "Modality":
        """The same modality with its observations in another order."""
        return Modality(self.joint[np.ix_(order, order)], self.coupling[order])

    def supported(self) -> "Modality":
        """The same modality without observations of probability 0."""
        seen = self.marginal > 0
        return replace(self, joint=self.joint[np.ix_(seen, seen)], coupling=self.coupling[seen])

    @cached_property
    def marginal(self) -> np.ndarray:
        """The observation law p(x), shape (n,)."""
        return self.joint.sum(axis=1)

    @cached_property
    def scene_marginal(self) -> np.ndarray:
        """The scene law p(s), shape (S,)."""
        return self.coupling.sum(axis=0)

    @property
    def scene(self) -> np.ndarray:
        """Most probable scene of each observation, shape (n,); the scene itself when it is identified."""
        return self.coupling.argmax(axis=1)

    @property
    def identifies_scene(self) -> bool:
        """Whether no observation could come from two scenes (an injective rendering)."""
        return bool(((self.coupling > 0).sum(axis=1) <= 1).all())

    @property
    def channel(self) -> np.ndarray:
        """B = diag(p(x))^(-1/2) P(x, s) diag(p(s))^(-1/2), shape (n, S); 0 where a probability is 0."""
        scale = np.sqrt(np.outer(self.marginal, self.scene_marginal))
        return np.divide(self.coupling, scale, out=np.zeros_like(self.coupling), where=scale > 0)

    def spectrum(self) -> np.ndarray:
        """Eigenvalues of the positive-pair kernel on functions of mean 0, descending."""
        return spectrum(self.joint)

    def cut(self, dim: int) -> Cut:
        """What a solution of `dim` dimensions identifies in this modality."""
        return cut_spectrum(self.spectrum(), dim)
