"""``coview zeroshot``: images classified by the names of classes."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from coview.cli import emit


def zeroshot(
    images: Path,
    /,
    *,
    labels: Path,
    classes: Path,
    run: Annotated[str, Parameter(name=("--run", "--model"))],
    rotation: Path | None = None,
    templates: Path | None = None,
    protocol: Literal["rosetta"] | None = None,
    corpus_images: Path | None = None,
    corpus_texts: Path | None = None,
    seeds: int = 5,
    seed: int = 0,
    out: Path | None = None,
    device: str = "auto",
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Classify embedded images by the texts of their classes, and say how often that is right.

    Either across a rotation that is there already, or by ``--protocol rosetta``: the rotation is then found
    without any pair, on disjoint halves of a corpus, once for each seed.

    Parameters
    ----------
    images
        The embedded images (.safetensors, .npy, .npz, .parquet).
    labels
        A table with columns image and class, or a text file with a class a line in the order of the images.
    classes
        A text file with a name a line, or a table with columns class, name and perhaps definition.
    run
        The run folder of the text encoder, or any MODEL that ``coview embed`` takes.
    rotation
        What ``coview rotate fit`` wrote for this encoder and that of the images.
    templates
        A text file, one a line, {} where the name goes. A class with a definition is NAME - DEFINITION.
    protocol
        rosetta: no pairs; needs --corpus-images and --corpus-texts.
    corpus_images, corpus_texts
        Embeddings of images and of their captions, by the encoders of `images` and of `run`.
    seeds
        Of the protocol: halves of the corpus and fits.
    seed
        Of the intervals, and the first of the seeds.
    out
        Folder for the result as JSON and the confusion as CSV.
    device
        auto, cpu, cuda, ...
    json
        Print one JSON document.
    """
    from coview.embeddings import load_embeddings
    from coview.errors import UsageError
    from coview.uses import class_list
    from coview.uses.joined import load_text_encoder

    if (rotation is None) == (protocol is None):
        raise UsageError("give either --rotation FILE or --protocol rosetta.")
    if (protocol is None) != (corpus_images is None) or (corpus_images is None) != (corpus_texts is None):
        raise UsageError("--protocol rosetta goes with --corpus-images and --corpus-texts, and they with it.")
    sayings = class_list.read_templates(templates) if templates else class_list.TEMPLATES
    listed = class_list.read_classes(classes, sayings)
    index = load_embeddings(images)
    truth = class_list.read_labels(labels, listed, index.ids, len(index.matrix))
    encoder = load_text_encoder(run, device)
    if rotation is not None:
        _across(rotation, index, listed, truth, encoder, seed, out, json)
    elif corpus_images is not None and corpus_texts is not None:
        corpus = load_embeddings(corpus_images), load_embeddings(corpus_texts)
        _rosetta(corpus, index, listed, truth, encoder, range(seed, seed + seeds), out, json)


def _across(rotation: Path, index, listed, truth, encoder, seed: int, out: Path | None, json: bool) -> None:
    """With a rotation that is there."""
    from coview.joining.rotation import load_rotation
    from coview.runs import write_json, write_text
    from coview.uses.joined import join
    from coview.uses.zeroshot import class_rows, confusion_csv, words, zero_shot

    joined = join(load_rotation(rotation), encoder, index)
    rows = class_rows(joined.texts(listed.flat), listed.owner)
    scored = zero_shot(joined.images(index.matrix), rows, truth, seed=seed)
    result = {
        **scored.as_json(),
        "model": encoder.name,
        "layer": joined.layer,
        "texts_a_class": len(listed.flat) / len(listed),
        "rotation": {"file": str(rotation), "signature": joined.rotation.manifest.get("signature")},
        "seed": seed,
    }
    text = words(result)
    if out:
        write_text(out / "confusion.csv", confusion_csv(scored, listed))
        write_json(out / "zeroshot.json", {"schema": "coview.zeroshot/1", "ok": True, "result": result})
        text += f"\nwritten to {out}"
    emit("zeroshot", result, as_json=json, text=text)


def _rosetta(corpus, index, listed, truth, encoder, seeds: range, out: Path | None, json: bool) -> None:
    """Without pairs, on a corpus whose pairs only judge."""
    import sys

    from coview.errors import InputError, UsageError
    from coview.joining.paired import pair_up
    from coview.joining.space import encoder_of
    from coview.runs import write_json
    from coview.uses.rosetta import Task, rosetta, summary, words

    if not seeds:
        raise UsageError("the protocol needs a seed.", where="--seeds")
    for name, rows, width in zip(("images", "texts"), corpus, (index.matrix.shape[1], None), strict=True):
        if width not in (None, rows.matrix.shape[-1]):
            raise InputError(
                f"rows are {rows.matrix.shape[-1]} wide and the images to classify {width}: two encoders.",
                where=f"--corpus-{name}",
            )
    fingerprint, _, layer = (encoder_of(corpus[1].manifest) or "").partition("|")
    if fingerprint and fingerprint != encoder.fingerprint:
        raise InputError(f"its rows are not those of {encoder.name}.", where="--corpus-texts")
    task = Task(index.matrix, truth, encoder.encode(listed.flat, layer or "last"), listed.owner)
    trials = rosetta(
        pair_up(*corpus, names=("--corpus-images", "--corpus-texts")),
        task,
        seeds=seeds,
        progress=lambda line: print(line, file=sys.stderr, flush=True),
    )
    result = {**summary(trials), "model": encoder.name, "layer": layer or encoder.last}
    text = words(result)
    if out:
        write_json(out / "zeroshot.json", {"schema": "coview.zeroshot/1", "ok": True, "result": result})
        text += f"\nwritten to {out}"
    emit("zeroshot", result, as_json=json, text=text)
