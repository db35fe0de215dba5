"""The job that makes an embedding file: a source streams through an encoder, with resume and a cache.

Finished chunks lie beside the output, in ``OUT.part/``, until the file is whole. A chunk is taken from there
only if a hash says that its texts or images are the same, so a job that was killed goes on where it stood and
its file is, byte for byte, the one of an unbroken run. For that reason an embedding file carries no date.
"""

import hashlib
import json
import os
import shutil
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from coview.data.scenes import Scene, Source
from coview.embeddings import Embeddings, check_finite, load_embeddings, save_embeddings
from coview.encoders.encoder import Encoder, batched
from coview.errors import InputError, ResourceError, UsageError
from coview.runs import hash_bytes, manifest, read_json, refuse_inside_file, write_json, writing

if TYPE_CHECKING:
    from PIL.Image import Image

CHUNK = 256  # rows that are computed, and lost at a kill, together

# Given a label and a total, opens a display; its value takes the rows done and a note.
Progress = Callable[[str, int], AbstractContextManager[Callable[[int, str], None]]]


@contextmanager
def silent(label: str, total: int) -> Generator[Callable[[int, str], None]]:
    """No progress shown."""
    yield lambda done, note: None


class Row(NamedTuple):
    """One row to be: its id, its scene, and its text or (None) the scene's image."""

    id: str
    scene: Scene
    text: str | None


@dataclass(frozen=True)
class Embedded:
    """What a job did.

    Attributes
    ----------
    path : the embedding file
    shape : of its matrix
    cached : the file was there already, from the same input and model
    resumed : rows taken over from an earlier, unfinished job
    manifest : the file's
    """

    path: Path
    shape: tuple[int, ...]
    cached: bool
    resumed: int
    manifest: dict


def embed(
    source: Source,
    encoder: Encoder,
    out: str | Path,
    *,
    split: str | None = "test",
    layers: str = "last",
    bfloat16: bool = False,
    progress: Progress = silent,
) -> Embedded:
    """Write the rows of a source's texts or images to an embedding file.

    Parameters
    ----------
    source : Source
        Read as a stream; of the images no more than the encoder's batch is held at once.
    encoder : Encoder
        Its modality says whether texts or images are read.
    out : path
        Of the safetensors file. If it is there from the same input and model it is left alone.
    split : "train", "val", "test", "reserved", or None for all
    layers : see `Encoder.select`
    bfloat16 : store half as many bytes, see `save_embeddings`
    progress : shows how far the job is

    Raises
    ------
    InputError
        Nothing to embed, an image that cannot be read, an id that comes twice, a row with NaN or infinity.
    UsageError
        An unknown layer, `out` holds something that is no embedding file, or it lies inside a file.
    ResourceError
        The disk is full; finished chunks are kept.
    """
    out = Path(out)
    if out.suffix != ".safetensors":
        raise UsageError("embeddings are written as .safetensors.", where=f"--out {out}")
    recipe = {
        "model": encoder.name,
        "fingerprint": encoder.fingerprint,
        "modality": encoder.modality,
        "layers": list(encoder.select(layers)),
        "stacked": encoder.stacked(layers),
        "stored": "bfloat16" if bfloat16 else "float32",
    }
    refuse_inside_file(out)
    ids, scenes = names_of(source, split, encoder.modality)
    with progress(f"embedding {encoder.modality}s", len(ids)) as update:
        if out.exists() and (done := _finished(out, recipe, source, split, update)):
            return done
        journal = Journal(part_of(out), recipe)
        inputs = hashlib.sha256()
        resumed = done_rows = 0
        for index, chunk in enumerate(batched(rows_of(source, split, encoder.modality), CHUNK)):
            digests: list[bytes] = []
            if index < len(journal.chunks):
                deque(_read(source, chunk, digests), maxlen=0)  # the hashes are wanted, not the images
            if journal.keep(index, hash_bytes(*digests)):
                resumed += len(chunk)
            else:
                digests = []
                matrix = encoder.encode(_read(source, chunk, digests), layers)
                check_finite(matrix, encoder.name, tuple(row.id for row in chunk))
                texts = [row.text for row in chunk if row.text is not None]
                journal.add(matrix, hash_bytes(*digests), encoder.truncated(texts))
            inputs.update(b"".join(digests))
            done_rows += len(chunk)
            update(done_rows, "taken over" if resumed == done_rows else "")
    facts = {
        **recipe,
        "source": source.name,
        "split": split or "all",
        "input_hash": inputs.hexdigest()[:16],
        "truncated": journal.truncated,
        "caution": encoder.caution,
        "versions": manifest()["versions"],
    }
    matrix = journal.matrix()
    save_embeddings(out, Embeddings(matrix, ids, scenes, facts), bfloat16=bfloat16)
    journal.remove()
    return Embedded(out, matrix.shape, cached=False, resumed=resumed, manifest=facts)


def part_of(out: Path) -> Path:
    """The folder of an unfinished job's chunks."""
    return out.with_name(out.name + ".part")


def has_finished_chunks(out: Path) -> bool:
    """Whether an unfinished job for `out` left anything to go on from."""
    lines = part_of(out) / Journal.LINES
    return lines.is_file() and lines.stat().st_size > 0


def rows_of(source: Source, split: str | None, modality: str) -> Iterator[Row]:
    """The rows of a source: a text is ``SCENE#SLOT``, slots counted from 0, an image has its scene's id."""
    for scene in source.scenes(split):
        if modality == "text":
            for slot, text in enumerate(scene.texts):
                yield Row(f"{scene.id}#{slot}", scene, text)
        else:
            if scene.image is None:
                where = scene.where or source.name
                raise InputError(
                    f"scene {scene.id!r} has no image.", where=where, hint="Give texts and images."
                )
            yield Row(scene.id, scene, None)


