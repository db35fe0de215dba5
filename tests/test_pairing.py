import numpy as np
import pytest

from coview.embeddings import Embeddings
from coview.errors import InputError, UsageError
from coview.pairing import pair


def rows(*ids, scenes=None, start=0.0):
    matrix = start + np.arange(len(ids) * 2, dtype=np.float32).reshape(len(ids), 2)
    return Embeddings(matrix, ids or None, scenes)


def taken(side):
    return [rows.matrix if rows.order is None else rows.matrix[rows.order] for rows in side]


def test_by_id_in_sorted_order():
    pairs = pair([rows("b", "a", "c"), rows("c", "b", "a")])
    assert pairs.ids == ("a", "b", "c")
    assert pairs.captions == "one"
    np.testing.assert_array_equal(taken(pairs.sides[0])[0], [[2, 3], [0, 1], [4, 5]])
    np.testing.assert_array_equal(taken(pairs.sides[1])[0], [[4, 5], [2, 3], [0, 1]])
    assert pairs.rows_hash == pair([rows("a", "b", "c")] * 3).rows_hash
    assert pairs.rows_hash != pair([rows("a", "b", "d")] * 2).rows_hash


def test_rows_that_are_sorted_already_are_not_copied():
    pairs = pair([rows("a", "b"), rows("a", "b")])
    assert pairs.sides[0][0].order is None


def test_by_order_only_without_ids_and_said():
    pairs = pair([Embeddings(np.ones((3, 2))), rows("a", "b", "c")], names=["x.npy", "y.npz"])
    assert pairs.ids is None
    assert pairs.notes == ("rows paired by their order, because x.npy has no ids",)
    assert pairs.rows_hash == "by-order"
    with pytest.raises(InputError, match=r"3 rows of A and 2 of B cannot be paired by order"):
        pair([Embeddings(np.ones((3, 2))), rows("a", "b")])
    with pytest.raises(UsageError, match="A has none"):
        pair([Embeddings(np.ones((2, 2))), rows("a", "b")], exclude=["a"])


def test_unequal_ids_show_three_of_each_side():
    with pytest.raises(InputError) as caught:
        pair([rows("a", "b", "c", "d", "e"), rows("e", "f")], names=["x", "y"])
    assert "Only in x (4): 'a', 'b', 'c'." in str(caught.value)
    assert "Only in y (1): 'f'." in str(caught.value)


CAPTIONS = rows("s1#0", "s1#1", "s2#0", "s2#1", "s2#2", scenes=("s1", "s1", "s2", "s2", "s2"))


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("mean", [[[1, 2], [6, 7]]]),
        ("first", [[[0, 1], [4, 5]]]),
        ("each", [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]),
    ],
)
def test_captions_are_reduced_to_scenes(mode, expected):
    pairs = pair([CAPTIONS, rows("s2", "s1", start=10)], captions=mode)
    np.testing.assert_array_equal(taken(pairs.sides[0]), expected)
    np.testing.assert_array_equal(taken(pairs.sides[1]), [[[12, 13], [10, 11]]])
    assert pairs.ids == ("s1", "s2")
    assert pairs.captions == mode
    assert pairs.groups is None
    assert pairs.notes == (f"A has 2 to 3 rows a scene; captions: {mode}",)


def test_equal_ids_stay_rows_and_remember_their_scenes():
    pairs = pair([CAPTIONS, CAPTIONS])
    assert len(pairs) == 5
    assert pairs.captions == "one"
    np.testing.assert_array_equal(pairs.groups, [0, 0, 1, 1, 1])


def test_ids_and_scenes_can_be_left_out():
    assert pair([rows("a", "b", "c"), rows("b", "a", "d")], exclude=["c", "d"]).ids == ("a", "b")
    assert pair([CAPTIONS, rows("s2", "s1", "s3")], exclude=["s1", "s3"]).ids == ("s2",)
    with pytest.raises(InputError, match="nothing is left"):
        pair([rows("a"), rows("a")], exclude=["a"])


def test_unknown_reduction():
    with pytest.raises(UsageError, match="Did you mean 'mean'"):
        pair([rows("a"), rows("a")], captions="meen")
