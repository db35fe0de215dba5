"""`coview rotate`: one map between two spaces, fitted with pairs or with none, applied and judged."""

import sys
from pathlib import Path
from typing import Literal

from cyclopts import App

from coview.cli import emit
from coview.cli.progress import progress_of
from coview.cli.rotate_fit import Captions, Flag, Method, fit, fitting_of, paired_rows, paired_to_fit
from coview.errors import UsageError

rotate = App(name="rotate", help="Join two spaces by one rotation, fitted with pairs or with none.")
rotate.command(fit)


@rotate.command
def apply(
    rotation: Path,
    x: Path,
    /,
    *,
    out: Path,
    side: Literal["x", "y"] = "x",
    into: Literal["centred", "raw"] = "centred",
    quiet: Flag = False,
    json: Flag = False,
) -> None:
    """Map a file of rows of any size, block by block. Rows seen to lie in another space are refused.

    Of a file that does not name its encoder only width and mean can be looked at: rows whose mean lies near
    that of the other side are refused, or noted where in doubt.

    Parameters
    ----------
    rotation
        What `coview rotate fit` wrote.
    x
        Rows of the space that the rotation maps from; .safetensors and .npy may be larger than memory.
    out
        .safetensors, or .npy with the ids in a text file beside it.
    side
        x maps rows; y makes rows of the other space ready to be compared with mapped ones.
    into
        centred: unit rows about zero. raw: these times one length, the target space's root mean square
        distance from its mean, plus that mean, so that mapped rows can stand in one store with rows as their
        encoder gives them. A row's own distance from the mean is not kept: all lie equally far from it.
    quiet
        No progress on stderr.
    json
        Print one JSON document.
    """
    from coview.embeddings import load_embeddings
    from coview.joining.apply import apply_rotation
    from coview.joining.rotation import load_rotation

    total = len(load_embeddings(x, check=False).matrix)
    with progress_of("mapping rows", total, quiet=quiet) as update:
        done = apply_rotation(
            load_rotation(rotation), x, out, side=side, into=into, progress=lambda rows: update(rows, "")
        )
    for note in done.notes:
        print(f"note: {note}", file=sys.stderr)
    shape = {"rows": done.rows, "width": done.width}
    result = {"path": str(done.path), **shape, "side": side, "into": into, "notes": done.notes}
    text = f"{done.rows:,} rows of {done.width:,} numbers\n{done.path}"
    emit("rotate.apply", result, as_json=json, text=text)


@rotate.command(name="eval")
def evaluate(
    rotation: Path, a: Path, b: Path, /, *, include_fitted: Flag = False, seed: int = 0, json: Flag = False
) -> None:
    """Search B with rows of A and A with rows of B: recall at 1, 5 and 10, median rank, FOSCTTM.

    Scenes the rotation was fitted on are left out. Intervals come from resampling scenes.

    Parameters
    ----------
    rotation
        What `coview rotate fit` wrote.
    a
        Rows of the space that the rotation maps from.
    b
        Rows of the space that it maps into.
    include_fitted
        Count scenes the rotation was fitted on too.
    seed
        Of the intervals.
    json
        Print one JSON document.
    """
    import numpy as np

    from coview.joining import curve, wording
    from coview.joining.rotation import load_rotation
    from coview.joining.space import require_side

    loaded, both = load_rotation(rotation), paired_rows(a, b)
    swapped = "Are A and B swapped?"
    origin = (
        *require_side(loaded, "x", both.x, str(a), swapped),
        *require_side(loaded, "y", both.y, str(b), swapped),
    )
    items, left_out = (np.arange(len(both)), ()) if include_fitted else curve.unseen(loaded, both)
    judged = curve.evaluate(loaded, both, items, seed)
    notes = [*both.notes, *origin, *left_out, *wording.chance_notes(judged)]
    result = {**judged.as_json(), "rotation": loaded.manifest, "notes": notes}
    emit("rotate.eval", result, as_json=json, text=wording.evaluation_words(judged, notes))


@rotate.command(name="curve")
def learning(
    a: Path,
    b: Path,
    /,
    *,
    sizes: str = "30,100,300,1000,5000",
    seeds: int = 3,
    method: Method | None = None,
    reweight: float | None = None,
    captions: Captions = "mean",
    holdout: int | None = None,
    test: tuple[Path, Path] | None = None,
    out: Path | None = None,
    quiet: Flag = False,
    json: Flag = False,
) -> None:
    """How held-out recall grows with the number of pairs a map is fitted on.

    Parameters
    ----------
    a
        Rows to be moved.
    b
        Rows of the space they are moved into.
    sizes
        Numbers of pairs, smaller sets within larger ones; all pairs are always added. Sizes below what the
        method needs are left out.
    seeds
        Maps fitted for every size.
    method
        See `coview rotate fit`.
    reweight
        See `coview rotate fit`.
    captions
        See `coview rotate fit`.
    holdout
        Scenes held out; a fifth, at most 1,000, by default.
    test
        Two files to judge on instead, rows of A's encoder and of B's; their scenes are not fitted on.
    out
        A .json or .csv file for the table.
    quiet
        No progress on stderr.
    json
        Print one JSON document.
    """
    from coview.joining import curve, wording
    from coview.runs import write_json, write_text

    numbers, fitting = _sizes(sizes), fitting_of(method, reweight, captions)
    both, judged_on = paired_to_fit(a, b), paired_rows(*test) if test else None
    with progress_of("maps", (len(numbers) + 1) * seeds, quiet=quiet) as update:
        points, notes = curve.learning_curve(
            both,
            sizes=numbers,
            seeds=range(seeds),
            fitting=fitting,
            held=holdout,
            test=judged_on,
            progress=lambda done: update(done, ""),
        )
    notes = [*(judged_on or both).notes, *notes]
    result = wording.curve_document(points, notes)
    if out and out.suffix == ".csv":
        write_text(out, wording.curve_csv(points))
    elif out:
        write_json(out, result)
    emit("rotate.curve", result, as_json=json, text=wording.curve_words(points, notes))


def _sizes(words: str) -> list[int]:
    try:
        return [int(word) for word in words.split(",")] if words else []
    except ValueError:
        what = f"{words!r} is no list of numbers of pairs."
        raise UsageError(what, where="--sizes", hint="For example 30,100,300.") from None
