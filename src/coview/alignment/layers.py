"""From two stacks of layers to one number: every pair is scored, the whole matrix is kept.

``max``    the best pair (what Huh et al. report); biased upwards, the more pairs the more
``cross``  the best pair chosen on half of the samples and scored on the other half, averaged over many halvings
``last``   the last layer of each side
``I,J``    layer I of the first side against layer J of the second
"""

from dataclasses import dataclass

import numpy as np

from coview.alignment.calibration import half_splits
from coview.alignment.metrics import Metric
from coview.errors import UsageError

# A side is a list of alternatives (one, or one for each caption of a scene); each is a list of layer summaries.
Side = list[list]


@dataclass(frozen=True)
class LayerChoice:
    """How one number comes out of a matrix: ``max``, ``cross``, ``last``, or a fixed pair."""

    mode: str
    pair: tuple[int, int] | None = None

    @classmethod
    def parse(cls, text: str) -> "LayerChoice":
        if text in ("max", "cross", "last"):
            return cls(text)
        try:
            i, j = (int(number) for number in text.split(","))
        except ValueError:
            raise UsageError(
                f"--layers {text!r} is not understood.",
                hint="Use max, cross, last, or two numbers such as 11,12.",
            ) from None
        return cls("fixed", (i, j))

    def pick(self, matrix: np.ndarray) -> tuple[int, int]:
        """The pair this choice takes from a matrix of scores."""
        rows, columns = matrix.shape
        if self.mode == "last":
            return rows - 1, columns - 1
        if self.pair is not None:
            i, j = self.pair
            if not (-rows <= i < rows and -columns <= j < columns):
                raise UsageError(f"there is no layer pair {i},{j} among {rows} x {columns} layers.")
            return i % rows, j % columns
        if np.isnan(matrix).all():
            return 0, 0
        i, j = np.unravel_index(int(np.nanargmax(matrix)), matrix.shape)
        return int(i), int(j)

    def label(self, shape: tuple[int, int]) -> str:
        """As it stands in a signature."""
        if self.mode == "fixed" and self.pair is not None:
            return f"{self.pair[0]},{self.pair[1]}"
        return self.mode if self.mode == "last" else f"{self.mode}({shape[0]}x{shape[1]})"


def score_matrix(metric: Metric, x: Side, y: Side) -> np.ndarray:
    """Scores of all layer pairs, shape (Lx, Ly), averaged over the alternatives of each side."""
    total = np.zeros((len(x[0]), len(y[0])))
    for layers_x in x:
        for layers_y in y:
            total += [[metric.compare(a, b) for b in layers_y] for a in layers_x]
    return total / (len(x) * len(y))


def rows_of(side: Side, index: np.ndarray) -> Side:
    """The same side with these rows in this order."""
    return [[summary.rows(index) for summary in layers] for layers in side]


def only(side: Side, layer: int) -> Side:
    """One layer of a side."""
    return [[layers[layer]] for layers in side]


def cross_fitted_max(metric: Metric, x: Side, y: Side, *, splits: int, seed: int, groups=None) -> float:
    """The best layer pair chosen on one half of the samples, scored on the other, averaged over halvings.

    Where the score is a mean over rows, the halves are of the queries, against one and the same gallery, so
    that N does not change; otherwise the halves are scored by themselves.
    """
    n = len(x[0][0])
    scores = []
    by_row = None if metric.per_row is None else _scores_by_row(metric, x, y)
    for halves in half_splits(n, splits if by_row is not None else min(splits, 10), seed, groups):
        if by_row is not None:
            first, second = (by_row[..., half].mean(axis=-1) for half in halves)
        else:
            first, second = (score_matrix(metric, rows_of(x, half), rows_of(y, half)) for half in halves)
        scores += [second[LayerChoice("max").pick(first)], first[LayerChoice("max").pick(second)]]
    return float(np.mean(scores))


def _scores_by_row(metric: Metric, x: Side, y: Side) -> np.ndarray:
    """Per-row scores of all layer pairs, shape (Lx, Ly, N)."""
    return np.mean(
        [
            [[metric.per_row(a.top.T, b.top.T) for b in layers_y] for a in layers_x]
            for layers_x in x
            for layers_y in y
        ],
        axis=0,
    )
