"""What the world is made for: good views pay, bad views and prefixes do not.

The optimum of a second-order JEPA over linear encoders of bags of words is canonical correlation between the
two views, so the effect of the views alone is computed here exactly, without training.
"""

import re

import numpy as np
import pytest
from scipy.linalg import eigh

from coview.tabletop import describe, make_scene

TRAIN, TEST, WIDTH = 3000, 700, 24


@pytest.fixture(scope="module")
def world():
    """Tokens of two descriptions a scene, word ids, and ground-truth vectors of the test scenes."""
    scenes = [make_scene(0, index) for index in range(TRAIN + TEST)]
    texts = [[re.findall(r"[a-z0-9'-]+", describe(scene, d).lower()) for d in range(2)] for scene in scenes]
    words, counts = np.unique([w for pair in texts for text in pair for w in text], return_counts=True)
    ids = {word: i for i, word in enumerate(words[counts >= 12])}
    return texts, ids, np.array([scene.vector() for scene in scenes[TRAIN:]])


def bags(texts: list[list[str]], ids: dict[str, int]) -> np.ndarray:
    bag = np.zeros((len(texts), len(ids)), np.float32)
    for row, text in enumerate(texts):
        bag[row, [ids[word] for word in text if word in ids]] = 1
    return bag


def canonical(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The directions that the two views share most, (words, WIDTH)."""
    first, second = first - first.mean(0), second - second.mean(0)
    own = (first.T @ first + second.T @ second).astype(float)
    own += 0.02 * np.trace(own) / len(own) * np.eye(len(own))
    shared = (first.T @ second + second.T @ first).astype(float)
    return eigh(shared, own, subset_by_index=[len(own) - WIDTH, len(own) - 1])[1]


def mutual_neighbours(a: np.ndarray, b: np.ndarray, k: int = 10) -> float:
    """Share of the k nearest neighbours by cosine that two representations agree on."""
    lists = []
    for z in (a, b):
        z = z - z.mean(0)
        z = z / np.linalg.norm(z, axis=1, keepdims=True)
        similarity = z @ z.T
        np.fill_diagonal(similarity, -2)
        lists.append(np.argsort(-similarity, axis=1)[:, :k])
    return float(np.mean([len(set(x) & set(y)) / k for x, y in zip(*lists, strict=True)]))


def test_good_views_find_the_scene_and_views_of_one_text_find_its_style(world):
    texts, ids, truth = world
    rng = np.random.default_rng(0)
    first, second = (bags([pair[d] for pair in texts], ids) for d in (0, 1))
    masked = [first[:TRAIN] * (rng.random((TRAIN, len(ids))) > 0.3) for _ in range(2)]
    cuts = [int(rng.integers(1, max(2, len(pair[0])))) for pair in texts[:TRAIN]]
    prefixes = bags([pair[0][:cut] for pair, cut in zip(texts, cuts, strict=False)], ids)
    rests = bags([pair[0][cut:] for pair, cut in zip(texts, cuts, strict=False)], ids)

    shown = first[TRAIN:] - first[:TRAIN].mean(0)
    good = mutual_neighbours(shown @ canonical(first[:TRAIN], second[:TRAIN]), truth)
    bad = mutual_neighbours(shown @ canonical(*masked), truth)
    continuation = mutual_neighbours(shown @ canonical(prefixes, rests), truth)
    words_alone = mutual_neighbours(shown, truth)
    chance = 10 / (TEST - 1)
    assert good > 2 * bad
    assert good > 2 * continuation
    assert good > 1.5 * words_alone
    assert words_alone > 2 * chance
    assert good < 0.5  # one description never says all
