"""Which rows belong together, what is held out, and what is fitted on."""

import numpy as np
import pytest

from coview.embeddings import Embeddings
from coview.errors import InputError, UsageError
from coview.joining.paired import hold_out, pair_up


def rows(count: int, d: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, d)).astype(np.float32)


@pytest.fixture
def photos_and_captions():
    photos = [f"p{i}" for i in range(10)]
    captions = [(f"p{i}#{slot}", f"p{i}") for slot in range(3) for i in range(10)]
    x = Embeddings(rows(10), tuple(photos), tuple(photos))
    y = Embeddings(rows(30, 4, 1), tuple(one for one, _ in captions), tuple(scene for _, scene in captions))
    return x, y


def test_photos_meet_all_their_captions(photos_and_captions):
    x, y = photos_and_captions
    pairs = pair_up(x, y)
    assert len(pairs) == 10
    assert pairs.rows_y.shape == (10, 3)
    for item, scene in enumerate(pairs.scenes):
        assert x.scenes[pairs.rows_x[item, 0]] == scene
        assert {y.scenes[row] for row in pairs.rows_y[item]} == {scene}
    a, b, items_a, items_b = pairs.galleries(np.array([2, 5]))
    assert (a.shape, b.shape) == ((2, 3), (6, 4))
    assert items_b.tolist() == [2, 2, 2, 5, 5, 5]
    assert items_a.tolist() == [2, 5]


def test_a_fit_takes_the_mean_the_first_or_each(photos_and_captions):
    x, y = photos_and_captions
    pairs, items = pair_up(x, y), np.array([1, 4])
    own = pairs.rows_y[items]
    mean, first, each = (pairs.training_sides(items, how) for how in ("mean", "first", "each"))
    np.testing.assert_allclose(mean[1].matrix(), y.matrix[own].mean(axis=1), atol=1e-6)
    np.testing.assert_array_equal(first[1].matrix(), y.matrix[own[:, 0]])
    np.testing.assert_array_equal(each[1].matrix(), y.matrix[own.T.ravel()])
    np.testing.assert_array_equal(each[0].matrix(), np.tile(x.matrix[pairs.rows_x[items, 0]], (3, 1)))


def test_what_has_no_partner_is_left_out_and_counted(photos_and_captions):
    x, y = photos_and_captions
    fewer = Embeddings(x.matrix[2:], x.ids[2:], x.scenes[2:])
    pairs = pair_up(fewer, y, ("photos", "captions"))
    assert len(pairs) == 8
    assert "2 scenes of captions have no partner and were left out" in pairs.notes
    half = Embeddings(y.matrix[:20], y.ids[:20], y.scenes[:20])
    by_id = pair_up(y, half)
    assert len(by_id) == 20
    assert "10 ids of A have no partner and were left out" in by_id.notes
    assert by_id.groups.max() == 9  # twenty captions of ten scenes


def test_without_ids_rows_are_paired_by_order_and_that_is_said():
    pairs = pair_up(Embeddings(rows(6)), Embeddings(rows(6, 4)))
    assert pairs.names is None
    assert pairs.scenes[2] == "row 2 of 6"
    assert "order" in pairs.notes[0]
    with pytest.raises(InputError, match="6 rows of A and 5 of B"):
        pair_up(Embeddings(rows(6)), Embeddings(rows(5)))


def test_sides_that_share_nothing_are_shown():
    x, y = Embeddings(rows(2), ("a1", "a2")), Embeddings(rows(2), ("b1", "b2"))
    with pytest.raises(InputError, match=r"share no id and no scene: A has 'a1', 'a2', B has 'b1', 'b2'"):
        pair_up(x, y)


def test_layers_are_refused():
    with pytest.raises(InputError, match="holds 2 layers"):
        pair_up(Embeddings(np.zeros((3, 2, 4), np.float32)), Embeddings(rows(3)))


def test_scenes_are_held_out_whole_and_smaller_sets_lie_in_larger_ones(photos_and_captions):
    _, y = photos_and_captions
    pairs = pair_up(y, y)  # by id: thirty items of ten scenes
    order, held = hold_out(pairs, 4, seed=3)
    scenes = np.array(pairs.scenes)
    assert len(set(scenes[held])) == 4
    assert len(held) == 12
    assert not set(scenes[order]) & set(scenes[held])
    again, _ = hold_out(pairs, 4, seed=3)
    np.testing.assert_array_equal(order, again)
    assert len(hold_out(pairs, None, seed=3)[1]) == 6  # a fifth of ten scenes
    assert set(hold_out(pairs, 4, seed=4)[1]) != set(held)
    for wrong in (0, 1, 10):
        with pytest.raises(UsageError, match="cannot be held out"):
            hold_out(pairs, wrong, seed=0)
