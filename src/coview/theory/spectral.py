"""Closed-form solutions of second-order JEPA and next-token prediction on a finite world.

Hard objective:  min E|f(x) - f(x+)|^2  subject to  E f = 0,  E f f' = I.
Soft objective:  min E|f(x) - f(x+)|^2 + penalty * |Cov f - I|_F^2.
Both are solved by the leading eigenvectors of the positive-pair kernel K on functions of mean 0 (Ky Fan's
maximum principle; Eckart-Young on the cone of positive semidefinite matrices), up to a rotation.
"""

from dataclasses import dataclass, field

import numpy as np

from coview.errors import UsageError

TIE_RTOL = 1e-10


def positive_kernel(joint: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """K = D^(-1/2) J D^(-1/2) on the observations of positive probability.

    Returns
    -------
    kernel : ndarray of shape (m, m), m the number of observations of positive probability
    marginal : ndarray of shape (m,)
    seen : bool ndarray of shape (n,), which observations these are
    """
    marginal = joint.sum(axis=1)
    seen = marginal > 0
    root = np.sqrt(marginal[seen])
    return joint[np.ix_(seen, seen)] / np.outer(root, root), marginal[seen], seen


def deflate(kernel: np.ndarray, marginal: np.ndarray, amount: float = 3.0) -> np.ndarray:
    """Take the constant function out of `kernel` by moving its eigenvalue from 1 to 1 - `amount`.

    The default puts it at -2, below every other eigenvalue. Subtracting it once would put it at 0, above
    the negative eigenvalues of an indefinite kernel, and a solution could then pick the constant.
    """
    root = np.sqrt(marginal)
    return kernel - amount * np.outer(root, root)


def eigenfunctions(joint: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Eigenvalues (m-1,), descending, and half-density eigenvectors (m, m-1) of mean 0; marginal; seen."""
    kernel, marginal, seen = positive_kernel(joint)
    values, vectors = np.linalg.eigh(deflate(kernel, marginal))
    return values[:0:-1], vectors[:, :0:-1], marginal, seen


def spectrum(joint: np.ndarray) -> np.ndarray:
    """Eigenvalues of the positive-pair kernel on functions of mean 0, descending, shape (m-1,)."""
    kernel, marginal, _ = positive_kernel(joint)
    return np.linalg.eigvalsh(deflate(kernel, marginal))[:0:-1]


@dataclass(frozen=True)
class Cut:
    """What the leading `dim` directions of a spectrum identify.

    Attributes
    ----------
    dim : dimensions of the solution
    gap : eigenvalue `dim` less the next one; inf when `dim` takes every direction
    identified_dim : leading directions that every solution shares (`dim` when there is a gap)
    next_dim : the next larger `dim` that has a gap
    all_one : whether every eigenvalue is 1 (a positive is always the same observation)
    """

    dim: int
    gap: float
    identified_dim: int
    next_dim: int
    all_one: bool

    @property
    def is_identifiable(self) -> bool:
        return self.gap > 0

    def __str__(self) -> str:
        if self.is_identifiable:
            return f"identified up to a rotation at d={self.dim}, gap {self.gap:.4g}"
        if self.all_one:
            return (
                "no gap; nothing is guaranteed: a positive is always the same observation, so every whitened "
                "encoder is equally good. The theorem needs positives that link different observations."
            )
        rest = (
            f"only the first {self.identified_dim} of {self.dim} dimensions are identified"
            if self.identified_dim
            else "nothing is guaranteed"
        )
        return f"no gap at d={self.dim}; {rest}. The next dimension with a gap is d={self.next_dim}."


def cut_spectrum(eigenvalues: np.ndarray, dim: int, rtol: float = TIE_RTOL) -> Cut:
    """Cut a descending spectrum after `dim` eigenvalues; ties are eigenvalues within `rtol` of the largest.

    Raises
    ------
    UsageError
        `dim` is not between 1 and the number of eigenvalues: whitening is then infeasible.
    """
    count = len(eigenvalues)
    if not 1 <= dim <= count:
        raise UsageError(
            f"{dim} whitened dimensions need {dim + 1} observations of positive probability; "
            f"there are {count + 1}.",
            hint=f"Choose a dimension from 1 to {count}.",
        )
    tolerance = rtol * max(1.0, float(np.abs(eigenvalues).max()))
    tied = np.abs(eigenvalues - eigenvalues[dim - 1]) <= tolerance
    first, last = int(tied.argmax()), int(count - tied[::-1].argmax())
    gap = np.inf if dim == count else float(eigenvalues[dim - 1] - eigenvalues[dim])
    cut_through_tie = last > dim
    return Cut(
        dim=dim,
        gap=0.0 if cut_through_tie else gap,
        identified_dim=first if cut_through_tie else dim,
        next_dim=last,
        all_one=bool(np.all(np.abs(eigenvalues - 1) <= tolerance)),
    )


@dataclass(frozen=True)
class Embedding:
    """A population-optimal encoder of one modality, one of a family that differs by rotations.

    Attributes
    ----------
    values : ndarray of shape (n, d); rows of observations of probability 0 are NaN
    eigenvalues : ndarray of shape (m-1,)
        The whole spectrum the solution was cut from, descending (magnitudes when it was selected by them).
    marginal : ndarray of shape (n,), p(x)
    """

    values: np.ndarray
    eigenvalues: np.ndarray
    marginal: np.ndarray
    rtol: float = field(default=TIE_RTOL, repr=False)

    @property
    def dim(self) -> int:
        return self.values.shape[1]

    @property
    def seen(self) -> np.ndarray:
        """Which observations have positive probability, bool, shape (n,)."""
        return self.marginal > 0

    @property
    def half_density(self) -> np.ndarray:
        """U = diag(p)^(1/2) F on the observations of positive probability, shape (m, d)."""
        return np.sqrt(self.marginal[self.seen])[:, None] * self.values[self.seen]

    @property
    def rank(self) -> int:
        """Dimensions that did not collapse to a constant."""
        return int(np.any(self.half_density != 0, axis=0).sum())

    @property
    def cut(self) -> Cut:
        """What is identified. Collapsed dimensions are: they are 0 in every solution."""
        if self.rank == 0:
            return Cut(dim=0, gap=np.inf, identified_dim=0, next_dim=0, all_one=False)
        return cut_spectrum(self.eigenvalues, self.rank, self.rtol)

    @property
    def eigengap(self) -> float:
        return self.cut.gap

    @property
    def identified_dim(self) -> int:
        return self.cut.identified_dim


def _spread(
    half_density: np.ndarray, marginal: np.ndarray, seen: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Encoder values and marginal over all observations, NaN and 0 where the probability is 0."""
    values = np.full((len(seen), half_density.shape[1]), np.nan)
    values[seen] = half_density / np.sqrt(marginal)[:, None]
    full = np.zeros(len(seen))
    full[seen] = marginal
    return values, full


def spectral_jepa(
    joint: np.ndarray, dim: int, *, penalty: float = np.inf, select: str = "largest"
) -> Embedding:
    """The population optimum of second-order JEPA.

    Parameters
    ----------
    joint : ndarray of shape (n, n), law of (observation, its positive)
    dim : int
    penalty : float
        Weight of |Cov f - I|_F^2. inf gives the whitened solution; a finite weight scales direction i by
        sqrt(max(0, 1 - (1 - lambda_i) / penalty)), so directions with 1 - lambda_i >= penalty collapse.
        A weight of 1 gives sqrt(max(lambda_i, 0)): the spectral contrastive loss (HaoChen et al. 2021)
        with the constant function taken out.
    select : {"largest", "magnitude"}
        "largest" takes the largest eigenvalues. "magnitude" takes the largest absolute values: what a JEPA
        with a free linear predictor selects, min_G E|G f(x) - f(x+)|^2 = d - |U'KU|_F^2.

    Returns
    -------
    Embedding
        When the soft solution has more dimensions than m - 1, the rest are columns of zeros.

    Raises
    ------
    UsageError
        `dim` whitened dimensions do not fit, or `select` is unknown.
    """
    eigenvalues, vectors, marginal, seen = eigenfunctions(np.asarray(joint, dtype=float))
    if select == "magnitude":
        order = np.argsort(-np.abs(eigenvalues), kind="stable")
        eigenvalues, vectors = eigenvalues[order], vectors[:, order]
        if np.isfinite(penalty):
            raise UsageError("a soft penalty selects the largest eigenvalues, not the largest magnitudes.")
    elif select != "largest":
        raise UsageError(f"select is 'largest' or 'magnitude', not {select!r}.")
    if penalty == np.inf:
        cut_spectrum(np.abs(eigenvalues) if select == "magnitude" else eigenvalues, dim)
        chosen = vectors[:, :dim]
    else:
        if penalty <= 0:
            raise UsageError(f"penalty is positive, not {penalty}.")
        chosen = np.zeros((len(marginal), dim))
        kept = min(dim, len(eigenvalues))
        strength = np.maximum(0, 1 - (1 - eigenvalues[:kept]) / penalty)
        chosen[:, :kept] = vectors[:, :kept] * np.sqrt(strength)
    values, full = _spread(chosen, marginal, seen)
    return Embedding(values, np.abs(eigenvalues) if select == "magnitude" else eigenvalues, full)