def names_of(source: Source, split: str | None, modality: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Ids and scenes of the rows to be; no image is opened. InputError if there are none, or an id twice."""
    rows = [(row.id, row.scene.id) for row in rows_of(source, split, modality)]
    if not rows:
        where = f"the split {split!r}" if split else "any split"
        hint = "Give --split train, val, test or all." if split else ""
        raise InputError(f"there are no {modality}s in {where}.", where=source.name, hint=hint)
    ids, scenes = zip(*rows, strict=True)
    if len(set(ids)) < len(ids):
        seen: set[str] = set()
        twice = next(word for word in ids if word in seen or seen.add(word))
        raise InputError(f"id {twice!r} comes twice.", where=source.name, hint="Give each scene its own id.")
    return ids, scenes


def _read(source: Source, rows: Sequence[Row], digests: list[bytes]) -> "Iterator[str | Image]":
    """The text or image of each row, one at a time; its hash is added to `digests` as it passes."""
    for row in rows:
        if row.text is not None:
            item, content = row.text, row.text.encode()
        else:
            item = source.open_image(row.scene)
            content = f"{item.mode} {item.size}".encode() + item.tobytes()
        digests.append(hashlib.sha256(f"{row.id}\n".encode() + content).digest())
        yield item


def _finished(
    out: Path, recipe: dict, source: Source, split: str | None, update: Callable[[int, str], None]
) -> Embedded | None:
    """What is known of `out` if it was made by the same recipe from the same texts or images."""
    try:
        found = load_embeddings(out)
    except InputError as error:
        what = f"something is there already, and not an embedding file: {error.message}"
        raise UsageError(what, where=f"--out {out}", hint="Give another name.") from error
    if any(found.manifest.get(key) != value for key, value in recipe.items()):
        return None
    inputs = hashlib.sha256()
    done = 0
    for chunk in batched(rows_of(source, split, recipe["modality"]), CHUNK):
        digests: list[bytes] = []
        deque(_read(source, chunk, digests), maxlen=0)
        inputs.update(b"".join(digests))
        done += len(chunk)
        update(done, "compared")
    if found.manifest.get("input_hash") != inputs.hexdigest()[:16]:
        return None
    return Embedded(out, found.matrix.shape, cached=True, resumed=0, manifest=found.manifest)


class Journal:
    """Finished chunks of an unfinished job, in a folder that appears with the first of them.

    ``rows.f32`` holds their rows one after the other, ``chunks.jsonl`` a line for each chunk with the hash of
    its input, written after the rows are on disk; ``recipe.json`` says what they are rows of.
    """

    LINES = "chunks.jsonl"

    def __init__(self, folder: Path, recipe: dict):
        self.folder, self.recipe = folder, recipe
        self.rows, self.lines, self.header = folder / "rows.f32", folder / self.LINES, folder / "recipe.json"
        self.chunks: list[dict] = []
        if folder.exists():
            if self.header.exists() and read_json(self.header) == recipe:
                self._cut(self._whole_chunks())
            else:
                self.remove()

    def _whole_chunks(self) -> list[dict]:
        """The chunks whose line is whole and whose rows are all there: a kill may leave half of either."""
        chunks = []
        size = self.rows.stat().st_size
        for line in self.lines.read_text(encoding="utf-8").split("\n")[:-1]:
            try:
                chunk = json.loads(line)
            except ValueError:
                break
            size -= chunk["bytes"]
            if size < 0:
                break
            chunks.append(chunk)
        return chunks

    def keep(self, index: int, input_hash: str) -> bool:
        """Whether chunk `index` is here, made from this input; if not, all from it on are dropped."""
        if index < len(self.chunks) and self.chunks[index]["input"] == input_hash:
            return True
        if index < len(self.chunks):
            self._cut(self.chunks[:index])
        return False

    def _cut(self, chunks: list[dict]) -> None:
        self.chunks = chunks
        os.truncate(self.rows, sum(chunk["bytes"] for chunk in chunks))
        self.lines.write_text("".join(json.dumps(chunk) + "\n" for chunk in chunks), encoding="utf-8")

    def add(self, matrix: np.ndarray, input_hash: str, truncated: int) -> None:
        """Put a finished chunk on disk."""
        data = np.ascontiguousarray(matrix, dtype="<f4")
        chunk = {"input": input_hash, "bytes": data.nbytes, "shape": data.shape, "truncated": truncated}
        try:
            with writing(self.folder):
                if not self.chunks:
                    self.folder.mkdir(parents=True, exist_ok=True)
                    append(self.rows, b"")
                    append(self.lines, b"")
                    write_json(self.header, self.recipe)
                append(self.rows, data.tobytes())
                append(self.lines, (json.dumps(chunk) + "\n").encode())
        except ResourceError as error:
            kept = f"{len(self.chunks)} finished chunks are kept" if self.chunks else "nothing was finished"
            if not self.chunks:
                shutil.rmtree(self.folder, ignore_errors=True)  # perhaps not even the folder was made
            raise ResourceError(
                f"the disk is full; {kept}.",
                where=str(self.folder),
                hint="Free some space and run the same command again.",
            ) from error
        self.chunks.append(chunk)

    @property
    def truncated(self) -> int:
        return sum(chunk["truncated"] for chunk in self.chunks)

    def matrix(self) -> np.ndarray:
        """All rows, memory-mapped."""
        count = sum(chunk["shape"][0] for chunk in self.chunks)
        return np.memmap(self.rows, dtype="<f4", mode="r", shape=(count, *self.chunks[0]["shape"][1:]))

    def remove(self) -> None:
        shutil.rmtree(self.folder)


def append(file: Path, data: bytes) -> None:
    """Append and wait until it is on disk."""
    with open(file, "ab") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
