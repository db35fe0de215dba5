"""`coview align`: how aligned encoders are."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from coview.alignment import many, report
from coview.alignment.measure import Plan, Progress, align_pairs
from coview.alignment.sides import pair_any
from coview.cli import emit
from coview.cli.progress import progress_of
from coview.embeddings import load_embeddings
from coview.errors import InputError, UsageError
from coview.runs import read_json, write_json, write_text

DEFAULTS = Plan()
SHORT_WORK = 2.0  # seconds
SECOND_RECIPE = {"prh": "center", "prh-exact": "center", "center": "prh", "raw": "center"}


def align(
    *files: Path,
    plan: Annotated[Plan, Parameter(name="*")] = DEFAULTS,
    captions: Literal["mean", "first", "each"] = "mean",
    like: Literal["prh"] | None = None,
    exclude_ids: Path | None = None,
    curve: str | None = None,
    matrix: Annotated[bool, Parameter(negative="")] = False,
    compare: Annotated[bool, Parameter(negative="")] = False,
    out: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Score two files of embeddings: score, chance, error, p and a signature that says what was measured.

    Parameters
    ----------
    files
        Two files of embeddings (.safetensors, .npy, .npz, .parquet), paired by id; more with --matrix; two
        results (.json) with --compare.
    captions
        Several rows a scene on one side: their mean, the first, or each in turn.
    like
        A published protocol: prh sets metric, k, recipe, layers and captions as its code does.
    exclude_ids
        A file with one id or scene a line to leave out.
    curve
        Sample sizes such as 256,1024,4096: also show how the score moves with the number of samples.
    matrix
        Score all pairs of two or more files.
    compare
        Compare two results, if their signatures allow it.
    out
        Folder for the result as JSON, tables as CSV and figures as SVG and PNG.
    json
        Print one JSON document.
    """
    if compare:
        _compare(files, json)
        return
    if like == "prh":
        plan, captions = (
            replace(plan, metric="mutual_knn", k=10, similarity="cosine", recipe="prh", layers="max"),
            "first",
        )
    if len(files) < 2 or (len(files) > 2 and not matrix):
        raise UsageError(
            f"two files of embeddings are compared, not {len(files)}.",
            hint="Add --matrix to score all pairs.",
        )
    if matrix and curve:
        raise UsageError("--curve shows one pair of files; it does not go with --matrix.")
    exclude = read_ids(exclude_ids) if exclude_ids else ()
    names = [str(file) for file in files]
    pairs = pair_any(
        [load_embeddings(file) for file in files], captions=captions, exclude=exclude, names=names
    )
    if matrix:
        result, text = _matrix(pairs, plan, names, out)
    else:
        result, text = _pair(pairs, plan, names, sample_sizes(curve), out)
    if out:
        write_json(out / "align.json", {"schema": "coview.align/1", "ok": True, "result": result})
        text += f"\nwritten to {out}"
    emit("align", result, as_json=json, text=text)


def _pair(pairs, plan: Plan, names: list[str], sizes: list[int], out: Path | None) -> tuple[dict, str]:
    with progress_of("permutations", plan.permutations) as update:
        measured = align_pairs(pairs, plan, names, diagnostics=True, progress=_counted(update))
    other = SECOND_RECIPE[plan.recipe]
    again = align_pairs(pairs, replace(plan, recipe=other, permutations=0), names)
    result = report.document(measured, names[0], names[1], plan)
    result["recipes"] = {one.recipe: report.recipe_document(one) for one in (measured, again)}
    text = [
        report.words(measured, names[0], names[1]),
        "",
        f"prepared by {other} instead: {report.with_error(again.score, again.stderr)}",
    ]
    if measured.diagnostics:
        result["diagnostics"] = {
            side: vars(facts) for side, facts in zip("ab", measured.diagnostics, strict=True)
        }
        text += map(report.diagnostics_words, names, measured.diagnostics)
    curves = {}
    if sizes:
        curves = many.alignment_curve(pairs, sizes, plan, names=names)
        result["curve"] = {kind: [vars(point) for point in points] for kind, points in curves.items()}
        text += ["", report.curve_words(curves)]
    if out:
        from coview.alignment import figures

        if measured.matrix.size > 1:
            write_text(out / "layers.csv", report.matrix_csv(measured.matrix))
            rows, columns = ([str(layer) for layer in range(count)] for count in measured.matrix.shape)
            figures.heat_map(out, "layers", measured.matrix, rows, columns, plan.metric)
        if curves:
            write_text(out / "curve.csv", report.curve_csv(curves))
            figures.curve(out, "curve", curves, plan.metric)
    return result, "\n".join(text)


def _matrix(pairs, plan: Plan, names: list[str], out: Path | None) -> tuple[dict, str]:
    total = len(names) * (len(names) - 1) // 2
    short = [Path(name).stem for name in names]
    names = short if len(set(short)) == len(short) else names
    with progress_of("pairs", total) as update:
        table = many.align_all(pairs, plan, names, progress=_counted(update))
    if out:
        from coview.alignment import figures

        write_text(out / "align.csv", report.table_csv(table))
        figures.heat_map(out, "align", table.scores, names, names, plan.metric)
    return report.table_document(table, plan), report.table_words(table)


def _compare(files: tuple[Path, ...], json: bool) -> None:
    if len(files) != 2:
        raise UsageError(f"--compare takes two results, not {len(files)}.")
    a, b = map(str, files)
    result = report.compare(_read_result(files[0]), _read_result(files[1]), (a, b))
    emit("align", result, as_json=json, text=report.compare_words(result, a, b))


def _read_result(file: Path) -> dict:
    """What a file holds as a result; {}, which `report.compare` refuses, if it is something else."""
    try:
        result = read_json(file).get("result")
    except InputError:
        if not file.is_file():
            raise
        return {}
    return result if isinstance(result, dict) else {}


def _counted(update: Callable[[int, str], None]) -> Progress:
    """Progress as the library wants it: items pass through and are counted. Short work shows nothing."""

    def progress(items, total, label):
        start = time.monotonic()
        for done, item in enumerate(items, start=1):
            yield item
            if time.monotonic() - start > SHORT_WORK:
                update(done, "")

    return progress


def sample_sizes(curve: str | None) -> list[int]:
    """Numbers of samples from "256,1024,4096"."""
    try:
        return [int(n) for n in curve.split(",")] if curve else []
    except ValueError:
        raise UsageError(
            f"--curve {curve!r} is no list of sizes.", hint="For example 256,1024,4096."
        ) from None


def read_ids(source: Path) -> list[str]:
    """Ids of a text file, one a line."""
    try:
        return [line for line in source.read_text(encoding="utf-8").splitlines() if line.strip()]
    except FileNotFoundError:
        raise InputError("there is no such file.", where=str(source)) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise InputError(f"cannot be read as a list of ids ({reason}).", where=str(source)) from error
