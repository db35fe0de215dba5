"""How features are prepared before they are compared: the largest knob of any alignment number.

==========  ====================================================================================
``raw``     nothing
``center``  subtract the mean row, then rows to unit length
``prh``     clip entries at a 95th percentile, then rows to unit length; the threshold is the mean over
            samples of each sample's percentile over all layers, as the command line of Huh et al.,
            "The Platonic Representation Hypothesis" (2024) does
``prh-exact``  the same with one percentile over all entries, as their library does
==========  ====================================================================================

A stack (N, L, D) shares one clipping threshold among its layers; a list of layers has one for each, as there.
Preparation happens while rows are read, so that memory-mapped features are never copied whole.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coview.alignment.rows import ROWS_AT_ONCE, read_rows, row_norms
from coview.errors import InputError, UsageError, did_you_mean

RECIPES = ("center", "prh", "prh-exact", "raw")
CLIP_QUANTILE = 0.95
LOADED_BYTES = 128 * 2**20


@dataclass(frozen=True)
class Layer:
    """The features of one layer, prepared as they are read.

    Attributes
    ----------
    source : array, GPU tensor or layer of shape (N, D); memory-mapped arrays stay so
    mean : ndarray of shape (D,), subtracted; or None
    clip : float, entries are clipped to [-clip, clip]; or None
    unit : whether rows are scaled to unit length
    order : ndarray of int, which rows of the source in which order; or None for all as they stand
    name : str, what errors call it
    """

    source: Any
    mean: np.ndarray | None = None
    clip: float | None = None
    unit: bool = False
    order: np.ndarray | None = None
    name: str = ""

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self.source) if self.order is None else len(self.order), self.source.shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def rows(self, index) -> np.ndarray:
        """Prepared rows, float32 (float64 if the source is)."""
        rows = read_rows(self.source, index if self.order is None else self.order[index])
        read = rows
        if self.mean is not None:
            rows = rows - self.mean.astype(rows.dtype)
        if self.clip is not None:
            rows = np.clip(rows, -self.clip, self.clip)
        if self.unit:
            norms = row_norms(rows)
            if not norms.all():
                row = self.source_row(int(np.arange(len(self))[index][np.argmin(norms)]))
                why = "is all zero" if self.mean is None else "equals the mean of all rows"
                raise InputError(f"row {row} has no direction: it {why}.", where=self.name)
            rows = np.divide(rows, norms[:, None], out=None if rows is read else rows)
        return rows

    def source_row(self, row: int) -> int:
        """The place in the source of a row of this layer."""
        return row if self.order is None else int(self.order[row])

    def matrix(self) -> np.ndarray:
        """All prepared rows, shape (N, D)."""
        return self.rows(slice(None))

    def loaded(self) -> "Layer":
        """The layer prepared once and held in memory, if that is small; else itself, prepared while read."""
        rows, width = self.shape
        return Layer(self.matrix()) if rows * width * 4 <= LOADED_BYTES else self


def prepare(layers: list[Layer], recipe: str, *, stacked: bool = False) -> list[Layer]:
    """Layers of one encoder, made ready by a recipe.

    Parameters
    ----------
    layers : list of Layer
    recipe : one of RECIPES
    stacked : bool
        Whether the layers came as one stack (N, L, D), whose clipping threshold is shared.

    Raises
    ------
    InputError
        A row is constant, or has no direction once prepared; the row is named.
    """
    if recipe not in RECIPES:
        raise UsageError(f"unknown recipe {recipe!r}.", hint=did_you_mean(recipe, RECIPES))
    if recipe == "raw":
        return layers
    if recipe == "center":
        return [replace(one, mean=column_mean(one), unit=True) for one in layers]
    threshold = percentile_by_sample if recipe == "prh" else percentile_of_all
    shared = threshold(layers) if stacked else None
    return [replace(one, clip=shared if stacked else threshold([one]), unit=True) for one in layers]


def column_mean(X) -> np.ndarray:
    """The mean row, shape (D,), float64, summed block by block."""
    total = sum(rows.sum(axis=0, dtype=np.float64) for rows in blocks(X))
    return np.asarray(total) / X.shape[0]


def blocks(X):
    """The rows of X, a few thousand at a time."""
    for start in range(0, X.shape[0], ROWS_AT_ONCE):
        yield read_rows(X, slice(start, start + ROWS_AT_ONCE))


def percentile_by_sample(layers: list, quantile: float = CLIP_QUANTILE) -> float:
    """Each sample's quantile of its absolute entries over all layers, averaged over samples."""
    total = 0.0
    width = sum(layer.shape[1] for layer in layers)
    place = quantile * (width - 1)
    below = int(place)
    for parts in zip(*(blocks(layer) for layer in layers), strict=True):
        entries = np.empty((len(parts[0]), width), dtype=parts[0].dtype)
        np.concatenate([np.abs(part) for part in parts], axis=1, out=entries)
        entries.partition(below, axis=1)  # numpy.quantile partitions twice and takes six times as long
        low = entries[:, below]
        high = entries[:, below + 1 :].min(axis=1) if below + 1 < width else low
        total += float((low + (place - below) * (high - low)).sum(dtype=np.float64))
    return total / layers[0].shape[0]


def percentile_of_all(layers: list, quantile: float = CLIP_QUANTILE) -> float:
    """Of all absolute entries in order, entry number int(quantile * size), in two passes and constant memory.

    Non-negative single precision numbers are ordered as their bit patterns: the first pass counts the upper
    16 bits, the second the lower 16 bits of the numbers that share the upper ones of the entry sought.
    """
    size = sum(layer.shape[0] * layer.shape[1] for layer in layers)
    rank = min(int(quantile * size), size - 1)

    def patterns():
        for layer in layers:
            for rows in blocks(layer):
                yield np.abs(rows).astype(np.float32).view(np.uint32).ravel()

    def count(halves) -> np.ndarray:
        return np.cumsum(np.sum([np.bincount(half, minlength=65536) for half in halves], axis=0))

    up_to = count(bits >> 16 for bits in patterns())
    upper = int(np.searchsorted(up_to, rank, side="right"))
    rank -= int(up_to[upper - 1]) if upper else 0
    up_to = count(bits[bits >> 16 == upper] & 0xFFFF for bits in patterns())
    lower = int(np.searchsorted(up_to, rank, side="right"))
    return float(np.array([upper << 16 | lower], dtype=np.uint32).view(np.float32)[0])


def check_layer(layer: Layer) -> None:
    """Raise InputError naming the first row that is not finite, is constant, or has no direction."""
    done = 0
    for rows in blocks(layer):
        low, high = rows.min(axis=1), rows.max(axis=1)
        wrong = {
            "holds NaN or infinite values": ~(np.isfinite(low) & np.isfinite(high)),
            "is constant (all entries equal)": (low == high) & ((low == 0) | (rows.shape[1] > 1)),
        }
        for what, bad in wrong.items():
            if bad.any():
                raise InputError(
                    f"row {layer.source_row(done + int(np.argmax(bad)))} {what}.",
                    where=layer.name,
                    hint="Rows count from 0. Embed it again or leave it out.",
                )
        done += len(rows)
