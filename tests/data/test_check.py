"""What `coview data check` counts, beside slow and obvious twins."""

import itertools
import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from coview.data.check import Problems, check_source, percentile
from coview.data.readers import open_source
from coview.data.scenes import Scene
from coview.errors import InputError


class ListSource:
    """Scenes of a list, without images."""

    name, split_note = "list", ""

    def __init__(self, scenes: list[Scene]):
        self._scenes = scenes

    def scenes(self, split=None):
        return iter([scene for scene in self._scenes if split in (None, scene.split)])

    def open_image(self, scene):
        raise InputError("no image", where=scene.where)

    image_size = open_image


words = st.lists(st.sampled_from(["ball", "Ball", "red", "a"]), min_size=1, max_size=3).map(" ".join)
scene_lists = st.lists(
    st.tuples(st.lists(words, min_size=1, max_size=3), st.sampled_from(["train", "val", "test", "reserved"])),
    max_size=8,
).map(lambda rows: [Scene(str(i), tuple(texts), split=split) for i, (texts, split) in enumerate(rows)])


@given(scene_lists)
def test_duplicates_and_leaks_against_a_search_over_all_pairs(scenes):
    result = check_source(ListSource(scenes), Problems())["duplicates"]
    placed = [(text.lower(), scene.id, scene.split) for scene in scenes for text in scene.texts]
    pairs = list(itertools.permutations(placed, 2))
    same_text = [(a, b) for a, b in pairs if a[0] == b[0]]
    assert result["across_scenes"] == len({a[0] for a, b in same_text if a[1] != b[1]})
    assert result["within_scenes"] == sum(
        len(scene.texts) - len({text.lower() for text in scene.texts}) for scene in scenes
    )
    for split in ("val", "test", "reserved"):
        leaked = {a[0] for a, b in same_text if (a[2], b[2]) == (split, "train")}
        assert result[f"{split}_in_train"] == len(leaked)


@given(scene_lists.filter(bool))
def test_counts_and_lengths_against_lists(scenes):
    result = check_source(ListSource(scenes), Problems())
    texts = [len(scene.texts) for scene in scenes]
    lengths = [len(text.split()) for scene in scenes for text in scene.texts]
    assert (result["scenes"], result["texts"]) == (len(scenes), len(lengths))
    assert result["texts_per_scene"] == {
        "min": min(texts),
        "mean": round(float(np.mean(texts)), 2),
        "max": max(texts),
        "one": texts.count(1),
        "none": 0,
    }
    assert sum(result["splits"].values()) == len(scenes)
    for percent in (5, 50, 95, 99):
        expected = np.percentile(lengths, percent, method="inverted_cdf")
        assert result["words_per_text"][f"p{percent}"] == expected


def test_a_percentile_of_nothing_is_zero():
    from collections import Counter

    assert percentile(Counter(), 50) == 0


def test_problems_are_counted_without_end_and_kept_up_to_a_hundred():
    problems = Problems()
    for row in range(250):
        problems.add(InputError("broken.", where=f"row {row}"))
    assert (problems.count, len(problems.first)) == (250, 100)
    summary = problems.summary()
    assert summary is not None
    assert str(summary) == "row 0: 250 problems; first: broken."


def test_a_source_that_names_images_but_has_none_is_a_source_of_texts(tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({"image": "a.jpg", "captions": ["x", "y"]}))
    for decode, expected in ((False, 0), (True, 1)):
        problems = Problems()
        result = check_source(open_source(str(tmp_path / "a.jsonl")), problems, decode=decode)
        assert result["images"] == {"named": 1, "found": 0, "missing": 1, "broken": 0, "decoded": decode}
        assert problems.count == expected


def test_what_was_read_before_the_break_is_reported(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"a ball\nthe ball\n\na cube\n\n\xff\n")
    problems = Problems()
    result = check_source(open_source(str(tmp_path / "a.txt")), problems)
    assert (result["scenes"], result["complete"]) == (2, False)
    assert "row 6" in result["problems"]["first"][0]["where"]
