"""The protocol without pairs: what it may see, what it must not depend on, and what it answers."""

import numpy as np
import pytest

from coview.embeddings import Embeddings
from coview.errors import InputError
from coview.joining import blind
from coview.joining.paired import pair_up
from coview.uses import rosetta as room
from coview.uses.rosetta import Task, cut, rosetta, summary, words

WIDTH, CLASSES = 12, 8


def world(seed=0, scenes=900, captions=3):
    """Clustered scenes seen by a turned, shifted encoder, and described three times; classes are clusters."""
    rng = np.random.default_rng(seed)
    centres = 2 * rng.standard_normal((30, WIDTH)) * np.linspace(1.5, 0.5, WIDTH)
    kind = rng.integers(0, 30, scenes)
    latent = centres[kind] + rng.standard_normal((scenes, WIDTH)) * 0.4
    turn = np.linalg.qr(rng.standard_normal((WIDTH, WIDTH)))[0]
    images = (latent + 0.15 * rng.standard_normal(latent.shape)) @ turn + 3
    scene = np.repeat(np.arange(scenes), captions)
    texts = latent[scene] + 0.15 * rng.standard_normal((len(scene), WIDTH))
    ids = tuple(map(str, range(scenes)))
    corpus = pair_up(
        Embeddings(images.astype(np.float32), ids, ids),
        Embeddings(
            texts.astype(np.float32),
            tuple(f"{one}#{slot}" for slot, one in enumerate(scene)),
            tuple(map(str, scene)),
        ),
    )
    shown = rng.integers(0, CLASSES, 200)
    task = Task(
        (centres[shown] + 0.4 * rng.standard_normal((200, WIDTH))) @ turn + 3,
        shown,
        np.repeat(centres[:CLASSES], 2, axis=0) + 0.1 * rng.standard_normal((2 * CLASSES, WIDTH)),
        np.repeat(np.arange(CLASSES), 2),
    )
    return corpus, task


def test_the_three_parts_share_no_scene():
    parts = cut(901, 3)
    assert [len(part) for part in parts] == [360, 360, 180]
    assert len(set(np.concatenate(parts))) == 900
    assert not np.array_equal(cut(901, 4)[0], parts[0])
    assert len(cut(20_000, 0)[2]) == 1000
    with pytest.raises(InputError, match="a search needs 200"):
        cut(400, 0)


def test_the_search_sees_no_pair(monkeypatch):
    """Every row is the number of its scene, so what the search is given can be read off."""
    count = 600
    ids = tuple(map(str, range(count)))
    numbers = np.arange(count, dtype=np.float32)
    images = Embeddings(np.stack([numbers, numbers * 0 + 1], axis=1), ids, ids)
    angle = numbers / count
    texts = Embeddings(np.stack([np.cos(angle), np.sin(angle)], axis=1), ids, ids)
    seen = {}

    def spy(x, y, **options):
        seen["x"] = set(np.round(x[:, 0]).astype(int))
        seen["y"] = set(np.round(count * np.arctan2(y[:, 1], y[:, 0])).astype(int))
        raise RuntimeError

    monkeypatch.setattr(room, "find_rotation", spy)
    task = Task(images.matrix[:4], np.array([0, 1, 0, 1]), texts.matrix[:2], np.array([0, 1]))
    with pytest.raises(RuntimeError):
        rosetta(pair_up(images, texts), task, seeds=[0])
    assert len(seen["x"]) == len(seen["y"]) == 240
    assert not seen["x"] & seen["y"]


def test_a_clustered_world_is_joined_without_pairs():
    corpus, task = world()
    (trial,) = rosetta(corpus, task, seeds=[1])
    assert trial.fit.verdict == blind.FOUND
    assert trial.without_pairs.foscttm < 0.05
    assert trial.without_pairs.zero_shot.top1 > 0.9
    assert trial.with_pairs.zero_shot.top1 > 0.9
    result = summary([trial])
    assert (result["found"], result["of"]) == (1, 1)
    assert "found in" not in words(result).splitlines()[2]
    assert "found without pairs in 1 of 1 seeds" in words(result)


def test_clouds_of_one_shape_are_not_identified_and_give_no_number():
    corpus, task = world()
    rng = np.random.default_rng(5)
    latent = rng.standard_normal((600, WIDTH)).astype(np.float32)
    ids = tuple(map(str, range(600)))
    turned = latent @ np.linalg.qr(rng.standard_normal((WIDTH, WIDTH)))[0].astype(np.float32)
    corpus = pair_up(Embeddings(turned, ids, ids), Embeddings(latent, ids, ids))
    (trial,) = rosetta(corpus, task, seeds=[0])
    assert trial.fit.verdict == blind.NOT_IDENTIFIED
    assert trial.without_pairs is None
    assert trial.with_pairs.foscttm < 0.01
    result = summary([trial])
    assert (result["found"], result["without_pairs"]) == (0, None)
    assert "not identified" in words(result)


def test_images_and_classes_are_shuffled_and_that_changes_nothing():
    """The same rotation, judged under other shuffles."""
    corpus, task = world()
    held_out = room.scene_means(corpus, np.arange(100))
    rotation = room.fit_rotation(*room.scene_means(corpus, np.arange(100, 900)), method="procrustes")
    one, other = (room.judge(rotation, held_out, task, seed) for seed in (0, 1))
    assert one.zero_shot.top1 == pytest.approx(other.zero_shot.top1)
    assert one.zero_shot.balanced == pytest.approx(other.zero_shot.balanced)
    assert not np.array_equal(one.zero_shot.confusion, other.zero_shot.confusion)
    assert one.foscttm == other.foscttm
