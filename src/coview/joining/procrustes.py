"""Maps fitted on pairs: orthogonal Procrustes, its whitened form, and ridge regression.

All are functions of three small matrices, the second moments of both sides and between them, so that a fit
reads each row twice and holds a block of rows at a time, whatever their number.
"""

from dataclasses import dataclass, replace

import numpy as np

from coview.alignment.recipes import Layer
from coview.alignment.rows import ROWS_AT_ONCE
from coview.alignment.signature import format_signature
from coview.errors import InputError, UsageError, did_you_mean
from coview.joining.rotation import Rotation, scene_digests, unit_rows
from coview.joining.space import describe_space, mean_and_spread

METHODS = ("procrustes", "whitened", "ridge")
STRENGTHS = tuple(10.0**power for power in np.arange(-4, 3.5, 0.5))
FOLDS, FOLD_ROWS = 5, 2000
LEAST_PAIRS = {"procrustes": 2, "ridge": 10}  # whitened: see `least_pairs`


@dataclass(frozen=True)
class Moments:
    """Sums of products of paired rows: ``xx`` (Dx, Dx), ``yy`` (Dy, Dy), ``xy`` (Dx, Dy), float64."""

    xx: np.ndarray
    yy: np.ndarray
    xy: np.ndarray


def moments(x, y, *, own: bool = True) -> Moments:
    """Moments of paired rows, read in blocks; without `own` only ``xy`` is computed, the others stay zero.

    Parameters
    ----------
    x, y : arrays of shape (N, Dx) and (N, Dy), or layers
    """
    if x.shape[0] != y.shape[0]:
        raise InputError(f"{x.shape[0]} rows cannot be paired with {y.shape[0]}.")
    x, y = (side if isinstance(side, Layer) else Layer(side) for side in (x, y))
    widths = x.shape[1], y.shape[1]
    xx, yy, xy = (np.zeros(shape) for shape in ((widths[0],) * 2, (widths[1],) * 2, widths))
    for start in range(0, x.shape[0], ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        a, b = x.rows(rows), y.rows(rows)
        xy += a.T @ b
        if own:
            xx += a.T @ a
            yy += b.T @ b
    return Moments(xx, yy, xy)


def procrustes(x, y) -> np.ndarray:
    """The rotation W that brings x nearest to y: ``x @ W`` is close to y (Schönemann 1966).

    Reflections are allowed. With unequal widths W is semi-orthogonal: into a wider space it keeps all
    lengths, into a narrower one it drops what has no partner. Directions that the pairs say nothing about
    are mapped to zero rather than to a partner chosen by rounding errors.

    Parameters
    ----------
    x, y : arrays of shape (N, Dx) and (N, Dy), paired rows, centred and of unit length as a rule

    Returns
    -------
    ndarray of shape (Dx, Dy), float32
    """
    return nearest_rotation(moments(x, y, own=False).xy)[0].astype(np.float32)


def nearest_rotation(cross: np.ndarray) -> tuple[np.ndarray, int]:
    """U Vᵀ of a matrix U S Vᵀ, over the directions where it is not zero, and how many those are."""
    left, _, right, rank = _directions(cross)
    return left[:, :rank] @ right[:rank], rank


def whitened(m: Moments, reweight: float = 0.5) -> tuple[np.ndarray, int]:
    """Whiten both sides, rotate, weight each direction by its correlation to a power, colour as y is.

    With ``Cxx^-1/2 Cxy Cyy^-1/2 = U S Vᵀ`` the map is ``Cxx^-1/2 U S^p Vᵀ Cyy^1/2``: p = 0 is the pure
    rotation of whitened spaces, p = 1 least squares, p = 1/2 the re-weighting of VecMap (Artetxe, Labaka
    and Agirre, AAAI 2018), there divided between both sides, here folded into one matrix.

    Parameters
    ----------
    m : Moments of the training rows
    reweight : float, the power p

    Returns
    -------
    matrix : ndarray of shape (Dx, Dy), and the rank
    """
    (vx, sx), (vy, sy) = _spectrum(m.xx), _spectrum(m.yy)
    inner = (vx / sx).T @ m.xy @ (vy / sy)
    left, size, right, rank = _directions(inner)
    turned = left[:, :rank] * size[:rank] ** reweight @ right[:rank]
    return (vx / sx) @ turned @ (vy * sy).T, rank


def ridge(x, y, *, strengths=STRENGTHS, seed: int = 0) -> tuple[np.ndarray, float]:
    """Least squares with a penalty on the map's size, ``(XᵀX + l I)^-1 XᵀY``.

    The strength is chosen by the mean cosine between mapped rows and partners that were left out of the fit:
    each fifth of the pairs in turn, or 2,000 of many, drawn by seed. The map is then fitted on all pairs.

    Parameters
    ----------
    x, y : arrays of shape (N, Dx) and (N, Dy), or layers: paired rows, prepared
    strengths : penalties to choose from, in units of the mean variance of x

    Returns
    -------
    matrix : ndarray of shape (Dx, Dy), float32, and the strength chosen

    Raises
    ------
    InputError
        Fewer than ten pairs.
    """
    x, y = (side if isinstance(side, Layer) else Layer(side) for side in (x, y))
    n = x.shape[0]
    if n < LEAST_PAIRS["ridge"]:
        hint = "Use --method procrustes."
        raise InputError(f"{n} pairs are too few to choose the strength of a ridge map on.", hint=hint)
    every = moments(x, y)
    order = np.random.default_rng([seed, 21]).permutation(n)
    folds = np.array_split(order, FOLDS) if n < FOLDS * FOLD_ROWS else [order[:FOLD_ROWS]]
    cosines = np.zeros(len(strengths))
    for fold in folds:
        held_x, held_y = (side.rows(np.sort(fold)) for side in (x, y))
        held = moments(held_x, held_y)
        solve, partners = _ridge_solver(every.xx - held.xx, every.xy - held.xy), unit_rows(held_y)
        cosines += [(unit_rows(held_x @ solve(one)) * partners).sum() for one in strengths]
    best = strengths[int(np.argmax(cosines))]
    return _ridge_solver(every.xx, every.xy)(best).astype(np.float32), float(best)


def fit_rotation(
    x,
    y,
    *,
    method: str | None = None,
    reweight: float = 0.5,
    seed: int = 0,
    made_by: tuple[dict, dict] = ({}, {}),
    scenes: tuple[str, ...] | None = None,
) -> Rotation:
    """Fit a map from X to Y on paired rows: centre each side by its mean, scale rows to unit length, fit.

    Parameters
    ----------
    x, y : arrays of shape (N, Dx) and (N, Dy), or `Layer` of rows in an order; row i of one belongs to row i
        of the other
    method : "procrustes", "whitened", "ridge", or None: procrustes, if the widths are equal
    reweight : float, see `whitened`
    seed : int, draws the rows on which the strength of ridge is chosen
    made_by : manifests of the embeddings on both sides, by which their spaces are recognised later
    scenes : ids of what the rows show, so that an evaluation can leave them out

    Raises
    ------
    UsageError
        The widths differ and no method was chosen; whitening with fewer pairs than both widths need.
    InputError
        Too few pairs, or rows that have nothing to do with each other even here (no covariance at all).
    """
    x, y = (side if isinstance(side, Layer) else Layer(side) for side in (x, y))
    method = choose_method(method, x.shape[1], y.shape[1])
    require_pairs(method, x.shape[0], x.shape[1], y.shape[1])
    (mean_x, spread_x), (mean_y, spread_y) = mean_and_spread(x), mean_and_spread(y)
    x, y = (replace(side, mean=mean, unit=True) for side, mean in ((x, mean_x), (y, mean_y)))
    recipe: dict = {"method": method, "center": "train", "unit": True}
    if method == "ridge":
        matrix, recipe["strength"] = ridge(x, y, seed=seed)
        rank = int(np.linalg.matrix_rank(matrix))
    elif method == "whitened":
        matrix, rank = whitened(moments(x, y), reweight)
        recipe["reweight"] = reweight
    else:
        matrix, rank = nearest_rotation(moments(x, y, own=False).xy)
    if rank == 0:
        raise InputError(
            "the pairs determine no direction: A and B do not vary together.", hint="Check the rows."
        )
    rounded = {name: f"{value:.3g}" if isinstance(value, float) else value for name, value in recipe.items()}
    facts = {
        "x": describe_space(mean_x, spread_x, made_by[0]),
        "y": describe_space(mean_y, spread_y, made_by[1]),
        "recipe": recipe,
        "pairs": x.shape[0],
        "rank": rank,
        "seed": seed,
        "signature": format_signature("rotation", {**rounded, "pairs": x.shape[0], "rank": rank, "v": "0.1"}),
    }
    fitted_on = None if scenes is None else scene_digests(set(scenes))
    return Rotation(matrix.astype(np.float32), mean_x, mean_y, facts, fitted_on)


def choose_method(method: str | None, width_x: int, width_y: int) -> str:
    """The method asked for, or procrustes where the widths are equal.

    Raises
    ------
    UsageError
        An unknown method, or none for unequal widths.
    """
    if method is None and width_x != width_y:
        raise UsageError(
            f"the widths differ ({width_x} and {width_y}): say how to join them.",
            hint="--method procrustes keeps lengths as far as the narrower side allows; ridge fits any map.",
        )
    if method not in (None, *METHODS):
        raise UsageError(f"unknown method {method!r}.", hint=did_you_mean(str(method), METHODS))
    return method or "procrustes"


def least_pairs(method: str, width_x: int, width_y: int) -> int:
    """The number of pairs that a method needs: whitening needs as many as both spaces have directions."""
    return width_x + width_y if method == "whitened" else LEAST_PAIRS[method]


def require_pairs(method: str, pairs: int, width_x: int, width_y: int) -> None:
    """Raise InputError if a method cannot be fitted on so few pairs."""
    least = least_pairs(method, width_x, width_y)
    if pairs < least:
        other = "" if method == "procrustes" else " Or use --method procrustes, which can do with fewer."
        raise InputError(
            f"{pairs} pair{'s are' if pairs != 1 else ' is'} too few for {method} between spaces of width "
            f"{width_x} and {width_y}: at least {least} are needed.",
            hint=f"Give more pairs.{other}",
        )


def _directions(cross: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """The singular value decomposition and the rank beyond rounding; single precision products are coarse."""
    left, size, right = np.linalg.svd(cross, full_matrices=False)
    rounding = np.sqrt(max(cross.shape)) * np.finfo(np.float32).eps * size[0]
    rank = int((size > rounding).sum())
    return left, size, right, rank


def _spectrum(own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvectors of a second moment and the roots of its eigenvalues, without empty directions."""
    values, vectors = np.linalg.eigh(own)
    kept = values > values[-1] * len(values) * np.finfo(np.float32).eps
    return vectors[:, kept], np.sqrt(values[kept])


def _ridge_solver(own: np.ndarray, cross: np.ndarray):
    """A function from the strength of the penalty to the map, the matrix taken apart once."""
    values, vectors = np.linalg.eigh(own)
    turned, unit = vectors.T @ cross, max(float(values.mean()), np.finfo(float).tiny)
    return lambda strength: vectors @ (turned / (np.maximum(values, 0) + strength * unit)[:, None])
