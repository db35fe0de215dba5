import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spaces import independent, latent_views

from coview.alignment import calibration
from coview.alignment.calibration import (
    benjamini_hochberg,
    calibrated_score,
    half_split_error,
    half_splits,
    overlap_chance,
    overlap_null_moments,
    permutation_p,
    permutations,
)
from coview.alignment.neighbours import NeighbourLists, top_neighbours
from coview.alignment.overlap import mutual_knn
from coview.errors import InputError


def test_null_moments_are_exact_over_all_re_pairings():
    """All 6! = 720 re-pairings of six rows."""
    from itertools import permutations as every

    X, Y = independent(6, 0)
    x, y = (NeighbourLists(top_neighbours(side, 2), 2) for side in (X, Y))
    scores = [mutual_knn(x.ids, y.rows(np.array(order)).ids).mean() for order in every(range(6))]
    mean, deviation = overlap_null_moments(x.ids, y.ids)
    assert mean == pytest.approx(np.mean(scores), abs=1e-12)
    assert deviation == pytest.approx(np.std(scores), abs=1e-12)
    assert mean == pytest.approx(overlap_chance(2, 6))


def test_null_moments_with_hubs_match_permutations():
    X = independent(300, 1, (4, 4))[0]
    X[:, 0] += 10 * (np.random.default_rng(0).random(300) < 0.02)
    Y = independent(300, 2)[1]
    x, y = (
        NeighbourLists(top_neighbours(side, 10, metric=metric), 10)
        for side, metric in ((X, "dot"), (Y, "cosine"))
    )
    assert np.bincount(x.ids.ravel()).max() > 100
    null = [mutual_knn(x.ids, y.rows(order).ids).mean() for order in permutations(300, 1000, 0)]
    mean, deviation = overlap_null_moments(x.ids, y.ids)
    assert mean == pytest.approx(np.mean(null), abs=4 * deviation / 1000**0.5)
    assert deviation == pytest.approx(np.std(null), rel=0.1)


def test_chance_with_groups():
    assert overlap_chance(5, 21) == 0.25
    assert overlap_chance(4, 10, np.array([0, 0] * 1 + [1] * 8)) == pytest.approx(
        (2 * 4 / 8 + 8 * 4 / 2) / 10
    )


def test_permutations_move_groups_as_wholes_among_their_size():
    groups = np.array([0, 1, 1, 2, 0, 3, 3, 2, 4])
    orders = list(permutations(9, 200, 0, groups))
    for order in orders:
        assert sorted(order) == list(range(9))
        moved = groups[order]
        for group in range(5):
            assert len(set(moved[groups == group])) == 1
    assert order[8] == 8  # the only group of its size stays
    assert len({tuple(order) for order in orders}) == 24  # 4! ways to exchange the four pairs


def test_permutations_and_halves_are_functions_of_seed_and_number():
    first = list(permutations(20, 5, 3))
    np.testing.assert_array_equal(first, list(permutations(20, 9, 3))[:5])
    assert (np.array(first) != list(permutations(20, 5, 4))).any()
    for (a, b), (c, d) in zip(half_splits(21, 4, 1), half_splits(21, 4, 1), strict=True):
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(b, d)
        assert sorted([*a, *b]) == list(range(21))
        assert (len(a), len(b)) == (10, 11)


def test_halves_keep_groups_whole():
    groups = np.arange(30) % 10
    for first, second in half_splits(30, 20, 0, groups):
        assert not set(groups[first]) & set(groups[second])
        assert len(first) == len(second) == 15


def test_half_split_error_of_a_mean_is_its_standard_error():
    values = np.random.default_rng(0).standard_normal(2000)
    halves = np.array([[values[half].mean() for half in split] for split in half_splits(2000, 400, 0)])
    assert half_split_error(halves) == pytest.approx(values.std() / 2000**0.5, rel=0.1)


def test_p_counts_the_true_pairing_and_has_a_floor():
    assert permutation_p(1.0, np.zeros(99)) == 0.01
    assert permutation_p(0.0, np.zeros(99)) == 1.0
    assert permutation_p(0.5, np.array([0.4, 0.6, 0.5])) == 0.75


def test_too_few_rows_for_p_say_the_smallest_reachable():
    with pytest.raises(
        InputError,
        match=r"at least 30 rows; there are 29.*--permutations 0.*smallest p of 1,000 permutations is 0\.001",
    ):
        calibration.require_rows_for_p(29, 1000)


def test_calibrated_score_is_zero_in_the_null_and_one_when_perfect():
    null = np.random.default_rng(0).uniform(0, 0.1, 200)
    assert calibrated_score(0.05, null) == 0
    assert calibrated_score(1.0, null) == 1
    threshold = np.sort([*null, 0.5])[int(np.ceil(0.95 * 201)) - 1]
    assert calibrated_score(0.5, null) == pytest.approx((0.5 - threshold) / (1 - threshold))
    assert calibration.adjusted_score(0.05, 0.1) < 0


@settings(max_examples=30)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.floats(0.01, 0.5))
def test_benjamini_hochberg_rejects_what_the_step_up_rule_rejects(p, q):
    p = np.array(p)
    ranked = np.sort(p)
    passing = np.flatnonzero(ranked <= q * np.arange(1, len(p) + 1) / len(p))
    limit = ranked[passing[-1]] if len(passing) else -1
    adjusted = benjamini_hochberg(p)
    margin = np.abs(adjusted - q) > 1e-9  # equality up to rounding decides nothing
    np.testing.assert_array_equal((adjusted <= q)[margin], (p <= limit)[margin])


def test_paired_error_is_smaller_than_unpaired():
    X, Y = latent_views(200, 3)
    Z = Y + 0.3 * np.random.default_rng(0).standard_normal(Y.shape)
    x, y, z = (NeighbourLists(top_neighbours(side, 50), 10) for side in (X, Y, Z))

    def halves(a, b):
        return np.array(
            [
                [mutual_knn(a.rows(h).ids, b.rows(h).ids).mean() for h in split]
                for split in half_splits(200, 50, 0)
            ]
        )

    a, b = halves(x, y), halves(x, z)
    unpaired = np.hypot(half_split_error(a), half_split_error(b))
    assert calibration.paired_error(a, b) < unpaired
    assert calibration.paired_error(a, a) == 0
