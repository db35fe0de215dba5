"""The standard error against slow, obvious twins; its coverage is in test_statistics.py."""

import numpy as np
import pytest
from spaces import latent_views

from coview.alignment import align
from coview.alignment.calibration import dependent_row_error, half_splits, row_error
from coview.alignment.metrics import METRICS
from coview.alignment.neighbours import top_neighbours


def row_scores(per_row, X, Y, k, groups=None):
    lists = [top_neighbours(side, k, groups=groups) for side in (X, Y)]
    return per_row(*lists)


def error_by_new_searches(metric, X, Y, k, splits, groups=None):
    """Every half searched anew, every variance written out."""
    X, Y = (side - side.mean(axis=0) for side in (X, Y))
    per_row, scale = METRICS[metric].per_row, METRICS[metric].perfect(k) / METRICS[metric].perfect(k // 2)
    of_group = np.arange(len(X)) if groups is None else groups

    def variance(rows, members):
        sums = [np.sum(rows[members == one] - rows.mean()) for one in np.unique(members)]
        return len(sums) / (len(sums) - 1) * sum(one**2 for one in sums) / len(rows) ** 2

    apart, expected = [], []
    for halves in half_splits(len(X), splits, 0, groups):
        first, second = (
            scale * row_scores(per_row, X[half], Y[half], k // 2, of_group[half]) for half in halves
        )
        apart.append((first.mean() - second.mean()) ** 2 / 4)
        expected.append((variance(first, of_group[halves[0]]) + variance(second, of_group[halves[1]])) / 4)
    alone = variance(row_scores(per_row, X, Y, k, of_group), of_group)
    return np.sqrt(alone + max(0, np.mean(apart) - np.mean(expected)))


@pytest.mark.parametrize("metric", ["mutual_knn", "lcs_knn", "edit_distance_knn"])
@pytest.mark.parametrize("grouped", [False, True])
def test_the_error_is_that_of_halves_searched_anew(metric, grouped):
    X, Y = latent_views(90, 5)
    groups = np.arange(90) // 3 if grouped else None
    found = align(X, Y, metric=metric, k=8, groups=groups, permutations=0, splits=12)
    assert found.stderr == pytest.approx(error_by_new_searches(metric, X, Y, 8, 12, groups), rel=1e-6)


def test_row_error_is_that_of_a_mean():
    rows = np.random.default_rng(0).standard_normal(500)
    assert row_error(rows) == pytest.approx(rows.std(ddof=1) / 500**0.5)


def test_rows_of_a_group_count_as_one():
    values = np.random.default_rng(0).standard_normal(100)
    rows, groups = np.repeat(values, 5), np.repeat(np.arange(100), 5)
    assert row_error(rows, groups) == pytest.approx(row_error(values))
    assert row_error(rows, groups[::-1] * 7) == pytest.approx(row_error(values))  # labels are only names


def test_halves_that_differ_no_more_than_rows_do_add_nothing():
    rows = np.random.default_rng(0).standard_normal(400)
    halves = np.array([[rows[half].mean() for half in split] for split in half_splits(400, 50, 0)])
    alone = np.array([[row_error(rows[half]) for half in split] for split in half_splits(400, 50, 0)])
    assert dependent_row_error(rows, halves * 0, alone)[0] == row_error(rows)
    error, same = dependent_row_error(rows, halves, alone)
    assert error == pytest.approx(row_error(rows), rel=0.1)
    np.testing.assert_allclose(
        same, halves, atol=0.01 * halves.std()
    )  # as many neighbours in halves: no change


def test_halves_whose_rows_vary_more_are_drawn_together():
    rows, halves = np.array([0.0, 1.0, 0.0, 1.0]), np.array([[0.2, 0.4], [0.4, 0.6]])
    alone = np.full(
        (2, 2), row_error(rows) * 2
    )  # rms over both halves of a split: twice as much over two halves
    _, narrower = dependent_row_error(rows, halves, alone)
    np.testing.assert_allclose(narrower, 0.4 + (halves - 0.4) / 2**0.5)
