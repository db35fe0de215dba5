"""`coview export`: a trained text encoder as a folder for sentence-transformers."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from coview.cli import emit


def export(
    run: str,
    /,
    *,
    out: Path,
    in_space_of: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Write a trained text encoder as a folder that stock sentence-transformers loads, safetensors only.

    With --in-space-of its embeddings are unit vectors of the space a rotation R leads to, so that texts can
    be compared with images there. The run may be on either side of R. Where R maps texts to images, prepare
    images by `coview rotate apply R IMAGES --side y`; where it maps images to texts, by
    `coview rotate apply R IMAGES`.

    Parameters
    ----------
    run
        Folder of a finished run of a text encoder.
    out
        The folder to write; it must not exist.
    in_space_of
        A rotation that `coview rotate fit` wrote, fitted on rows of this run as A or as B.
    json
        Print one JSON document.
    """
    from coview.encoders.sentence_folder import export_text_encoder
    from coview.encoders.trained import load_text_encoder
    from coview.joining.rotation import load_rotation

    rotation = load_rotation(in_space_of) if in_space_of else None
    facts = export_text_encoder(load_text_encoder(run.removeprefix("run:")), out, rotation)
    what = f"{facts['model']} read at {facts['layer']}, {facts['width']:,} numbers a text"
    linear = "its linear map has a bias" if facts["bias"] else "its linear map has no bias"
    lines = [f"{what}; {linear}", *(f"note: {note}" for note in facts["notes"])]
    if rotation is not None:
        other = " --side y" if facts["side"] == "x" else ""
        lines.append(
            f"to be compared with rows of: coview rotate apply {in_space_of} OTHER{other} --out FILE"
        )
    lines.append(facts["path"])
    emit("export", facts, as_json=json, text="\n".join(lines))
