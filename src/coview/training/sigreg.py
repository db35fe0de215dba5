"""SIGReg: how far embeddings are from an isotropic Gaussian, seen through random directions.

Along a direction a the projections p = a . x of N embeddings have the empirical characteristic function
phi_hat(t) = mean exp(i t p); a standard Gaussian has phi(t) = exp(-t^2 / 2). The Epps-Pulley statistic

    T(a) = N * integral |phi_hat(t) - phi(t)|^2 phi(t) dt

is averaged over M directions (Balestriero & LeCun, LeJEPA, 2025). The integral is the trapezoid rule on
[0, t_max], doubled because the integrand is even. Two numbers to read it by, at 17 knots and t_max = 3:
a Gaussian sample of any size scores 1.0525 on average (`gaussian_floor`), and N embeddings that have all
collapsed to zero score 0.402 N.

Knots are equally spaced, t_k = k h, so with z = exp(i h p) both the statistic and its gradient are
polynomials in z: phi_hat(t_k) = mean z^k, and dT/d(h p) = Re sum_k c_k z^k (Horner's rule). Each block of
slices is therefore visited once, while it is in cache, and leaves its gradient where its projections stood.
Nothing of size N x M x knots ever exists.
"""

from dataclasses import dataclass

import numpy as np
import torch

from coview.errors import UsageError
from coview.training.distributed import Group, rows_of_all_ranks

KNOTS, T_MAX = 17, 3.0

# Projections a block holds. On a CPU the block and its two complex companions (20 bytes an element) should
# stay in the second-level cache: 32 k to 64 k elements were fastest on AVX-512 cores with 2 MB of it, 16 k
# and 256 k up to a quarter slower. An accelerator wants few, large launches (its value is not tuned).
CPU_BLOCK, ACCELERATOR_BLOCK = 1 << 16, 1 << 23

# Any fixed number: it keeps this stream apart from others counted by (seed, step), such as the batches.
DIRECTIONS_STREAM = 5162


