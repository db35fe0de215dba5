"""A map from one space into another, as it is kept in a file: matrix, means, and what it was made of.

``rotation.map(x)`` and ``rotation.target(y)`` give unit rows of one space; their dot product is the cosine
that everything downstream reads. Both use the means of the rows the map was fitted on, never of the rows at
hand: means of test rows would leak, and differ from one query to the next.
"""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coview.alignment.rows import ROWS_AT_ONCE, read_rows, row_norms
from coview.embeddings import check_finite
from coview.errors import InputError
from coview.runs import atomic_path, hash_bytes
from coview.tensor_file import open_tensors, write_tensors

SCHEMA = "coview.rotation/1"
DIGEST_BYTES = 8
MAKE_ONE = "coview rotate fit A B --out FILE writes one."


@dataclass(frozen=True)
class Rotation:
    """A linear map between centred, unit rows of two spaces.

    Attributes
    ----------
    matrix : ndarray of shape (Dx, Dy), float32; semi-orthogonal unless the manifest's recipe says otherwise
    mean_x, mean_y : ndarrays of shape (Dx,) and (Dy,), float32: the mean rows of the training rows
    manifest : dict
        ``x`` and ``y`` (see `coview.joining.space`), ``recipe``, ``pairs``, ``rank``, ``signature``.
    fitted_on : ndarray of shape (S, 8), uint8, or None
        A digest of each scene the map was fitted on, so that an evaluation can leave those out.
    """

    matrix: np.ndarray
    mean_x: np.ndarray
    mean_y: np.ndarray
    manifest: dict
    fitted_on: np.ndarray | None = None

    def map(self, x) -> np.ndarray:
        """Rows of X in the space of Y: (N, Dx) to unit rows (N, Dy), float32.

        A row equal to the mean has no direction and stays zero.

        Raises
        ------
        InputError
            The rows have another width, or one holds NaN or infinity.
        """
        return _joined(self.mapped_blocks(x), len(self.mean_y))

    def target(self, y) -> np.ndarray:
        """Rows of Y as mapped rows are compared with them: centred unit rows (N, Dy), float32."""
        return _joined(self.target_blocks(y), len(self.mean_y))

    def mapped_blocks(self, x) -> Iterator[np.ndarray]:
        """`map`, some thousand rows at a time: for files larger than memory."""
        for rows in _centred_blocks(x, self.mean_x, "X"):  # whose lengths the scaling below takes back anyway
            yield unit_rows(rows @ self.matrix)

    def target_blocks(self, y) -> Iterator[np.ndarray]:
        """`target`, some thousand rows at a time."""
        for rows in _centred_blocks(y, self.mean_y, "Y"):
            yield unit_rows(rows)

    def was_fitted_on(self, scenes) -> np.ndarray:
        """Which of these scenes (a sequence of N str) the map has seen: N bool."""
        if self.fitted_on is None:
            return np.zeros(len(scenes), dtype=bool)
        known = {row.tobytes() for row in self.fitted_on}
        return np.array([digest(scene) in known for scene in scenes], dtype=bool)


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """Rows scaled to unit length; zero rows stay zero."""
    norms = row_norms(rows)[:, None]
    return rows / np.where(norms > 0, norms, 1)


def digest(scene: str) -> bytes:
    """Eight bytes that stand for a scene id."""
    return bytes.fromhex(hash_bytes(scene.encode()))[:DIGEST_BYTES]


def scene_digests(scenes: Collection[str]) -> np.ndarray:
    """Digests of scene ids, sorted: (S, 8) uint8, as a rotation keeps what it was fitted on."""
    return np.frombuffer(b"".join(sorted(map(digest, scenes))), dtype=np.uint8).reshape(-1, DIGEST_BYTES)


def save_rotation(target: str | Path, rotation: Rotation) -> None:
    """Write a rotation as safetensors, atomically."""
    parts = {"matrix": rotation.matrix, "mean_x": rotation.mean_x, "mean_y": rotation.mean_y}
    tensors: dict[str, np.ndarray] = {}
    tensors |= {name: np.ascontiguousarray(value, dtype=np.float32) for name, value in parts.items()}
    if rotation.fitted_on is not None:
        tensors["fitted_on"] = np.ascontiguousarray(rotation.fitted_on, dtype=np.uint8)
    metadata = {"schema": SCHEMA, "manifest": json.dumps(rotation.manifest, ensure_ascii=False)}
    with atomic_path(target) as temporary:
        write_tensors(temporary, tensors, metadata)


def load_rotation(source: str | Path) -> Rotation:
    """Read a rotation.

    Raises
    ------
    InputError
        The file is missing, holds no rotation, or its means are not those its manifest speaks of.
    """
    where = str(source)
    if not Path(source).is_file():
        raise InputError("there is no such file.", where=where, hint=MAKE_ONE)
    file = open_tensors(source)
    if file.metadata.get("schema") != SCHEMA:
        raise InputError("this file holds no rotation.", where=where, hint=MAKE_ONE)
    try:
        manifest = json.loads(file.metadata["manifest"])
    except (KeyError, ValueError) as error:
        raise InputError("the rotation's manifest is not readable.", where=where) from error
    matrix, mean_x, mean_y = (np.array(file.tensor(name)) for name in ("matrix", "mean_x", "mean_y"))
    if matrix.shape != (*mean_x.shape, *mean_y.shape):
        what = f"a matrix {matrix.shape} does not fit means {mean_x.shape} and {mean_y.shape}."
        raise InputError(what, where=where)
    if not all(np.isfinite(part).all() for part in (matrix, mean_x, mean_y)):
        raise InputError("the rotation holds NaN or infinite values.", where=where, hint="Fit it again.")
    for name, mean in (("x", mean_x), ("y", mean_y)):
        if manifest.get(name, {}).get("mean_hash") != mean_hash(mean):
            what = f"the mean of {name.upper()} is not the one the manifest speaks of."
            raise InputError(what, where=where, hint="The file was changed; fit it again.")
    fitted_on = np.array(file.tensor("fitted_on")) if "fitted_on" in file.shapes else None
    return Rotation(matrix, mean_x, mean_y, manifest, fitted_on)


def mean_hash(mean: np.ndarray) -> str:
    """The hash by which a space's mean is known, sixteen hexadecimal digits."""
    return hash_bytes(np.ascontiguousarray(mean, dtype="<f4").tobytes())


def _centred_blocks(rows, mean: np.ndarray, side: str) -> Iterator[np.ndarray]:
    if len(rows.shape) != 2 or rows.shape[1] != len(mean):
        raise InputError(
            f"rows of {side} are {len(mean)} numbers wide, and these have shape {tuple(rows.shape)}.",
            hint="The rotation was fitted on another space; fit one on this.",
        )
    mean = mean.astype(np.float32)
    for start in range(0, rows.shape[0], ROWS_AT_ONCE):
        block = read_rows(rows, slice(start, start + ROWS_AT_ONCE)).astype(np.float32, copy=False)
        with np.errstate(invalid="ignore"):
            centred = block - mean
            finite = np.isfinite(centred.sum())
        if not finite:
            check_finite(block, f"rows of {side} from {start} on")
        yield centred


def _joined(blocks: Iterator[np.ndarray], width: int) -> np.ndarray:
    return np.concatenate([np.empty((0, width), dtype=np.float32), *blocks])
