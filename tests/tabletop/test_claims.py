"""Every description the describers write is read as true of its scene, and as false of another."""

import string
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coview.tabletop import Nuisance, describe, make_scene
from coview.tabletop.claims import (
    KINDS,
    ClaimedObject,
    check_claims,
    read_claims,
    share_interval,
    tally_claims,
)
from coview.tabletop.describe import _Telling
from coview.tabletop.scene import USUAL, TableObject, TableScene

TALKATIVE = Nuisance(told=1.0)
PLAIN = Nuisance(style=0.0, told=1.0)
# A red ball in front on the left, a blue box behind on the right, and a small green star on the box.
SCENE = TableScene(
    0,
    0,
    "kitchen",
    "oak",
    "sunset",
    (
        TableObject("ball", "red", "large", "woollen", -0.6, 0.1),
        TableObject("block", "blue", "medium", "striped", 0.6, 0.9),
        TableObject("star", "green", "small", "metal", 0.6, 0.9, on=1),
    ),
)


def verdict(text: str, scene: TableScene = SCENE) -> list[tuple[str, bool]]:
    return sorted(check_claims(read_claims(text), scene))


def related(is_true: bool) -> list[tuple[str, bool]]:
    """A relation between two things that are there."""
    return [("relation", is_true), ("relation_between", is_true)]


def false_claims(text: str, scene: TableScene) -> list[str]:
    return [kind for kind, is_true in check_claims(read_claims(text), scene) if not is_true]


@settings(max_examples=150)
@given(
    st.integers(0, 2**31),
    st.integers(0, 10**6),
    st.integers(0, 50),
    st.sampled_from([USUAL, TALKATIVE, PLAIN]),
)
def test_what_describers_write_is_true_of_their_scene(seed, index, draw, nuisance):
    scene = make_scene(seed, index)
    text = describe(scene, draw, nuisance)
    assert not false_claims(text, scene), text


def test_nothing_that_is_told_is_missed():
    scenes = [make_scene(3, index) for index in range(400)]
    texts = [describe(scene, 0, PLAIN) for scene in scenes]
    tallies = tally_claims(texts, scenes)
    assert set(tallies) == set(KINDS)
    for kind, tally in tallies.items():
        assert tally.told == tally.true > 30, kind


def test_what_is_read_is_what_was_told(monkeypatch):
    told = []
    for name in ("word", "phrase"):
        original = getattr(_Telling, name)
        monkeypatch.setattr(
            _Telling,
            name,
            lambda self, kind, fact, original=original: (
                told.append((kind, fact)) or original(self, kind, fact)
            ),
        )
    for index in range(500):
        told.clear()
        text = describe(make_scene(6, index), 1, USUAL)
        claims = read_claims(text)
        read = [("relation", name) for _, name, _ in claims.relations]
        for claimed in claims.objects:
            read += [(kind, fact) for kind, fact in vars(claimed).items() if fact]
        facts = [(kind, fact) for kind, fact in told if kind not in ("other", "place", "surface", "light")]
        assert sorted(read) == sorted(facts), text
        assert set(claims.room) <= set(told), text
        assert bool(claims.counts) == (("other", "counted") in told), text
        assert bool(claims.room) == any(kind in ("place", "surface", "light") for kind, _ in told), text


