"""More pairs join better; held-out scenes are never fitted on."""

import dataclasses

import numpy as np
import pytest

from coview.embeddings import Embeddings
from coview.errors import InputError, UsageError
from coview.joining.curve import Fitting, evaluate, fit, learning_curve, unseen
from coview.joining.paired import hold_out, pair_up
from coview.joining.wording import (
    chance_notes,
    curve_csv,
    curve_document,
    curve_words,
    evaluation_words,
    rank_notes,
)


@pytest.fixture(scope="module")
def pairs():
    rng = np.random.default_rng(0)
    latent = rng.normal(size=(600, 24))
    photos = tuple(f"p{i}" for i in range(600))
    turned = latent @ np.linalg.qr(rng.normal(size=(24, 24)))[0]
    x = Embeddings((latent + 0.3 * rng.normal(size=latent.shape)).astype(np.float32), photos, photos)
    captions = np.repeat(turned, 2, axis=0)
    captions = (captions + 0.5 * rng.normal(size=captions.shape)).astype(np.float32)
    ids = tuple(f"p{i // 2}#{i % 2}" for i in range(1200))
    return pair_up(x, Embeddings(captions, ids, tuple(one.split("#")[0] for one in ids)))


def test_the_curve_rises_from_chance_to_a_join(pairs):
    points, notes = learning_curve(pairs, sizes=(5, 50, 10_000), seeds=(0, 1), held=100)
    assert notes == ()
    assert [point.pairs for point in points] == [5, 50, 500]
    first, last = points[0].as_json(), points[-1].as_json()
    for kind in ("plain", "csls"):
        for way in ("x_to_y", "y_to_x"):
            assert last[kind][way]["recall_1"]["mean"] > 0.9 > 0.5 > first[kind][way]["recall_1"]["mean"]
        assert last[kind]["foscttm"]["mean"] < 0.01 < first[kind]["foscttm"]["mean"]
    read = points[0].evaluations[0].plain
    assert (read.scenes, read.x_to_y.queries, read.y_to_x.queries) == (100, 100, 200)
    document = curve_document(points, ("a note",))
    assert document["chance"]["x_to_y"]["recall_1"] == pytest.approx(0.01)
    assert "100 held-out scenes" in curve_words(points, ())
    assert "note: a note" in curve_words(points, ("a note",))
    table = curve_csv(points).splitlines()
    assert len(table) == 1 + 3 * 2 * 2 * 2
    assert table[0].count(",") == table[1].count(",")


def test_a_test_of_its_own_is_never_fitted_on(pairs):
    _order, held = hold_out(pairs, 100, seed=1)
    rows = np.sort(pairs.rows_x[held, 0])
    names = tuple(pairs.x.ids[row] for row in rows)
    test = pair_up(Embeddings(pairs.x.matrix[rows], names, names), pairs.y)
    points, _ = learning_curve(pairs, sizes=(), seeds=(0,), test=test)
    assert points[0].pairs == 500
    assert points[0].evaluations[0].plain.scenes == 100
    with pytest.raises(InputError, match="every scene to fit on is a test scene"):
        learning_curve(test, sizes=(), seeds=(0,), test=test)


def test_a_map_knows_what_it_was_fitted_on(pairs):
    order, held = hold_out(pairs, 100, seed=2)
    rotation = fit(pairs, np.sort(order), Fitting(captions="each"))
    assert rotation.manifest["pairs"] == 1000
    items, notes = unseen(rotation, pairs)
    np.testing.assert_array_equal(items, held)
    assert "500 items the map was fitted on are left out" in notes[0]
    judged = evaluate(rotation, pairs, items)
    assert "FOSCTTM" in evaluation_words(judged, ["a note"])
    assert rank_notes(rotation) == []
    assert "of 24 directions" in rank_notes(fit(pairs, order[:10], Fitting()))[0]
    constant = dataclasses.replace(pairs.x, matrix=np.array(pairs.x.matrix))
    constant.matrix[:, 3] = 2
    (note,) = rank_notes(fit(dataclasses.replace(pairs, x=constant), order, Fitting()))
    assert "500 pairs vary together along 23 of 24 directions, as where a column is constant" in note
    with pytest.raises(InputError, match="fitted on all 600"):
        unseen(fit(pairs, np.arange(600), Fitting()), pairs)


def test_files_without_ids_are_told_apart_by_places():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 4)).astype(np.float32)
    both = pair_up(Embeddings(x), Embeddings(x[:, ::-1].copy()))
    order, held = hold_out(both, 20, seed=0)
    rotation = fit(both, order, Fitting())
    items, notes = unseen(rotation, both)
    np.testing.assert_array_equal(items, held)
    assert "by their places" in notes[0]
    longer = pair_up(Embeddings(np.tile(x, (2, 1))), Embeddings(np.tile(x, (2, 1))))
    assert len(unseen(rotation, longer)[0]) == 120
    # Nothing says that these are the same rows.
    judged, _ = learning_curve(both, sizes=(0, 10), seeds=(0,), test=both)
    assert [point.pairs for point in judged] == [10, 60]


def test_a_size_that_cannot_be_fitted_is_refused(pairs):
    with pytest.raises(UsageError, match="cannot be fitted on 1 pairs"):
        learning_curve(pairs, sizes=(1,), seeds=(0,))
    with pytest.raises(UsageError, match="needs a seed"):
        learning_curve(pairs, seeds=())


def test_sizes_below_what_a_method_needs_are_left_out_and_named(pairs):
    sizes = (4, 9, 30, 48, 100)
    points, notes = learning_curve(pairs, sizes=sizes, seeds=(0,), fitting=Fitting("whitened"))
    assert [point.pairs for point in points] == [48, 100, 480]
    assert notes == ("sizes left out: 4, 9, 30; whitened between spaces of width 24 and 24 needs 48",)
    points, notes = learning_curve(pairs, sizes=sizes, seeds=(0,), fitting=Fitting("ridge"))
    assert [point.pairs for point in points] == [30, 48, 100, 480]
    # Both captions of a scene are pairs of their own, so that half as many scenes do.
    points, notes = learning_curve(
        pairs, sizes=sizes, seeds=(0,), fitting=Fitting("whitened", captions="each")
    )
    assert [point.pairs for point in points] == [30, 48, 100, 480]
    few = pair_up(*(Embeddings(side.matrix[:30]) for side in (pairs.x, pairs.y)))
    with pytest.raises(InputError, match="24 pairs are too few for whitened"):
        learning_curve(few, sizes=sizes, seeds=(0,), fitting=Fitting("whitened"))


def test_a_map_at_chance_is_said_to_be(pairs):
    order, held = hold_out(pairs, 100, seed=0)
    joined = fit(pairs, np.sort(order), Fitting())
    assert chance_notes(evaluate(joined, pairs, held)) == []
    # Each axis is led to the next: no direction is mapped to itself, nor against itself.
    astray = dataclasses.replace(joined, matrix=np.roll(joined.matrix, 1, axis=1))
    (note,) = chance_notes(evaluate(astray, pairs, held))
    assert "judged on 100 scenes the map is not measurably better than chance" in note
    opposed = dataclasses.replace(joined, matrix=-joined.matrix)  # partners are the farthest: above .5
    read = evaluate(opposed, pairs, held)
    assert read.plain.x_to_y.foscttm.low > 0.9
    assert chance_notes(read)
