"""From a source of scenes to a finished run folder."""

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch

from coview.config import RunConfig, TrainConfig
from coview.data.scenes import Source
from coview.data.tokens import TokenStore, build_store, load_tokenizer
from coview.encoders.encoder import pick_device
from coview.encoders.image import save_image_encoder
from coview.encoders.trained import save_text_encoder
from coview.errors import ResourceError, UsageError
from coview.runs import manifest, read_json, write_json
from coview.training.image_task import ImageStore, ImageTask
from coview.training.loop import Probe, Report, no_probe, silent, train
from coview.training.memory import estimate_memory, peak_memory
from coview.training.task import Task, precision_of
from coview.training.text_task import TextTask

ELSEWHERE = "Choose another --out."
Config = TypeVar("Config", bound=RunConfig)


@dataclass(frozen=True)
class Plan:
    """What a run would read and need; memory in bytes, of the whole process at its peak on a CPU."""

    scenes: int
    texts: int
    tokens: int
    truncated_share: float
    parameters: int
    tokens_per_step: int
    tokens_to_read: int
    precision: str
    memory: int


def token_cache() -> Path:
    """Where token stores are kept between runs: ``COVIEW_CACHE``, by default ``~/.cache/coview``."""
    return Path(os.environ.get("COVIEW_CACHE", Path.home() / ".cache" / "coview")) / "tokens"


def open_store(
    source: Source, config: TrainConfig, tokenizer: str | None, cache: Path, progress
) -> TokenStore:
    """The token store of the source's training split, built if the cache has none."""
    return build_store(
        source,
        cache,
        tokenizer=load_tokenizer(tokenizer) if tokenizer else None,
        vocabulary=config.vocabulary,
        max_length=config.max_length,
        progress=progress,
    )


def plan_text(config: TrainConfig, store: TokenStore, device: str = "cpu") -> Plan:
    """What training on `store` takes; errors as `train_text`."""
    return plan_of(TextTask(config, store, torch.device(pick_device(device))))


def plan_of(task: TextTask) -> Plan:
    """What a task takes, from its shapes alone."""
    config, meta = task.config, task.store.meta
    per_step = round(meta["tokens"] / meta["texts"] * config.views_per_scene * config.batch)
    parameters = sum(parameter.numel() for parameter in task.model.parameters())
    precision = precision_of(config, task.device)
    return Plan(
        scenes=len(task.scenes),
        texts=meta["texts"],
        tokens=meta["tokens"],
        truncated_share=meta["truncated_share"],
        parameters=parameters,
        tokens_per_step=per_step,
        tokens_to_read=per_step * config.steps,
        precision=precision,
        memory=estimate_memory(
            task.model.config,
            parameters=parameters,
            tokens=per_step,
            precision=precision,
            causal=task.causal,
        ),
    )


def train_text(
    config: TrainConfig,
    store: TokenStore,
    out: Path,
    *,
    device: str,
    resume: str,
    report: Report = silent,
    probe: Probe = no_probe,
) -> None:
    """Train a text encoder into `out`, or resume it there; the other options as in `loop.train`.

    Raises
    ------
    InputError, UsageError
        No scene has enough texts; the folder holds another run.
    Interrupted
        Stopped by a signal; the checkpoint is written.
    """
    task = TextTask(config, store, torch.device(pick_device(device)))
    plan = plan_of(task)
    seconds = run_task(task, config, out, resume, report, probe)
    save_text_encoder(out, task.model, store.tokenizer, config.as_json())
    named = ("source", "scenes", "texts", "tokens", "hash", "truncated_share")
    data = {name: store.meta[name] for name in named}
    sign(out, config, data, seconds, precision=plan.precision, estimated_peak_memory=plan.memory)


def train_image(
    config: TrainConfig,
    store: ImageStore,
    out: Path,
    *,
    device: str,
    resume: str,
    report: Report = silent,
    probe: Probe = no_probe,
) -> None:
    """Train an image encoder into the run folder `out`, or resume it there; errors as `train_text`."""
    task = ImageTask(config, store, torch.device(pick_device(device)))
    seconds = run_task(task, config, out, resume, report, probe)
    save_image_encoder(out, task.model, config.as_json())
    scenes, images = store.pixels.shape[:2]
    sign(out, config, {"scenes": scenes, "images": scenes * images, "hash": store.hash}, seconds)


def run_task(task: Task, config: RunConfig, out: Path, resume: str, report: Report, probe: Probe) -> float:
    """Run the loop in its folder; seconds it took."""
    check_unchanged(out, config)
    started = time.perf_counter()
    write_json(out / "config.json", config.as_json())
    try:
        train(task, config, out, resume=resume, report=report, probe=probe)
    except ResourceError as error:
        hint = f"Free some space, then resume with: {resume}"
        raise ResourceError(error.message, where=error.where, hint=hint) from error
    return time.perf_counter() - started


def sign(out: Path, config: RunConfig, data: dict, seconds: float, **more) -> None:
    """The manifest is written last: a run that has one is finished."""
    facts = {"data": data, "config_hash": config.hash, "seconds": round(seconds, 1), **more}
    write_json(out / "manifest.json", manifest(kind="train", **facts, peak_memory=peak_memory()))


def check_folder(out: Path, config: RunConfig, *, resume: bool) -> None:
    """A run folder is new and can be written, or is resumed on purpose with the options it was started with.

    Raises
    ------
    UsageError
    """
    there = next(path for path in (out, *out.absolute().parents) if path.exists())
    if not there.is_dir():
        raise UsageError("it is a file, and the run needs a folder.", where=str(there), hint=ELSEWHERE)
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError("the folder cannot be written.", where=str(there), hint=ELSEWHERE)
    used = out.is_dir() and any(out.iterdir())
    if used and not resume:
        raise UsageError(
            "the folder is not empty.", where=str(out), hint=f"Add --resume to go on with it. {ELSEWHERE}"
        )
    if resume and not (out / "config.json").is_file():
        hint = "Leave --resume out to start one."
        raise UsageError("there is no run to resume here.", where=str(out), hint=hint)
    check_unchanged(out, config)


def check_unchanged(out: Path, config: RunConfig) -> None:
    """Raise UsageError, naming the options, if the run in the folder was started with others."""
    if (out / "config.json").is_file() and (changes := config.changes(resumed_config(out, type(config)))):
        raise UsageError(
            f"the run in this folder has other options ({'; '.join(changes)}).",
            where=str(out),
            hint=f"Give the options it was started with. {ELSEWHERE}",
        )


def resumed_config(out: Path, kind: type[Config]) -> Config:
    """The configuration a run was started with; UsageError if it is of another kind."""
    document = read_json(out / "config.json")
    for shape in ("encoder", "decoder"):
        document.pop(shape, None)
    return kind.from_json(document, where=str(out / "config.json"))


def is_finished(out: Path, config: RunConfig) -> bool:
    """Whether the folder holds the finished run of this very configuration."""
    return (out / "manifest.json").is_file() and not config.changes(resumed_config(out, type(config)))


def shell_command() -> str:
    """The command that is running, as typed, without an earlier ``--resume``."""
    import shlex

    return shlex.join(["coview", *(word for word in sys.argv[1:] if word != "--resume")])
