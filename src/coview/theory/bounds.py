"""How far two separately trained optima can be from one rotation of each other.

Two modalities live in one space: each is lifted isometrically to functions of the state (scene and all
nuisances), where their kernels can be subtracted. The bounds are of the Davis-Kahan family (Davis and Kahan
1970; Yu, Wang and Samworth 2015) in a sharp two-kernel form and in a form that needs one gap only.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from coview.errors import InputError, UsageError
from coview.theory.spectral import TIE_RTOL, Embedding, eigenfunctions, positive_kernel
from coview.theory.worlds import Modality

EQUAL_MARGINALS = 1e-12
# Directions of the second modality that lie outside the first by less than this are rounding: without the
# threshold their square roots (1e-8) would stand in for a mismatch of exactly 0.
OVERLAP_TOLERANCE = 1e-12


def cross_modal(first: Modality, second: Modality) -> np.ndarray:
    """Law of (observation of `first`, observation of `second`) of one state, shape (n1, n2).

    The nuisances are independent given the scene, and scenes are drawn from the law of `first`.
    """
    _check_scenes(first, second)
    law = second.scene_marginal
    conditional = np.divide(second.coupling, law, out=np.zeros_like(second.coupling), where=law > 0)
    return first.coupling @ conditional.T


@dataclass(frozen=True)
class Misalignment:
    """What is left between two embeddings after the best rotation.

    Attributes
    ----------
    frobenius : root mean square distance, sqrt(E |f1(x1) - R' f2(x2)|^2) over observations of one state
    operator : the same along the worst direction
    cosines, sines : ndarrays, of the canonical angles between the two embeddings, each descending
    rotation : ndarray of shape (d, d), R
    cka : linear CKA in L2(p); 1 - |sin angles|^2 / d when both are whitened
    """

    frobenius: float
    operator: float
    cosines: np.ndarray
    sines: np.ndarray
    rotation: np.ndarray
    cka: float


def misalignment(
    first: Embedding | np.ndarray, second: Embedding | np.ndarray, pairs: np.ndarray
) -> Misalignment:
    """Rotate `second` onto `first` and measure what is left.

    Parameters
    ----------
    first, second : Embedding or ndarray of shape (n1, d) and (n2, d)
    pairs : ndarray of shape (n1, n2), law of two observations of one state (`cross_modal`)
    """
    f, g = (np.asarray(getattr(e, "values", e)) for e in (first, second))
    if f.shape[1] != g.shape[1]:
        raise UsageError(f"a rotation joins equal dimensions, not {f.shape[1]} and {g.shape[1]}.")
    rows, columns = pairs.sum(axis=1), pairs.sum(axis=0)
    f, g = np.where(rows[:, None] > 0, f, 0), np.where(columns[:, None] > 0, g, 0)
    left, _, right = np.linalg.svd(g.T @ pairs.T @ f)
    rotation = left @ right
    residual = _weighted_difference(f, g @ rotation, pairs)
    one, two = _orthonormal(f, rows), _orthonormal(g, columns)
    correlation = one.T @ pairs @ two
    moments = [(f * w[:, None]).T @ f for f, w in ((f, rows), (g, columns))]
    crossed = f.T @ pairs @ g
    return Misalignment(
        frobenius=float(np.linalg.norm(residual)),
        operator=float(np.linalg.norm(residual, 2)),
        cosines=np.clip(np.linalg.svd(correlation, compute_uv=False), 0, 1),
        sines=np.linalg.svd(_weighted_difference(one @ correlation, two, pairs), compute_uv=False),
        rotation=rotation,
        cka=float(np.linalg.norm(crossed) ** 2 / np.prod([np.linalg.norm(m) for m in moments])),
    )


def _weighted_difference(f: np.ndarray, g: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """f(x1) - g(x2) of every pair times the root of its probability, one row a pair.

    Pair by pair, not through |f|^2 + |g|^2 - 2 f.g or 1 - cos^2: those could not resolve less than 1e-8.
    """
    i, j = pairs.nonzero()
    return (f[i] - g[j]) * np.sqrt(pairs[i, j])[:, None]


def _orthonormal(values: np.ndarray, law: np.ndarray) -> np.ndarray:
    """A basis, orthonormal in L2(law), of the functions that the columns of `values` span."""
    root = np.sqrt(law)[:, None]
    left, singular, _ = np.linalg.svd(root * values, full_matrices=False)
    basis = left[:, singular > 1e-9 * singular[0]]
    return np.divide(basis, root, out=np.zeros_like(basis), where=root > 0)


@dataclass(frozen=True)
class KernelMismatch:
    """The kernels of two modalities, lifted to one space.

    Attributes
    ----------
    first, second : Modality, without observations of probability 0
    lifts : two isometries, (r, n1) and (r, n2), from half-densities on observations to the common space
    kernels : two ndarrays of shape (r, r), the lifted kernels
    spectra : two ndarrays, descending eigenvalues on functions of mean 0
    """

    first: Modality
    second: Modality
    lifts: tuple[np.ndarray, np.ndarray]
    kernels: tuple[np.ndarray, np.ndarray]
    spectra: tuple[np.ndarray, np.ndarray]

    @property
    def equal_marginals(self) -> bool:
        """Whether both modalities see the scenes with the same law."""
        return bool(np.abs(self.first.scene_marginal - self.second.scene_marginal).max() <= EQUAL_MARGINALS)

    def difference(self, deflation: float = 0.0) -> np.ndarray:
        """K1 - K2 in the common space, (r, r), each less `deflation` times its constant function."""
        difference = self.kernels[0] - self.kernels[1]
        if deflation and not self.equal_marginals:
            one, two = self.constants
            difference = difference - deflation * (np.outer(one, one) - np.outer(two, two))
        return difference

    @property
    def constants(self) -> tuple[np.ndarray, np.ndarray]:
        """The constant function of each modality in the common space, shape (r,) each."""
        one, two = (
            lift @ np.sqrt(m.marginal) for lift, m in zip(self.lifts, (self.first, self.second), strict=True)
        )
        return one, two

    @cached_property
    def frobenius(self) -> float:
        return float(np.linalg.norm(self.difference()))

    @cached_property
    def operator(self) -> float:
        return float(np.abs(np.linalg.eigvalsh(self.difference())).max())

    def level_below(self, which: int, dim: int) -> float:
        """First eigenvalue after the cut in the common space: lifted kernels gain eigenvalues of 0."""
        spectrum = self.spectra[which]
        below = float(spectrum[dim]) if dim < len(spectrum) else -np.inf
        gains_zeros = len(self.kernels[0]) > len(spectrum) + 1
        return max(below, 0.0) if gains_zeros else below

    @cached_property
    def scale_matched(self) -> tuple[float, float]:
        """The smallest |K1 - a K2 - b I|_F over a >= 0 and b on functions of mean 0, and that a."""
        constant = np.outer(*self.constants)
        one, two = (k - constant for k in self.kernels)
        identity = np.eye(len(one)) - constant
        design = np.stack([two.ravel(), identity.ravel()], axis=1)
        (a, _), *_ = np.linalg.lstsq(design, one.ravel(), rcond=None)
        a = max(float(a), 0.0)
        rest = one - a * two
        return float(np.linalg.norm(rest - np.trace(rest) / np.trace(identity) * identity)), a


def kernel_mismatch(first: Modality, second: Modality) -> KernelMismatch:
    """Lift the kernels of two modalities of the same scenes to one space.

    Raises
    ------
    InputError
        Different scenes, or scenes that only one of the two ever sees.
    """
    first, second = first.supported(), second.supported()
    _check_scenes(first, second)
    overlap = first.channel @ second.channel.T
    outside, directions = np.linalg.eigh(np.eye(overlap.shape[1]) - overlap.T @ overlap)
    new = outside > OVERLAP_TOLERANCE
    lifts = (
        np.vstack([np.eye(len(overlap)), np.zeros((new.sum(), len(overlap)))]),
        np.vstack([overlap, np.sqrt(outside[new])[:, None] * directions[:, new].T]),
    )
    kernels = [
        lift @ positive_kernel(m.joint)[0] @ lift.T for lift, m in zip(lifts, (first, second), strict=True)
    ]
    return KernelMismatch(
        first, second, lifts, (kernels[0], kernels[1]), (first.spectrum(), second.spectrum())
    )


def _check_scenes(first: Modality, second: Modality) -> None:
    if first.coupling.shape[1] != second.coupling.shape[1]:
        raise InputError(
            f"one modality observes {first.coupling.shape[1]} scenes, the other {second.coupling.shape[1]}."
        )
    alone = (first.scene_marginal > 0) != (second.scene_marginal > 0)
    if alone.any():
        raise InputError(
            f"scene {alone.argmax()} has positive probability in one modality only.",
            hint="The theorem compares encoders on scenes that both modalities see.",
        )


@dataclass(frozen=True)
class Bound:
    """An upper bound on a misalignment.

    Attributes
    ----------
    value : float, the bound; inf when there is no gap
    mismatch : float, the norm of the kernels' difference that entered
    gap : float, the gap that divided it
    marginal_term : float, what unequal scene laws add
    vacuous : bool, whether every pair of whitened embeddings satisfies the bound
    """

    value: float
    mismatch: float
    gap: float
    marginal_term: float
    vacuous: bool


def misalignment_bound(
    mismatch: KernelMismatch,
    dim: int,
    *,
    norm: str = "fro",
    gap: str = "one",
    of: str = "rotation",
    match_scale: bool = False,
) -> Bound:
    """Bound the misalignment of two whitened optima of `dim` dimensions.

    Parameters
    ----------
    mismatch : KernelMismatch of the two modalities
    dim : int
    norm : {"fro", "op"}
        Bounds `Misalignment.frobenius` or `.operator`.
    gap : {"one", "both"}
        "one": the larger of the two kernels' own gaps d; 2 |E|_F / d or 2 sqrt(2) |E|_op / d.
        "both": the mixed gaps m1 = l_d(1) - l_d+1(2), m2 = l_d(2) - l_d+1(1);
        sqrt(2) |E|_F / sqrt(m1+^2 + m2+^2) or sqrt(2) |E|_op / max(m1, m2). Sharp: some worlds attain it.
    of : {"rotation", "angles"}
        "angles" bounds the sines of the canonical angles, smaller by sqrt(2).
    match_scale : bool
        Replace |K1 - K2|_F by min over a > 0, b of |K1 - a K2 - b I|_F: a K2 + b I has the same optima.
        For norm="fro", gap="one" and equal scene laws.

    Notes
    -----
    Unequal scene laws: the error is measured under the law of `first`; the constants are taken out of the
    kernels down to the smallest eigenvalue below a cut, and the marginal term is added.
    """
    if norm not in ("fro", "op") or gap not in ("one", "both") or of not in ("rotation", "angles"):
        raise UsageError("norm is fro or op, gap is one or both, of is rotation or angles.")
    if not 1 <= dim <= min(map(len, mismatch.spectra)):
        raise UsageError(f"dim is from 1 to {min(map(len, mismatch.spectra))} here, not {dim}.")
    if not mismatch.equal_marginals and (match_scale or of == "angles"):
        raise UsageError("match_scale and angles need equal scene laws.")
    if match_scale and (norm, gap) != ("fro", "one"):
        raise UsageError("match_scale belongs to norm='fro' and gap='one'.")
    top = [float(s[dim - 1]) for s in mismatch.spectra]
    below = [mismatch.level_below(which, dim) for which in (0, 1)]
    marginal_term, limit = 0.0, np.sqrt(dim if norm == "fro" else 1)
    limit *= np.sqrt(2) if of == "rotation" else 1
    if mismatch.equal_marginals:
        size = mismatch.frobenius if norm == "fro" else mismatch.operator
    else:
        finite = [b for b in below if np.isfinite(b)]
        level = min(finite, default=-1.0)
        below = [max(b, level) for b in below]
        size = float(np.linalg.norm(mismatch.difference(1 - level), 2 if norm == "op" else "fro"))
        marginal_term, limit = _marginal_term(mismatch, dim)
    own = [t - b for t, b in zip(top, below, strict=True)]
    mixed = [top[0] - below[1], top[1] - below[0]]
    if gap == "both":
        used = max(mixed) if norm == "op" else float(np.hypot(*np.maximum(mixed, 0)))
        constant = 1.0
    else:
        # A negative gap means that the optimum does not lead in the common space (nuisance zeros above it).
        if match_scale:
            size, scale = mismatch.scale_matched
            own[1] = scale * own[1] if scale else 0.0
        used = max(own) if min(own) >= 0 else 0.0
        constant = np.sqrt(2) if norm == "fro" else 2.0
    constant *= np.sqrt(2) if of == "rotation" else 1
    value = (constant * size / used if used > TIE_RTOL else np.inf) + marginal_term
    return Bound(value, size, max(used, 0.0), marginal_term, bool(value >= limit))


def _marginal_term(mismatch: KernelMismatch, dim: int) -> tuple[float, float]:
    """sqrt(sum over s of (sqrt p1 - sqrt p2)^2 E[|f2|^2 | s]), and the largest error two optima can have."""
    second = mismatch.second
    _, vectors, marginal, _ = eigenfunctions(second.joint)
    energy = (vectors[:, :dim] ** 2).sum(axis=1) / marginal
    conditional = energy @ second.coupling / np.where(second.scene_marginal > 0, second.scene_marginal, 1)
    one, two = mismatch.first.scene_marginal, second.scene_marginal
    term = ((np.sqrt(one) - np.sqrt(two)) ** 2) @ conditional
    return float(np.sqrt(term)), float(np.sqrt(dim + one @ conditional))


def scaled_misalignment_bound(mismatch: KernelMismatch, dim: int) -> Bound:
    """Bound the misalignment of eigenvalue-scaled optima (`spectral_jepa(..., penalty=1)`), Frobenius norm.

    With gaps: k |E|_F / sqrt(2 (sqrt(2) - 1) max l_d), k = max(1, l_d(1)/m1, l_d(2)/m2) (Tu et al. 2016,
    lemma 5.4). Without: sqrt(|E|_*) when both kernels are positive semidefinite of rank at most `dim`
    (Powers and Stormer 1970). The smaller of the two that apply.

    Raises
    ------
    UsageError
        Unequal scene laws.
    """
    if not mismatch.equal_marginals:
        raise UsageError("the bound for scaled embeddings needs equal scene laws.")
    top = [float(s[dim - 1]) for s in mismatch.spectra]
    below = [mismatch.level_below(which, dim) for which in (0, 1)]
    mixed = min(top[0] - below[1], top[1] - below[0])
    value = np.inf
    if mixed > TIE_RTOL and min(top) > 0:
        stretch = max(1.0, top[0] / (top[0] - below[1]), top[1] / (top[1] - below[0]))
        value = stretch * mismatch.frobenius / np.sqrt(2 * (np.sqrt(2) - 1) * max(top))
    whole = all(s[-1] > -1e-12 and (s > 1e-12).sum() <= dim for s in mismatch.spectra)
    if whole:
        value = min(value, np.sqrt(np.abs(np.linalg.eigvalsh(mismatch.difference())).sum()))
    limit = np.sqrt(sum(np.maximum(s[:dim], 0).sum() for s in mismatch.spectra))
    return Bound(float(value), mismatch.frobenius, float(max(mixed, 0.0)), 0.0, bool(value >= limit))
