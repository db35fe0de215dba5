"""What is minimised, as pure functions of embeddings, and the numbers that tell whether it goes well.

Embeddings have shape (V, N, D): V views of N scenes, row n of every view from the same scene. The
arms good and bad differ in the views alone, so both use `lejepa` (or `vicreg`); `next_token` is the third.
With `group`, means are over the rows of all ranks, which may differ in number (see `sum_over_ranks`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from coview.errors import UsageError
from coview.training.distributed import Group, rows_of_all_ranks, sum_over_ranks
from coview.training.sigreg import KNOTS, T_MAX, effective_weight, sigreg
from coview.training.tied_head import tied_cross_entropy


@dataclass(frozen=True)
class Loss:
    """A scalar to minimise and its parts, detached, for the log.

    Attributes
    ----------
    total : scalar tensor with a gradient
    terms : mapping of str to scalar tensor (or float where no embedding is involved)
    """

    total: torch.Tensor
    terms: Mapping[str, torch.Tensor | float] = field(default_factory=dict)


def lejepa(
    z: torch.Tensor,
    directions: torch.Tensor,
    *,
    weight: float,
    reference_rows: int,
    knots: int = KNOTS,
    t_max: float = T_MAX,
    group: Group = None,
) -> Loss:
    """(1 - weight) * invariance + weight * (reference_rows / N) * SIGReg, the LeJEPA loss.

    This is the form of LeJEPA's published code (Balestriero & LeCun, 2025), with SIGReg taken for each view
    and averaged, when N = reference_rows; the factor keeps the balance of the two terms for every other N.

    Parameters
    ----------
    z : Tensor of shape (V, N, D), V >= 2
    directions : Tensor of shape (D, M), see `coview.training.sigreg.directions`
    weight : float in [0, 1]
        Share of the regulariser when a view holds `reference_rows` rows over all ranks.
    reference_rows : int

    Returns
    -------
    Loss with terms invariance, sigreg (to be compared with `gaussian_floor`) and effective_weight
    """
    z = _views(z)
    if not 0 <= weight <= 1:
        raise UsageError(f"the regulariser's weight must lie in [0, 1], not {weight}.")
    rows = rows_of_all_ranks(z.shape[1], group, z.device)
    pull = effective_weight(weight, rows, reference_rows)
    closeness = invariance(z, group=group)
    gaussianity = sigreg(z, directions, knots=knots, t_max=t_max, group=group)
    total = (1 - weight) * closeness + pull * gaussianity
    terms = {"invariance": closeness.detach(), "sigreg": gaussianity.detach(), "effective_weight": pull}
    return Loss(total, terms)


def invariance(z: torch.Tensor, *, group: Group = None) -> torch.Tensor:
    """Mean over views, rows and dimensions of (z - mean over the scene's views)^2: (V, N, D) -> scalar.

    It is (V - 1) / (2 V D) times the mean squared distance of two different views.
    """
    z = _views(z)
    views, rows, width = z.shape
    squares = (z - z.mean(0)).square().sum()
    return sum_over_ranks(squares, group) / (rows_of_all_ranks(rows, group, z.device) * views * width)


def vicreg(z: torch.Tensor, *, penalty: float, group: Group = None) -> Loss:
    """E |f - f+|^2 + penalty * |Cov f - I|^2, the soft second-order objective (VICReg's idea, no hinge).

    Its minimisers are known: the leading eigenfunctions of the views' kernel, scaled; an eigenvalue lambda
    with 1 - lambda >= penalty collapses, and penalty = 1 is the spectral contrastive loss (HaoChen et al.,
    2021). The covariance of a batch misses I by about D^2 / N by chance alone, which would shrink every
    direction and collapse weak ones. |Cov f|^2 is therefore estimated from pairs of different scenes only,
    which is unbiased (up to the batch's mean being that of the batch).

    Parameters
    ----------
    z : Tensor of shape (V, N, D), V >= 2, N >= 2 over all ranks
    penalty : float > 0

    Returns
    -------
    Loss with terms distance (of two views, summed over dimensions) and covariance (without the penalty)
    """
    z = _views(z)
    views, _, width = z.shape
    rows = rows_of_all_ranks(z.shape[1], group, z.device)
    if rows < 2:
        raise UsageError("the covariance needs at least two scenes.")
    distance = 2 * views * width / (views - 1) * invariance(z, group=group)

    centred = z - sum_over_ranks(z.sum((0, 1)), group) / (rows * views)
    scatter = sum_over_ranks(torch.einsum("vnd,vne->de", centred, centred), group)
    within = sum_over_ranks(torch.einsum("vnd,wnd->nvw", centred, centred).square().sum(), group)
    squared_norm = (scatter.square().sum() - within) / (rows * (rows - 1) * views**2)
    covariance = squared_norm - 2 * scatter.trace() / (rows * views) + width
    terms = {"distance": distance.detach(), "covariance": covariance.detach()}
    return Loss(distance + penalty * covariance, terms)


def next_token(
    hidden: torch.Tensor, vocabulary: torch.Tensor, targets: torch.Tensor, *, group: Group = None
) -> Loss:
    """Cross-entropy of the next token in nats, mean over tokens, with the head tied to the word embeddings.

    Parameters
    ----------
    hidden : Tensor of shape (T, W), of the tokens that have a next one
    vocabulary : Tensor of shape (types, W)
    targets : int64 Tensor of shape (T,)

    Returns
    -------
    Loss with term cross_entropy
    """
    if hidden.ndim != 2 or targets.shape != hidden.shape[:1]:
        raise UsageError(
            f"hidden states need shape (T, W) and targets (T,); they were {tuple(hidden.shape)} and "
            f"{tuple(targets.shape)}."
        )
    tokens = sum_over_ranks(torch.tensor(len(targets), dtype=torch.float64, device=hidden.device), group)
    total = sum_over_ranks(tied_cross_entropy(hidden, vocabulary, targets), group) / tokens.item()
    return Loss(total, {"cross_entropy": total.detach()})


@torch.no_grad()
def effective_rank(z: torch.Tensor) -> torch.Tensor:
    """exp of the entropy of the covariance's eigenvalues, normalised to sum 1: (..., D) -> scalar in [1, D].

    D for an isotropic covariance, k when the variance is spread evenly over k directions; 1 when all rows
    are equal. Rows are all leading axes together. (The effective rank of Roy & Vetterli, 2007, of the
    covariance instead of the data matrix.)
    """
    rows = z.reshape(-1, z.shape[-1]).double()
    rows = rows - rows.mean(0)
    variances = torch.linalg.eigvalsh(rows.T @ rows).clamp_min(0)
    shares = variances / variances.sum().clamp_min(torch.finfo(torch.float64).tiny)
    return torch.special.entr(shares).sum().exp()


@torch.no_grad()
def view_shuffle_control(z: torch.Tensor) -> torch.Tensor:
    """Distance of views of different scenes over that of views of one scene: (V, N, D) -> scalar.

    Near 1: the embedding of a view says nothing about its scene's other views. It is the ratio of the
    invariance term with the views shuffled across scenes to the term itself, averaged exactly over all
    shuffles that never meet a scene twice, so it needs no random numbers. 0 when everything has collapsed.
    """
    z = _views(z)
    views, rows, _ = z.shape
    if rows < 2:
        raise UsageError("shuffling views across scenes needs at least two scenes.")
    matched = invariance(z)
    independent = (1 - 1 / views) * z.var(1, correction=0).mean() + invariance(z.mean(1, keepdim=True))
    shuffled = (rows * independent - matched) / (rows - 1)  # leaves out the 1 / N that stay together
    return shuffled / matched.clamp_min(1e-12)


def _views(z: torch.Tensor) -> torch.Tensor:
    """`z` checked, half precisions as float32: sums of squares need the digits."""
    if z.ndim != 3 or z.shape[0] < 2:
        raise UsageError(
            f"embeddings need shape (V, N, D) with at least two views, not {tuple(z.shape)}.",
            hint="Views of one scene lie along the first axis.",
        )
    return z if z.dtype == torch.float64 else z.float()
