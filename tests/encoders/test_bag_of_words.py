"""TF-IDF and truncated SVD against the textbook's dense matrices."""

import json

import numpy as np
import pytest

from coview.encoders.bag_of_words import fit_bag_of_words, load_bag_of_words, split_words
from coview.errors import InputError

WORDS = [f"word{i}" for i in range(40)]


def some_texts(count: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, 41)
    return [" ".join(rng.choice(WORDS, rng.integers(3, 12), p=share / share.sum())) for _ in range(count)]


def dense_twin(texts: list[str], queries: list[str], width: int) -> np.ndarray:
    """The definition: counts times ln((1+n)/(1+df))+1, unit rows, the leading right singular vectors."""
    words = sorted({word for text in texts for word in text.split()})

    def counts(lines):
        return np.array([[line.split().count(word) for word in words] for line in lines], float)

    holding = (counts(texts) > 0).sum(0)
    weights = np.log((1 + len(texts)) / (1 + holding)) + 1

    def rows(lines):
        found = counts(lines) * weights
        return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-300)

    directions = np.linalg.svd(rows(texts), full_matrices=False)[2][:width].T
    directions *= np.sign(directions[np.abs(directions).argmax(0), np.arange(width)])
    return rows(queries) @ directions


def test_equals_the_dense_definition():
    texts, queries = some_texts(200), some_texts(50, seed=1)
    made = fit_bag_of_words(texts, 8)
    np.testing.assert_allclose(made.encode(queries), dense_twin(texts, queries, 8), atol=1e-5)
    assert made.encode(queries).dtype == np.float32


def test_the_same_texts_give_the_same_bytes():
    one, two = (fit_bag_of_words(some_texts(200), 8) for _ in range(2))
    assert one.fingerprint == two.fingerprint
    np.testing.assert_array_equal(one.directions, two.directions)
    assert fit_bag_of_words(some_texts(201), 8).fingerprint != one.fingerprint


def test_the_width_is_limited_by_the_texts():
    made = fit_bag_of_words(some_texts(12), 256)
    assert made.width == made.encode(["word0"]).shape[1] == min(12, len(made.columns)) - 1


def test_the_name_says_the_width_there_is(tmp_path):
    rows = [{"id": str(n), "texts": [f"word{n} ball"], "split": "train"} for n in range(6)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    made = load_bag_of_words(str(tmp_path / "a.jsonl"), "256")
    assert made.width == 5
    assert made.name == f"bow:{tmp_path / 'a.jsonl'},width=5"
    assert load_bag_of_words(str(tmp_path / "a.jsonl"), "5").fingerprint == made.fingerprint


def test_unknown_words_are_zero():
    made = fit_bag_of_words(some_texts(50), 4)
    rows = made.encode(["nothing known", "word0 nothing", "word0", ""])
    np.testing.assert_array_equal(rows[[0, 3]], 0)
    np.testing.assert_allclose(rows[1], rows[2], atol=1e-7)
    assert made.encode([]).shape == (0, 4)


def test_words_are_lower_case_and_of_two_letters_or_more():
    assert split_words("A dog's Ball, über 42!") == ["dog", "ball", "über", "42"]


def test_too_few_texts():
    with pytest.raises(InputError, match="too few"):
        fit_bag_of_words(["one two", "two three"], 4)


def test_few_words_that_leave_empty_directions_give_the_same_rows_again():
    """Words that always come in the same company: the Gram matrix has half the rank of its size."""
    texts = [f"{animal} {animal}s near{animal} far{animal}" for animal in ("dog", "cat", "cow", "owl") * 5]
    one, other = (fit_bag_of_words(texts) for _ in range(2))
    assert one.fingerprint == other.fingerprint
