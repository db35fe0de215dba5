"""Captions without a decoder, and rows put among the rows of texts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coview.errors import InputError, UsageError
from coview.uses import memory as module
from coview.uses.baselines import central_caption, nearest_captions, shuffled_captions
from coview.uses.memory import nearest, project


def plain_nearest(rows, memory):
    return [max(range(len(memory)), key=lambda m: plain_cosine(row, memory[m])) for row in rows]


def plain_cosine(a, b):
    return float(a @ b / np.sqrt(a @ a) / np.sqrt(b @ b))


def plain_projection(row, memory, temperature):
    weights = [np.exp(plain_cosine(row, text) / temperature) for text in memory]
    mean = sum(w * text / np.sqrt(text @ text) for w, text in zip(weights, memory, strict=True)) / sum(
        weights
    )
    return mean / np.sqrt(mean @ mean)


@pytest.fixture
def spaces():
    rng = np.random.default_rng(0)
    return rng.standard_normal((23, 8)), 3 * rng.standard_normal((41, 8))


@pytest.mark.parametrize("at_once", [1, 100, 2**24])
def test_nearest_and_projection_are_those_of_one_pair_at_a_time(spaces, monkeypatch, at_once):
    rows, memory = spaces
    monkeypatch.setattr(module, "COSINES_AT_ONCE", at_once)
    assert nearest(rows, memory).tolist() == plain_nearest(rows, memory)
    expected = [plain_projection(row, memory, 0.1) for row in rows]
    np.testing.assert_allclose(project(rows, memory, 0.1), expected, atol=1e-5)


def test_a_cold_projection_is_the_nearest_text_and_a_warm_one_the_mean(spaces):
    rows, memory = spaces
    unit = memory / np.linalg.norm(memory, axis=1, keepdims=True)
    np.testing.assert_allclose(project(rows, memory, 1e-6), unit[nearest(rows, memory)], atol=1e-5)
    mean = unit.mean(axis=0)
    np.testing.assert_allclose(
        project(rows, memory, 1e6), np.tile(mean / np.linalg.norm(mean), (23, 1)), atol=1e-4
    )


def test_a_row_of_zeros_gives_finite_rows(spaces):
    assert np.isfinite(project(np.zeros((2, 8)), spaces[1])).all()


def test_the_nearest_training_caption(spaces):
    _, memory = spaces
    captions = [f"caption {number}" for number in range(len(memory))]
    noise = 0.01 * np.random.default_rng(1).standard_normal((41, 8))
    assert nearest_captions(0.2 * memory + noise, memory, captions) == captions
    assert nearest_captions(memory[:0], memory, captions) == []


def test_the_central_caption_is_in_the_largest_crowd():
    rng = np.random.default_rng(2)
    crowd = np.array([5.0, 0, 0, 0]) + rng.standard_normal((30, 4))
    others = np.array([0, 5.0, 0, 0]) + rng.standard_normal((10, 4))
    captions = ["crowd"] * 30 + ["other"] * 10
    rows = np.vstack([crowd, others])
    assert central_caption(rows, captions) == "crowd"
    cosines = [np.mean([plain_cosine(a, b) for b in rows]) for a in rows]
    assert int(np.argmax(cosines)) == module.central(rows)


@given(st.integers(2, 50), st.integers(0, 1000))
def test_no_image_keeps_its_caption_when_they_are_shuffled(count, seed):
    captions = [str(number) for number in range(count)]
    shuffled = shuffled_captions(captions, seed=seed)
    assert sorted(shuffled) == sorted(captions)
    assert all(a != b for a, b in zip(captions, shuffled, strict=True))
    assert shuffled == shuffled_captions(captions, seed=seed)


def test_what_cannot_be_done_is_said(spaces):
    rows, memory = spaces
    with pytest.raises(InputError, match="40 captions"):
        nearest_captions(rows, memory, ["x"] * 40)
    with pytest.raises(InputError, match="no text"):
        nearest(rows, memory[:0])
    with pytest.raises(InputError, match="do not belong"):
        project(rows, memory[:, :5])
    with pytest.raises(UsageError, match="temperature"):
        project(rows, memory, 0.0)
    with pytest.raises(InputError, match="two images"):
        shuffled_captions(["one"])
