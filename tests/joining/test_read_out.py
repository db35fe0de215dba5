"""Recall, median rank, FOSCTTM and CSLS against loops over sorted lists, and against figures done by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coview.errors import InputError
from coview.joining import read_out as module
from coview.joining.read_out import csls, foscttm, hubness, partner_ranks, read_out, recall
from coview.joining.rotation import unit_rows


def rows(rng, count: int, d: int = 5, coarse: bool = False) -> np.ndarray:
    """Unit rows; coarse ones, of entries -1, 0 and 1, have many equal similarities."""
    values = rng.integers(-1, 2, size=(count, d)) if coarse else rng.normal(size=(count, d))
    values[:, 0] += 2
    return unit_rows(values.astype(np.float32))


def slow(similarity, scenes_q, scenes_g, orders: int = 4000):
    """Recall at 1, 5 and 10 by drawing the order of ties, and FOSCTTM: one query at a time."""
    rng = np.random.default_rng(0)
    recalls, closer = [], []
    for values, scene in zip(similarity, scenes_q, strict=True):
        values = np.round(values.astype(np.float64), 5)
        partner = np.asarray(scenes_g) == scene
        others = values[~partner]
        share = [(others > own).mean() + (others == own).mean() / 2 for own in values[partner]]
        closer.append(np.mean(share) if len(others) else 0.0)
        tied = len(np.unique(values)) < len(values)
        draws = orders if tied else 1
        first = []
        for _ in range(draws):
            order = np.lexsort((rng.random(len(values)), -values))
            first.append(np.flatnonzero(partner[order])[0])
        recalls.append([np.mean([place < k for place in first]) for k in (1, 5, 10)])
    return np.mean(recalls, axis=0), np.mean(closer)


@settings(max_examples=15)
@given(images=st.integers(2, 12), captions=st.integers(1, 4), seed=st.integers(0, 99))
def test_both_ways_agree_with_sorted_lists(images, captions, seed):
    rng = np.random.default_rng(seed)
    x, y = rows(rng, images), rows(rng, images * captions)
    scenes_x, scenes_y = rng.permutation(images), rng.permutation(np.repeat(np.arange(images), captions))
    found = read_out(x, y, scenes_x=scenes_x, scenes_y=scenes_y)
    for way, similarity, a, b in (
        (found.x_to_y, x @ y.T, scenes_x, scenes_y),
        (found.y_to_x, y @ x.T, scenes_y, scenes_x),
    ):
        recalls, closer = slow(similarity, a, b)
        np.testing.assert_allclose([way.recall[k].value for k in (1, 5, 10)], recalls, atol=1e-9)
        assert way.foscttm.value == pytest.approx(closer)


def test_ties_count_as_what_a_random_order_gives_them():
    rng = np.random.default_rng(1)
    x, y = rows(rng, 8, 3, coarse=True), rows(rng, 24, 3, coarse=True)
    scenes_x, scenes_y = np.arange(8), np.repeat(np.arange(8), 3)
    found = read_out(x, y, scenes_x=scenes_x, scenes_y=scenes_y)
    recalls, closer = slow(x @ y.T, scenes_x, scenes_y)
    np.testing.assert_allclose([found.x_to_y.recall[k].value for k in (1, 5, 10)], recalls, atol=0.02)
    assert found.x_to_y.foscttm.value == pytest.approx(closer)


def test_four_images_with_five_captions_by_hand():
    """Captions of image i are unit vector i turned towards image i + 1 by more and more."""
    images = np.eye(4, dtype=np.float32)
    weights = [0.0, 0.2, 0.4, 0.6, 0.8]  # the last two are nearer to the next image than to their own
    captions = unit_rows(
        np.array([(1 - w) * images[i] + w * images[(i + 1) % 4] for i in range(4) for w in weights])
    )
    found = read_out(images, captions, scenes_x=range(4), scenes_y=np.repeat(range(4), 5))
    # Any of five: the unturned caption is each image's nearest. By caption: three of five find their image.
    assert found.x_to_y.recall[1].value == pytest.approx(1.0)
    assert found.y_to_x.recall[1].value == pytest.approx(0.6)
    assert found.y_to_x.recall[5].value == pytest.approx(1.0)
    assert found.x_to_y.median_rank == 1
    assert found.y_to_x.median_rank == 1
    # Cosines with one's own captions: 1, .97, .83, .55, .24; with the captions of the image before: 0, .24,
    # .55, .83, .97; with the ten others 0. Closer than one's own, ties half: 0, .5, 1.5, 2.5, 3.5 of 15.
    assert found.x_to_y.foscttm.value == pytest.approx(8 / 5 / 15)
    # A caption with .97, .83 or 1 of its image has none closer; one with .55 or .24 has one of three.
    assert found.y_to_x.foscttm.value == pytest.approx(2 / 5 / 3)
    assert (found.x_to_y.queries, found.x_to_y.gallery, found.scenes) == (4, 20, 4)


@pytest.mark.parametrize("captions", [1, 5])
def test_constant_embeddings_find_their_partner_by_chance(captions):
    images = 20
    x, y = np.ones((images, 4), np.float32) / 2, np.ones((images * captions, 4), np.float32) / 2
    found = read_out(x, y, scenes_x=range(images), scenes_y=np.repeat(range(images), captions))
    for way in (found.x_to_y, found.y_to_x):
        assert way.recall[1].value == pytest.approx(1 / images)
        assert way.recall[1].value == pytest.approx(way.chance[1])
        assert way.recall[10].value == pytest.approx(way.chance[10])
        assert way.foscttm.value == pytest.approx(0.5)
    assert found.y_to_x.median_rank == pytest.approx((images + 1) / 2)
    assert found.foscttm == pytest.approx(0.5)


def test_csls_is_its_formula_and_the_blockwise_form_ranks_as_it_does(monkeypatch):
    rng = np.random.default_rng(2)
    x, y = rows(rng, 40), rows(rng, 30)
    similarity = x @ y.T
    expected = np.empty_like(similarity)
    for i in range(40):
        for j in range(30):
            across, down = np.sort(similarity[i])[-10:].mean(), np.sort(similarity[:, j])[-10:].mean()
            expected[i, j] = 2 * similarity[i, j] - across - down
    np.testing.assert_allclose(csls(similarity), expected, atol=1e-5)
    monkeypatch.setattr(module, "BLOCK_ENTRIES", 7 * 30)
    scenes_x, scenes_y = rng.integers(0, 6, size=40), rng.permutation(np.arange(30) % 6)
    hub = hubness(x, y)[1]
    found = partner_ranks(x, y, scenes_x, scenes_y, hub)
    recalls, closer = slow(expected, scenes_x, scenes_y)
    np.testing.assert_allclose([found.found(k).mean() for k in (1, 5, 10)], recalls, atol=1e-9)
    assert found.closer.mean() == pytest.approx(closer)


def test_a_hub_is_taken_back():
    """Rows about one direction, with a gallery row in that very direction which is nearest to all."""
    rng = np.random.default_rng(3)
    x = unit_rows((0.5 * np.eye(12) + np.eye(12)[0]).astype(np.float32))
    y = unit_rows(x + 0.3 * rng.normal(size=x.shape).astype(np.float32))
    y[0] = unit_rows(x.mean(axis=0, keepdims=True))[0]
    plain, corrected = (read_out(x, y, hub_neighbours=k) for k in (0, 5))
    assert corrected.x_to_y.recall[1].value > plain.x_to_y.recall[1].value
    assert corrected.hub_neighbours == 5


def test_blocks_and_the_short_forms_agree(monkeypatch):
    rng = np.random.default_rng(4)
    x = rows(rng, 50)
    y = unit_rows(x + 0.5 * rows(rng, 50))
    whole = read_out(x, y)
    monkeypatch.setattr(module, "BLOCK_ENTRIES", 130)
    assert read_out(x, y) == whole
    assert foscttm(x, y) == pytest.approx(whole.foscttm)
    assert recall(x, y, 5) == pytest.approx((whole.x_to_y.recall[5].value, whole.y_to_x.recall[5].value))


def test_intervals_resample_scenes_and_cover_the_mean():
    rng = np.random.default_rng(5)
    images = 200
    x = rows(rng, images)
    y = unit_rows(np.repeat(x, 5, axis=0) + 0.5 * rows(rng, images * 5))
    found = read_out(x, y, scenes_x=range(images), scenes_y=np.repeat(range(images), 5), seed=1)
    for one in (found.x_to_y.recall[1], found.y_to_x.recall[1]):
        assert one.low < one.value < one.high
    assert found == read_out(x, y, scenes_x=range(images), scenes_y=np.repeat(range(images), 5), seed=1)
    # The captions of one image go together: about as wide as the standard error over image means.
    hits = partner_ranks(y, x, np.repeat(np.arange(images), 5), np.arange(images)).found(1)
    deviation = hits.reshape(images, 5).mean(axis=1).std() / np.sqrt(images)
    found_width = found.y_to_x.recall[1].high - found.y_to_x.recall[1].low
    assert found_width == pytest.approx(2 * 1.96 * deviation, rel=0.2)


@pytest.mark.parametrize(
    ("x", "y", "scenes_x", "scenes_y", "words"),
    [
        (3, 4, None, None, "3 rows cannot be paired with 4"),
        (3, 3, "abc", None, "on both sides or on neither"),
        (3, 3, "abc", "abd", "2 scenes are on one side only"),
        (3, 3, "ab", "abc", "2 and 3 scenes for 3 and 3 rows"),
    ],
)
def test_sides_that_do_not_match_are_refused(x, y, scenes_x, scenes_y, words):
    labels = [list(one) if one else None for one in (scenes_x, scenes_y)]
    with pytest.raises(InputError) as raised:
        read_out(np.eye(x, 5), np.eye(y, 5), scenes_x=labels[0], scenes_y=labels[1])
    assert words in str(raised.value)
