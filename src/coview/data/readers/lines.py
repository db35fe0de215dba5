"""Lines of a text file, plain or gzipped, on disk or inside an archive, with their row numbers.

Rows count from 1, as an editor shows them, so a header is row 1.
"""

import gzip
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from coview.errors import InputError

MAX_LINE_BYTES = 16 * 2**20


@dataclass(frozen=True)
class TextFile:
    """A text file wherever it lies.

    Attributes
    ----------
    label : its name in messages; if it ends in ``.gz`` the content is decompressed
    open : opens its bytes
    """

    label: str
    open: Callable[[], BinaryIO]

    @classmethod
    def on_disk(cls, path: Path) -> "TextFile":
        return cls(str(path), lambda: path.open("rb"))

    def at(self, row: int) -> str:
        """How messages name one of its rows."""
        return f"{self.label} row {row}"


def read_lines(file: TextFile) -> Iterator[tuple[int, str]]:
    """Yield (row, line); a line keeps its line break. A byte order mark is dropped.

    Raises
    ------
    InputError
        The bytes are not UTF-8, hold a NUL or a line of more than 16 MiB, or their compression is broken.
    """
    row = 0
    with _open(file) as raw, _decompressed(file, raw) as stream:
        try:
            # Bytes are split at \n alone: str.splitlines would also split at U+2028 and its like.
            while line := stream.readline(MAX_LINE_BYTES + 1):
                row += 1
                yield row, _decode(line.removeprefix(b"\xef\xbb\xbf") if row == 1 else line, file.at(row))
        except (OSError, EOFError, zlib.error, zipfile.BadZipFile) as error:
            raise InputError(
                f"the compressed data breaks off or is damaged ({error}).",
                where=f"{file.label} after row {row}",
                hint="Get the file again, or compress it anew.",
            ) from error


def count_lines(file: TextFile) -> int:
    return sum(1 for _ in read_lines(file))


def _open(file: TextFile) -> BinaryIO:
    try:
        return file.open()
    except OSError as error:
        raise InputError(f"the file cannot be read ({error.strerror}).", where=file.label) from error


def _decompressed(file: TextFile, raw: BinaryIO):
    return gzip.GzipFile(fileobj=raw) if file.label.endswith(".gz") else nullcontext(raw)


def _decode(line: bytes, where: str) -> str:
    if len(line) > MAX_LINE_BYTES:
        raise InputError(
            f"the line is longer than {MAX_LINE_BYTES // 2**20} MiB.",
            where=where,
            hint="One row should be one scene or one text; is this a text file?",
        )
    if line.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError("the file is UTF-16.", where=where, hint="Save it as UTF-8.")
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        byte = f"byte {error.start + 1} of the row is 0x{line[error.start]:02x}"
        raise InputError(
            f"not valid UTF-8: {byte}.",
            where=where,
            hint="Save the file as UTF-8, for example with `iconv -f latin1 -t utf-8`.",
        ) from None
    if "\0" in text:
        raise InputError(
            f"character {text.index(chr(0)) + 1} of the row is NUL.",
            where=where,
            hint="Save it as UTF-8 text; is this a text file?",
        )
    return text
