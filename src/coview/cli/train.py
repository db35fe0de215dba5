"""``coview train``: an encoder from texts (or images) grouped by scene."""

import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from coview.cli import emit
from coview.cli.progress import progress_of
from coview.config import TrainConfig

DEFAULTS = TrainConfig()


def train(
    source: str,
    /,
    *,
    config: Annotated[TrainConfig, Parameter(name="*")] = DEFAULTS,
    out: Path | None = None,
    tokenizer: str | None = None,
    device: str = "auto",
    resume: Annotated[bool, Parameter(negative="")] = False,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    quiet: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Train an encoder of texts from texts grouped by scene.

    Only the training split is read. Stop it at any time: a checkpoint is written, and the same command with
    ``--resume`` goes on as if nothing had happened.

    Parameters
    ----------
    source
        Where the scenes are: tabletop:, a .jsonl, .csv or .txt file, a folder, a zip or tar.
    out
        Run folder; by default runs/VIEWS-SIZE-SEED.
    tokenizer
        A tokenizer.json to use; by default one is trained on the texts.
    device
        auto, cpu, cuda, ...
    resume
        Go on with the run in the folder.
    dry_run
        Print the plan (texts, tokens, parameters, memory) and write nothing.
    quiet
        No progress on stderr.
    json
        Print one JSON document.
    """
    import tempfile

    from coview.data.readers import open_source
    from coview.encoders.image import ImageEncoderConfig
    from coview.training import train as training
    from coview.training.image_task import build_images

    again = f"{training.shell_command()} --resume"
    out = out or Path("runs") / f"{config.views}-{config.size}-s{config.seed}"
    scenes = open_source(source)
    note = getattr(scenes, "split_note", "")
    if note and not quiet:
        print(f"{source}: {note}", file=sys.stderr)
    if not dry_run:
        training.check_folder(out, resume=resume)
    say = (lambda line: None) if quiet else lambda line: print(line, file=sys.stderr)

    if config.modality == "image":
        views = config.views_per_scene if config.views == "good" else 1
        images = build_images(scenes, views, ImageEncoderConfig().pixels)
        with progress_of(f"train {config.views}", config.steps, quiet=quiet) as update:
            training.train_image(config, images, out, device=device, resume=again, report=shown(update))
        following = f"coview embed {source} --model run:{out} --split test"
        emit("train", {"run": str(out)}, as_json=json, text=f"{out}\nnext: {following}")
        return

    with tempfile.TemporaryDirectory() as scratch:
        cache = Path(scratch) if dry_run else training.token_cache()
        store = training.open_store(scenes, config, tokenizer, cache, progress=say)
        plan = training.plan_text(config, store)
        if dry_run:
            emit("train", asdict(plan), as_json=json, text=describe(config, plan))
            return
    if plan.truncated_share:
        say(
            f"{plan.truncated_share:.2%} of the texts are longer than {config.max_length} tokens and are cut."
        )
    with progress_of(f"train {config.views}", config.steps, quiet=quiet) as update:
        training.train_text(config, store, out, device=device, resume=again, report=shown(update))
    result = {"run": str(out), **asdict(plan)}
    emit(
        "train",
        result,
        as_json=json,
        text=f"{out}\nnext: coview embed {source} --model run:{out} --split test",
    )


SHOWN = ("loss", "invariance", "sigreg_over_floor", "effective_rank", "view_shuffle")


def shown(update: Callable[[int, str], None]) -> Callable[[dict], None]:
    """A report for the loop that shows the terms a person watches."""

    def report(line: dict) -> None:
        terms = " ".join(f"{key} {line[key]:.3g}" for key in SHOWN if key in line)
        update(line["step"] + 1, f"{terms} {line['read_per_s']:,.0f}/s")

    return report


def describe(config: TrainConfig, plan) -> str:
    """The plan for people."""
    return "\n".join(
        (
            f"scenes      {plan.scenes:,} with enough texts, {plan.texts:,} texts",
            f"tokens      {plan.tokens:,} ({plan.truncated_share:.2%} of the texts are cut)",
            f"parameters  {plan.parameters:,}",
            f"steps       {config.steps:,} of {config.batch} scenes x {config.views_per_scene} views, "
            f"about {plan.tokens_per_step:,} tokens each, {plan.tokens_to_read:,} in all",
            f"memory      {plan.memory / 2**20:,.0f} MB at the peak",
            "nothing was written.",
        )
    )
