"""Alignment results as documents (JSON), as tables (CSV) and in words."""

import csv
import io
from dataclasses import asdict

import numpy as np

from coview.alignment.calibration import interval_95, paired_error
from coview.alignment.diagnostics import Diagnostics
from coview.alignment.many import AlignmentTable, CurvePoint
from coview.alignment.measure import Alignment, Plan
from coview.alignment.signature import signature_differences
from coview.errors import InputError

FIELDS = ("score", "chance", "stderr", "z", "p", "signature", "halves")


def document(result: Alignment, a: str, b: str, plan: Plan) -> dict:
    """One alignment as JSON; numbers that are not known are null."""
    return {
        "a": a,
        "b": b,
        "score": _known(result.score),
        "chance": _known(result.chance),
        "stderr": _known(result.stderr),
        "interval": [_known(end) for end in result.interval],
        "z": _known(result.z),
        "p": result.p,
        "permutations": len(result.null),
        "distinguishable_from_chance": result.distinguishable,
        "adjusted": _known(result.adjusted),
        "calibrated": _known(result.calibrated),
        "n": result.n,
        "k": result.k,
        "metric": result.metric,
        "recipe": result.recipe,
        "layers": list(result.layers),
        "pairs_searched": int(result.matrix.size),
        "matrix": [[_known(score) for score in row] for row in result.matrix.tolist()],
        "cross_fitted": _known(result.cross_fitted),
        "null": _null_quantiles(result.null),
        "seed": plan.seed,
        "halves": result.halves.tolist(),
        "notes": list(result.notes),
        "signature": result.signature,
    }


def recipe_document(result: Alignment) -> dict:
    """One alignment under another recipe, in short."""
    return {"score": _known(result.score), "stderr": _known(result.stderr), "signature": result.signature}


def words(result: Alignment, a: str, b: str) -> str:
    """One alignment for people."""
    lines = [
        f"{a}  against  {b}",
        "",
        f"{result.metric}   {with_error(result.score, result.stderr)}   chance {result.chance:.4f}   "
        f"n = {result.n:,}",
    ]
    if result.matrix.size > 1:
        rows, columns = result.matrix.shape
        lines.append(
            f"layers {result.layers[0]} against {result.layers[1]} of {rows} x {columns} pairs"
            + (f"; cross-fitted maximum {result.cross_fitted:.4f}" if result.cross_fitted is not None else "")
        )
    lines.append(_significance(result))
    if not result.distinguishable and (result.p is not None or result.z is not None):
        lines.append("Not distinguishable from chance: unrelated spaces score as high.")
    return "\n".join([*lines, *(f"note: {note}" for note in result.notes), result.signature])


def with_error(score: float, stderr: float) -> str:
    """A score, its standard error and its 95 % interval; the score alone where no error is known."""
    if np.isnan(stderr):
        return f"{score:.4f}"
    low, high = interval_95(score, stderr)
    return f"{score:.4f} ± {stderr:.4f}   95 % [{low:.4f}, {high:.4f}]"


def _significance(result: Alignment) -> str:
    parts = []
    if result.p is not None:
        floor = 1 / (len(result.null) + 1)
        what = "p of the largest pair" if len(result.null) and result.matrix.size > 1 else "p"
        parts.append(f"{what} = {result.p:.2g} ({len(result.null):,} permutations; none below {floor:.2g})")
    if result.z is not None:
        parts.append(f"z = {result.z:.1f}")
    if result.calibrated is not None:
        parts.append(f"calibrated {result.calibrated:.4f}")
    parts.append(f"chance-adjusted {result.adjusted:.4f}")
    return "   ".join(parts)


def diagnostics_words(name: str, facts: Diagnostics) -> str:
    """One space's diagnostics in a line."""
    parts = [
        f"mean cosine {facts.mean_cosine:.3f}",
        f"effective dimensions {facts.participation_ratio:.1f}",
        f"three dimensions hold {facts.massive_share:.0%}",
    ]
    if facts.duplicate_share:
        parts.append(f"duplicate rows {facts.duplicate_share:.1%}")
    if facts.max_in_degree is not None:
        parts.append(f"largest hub in {facts.max_in_degree} lists (skew {facts.in_degree_skew:.1f})")
    if facts.tie_share:
        parts.append(f"ties at k {facts.tie_share:.1%}")
    return f"{name}: {', '.join(parts)}"


def table_document(table: AlignmentTable, plan: Plan) -> dict:
    """All pairs as JSON."""
    return {
        "names": list(table.names),
        "scores": [[_known(score) for score in row] for row in table.scores],
        "stderr": [[_known(error) for error in row] for row in table.errors.tolist()],
        "adjusted_p": [[_known(p) for p in row] for row in table.adjusted_p.tolist()],
        "pairs": [
            document(result, table.names[i], table.names[j], plan)
            | {"adjusted_p": _known(table.adjusted_p[i, j])}
            for (i, j), result in table.pairs.items()
        ],
    }


def table_csv(table: AlignmentTable) -> str:
    """All pairs, one a line."""
    rows: list[tuple] = [
        ("a", "b", "score", "low", "high", "stderr", "chance", "z", "p", "adjusted_p", "n", "signature")
    ]
    for (i, j), result in table.pairs.items():
        names = (cell(table.names[i]), cell(table.names[j]))
        numbers = (result.score, *result.interval, result.stderr, result.chance, result.z, result.p)
        rows.append((*names, *numbers, table.adjusted_p[i, j], result.n, result.signature))
    return as_csv(rows)


