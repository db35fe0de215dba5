"""Tables of scenes: JSONL and CSV, gzipped or not.

A row is one scene with a list of texts, ``{"id": .., "texts": [..], "image": .., "split": ..}``, or one text
of a scene, ``{"scene": .., "text": .., "image": .., "split": ..}``. Columns go by the names in `COLUMNS`;
an option of SRC gives another: ``captions.csv,text=sentence``.
"""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from coview.data.readers.lines import TextFile
from coview.data.readers.records import is_csv, records
from coview.data.readers.source import (
    FileSource,
    OnProblem,
    canonical_split,
    id_fault,
    refuse,
    text_fault,
)
from coview.data.readers.stores import Store
from coview.data.scenes import HASH_SPLIT_NOTE, SPLIT_WORDS, Scene, split_by_hash
from coview.errors import InputError, did_you_mean

COLUMNS = {
    "scene": ("scene", "scene_id"),
    "id": ("id",),
    "text": ("texts", "captions", "text", "caption", "comment"),
    "image": ("image", "image_name", "file_name", "filename"),
    "split": ("split",),
}
LISTS = ("texts", "captions")
OPTIONS = ("scene", "text", "image", "split", "images")
EXTENSIONS = (".jsonl", ".csv", ".tsv")


@dataclass(frozen=True)
class Columns:
    """Which column says what.

    Attributes
    ----------
    text, scene, image, split : names of columns; split is None if the table registers no splits
    listed : a row is a whole scene and holds a list of texts; else it is one text of a scene
    unique : no scene may stand in two rows
    """

    text: str
    scene: str
    image: str
    split: str | None
    listed: bool
    unique: bool


class TableSource(FileSource):
    """Scenes from a JSONL or CSV file.

    Rows that hold whole scenes stream; only their ids are kept, to find duplicates. Rows that hold one text
    each may come in any order, so they are gathered in memory first: by ``scene``, else by ``image``. Rows
    that have neither but an ``id`` are one scene each, and a repeated id is an error.

    Raises
    ------
    InputError
        The table is empty or lacks a column.
    """

    def __init__(
        self,
        name: str,
        file: TextFile,
        stores: Sequence[Store] = (),
        options: dict[str, str] | None = None,
        on_problem: OnProblem = refuse,
    ):
        self.file = file
        skipped: list[InputError] = []  # `on_problem` hears of them when the scenes are read
        first = next((record for _, record in records(file, skipped.append)), None)
        if first is None:
            empty = InputError("there is no row in it.", where=file.label, hint="Give a file with scenes.")
            raise skipped[0] if skipped else empty
        self.columns = find_columns(first, options or {}, file, name)
        note = "" if self.columns.split else HASH_SPLIT_NOTE
        super().__init__(name, stores, split_note=note, on_problem=on_problem)

    def _read(self, split: str | None) -> Iterator[Scene]:
        return self._whole_scenes() if self.columns.unique else self._gathered_scenes()

    def _whole_scenes(self) -> Iterator[Scene]:
        hint = "Rename one, or put all texts of the scene into one row."
        if not self.columns.listed:
            hint = f"If they are texts of one scene, say so: {self.name},scene={self.columns.scene}"
        rows: dict[str, int] = {}
        for row, scene in self._rows():
            if rows.setdefault(scene.id, row) == row:
                yield scene
            else:
                what = f"scene {scene.id!r} already stands in row {rows[scene.id]}."
                self.on_problem(InputError(what, where=scene.where, hint=hint))

    def _gathered_scenes(self) -> Iterator[Scene]:
        groups: dict[str, list[Scene]] = {}
        for _, part in self._rows():
            first = groups.setdefault(part.id, [part])[0]
            if first is part:
                continue
            if (part.image, part.split) != (first.image, first.split):
                what = "image" if part.image != first.image else "split"
                self.on_problem(
                    InputError(
                        f"scene {part.id!r} has {what} {getattr(part, what)!r} here "
                        f"but {getattr(first, what)!r} at {first.where}.",
                        where=part.where,
                        hint="All rows of a scene share one image and one split.",
                    )
                )
                continue
            groups[part.id].append(part)
        for parts in groups.values():
            yield replace(parts[0], texts=tuple(text for part in parts for text in part.texts))

    def _rows(self) -> Iterator[tuple[int, Scene]]:
        for row, record in records(self.file, self.on_problem):
            try:
                yield row, self._scene(record, self.file.at(row))
            except InputError as problem:
                self.on_problem(problem)

    def _scene(self, record: dict, where: str) -> Scene:
        columns = self.columns
        for name in (columns.scene, columns.text, columns.split):
            if name is not None and name not in record:
                raise _no_column(name, record, where)
        identifier = record[columns.scene]
        if isinstance(identifier, int) and not isinstance(identifier, bool):
            identifier = str(identifier)
        if fault := id_fault(identifier):
            raise InputError(f"{fault}.", where=where, hint="Give each scene an id of its own.")
        image = record.get(columns.image)
        if image is not None and not isinstance(image, str):
            raise InputError("the image must be a file name.", where=where, hint="Leave it out if none.")
        if columns.split is None and "split" in record:
            raise InputError("a split, but the first row has none.", where=where, hint="Give all rows one.")
        texts = tuple(self._texts(record[columns.text], where))
        split = _split(record[columns.split], where) if columns.split else split_by_hash(identifier)
        return Scene(identifier, texts, image or None, split, where)

    def _texts(self, value: object, where: str) -> Iterator[str]:
        if self.columns.listed and (not isinstance(value, list) or not value):
            raise InputError(
                f"{self.columns.text!r} must be a list of strings, at least one.",
                where=where,
                hint=f'Write {{"{self.columns.text}": ["a text", "another"]}}.',
            )
        texts = value if self.columns.listed and isinstance(value, list) else [value]
        for number, text in enumerate(texts, start=1):
            if fault := text_fault(text):
                which = f"text {number} of {len(texts)}: " if len(texts) > 1 else ""
                raise InputError(f"{which}{fault}.", where=where, hint="Correct the text or take it out.")
            yield text.strip()


