import numpy as np
import pytest
from spaces import latent_views

from coview.alignment import align
from coview.alignment.layers import LayerChoice, best_pair
from coview.errors import UsageError


def stacks(seed=0, n=120):
    """Stacks of 3 and 2 layers; layer 1 of the first and layer 0 of the second share the most."""
    X, Y = latent_views(n, seed, noise=1.0)
    rng = np.random.default_rng(seed)
    noise = [rng.standard_normal((n, side.shape[1])) for side in (X, X, Y)]
    return np.stack([X + 8 * noise[0], X, X + 4 * noise[1]], axis=1), np.stack([Y, Y + 6 * noise[2]], axis=1)


def test_the_matrix_holds_every_pair_and_the_best_is_named_in_the_order_given():
    X, Y = stacks()
    found = align(X, Y, permutations=0)
    assert found.matrix.shape == (3, 2)
    assert found.layers == (1, 0)
    assert found.score == found.matrix.max() == found.matrix[1, 0]
    for i in range(3):
        for j in range(2):
            alone = align(X[:, i], Y[:, j], permutations=0, splits=0)
            assert alone.score == pytest.approx(found.matrix[i, j])
    swapped = align(Y, X, permutations=0)
    assert swapped.layers == (0, 1)
    np.testing.assert_allclose(swapped.matrix, found.matrix.T)


def test_layers_of_unequal_widths_score_as_each_alone():
    X, Y = stacks()
    lists = [X[:, 0, :16], X[:, 1], X[:, 2, :40]]
    found = align(lists, (Y[:, 0],), permutations=0)
    for i, layer in enumerate(lists):
        assert found.matrix[i, 0] == pytest.approx(align(layer, Y[:, 0], permutations=0, splits=0).score)


@pytest.mark.parametrize(("text", "pair"), [("last", (2, 1)), ("0,1", (0, 1)), ("-1,0", (2, 0))])
def test_fixed_layers_are_not_chosen_by_their_score(text, pair):
    found = align(*stacks(), layers=text, permutations=50)
    assert found.layers == pair
    assert found.score == found.matrix[pair]
    assert found.cross_fitted is None
    assert f"layers:{text}|" in found.signature


def test_cross_is_the_cross_fitted_maximum():
    largest = align(*stacks(), permutations=0)
    crossed = align(*stacks(), layers="cross", permutations=0)
    assert crossed.score == crossed.cross_fitted == largest.cross_fitted
    assert crossed.score <= largest.score + 1e-6
    assert "layers:cross(3x2)" in crossed.signature
    assert "layers:max(3x2)" in largest.signature


@pytest.mark.parametrize("metric", ["unbiased_cka", "cknna"])
def test_metrics_that_are_no_mean_over_rows_are_cross_fitted_too(metric):
    found = align(*stacks(), metric=metric, permutations=0)
    assert found.layers == (1, 0)
    assert found.cross_fitted == pytest.approx(found.score, abs=0.1)


def test_the_null_of_the_maximum_lies_above_that_of_one_pair():
    X, Y = stacks(1)
    order = np.random.default_rng(0).permutation(len(Y))
    best, single = align(X, Y[order], permutations=200), align(X, Y[order], layers="1,0", permutations=200)
    assert best.null.mean() > single.null.mean() > 0
    assert single.null.mean() == pytest.approx(single.chance, abs=0.01)
    assert best.p > 0.01
    # One permutation for all layers: each draw is the largest of the pairs under that same permutation.
    assert (best.null >= single.null - 1e-12).all()


def test_negative_and_missing_scores():
    assert best_pair(np.array([[-0.3, -0.1], [np.nan, -0.2]])) == (0, 1)
    assert best_pair(np.full((2, 2), np.nan)) == (0, 0)


def test_choices_that_make_no_sense():
    with pytest.raises(UsageError, match="not understood"):
        LayerChoice.parse("best")
    with pytest.raises(UsageError, match="no layer pair 3,0 among 3 x 2"):
        align(*stacks(), layers="3,0", permutations=0)
