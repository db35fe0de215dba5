"""Search against a full sort, and retrieval numbers against cases counted by hand and a loop."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coview.data.scenes import Scene
from coview.errors import InputError, UsageError
from coview.uses import retrieval
from coview.uses.retrieval import find_scenes, score_retrieval, search


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 70))
def test_search_is_a_full_sort(seed, count, top):
    """In blocks of seven rows, with rows that come twice."""
    rng = np.random.default_rng(seed)
    index = rng.integers(-2, 3, (count, 3)).astype(np.float32)
    query = np.array([1, 0.5, 0], dtype=np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retrieval, "ROWS_AT_ONCE", 7)
        found = search(query, index, lambda rows: 2 * rows, top=top)
    scores = 2 * index @ query
    order = sorted(range(count), key=lambda row: (-scores[row], row))[:top]
    assert [hit.row for hit in found.hits] == order
    np.testing.assert_allclose([hit.score for hit in found.hits], scores[order])
    np.testing.assert_allclose((found.mean, found.deviation), (scores.mean(), scores.std()), atol=1e-5)


def test_search_refuses_no_results():
    with pytest.raises(UsageError, match="0 results"):
        search(np.ones(2), np.eye(2), lambda rows: rows, top=0)


def four_by_five():
    """Four images on the axes, five captions each; by hand: which caption lies nearest which image."""
    images = np.eye(4, dtype=np.float32)
    near = np.array([[0, 0, 0, 0, 0], [0, 1, 0, 0, 0], [3, 3, 3, 3, 3], [3, 2, 2, 2, 2]])
    # Each caption on the axis of an image, the later ones a little further off, so that nothing ties.
    texts = np.eye(4)[near.ravel()] + 0.01 * np.arange(20)[:, None] * np.array([0.4, 0.3, 0.2, 0.1])
    return images, unit(texts), np.repeat(np.arange(4), 5)


def test_four_images_with_five_captions_counted_by_hand():
    """Symptom 8 of joining.md: any of five, one of five, and every caption for itself are three numbers."""
    images, texts, scene = four_by_five()
    five = score_retrieval(images, texts, scene)
    # Image 0: its captions come first. Image 1: its second caption is the only one there. Image 2: nearest
    # are captions of image 3. Image 3: captions of image 2 lie before its own.
    ranks = slow_ranks(images, texts, [np.flatnonzero(scene == image) for image in range(4)])
    assert ranks[:2] == [1, 1]
    assert min(ranks[2:]) > 1
    assert five.image_to_text.recall[1].value == 0.5
    # Captions: five of image 0, one of image 1, none of image 2, one of image 3.
    assert five.text_to_image.recall[1].value == 7 / 20
    # With the first caption alone image 1 has none near it; of the four the first and last are right.
    first = score_retrieval(images, texts[::5], scene[::5])
    assert first.image_to_text.recall[1].value == 0.25
    assert first.text_to_image.recall[1].value == 0.5
    document = five.as_json()
    assert (document["images"], document["captions"], document["captions_an_image"]) == (4, 20, 5.0)
    assert first.as_json()["captions_an_image"] == 1.0
    assert "best placed" in document["convention"]
    assert document["signature"] == "retrieval|images:4|captions:20|sim:cosine|partner:best|ties:shared|v:0.1"


def slow_ranks(queries, gallery, partners):
    """The place of the best placed partner, by sorting."""
    ranks = []
    for query, own in zip(queries, partners, strict=True):
        order = sorted(range(len(gallery)), key=lambda row, query=query: -float(query @ gallery[row]))
        ranks.append(1 + min(order.index(row) for row in own))
    return ranks


@pytest.mark.parametrize("seed", range(8))
def test_equals_the_slow_way(seed):
    rng = np.random.default_rng(seed)
    images = unit(rng.standard_normal((25, 6)))
    scene = rng.permutation(np.concatenate([np.arange(25), rng.integers(0, 25, 30)]))
    texts = unit(images[scene] + 0.7 * rng.standard_normal((55, 6)))
    result = score_retrieval(images, texts, scene)
    forth = slow_ranks(images, texts, [np.flatnonzero(scene == image) for image in range(25)])
    back = slow_ranks(texts, images, [[image] for image in scene])
    for found, ranks in ((result.image_to_text, forth), (result.text_to_image, back)):
        assert found.median_rank == np.median(ranks)
        for k in (1, 5, 10):
            assert found.recall[k].value == pytest.approx(np.mean(np.array(ranks) <= k))
            assert found.recall[k].low <= found.recall[k].value <= found.recall[k].high


def test_constant_embeddings_score_chance_and_not_the_luck_of_a_sort():
    rows = np.ones((20, 3), dtype=np.float32) / np.sqrt(3)
    result = score_retrieval(rows, rows, np.arange(20))
    assert result.image_to_text.recall[1].value == pytest.approx(1 / 20)
    assert result.text_to_image.recall[5].value == pytest.approx(5 / 20)


def test_csls_is_called_so_and_takes_hubs_back():
    """One image near everything answers every caption; CSLS takes that back."""
    rng = np.random.default_rng(0)
    texts = unit(rng.standard_normal((60, 8)) + 0.7)
    images = unit(texts + 0.15 * rng.standard_normal((60, 8)))
    images[0] = unit(texts.mean(axis=0, keepdims=True))[0]
    plain, corrected = (score_retrieval(images, texts, np.arange(60), csls=csls) for csls in (False, True))
    assert (plain.similarity, corrected.similarity) == ("cosine", "csls")
    assert corrected.text_to_image.recall[1].value > plain.text_to_image.recall[1].value


def test_an_image_without_captions_is_refused():
    with pytest.raises(InputError, match="one side only"):
        score_retrieval(np.eye(3, dtype=np.float32), np.eye(3, dtype=np.float32), np.array([0, 1, 1]))


class Photos:
    name, split_note = "photos/", ""

    def scenes(self, split=None):
        yield Scene("s1", (), "folder/1.jpg")
        yield Scene("s2", (), None)


def test_scenes_are_found_by_id_or_image_name():
    assert [scene.id for scene in find_scenes(Photos(), ["1.jpg", "s2", "s1", "folder/1.jpg"])] == [
        "s1",
        "s2",
        "s1",
        "s1",
    ]
    with pytest.raises(InputError, match=r"no photo '3\.jpg'"):
        find_scenes(Photos(), ["s1", "3.jpg"])
