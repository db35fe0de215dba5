"""Folders and archives: a table of captions with its images, parallel caption files, or images alone."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from coview.data.images import is_image_name
from coview.data.readers import parallel, table
from coview.data.readers.lines import TextFile, read_lines
from coview.data.readers.plain import PlainSource
from coview.data.readers.records import csv_header
from coview.data.readers.source import FileSource, OnProblem, id_fault
from coview.data.readers.stores import FolderStore, Store, image_stores, open_store
from coview.data.scenes import HASH_SPLIT_NOTE, Scene, split_by_hash
from coview.errors import InputError, UsageError, did_you_mean

TABLE_STEMS = ("scenes", "captions")
LOOKED_FOR = (
    "Looked for scenes.jsonl, captions.jsonl, captions.csv, captions.txt, one other .jsonl or .csv, "
    "parallel captions such as train.1.en.gz, and images."
)


class ImageSource(FileSource):
    """Images without texts; the id of a scene is its image's name."""

    def __init__(self, name: str, store: Store, on_problem: OnProblem):
        super().__init__(name, [store], split_note=HASH_SPLIT_NOTE, on_problem=on_problem)
        self.store = store

    def _read(self, split: str | None) -> Iterator[Scene]:
        for image in filter(is_image_name, self.store.names()):
            if fault := id_fault(image):
                self.on_problem(InputError(f"{fault}.", where=self.store.label, hint="Rename the file."))
                continue
            yield Scene(image, (), image, split_by_hash(image), where=f"{self.store.label}/{image}")


def open_file(name: str, path: Path, options: dict[str, str], on_problem: OnProblem) -> FileSource:
    """A table or plain text by itself; its images lie beside it, or where the option ``images`` says."""
    return _open_text(name, TextFile.on_disk(path), _stores(path.parent, options), options, on_problem)


def open_folder(name: str, folder: Path, options: dict[str, str], on_problem: OnProblem) -> FileSource:
    """What a folder holds; InputError that lists what was looked for if it holds nothing usable."""
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    found = _find_table(names, str(folder))
    if found:
        return open_file(name, folder / found, options, on_problem)
    if parallel.is_parallel(names):
        check_options(options, parallel.OPTIONS, "parallel captions")
        return parallel.ParallelSource(
            name, folder, options.get("lang"), _stores(folder, options), on_problem=on_problem
        )
    return _open_images(name, open_store(folder), options, on_problem)


def open_archive(name: str, path: Path, options: dict[str, str], on_problem: OnProblem) -> FileSource:
    """A zip or tar with a table and its images, read member by member."""
    store = open_store(path)
    # The table may lie in a folder that wraps the whole archive: the shallowest one counts.
    folders: dict[PurePosixPath, list[str]] = {}
    for member in map(PurePosixPath, store.names()):
        folders.setdefault(member.parent, []).append(member.name)
    for parent in sorted(folders, key=lambda parent: len(parent.parts)):
        found = _find_table(folders[parent], store.label)
        if found:
            member = str(parent / found)
            file = TextFile(f"{store.label}/{member}", partial(_open_member, store, member))
            stores = _stores(path.parent, options) if "images" in options else [store]
            return _open_text(name, file, stores, options, on_problem)
    return _open_images(name, store, options, on_problem)


def check_options(options: dict[str, str], known: tuple[str, ...], what: str) -> None:
    """UsageError if SRC carries an option that its reader does not know."""
    for key in options:
        if key not in known:
            raise UsageError(
                f"{what} has no option {key!r}." if known else f"{what} has no options, so not {key!r}.",
                where=f"{key}={options[key]}",
                hint=did_you_mean(key, known) if known else "",
            )


def _open_text(
    name: str, file: TextFile, stores: Sequence[Store], options: dict[str, str], on_problem: OnProblem
) -> FileSource:
    """A table or plain text; Kaggle's Flickr8k has a ``.txt`` whose first line names columns: a table."""
    if file.label.removesuffix(".gz").lower().endswith(".txt") and not _has_header(file):
        check_options(options, (), "plain text")
        # It has no images; of the archive that it lies in, a check still counts what was left out.
        around = [store for store in stores if not isinstance(store, FolderStore)]
        return PlainSource(
            name, file, on_problem, [store for store in around if file.label.startswith(f"{store.label}/")]
        )
    check_options(options, table.OPTIONS, "a table")
    return table.TableSource(name, file, stores, options, on_problem)


def _has_header(file: TextFile) -> bool:
    _, line = next(read_lines(file), (0, ""))
    names = csv_header(line)[0]
    return any(name in names for name in table.COLUMNS["text"]) and any(
        name in names for role in ("scene", "id", "image") for name in table.COLUMNS[role]
    )


def _open_images(name: str, store: Store, options: dict[str, str], on_problem: OnProblem) -> FileSource:
    check_options(options, (), "a source of images alone")
    source = ImageSource(name, store, on_problem)
    if next(source.scenes(), None) is None:
        raise InputError("there is nothing in it that can be read.", where=store.label, hint=LOOKED_FOR)
    return source


def _stores(folder: Path, options: dict[str, str]) -> list[Store]:
    return [open_store(Path(options["images"]).expanduser())] if "images" in options else image_stores(folder)


def _open_member(store: Store, member: str) -> BinaryIO:
    stream = store.open(member)
    assert stream is not None, "the member was listed a moment ago"
    return stream


def _find_table(names: Sequence[str], where: str) -> str | None:
    """The file among `names` that holds the captions: one with a usual name, else the only table."""
    extensions = [extension + packed for extension in (*table.EXTENSIONS, ".txt") for packed in ("", ".gz")]
    for usual in (stem + extension for stem in TABLE_STEMS for extension in extensions):
        if usual in names:
            return usual
    tables = [name for name in names if name.removesuffix(".gz").lower().endswith((".jsonl", ".csv"))]
    if len(tables) > 1:
        raise UsageError(
            f"which table holds the captions? There are {', '.join(tables[:5])}.",
            where=where,
            hint="Name the file instead of the folder, or call it captions.csv or captions.jsonl.",
        )
    return tables[0] if tables else None