def test_descriptions_of_other_scenes_are_mostly_false():
    scenes = [make_scene(4, index) for index in range(500)]
    texts = [describe(scene, 0) for scene in scenes]
    tallies = tally_claims([*texts[1:], texts[0]], scenes)
    assert tallies["shape"].accuracy < 0.3
    assert tallies["colour_shape"].accuracy < 0.15
    assert tallies["relation"].accuracy < 0.1
    wrong = [bool(false_claims(text, scene)) for text, scene in zip(texts[1:], scenes, strict=False)]
    assert sum(wrong) > 0.9 * len(wrong)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A red ball.", [("colour_shape", True), ("shape", True)]),
        ("A blue ball.", [("colour_shape", False), ("shape", True)]),
        ("There is a duck on the oak table", [("shape", False), ("surface", True)]),
        ("A wooden thing rests.", []),
        ("A ball and a ball", [("shape", False), ("shape", True)]),
        ("A red thing and a blue object", [("colour_shape", True)] * 2),
        ("Two things in all: a star at night", [("count", False), ("light", False), ("shape", True)]),
        ("Lg. sphere, L of cube", [*related(True), ("shape", True), ("shape", True), ("size", True)]),
        ("Wool sphere", [("material", True), ("shape", True)]),
        ("A ball is to the right of a box", [*related(False), ("shape", True), ("shape", True)]),
        ("On top of a box sits a star", [*related(True), ("shape", True), ("shape", True)]),
        ("On top of a star sits a box", [*related(False), ("shape", True), ("shape", True)]),
        ("A box left of a box", [("relation", False), ("shape", False), ("shape", True)]),
        ("A star on a duck", [("relation", False), ("shape", False), ("shape", True)]),
        ("A box of burnished steel", [("material", False), ("shape", True)]),
        ("A star, of burnished steel", [("shape", True)]),
        ("", []),
        ("on on the by red under", [("colour_shape", True)]),
        ("A purple", [("colour_shape", False)]),
    ],
)  # fmt: skip
def test_by_hand(text, expected):
    assert verdict(text) == sorted(expected)


def test_a_false_colour_does_not_make_the_relation_false():
    assert verdict("A green ball left of a box") == [
        ("colour_shape", False),
        *related(True),
        ("shape", True),
        ("shape", True),
    ]


def test_claims_keep_the_order_of_the_text():
    claims = read_claims("Look, a just-right mossy little moon peeping over the ghostly little moon")
    assert claims.objects == (
        ClaimedObject("ball", "green", "medium"),
        ClaimedObject("ball", "white"),
    )
    assert claims.relations == ((0, "behind", 1),)


@settings(max_examples=100)
@given(st.text(alphabet=string.printable + "é😀", max_size=200))
def test_any_text_can_be_read(text):
    for kind, is_true in check_claims(read_claims(text), SCENE):
        assert kind in KINDS
        assert is_true in (True, False)


def test_the_interval_is_wilsons_where_each_scene_has_one_claim():
    low, high = share_interval([(1, 1)] * 15 + [(1, 0)] * 5)
    for end in (low, high):  # Wilson's ends are where the score test is just rejected
        assert abs(0.75 - end) / np.sqrt(end * (1 - end) / 20) == pytest.approx(1.96)
    assert share_interval([(1, 0)] * 2) == pytest.approx((0, 1.96**2 / (2 + 1.96**2)))
    assert share_interval([]) is None


def test_claims_that_stand_and_fall_together_count_once():
    alone = share_interval([(1, 1)] * 15 + [(1, 0)] * 5)
    assert share_interval([(4, 4)] * 15 + [(4, 0)] * 5) == pytest.approx(alone)
    assert share_interval([(4, 4)] * 20) == pytest.approx(share_interval([(1, 1)] * 20))


def test_the_interval_holds_the_share_as_often_as_it_says():
    held = 0
    for draw in range(400):
        rng = np.random.default_rng([5, draw])
        told = rng.integers(1, 6, 80)
        true = rng.binomial(told, rng.beta(0.6, 1.4, 80))  # scenes differ in how easy they are
        low, high = share_interval(list(zip(told.tolist(), true.tolist(), strict=True)))
        held += low <= 0.3 <= high
    assert 0.92 < held / 400 < 0.98


def test_several_texts_of_a_scene_are_one_cluster():
    texts, scenes = ["A red ball", "A red ball", "A duck"], [SCENE, SCENE, replace(SCENE, index=1)]
    tally = tally_claims(texts, scenes)["shape"]
    assert (tally.told, tally.true) == (3, 2)
    assert tally.interval == share_interval([(2, 2), (1, 0)])


@pytest.mark.slow
def test_twenty_thousand_descriptions_have_no_false_claim():
    for index in range(5000):
        scene = make_scene(11, index)
        for draw in range(4):
            text = describe(scene, draw)
            assert not false_claims(text, scene), text
