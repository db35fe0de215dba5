"""Sums over the ranks of a process group, for means over all rows wherever they lie."""

import torch
import torch.distributed as dist

Group = dist.ProcessGroup | None


def sum_over_ranks(tensor: torch.Tensor, group: Group) -> torch.Tensor:
    """The sum of `tensor` over the ranks of `group`, on every rank; `tensor` itself when `group` is None.

    The gradient is that of the sum of all ranks' losses. A loss that is the same on every rank therefore
    gets a gradient `world` times too large on each, and the mean over ranks that DDP takes makes it exact:
    equal to one process that holds all rows, also when ranks hold different numbers of them. (An in-place
    `all_reduce` inside a loss would instead leave 1 / world of the gradient.)
    """
    return tensor if group is None else _SumOverRanks.apply(tensor, group)


def rows_of_all_ranks(rows: int, group: Group, device: torch.device) -> int:
    """How many rows the ranks hold together; waits for the device, but only when there is a group."""
    if group is None:
        return rows
    count = torch.tensor(rows, dtype=torch.int64, device=device)
    dist.all_reduce(count, group=group)
    return int(count)


class _SumOverRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, group):
        ctx.group = group
        total = tensor.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx, *grad_outputs):
        total = grad_outputs[0].clone()
        dist.all_reduce(total, group=ctx.group)
        return total, None
