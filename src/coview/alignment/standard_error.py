"""The standard error of an alignment score: how far it would move on another sample of the same size.

For a mean over rows there are two parts. Rows differ, which the rows themselves show; and they depend on each
other, for they share neighbours, which only random halves show: two halves differ by both parts. Halves are
scored with half of the k neighbours, so that a neighbourhood keeps its share of the samples. With all k the
lists of a half would reach twice as far, out of one cluster and into the next.
"""

from dataclasses import replace

import numpy as np

from coview.alignment import calibration
from coview.alignment.layers import rows_of, score_matrix, scores_by_row
from coview.alignment.metrics import Metric
from coview.alignment.sides import Side


def standard_error(
    metric: Metric, x: Side, y: Side, k: int, *, splits: int, seed: int, groups=None, sampled: bool = False
) -> tuple[float, np.ndarray]:
    """The standard error of one layer pair's score, NaN without halves; and their scores, shape (splits, 2).

    The scores of halves serve comparisons (`calibration.paired_error`), and are scaled for them.

    Parameters
    ----------
    metric : Metric
    x, y : sides of one layer each
    k : int, neighbours of the whole sample
    splits, seed : int, how many halvings, and of what seed
    groups : array of N int, optional; rows that fall into one half together
    sampled : bool
        Whether the rows are queries drawn from a larger gallery, which halves leave whole.
    """
    n, by_row = len(x[0][0]), metric.per_row is not None and not sampled
    k_half = calibration.half_neighbours(k) if by_row else k
    if not splits or ("k" in metric.uses and not sampled and k_half >= n // 2):
        return float("nan"), np.empty((0, 2))
    splitting = calibration.half_splits(n, splits, seed, groups)
    if not by_row:
        scores = [
            [score_matrix(metric, rows_of(x, half), rows_of(y, half))[0, 0] for half in halves]
            for halves in splitting
        ]
        return calibration.half_split_error(np.array(scores)), np.array(scores)
    scale = metric.perfect(k) / metric.perfect(k_half)
    x_half, y_half = (_with_k(side, k_half) for side in (x, y))
    scores, alone = np.empty((splits, 2)), np.empty((splits, 2))
    for number, halves in enumerate(splitting):
        for which, half in enumerate(halves):
            rows = scale * scores_by_row(metric, rows_of(x_half, half), rows_of(y_half, half))[0, 0]
            scores[number, which] = rows.mean()
            alone[number, which] = calibration.row_error(rows, None if groups is None else groups[half])
    rows = scores_by_row(metric, x, y)[0, 0]
    return calibration.dependent_row_error(rows, scores, alone, groups)


def _with_k(side: Side, k: int) -> Side:
    return [[replace(lists, k=k) for lists in layers] for layers in side]
