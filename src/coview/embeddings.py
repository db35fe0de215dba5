"""What an embedding file is: a matrix, an id for each row, the scene of each row, and a manifest.

The native format is safetensors: tensor ``embeddings`` (N, D) or (N, L, D) for L layers, ``ids`` and
``scenes`` as newline-joined UTF-8 bytes, and the manifest as JSON in the header.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from coview.errors import InputError
from coview.runs import atomic_path


@dataclass(frozen=True)
class Embeddings:
    """Rows of one encoder.

    Attributes
    ----------
    matrix : ndarray of shape (N, D) or (N, L, D)
    ids : tuple of N str, or None when the file has none (rows are then paired by order)
    scenes : tuple of N str, or None; rows of one scene are views of one state of the world
    manifest : dict, what made the rows
    """

    matrix: np.ndarray
    ids: tuple[str, ...] | None = None
    scenes: tuple[str, ...] | None = None
    manifest: dict = field(default_factory=dict)


def save_embeddings(target: str | Path, embeddings: Embeddings) -> None:
    """Write `embeddings` as safetensors, atomically."""
    from safetensors.numpy import save_file

    tensors = {"embeddings": np.ascontiguousarray(embeddings.matrix)}
    for name in ("ids", "scenes"):
        words = getattr(embeddings, name)
        if words is not None:
            tensors[name] = np.frombuffer("\n".join(words).encode(), dtype=np.uint8)
    with atomic_path(target) as temporary:
        save_file(tensors, temporary, metadata={"manifest": json.dumps(embeddings.manifest)})


def load_embeddings(source: str | Path) -> Embeddings:
    """Read an embedding file; the matrix of a safetensors or npy file stays memory-mapped."""
    raise InputError("not read yet", where=str(source))
