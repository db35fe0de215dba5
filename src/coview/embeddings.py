"""What an embedding file is: a matrix, an id for each row, the scene of each row, and a manifest.

The native format is safetensors: tensor ``embeddings`` (N, D) or (N, L, D) for L layers, ``ids`` and
``scenes`` as newline-joined UTF-8 bytes, and the manifest as JSON in the header.
"""

import json
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from coview.errors import InputError, MissingError, did_you_mean
from coview.runs import atomic_path
from coview.tensor_file import CONVERT, open_tensors, refuse_pickle, write_tensors

MATRIX_NAMES = ("embeddings", "emb")
PICKLED = (".pt", ".pth", ".bin", ".pkl", ".pickle")
SUFFIXES = (".safetensors", ".npy", ".npz", ".parquet")
ROWS_AT_ONCE = 4096


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


def save_embeddings(target: str | Path, embeddings: Embeddings, *, bfloat16: bool = False) -> None:
    """Write `embeddings` as safetensors, atomically.

    Parameters
    ----------
    target : path
    embeddings : Embeddings
    bfloat16 : round the matrix to bfloat16: half of float32's size with all of its range (float16 overflows
        on the largest activations of language models); it is read back as float32

    Raises
    ------
    InputError
        An id or scene holds a line break, which the format cannot carry.
    """
    matrix = np.ascontiguousarray(embeddings.matrix)
    tensors = {"embeddings": _narrow_to_bfloat16(matrix) if bfloat16 else matrix}
    for name in ("ids", "scenes"):
        words = getattr(embeddings, name)
        if words is not None:
            if broken := [word for word in words if "\n" in word]:
                raise InputError(f"{name} may not hold line breaks: {broken[0]!r}.", where=str(target))
            tensors[name] = np.frombuffer("\n".join(words).encode(), dtype=np.uint8)
    with atomic_path(target) as temporary:
        write_tensors(temporary, tensors, {"manifest": json.dumps(embeddings.manifest)})


def _narrow_to_bfloat16(matrix: np.ndarray) -> np.ndarray:
    """The upper half of each float32, rounded to the nearest, ties to even; as uint16."""
    bits = matrix.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def load_embeddings(source: str | Path, *, check: bool = True) -> Embeddings:
    """Read an embedding file; the matrix of a safetensors or npy file stays memory-mapped.

    Parameters
    ----------
    source : path
        ``.safetensors`` (tensor ``embeddings`` or ``emb``, or the only matrix there is), ``.npy``, ``.npz``
        (``emb`` or ``embeddings``, ``ids``, ``scenes``) or ``.parquet`` (columns ``id``, ``embedding``,
        ``scene``). A text file beside it, ``NAME.ids.txt``, one id a line, names the rows of a file that
        has no ids of its own.
    check : read every row once to see that it is finite; who reads all rows anyway may check them then

    Raises
    ------
    InputError
        The file is missing, broken, a pickle, or holds a row with NaN or infinity (the row is named).
    MissingError
        A Parquet file, and pyarrow is not installed.
    """
    source = Path(source)
    if not source.is_file():
        raise InputError("there is no such file.", where=str(source))
    suffix = source.suffix.lower()
    if suffix in PICKLED:
        raise InputError(
            "pickled files can run code when opened and are refused.",
            where=str(source),
            hint=CONVERT,
        )
    if suffix not in SUFFIXES:
        raise InputError(
            f"{suffix or 'a file without suffix'} is not an embedding format.",
            where=str(source),
            hint=did_you_mean(suffix, SUFFIXES),
        )
    readers = {
        ".safetensors": _read_safetensors,
        ".npy": _read_npy,
        ".npz": _read_npz,
        ".parquet": _read_parquet,
    }
    embeddings = readers[suffix](source)
    if embeddings.ids is None:
        embeddings = Embeddings(
            embeddings.matrix, _sidecar_ids(source), embeddings.scenes, embeddings.manifest
        )
    _check_shape(embeddings, str(source))
    if check:
        check_finite(embeddings.matrix, str(source), embeddings.ids)
    return embeddings


def check_finite(matrix, where: str, ids: tuple[str, ...] | None = None) -> None:
    """Raise InputError naming the first row that holds NaN or infinity; reads in blocks."""
    for start in range(0, len(matrix), ROWS_AT_ONCE):
        block = np.asarray(matrix[start : start + ROWS_AT_ONCE])
        good = np.isfinite(block.reshape(len(block), -1)).all(axis=1)
        if not good.all():
            row = start + int(np.argmin(good))
            what = "NaN" if np.isnan(block[row - start]).any() else "infinite values"
            overflow = what != "NaN" and block.dtype == np.float16
            raise InputError(
                f"{_named(row, ids)} holds {what}{', a float16 overflow' if overflow else ''}.",
                where=where,
                hint="Rows count from 0. "
                + (
                    "Embed again and store float32 or bfloat16." if overflow else "Embed it again or drop it."
                ),
            )


def check_directions(matrix, where: str, ids: tuple[str, ...] | None = None) -> None:
    """Raise InputError naming the first row that is all zero, or saying that all rows are equal."""
    hint = "Rows count from 0. Embed it again or drop it."
    differ = False
    for start in range(0, len(matrix), ROWS_AT_ONCE):
        block = np.asarray(matrix[start : start + ROWS_AT_ONCE])
        zero = ~block.reshape(len(block), -1).any(axis=1)
        if zero.any():
            what = f"{_named(start + int(np.argmax(zero)), ids)} is all zero: it has no direction."
            raise InputError(what, where=where, hint=hint)
        differ = differ or bool((block != matrix[:1]).any())
    if not differ and len(matrix) > 1:
        what = f"all {len(matrix):,} rows are equal: they have no directions to be told apart by."
        raise InputError(what, where=where, hint="Embed it again.")


