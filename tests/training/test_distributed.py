"""Two real processes with different and unequal data against one process that holds everything."""

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from coview.training.objectives import lejepa, next_token, vicreg
from coview.training.sigreg import directions, sigreg

SHARES = [slice(0, 7), slice(7, 40)]  # rows of each rank
OBJECTIVES = ["sigreg", "lejepa", "vicreg", "next_token"]


def loss_of(name: str, weights: torch.Tensor, rows: slice, group) -> torch.Tensor:
    """A linear model of fixed inputs under each objective."""
    generator = np.random.default_rng(11)
    inputs = torch.as_tensor(generator.standard_normal((2, 40, 6)) + generator.standard_normal((40, 6)))
    targets = torch.as_tensor(generator.integers(0, 5, size=40))
    z, a = inputs[:, rows] @ weights, directions(5, 64, 0, 3)
    if name == "sigreg":
        return sigreg(z, a, group=group)
    if name == "lejepa":
        return lejepa(z, a, weight=0.3, reference_rows=32, group=group).total
    if name == "vicreg":
        return vicreg(z, penalty=0.7, group=group).total
    return next_token(z[0], torch.eye(5, dtype=z.dtype), targets[rows], group=group).total


def start_weights() -> torch.Tensor:
    return torch.as_tensor(np.random.default_rng(2).standard_normal((6, 5))).requires_grad_()


def run_rank(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=len(SHARES))
    for name in OBJECTIVES:
        weights = start_weights()
        loss = loss_of(name, weights, SHARES[rank], dist.group.WORLD)
        loss.backward()
        dist.all_reduce(weights.grad)  # what DDP does: the mean over ranks
        np.savez(f"{folder}/{name}-{rank}.npz", loss=loss.item(), gradient=weights.grad / len(SHARES))
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    mp.spawn(run_rank, args=(str(folder),), nprocs=len(SHARES))
    return folder


@pytest.mark.parametrize("name", OBJECTIVES)
def test_two_unequal_ranks_equal_one_process(results, name):
    weights = start_weights()
    expected = loss_of(name, weights, slice(0, 40), None)
    expected.backward()
    for rank in range(len(SHARES)):
        found = np.load(results / f"{name}-{rank}.npz")
        tolerance = 1e-12
        assert found["loss"] == pytest.approx(expected.item(), rel=tolerance)
        np.testing.assert_allclose(found["gradient"], weights.grad, rtol=0, atol=10 * tolerance)


def test_the_data_can_tell_a_missing_reduction():
    """Each rank alone has another loss, so the comparison above would fail without the sums over ranks."""
    for name in OBJECTIVES:
        alone = [loss_of(name, start_weights(), rows, None).item() for rows in [*SHARES, slice(0, 40)]]
        assert abs(alone[0] - alone[2]) > 1e-3
        assert abs(alone[1] - alone[2]) > 1e-3