def table_words(table: AlignmentTable) -> str:
    """A square of scores with errors, for people."""
    m = len(table.names)
    square = [
        ["·" if i == j else f"{table.scores[i, j]:.4f} ± {table.errors[i, j]:.4f}" for j in range(m)]
        for i in range(m)
    ]
    width = 2 + max(map(len, (*table.names, *(cell for cells in square for cell in cells))))
    lines = ["".ljust(width) + "".join(name.rjust(width) for name in table.names)]
    for name, cells in zip(table.names, square, strict=True):
        lines.append(name.ljust(width) + "".join(text.rjust(width) for text in cells))
    for i, j in table.pairs:
        p = table.adjusted_p[i, j]
        if not np.isnan(p) and p > 0.05:
            pair = f"{table.names[i]} against {table.names[j]}"
            lines.append(
                f"{pair}: not distinguishable from chance (p = {p:.3g} among {len(table.pairs)} pairs)"
            )
    first = next(iter(table.pairs.values()))
    notes = [f"note: {note}" for note in first.notes]
    return "\n".join([*lines, f"chance {first.chance:.4f}   n = {first.n:,}", *notes, first.signature])


def curve_words(curves: dict[str, list[CurvePoint]]) -> str:
    """Score against sample size, for people."""
    titles = {"fixed_k": "at fixed k", "fixed_share": "at k a fixed share of n"}
    lines = []
    for curve, points in curves.items():
        lines.append(f"score against n {titles[curve]}")
        lines += [
            f"  n = {p.n:>9,}   k = {p.k:>6,}   {p.score:.4f} ± {p.stderr:.4f}   chance {p.chance:.4f}"
            for p in points
        ]
    return "\n".join(lines)


def curve_csv(curves: dict[str, list[CurvePoint]]) -> str:
    """Score against sample size, one point a line."""
    header = ("curve", "n", "k", "score", "chance", "stderr", "samples")
    return as_csv(
        [header, *((curve, *asdict(p).values()) for curve, points in curves.items() for p in points)]
    )


def matrix_csv(matrix: np.ndarray) -> str:
    """Scores of all layer pairs; rows are layers of the first side."""
    header = ["layer", *range(matrix.shape[1])]
    return as_csv([header, *([i, *row] for i, row in enumerate(matrix.tolist()))])


def compare(first: dict, second: dict, names: tuple[str, str] = ("first", "second")) -> dict:
    """The difference of two results measured on the same samples under the same signature.

    Parameters
    ----------
    first, second : documents as `document` makes them
    names : how to call them in messages

    Raises
    ------
    InputError
        A document is no alignment, or the signatures differ (the parts that differ are named).
    """
    for name, result in zip(names, (first, second), strict=True):
        if any(field not in result for field in FIELDS):
            raise InputError(
                "this is not a result of coview align --json.",
                where=name,
                hint="Give what --json printed, or the align.json that --out wrote, for two files.",
            )
    if differences := signature_differences(first["signature"], second["signature"]):
        raise InputError(
            f"the results are not comparable; they differ in {'; '.join(differences)}.",
            hint="Measure both in the same way, on the same samples.",
        )
    halves = [np.array(result["halves"]) for result in (first, second)]
    paired = (
        first.get("seed") == second.get("seed") and halves[0].shape == halves[1].shape and len(halves[0]) > 0
    )
    if paired:
        error = paired_error(*halves)
    else:
        error = float(
            np.linalg.norm([np.nan if r["stderr"] is None else r["stderr"] for r in (first, second)])
        )
    difference = first["score"] - second["score"]
    return {
        "difference": difference,
        "stderr": _known(error),
        "interval": [_known(end) for end in interval_95(difference, error)],
        "paired": paired,
        "same_rows_known": "rows:by-order" not in first["signature"],
        "distinguishable": bool(abs(difference) > 1.96 * error),
        "scores": [first["score"], second["score"]],
        "signature": first["signature"],
    }


def compare_words(result: dict, a: str, b: str) -> str:
    """A comparison for people."""
    difference, (low, high) = result["difference"], result["interval"]
    verdict = (
        "The difference is larger than its error."
        if result["distinguishable"]
        else ("Not distinguishable: the interval holds 0.")
    )
    how = "paired on the same halves" if result["paired"] else "unpaired, so the error is an upper bound"
    doubt = (
        [] if result["same_rows_known"] else ["note: without ids nothing shows that the samples are the same"]
    )
    return "\n".join(
        [
            f"{a}  {result['scores'][0]:.4f}",
            f"{b}  {result['scores'][1]:.4f}",
            f"difference {difference:+.4f} ± {result['stderr']:.4f}   "
            f"95 % [{low:+.4f}, {high:+.4f}]   ({how})",
            verdict,
            *doubt,
            result["signature"],
        ]
    )


def as_csv(rows) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def cell(text: str) -> str:
    """A name that no spreadsheet takes for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _known(number: float | None) -> float | None:
    return None if number is None or not np.isfinite(number) else float(number)


def _null_quantiles(null: np.ndarray) -> dict | None:
    if not len(null):
        return None
    return {"mean": float(null.mean()), "sd": float(null.std()), "q95": float(np.quantile(null, 0.95))}
