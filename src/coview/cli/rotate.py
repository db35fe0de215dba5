"""`coview rotate`: one map between two spaces, fitted with pairs or with none, applied and judged."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from coview.cli import emit
from coview.cli.progress import progress_of
from coview.errors import CheckFailed, InputError, UsageError

if TYPE_CHECKING:
    from coview.joining.curve import Evaluation
    from coview.joining.paired import PairedRows

rotate = App(name="rotate", help="Join two spaces by one rotation, fitted with pairs or with none.")

Flag = Annotated[bool, Parameter(negative="")]
Method = Literal["procrustes", "whitened", "ridge"]
Captions = Literal["mean", "first", "each"]


@rotate.command
def fit(
    a: Path,
    b: Path,
    /,
    *,
    pairs: str = "all",
    out: Path,
    method: Method | None = None,
    reweight: float = 0.5,
    captions: Captions = "mean",
    known: Path | None = None,
    holdout: int | None = None,
    min_recall: float | None = None,
    seed: int = 0,
    json: Flag = False,
) -> None:
    """Fit the map that brings rows of A into the space of B, and say how well it does on held-out scenes.

    Without pairs the verdict is found or not identified; in the latter case no file is written.

    Parameters
    ----------
    a
        Rows to be moved: .safetensors, .npy, .npz or .parquet. Paired with B by id, or by scene.
    b
        Rows of the space they are moved into.
    pairs
        all but the held-out ones, a number of them, or none: then the map is found without any pair.
    out
        The .safetensors file to write: matrix, means, what it was fitted on.
    method
        procrustes (a rotation; the default where widths are equal), whitened (rotation of whitened spaces,
        directions weighted by their correlation), ridge (any linear map, its penalty chosen on a tenth).
    reweight
        For whitened: 0 is a pure rotation, 1 least squares.
    captions
        Several rows a scene are fitted as their mean, the first, or each.
    known
        For --pairs none: a few pairs that are known after all, an id of A, a tab and an id of B on a line.
    holdout
        Scenes that are not fitted on; a fifth, at most 1,000, by default.
    min_recall
        Write no file and exit 5 unless held-out recall at 1, in the worse of both directions, reaches this.
    seed
        Draws held-out scenes and the order in which pairs are taken.
    json
        Print one JSON document.
    """
    if pairs == "none":
        _fit_unpaired(a, b, out, holdout, min_recall, known, seed, json)
        return
    if known is not None:
        raise UsageError("known pairs help a search without pairs: --pairs none.", where="--known")
    from coview.joining import curve, wording
    from coview.joining.rotation import save_rotation

    both = _paired(a, b)
    order, held = curve.hold_out(both, holdout, seed)
    chosen = order[: _count(pairs, len(order))]
    fitting = curve.Fitting(method, reweight, captions)
    rotation = curve.fit(both, _sorted(chosen), fitting, seed)
    judged = curve.evaluate(rotation, both, held, seed)
    recall = _require_recall(judged, min_recall)
    save_rotation(out, rotation)
    notes = [*both.notes, *wording.rank_notes(rotation)]
    result = {
        "verdict": "fitted",
        "score": recall,
        "file": str(out),
        **rotation.manifest,
        "held_out": judged.as_json(),
        "notes": notes,
    }
    emit("rotate.fit", result, as_json=json, text=wording.fit_words(rotation, judged, notes, str(out)))


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
        centred: unit rows about zero. raw: the mean of the target space put back, so that mapped rows can
        stand in one store with rows as their encoder gives them.
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
    result = {"path": str(done.path), "rows": done.rows, "width": done.width, "side": side, "into": into}
    emit(
        "rotate.apply",
        result,
        as_json=json,
        text=f"{done.rows:,} rows of {done.width:,} numbers\n{done.path}",
    )


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
    from coview.joining.space import require_space

    loaded, both = load_rotation(rotation), _paired(a, b)
    require_space(loaded.manifest["x"], loaded.mean_x, both.x, str(a))
    require_space(loaded.manifest["y"], loaded.mean_y, both.y, str(b))
    items, notes = (np.arange(len(both)), ()) if include_fitted else curve.unseen(loaded, both)
    judged = curve.evaluate(loaded, both, items, seed)
    notes = [*both.notes, *notes]
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
    reweight: float = 0.5,
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
        Numbers of pairs, smaller sets within larger ones; all pairs are always added.
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

    both, judged_on = _paired(a, b), _paired(*test) if test else None
    numbers = _sizes(sizes)
    fitting = curve.Fitting(method, reweight, captions)
    with progress_of("maps", (len(numbers) + 1) * seeds, quiet=quiet) as update:
        points = curve.learning_curve(
            both,
            sizes=numbers,
            seeds=range(seeds),
            fitting=fitting,
            held=holdout,
            test=judged_on,
            progress=lambda done: update(done, ""),
        )
    result = wording.curve_document(points, (judged_on or both).notes)
    if out and out.suffix == ".csv":
        write_text(out, wording.curve_csv(points))
    elif out:
        write_json(out, result)
    emit("rotate.curve", result, as_json=json, text=wording.curve_words(points))


def _fit_unpaired(
    a: Path,
    b: Path,
    out: Path,
    holdout: int | None,
    min_recall: float | None,
    known: Path | None,
    seed: int,
    json: bool,
) -> None:
    from coview.embeddings import load_embeddings
    from coview.joining import wording
    from coview.joining.rotation import save_rotation
    from coview.joining.unpaired import fit_unpaired

    found = fit_unpaired(
        load_embeddings(a),
        load_embeddings(b),
        held=holdout,
        known=_known_pairs(known) if known else (),
        seed=seed,
        progress=lambda line: print(line, file=sys.stderr, flush=True),
    )
    if min_recall is not None:
        _require_recall(found.judged, min_recall)
    if found.rotation is not None:
        save_rotation(out, found.rotation)
    elif out.exists():
        print(f"note: {out} is what an earlier fit wrote.", file=sys.stderr)
    result = {
        **found.fit.as_json(),
        "file": None if found.rotation is None else str(out),
        "signature": None if found.rotation is None else found.rotation.manifest["signature"],
        "held_out": found.judged and found.judged.as_json(),
        "notes": list(found.notes),
    }
    emit("rotate.fit", result, as_json=json, text=wording.unpaired_words(found, str(out)))


def _require_recall(judged: "Evaluation | None", least: float | None) -> float:
    """Held-out recall at 1 in the worse direction; CheckFailed if it was asked to be higher."""
    if judged is None:
        raise CheckFailed(
            "there is no held-out recall: no rotation was identified, or the files share no scene.",
            where="--min-recall",
        )
    recall = min(judged.plain.x_to_y.recall[1].value, judged.plain.y_to_x.recall[1].value)
    if least is not None and recall < least:
        raise CheckFailed(
            f"held-out recall at 1 is {recall:.3f} among {judged.plain.scenes:,} scenes, "
            f"below {least:g}; no file was written.",
            where="--min-recall",
            hint="Give more pairs, or try --method whitened or ridge; see coview rotate curve A B.",
        )
    return recall


def _known_pairs(source: Path) -> list[tuple[str, str]]:
    from coview.cli.align import read_ids

    pairs = []
    for number, line in enumerate(read_ids(source), start=1):
        first, tab, second = line.partition("\t")
        if not tab:
            what = "expected an id of A, a tab and an id of B."
            raise InputError(what, where=f"{source} line {number}")
        pairs.append((first, second))
    return pairs


def _paired(a: Path, b: Path) -> "PairedRows":
    from coview.embeddings import load_embeddings
    from coview.joining.paired import pair_up

    return pair_up(load_embeddings(a), load_embeddings(b), (str(a), str(b)))


def _sizes(words: str) -> list[int]:
    try:
        return [int(word) for word in words.split(",")] if words else []
    except ValueError:
        what = f"{words!r} is no list of numbers of pairs."
        raise UsageError(what, where="--sizes", hint="For example 30,100,300.") from None


def _count(pairs: str, most: int) -> int:
    """How many pairs ``--pairs`` asks for, of those there are."""
    if pairs == "all":
        return most
    hint = f"all, none, or a number up to {most}."
    if not pairs.isdecimal():
        raise UsageError(f"{pairs!r} is no number of pairs.", where="--pairs", hint=hint)
    if int(pairs) > most:
        raise UsageError(f"there are {most:,} pairs besides the held-out ones.", where="--pairs", hint=hint)
    return int(pairs)


def _sorted(items):
    """Items in the order of the file, which memory-mapped rows are read fastest in."""
    import numpy as np

    return np.sort(items)
