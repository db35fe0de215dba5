"""The search without pairs on two embedding files, judged on held-out pairs where there happen to be some."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from coview.embeddings import Embeddings
from coview.errors import InputError
from coview.joining.blind import BlindFit, find_rotation
from coview.joining.curve import Evaluation, evaluate
from coview.joining.paired import hold_out, pair_up
from coview.joining.rotation import Rotation, scene_digests
from coview.pairing import scenes_of


@dataclass(frozen=True)
class UnpairedFit:
    """What was found.

    Attributes
    ----------
    fit : BlindFit
    rotation : Rotation that knows which scenes it was fitted on, or None where none was identified
    judged : Evaluation on held-out pairs; None where the files share no scene, or nothing was found
    notes : tuple of str
    """

    fit: BlindFit
    rotation: Rotation | None
    judged: Evaluation | None
    notes: tuple[str, ...]


def fit_unpaired(
    x: Embeddings,
    y: Embeddings,
    *,
    held: int | None = None,
    known: Sequence[tuple[str, str]] = (),
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> UnpairedFit:
    """Search the rotation from X to Y without using which rows belong together.

    Where the files share scenes, some are held out to judge the outcome, and of the others one half gives
    rows of X and the other half rows of Y: no pair is left that the search could see (the protocol of
    Schnaus et al. 2026). Where they share none, all rows are used.

    Parameters
    ----------
    x, y : Embeddings
    held : int, scenes held out, see `coview.joining.paired.hold_out`
    known : pairs of (id in X, id in Y) that may be used after all
    seed, progress : see `coview.joining.blind.find_rotation`

    Raises
    ------
    InputError
        A known pair names a row that is not there.
    """
    if x.ids is None or y.ids is None:
        notes = ("rows have no ids, so that whether pairs are among them cannot be told",)
        return _fit(x, y, known, seed, progress, notes)
    if not set(x.ids) & set(y.ids) and not set(scenes_of(x)) & set(scenes_of(y)):
        return _fit(x, y, known, seed, progress, ())
    pairs = pair_up(x, y)
    order, held_items = hold_out(pairs, held, seed)
    scenes = np.array(pairs.scenes)
    # `order` keeps the items of a scene together; the cut is put between scenes.
    half = int(np.flatnonzero(scenes[order] == scenes[order[len(order) // 2]])[0])
    sides = [
        _only(side, rows[items].ravel())
        for side, rows, items in ((x, pairs.rows_x, order[:half]), (y, pairs.rows_y, order[half:]))
    ]
    notes = (
        f"the files share scenes: {len(set(scenes[held_items])):,} are held out to judge by, and of the "
        f"others {half:,} items give rows of A only and {len(order) - half:,} rows of B only",
    )
    found = _fit(sides[0], sides[1], known, seed, progress, notes)
    if found.rotation is None:
        return found
    return dataclasses.replace(found, judged=evaluate(found.rotation, pairs, held_items, seed))


def _fit(x: Embeddings, y: Embeddings, known, seed, progress, notes) -> UnpairedFit:
    found = find_rotation(
        x.matrix,
        y.matrix,
        seed=seed,
        views_x=x.scenes,
        views_y=y.scenes,
        known_pairs=_places(x, y, known) or None,
        made_by=(x.manifest, y.manifest),
        progress=progress,
    )
    rotation = found.rotation
    if rotation is not None and x.ids is not None and y.ids is not None:
        rotation = dataclasses.replace(rotation, fitted_on=scene_digests({*scenes_of(x), *scenes_of(y)}))
    return UnpairedFit(found, rotation, None, notes)


def _only(side: Embeddings, rows: np.ndarray) -> Embeddings:
    rows = np.sort(rows)
    ids, scenes = (
        None if words is None else tuple(words[row] for row in rows) for words in (side.ids, side.scenes)
    )
    return Embeddings(side.matrix[rows], ids, scenes, side.manifest)


def _places(x: Embeddings, y: Embeddings, known: Sequence[tuple[str, str]]) -> list[tuple[int, int]]:
    """Known pairs as row numbers."""
    places = [{word: row for row, word in enumerate(side.ids or ())} for side in (x, y)]
    for pair in known:
        for word, side, name in zip(pair, places, "AB", strict=True):
            if word not in side:
                what = f"the known pair {pair[0]!r}, {pair[1]!r} names no row of {name} that is searched on."
                raise InputError(what, hint="Name ids of rows, of scenes that are not on both sides.")
    return [(places[0][a], places[1][b]) for a, b in known]
