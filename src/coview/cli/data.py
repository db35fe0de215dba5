"""`coview data`: look at, check or make scenes."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from cyclopts import App

from coview.cli import emit
from coview.errors import UsageError

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

    problems = Problems()
    opened = open_source(source, on_problem=problems.add)
    result = check_source(opened, problems, decode=images, progress=_every_30_seconds())
    error = problems.summary()
    verdict = {"ok": False, "error": error.as_json()} if error else {}
    emit("data.check", result, as_json=json, text=describe(result), **verdict)
    if error:
        print(f"coview data: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    if not json:
        views = "good" if result["texts_per_scene"]["max"] > 1 else "bad"
        print(f"next: coview train {source} --views {views}" if result["texts"] else "", file=sys.stderr)


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
        print(f"next: coview data check {out}", file=sys.stderr)


def describe(result: dict) -> str:
    """The result of a check for people, the first ten problems included."""
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
        ("images", _images(result["images"])),
        ("problems", f"{result['problems']['count']:,}" if result["problems"]["count"] else "none"),
    ]
    lines = [f"{result['source']}: {result['scenes']:,} scenes, {result['texts']:,} texts"]
    lines += [f"  {name:<14} {what}" for name, what in rows]
    lines += [
        f"    {problem['where']}: {problem['message']}" if problem["where"] else f"    {problem['message']}"
        for problem in result["problems"]["first"][:10]
    ]
    if result["split_note"]:
        lines.append(f"note: {result['split_note']}")
    if texts["one"]:
        lines.append(
            f"note: {texts['one']:,} scenes have one text; --views good needs two and leaves them out."
        )
    if result["scenes"] == 1:
        lines.append("note: all texts are of one scene; a blank line begins the next scene of a text file.")
    return "\n".join(lines)


def _duplicates(counts: dict) -> str:
    leaks = {split: counts[f"{split}_in_train"] for split in ("val", "test", "reserved")}
    return ", ".join(
        [
            f"{counts['within_scenes']:,} texts repeat another of their scene",
            f"{counts['across_scenes']:,} describe several scenes",
            *(f"{count:,} stand in train and {split}" for split, count in leaks.items() if count),
        ]
    )


def _images(counts: dict) -> str:
    if not counts["named"]:
        return "none"
    if not counts["found"] and not counts["broken"]:
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
