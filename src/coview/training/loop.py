"""The training loop. Everything in it is a function of the step, so stopping and resuming changes nothing."""

import json
import os
import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn

from coview.config import RunConfig
from coview.errors import CheckFailed, Interrupted
from coview.runs import atomic_path, writing
from coview.training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from coview.training.objectives import effective_rank, view_shuffle_control
from coview.training.optim import learning_rate, make_optimizer, set_learning_rate
from coview.training.sigreg import gaussian_floor
from coview.training.task import Outcome, Task

Report = Callable[[dict], None]
Probe = Callable[[Task, int], dict]


def silent(line: dict) -> None:
    """Shows nothing."""


def no_probe(task: Task, done: int) -> dict:
    """Measures nothing."""
    return {}


@contextmanager
def reproducible() -> Generator[None]:
    """Within it, PyTorch gives the same result every time, and numbers too small to matter are zero."""
    before = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("error")  # use_deterministic_algorithms loads a compiler
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before)
        torch.set_flush_denormal(False)


@reproducible()
def train(
    task: Task, config: RunConfig, folder: Path, *, resume: str, report: Report, probe: Probe = no_probe
) -> None:
    """Train `task` to its last step, or on from the checkpoint in `folder`.

    Parameters
    ----------
    task : gives the loss of each step and owns the model
    folder : run folder; gets ``checkpoint.safetensors`` and ``metrics.jsonl``
    resume : the command that resumes this run, shown if it is interrupted
    report : called with every line of the metrics
    probe : called with the task and the number of steps done; what it measures is logged

    Raises
    ------
    Interrupted
        SIGINT or SIGTERM arrived; the checkpoint is written.
    CheckFailed
        The loss is not a number; the last good checkpoint is kept.
    """
    optimizer = make_optimizer(task.model, config)
    mark = Checkpoint(step=0, config=config.hash, data=task.data_hash)
    first = load_checkpoint(folder, task.model, optimizer, mark)
    if first == 0:
        task.prepare()
    started, read = time.perf_counter(), 0

    with caught_signals() as stopped, metrics_file(folder / "metrics.jsonl", first) as write:
        if first == 0 and (measured := probe(task, 0)):
            write({"step": -1, **measured})
        task.model.train()
        for step in range(first, config.steps):
            set_learning_rate(optimizer, learning_rate(config, step))
            outcome = task.step(step)
            outcome.loss.total.backward()
            norm = nn.utils.clip_grad_norm_(task.model.parameters(), config.clip)
            if not torch.isfinite(norm):
                raise CheckFailed(
                    f"the loss or its gradient is not a number at step {step}.",
                    where=str(folder),
                    hint="The last checkpoint is kept. Start anew with a lower --learning-rate.",
                )
            if step > first and (stopped or step % config.checkpoint_every == 0):
                # Only now: these weights are known to give a loss and a gradient that are numbers.
                save_checkpoint(folder, task.model, optimizer, Checkpoint(step, mark.config, mark.data))
            if stopped:
                hint = f"Resume with: {resume}"
                raise Interrupted(f"stopped after {step} of {config.steps} steps.", hint=hint)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            read += outcome.read

            done = step + 1
            if step % config.log_every == 0 or done == config.steps:
                seconds = time.perf_counter() - started
                line = {
                    "step": step,
                    **measures(outcome, config),
                    "read": outcome.read,
                    "read_per_s": read / seconds,
                }
                write(line)
                report(line)
            if measured := probe(task, done):
                write({"step": step, **measured})
    task.model.eval()
    task.finish()


def measures(outcome: Outcome, config: RunConfig) -> dict[str, float]:
    """What is logged of one step: the loss and its terms, and what tells a collapse early.

    ``sigreg_over_floor`` is 1 when the batch cannot be told from a Gaussian; ``effective_rank`` counts the
    dimensions in use; ``view_shuffle`` is the distance of views of different scenes over that of the same
    scene, 1 when views say nothing of their scene.
    """
    line = {"loss": float(outcome.loss.total.detach())}
    line |= {name: float(value) for name, value in outcome.loss.terms.items()}
    if "sigreg" in line:
        line["sigreg_over_floor"] = line["sigreg"] / gaussian_floor()
    if outcome.embeddings is not None:
        line["effective_rank"] = float(effective_rank(outcome.embeddings))
        line["view_shuffle"] = float(view_shuffle_control(outcome.embeddings))
    return line


@contextmanager
def caught_signals() -> Generator[list[int]]:
    """A list that gets the number of a SIGINT or SIGTERM when one arrives; a second one is not caught."""
    arrived: list[int] = []

    def note(number: int, frame) -> None:
        arrived.append(number)
        for one, handler in previous.items():
            signal.signal(one, handler)

    try:
        previous = {one: signal.signal(one, note) for one in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread: whoever runs the threads handles signals
        yield arrived
        return
    try:
        yield arrived
    finally:
        for one, handler in previous.items():
            signal.signal(one, handler)


@contextmanager
def metrics_file(path: Path, first: int) -> Generator[Callable[[dict], None]]:
    """Append lines to a JSON Lines file, without what an interrupted run wrote beyond step `first`."""
    kept = []
    if first and path.is_file():
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] < first]
    with atomic_path(path) as temporary:
        temporary.write_text("".join(kept), encoding="utf-8")
    with writing(path), open(path, "a", encoding="utf-8", buffering=1) as stream:
        yield lambda line: print(json.dumps(line), file=stream)
        os.fsync(stream.fileno())
