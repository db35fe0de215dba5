"""``coview caption train``: a decoder that writes texts from embeddings of texts."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from coview.cli import emit
from coview.cli.progress import progress_of
from coview.cli.train import resume_command, shown
from coview.config import CaptionConfig

if TYPE_CHECKING:
    from coview.encoders.trained import TrainedTextEncoder
    from coview.uses.causal_lm import Pretrained

DEFAULTS = CaptionConfig()


def train(
    source: str,
    /,
    *,
    run: Path,
    out: Path,
    settings: Annotated[CaptionConfig, Parameter(name="*")] = DEFAULTS,
    config: Path | None = None,
    device: str = "auto",
    resume: Annotated[bool, Parameter(negative="")] = False,
    quiet: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Train a decoder that writes a text of a scene from the embedding of a text of that scene.

    No image is looked at. Only the training split is read. Stop it at any time: a checkpoint is written, and
    the same command with ``--resume`` goes on as if nothing had happened.

    Parameters
    ----------
    source
        Where the texts are: tabletop:, a .jsonl, .csv or .txt file, a folder, a zip or tar.
    run
        Run folder of the text encoder, from `coview train`; it stays as it is.
    out
        Run folder of the captioner.
    config
        A YAML file with any of these options; those on the command line win over it.
    device
        auto, cpu, cuda, ...
    resume
        Go on with the run in the folder.
    quiet
        No progress on stderr.
    json
        Print one JSON document.
    """
    from coview.data.readers import open_source
    from coview.encoders.encoder import pick_device
    from coview.encoders.trained import load_text_encoder
    from coview.runs import write_json
    from coview.training import train as training
    from coview.training.caption_task import open_texts, read_texts, train_captioner

    scenes = open_source(source)
    training.check_folder(out, settings, resume=resume)
    if resume and training.is_finished(out, settings):
        emit("caption.train", {"run": str(out)}, as_json=json, text=f"{out}: the run is finished already")
        return
    if scenes.split_note and not quiet:
        print(f"{source}: {scenes.split_note}", file=sys.stderr)
    pick_device(device)
    encoder = load_text_encoder(run)
    pretrained = load_size(settings, encoder)
    store = open_texts(scenes, encoder, training.token_cache())
    # From here on there is a run to resume; what can be refused has been.
    write_json(out / "config.json", settings.as_json())
    data = read_texts(scenes, encoder, store, out, progress=partial(progress_of, quiet=quiet))
    with progress_of("train captioner", settings.steps, quiet=quiet) as update:
        train_captioner(
            settings,
            data,
            out,
            encoder=f"run:{run}",
            device=device,
            resume=resume_command(),
            report=shown(update),
            pretrained=pretrained,
        )
    result = {"run": str(out), "texts": len(data.rows), "distance_of_texts": data.distance}
    following = f"next: coview caption write PHOTOS --model MODEL --rotation ROTATION --run {out}"
    emit("caption.train", result, as_json=json, text=f"{out}\n{following}")


def load_size(settings: CaptionConfig, encoder: "TrainedTextEncoder") -> "Pretrained | None":
    """The language model that ``--size`` names, if it names one; UsageError if it makes no decoder."""
    if not settings.size.startswith("hf:"):
        from coview.uses.captioner import DecoderConfig

        DecoderConfig.of_size(settings.size, encoder.tokenizer.get_vocab_size(), encoder.width)
        return None
    from coview.uses.causal_lm import LanguageDecoder, load_pretrained

    pretrained = load_pretrained(settings.size)
    LanguageDecoder(pretrained, encoder.width, settings.prefix)
    return pretrained
