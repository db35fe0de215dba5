import numpy as np
import pytest
from spaces import independent, latent_views

from coview.alignment import align
from coview.alignment.calibration import benjamini_hochberg
from coview.alignment.many import align_all, alignment_curve
from coview.alignment.measure import Plan
from coview.alignment.sides import pair_any
from coview.errors import UsageError


def test_a_table_holds_the_pairs_measured_alone():
    X, Y = latent_views(80, 0)
    noise = independent(80, 1)[0]
    plan = Plan(permutations=99)
    table = align_all(pair_any([X, Y, noise]), plan, ["x", "y", "noise"])
    alone = {(0, 1): align(X, Y, permutations=99), (0, 2): align(X, noise, permutations=99)}
    for (i, j), expected in alone.items():
        assert table.scores[i, j] == table.scores[j, i] == expected.score
        assert table.errors[i, j] == pytest.approx(expected.stderr)
        assert table.pairs[i, j].p == expected.p
    np.testing.assert_array_equal(np.diag(table.scores), 1)
    p = [found.p for found in table.pairs.values()]
    np.testing.assert_allclose(table.adjusted_p[[0, 0, 1], [1, 2, 2]], benjamini_hochberg(np.array(p)))
    with pytest.raises(UsageError, match="at least two"):
        align_all(pair_any([X]), plan, ["x"])


def test_the_curve_falls_at_fixed_k_and_is_level_at_a_fixed_share():
    X, Y = latent_views(1600, 2)
    curves = alignment_curve(pair_any([X, Y]), [200, 400, 1600], Plan(k=10, splits=10), share=0.05)
    fixed = [point.score for point in curves["fixed_k"]]
    share = [point.score for point in curves["fixed_share"]]
    assert fixed[0] > fixed[1] > fixed[2] + 0.05
    assert max(share) - min(share) < 0.05
    assert [point.k for point in curves["fixed_share"]] == [10, 20, 80]
    assert [point.samples for point in curves["fixed_k"]] == [8, 4, 1]
    assert curves["fixed_k"][-1].score == align(X, Y, permutations=0, splits=0).score
    assert all(point.stderr < 0.02 for point in curves["fixed_k"])


def test_sizes_that_cannot_be_drawn():
    pairs = pair_any(latent_views(50, 3))
    with pytest.raises(UsageError, match="51 cannot be drawn from 50"):
        alignment_curve(pairs, [51], Plan())
    assert alignment_curve(pairs, [8], Plan(splits=0))["fixed_k"] == []  # k = 10 has no neighbours among 8
