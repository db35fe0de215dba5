"""Captions and reference captions as JSON Lines, checked row by row before anything is scored.

A row of captions is ``{"id": .., "caption": ".."}``, one of references ``{"id": .., "captions": [".."]}``.
Line breaks inside a caption count as spaces. A caption may be empty, for that is what a bad captioner writes;
a reference may not.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from coview.data.readers.lines import TextFile
from coview.data.readers.records import json_records
from coview.data.readers.source import id_fault, refuse, text_fault
from coview.errors import InputError

LIST_OF_CAPTIONS = 'A row reads {"id": "1", "captions": ["a dog runs", "the dog is running"]}.'
ONE_CAPTION = 'A row reads {"id": "1", "caption": "a dog runs"}.'


class Paired(NamedTuple):
    """Captions, the references of each, and how many images have references and no caption."""

    captions: list[str]
    references: list[list[str]]
    left_out: int


def read_candidates(source: Path) -> dict[str, str]:
    """The caption of each id.

    Raises
    ------
    InputError
        The file is missing, empty or not UTF-8; a row is no such record, or its id stands in another row too.
    """
    captions: dict[str, str] = {}
    for identifier, record, where in _rows(source, ONE_CAPTION):
        if "caption" not in record:
            listed = "captions" in record
            what = "a list of captions; exactly one is scored" if listed else "there is no 'caption'"
            raise InputError(f"{what}.", where=where, hint=ONE_CAPTION)
        captions[identifier] = _caption(record["caption"], where, ONE_CAPTION, may_be_empty=True)
    return captions


def read_references(source: Path) -> dict[str, list[str]]:
    """The reference captions of each id; raises as `read_candidates` does."""
    references: dict[str, list[str]] = {}
    for identifier, record, where in _rows(source, LIST_OF_CAPTIONS):
        captions = record.get("captions")
        if not isinstance(captions, list) or not captions:
            raise InputError(
                "'captions' must be a list, at least one caption.", where=where, hint=LIST_OF_CAPTIONS
            )
        references[identifier] = [_caption(caption, where, LIST_OF_CAPTIONS) for caption in captions]
    return references


def pair_captions(candidates: Path, references: Path) -> Paired:
    """Captions and their references in the order of the references' file.

    As with coco-caption, references of more images than have captions (of a whole set, for one split of it)
    are left out.

    Raises
    ------
    InputError
        See `read_candidates`; or a caption has no references.
    """
    written, referred = read_candidates(candidates), read_references(references)
    if lost := [identifier for identifier in written if identifier not in referred]:
        raise InputError(
            f"id {lost[0]!r}{f' and {len(lost) - 1:,} more' if lost[1:] else ''} "
            f"{'are' if lost[1:] else 'is'} not in {references}.",
            where=f"{candidates} row {_row_of(candidates, lost[0])}",
            hint="Every caption needs references.",
        )
    ids = [identifier for identifier in referred if identifier in written]
    pairs = [written[one] for one in ids], [referred[one] for one in ids]
    return Paired(*pairs, left_out=len(referred) - len(ids))


def _row_of(source: Path, wanted: str) -> int:
    rows = json_records(TextFile.on_disk(source), refuse)
    return next(row for row, record in rows if str(record.get("id")) == wanted)


def _rows(source: Path, form: str) -> Iterator[tuple[str, dict, str]]:
    """Yield (id, record, place) of every row; the ids differ."""
    file = TextFile.on_disk(source)
    rows: dict[str, int] = {}
    for row, record in json_records(file, refuse):
        where = file.at(row)
        if "id" not in record:
            raise InputError("there is no 'id'.", where=where, hint=form)
        identifier = record["id"]
        if isinstance(identifier, int) and not isinstance(identifier, bool):
            identifier = str(identifier)
        if fault := id_fault(identifier):
            raise InputError(f"{fault.replace('scene', 'row')}.", where=where, hint=form)
        if rows.setdefault(identifier, row) != row:
            raise InputError(
                f"id {identifier!r} already stands in row {rows[identifier]}.",
                where=where,
                hint="Each image has one row.",
            )
        yield identifier, record, where
    if not rows:
        raise InputError("there is no row in it.", where=str(source), hint=form)


def _caption(value: object, where: str, form: str, *, may_be_empty: bool = False) -> str:
    is_blank = isinstance(value, str) and not value.strip()
    if not (is_blank and may_be_empty) and (fault := text_fault(value)):
        raise InputError(f"{fault}.", where=where, hint=form)
    return " ".join(str(value).split())
