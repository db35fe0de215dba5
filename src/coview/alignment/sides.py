"""From what a user has (arrays, stacks, lists of layers, embeddings) to what metrics compare."""

from dataclasses import replace

import numpy as np

from coview.alignment.metrics import Metric, Settings
from coview.alignment.recipes import Layer, check_layer, prepare
from coview.embeddings import Embeddings
from coview.errors import InputError
from coview.pairing import Pairs, Rows, pair

# A side is a list of alternatives (one, or one for each caption of a scene), each a list of layer summaries.
Side = list[list]


def pair_any(sides, *, captions="mean", groups=None, exclude=(), names=()) -> Pairs:
    """Pairs from embeddings (by id) or arrays (by order); explicit groups take precedence over scenes.

    Parameters
    ----------
    sides : list of Embeddings, arrays (N, D) or (N, L, D), or lists of arrays (N, D_l)
    captions, exclude, names : see `coview.pairing.pair`
    groups : sequence of N labels, optional
    """
    if all(isinstance(side, Embeddings) for side in sides):
        pairs = pair(sides, captions=captions, exclude=exclude, names=names)
    else:
        matrices = [side.matrix if isinstance(side, Embeddings) else side for side in sides]
        rows = [Rows(list(matrix) if isinstance(matrix, tuple) else matrix) for matrix in matrices]
        for one in rows:
            if len(one) != len(rows[0]):
                raise InputError(f"{len(rows[0])} rows cannot be paired with {len(one)}.")
        pairs = Pairs(tuple((one,) for one in rows))
    if groups is None:
        return pairs
    labels = np.unique(np.asarray(groups), return_inverse=True)[1]
    if len(labels) != len(pairs):
        raise InputError(f"{len(labels)} groups for {len(pairs)} rows.")
    labels = labels if labels.max() + 1 < len(labels) else None
    return Pairs(pairs.sides, pairs.ids, labels, pairs.captions, pairs.notes)


def sample_queries(n: int, queries: int | None, seed: int) -> np.ndarray | None:
    """Which rows are asked, sorted; None for all."""
    if queries is None or queries >= n:
        return None
    return np.sort(np.random.default_rng([seed, 3]).permutation(n)[:queries])


def prepared_layers(alternatives: tuple[Rows, ...], recipe: str, name: str) -> list[list[Layer]]:
    """Each layer of one side, checked and prepared, for each alternative.

    Raises
    ------
    InputError
        A row that no metric can use; side, layer and row are named.
    """
    ready = []
    for rows in alternatives:
        layers, stacked = split_layers(rows)
        names = [name] if len(layers) == 1 else [f"{name} layer {number}" for number in range(len(layers))]
        layers = [replace(layer, name=called) for layer, called in zip(layers, names, strict=True)]
        for layer in layers:
            check_layer(layer)
        ready.append(prepare(layers, recipe, stacked=stacked))
    return ready


def summarise(layers: list[list[Layer]], metric: Metric, settings: Settings) -> Side:
    """The summaries of each layer."""
    return [[metric.summarise(layer.loaded(), settings) for layer in alternative] for alternative in layers]


def split_layers(rows: Rows) -> tuple[list[Layer], bool]:
    """Layers of a matrix (N, D), a stack (N, L, D) or a list of matrices; and whether they are a stack."""
    matrix = rows.matrix
    if isinstance(matrix, list):
        return [Layer(layer, order=rows.order) for layer in matrix], False
    if matrix.ndim == 2:
        return [Layer(matrix, order=rows.order)], True
    if matrix.ndim == 3:
        return [Layer(matrix[:, layer], order=rows.order) for layer in range(matrix.shape[1])], True
    raise InputError(f"expected (N, D) or (N, L, D), found shape {tuple(matrix.shape)}.")
