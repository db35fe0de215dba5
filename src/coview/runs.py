"""What is written to disk and how: atomic files, content hashes, manifests.

A file appears under its name only when it is whole: it is written beside its place under a temporary name
and renamed. A manifest says what made a result: command, configuration, versions, hashes of the inputs.
"""

import errno
import hashlib
import json
import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from coview.errors import InputError, ResourceError, UsageError

UNWRITABLE = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.EEXIST,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
)
ANOTHER_PLACE = "Choose another place to write to."


@contextmanager
def writing(target: str | Path) -> Generator[None]:
    """Say in our words why `target` cannot be written.

    Raises
    ------
    ResourceError
        The disk is full.
    UsageError
        The place cannot be written at all: no permission, a file where a folder is needed.
    """
    try:
        yield
    except Exception as error:
        if _means_disk_full(error):
            raise ResourceError(
                f"the disk is full; {Path(target).name} was not written.",
                where=str(Path(target).parent),
                hint="Free some space, then go on.",
            ) from error
        if isinstance(error, OSError) and (error.errno in UNWRITABLE or _means_no_place(error, Path(target))):
            refuse_inside_file(target)
            raise UsageError(
                f"cannot be written ({error.strerror}).", where=str(target), hint=ANOTHER_PLACE
            ) from error
        raise


def refuse_inside_file(target: str | Path) -> None:
    """Raise UsageError if a file stands where one of the folders of `target` would have to be."""
    if blocking := next((parent for parent in Path(target).parents if parent.is_file()), None):
        what = f"it is a file, and {Path(target).name} needs a folder."
        raise UsageError(what, where=str(blocking), hint=ANOTHER_PLACE)


def _means_no_place(error: OSError, target: Path) -> bool:
    """Whether nothing can be made at `target`, as in /proc; another missing file is none of ours."""
    if error.errno != errno.ENOENT or not isinstance(error.filename, str):
        return False
    place = Path(error.filename)
    temporary = place.parent == target.parent and place.name.startswith(f".{target.name}.")
    return temporary or place in (target, *target.parents)


def _means_disk_full(error: Exception) -> bool:
    """safetensors gives the system's number in words only, and NumPy's `tofile` not even that."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    words = str(error)
    return f"os error {errno.ENOSPC})" in words or bool(re.fullmatch(r"\d+ requested and \d+ written", words))


@contextmanager
def atomic_path(target: str | Path) -> Generator[Path]:
    """Yield a temporary path that is renamed to `target` if the block succeeds and removed if it fails.

    Raises
    ------
    ResourceError, UsageError
        See `writing`; nothing is left behind.
    """
    target = Path(target)
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=target.suffix)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            os.chmod(temporary, 0o644)
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(target: str | Path) -> Generator[Path]:
    """Yield a temporary folder that becomes `target` if the block succeeds and is removed if it fails.

    Where another process has made the same folder in the meantime, that one stays.

    Raises
    ------
    ResourceError, UsageError
        See `writing`; nothing is left behind.
    """
    target = Path(target)
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
        try:
            yield temporary
            try:
                os.rename(temporary, target)
            except OSError:
                if not target.is_dir():
                    raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def write_text(target: str | Path, text: str) -> None:
    with atomic_path(target) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(target: str | Path, document: dict) -> None:
    write_text(target, json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def read_json(source: str | Path) -> dict:
    """Read one JSON object; InputError names the file and line if it is missing or broken."""
    source = Path(source)
    try:
        document = json.loads(source.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError("there is no such file.", where=str(source)) from None
    except json.JSONDecodeError as error:
        raise InputError(f"not valid JSON: {error.msg}.", where=f"{source} line {error.lineno}") from error
    except UnicodeDecodeError as error:
        raise InputError("not valid JSON: it is not UTF-8.", where=str(source)) from error
    if not isinstance(document, dict):
        raise InputError("expected one JSON object.", where=str(source))
    return document


def read_run_config(folder: Path, *, made_by: str = "coview train") -> dict:
    """The configuration in a run folder; InputError names the folder if it is missing."""
    if not folder.is_dir():
        raise InputError("there is no such run folder.", where=str(folder), hint=f"{made_by} makes one.")
    return read_json(folder / "config.json")


def hash_bytes(*parts: bytes) -> str:
    """SHA-256 of the parts, the first 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()[:16]


def hash_file(source: str | Path) -> str:
    """SHA-256 of a file's content, the first 16 hexadecimal digits."""
    with open(source, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:16]


def hash_json(document: dict) -> str:
    """Hash of a JSON document that does not depend on the order of its keys."""
    return hash_bytes(json.dumps(document, sort_keys=True, ensure_ascii=False).encode())


def manifest(**facts) -> dict:
    """Facts about how a result came to be, with versions and the command line added."""
    versions = {name: version(name) for name in ("coview", "numpy", "torch")}
    return {
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": ["coview", *sys.argv[1:]],
        "versions": {"python": platform.python_version(), **versions},
        **facts,
    }
