"""`coview data`: look at, check or make scenes."""

import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import App

from coview.cli import emit
from coview.errors import InputError, UsageError

if TYPE_CHECKING:
    from coview.data.check import Problems

SHOWN = 10  # problems
STUDY_NEEDS = 30  # scenes of val and of test

data = App(name="data", help="Look at, check or make scenes.")


@data.command
def check(source: str, /, *, images: bool = False, json: bool = False) -> None:
    """Count what a source holds and find what is broken in it; exit 3 if anything is.

    Parameters
    ----------
    source : str
        Scenes: a .jsonl, .csv or .txt, a folder, a .zip or .tar, or tabletop:
    images : bool
        Decode every image instead of reading its header.
    json : bool
        Print one JSON document.
    """
    from coview.data.check import Problems, check_source
    from coview.data.readers import open_source
    from coview.data.readers.plain import PlainSource

    problems = Problems()
    opened = open_source(source, on_problem=problems.add)
    result = check_source(opened, problems, decode=images, progress=_every_30_seconds())
    error = problems.summary()
    verdict = {"ok": False, "error": error.as_json()} if error else {}
    text = describe(result, plain=isinstance(opened, PlainSource))
    emit("data.check", result, as_json=json, text=text, **verdict)
    if error:
        # For people, several problems stand in the list above already.
        shown = error if json or problems.count == 1 else _listed_above(problems)
        print(f"coview data: {shown}", file=sys.stderr)
        sys.exit(error.exit_code)
    if not json and result["texts"]:
        views = "good" if result["texts_per_scene"]["max"] > 1 else "bad"
        print(f"next: coview train {shlex.quote(source)} --views {views}", file=sys.stderr)


def _listed_above(problems: "Problems") -> InputError:
    which = "" if problems.count <= SHOWN else f"the first {SHOWN} "
    advice = problems.first[0].hint
    return InputError(
        f"{problems.count:,} problems, {which}listed above.", hint=advice and f"For the first: {advice}"
    )


@data.command
def make(source: str, out: Path, /, *, json: bool = False) -> None:
    """Write a made-up world to a folder, images and texts, so that people can look at it.

    Parameters
    ----------
    source : str
        tabletop: with options such as tabletop:seed=1,scenes=100
    out : Path
        The folder to write.
    json : bool
        Print one JSON document.
    """
    if not source.startswith("tabletop:"):
        raise UsageError(
            "only a made-up world can be made.", where=source, hint="Try: coview data make tabletop: OUT"
        )
    from coview.tabletop import TabletopSource, write_tabletop

    world = TabletopSource.parse(source)
    scenes = write_tabletop(world, out)
    result = {"source": world.name, "out": str(out), "scenes": scenes}
    emit("data.make", result, as_json=json, text=f"{scenes:,} scenes of {world.name} written to {out}")
    if not json:
        print(f"next: coview data check {shlex.quote(str(out))}", file=sys.stderr)


def describe(result: dict, *, plain: bool) -> str:
    """The result of a check for people; several problems are listed, a single one is left to the error.

    Parameters
    ----------
    result : of `check_source`
    plain : whether the source is plain text, where blank lines part the scenes
    """
    problems = result["problems"]
    head = f"{result['source']}: {result['scenes']:,} scenes, {result['texts']:,} texts"
    if result["complete"]:
        lines = [head, *_counts(result)]
    elif result["scenes"]:
        lines = [f"{head}, read up to what is broken", *_counts(result)]
    else:
        lines = [f"{result['source']}: nothing was counted, for what is broken ends the reading"]
    if problems["count"] > 1:
        lines += [
            f"    {problem['where']}: {problem['message']}"
            if problem["where"]
            else f"    {problem['message']}"
            for problem in problems["first"][:SHOWN]
        ]
    return "\n".join([*lines, *(f"note: {note}" for note in _notes(result, plain))])


def _counts(result: dict) -> list[str]:
    texts, words = result["texts_per_scene"], result["words_per_text"]
    rows = [
        ("splits", ", ".join(f"{split} {count:,}" for split, count in result["splits"].items()) or "none"),
        ("texts a scene", f"{texts['min']} to {texts['max']}, mean {texts['mean']}"),
        (
            "words a text",
            f"{words['min']} to {words['max']}, mean {words['mean']}; "
            f"5 % {words['p5']}, median {words['p50']}, 95 % {words['p95']}, 99 % {words['p99']}",
        ),
        ("duplicates", _duplicates(result["duplicates"])),
        ("images", _images(result["images"], result["problems"]["count"])),
        ("problems", f"{result['problems']['count']:,}" if result["problems"]["count"] else "none"),
    ]
    return [f"  {name:<14} {what}" for name, what in rows]


def _notes(result: dict, plain: bool) -> list[str]:
    """What is no problem yet and worth knowing."""
    notes = [result["split_note"]] if result["split_note"] else []
    if one := result["texts_per_scene"]["one"]:
        notes.append(f"{one:,} scenes have one text; --views good needs two and leaves them out.")
    if unsafe := result["unsafe_names"]:
        notes.append(
            f"{unsafe:,} entries of the archive were left out: their names are absolute or hold '..'."
        )
    if result["problems"]["count"]:
        return notes
    if result["scenes"] == 1:
        doubt = "a blank line begins the next." if plain else "is the column of scenes the right one?"
        notes.append(f"all texts are of one scene; {doubt}")
    held_out = {split: result["splits"].get(split, 0) for split in ("val", "test")}
    if result["texts"] and min(held_out.values()) < STUDY_NEEDS:
        counts = ", ".join(f"{split} {count:,}" for split, count in held_out.items())
        more = "a split column or more scenes" if result["split_note"] and not plain else "scenes to them"
        notes.append(f"{counts} scenes: a study needs {STUDY_NEEDS} of each; add {more}.")
    return notes


def _duplicates(counts: dict) -> str:
    leaks = {split: counts[f"{split}_in_train"] for split in ("val", "test", "reserved")}
    return ", ".join(
        [
            f"{counts['within_scenes']:,} texts repeat another of their scene",
            f"{counts['across_scenes']:,} describe several scenes",
            *(f"{count:,} stand in train and {split}" for split, count in leaks.items() if count),
        ]
    )


def _images(counts: dict, problems: int) -> str:
    if not counts["named"]:
        return "none"
    if not counts["found"] and not counts["broken"] and not problems:
        return f"none at hand ({counts['named']:,} are named): a source of texts"
    how = "decoded" if counts["decoded"] else "found, headers read (--images decodes them)"
    return f"{counts['found']:,} {how}, {counts['missing']:,} missing, {counts['broken']:,} broken"


def _every_30_seconds() -> Callable[[int], None]:
    last = time.monotonic()

    def progress(scenes: int) -> None:
        nonlocal last
        if time.monotonic() - last > 30:
            last = time.monotonic()
            print(f"{scenes:,} scenes checked", file=sys.stderr)

    return progress
