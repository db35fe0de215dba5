from pathlib import Path

import numpy as np
import pytest

from coview.errors import InputError
from coview.theory.world_file import describe_world, read_world

EXAMPLES = Path(__file__).parents[2] / "examples" / "worlds"


def described(name: str) -> dict:
    return describe_world(read_world(EXAMPLES / f"{name}.yaml"))


def pair(result: dict, first: str, second: str) -> dict:
    return next(p for p in result["pairs"] if (p["first"], p["second"]) == (first, second))


def test_modalities_with_the_same_positives_agree():
    result = described("agree")
    assert result["identifiable"]
    assert pair(result, "photo", "text")["misalignment"] < 1e-10
    shelf = pair(result, "photo", "shelf")
    assert 0.01 < shelf["misalignment"] <= shelf["sharp_bound"] <= shelf["bound"]


def test_sharing_style_costs_a_dimension_above_the_threshold():
    result = described("style")
    parts = result["modalities"]
    assert parts["text, bad"]["split"] == {"scene": 1, "nuisance": 1, "mixed": 0, "tied": False}
    assert parts["text, bad"]["scene_explained"] == pytest.approx(0.5)
    assert parts["text, mildly bad"]["sharing"] < parts["text, mildly bad"]["sharing_threshold"]
    assert parts["text, mildly bad"]["scene_explained"] == pytest.approx(1)
    assert pair(result, "photo", "text, bad")["misalignment"] == pytest.approx(np.sqrt(2))


def test_same_state_positives_promise_nothing_and_vague_captions_have_a_spectrum():
    result = described("same_state")
    assert not result["identifiable"]
    assert "nothing is guaranteed" in result["verdict"]
    assert result["components"] == 5
    assert pair(result, "photo", "full caption")["misalignment"] is None
    assert pair(result, "photo", "full caption")["bound"] is None
    vague = result["modalities"]["vague caption"]
    assert vague["identifiable"]
    assert not vague["identifies_scene"]


GOOD = "states: [a, b, c]\njoint: [[4, 1, 0], [1, 4, 1], [0, 1, 4]]\ndim: 1\nmodalities: {x: {}}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("states: [a, b\njoint: 3", "line 2: not valid YAML: expected ',' or ']'"),
        ("- a list", "expected `key: value` entries"),
        (GOOD.replace("joint", "joints"), "Did you mean 'joint'"),
        (GOOD.replace("dim: 1\n", ""), "'dim' is missing"),
        (GOOD.replace("dim: 1", "dim: much"), "whole number"),
        (GOOD.replace("dim: 1", "dim: 3"), "there are 3"),
        (GOOD.replace("[4, 1, 0]", "[4, 2, 0]"), "write the mean of the two in both places"),
        (GOOD.replace("[4, 1, 0]", "[4, 1]"), "rows of numbers"),
        (GOOD.replace("[4, 1, 0]", "[four, 1, 0]"), "rows of numbers"),
        (GOOD.replace("[a, b, c]", "[a, b]"), "3 rows for 2 states"),
        (GOOD.replace("[[4, 1, 0], [1, 4, 1], [0, 1, 4]]", "whatever"), "'same-state'"),
        (GOOD.replace("{x: {}}", "{x: {view: bad}}"), "Did you mean 'views'"),
        (GOOD.replace("{x: {}}", "{x: {views: bad}}"), "modalities: x: bad views share the nuisance"),
        (GOOD.replace("{x: {}}", "{x: {merge: [[a, d]]}}"), "no state 'd'"),
        (GOOD.replace("{x: {}}", "{x: {merge: [['a:1', b]]}}"), "nuisances here are 0 to 0"),
        (GOOD.replace("{x: {}}", "{x: {nuisance: [0.5, 0.6]}}"), "each of sum 1"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_place(tmp_path, text, words):
    path = tmp_path / "world.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_world(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_world(tmp_path / "world.yaml")


def test_merging_one_nuisance_alone(tmp_path):
    path = tmp_path / "world.yaml"
    path.write_text(GOOD.replace("{x: {}}", "{x: {nuisance: [0.5, 0.5], merge: [['a:1', 'c:1']]}}"))
    modality = read_world(path).modalities["x"]
    assert len(modality.joint) == 5
    assert sorted((modality.coupling > 0).sum(axis=1)) == [1, 1, 1, 1, 2]
