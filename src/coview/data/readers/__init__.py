"""Readers for what people have. `open_source` takes the SRC that every command takes first.

SRC is a path or a scheme, then options after commas: ``photos/``, ``captions.csv,text=sentence``,
``multi30k/,lang=en``, ``tabletop:scenes=1000``.
"""

import difflib
import os
import re
import shlex
from pathlib import Path

from coview.data.readers.folder import open_archive, open_file, open_folder
from coview.data.readers.source import FileSource, ImageMissing, OnProblem, refuse
from coview.data.readers.stores import ARCHIVES
from coview.data.readers.table import EXTENSIONS
from coview.data.scenes import Source
from coview.errors import InputError, UsageError, did_you_mean

__all__ = ["FileSource", "ImageMissing", "open_source"]

SCHEMES = ("tabletop", "prh")
TEXT_FILES = tuple(extension + packed for extension in (*EXTENSIONS, ".txt") for packed in ("", ".gz"))
COMPRESSED_TARS = {
    ".tar.gz": "gunzip",
    ".tgz": "gunzip",
    ".tar.bz2": "bunzip2",
    ".tbz2": "bunzip2",
    ".tar.xz": "unxz",
    ".txz": "unxz",
}
OPTION = re.compile(r"([A-Za-z_-]+)=(.*)", re.DOTALL)


def open_source(src: str, on_problem: OnProblem = refuse) -> Source:
    """Open the scenes that SRC names.

    =============================== ====================================================================
    SRC                             scenes
    =============================== ====================================================================
    ``tabletop:scenes=..,seed=..``  the embedded world
    ``prh:REVISION-or-FOLDER``      `minhuh/prh`, see `coview.data.prh`
    ``FILE.jsonl``, ``.csv``        a table, see `coview.data.readers.table`
    ``FILE.txt``                    a text a line, a blank line between scenes
    ``FOLDER``                      a table and its images (beside it, in ``images/``, ``images.zip`` or
                                    ``images.tar``), parallel captions, or images alone
    ``FILE.zip``, ``FILE.tar``      the same in an archive, which is never unpacked
    =============================== ====================================================================

    Text files may be gzipped. Options: ``scene``, ``text``, ``image`` and ``split`` name columns of a table,
    ``images`` says where images lie, ``lang`` chooses the language of parallel captions.

    Parameters
    ----------
    src : str
    on_problem : called with an InputError for each bad row, which is then left out; by default it is raised.

    Raises
    ------
    UsageError
        Unknown scheme or option.
    InputError
        No such file, an unknown extension, or nothing in it that can be read.
    """
    scheme = re.match(r"([A-Za-z][A-Za-z0-9_]+):", src)
    if scheme and not os.path.exists(src):
        if scheme[1] not in SCHEMES:
            raise UsageError(
                f"there is no source of the kind {scheme[1]!r}.",
                where=src,
                hint=did_you_mean(scheme[1], SCHEMES),
            )
        if scheme[1] == "prh":
            from coview.data.prh import open_prh

            return open_prh(src)
        from coview.tabletop import TabletopSource

        return TabletopSource.parse(src)
    path, options = split_options(src)
    try:
        return _open_path(src, path, options, on_problem)
    except OSError as error:  # no permission, a name too long, a disk that fails
        raise InputError(f"cannot be read ({error.strerror}).", where=str(path)) from error


def _open_path(src: str, path: Path, options: dict[str, str], on_problem: OnProblem) -> FileSource:
    if not path.exists():
        there = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, there, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else "Give a file, a folder, an archive or tabletop:"
        raise InputError("there is no such file or folder.", where=str(path), hint=hint)
    if path.is_dir():
        return open_folder(src, path, options, on_problem)
    name = path.name.lower()
    if name.endswith(ARCHIVES):
        return open_archive(src, path, options, on_problem)
    if name.endswith(TEXT_FILES):
        return open_file(src, path, options, on_problem)
    if unpack := next((tool for ending, tool in COMPRESSED_TARS.items() if name.endswith(ending)), ""):
        raise InputError(
            "compressed tars are not read: their members cannot be reached one by one.",
            where=str(path),
            hint=f"Decompress it first, then give the .tar: {unpack} {shlex.quote(str(path))}",
        )
    raise InputError(
        f"files that end in {path.suffix!r} are not known." if path.suffix else "its name has no ending.",
        where=str(path),
        hint=f"Known: {', '.join((*EXTENSIONS, '.txt'))} (or with .gz), .zip, .tar and folders.",
    )


def split_options(src: str) -> tuple[Path, dict[str, str]]:
    """Take the ``key=value`` options off the end of SRC; commas within the path itself are left alone."""
    if os.path.exists(src):
        return Path(src), {}
    path, *parts = src.split(",")
    options: dict[str, str] = {}
    while parts and (option := OPTION.fullmatch(parts[-1])):
        options[option[1]] = option[2]
        parts.pop()
    return Path(",".join((path, *parts))).expanduser(), options
