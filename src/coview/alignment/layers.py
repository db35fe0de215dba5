"""From two stacks of layers to one number: every pair is scored, the whole matrix is kept.

``max``    the best pair (what Huh et al. report); biased upwards, the more pairs the more
``cross``  the best pair chosen on half of the samples, scored on the other half, averaged over halvings
``last``   the last layer of each side
``I,J``    layer I of the first side against layer J of the second
"""

from dataclasses import dataclass

import numpy as np

from coview.alignment.calibration import half_splits
from coview.alignment.metrics import Metric
from coview.alignment.sides import Side
from coview.errors import UsageError

# Metrics that must be computed anew on each half are cross-fitted over fewer halvings.
COSTLY_SPLITS = 10


@dataclass(frozen=True)
class LayerChoice:
    """How one number comes out of a matrix: ``max``, ``cross``, ``last``, or a fixed pair."""

    mode: str
    pair: tuple[int, int] = (0, 0)

    @classmethod
    def parse(cls, text: str) -> "LayerChoice":
        """From "max", "cross", "last" or "I,J"; negative numbers count from the last layer."""
        if text in ("max", "cross", "last"):
            return cls(text, (-1, -1))
        try:
            i, j = (int(number) for number in text.split(","))
        except ValueError:
            hint = "Use max, cross, last, or two numbers such as 11,12."
            raise UsageError(f"layers {text!r} is not understood.", hint=hint) from None
        return cls("fixed", (i, j))

    @property
    def searches(self) -> bool:
        """Whether the pair is chosen by its score."""
        return self.mode in ("max", "cross")

    def pick(self, matrix: np.ndarray) -> tuple[int, int]:
        """The pair this choice takes from a matrix of scores, in the order the sides were given."""
        if self.searches:
            return best_pair(matrix)
        (i, j), (rows, columns) = self.pair, matrix.shape
        if not (-rows <= i < rows and -columns <= j < columns):
            raise UsageError(f"there is no layer pair {i},{j} among {rows} x {columns} layers.")
        return i % rows, j % columns

    def label(self, shape: tuple[int, int]) -> str:
        """As it stands in a signature."""
        if shape == (1, 1):
            return "single"
        if self.searches:
            return f"{self.mode}({shape[0]}x{shape[1]})"
        return self.mode if self.mode == "last" else f"{self.pair[0]},{self.pair[1]}"


def best_pair(matrix: np.ndarray) -> tuple[int, int]:
    """The first largest entry; entries that are NaN are passed over."""
    if np.isnan(matrix).all():
        return 0, 0
    i, j = np.unravel_index(int(np.nanargmax(matrix)), matrix.shape)
    return int(i), int(j)


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
    that N does not change; otherwise each half is scored by itself.
    """
    n = len(x[0][0])
    by_row = None if metric.per_row is None else scores_by_row(metric, x, y)
    scores = []
    for first, second in half_splits(n, splits if by_row is not None else COSTLY_SPLITS, seed, groups):
        if by_row is not None:
            a, b = _mean_over(by_row, first), _mean_over(by_row, second)
        else:
            a, b = (score_matrix(metric, rows_of(x, half), rows_of(y, half)) for half in (first, second))
        scores += [b[best_pair(a)], a[best_pair(b)]]
    return float(np.mean(scores))


def _mean_over(by_row: np.ndarray, half: np.ndarray) -> np.ndarray:
    return by_row[..., half].mean(axis=-1, dtype=np.float64)


def scores_by_row(metric: Metric, x: Side, y: Side) -> np.ndarray:
    """Scores of rows for all layer pairs, shape (Lx, Ly, N), averaged over the alternatives of each side."""
    assert metric.per_row is not None
    total = np.zeros((len(x[0]), len(y[0]), len(x[0][0])), dtype=np.float32)
    for layers_x in x:
        for layers_y in y:
            for i, a in enumerate(layers_x):
                for j, b in enumerate(layers_y):
                    total[i, j] += metric.per_row(a.top.T, b.top.T)
    return total / (len(x) * len(y))