def _split(word: object, where: str) -> str:
    split = canonical_split(word)
    if split is None:
        hint = did_you_mean(str(word), list(SPLIT_WORDS))
        raise InputError(f"there is no split {word!r}.", where=where, hint=hint)
    return split


def find_columns(record: dict, options: dict[str, str], file: TextFile, src: str) -> Columns:
    """Find out from a table's first record which column says what; InputError if texts or scenes lack one."""
    where = file.at(1)

    def find(role: str) -> str | None:
        if role in options:
            if options[role] not in record:
                raise _no_column(options[role], record, where)
            return options[role]
        return next((name for name in COLUMNS[role] if name in record), None)

    text = find("text")
    if text is None:
        raise _lacks("texts", "text", record, where, src)
    listed = isinstance(record[text], list) or (text in LISTS and not is_csv(file))
    scene, identifier, image = find("scene"), find("id"), find("image")
    key = scene or (identifier or image if listed else image or identifier)
    if key is None:
        raise _lacks("scenes", "scene", record, where, src, text)
    return Columns(
        text=text,
        scene=key,
        image=image or "image",
        split=find("split"),
        listed=listed,
        unique=listed or key not in (scene, image),
    )


def _no_column(name: str, record: dict, where: str) -> InputError:
    return InputError(
        f"there is no column {name!r}.",
        where=where,
        hint=did_you_mean(name, [column for column in map(str, record) if column.isprintable()]),
    )


def _lacks(what: str, role: str, record: dict, where: str, src: str, text: str | None = None) -> InputError:
    """The error for a table without a column of texts or scenes, guessing at slips of the pen."""
    import difflib

    known = [*COLUMNS["scene"], *COLUMNS["id"], *COLUMNS["image"]] if role == "scene" else COLUMNS[role]
    for name in record:
        near = difflib.get_close_matches(str(name).lower(), known, n=1)
        if near:
            hint = f"Did you mean {near[0]!r} by {name!r}?"
            break
    else:
        others = [name for name in record if name != text and str(name).isprintable()]
        # Where there are texts, the column with the most characters is probably theirs.
        longest = max(others, key=lambda name: len(str(record[name])), default="COLUMN")
        column = longest if role == "text" else next(iter(others), "COLUMN")
        lists = isinstance(record.get(column), list)
        usual = "scene" if role == "scene" else "captions" if lists else "caption"
        hint = f"Call it {usual!r}, or say which it is: {shlex.quote(f'{src},{role}={column}')}"
    columns = ", ".join(repr(str(name)) for name in list(record)[:12])
    return InputError(f"no column of {what} among {columns}.", where=where, hint=hint)
