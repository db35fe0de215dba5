"""``coview retrieve``: the images that a text describes."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from coview.cli import emit


def retrieve(
    query: str,
    /,
    *,
    run: Annotated[str, Parameter(name=("--run", "--model"))],
    rotation: Path,
    images: Path,
    top: int = 10,
    sheet: Path | None = None,
    photos: str | None = None,
    device: str = "auto",
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Search embedded images with words, across a rotation between a text encoder and an image encoder.

    A score is the cosine of text and image, each less the mean of the rows the rotation was fitted on. What
    counts is how far it lies above that of a random image, which the first line says. How well such a search
    does on pairs it has not seen, `coview rotate eval` says.

    Parameters
    ----------
    query
        What the image should show.
    run
        The run folder of the text encoder, or any MODEL that ``coview embed`` takes.
    rotation
        What ``coview rotate fit`` wrote for this encoder and that of the images.
    images
        The embedded images (.safetensors, .npy, .npz, .parquet), read in blocks.
    top
        How many to show.
    sheet
        A .png to write: the photos found, with their scores.
    photos
        Where the photos of the sheet are: a folder, an archive or any other source. By default the source
        that the embedded images name.
    device
        auto, cpu, cuda, ...
    json
        Print one JSON document.
    """
    from coview.embeddings import load_embeddings
    from coview.errors import UsageError
    from coview.joining.rotation import load_rotation
    from coview.uses.joined import join, load_text_encoder
    from coview.uses.retrieval import search

    if not query.strip():
        raise UsageError("there are no words to search with.", hint='For example "a dog in the snow".')
    index = load_embeddings(images)
    joined = join(load_rotation(rotation), load_text_encoder(run, device), index)
    searched = search(joined.query(query), index.matrix, joined.images, top=top)
    found = [
        {"image": index.ids[hit.row] if index.ids else hit.row, "row": hit.row, "score": hit.score}
        for hit in searched.hits
    ]
    result = {
        "query": query,
        "images": len(index.matrix),
        "found": found,
        "similarity": "cosine",
        "all_images": {"mean": searched.mean, "deviation": searched.deviation},
        "model": joined.encoder.name,
        "layer": joined.layer,
        "rotation": {"file": str(rotation), "signature": joined.rotation.manifest.get("signature")},
    }
    head = (
        f"cosine with {len(index.matrix):,} images; a random one of them scores {searched.mean:.3f} ± "
        f"{searched.deviation:.3f} (mean, standard deviation)"
    )
    lines = [head, *(f"{one['score']:6.3f}  {one['image']}" for one in found)]
    if sheet is not None:
        draw_sheet(sheet, found, photos or index.manifest.get("source"))
        result["sheet"] = str(sheet)
        lines.append(str(sheet))
    emit("retrieve", result, as_json=json, text="\n".join(lines))


def draw_sheet(sheet: Path, found: list[dict], photos: str | None) -> None:
    """The contact sheet of what was found."""
    from coview.data.readers import open_source
    from coview.errors import UsageError
    from coview.uses.contact_sheet import contact_sheet
    from coview.uses.retrieval import find_scenes

    if photos is None:
        raise UsageError("where are the photos?", where="--sheet", hint="Give --photos FOLDER.")
    source = open_source(photos)
    scenes = find_scenes(source, [str(one["image"]) for one in found])
    captions = [f"{one['score']:.3f}  {one['image']}" for one in found]
    contact_sheet((source.open_image(scene) for scene in scenes), captions, sheet)
