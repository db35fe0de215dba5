import numpy as np
import pytest

from coview.data.scenes import Scene
from coview.embeddings import Embeddings
from coview.errors import InputError
from coview.held_out import HeldOut, image_rows


class Listed:
    """A source of given scenes."""

    name, split_note = "listed", ""

    def __init__(self, scenes):
        self.all = scenes

    def scenes(self, split=None):
        return (scene for scene in self.all if split in (None, scene.split))


def held_out(count: int = 40, texts: int = 3, width: int = 6) -> HeldOut:
    scenes = [
        Scene(f"s{i}", tuple(f"text {i} {j}" for j in range(texts)), split="test") for i in range(count)
    ]
    matrix = np.random.default_rng(0).standard_normal((count, width)).astype(np.float32)
    order = np.random.default_rng(1).permutation(count)
    images = Embeddings(matrix[order], ids=tuple(f"s{i}" for i in order))
    found = HeldOut.of(Listed(scenes), "test", images)
    np.testing.assert_array_equal(found.images, matrix)  # paired by id, whatever the order of the file
    return found


def test_one_text_of_each_scene_drawn_by_seed():
    test = held_out()
    chosen = test.one_each(0)
    np.testing.assert_array_equal(test.scene[chosen], np.arange(40))
    assert len({int(slot) for slot in chosen % 3}) == 3, "slots are mixed: files sort texts by length"
    np.testing.assert_array_equal(chosen, test.one_each(0))
    assert (chosen != test.one_each(1)).any()


def test_means_equal_a_plain_loop():
    test = held_out()
    rows = np.random.default_rng(2).standard_normal((len(test.texts), 5)).astype(np.float32)
    slow = np.stack([rows[test.scene == scene].mean(0) for scene in range(40)])
    np.testing.assert_allclose(test.means(rows), slow, rtol=1e-6, atol=1e-7)


def test_scenes_without_image_or_second_text_are_left_out():
    scenes = [Scene(f"s{i}", ("a", "b"), split="test") for i in range(35)]
    scenes += [Scene("single", ("a",), split="test"), Scene("blind", ("a", "b"), split="test")]
    ids = tuple(scene.id for scene in scenes if scene.id != "blind")
    found = HeldOut.of(Listed(scenes), "test", Embeddings(np.ones((len(ids), 2), np.float32), ids=ids))
    assert len(found.images) == 35
    with pytest.raises(InputError, match="0 val scenes"):
        HeldOut.of(Listed(scenes), "val", Embeddings(np.ones((len(ids), 2), np.float32), ids=ids))


def test_too_few_scenes_are_said_before_anything_is_embedded(tmp_path):
    few = Listed([Scene(f"s{i}", ("a", "b"), split="val") for i in range(29)])
    with pytest.raises(InputError, match=r"29 val scenes .* 30 are needed") as caught:
        image_rows(few, "no-such-encoder:", None, "val", tmp_path, "cpu")
    assert "split" in caught.value.hint
    assert not list(tmp_path.iterdir())
