"""Classes as people write them down: ids with names or definitions, the texts they turn into, and labels.

A class list is a text file with a name a line, or a table (``.csv``, ``.tsv``, ``.jsonl``) with columns
``class``, ``name`` and perhaps ``definition``; where ``class`` or ``name`` is left out the other serves for
both. A name is put into every template; a class with a definition is the one text ``NAME - DEFINITION``, as
in Schnaus et al., arXiv 2610.09411 (2026).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coview.data.images import EXTENSIONS
from coview.data.readers.lines import TextFile, read_lines
from coview.data.readers.records import records
from coview.data.readers.source import refuse
from coview.errors import InputError, UsageError, did_you_mean

TEMPLATES = (
    "{}",
    "a {}",
    "a photo of a {}",
    "a close-up of a {}",
    "a {} in a room",
    "a {} outdoors",
    "there is a {} in the picture",
)
IMAGE_COLUMNS = ("image", "id", "file", "scene")
LABEL_COLUMNS = ("class", "label")
TABLES = (".csv", ".tsv", ".jsonl")


@dataclass(frozen=True)
class ClassList:
    """Classes and the texts that stand for them.

    Attributes
    ----------
    ids : tuple of C str, what labels are written in
    names : tuple of C str
    texts : tuple of C tuples of str, one text or one for each template
    """

    ids: tuple[str, ...]
    names: tuple[str, ...]
    texts: tuple[tuple[str, ...], ...]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def flat(self) -> list[str]:
        """All texts, class by class."""
        return [text for texts in self.texts for text in texts]

    @property
    def owner(self) -> np.ndarray:
        """The class of each text of `flat`, int array."""
        return np.repeat(np.arange(len(self)), [len(texts) for texts in self.texts])


def read_classes(source: str | Path, templates: Sequence[str] = TEMPLATES) -> ClassList:
    """Read a class list.

    Parameters
    ----------
    source : path of a text file or a table, see the module
    templates : each holds ``{}``, where the name goes; underscores in names are written as spaces

    Raises
    ------
    InputError
        A class comes twice, two classes have the same texts and cannot be told apart, a cell is empty, there
        is no such column, or there are fewer than two classes. The rows are named.
    UsageError
        A template without ``{}``.
    """
    for template in templates:
        if template.count("{}") != 1:
            raise UsageError(
                f"the template {template!r} does not hold {{}} once.", hint="For example: a photo of a {}."
            )
    file = TextFile.on_disk(Path(source))
    ids: list[str] = []
    names: list[str] = []
    texts: list[tuple[str, ...]] = []
    row_of_id: dict[str, int] = {}
    row_of_texts: dict[tuple[str, ...], int] = {}
    for row, record in rows_of(file):
        identifier = _cell(record, ("class", "name"), file.at(row))
        name = _cell(record, ("name", "class"), file.at(row)).replace("_", " ")
        definition = str(record.get("definition") or "").strip()
        said = (
            (f"{name} - {definition}",) if definition else tuple(one.replace("{}", name) for one in templates)
        )
        if identifier in row_of_id:
            raise InputError(
                f"the class {identifier!r} is in row {row_of_id[identifier]} already.",
                where=file.at(row),
                hint="List each class once.",
            )
        if said in row_of_texts:
            raise InputError(
                f"its text {said[0]!r} is that of row {row_of_texts[said]}: no encoder can tell them apart.",
                where=file.at(row),
                hint="Give the two different names, or definitions.",
            )
        row_of_id[identifier] = row_of_texts[said] = row
        ids.append(identifier)
        names.append(name)
        texts.append(said)
    if len(ids) < 2:
        raise InputError(f"{len(ids)} classes; a choice needs two.", where=file.label)
    return ClassList(tuple(ids), tuple(names), tuple(texts))


def read_labels(
    source: str | Path, classes: ClassList, images: Sequence[str] | None, count: int
) -> np.ndarray:
    """The class of every image.

    Parameters
    ----------
    source : path
        A table with a column ``image`` (or ``id``) and a column ``class`` (or ``label``), in any order; or a
        text file with a label a line, in the order of the images.
    classes : what labels may be
    images : ids of the images, or None if they have none; an id may carry an extension that the other lacks
    count : number of images

    Returns
    -------
    int array of shape (count,), positions in `classes`

    Raises
    ------
    InputError
        A label that is no class (its row is named), an image without a label or with two, or no ids to go by.
    """
    file = TextFile.on_disk(Path(source))
    position = {identifier: index for index, identifier in enumerate(classes.ids)}
    by_image: dict[str, int] = {}
    in_order: list[int] = []
    for row, record in rows_of(file):
        label = _cell(record, (*LABEL_COLUMNS, "name"), file.at(row))
        if label not in position:
            hint = did_you_mean(label, classes.ids) if len(classes) <= 20 else _near(label, classes.ids)
            raise InputError(f"the label {label!r} is no class of the list.", where=file.at(row), hint=hint)
        in_order.append(position[label])
        if named := [column for column in IMAGE_COLUMNS if column in record]:
            image = str(record[named[0]])
            if by_image.setdefault(image, position[label]) != position[label]:
                raise InputError(f"the image {image!r} has two labels.", where=file.at(row))
    if not by_image:
        if len(in_order) != count:
            raise InputError(f"{len(in_order)} labels for {count} images.", where=file.label)
        return np.array(in_order)
    if images is None:
        raise InputError(
            "labels are given by image, but the images have no ids.",
            where=file.label,
            hint="Put the ids beside the images as NAME.ids.txt, or give a text file with a label a line.",
        )
    bare = {without_extension(image): label for image, label in by_image.items()}
    found = [by_image.get(image, bare.get(without_extension(image))) for image in images]
    missing = [image for image, label in zip(images, found, strict=True) if label is None]
    if missing:
        wanted, given = (", ".join(map(repr, names[:3])) for names in (missing, list(by_image)))
        raise InputError(
            f"{len(missing):,} of {count:,} images have no label: {wanted}; the file names {given}.",
            where=file.label,
            hint="Name images as their embeddings do, folder and all; only an extension may differ.",
        )
    return np.array(found)


def rows_of(file: TextFile) -> Iterator[tuple[int, dict]]:
    """(row, record) of a table; a line of a text file is the record {"name": line}."""
    if file.label.removesuffix(".gz").lower().endswith(TABLES):
        yield from records(file, refuse)
        return
    for row, line in read_lines(file):
        if line.strip():
            yield row, {"name": line.strip()}


def read_templates(source: str | Path) -> tuple[str, ...]:
    """Templates of a text file, one a line."""
    file = TextFile.on_disk(Path(source))
    templates = tuple(line.strip() for _, line in read_lines(file) if line.strip())
    if not templates:
        raise InputError(
            "there is no template in it.", where=file.label, hint="For example: a photo of a {}."
        )
    return templates


def without_extension(image: str) -> str:
    """The name of an image without .jpg and the like; folders stay."""
    extension = next((ending for ending in EXTENSIONS if image.lower().endswith(ending)), "")
    return image[: len(image) - len(extension)]


def _cell(record: dict, columns: tuple[str, ...], where: str) -> str:
    """The first of these columns that the record has, as a string that is not empty."""
    column = next((name for name in columns if name in record), None)
    if column is None:
        there = ", ".join(repr(name) for name in list(record)[:6])
        raise InputError(f"no column {' or '.join(map(repr, columns))} among {there}.", where=where)
    value = record[column]
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise InputError(f"column {column!r} holds {value!r}, not a name.", where=where)
    return str(value).strip()


def _near(label: str, ids: tuple[str, ...]) -> str:
    """The nearest class, or the first few of many."""
    hint = did_you_mean(label, ids)
    return hint if hint.startswith("Did") else f"There are {len(ids):,}: {', '.join(ids[:3])}, ..."
