"""What one step trains on and what it minimises; the loop knows nothing of either.

A task owns a model and gives, for each step, a loss that is a pure function of (model, seed, step).
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from coview.config import TrainConfig
from coview.errors import UsageError
from coview.training.objectives import Loss, lejepa, vicreg
from coview.training.sigreg import directions

WHITENING_SCENES = 1024  # scenes whose first embeddings set the scale of the linear map


@dataclass(frozen=True)
class Outcome:
    """One step: its loss and terms, the tokens (or images) read, and embeddings (V, N, D) if there are any."""

    loss: Loss
    read: int
    embeddings: Tensor | None = None


class Task(Protocol):
    """A model and the loss it is trained with."""

    model: nn.Module
    data_hash: str

    def prepare(self) -> None:
        """Set what is estimated from data before the first step."""
        ...

    def step(self, step: int) -> Outcome:
        """The loss of one step."""
        ...

    def finish(self) -> None:
        """Set what is estimated from data after the last step."""
        ...


def jepa_loss(z: Tensor, config: TrainConfig, step: int) -> Loss:
    """The JEPA objective the configuration names, of embeddings (V, N, D)."""
    if config.objective == "vicreg":
        return vicreg(z, penalty=config.penalty)
    drawn = directions(z.shape[-1], config.slices, config.seed, step, device=z.device)
    return lejepa(z, drawn, weight=config.weight, reference_rows=config.reference_rows)


@torch.no_grad()
def whiten(head: nn.Linear, samples: Tensor, shrinkage: float = 1e-3) -> None:
    """Set `head` so that it maps `samples` (S, width) to mean zero and covariance one.

    The leading principal directions are kept; each is scaled by 1 / sqrt(variance + shrinkage * largest).
    UsageError if more are asked for than there are.
    """
    if head.out_features > head.in_features:
        raise UsageError(
            f"the embedding cannot have more dimensions than the encoder's {head.in_features}, "
            f"not {head.out_features}.",
            where="--output",
        )
    rows = samples.double()
    mean = rows.mean(0)
    variances, axes = torch.linalg.eigh(torch.cov(rows.T))
    scale = (variances.clamp_min(0) + shrinkage * variances[-1]).rsqrt()
    projection = (axes * scale)[:, -head.out_features :].T
    head.weight.copy_(projection)
    head.bias.copy_(-projection @ mean)


def autocast(config: TrainConfig, device: torch.device) -> torch.autocast:
    """bfloat16 where asked for, or where the hardware multiplies it natively; float32 elsewhere."""
    if device.type == "cuda":
        native = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        native = device.type == "cpu" and torch.cpu._is_amx_tile_supported()
    enabled = config.precision == "bf16" or (config.precision == "auto" and native)
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=enabled)
