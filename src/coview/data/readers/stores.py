"""Where named files lie: a folder, a zip or a tar. Archives are read member by member, never unpacked.

A name from somebody's table or archive is only ever a key to look up. Names that are absolute or contain
``..`` find nothing; links and devices in an archive are not seen at all.
"""

import os
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from functools import cached_property
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol

from coview.data.images import is_image_name
from coview.errors import InputError

MAX_MEMBER_BYTES = 2 * 2**30
MAX_RATIO = 100  # a member that grows more than this is a bomb; text shrinks 3 to 15 times
ARCHIVES = (".zip", ".tar")


class Store(Protocol):
    """Named files at one place."""

    label: str

    @property
    def unsafe(self) -> int:
        """How many entries were left out because their names are absolute or contain ``..``."""
        ...

    def names(self) -> Iterable[str]:
        """The names of all files, sorted."""
        ...

    def has_images(self) -> bool:
        """Whether some of the files are images (of a folder: those right in it)."""
        ...

    def open(self, name: str) -> BinaryIO | None:
        """The bytes of a file, seekable, or None if there is no such file."""
        ...


def open_store(path: Path) -> Store:
    """The store for a folder, ``.zip`` or ``.tar``; InputError for anything else."""
    if path.is_dir():
        return FolderStore(path)
    if not path.exists():
        raise InputError("there is no such folder or archive.", where=str(path))
    match path.suffix.lower():
        case ".zip":
            return ZipStore(path)
        case ".tar":
            return TarStore(path)
    raise InputError(
        "not a folder, .zip or .tar.",
        where=str(path),
        hint="Decompress a .tar.gz first: compressed as a whole, its members cannot be reached one by one.",
    )


def image_stores(folder: Path) -> list[Store]:
    """Where images of a table in `folder` may lie: there, in ``images/``, ``images.zip``, ``images.tar``."""
    beside = [path for path in sorted(folder.iterdir()) if path.stem.lower() == "images"]
    stores = [open_store(path) for path in beside if path.is_dir() or path.suffix.lower() in ARCHIVES]
    return [FolderStore(folder), *stores]


def is_inside(name: str) -> bool:
    """Whether a name stays within its store."""
    path = PurePosixPath(name)
    return bool(name) and "\0" not in name and not path.is_absolute() and ".." not in path.parts


class FolderStore:
    """Files below a folder."""

    unsafe = 0

    def __init__(self, folder: Path):
        self.folder, self.label = folder, str(folder)

    def names(self) -> Iterator[str]:
        for path in sorted(self.folder.rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                yield path.relative_to(self.folder).as_posix()

    def has_images(self) -> bool:
        return any(is_image_name(path.name) for path in self.folder.iterdir())

    def outside(self, name: str) -> Path | None:
        """The real file that a name reaches by leaving the folder: to point at, never opened."""
        path = self.folder / name
        return path if not is_inside(name) and os.path.isfile(path) else None

    def open(self, name: str) -> BinaryIO | None:
        if not is_inside(name):
            return None
        try:
            return (self.folder / name).open("rb")
        except PermissionError as error:
            raise InputError("no permission to read the file.", where=str(self.folder / name)) from error
        except OSError:  # not there, a folder, a name too long for the file system
            return None


class _Archive:
    """Members by name. A name also finds the one member that it ends: many archives wrap a folder around."""

    def __init__(self, path: Path):
        self.path, self.label = path, str(path)

    @cached_property
    def _listed(self) -> list[tuple[str, object]]:
        """All regular files with their names. Read at first use: a run on texts never needs it."""
        try:
            return list(self._list())
        except (OSError, EOFError, zipfile.BadZipFile, tarfile.TarError, ValueError) as error:
            raise InputError(
                f"the archive is broken ({error}).", where=self.label, hint="Get the file again."
            ) from error

    @cached_property
    def _members(self) -> dict:
        """The files whose names stay inside, by name."""
        # macOS puts a shadow of each file into its zips.
        return {name: member for name, member in self._listed if is_inside(name) and "__MACOSX/" not in name}

    @property
    def unsafe(self) -> int:
        return sum(not is_inside(name) for name, _ in self._listed)

    @cached_property
    def _ends(self) -> dict[str, list[str]]:
        ends: dict[str, list[str]] = {}
        for name in self._members:
            ends.setdefault(PurePosixPath(name).name, []).append(name)
        return ends

    def _list(self) -> Iterable[tuple[str, object]]:
        raise NotImplementedError

    def names(self) -> list[str]:
        return sorted(self._members)

    def has_images(self) -> bool:
        return any(map(is_image_name, self._members))

    def _find(self, name: str) -> str | None:
        if name in self._members:
            return name
        if not is_inside(name):
            return None
        candidates = self._ends.get(PurePosixPath(name).name, [])
        found = [member for member in candidates if member.endswith("/" + name)]
        return found[0] if len(found) == 1 else None


class ZipStore(_Archive):
    """Files in a zip."""

    @cached_property
    def _zip(self) -> zipfile.ZipFile:
        return zipfile.ZipFile(self.path)

    def _list(self) -> Iterable[tuple[str, zipfile.ZipInfo]]:
        return [(info.filename, info) for info in self._zip.infolist() if not info.is_dir()]

    def open(self, name: str) -> BinaryIO | None:
        found = self._find(name)
        if found is None:
            return None
        info = self._members[found]
        where = f"{self.label}/{found}"
        if info.file_size > MAX_MEMBER_BYTES or info.file_size > 2**20 + MAX_RATIO * info.compress_size:
            raise InputError(
                f"the member unpacks to {info.file_size:,} bytes from {info.compress_size:,}.",
                where=where,
                hint=f"They may grow {MAX_RATIO}-fold, to 2 GiB at most. Unpack it yourself if you trust it.",
            )
        try:
            # A ZipExtFile stops at the size just checked, whatever the compressed stream holds.
            return self._zip.open(info)  # pyrefly: ignore[bad-return]
        except (RuntimeError, zipfile.BadZipFile) as error:  # encrypted, or compressed in an exotic way
            raise InputError(f"cannot be read ({error}).", where=where, hint="Make the zip anew.") from error


class TarStore(_Archive):
    """Files in an uncompressed tar; its members are found by one pass over the headers."""

    def _list(self) -> Iterable[tuple[str, tuple[int, int]]]:
        with tarfile.open(self.path, "r:") as tar:
            regular = [member for member in tar if member.isreg() and not member.issparse()]
        end = self.path.stat().st_size
        if regular and regular[-1].offset_data + regular[-1].size > end:
            raise EOFError("it ends within its last member")
        return [(member.name.removeprefix("./"), (member.offset_data, member.size)) for member in regular]

    def open(self, name: str) -> BinaryIO | None:
        found = self._find(name)
        if found is None:
            return None
        offset, size = self._members[found]
        if size > MAX_MEMBER_BYTES:
            raise InputError(f"the member has {size:,} bytes.", where=f"{self.label}/{found}")
        with self.path.open("rb") as stream:
            stream.seek(offset)
            return BytesIO(stream.read(size))
