"""Safetensors files without the safetensors package, whose NumPy reader copies: tensors stay memory-mapped.

Eight bytes of length, a JSON header that names each tensor's type, shape and place, then the tensors. Nothing
in the file can be run, and reading it needs no PyTorch.
"""

import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coview.errors import InputError

# How safetensors names the types NumPy has; bfloat16, which NumPy lacks, is widened when read.
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "U8": "u1", "BF16": "<u2"}
PICKLE_PROTOCOLS = (b"\x02", b"\x03", b"\x04", b"\x05")
CONVERT = "Convert it once, where you trust it: numpy.save('rows.npy', tensor.float().numpy())."


@dataclass(frozen=True)
class TensorFile:
    """The header of a safetensors file.

    Attributes
    ----------
    source : path
    metadata : dict of str, the free part of the header
    shapes : dict from the name of each tensor to its shape; () where the header does not say it readably
    """

    source: Path
    metadata: dict
    shapes: dict[str, tuple[int, ...]]
    header: dict
    begin: int

    def tensor(self, name: str) -> np.ndarray:
        """One tensor, memory-mapped (bfloat16 is read whole, as float32).

        Raises
        ------
        InputError
            There is no such tensor, its description is not readable, or the file is cut short.
        """
        try:
            facts = self.header[name]
            dtype, shape = np.dtype(DTYPES[facts["dtype"]]), tuple(facts["shape"])
            first, last = (self.begin + offset for offset in facts["data_offsets"])
        except (KeyError, TypeError, ValueError) as error:
            what = f"tensor {name!r} has no readable description."
            raise InputError(what, where=str(self.source)) from error
        count = int(np.prod(shape, dtype=np.int64))
        if last > self.source.stat().st_size or last - first != dtype.itemsize * count:
            what = f"tensor {name!r} is cut short; the file is not whole."
            raise InputError(what, where=str(self.source))
        if count == 0:
            return np.empty(shape, dtype)
        array = np.memmap(self.source, dtype=dtype, mode="r", offset=first, shape=shape)
        return _widen_bfloat16(array) if facts["dtype"] == "BF16" else array


def open_tensors(source: str | Path) -> TensorFile:
    """Read the header of a safetensors file.

    Raises
    ------
    InputError
        There is no such file, or it is no safetensors file.
    """
    source = Path(source)
    if not source.is_file():
        raise InputError("there is no such file.", where=str(source))
    size = source.stat().st_size
    refuse_pickle(source, "safetensors")
    with open(source, "rb") as stream:
        head = stream.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else size
        if 8 + length > size:
            raise InputError(
                "not a whole safetensors file: its header is longer than the file.", where=str(source)
            )
        try:
            header = json.loads(stream.read(length))
            metadata = dict(header.pop("__metadata__", {}))
        except (ValueError, TypeError, AttributeError) as error:
            raise InputError("not a safetensors file: its header is not JSON.", where=str(source)) from error
    shapes = {name: _shape(facts) for name, facts in header.items()}
    return TensorFile(source, metadata, shapes, header, 8 + length)


def refuse_pickle(source: Path, kind: str) -> None:
    """Raise InputError if a file that is called a `kind` file begins as a pickle or a zip does.

    A safetensors file may begin with a pickle's first byte, as the length of its header; that header's brace
    is then its ninth byte.
    """
    with open(source, "rb") as stream:
        head = stream.read(9)
    if head[:2] == b"PK":
        what, hint = (
            "a zip, as torch.save and numpy.savez write them",
            f"If it is an .npz, call it so. {CONVERT}",
        )
    elif head[:1] == b"\x80" and head[1:2] in PICKLE_PROTOCOLS and head[8:] != b"{":
        what, hint = "a pickle, which can run code when opened", CONVERT
    else:
        return
    raise InputError(
        f"not a readable {kind} file: it is {what}; it was not opened.", where=str(source), hint=hint
    )


def write_tensors(target: Path, tensors: dict[str, np.ndarray], metadata: dict[str, str]) -> None:
    """Write tensors one after the other without gaps; uint16 stands for bfloat16."""
    described = {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()}
    write_blocks(target, described, tensors.values(), metadata)


def write_blocks(
    target: Path,
    described: dict[str, tuple[np.dtype, tuple[int, ...]]],
    blocks: Iterable[np.ndarray],
    metadata: dict[str, str],
) -> None:
    """Write tensors that never are in memory whole.

    Parameters
    ----------
    target : path
    described : dict from name to (dtype, shape), in the order of their data
    blocks : arrays that laid end to end are the data of all tensors
    metadata : dict of str
    """
    codes = {np.dtype(dtype): code for code, dtype in DTYPES.items()}
    header: dict = {"__metadata__": metadata}
    place = 0
    for name, (dtype, shape) in described.items():
        size = np.dtype(dtype).itemsize * int(np.prod(shape, dtype=np.int64))
        header[name] = {
            "dtype": codes[np.dtype(dtype)],
            "shape": shape,
            "data_offsets": [place, place + size],
        }
        place += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # so that the first tensor lies on a multiple of 8
    with open(target, "wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        for block in blocks:
            stream.write(np.ascontiguousarray(block).reshape(-1).view(np.uint8).data)


def _shape(facts) -> tuple[int, ...]:
    shape = facts.get("shape") if isinstance(facts, dict) else None
    return tuple(shape) if isinstance(shape, list) else ()


def _widen_bfloat16(words: np.ndarray) -> np.ndarray:
    """bfloat16 is the upper half of a float32."""
    return (words.astype(np.uint32) << 16).view(np.float32)
