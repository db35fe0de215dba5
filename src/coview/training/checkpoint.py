"""Checkpoints: weights, optimiser state and step in one safetensors file, written atomically.

The step is the loop's only state, so nothing else needs saving. A checkpoint is only continued with the
configuration and the data it was made with.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from coview.errors import InputError, UsageError
from coview.runs import atomic_path

NAME = "checkpoint.safetensors"
START_OVER = "Delete it to start the run over."


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint says of itself: steps done, and the hashes of configuration and data."""

    step: int
    config: str
    data: str


def save_checkpoint(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, checkpoint: Checkpoint
) -> None:
    """Write the folder's one checkpoint; the old one stays until the new one is whole."""
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    for index, parameter in enumerate(_parameters(optimizer)):
        for name, value in optimizer.state[parameter].items():
            tensors[f"optimizer.{index}.{name}"] = value
    tensors = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    with atomic_path(folder / NAME) as temporary:
        save_file(tensors, temporary, metadata={"checkpoint": json.dumps(vars(checkpoint))})


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """The header of the folder's checkpoint, or None if there is none."""
    source = folder / NAME
    if not source.is_file():
        return None
    with _open(source) as file:
        metadata = file.metadata() or {}
    if "checkpoint" not in metadata:
        raise InputError("it holds tensors, but is no checkpoint.", where=str(source), hint=START_OVER)
    return Checkpoint(**json.loads(metadata["checkpoint"]))


def load_checkpoint(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, expected: Checkpoint
) -> int:
    """Put a checkpoint's weights and optimiser state in place and return the number of steps done.

    Raises
    ------
    UsageError
        The configuration or the data is not the checkpoint's.
    InputError
        The file is not a checkpoint.
    """
    found = read_checkpoint(folder)
    if found is None:
        return 0
    for name in ("config", "data"):
        if getattr(found, name) != getattr(expected, name):
            what = {"config": "configuration", "data": "training data"}[name]
            raise UsageError(
                f"the {what} is not the one this run was started with.",
                where=str(folder),
                hint="Resume with the options and source it was started with, or choose another --out.",
            )
    with _open(folder / NAME) as file:
        weights, parameters = {}, _parameters(optimizer)
        for full in file.keys():  # noqa: SIM118  it is no mapping
            part, name = full.split(".", 1)
            if part == "model":
                weights[name] = file.get_tensor(full)
            else:
                index, name = name.split(".")
                parameter = parameters[int(index)]
                optimizer.state[parameter][name] = file.get_tensor(full).to(parameter.device)
    model.load_state_dict(weights)
    return found.step


def _parameters(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _open(source: Path):
    try:
        return safe_open(source, framework="pt")
    except SafetensorError as error:
        raise InputError(
            f"not a whole safetensors file ({error}), and nothing else is read, pickles least of all.",
            where=str(source),
            hint=START_OVER,
        ) from error
