"""What is drawn as views of one another."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from coview.data.tokens import FIRST, LAST, MASK, TokenStore
from coview.data.views import draw_views, masked, usable_scenes


def store_of(counts: list[int]) -> TokenStore:
    """Scene s has counts[s] texts; text t reads [CLS] 100 + t [SEP] with as many words as t % 4 + 2."""
    texts = [np.array([FIRST, *[100 + t] * (t % 4 + 2), LAST], dtype=np.uint16) for t in range(sum(counts))]
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in texts])])
    scenes = np.concatenate([[0], np.cumsum(counts)])
    return TokenStore(np.concatenate(texts), offsets, scenes, {}, Tokenizer(models.WordPiece()))


COUNTS = [5, 3, 4, 3, 1, 6, 3, 3, 2, 8]
STORE = store_of(COUNTS)
SCENE_OF = np.repeat(np.arange(len(COUNTS)), COUNTS)


def draw(kind: str, step: int = 0, views: int = 3, batch: int = 6, **more) -> list[list[np.ndarray]]:
    """Views [v][n] of one batch."""
    usable = usable_scenes(COUNTS, kind, views)
    texts = draw_views(STORE, usable, kind, views=views, batch=batch, seed=3, step=step, **more)
    rows = len(texts) // views
    return [texts[view * rows : (view + 1) * rows] for view in range(views)]


def numbers(views: list[list[np.ndarray]]) -> np.ndarray:
    """Which text of the store each view is, shape (V, N)."""
    return np.array([[text[1] - 100 for text in row] for row in views], dtype=np.int64)


@pytest.mark.parametrize("kind", ["good", "next-token"])
def test_good_views_are_different_texts_of_one_scene(kind):
    for step in range(40):
        views = draw(kind, step)
        chosen = numbers(views)
        assert (SCENE_OF[chosen] == SCENE_OF[chosen[0]]).all()
        assert all(len(set(column)) == len(column) for column in chosen.T)
        for row, indices in zip(views, chosen, strict=True):
            assert all(np.array_equal(text, STORE.text(n)) for text, n in zip(row, indices, strict=True))


def test_any_text_of_a_scene_may_be_any_view():
    """A source's first caption is often its longest: slots carry no meaning here."""
    seen = np.zeros((3, sum(COUNTS)), dtype=bool)
    for step in range(150):
        for view, row in enumerate(numbers(draw("good", step))):
            seen[view, row] = True
    of_usable = np.isin(SCENE_OF, usable_scenes(COUNTS, "good", 3))
    assert (seen == of_usable).all()


def test_scenes_with_too_few_texts_are_left_out():
    assert usable_scenes([2, 3, 1, 4], "good", 3).tolist() == [1, 3]
    assert usable_scenes([2, 3, 1, 4], "next-token", 2).tolist() == [0, 1, 3]
    assert usable_scenes([2, 0, 1], "bad", 3).tolist() == [0, 2]


def test_bad_views_are_one_text_with_words_hidden():
    differ = 0
    for step in range(30):
        views = draw("bad", step, mask_rate=0.4)
        for column in zip(*views, strict=True):
            assert len({len(text) for text in column}) == 1
            words = np.concatenate(column)
            original = {int(word) for word in words} - {MASK, FIRST, LAST}
            assert len(original) <= 1  # all of one text
            assert all(text[0] == FIRST and text[-1] == LAST for text in column)
            differ += not all(np.array_equal(column[0], text) for text in column[1:])
    assert differ > 100


@given(rate=st.floats(0.05, 0.95), length=st.integers(2, 60), seed=st.integers(0, 99))
@settings(max_examples=50)
def test_masking_hides_words_and_nothing_else(rate, length, seed):
    text = np.arange(10, 10 + length)
    hidden = masked(text, rate, np.random.default_rng(seed))
    assert ((hidden == text) | (hidden == MASK)).all()
    assert (hidden[0], hidden[-1]) == (text[0], text[-1])


def test_the_share_of_hidden_words_is_the_rate():
    text = np.arange(10, 20_012)
    hidden = masked(text, 0.3, np.random.default_rng(0)) == MASK
    assert abs(hidden.mean() - 0.3) < 0.01


@pytest.mark.parametrize("kind", ["good", "bad", "next-token"])
@pytest.mark.parametrize("world_size", [2, 3, 5])
def test_ranks_together_draw_the_views_of_one_process(kind, world_size):
    whole = draw(kind, step=7, batch=8)
    parts = [draw(kind, step=7, batch=8, rank=rank, world_size=world_size) for rank in range(world_size)]
    for view in range(3):
        together = [text for part in parts for text in part[view]]
        assert len(together) == 8
        assert all(np.array_equal(one, other) for one, other in zip(together, whole[view], strict=True))


def test_arms_draw_the_same_scenes_and_texts():
    """good and next-token read the very same texts; the arms differ in the objective alone."""
    for step in range(5):
        assert np.array_equal(numbers(draw("good", step)), numbers(draw("next-token", step)))
