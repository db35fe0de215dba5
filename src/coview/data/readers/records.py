"""Rows of a JSONL or CSV file as dictionaries."""

import csv
import json
from collections.abc import Iterator

from coview.data.readers.lines import TextFile, read_lines
from coview.data.readers.source import OnProblem
from coview.errors import InputError

ONE_OBJECT = "Each line of a .jsonl file is one JSON object."


def is_csv(file: TextFile) -> bool:
    return not file.label.removesuffix(".gz").lower().endswith(".jsonl")


def records(file: TextFile, on_problem: OnProblem) -> Iterator[tuple[int, dict]]:
    """Yield (row, record) of a JSONL or CSV file; a bad row goes to `on_problem`."""
    return _csv_records(file, on_problem) if is_csv(file) else json_records(file, on_problem)


def json_records(file: TextFile, on_problem: OnProblem) -> Iterator[tuple[int, dict]]:
    for row, line in read_lines(file):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:  # RecursionError: brackets nested a thousand deep
            what = (
                f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else error
            )
            on_problem(InputError(f"not valid JSON: {what}.", where=file.at(row), hint=ONE_OBJECT))
            continue
        if not isinstance(record, dict):
            on_problem(InputError("the row is not a JSON object.", where=file.at(row), hint=ONE_OBJECT))
            continue
        yield row, record


def csv_header(line: str) -> tuple[list[str], str]:
    """Names of the columns and the delimiter of a CSV file, from its first line.

    Kaggle's Flickr tables read ``image_name| comment_number| comment``.
    """
    delimiter = max(",|\t;", key=line.count)
    return [name.strip() for name in next(csv.reader([line], delimiter=delimiter), [])], delimiter


def _csv_records(file: TextFile, on_problem: OnProblem) -> Iterator[tuple[int, dict]]:
    lines = read_lines(file)
    header_row, header = next(((row, line) for row, line in lines if line.strip()), (0, ""))
    names, delimiter = csv_header(header)
    if repeated := {name for name in names if names.count(name) > 1}:
        raise InputError(f"two columns are called {repeated.pop()!r}.", where=file.at(header_row))
    # Pipe tables are not quoted: their captions hold quotation marks of their own.
    quoting = csv.QUOTE_NONE if delimiter == "|" else csv.QUOTE_MINIMAL
    reader = csv.reader((line for _, line in lines), delimiter=delimiter, quoting=quoting, strict=True)
    while True:
        row = header_row + reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(
                f"not valid CSV: {error}.",
                where=file.at(row),
                hint='Is a quotation mark left open? Inside a quoted text it is written twice: "".',
            ) from None
        if not cells:
            continue
        if len(cells) != len(names):
            on_problem(
                InputError(
                    f"{len(cells)} columns where the header has {len(names)}.",
                    where=file.at(row),
                    hint='Put texts that hold the delimiter in quotation marks: "a dog, running".',
                )
            )
            continue
        yield row, dict(zip(names, (cell.strip() for cell in cells), strict=True))
