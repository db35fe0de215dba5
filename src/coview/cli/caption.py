"""`coview caption`: score captions."""

import sys
from pathlib import Path
from typing import Literal

from cyclopts import App

from coview.cli import emit

caption = App(name="caption", help="Write captions from embeddings, and score captions.")
caption.command(
    "coview.cli.caption_train:train",
    name="train",
    help="Train a decoder that writes texts from embeddings of texts.",
)
caption.command(
    "coview.cli.caption_write:write",
    name="write",
    help="Write a caption for each photo, with a decoder that never saw one.",
)

Tokens = Literal["ptb", "simple", "split"]


@caption.command
def score(
    captions: Path,
    references: Path,
    /,
    *,
    df: Path | None = None,
    tokens: Tokens = "ptb",
    seed: int = 0,
    json: bool = False,
) -> None:
    """Score captions against reference captions: CIDEr-D, BLEU-1 to 4, ROUGE-L, with 95 % intervals.

    References of images that have no caption are left out, which is said.

    Parameters
    ----------
    captions : Path
        JSON Lines, {"id": .., "caption": ".."}
    references : Path
        JSON Lines, {"id": .., "captions": ["..", ..]}
    df : Path
        Document frequencies made by `coview caption df`; by default those of the references.
    tokens : str
        ptb (as published figures), simple (a-z and digits), split (the captions are tokenised already).
    seed : int
        Of the images drawn for the intervals.
    json : bool
        Print one JSON document; scores on their raw scale.
    """
    from coview.uses.caption_files import pair_captions
    from coview.uses.caption_ngrams import load_frequencies
    from coview.uses.caption_scores import document, score_captions, words

    frequencies = load_frequencies(df) if df else None
    paired = pair_captions(captions, references)
    scores = score_captions(
        paired.captions, paired.references, tokens=tokens, frequencies=frequencies, seed=seed
    )
    result = document(scores) | {"captions": str(captions), "references": str(references), "seed": seed}
    result["df"] = str(df) if df else "references"
    if paired.left_out:
        total = len(paired.references) + paired.left_out
        left_out = f"{paired.left_out:,} of {total:,}"
        result["warnings"].append(f"images of {references} left out, as they have no caption: {left_out}.")
    for warning in result["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)
    counted = f"{df} ({frequencies.images:,} images)" if frequencies else "these references"
    emit("caption.score", result, as_json=json, text=f"{words(scores)}; document frequencies of {counted}")


@caption.command
def df(references: Path, /, *, out: Path, tokens: Tokens = "ptb", json: bool = False) -> None:
    """Count the document frequencies of reference captions, for the scores of small sets.

    Parameters
    ----------
    references : Path
        JSON Lines, {"id": .., "captions": ["..", ..]}
    out : Path
        The file to write, JSON.
    tokens : str
        As in `coview caption score`, and to be the same there.
    json : bool
        Print one JSON document.
    """
    from coview.uses.caption_files import read_references
    from coview.uses.caption_ngrams import document_frequencies, save_frequencies

    counted = document_frequencies(list(read_references(references).values()), tokens=tokens)
    save_frequencies(out, counted)
    result = {"out": str(out), "images": counted.images, "ngrams": len(counted.counts), "tokens": tokens}
    text = f"{len(counted.counts):,} n-grams of {counted.images:,} images ({tokens}) written to {out}"
    emit("caption.df", result, as_json=json, text=text)
