"""``coview train``: an encoder from texts (or images) grouped by scene."""

import shlex
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from coview.cli import emit
from coview.cli.progress import progress_of
from coview.config import TrainConfig
from coview.data.scenes import Source
from coview.errors import UsageError

DEFAULTS = TrainConfig()


def train(
    source: str,
    /,
    *,
    settings: Annotated[TrainConfig, Parameter(name="*")] = DEFAULTS,
    config: Path | None = None,
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
    config
        A YAML file with any of these options; those on the command line win over it.
    out
        Run folder; by default runs/VIEWS-SIZE-sSEED.
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
    from coview.data.readers import open_source
    from coview.encoders.encoder import pick_device
    from coview.training import train as training

    pick_device(device)  # one that is not there is said before any work
    kind = settings.size if settings.modality == "text" else "image"
    out = out or Path("runs") / f"{settings.views}-{kind}-s{settings.seed}"
    scenes = open_source(source)
    if not dry_run:
        training.check_folder(out, settings, resume=resume)
        if resume and training.is_finished(out, settings):
            emit("train", {"run": str(out)}, as_json=json, text=f"{out}: the run is finished already")
            return
    if scenes.split_note and not quiet:
        print(f"{source}: {scenes.split_note}", file=sys.stderr)
    if settings.modality == "image":
        result = train_images(scenes, settings, out, device, dry_run, quiet)
    else:
        result = train_texts(scenes, settings, out, device, dry_run, quiet, tokenizer)
    if dry_run:
        text = describe(settings, result)
    else:
        following = ("coview", "embed", source, "--model", f"run:{out}", "--split", "test")
        text = f"{out}\nnext: {shlex.join(following)}"
    emit("train", result, as_json=json, text=text)


def train_texts(
    scenes: Source,
    settings: TrainConfig,
    out: Path,
    device: str,
    dry_run: bool,
    quiet: bool,
    tokenizer: str | None,
) -> dict:
    """Tokens, plan, run; the result of the command."""
    from coview.encoders.text import TextEncoderConfig
    from coview.training import train as training

    TextEncoderConfig.of_size(settings.size, settings.vocabulary)  # an unknown size is said before any work
    say = (lambda line: None) if quiet else lambda line: print(line, file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        cache = Path(scratch) if dry_run else training.token_cache()
        store = training.open_store(scenes, settings, tokenizer, cache, progress=say)
        plan = training.plan_text(settings, store, device)
    if not dry_run:
        if plan.truncated_share:
            cut = f"{plan.truncated_share:.2%} of the texts are longer than {settings.max_length} tokens"
            say(f"{cut} and are cut.")
        with progress_of(f"train {settings.views}", settings.steps, quiet=quiet) as update:
            training.train_text(
                settings, store, out, device=device, resume=resume_command(), report=shown(update)
            )
    return {"run": str(out), **asdict(plan)}


def train_images(
    scenes: Source, settings: TrainConfig, out: Path, device: str, dry_run: bool, quiet: bool
) -> dict:
    """Images, run; the result of the command."""
    from coview.encoders.image import ImageEncoderConfig
    from coview.training import train as training
    from coview.training.image_task import build_images

    if dry_run:
        raise UsageError("only a run on texts can be planned.", where="--dry-run", hint="Leave it out.")
    views = settings.views_per_scene if settings.views == "good" else 1
    images = build_images(scenes, views, ImageEncoderConfig().pixels)
    with progress_of(f"train {settings.views}", settings.steps, quiet=quiet) as update:
        training.train_image(
            settings, images, out, device=device, resume=resume_command(), report=shown(update)
        )
    return {"run": str(out)}


def resume_command() -> str:
    """What to type to go on with the run that is being started."""
    from coview.training.train import shell_command

    return f"{shell_command()} --resume"


SHOWN = ("loss", "invariance", "sigreg_over_floor", "effective_rank", "view_shuffle")


def shown(update: Callable[[int, str], None]) -> Callable[[dict], None]:
    """A report for the loop that shows the terms a person watches."""

    def report(line: dict) -> None:
        terms = " ".join(f"{key} {line[key]:.3g}" for key in SHOWN if key in line)
        update(line["step"] + 1, f"{terms} {line['read_per_s']:,.0f}/s")

    return report


def describe(settings: TrainConfig, plan: dict) -> str:
    """The plan for people."""
    return "\n".join(
        (
            f"scenes      {plan['scenes']:,} with enough texts, {plan['texts']:,} texts",
            f"tokens      {plan['tokens']:,} ({plan['truncated_share']:.2%} of the texts are cut)",
            f"parameters  {plan['parameters']:,}",
            f"steps       {settings.steps:,} of {settings.batch} scenes x {settings.views_per_scene} views, "
            f"about {plan['tokens_per_step']:,} tokens each, {plan['tokens_to_read']:,} in all",
            f"memory      {plan['memory'] / 2**20:,.0f} MB at the peak, computing in {plan['precision']}",
            "nothing was written.",
        )
    )
