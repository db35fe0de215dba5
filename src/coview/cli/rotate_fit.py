"""`coview rotate fit`: a map from pairs, or from none."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from coview.cli import emit
from coview.errors import CheckFailed, InputError, UsageError

if TYPE_CHECKING:
    from coview.embeddings import Embeddings
    from coview.joining.curve import Evaluation, Fitting
    from coview.joining.paired import PairedRows

Flag = Annotated[bool, Parameter(negative="")]
Method = Literal["procrustes", "whitened", "ridge"]
Captions = Literal["mean", "first", "each"]


def fit(
    a: Path,
    b: Path,
    /,
    *,
    pairs: str = "all",
    out: Path,
    method: Method | None = None,
    reweight: float | None = None,
    captions: Captions = "mean",
    known: Path | None = None,
    holdout: int | None = None,
    min_recall: float | None = None,
    seed: int = 0,
    json: Flag = False,
) -> None:
    """Fit the map that brings rows of A into the space of B, and say how well it does on held-out scenes.

    Without pairs the verdict is found or not identified. The latter is an answer too: no file is written and
    the exit code is 0, unless --min-recall asks for more: then it is 5.

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
        directions weighted by their correlation; needs as many pairs as the widths of A and B together),
        ridge (any linear map, its penalty chosen on pairs left out; needs ten).
    reweight
        For whitened: 0 is a pure rotation, 1 least squares; 0.5 by default.
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
    _check_options(pairs, out, method, min_recall)
    fitting = fitting_of(method, reweight, captions)
    if pairs == "none":
        _fit_unpaired(a, b, out, holdout, min_recall, known, seed, json)
        return
    if known is not None:
        raise UsageError("known pairs help a search without pairs: --pairs none.", where="--known")
    from coview.joining import curve, wording
    from coview.joining.rotation import save_rotation

    both = paired_to_fit(a, b)
    order, held = curve.hold_out(both, holdout, seed)
    chosen = order[: _count(pairs, len(order))]
    rotation = curve.fit(both, _sorted(chosen), fitting, seed)
    judged = curve.evaluate(rotation, both, held, seed)
    recall = _require_recall(judged, min_recall)
    save_rotation(out, rotation)
    notes = [*both.notes, *wording.rank_notes(rotation), *wording.chance_notes(judged)]
    result = {
        "verdict": "fitted",
        "score": recall,
        "file": str(out),
        **rotation.manifest,
        "held_out": judged.as_json(),
        "notes": notes,
    }
    emit("rotate.fit", result, as_json=json, text=wording.fit_words(rotation, judged, notes, str(out)))


def _check_options(pairs: str, out: Path, method: str | None, min_recall: float | None) -> None:
    """UsageError for options that make no sense, before any file is read."""
    if out.suffix in (".npy", ".npz", ".parquet"):
        raise UsageError("a rotation is written as .safetensors.", where=f"--out {out}")
    if min_recall is not None and not 0 <= min_recall <= 1:
        raise UsageError(f"a recall lies between 0 and 1, not at {min_recall:g}.", where="--min-recall")
    if pairs == "none" and method is not None:
        raise UsageError("without pairs the map is always a rotation.", where="--method")


def fitting_of(method: str | None, reweight: float | None, captions: str) -> "Fitting":
    """How a map is fitted; UsageError for a weight that means nothing."""
    from coview.joining.curve import Fitting

    if reweight is None:
        return Fitting(method, captions=captions)
    if not 0 <= reweight <= 1:
        raise UsageError(f"it lies between 0 and 1, not at {reweight:g}.", where="--reweight")
    if method != "whitened":
        what = "only --method whitened weights directions, on pairs."
        raise UsageError(what, where="--reweight", hint="Choose that method, or leave this out.")
    return Fitting(method, reweight, captions)


def paired_rows(a: Path, b: Path) -> "PairedRows":
    """The rows of two files that belong together."""
    from coview.embeddings import load_embeddings
    from coview.joining.paired import pair_up

    return pair_up(load_embeddings(a), load_embeddings(b), (str(a), str(b)))


def paired_to_fit(a: Path, b: Path) -> "PairedRows":
    """`paired_rows` of two files that a map is fitted on."""
    from coview.joining.paired import pair_up

    return pair_up(_rows_to_fit(a), _rows_to_fit(b), (str(a), str(b)))


def _rows_to_fit(source: Path) -> "Embeddings":
    """An embedding file each of whose rows has a direction, as the cosine needs it."""
    from coview.embeddings import check_directions, load_embeddings

    rows = load_embeddings(source)
    check_directions(rows.matrix, str(source), rows.ids)
    return rows


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
    from coview.joining import wording
    from coview.joining.rotation import save_rotation
    from coview.joining.unpaired import fit_unpaired

    found = fit_unpaired(
        _rows_to_fit(a),
        _rows_to_fit(b),
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
    notes = [*found.notes, *(wording.chance_notes(found.judged) if found.judged else ())]
    result = {
        **found.fit.as_json(),
        "file": None if found.rotation is None else str(out),
        "signature": None if found.rotation is None else found.rotation.manifest["signature"],
        "held_out": found.judged and found.judged.as_json(),
        "notes": notes,
    }
    emit("rotate.fit", result, as_json=json, text=wording.unpaired_words(found, notes, str(out)))


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
