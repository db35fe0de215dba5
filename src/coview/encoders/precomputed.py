"""Rows that are there already: picked from a file for the scenes of a source, and given its ids."""

from pathlib import Path, PurePosixPath

from coview.data.scenes import Source
from coview.embeddings import SUFFIXES, Embeddings, load_embeddings, save_embeddings
from coview.encoders.embed import Embedded, Row, names_of, rows_of
from coview.encoders.frozen import FAMILIES
from coview.errors import InputError
from coview.runs import hash_file, hash_json, manifest


def is_embedding_file(model: str) -> bool:
    """Whether a MODEL is a file of rows and not an encoder."""
    return model.lower().endswith(SUFFIXES) and model.partition(":")[0] not in FAMILIES


def pick_rows(
    source: Source,
    file: str | Path,
    out: str | Path,
    *,
    names: str | Path | None = None,
    split: str | None = "test",
    modality: str = "image",
) -> Embedded:
    """Write the rows that a file holds for a source's images or texts, in the source's order.

    Parameters
    ----------
    source : Source
    file : path
        Anything `load_embeddings` reads.
    out : path
        Of the safetensors file.
    names : path, optional
        A text file that names the file's rows, one a line; by default the file's own ids are used, or those
        of ``NAME.ids.txt`` beside it. A row may be called by its scene's id, or its image's name with or
        without folder and extension.
    split : "train", "val", "test", "reserved", or None for all
    modality : "image" or "text"

    Raises
    ------
    InputError
        The file's rows have no names, or some that are needed are missing (three are shown).
    """
    found = load_embeddings(file)
    known = _names(found, Path(file), Path(names) if names else None)
    ids, scenes = names_of(source, split, modality)
    places, missing = [], []
    for row in rows_of(source, split, modality):
        place = next((known[name] for name in _aliases(row) if name in known), None)
        (missing if place is None else places).append(row.id if place is None else place)
    if missing:
        shown = ", ".join(repr(name) for name in missing[:3])
        raise InputError(
            f"{len(missing):,} of {len(ids):,} rows are not in it: {shown}.",
            where=str(file),
            hint=f"Its rows are called {', '.join(repr(name) for name in list(known)[:3])}.",
        )
    facts = {
        "model": str(file),
        "fingerprint": hash_file(file),
        "modality": modality,
        "source": source.name,
        "split": split or "all",
        "input_hash": hash_json({"ids": ids}),
        "made_by": found.manifest,
        "versions": manifest()["versions"],
    }
    matrix = found.matrix[places]
    save_embeddings(out, Embeddings(matrix, ids, scenes, facts))
    return Embedded(Path(out), matrix.shape, cached=False, resumed=0, manifest=facts)


def _names(found: Embeddings, file: Path, names: Path | None) -> dict[str, int]:
    """Which row each name stands for."""
    ids = found.ids
    if names is not None:
        try:
            ids = tuple(names.read_text(encoding="utf-8").rstrip("\n").split("\n"))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot be read as a list of names: {error}.", where=str(names)) from error
    if ids is None:
        hint = "Give --ids FILE, one name a line, or put such a file beside it as NAME.ids.txt."
        raise InputError("its rows have no names.", where=str(file), hint=hint)
    if len(ids) != len(found.matrix):
        where = str(names or file)
        raise InputError(f"{len(ids):,} names for {len(found.matrix):,} rows.", where=where)
    return {name: place for place, name in enumerate(ids)}


def _aliases(row: Row) -> list[str]:
    """What a row may be called in a file that others made, the surest name first."""
    if row.text is not None or row.scene.image is None:
        return [row.id]
    image = PurePosixPath(row.scene.image)
    return [row.id, row.scene.image, image.name, image.stem]
