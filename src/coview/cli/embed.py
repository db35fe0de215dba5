"""``coview embed``: the embeddings of texts or images."""

import os
import re
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from coview.cli import emit
from coview.cli.progress import progress_of
from coview.errors import Interrupted, UsageError
from coview.runs import hash_json


def embed(
    source: str,
    /,
    *,
    model: str,
    modality: Literal["text", "image"] | None = None,
    split: Literal["train", "val", "test", "reserved", "all"] = "test",
    layers: str = "last",
    ids: Path | None = None,
    out: Path | None = None,
    bfloat16: Annotated[bool, Parameter(negative="")] = False,
    batch: int | None = None,
    device: str = "auto",
    quiet: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Embed the texts or images of a source with any encoder, to a file that `coview align` reads.

    A text's row is called SCENE#SLOT, an image's SCENE. Stopped at any time, the same command goes on where
    it stood; run again on the same input, it says so and is done.

    Parameters
    ----------
    source
        Where the scenes are: tabletop:, a .jsonl, .csv or .txt file, a folder, a zip or tar.
    model
        run:FOLDER, bow:[SRC][,width=N], lite0:, lite2:, st:NAME, hf:NAME[@REVISION][,pool=mean], timm:NAME,
        open_clip:ARCH/TAG, or a file of rows that are there already (.npy, .npz, .safetensors, .parquet).
    modality
        text or image, where the model offers both.
    split
        Which scenes.
    layers
        last, all, prh (what platonic-rep compares), or names such as embed,block.0,final_norm.
    ids
        The names of a file's rows, one a line: scene ids or image names. Only for a file of rows.
    out
        The .safetensors file to write; by default one in the cache folder, whose name is printed.
    bfloat16
        Store half as many bytes, for stacks of all layers; everything is computed and scored in float32.
    batch
        Texts or images a forward pass.
    device
        auto, cpu, cuda, ...
    quiet
        No progress on stderr.
    json
        Print one JSON document.
    """
    from coview.data.readers import open_source
    from coview.encoders.precomputed import is_embedding_file, pick_rows

    scenes = open_source(source)
    if scenes.split_note and split != "all" and not quiet:
        print(f"note: {scenes.split_note}", file=sys.stderr)
    target = out or default_path(source, model, split, layers, modality)
    wanted = None if split == "all" else split
    if is_embedding_file(model):
        if layers != "last":
            raise UsageError("a file of rows keeps the layers it has.", where="--layers")
        done = pick_rows(scenes, model, target, names=ids, split=wanted, modality=modality or "image")
    else:
        from coview.encoders import load_encoder
        from coview.encoders.embed import embed as run
        from coview.encoders.embed import has_finished_chunks, part_of

        if ids is not None:
            raise UsageError("--ids names the rows of a file, and --model is none.", where="--ids")
        # `bow:` alone is fitted on the training texts of the very source that is embedded.
        named = re.sub(r"^bow:(?=,|$)", lambda _: f"bow:{source}", model)
        encoder = load_encoder(named, modality=modality, device=device, batch=batch)
        progress = partial(progress_of, quiet=quiet)
        try:
            done = run(
                scenes, encoder, target, split=wanted, layers=layers, bfloat16=bfloat16, progress=progress
            )
        except KeyboardInterrupt:
            if not has_finished_chunks(target):
                raise Interrupted("interrupted; nothing was finished yet, and nothing was left.") from None
            what = f"interrupted; what was finished is kept in {part_of(target)}."
            raise Interrupted(what, hint="The same command goes on where it stood.") from None
    result = {
        "path": str(done.path),
        "rows": done.shape[0],
        "width": done.shape[-1],
        "cached": done.cached,
        "resumed": done.resumed,
        **done.manifest,
    }
    emit("embed", result, as_json=json, text=describe(result))


def default_path(source: str, model: str, split: str, layers: str, modality: str | None) -> Path:
    """A file in the cache folder, the same for the same command."""
    base = os.environ.get("COVIEW_CACHE") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    facts = {"source": source, "model": model, "split": split, "layers": layers, "modality": modality}
    words = re.sub(r"[^A-Za-z0-9.]+", "-", f"{Path(source).name}-{model}-{split}").strip("-.")[:80]
    return Path(base) / "coview" / "embeddings" / f"{words}-{hash_json(facts)[:8]}.safetensors"


def describe(result: dict) -> str:
    """The result in words."""
    what = f"{result['rows']:,} {result['modality']}s of {result['source']} ({result['split']})"
    lines = [f"{what} by {result['model']}, {result['width']:,} numbers each"]
    if len(result.get("layers", ())) > 1:
        lines.append(f"layers: {', '.join(result['layers'])}")
    if result["cached"]:
        lines.append("already there, from the same input and model: nothing was computed")
    if result["resumed"]:
        lines.append(f"{result['resumed']:,} rows taken over from an unfinished job")
    if result.get("truncated"):
        share = result["truncated"] / result["rows"]
        lines.append(
            f"{result['truncated']:,} texts ({share:.1%}) are longer than the model reads and were cut"
        )
    if result.get("caution"):
        lines.append(f"caution: {result['caution']}")
    return "\n".join([*lines, result["path"]])
