"""What one step trains on and what it minimises; the loop knows nothing of either.

A task owns a model and gives, for each step, a loss that is a pure function of (model, seed, step).
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from coview.config import RunConfig, TrainConfig
from coview.errors import InputError, UsageError
from coview.training.objectives import Loss, lejepa, vicreg
from coview.training.sigreg import directions

WHITENING_SCENES = 1024  # scenes whose first embeddings set the scale of the linear map


@dataclass(frozen=True)
class Outcome:
    """One step: its loss and terms, the tokens (or images) read, embeddings (V, N, D) if there are any."""

    loss: Loss
    read: int
    embeddings: Tensor | None = None


class Task(Protocol):
    """A model and the loss it is trained with."""

    data_hash: str

    @property
    def model(self) -> nn.Module:
        """What is trained."""
        ...

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


def check_sizes(config: TrainConfig, *, scenes: int, width: int) -> None:
    """Refuse a batch that would hold a scene twice, and an embedding wider than the encoder.

    Raises
    ------
    InputError, UsageError
    """
    if scenes < 2:
        raise InputError("there is only one scene to train on.", hint="Give at least two, better thousands.")
    if config.batch > scenes:
        raise UsageError(
            f"a batch of {config.batch} scenes is more than the {scenes} there are.",
            where="--batch",
            hint=f"Use --batch {scenes} or less.",
        )
    if config.output > width:
        raise UsageError(
            f"the embedding cannot have more dimensions than the encoder's {width}, not {config.output}.",
            where="--output",
            hint=f"Use --output {width} or less.",
        )


@torch.no_grad()
def whiten(head: nn.Linear, samples: Tensor, shrinkage: float = 1e-3) -> None:
    """Set `head` so that it maps `samples` (S, width) to mean zero and covariance one.

    The leading principal directions are kept; each is scaled by 1 / sqrt(variance + shrinkage * largest).
    """
    rows = samples.double()
    mean = rows.mean(0)
    variances, axes = torch.linalg.eigh(torch.cov(rows.T))
    scale = (variances.clamp_min(0) + shrinkage * variances[-1]).rsqrt()
    projection = (axes * scale)[:, -head.out_features :].T
    head.weight.copy_(projection)
    head.bias.copy_(-projection @ mean)


def precision_of(config: RunConfig, device: torch.device) -> str:
    """fp32 or bf16: what is asked for; ``auto`` is bfloat16 where the hardware multiplies it natively."""
    if config.precision != "auto":
        return config.precision
    if device.type == "cuda":
        native = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        native = device.type == "cpu" and torch.cpu._is_amx_tile_supported()
    return "bf16" if native else "fp32"


def autocast(config: RunConfig, device: torch.device) -> torch.autocast:
    """The precision of the encoder's products; sums and losses are always float32."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision_of(config, device) == "bf16")
