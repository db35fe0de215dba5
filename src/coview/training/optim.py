"""The optimiser and its schedule, a pure function of the step."""

import math

import torch
from torch import nn

from coview.config import RunConfig

FINAL_SHARE = 0.01  # the cosine ends at this share of the learning rate


def learning_rate(config: RunConfig, step: int) -> float:
    """Linear warm-up, then a cosine down to 1 % at the last step."""
    warm = min(1.0, (step + 1) / max(config.warmup, 1))
    progress = step / max(config.steps - 1, 1)
    cosine = FINAL_SHARE + (1 - FINAL_SHARE) * (1 + math.cos(math.pi * progress)) / 2
    return config.learning_rate * warm * cosine


def make_optimizer(model: nn.Module, config: RunConfig) -> torch.optim.AdamW:
    """AdamW, fused; weight decay on matrices only, not on biases and norms."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=(0.9, 0.98), fused=True)


def set_learning_rate(optimizer: torch.optim.Optimizer, value: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = value