def directions(
    width: int,
    slices: int,
    seed: int,
    step: int,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> torch.Tensor:
    """Random unit directions, a pure function of (seed, step).

    They are always drawn on the CPU, so every rank and every device gets the same ones without a message.
    NumPy's seed sequence mixes seed and step over 128 bits (a `torch.Generator` on the CPU would use only
    the low 32 bits of a mixed seed).

    Returns
    -------
    Tensor of shape (width, slices), each column of norm 1
    """
    if width < 1 or slices < 1:
        raise UsageError(f"directions need a width and slices of at least 1, not {width} and {slices}.")
    generator = np.random.default_rng([DIRECTIONS_STREAM, seed, step])
    columns = torch.from_numpy(generator.standard_normal((width, slices), dtype=np.float32)).to(dtype)
    return (columns / columns.norm(dim=0)).to(device)


def gaussian_floor(knots: int = KNOTS, t_max: float = T_MAX) -> float:
    """What a standard Gaussian sample scores on average, whatever its size: sum_k w_k (1 - phi(t_k)^2)."""
    quadrature = _Quadrature.trapezoid(knots, t_max)
    return float((quadrature.weights * (1 - quadrature.target**2)).sum())


def effective_weight(weight: float, rows: int, reference_rows: int) -> float:
    """The weight that gives `rows` embeddings a view the pull that `weight` gives to `reference_rows`.

    Off target, T is proportional to the number of rows while the invariance term is a mean: without this
    the balance of the two would change with batch, accumulation and number of devices. (At the target T
    stands at its floor for any N.) The number of views has no influence, because T is averaged over views.
    """
    if rows < 1 or reference_rows < 1:
        raise UsageError(f"rows and reference rows must be at least 1, not {rows} and {reference_rows}.")
    return weight * reference_rows / rows


def sigreg(
    embeddings: torch.Tensor,
    directions: torch.Tensor,
    *,
    knots: int = KNOTS,
    t_max: float = T_MAX,
    group: Group = None,
) -> torch.Tensor:
    """The Epps-Pulley statistic of embeddings, averaged over directions and views.

    Parameters
    ----------
    embeddings : Tensor of shape (N, D), or (V, N, D) for the mean over V views of each view's statistic
        Half precisions are computed in float32; autocast is left.
    directions : Tensor of shape (D, M), unit columns, the same on every rank; gets no gradient
    knots : int, at least 2
    t_max : float, upper end of the integral
    group : process group, optional
        Computes the statistic of all ranks' rows together; ranks may hold different numbers of rows.
        The value is the same on every rank; the gradient is exact after DDP's mean over ranks, see
        `coview.training.distributed.sum_over_ranks`.

    Returns
    -------
    Scalar tensor, float32 (float64 for float64 embeddings). It can be differentiated once.
    """
    _check(embeddings, directions)
    quadrature = _Quadrature.trapezoid(knots, t_max)
    precision = torch.float64 if embeddings.dtype == torch.float64 else torch.float32
    with torch.autocast(embeddings.device.type, enabled=False):
        x = embeddings.to(precision).reshape(-1, *embeddings.shape[-2:])
        a = directions.detach().to(precision)
        wants_gradient = torch.is_grad_enabled() and embeddings.requires_grad
        return _EppsPulley.apply(x, a, quadrature, group, wants_gradient)


def _check(embeddings: torch.Tensor, directions: torch.Tensor) -> None:
    shape, columns = tuple(embeddings.shape), tuple(directions.shape)
    if len(shape) not in (2, 3) or 0 in (shape[0], shape[-1]):
        raise UsageError(f"embeddings must have shape (N, D) or (V, N, D) and not be empty, not {shape}.")
    if len(columns) != 2 or columns[0] != shape[-1] or columns[1] == 0:
        raise UsageError(
            f"directions for embeddings of width {shape[-1]} need shape ({shape[-1]}, M), not {columns}.",
            hint="Draw them with directions(width, slices, seed, step).",
        )
    if not embeddings.is_floating_point():
        raise UsageError(f"embeddings must be floating point, not {embeddings.dtype}.")


@dataclass(frozen=True)
class _Quadrature:
    """Knots t_k = k * spacing for k = 1, 2, ...; the knot at 0 always contributes 0 and is left out."""

    spacing: float
    target: np.ndarray  # phi(t_k)
    weights: np.ndarray  # trapezoid weights times phi(t_k), doubled

    @staticmethod
    def trapezoid(knots: int, t_max: float) -> "_Quadrature":
        if knots < 2 or not 0 < t_max < float("inf"):
            raise UsageError(f"SIGReg needs at least 2 knots and 0 < t_max, not {knots} and {t_max}.")
        spacing = t_max / (knots - 1)
        target = np.exp(-((spacing * np.arange(1, knots)) ** 2) / 2)
        lengths = np.full(knots - 1, 2 * spacing)
        lengths[-1] = spacing
        return _Quadrature(spacing, target, lengths * target)


class _EppsPulley(torch.autograd.Function):
    """Value and gradient in one visit; backward only scales what forward has found."""

    @staticmethod
    def forward(ctx, x, a, quadrature, group, wants_gradient):
        views = len(x)
        rows = rows_of_all_ranks(x.shape[1], group, x.device)
        world = 1 if group is None else torch.distributed.get_world_size(group)
        if rows == 0:
            raise UsageError("SIGReg needs at least one embedding.")
        target = torch.as_tensor(quadrature.target, dtype=x.dtype, device=x.device)
        weights = torch.as_tensor(quadrature.weights, dtype=x.dtype, device=x.device)
        powers = torch.arange(1, len(target) + 1, dtype=x.dtype, device=x.device)

        a = quadrature.spacing * a
        share = 1 / (views * a.shape[1])
        total = x.new_zeros(())
        gradient = torch.empty_like(x) if wants_gradient else None
        for view in range(views):
            theta = a.T @ x[view].T  # slice-major: the sums run over contiguous memory
            blocks = theta.split(_slices_a_block(theta))
            known = [None] * len(blocks) if group is None else _sums_of_all_ranks(blocks, len(target), group)
            for block, sums in zip(blocks, known, strict=True):
                unit = _unit(block)
                if sums is None:
                    sums = _power_sums(unit, len(target))
                miss = sums / rows - target
                total += (share * rows) * ((miss.real.square() + miss.imag.square()) @ weights).sum()
                if gradient is not None:
                    coefficients = (2j * share * world) * (weights * powers) * miss.conj()
                    block.copy_(_polynomial(unit, coefficients).real)
            if gradient is not None:
                torch.matmul(theta.T, a.T, out=gradient[view])
        if gradient is not None:
            ctx.save_for_backward(gradient)
        return total

    @staticmethod
    def backward(ctx, *grad_outputs):
        if torch.is_grad_enabled():  # create_graph=True; a constant would silently drop out of a penalty
            raise UsageError(
                "SIGReg can be differentiated once only.",
                hint="Leave it out of losses that need create_graph.",
            )
        (gradient,) = ctx.saved_tensors
        return grad_outputs[0] * gradient, None, None, None, None


def _slices_a_block(theta: torch.Tensor) -> int:
    block = CPU_BLOCK if theta.device.type == "cpu" else ACCELERATOR_BLOCK
    return max(1, block // max(1, theta.shape[1]))


def _unit(theta: torch.Tensor) -> torch.Tensor:
    return torch.complex(theta.cos(), theta.sin())


def _power_sums(unit: torch.Tensor, degree: int) -> torch.Tensor:
    """sum_n z_n^k for k = 1 .. degree: (slices, N) complex -> (slices, degree)."""
    sums = unit.new_empty(unit.shape[0], degree)
    power = unit.clone()
    torch.sum(power, dim=1, out=sums[:, 0])
    for k in range(1, degree):
        torch.sum(power.mul_(unit), dim=1, out=sums[:, k])
    return sums


def _sums_of_all_ranks(blocks, degree: int, group) -> list[torch.Tensor]:
    """The power sums of every block over all ranks' rows, in one message of M x knots complex numbers."""
    sums = torch.cat([_power_sums(_unit(block), degree) for block in blocks])
    torch.distributed.all_reduce(torch.view_as_real(sums), group=group)
    return list(sums.split([len(block) for block in blocks]))


def _polynomial(unit: torch.Tensor, coefficients: torch.Tensor) -> torch.Tensor:
    """sum_k c_k z^k for k = 1 .. K by Horner's rule: (slices, N) and (slices, K) complex -> (slices, N)."""
    result = unit * coefficients[:, -1:]
    for k in range(coefficients.shape[1] - 2, -1, -1):
        result.add_(coefficients[:, k : k + 1]).mul_(unit)
    return result
