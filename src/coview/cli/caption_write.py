"""``coview caption write``: captions for photos, or for rows of embeddings."""

import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from coview.cli import emit
from coview.cli.embed import default_path
from coview.cli.progress import progress_of
from coview.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

    from coview.data.scenes import Source
    from coview.embeddings import Embeddings

SHOWN = 5  # captions printed for people


def write(
    source: str,
    /,
    *,
    run: Path,
    rotation: Path | None = None,
    model: str | None = None,
    split: Literal["train", "val", "test", "reserved", "all"] = "all",
    beam: int = 4,
    nucleus: float | None = None,
    num_captions: int = 1,
    memory: float | None = None,
    rerank: Path | None = None,
    refs: Path | None = None,
    sheet: Path | None = None,
    out: Path = Path("captions.jsonl"),
    seed: int = 0,
    device: str = "auto",
    quiet: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Write a caption for each photo, with a decoder that never saw one.

    Parameters
    ----------
    source
        Photos (a folder, a zip or tar, a table), or a file of embeddings.
    run
        Run folder of the captioner, from `coview caption train`.
    rotation
        From the images' space to the texts', from `coview rotate fit`; not for embeddings of texts, nor
        for rows that `coview rotate apply` has mapped already.
    model
        What embeds the photos, the MODEL of `coview embed`; not for a file of embeddings.
    split
        Which scenes.
    beam
        Captions that are followed at a time; 1 is greedy.
    nucleus
        Draw each word from the fewest that hold this share of probability, instead of searching.
    num_captions
        Captions for each photo, no two alike.
    memory
        Put each embedding among those of the training texts first, at this temperature: try 0.02.
    rerank
        Run folder of the text encoder: of twice as many captions as are followed, the one whose own embedding
        is nearest comes first.
    refs
        Reference captions, {"id": .., "captions": [..]} a line: score the captions beside simple ones.
    sheet
        A PNG to write, the photos with their captions.
    out
        The captions to write, {"id": .., "caption": ..} a line.
    seed
        Of nucleus sampling and of the intervals.
    device
        auto, cpu, cuda, ...
    quiet
        No progress on stderr.
    json
        Print one JSON document.
    """
    from coview.embeddings import load_embeddings
    from coview.encoders.encoder import pick_device
    from coview.encoders.precomputed import is_embedding_file
    from coview.joining.rotation import load_rotation
    from coview.uses.captioner import load_captioner
    from coview.uses.generation import Search
    from coview.uses.image_captions import (
        Memory,
        captions_of,
        load_reader,
        nearest_first,
        rows_of_images,
        rows_of_texts,
        seen_in_training,
    )

    search = Search(beam=beam, nucleus=nucleus, seed=seed)
    if num_captions < 1:
        raise UsageError(f"must be at least 1, not {num_captions}.", where="--num-captions")
    if memory is not None and not 0 < memory < float("inf"):
        raise UsageError(f"must be a positive number, not {memory:g}.", where="--memory", hint="Try 0.02.")
    is_rows = is_embedding_file(source)
    if is_rows and sheet is not None:
        hint = "Leave it out, or give the photos and the --model that embeds them."
        raise UsageError("a file of embeddings has no photos to show.", where="--sheet", hint=hint)
    captioner = load_captioner(run, device=pick_device(device))
    if is_rows:
        photos, images = None, load_embeddings(source)
    else:
        photos, images = embed_photos(source, model, split, device, quiet)
    found = None if rotation is None else load_rotation(rotation)
    if found is not None:
        rows = rows_of_images(captioner, found, images, where=source, rotation_file=str(rotation))
    elif is_rows:
        rows = rows_of_texts(captioner, images, where=source)
    else:
        hint = "coview rotate fit IMAGES TEXTS --out ROTATION makes one."
        raise UsageError("photos need a rotation into the space of the texts.", where="--rotation", hint=hint)
    ids = list(images.ids or map(str, range(len(rows))))
    reader = load_reader(captioner, rerank, device=pick_device(device)) if rerank is not None else None
    kept = Memory.of(captioner) if memory is not None or refs is not None else None
    references = read_matching(refs, ids) if refs is not None else None
    with progress_of("captions", len(ids), quiet=quiet) as update:
        captions = captions_of(
            captioner,
            rows,
            search,
            memory=kept,
            temperature=memory,
            count=max(num_captions, 2 * beam) if reader else num_captions,
            progress=partial(update, note=""),  # type: ignore[call-arg]
        )
    if reader is not None:
        captions = [texts[:num_captions] for texts in nearest_first(captioner, reader, rows, captions)]
    write_captions(out, ids, captions)
    if sheet is not None and photos is not None:
        draw_sheet(sheet, photos, split, ids, [texts[0] for texts in captions])
    result: dict = {
        "out": str(out),
        "captions": len(ids),
        "sheet": str(sheet) if sheet else None,
        "search": f"nucleus {nucleus:g}" if nucleus is not None else f"beam {beam}",
        "memory": memory,
        "rerank": str(rerank) if rerank else None,
        "examples": [{"id": ids[row], "caption": captions[row][0]} for row in range(len(ids))[:SHOWN]],
    }
    lines = [f"{example['id']}: {example['caption']}" for example in result["examples"]]
    if references is not None and kept is not None:
        from coview.uses.caption_scores import document
        from coview.uses.image_captions import scores_beside_baselines

        first = [texts[0] for texts in captions]
        scores = scores_beside_baselines(first, rows, kept, references, seed=seed)
        result["scores"] = {name: document(score) for name, score in scores.items()}
        result["warnings"] = list(scores["decoder"].warnings)
        if seen := seen_in_training(captioner, found, images):
            result["warnings"].append(
                f"{seen:,} of {len(ids):,} scenes were seen in training, by the decoder or by the rotation: "
                "these scores are not held-out ones. Choose others, for instance with --split test."
            )
        for warning in result["warnings"]:
            print(f"warning: {warning}", file=sys.stderr)
        lines += ["", *table(scores)]
    emit("caption.write", result, as_json=json, text="\n".join([*lines, str(out)]))


def embed_photos(
    source: str, model: str | None, split: str, device: str, quiet: bool
) -> "tuple[Source, Embeddings]":
    """The photos of a source and their embeddings, which a cache keeps."""
    from coview.data.readers import open_source
    from coview.embeddings import load_embeddings
    from coview.encoders import load_encoder
    from coview.encoders.embed import embed

    if model is None:
        hint = "--model lite2: for instance; coview embed lists them."
        raise UsageError("photos need an encoder.", where="--model", hint=hint)
    photos = open_source(source)
    encoder = load_encoder(model, modality="image", device=device)
    target = default_path(source, model, split, "last", "image")
    wanted = None if split == "all" else split
    done = embed(photos, encoder, target, split=wanted, progress=partial(progress_of, quiet=quiet))
    return photos, load_embeddings(done.path)


def read_matching(refs: Path, ids: list[str]) -> list[list[str]]:
    """The references of each id, in order; InputError if one has none."""
    from coview.errors import InputError
    from coview.uses.caption_files import read_references

    known = read_references(refs)
    if lost := [one for one in ids if one not in known]:
        more = f" and {len(lost) - 1:,} more have" if lost[1:] else " has"
        hint = "Give references for every photo, or choose the photos with --split."
        raise InputError(f"id {lost[0]!r}{more} no references.", where=str(refs), hint=hint)
    return [known[one] for one in ids]


def write_captions(out: Path, ids: list[str], captions: list[list[str]]) -> None:
    """One JSON record a line, written whole or not at all."""
    import json

    from coview.runs import write_text

    lines = []
    for one, texts in zip(ids, captions, strict=True):
        several = {"captions": texts} if len(texts) > 1 else {}
        lines.append(json.dumps({"id": one, "caption": texts[0], **several}, ensure_ascii=False))
    write_text(out, "\n".join(lines) + "\n")


def draw_sheet(sheet: Path, photos: "Source", split: str, ids: list[str], captions: list[str]) -> None:
    """The photos with their captions."""
    from coview.uses.contact_sheet import contact_sheet

    wanted = set(ids)
    scenes: Iterable = photos.scenes(None if split == "all" else split)
    images = (photos.open_image(scene) for scene in scenes if scene.id in wanted)
    contact_sheet(images, captions, sheet)


def table(scores: dict) -> list[str]:
    """Scores of the decoder and of what it is compared with, a line each."""
    lines = [f"{'':<26}{'CIDEr-D':<22}{'BLEU-4':<22}ROUGE-L"]
    for name, score in scores.items():
        spread = score.intervals  # empty for a single image
        cells = (
            with_interval(score.cider_d, spread.get("cider_d")),
            with_interval(score.bleu[3], spread["bleu"][3] if spread else None),
            with_interval(score.rouge_l, spread.get("rouge_l")),
        )
        lines.append(f"{name:<26}{cells[0]:<22}{cells[1]:<22}{cells[2]}".rstrip())
    first = next(iter(scores.values()))
    lines.append(
        f"{len(first.cider_d_each):,} images, 95 % intervals; CIDEr-D raw, papers print 100 times it as CIDEr"
    )
    return lines


def with_interval(value: float, between: "np.ndarray | None") -> str:
    """``0.401 [0.372, 0.429]``."""
    return f"{value:.3f}" if between is None else f"{value:.3f} [{between[0]:.3f}, {between[1]:.3f}]"
