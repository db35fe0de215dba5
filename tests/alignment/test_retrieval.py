import numpy as np
import pytest

from coview.alignment.retrieval import caption_retrieval
from coview.errors import InputError


def test_close_captions_find_each_other():
    scenes = np.random.default_rng(0).standard_normal((50, 16))
    scene = np.repeat(np.arange(50), 3)
    noise = np.random.default_rng(1).standard_normal((150, 16))
    assert caption_retrieval(scenes[scene] + 0.1 * noise, scene) == 1
    assert caption_retrieval(noise, scene) < 0.2


def test_equals_the_obvious_way_on_pairs():
    rng = np.random.default_rng(2)
    Z = rng.standard_normal((40, 6)) + np.repeat(rng.standard_normal((20, 6)), 2, axis=0)
    scene = np.repeat(np.arange(20), 2)
    unit = Z / np.linalg.norm(Z, axis=1, keepdims=True)
    # Each scene's two captions take the two parts in an order drawn by seed: one of 2^20 such draws.
    found = caption_retrieval(Z, scene, seed=3)
    shuffled = np.random.default_rng([3, 4]).permutation(40)
    order = shuffled[np.argsort(scene[shuffled], kind="stable")]
    query, gallery = unit[order[::2]], unit[order[1::2]]
    assert found == pytest.approx(np.mean(np.argmax(query @ gallery.T, axis=1) == np.arange(20)))


def test_equal_captions_share_the_hit():
    assert caption_retrieval(np.ones((8, 3)), np.repeat(np.arange(4), 2)) == pytest.approx(0.25)


def test_scenes_with_one_caption_take_no_part():
    Z = np.vstack([np.eye(5)[[0, 0, 1, 1]], np.eye(5)[2]])
    assert caption_retrieval(Z, ["a", "a", "b", "b", "c"]) == 1
    with pytest.raises(InputError, match="two scenes"):
        caption_retrieval(Z[:3], ["a", "a", "b"])
