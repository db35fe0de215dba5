"""Which space rows lie in, so that a map of another is refused rather than applied.

What can be told, surest first:

* the width;
* the encoder, where the rows carry it: `coview embed` writes the hash of weights and preparation, and rows
  that a rotation produced carry its hash;
* the mean row. Rows of one encoder lie about one mean, in units of how far a row lies from it: the mean of
  rows of another encoder may lie elsewhere, and that of the rotation's other side lies near its own.

What cannot: two encoders of one width that both embed about zero, in files that do not say which they are
(SIGReg makes such). Nothing in the rows themselves tells an isotropic cloud from a turned one.
"""

import numpy as np

from coview.alignment.recipes import blocks, column_mean
from coview.embeddings import Embeddings
from coview.errors import InputError
from coview.joining.rotation import Rotation, mean_hash

# The mean of N rows of the fitted distribution lies 1/sqrt(N) from its mean in units of the spread, and that
# of another domain about .5; twice the spread is where nearly no row of the fitted distribution lies.
FAR = 2.0
# The mean of new rows of a side, also of another domain, lies off that side's mean in a direction that has
# nothing to do with the other side's: in many dimensions it comes hardly nearer to the one than to the other.
DOUBTFUL, SURELY = 2.0, 4.0


def describe_space(mean: np.ndarray, spread: float, manifest: dict) -> dict:
    """What a rotation's manifest keeps of one of its spaces.

    Parameters
    ----------
    mean : ndarray of shape (D,)
    spread : float, root mean square distance of rows from the mean
    manifest : dict, of the embeddings the rows come from; may be empty
    """
    facts = {
        "width": len(mean),
        "mean_hash": mean_hash(mean),
        "spread": spread,
        "model": manifest.get("model"),
    }
    return {**facts, "encoder": encoder_of(manifest)}


def encoder_of(manifest: dict) -> str | None:
    """What identifies the encoder that made rows, or None where nothing does."""
    made_by = manifest.get("made_by")
    if made_by is not None:  # rows picked from another file: its encoder counts, not that file
        return encoder_of(made_by) if isinstance(made_by, dict) else None
    if "fingerprint" not in manifest:
        return None
    layers = manifest.get("layers") or []
    return "|".join([str(manifest["fingerprint"]), *map(str, layers)])


def require_space(facts: dict, mean: np.ndarray, rows: Embeddings, where: str) -> tuple[str, ...]:
    """Raise InputError if rows are seen not to lie in the space that `facts` describe.

    Parameters
    ----------
    facts : dict, see `describe_space`
    mean : ndarray of shape (D,), the rotation's mean of that space
    rows : Embeddings; only the first few thousand rows are looked at
    where : str, the file they come from

    Returns
    -------
    tuple of str
        A note where nothing says that one encoder made these rows and those of the space.
    """
    hint = "Fit a rotation for this space: coview rotate fit A B --out R.safetensors."
    if rows.matrix.ndim != 2:
        raise InputError(
            f"it holds {rows.matrix.shape[1]} layers; a rotation maps one.",
            where=where,
            hint="Embed one layer.",
        )
    width = rows.matrix.shape[1]
    if width != len(mean):
        what = f"its rows are {width} numbers wide; the rotation was fitted on rows of {len(mean)}."
        raise InputError(what, where=where, hint=hint)
    here, fitted = encoder_of(rows.manifest), facts.get("encoder")
    if here and fitted and here != fitted:
        what = (
            f"its rows were made by {rows.manifest.get('model')} ({here.split('|')[0]}), "
            f"the rotation was fitted on {facts.get('model')} ({fitted.split('|')[0]})."
        )
        raise InputError(what, where=where, hint=hint)
    distance = _distance(rows, mean)
    if np.isfinite(distance) and distance > FAR * facts["spread"]:
        what = (
            f"the mean of its rows lies {distance / facts['spread']:.1f} times as far from the rotation's "
            "mean as rows should lie from theirs: this is another space, or another scale."
        )
        raise InputError(what, where=where, hint=hint)
    if here and fitted:
        return ()
    silent = "the rotation" if here else where
    return (
        f"{silent} does not say which encoder made the rows: only width and mean of {where} were checked",
    )


def require_side(
    rotation: Rotation, side: str, rows: Embeddings, where: str, swapped: str
) -> tuple[str, ...]:
    """`require_space` for one side of a rotation ("x" or "y"), which also tells rows of the other side.

    Where no encoder is named and the widths agree, the means decide: rows are refused whose mean lies several
    times as far from this side's mean as from the other's, and noted where that is less clear.

    Parameters
    ----------
    rotation, side, rows, where : see `require_space`
    swapped : what to do where they are rows of the other side
    """
    other = other_side(side)
    means = {"x": rotation.mean_x, "y": rotation.mean_y}
    try:
        notes = require_space(rotation.manifest[side], means[side], rows, where)
    except InputError as error:
        if not lies_in(rotation.manifest[other], means[other], rows):
            raise
        hint = f"They fit the rotation's side {other}. {swapped}"
        raise InputError(error.message, where=where, hint=hint) from error
    if not notes or len(means["x"]) != len(means["y"]):
        return notes
    own, theirs = _distance(rows, means[side]), _distance(rows, means[other])
    what = (
        f"the mean of its rows lies {theirs:.2g} from that of the rotation's side {other} and {own:.2g} from "
        f"that of side {side}"
    )
    if own > SURELY * theirs:
        raise InputError(f"{what}: these are rows of side {other}.", where=where, hint=swapped)
    if own > DOUBTFUL * theirs:
        return (*notes, f"{where}: {what}: is it of side {other}? {swapped}")
    return notes


def other_side(side: str) -> str:
    """The side of a rotation that is not this one."""
    return "y" if side == "x" else "x"


def lies_in(facts: dict, mean: np.ndarray, rows: Embeddings) -> bool:
    """Whether `require_space` lets rows pass."""
    try:
        require_space(facts, mean, rows, "")
    except InputError:
        return False
    return True


def mean_and_spread(rows) -> tuple[np.ndarray, float]:
    """The mean row (D,), float32, and the root mean square distance of rows from it."""
    mean = column_mean(rows)
    squares = sum(float(np.square(block - mean).sum()) for block in blocks(rows))
    return mean.astype(np.float32), float(np.sqrt(squares / rows.shape[0]))


def _distance(rows: Embeddings, mean: np.ndarray) -> float:
    """How far the mean of the first few thousand rows lies from a mean."""
    return float(np.linalg.norm(next(blocks(rows.matrix)).mean(axis=0, dtype=np.float64) - mean))
