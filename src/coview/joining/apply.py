"""Apply a map to a file of rows of any size, block by block, into a file that search systems read."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np

from coview.embeddings import Embeddings, check_finite, load_embeddings
from coview.errors import InputError, UsageError
from coview.joining.rotation import Rotation
from coview.joining.space import other_side, require_side
from coview.runs import atomic_path, hash_bytes, manifest, write_text
from coview.tensor_file import write_blocks

SUFFIXES = (".safetensors", ".npy")
TARGETS = ("centred", "raw")


@dataclass(frozen=True)
class Applied:
    """What was written: the path and its shape, and what a reader should know of the rows."""

    path: Path
    rows: int
    width: int
    notes: tuple[str, ...]


def apply_rotation(
    rotation: Rotation,
    source: str | Path,
    target: str | Path,
    *,
    side: str = "x",
    into: str = "centred",
    progress: Callable[[int], None] = lambda done: None,
) -> Applied:
    """Map the rows of a file and write them, never holding more than some thousand.

    Parameters
    ----------
    rotation : Rotation
    source : an embedding file; ``.safetensors`` and ``.npy`` are read block by block
    target : ``.safetensors``, which keeps ids and scenes, or ``.npy``, with the ids in a text file beside it
    side : "x" maps rows of X; "y" prepares rows of Y to be compared with them
    into : "centred" writes unit rows about zero, for the cosine. "raw" writes these times one length, the
        root mean square distance of Y's rows from their mean, plus that mean, so that mapped rows can stand
        in one store with rows of Y as their encoder gives them. A row's own distance from the mean is lost.
    progress : called with the number of rows done

    Raises
    ------
    InputError
        The rows lie in another space, as far as that can be seen, or hold NaN or infinity.
    UsageError
        The target is of another format, or is the source.
    """
    source, target = Path(source), Path(target)
    if target.suffix not in SUFFIXES:
        raise UsageError("mapped rows are written as .safetensors or .npy.", where=f"--out {target}")
    if target.exists() and target.samefile(source):
        raise UsageError("the file cannot be written over itself.", where=f"--out {target}")
    rows = load_embeddings(source, check=False)
    swapped = f"If that is meant: --side {other_side(side)}."
    notes = require_side(rotation, side, rows, str(source), swapped)
    blocks = _blocks(rotation, rows, str(source), side, into, progress)
    shape = (len(rows.matrix), len(rotation.mean_y))
    with atomic_path(target) as temporary:
        if target.suffix == ".npy":
            with open(temporary, "wb") as stream:
                _write_npy(stream, shape, blocks)
        else:
            _write_embeddings(temporary, shape, blocks, rows, _facts(rotation, rows, side, into))
    if target.suffix == ".npy" and rows.ids is not None:
        write_text(target.with_suffix(".ids.txt"), "\n".join(rows.ids) + "\n")
    return Applied(target, *shape, notes)


def _blocks(
    rotation: Rotation, rows: Embeddings, where: str, side: str, into: str, progress: Callable[[int], None]
) -> Iterator[np.ndarray]:
    moved = rotation.mapped_blocks if side == "x" else rotation.target_blocks
    spread = np.float32(rotation.manifest["y"]["spread"])
    done = 0
    try:
        for block in moved(rows.matrix):
            yield block * spread + rotation.mean_y if into == "raw" else block
            done += len(block)
            progress(done)
    except InputError:
        check_finite(rows.matrix, where, rows.ids)  # the same, with the file and the id
        raise


def _facts(rotation: Rotation, rows: Embeddings, side: str, into: str) -> dict:
    """The manifest of mapped rows. Its fingerprint names the space: Y's, centred as this rotation does."""
    space = hash_bytes(rotation.mean_y.tobytes(), into.encode())
    return {
        "model": f"{rotation.manifest['y']['model']}, {into}",
        "fingerprint": f"mapped-{space}",
        "mapped": {
            "side": side,
            "into": into,
            "rotation": rotation.manifest["signature"],
            "encoder": rotation.manifest["y"].get("encoder"),
        },
        "from": rows.manifest,
        "versions": manifest()["versions"],
    }


def _write_npy(stream: BinaryIO, shape: tuple[int, int], blocks: Iterator[np.ndarray]) -> None:
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    for block in blocks:
        stream.write(np.ascontiguousarray(block, dtype="<f4").data)


def _write_embeddings(
    target: Path, shape: tuple[int, int], blocks: Iterator[np.ndarray], rows: Embeddings, facts: dict
) -> None:
    described: dict = {"embeddings": (np.dtype(np.float32), shape)}
    words = {name: getattr(rows, name) for name in ("ids", "scenes") if getattr(rows, name) is not None}
    texts = {
        name: np.frombuffer("\n".join(column).encode(), dtype=np.uint8) for name, column in words.items()
    }
    described |= {name: (text.dtype, text.shape) for name, text in texts.items()}
    write_blocks(target, described, chain(blocks, texts.values()), {"manifest": json.dumps(facts)})