def _named(row: int, ids: tuple[str, ...] | None) -> str:
    return f"row {row}" if ids is None else f"row {row} (id {ids[row]!r})"


def _check_shape(embeddings: Embeddings, where: str) -> None:
    matrix = embeddings.matrix
    if matrix.ndim not in (2, 3):
        raise InputError(f"expected (N, D) or (N, L, D), found shape {matrix.shape}.", where=where)
    if matrix.dtype.kind != "f":
        raise InputError(
            f"expected floating point numbers, found {matrix.dtype}.",
            where=where,
            hint="Labels or token ids are no embeddings. If they are, save rows.astype('float32').",
        )
    if 0 in matrix.shape:
        raise InputError(f"the matrix is empty: shape {matrix.shape}.", where=where)
    for name in ("ids", "scenes"):
        words = getattr(embeddings, name)
        if words is not None and len(words) != len(matrix):
            raise InputError(f"{len(words)} {name} for {len(matrix)} rows.", where=where)
    if embeddings.ids is not None and len(set(embeddings.ids)) < len(embeddings.ids):
        seen: set[str] = set()
        twice = next(word for word in embeddings.ids if word in seen or seen.add(word))
        raise InputError(f"id {twice!r} stands for more than one row.", where=where)


def _sidecar_ids(source: Path) -> tuple[str, ...] | None:
    beside = source.with_suffix(".ids.txt")
    if not beside.is_file():
        return None
    return tuple(beside.read_text(encoding="utf-8").rstrip("\n").split("\n"))


def _read_safetensors(source: Path) -> Embeddings:
    file = open_tensors(source)
    try:
        manifest = json.loads(file.metadata.get("manifest", "{}"))
    except (ValueError, TypeError) as error:
        raise InputError("its manifest is not JSON.", where=str(source)) from error

    def words(name: str) -> tuple[str, ...] | None:
        return tuple(_text(file.tensor(name).tobytes(), source).split("\n")) if name in file.shapes else None

    matrices = [name for name, shape in file.shapes.items() if len(shape) in (2, 3)]
    named = [name for name in MATRIX_NAMES if name in file.shapes] or matrices
    if len(named) != 1:
        raise InputError(
            f"which tensor holds the rows? Found: {', '.join(file.shapes) or 'none'}.",
            where=str(source),
            hint="Name one of them 'embeddings'.",
        )
    return Embeddings(file.tensor(named[0]), words("ids"), words("scenes"), manifest)


def _read_npy(source: Path) -> Embeddings:
    refuse_pickle(source, ".npy")
    try:
        return Embeddings(np.lib.format.open_memmap(source, mode="r"))
    except (ValueError, EOFError, OSError) as error:
        raise _unreadable(source, error) from error


def _unreadable(source: Path, error: Exception) -> InputError:
    """What NumPy means when it cannot read a file, in our words."""
    what, hint = "its header is broken or it is cut short", "Write it again."
    if isinstance(error, OSError) and error.strerror:
        what, hint = error.strerror, ""
    elif "Python objects" in str(error) or "Object arrays" in str(error):
        what = "it holds Python objects, which can run code when opened, and no numbers"
        hint = "Save the rows as numbers: numpy.save('rows.npy', numpy.stack(rows).astype('float32'))."
    return InputError(f"not a readable {source.suffix} file: {what}.", where=str(source), hint=hint)


def _read_npz(source: Path) -> Embeddings:
    try:
        with np.load(source, allow_pickle=False) as archive:
            arrays = {
                name: archive[name] for name in archive.files if name in (*MATRIX_NAMES, "ids", "scenes")
            }
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise _unreadable(source, error) from error
    named = [name for name in MATRIX_NAMES if name in arrays]
    if len(named) != 1:
        raise InputError("expected one array named 'emb' or 'embeddings'.", where=str(source))
    return Embeddings(arrays[named[0]], _tuple(arrays.get("ids")), _tuple(arrays.get("scenes")))


def _read_parquet(source: Path) -> Embeddings:
    try:
        import pyarrow.parquet as parquet  # pyrefly: ignore[missing-import]
    except ImportError:
        raise MissingError(
            "reading Parquet needs pyarrow.", where=str(source), hint="pip install 'coview[data]'"
        ) from None
    try:
        table = parquet.read_table(source)
    except (OSError, ValueError) as error:  # pyarrow's own errors derive from ValueError
        raise InputError(f"not a readable Parquet file: {error}.", where=str(source)) from error
    columns = {name.lower(): name for name in table.column_names}
    rows = next((columns[name] for name in ("embedding", *MATRIX_NAMES) if name in columns), None)
    if rows is None:
        raise InputError(
            f"no column named 'embedding'; found {', '.join(table.column_names)}.", where=str(source)
        )
    column = table.column(rows)
    widths = {0 if row is None else len(row) for row in column}
    if len(widths) != 1:
        raise InputError(
            f"column {rows!r} has rows of unequal length: {sorted(widths)[:3]}.", where=str(source)
        )
    matrix = (
        column.combine_chunks().flatten().to_numpy(zero_copy_only=False).reshape(len(column), widths.pop())
    )

    def words(name: str) -> tuple[str, ...] | None:
        return _tuple(table.column(columns[name]).to_pylist()) if name in columns else None

    return Embeddings(matrix, words("id"), words("scene"))


def _tuple(words: Iterable | None) -> tuple[str, ...] | None:
    return None if words is None else tuple(str(word) for word in words)


def _text(data: bytes, source: Path) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError("ids or scenes are not valid UTF-8.", where=str(source)) from error
