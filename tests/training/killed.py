"""Runs of ``coview train`` that are killed at chosen places and resumed; run as a script by test_loop.

One process imports PyTorch and forks a child for each run, so that every run starts fresh and none pays for
the import. `python killed.py FOLDER PRECISION` leaves the runs ``unbroken`` and ``killed`` in FOLDER.
"""

import os
import signal
import sys
from pathlib import Path

import torch
import torch._dynamo  # the optimiser imports it at its first step; here once, and not in every child

from coview.cli import main
from coview.training import checkpoint, text_task

OPTIONS = {
    "size": "xs",
    "steps": 9,
    "batch": 16,
    "views-per-scene": 2,
    "output": 12,
    "slices": 16,
    "vocabulary": 300,
    "max-length": 16,
    "log-every": 1,
    "checkpoint-every": 2,
}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def at_step(fatal: int):
    """Die in the middle of a step."""
    honest = text_task.TextTask.step

    def step(self, number):
        outcome = honest(self, number)
        if number == fatal:
            die()
        return outcome

    text_task.TextTask.step = step


def at_checkpoint(fatal: int):
    """Die with half of a checkpoint written."""
    honest, count = checkpoint.save_file, 0

    def save_file(tensors, path, metadata):
        nonlocal count
        honest(tensors, path, metadata)
        count += 1
        if count == fatal:
            os.truncate(path, Path(path).stat().st_size // 2)
            die()

    checkpoint.save_file = save_file


def run(*arguments: str, before=lambda: None) -> int:
    """The exit status of one run in a child of its own; minus the signal that killed it."""
    child = os.fork()
    if child == 0:
        before()
        try:
            options = [f"--{name}={value}" for name, value in OPTIONS.items()]
            main(["train", "tabletop:scenes=100", "--quiet", *options, *arguments])
        except SystemExit as stop:
            os._exit(int(stop.code or 0))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    torch.set_num_threads(1)
    text_task.WHITENING_SCENES = 64
    folder, precision = sys.argv[1:]
    unbroken = ["--precision", precision, "--out", f"{folder}/unbroken"]
    killed = ["--precision", precision, "--out", f"{folder}/killed"]
    assert run(*unbroken) == 0
    assert run(*killed, before=lambda: at_step(1)) == -signal.SIGKILL  # before there is any checkpoint
    assert run(*killed, "--resume", before=lambda: at_step(5)) == -signal.SIGKILL
    assert run(*killed, "--resume", before=lambda: at_checkpoint(1)) == -signal.SIGKILL
    assert run(*killed, "--resume", before=lambda: at_step(8)) == -signal.SIGKILL
    assert run(*killed, "--resume") == 0
