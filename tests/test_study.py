from dataclasses import replace

import numpy as np
import pytest

from coview.alignment import align
from coview.data.scenes import Scene
from coview.embeddings import Embeddings
from coview.errors import InputError, UsageError
from coview.study import ARMS, RECIPE, HeldOut, difference, load_arms, overlap


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


def test_overlap_is_what_align_reports():
    test = held_out(60)
    rows = np.random.default_rng(3).standard_normal((60, 4)).astype(np.float32) + test.images[:, :4]
    from coview.study import neighbours

    reported = align(rows, test.images, k=5, recipe=RECIPE, permutations=0, splits=0).score
    assert overlap(rows, neighbours(test.images, 5), 5) == pytest.approx(reported, abs=1e-12)


def test_difference_is_paired_and_has_no_interval_for_one_seed():
    row = difference([3.0, 4.0, 5.5], [1.0, 3.0, 4.0])
    assert row["by_seed"] == [2.0, 1.0, 1.5]
    half = 4.302653 * 0.5 / np.sqrt(3)  # Student's t with two degrees of freedom; deviation 0.5
    assert (row["mean"], row["low"], row["high"]) == pytest.approx((1.5, 1.5 - half, 1.5 + half), rel=1e-6)
    assert difference([1.0], [0.5]) == {"mean": 0.5, "low": None, "high": None, "by_seed": [0.5]}


def test_arms_share_what_is_common(tmp_path):
    file = tmp_path / "arms.yaml"
    file.write_text("common: {steps: 7, size: xs}\nbad: {mask_rate: 0.2}\n")
    arms = load_arms(file)
    assert tuple(arms) == ARMS
    assert all(config.steps == 7 and config.views == arm for arm, config in arms.items())
    assert replace(arms["bad"], views="good", mask_rate=arms["good"].mask_rate) == arms["good"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("goood: {}", "Did you mean 'good'"),
        ("good: {stepz: 3}", "Did you mean 'steps'"),
        ("good: 3", "mapping"),
        ("{", "YAML"),
        ("good: {steps: 0}", "at least 1"),
    ],
)
def test_arms_that_make_no_sense_are_refused(tmp_path, text, words):
    file = tmp_path / "arms.yaml"
    file.write_text(text)
    with pytest.raises((InputError, UsageError), match=words):
        load_arms(file)
