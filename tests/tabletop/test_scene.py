"""Scenes are a pure function of (seed, index), rich and connected; relations are true to the layout."""

import json

import numpy as np
import pytest

from coview.tabletop.scene import (
    COLOURS,
    FLAT_TOPPED,
    LIGHTS,
    MATERIALS,
    PLACES,
    RELATIONS,
    SHAPES,
    SIZES,
    SURFACES,
    Dice,
    TableObject,
    TableScene,
    make_scene,
)

SCENES = [make_scene(0, index) for index in range(1500)]


def test_a_scene_is_a_pure_function_of_seed_and_index():
    assert make_scene(3, 17) == make_scene(3, 17)
    assert len({json.dumps(make_scene(seed, 5).attributes()) for seed in range(20)}) == 20
    assert len({json.dumps(scene.attributes()) for scene in SCENES}) == len(SCENES)


def test_every_attribute_value_occurs():
    things = [thing for scene in SCENES for thing in scene.objects]
    assert {thing.shape for thing in things} == set(SHAPES)
    assert {thing.colour for thing in things} == set(COLOURS)
    assert {thing.size for thing in things} == set(SIZES)
    assert {thing.material for thing in things} == set(MATERIALS)
    assert {scene.place for scene in SCENES} == set(PLACES)
    assert {scene.surface for scene in SCENES} == set(SURFACES)
    assert {scene.light for scene in SCENES} == set(LIGHTS)
    assert {len(scene.objects) for scene in SCENES} == {1, 2, 3, 4}
    assert {relation.name for scene in SCENES for relation in scene.relations()} == set(RELATIONS)


def test_relations_are_true_to_the_layout():
    for scene in SCENES:
        for subject, name, other in scene.relations():
            a, b = scene.objects[subject], scene.objects[other]
            same_pile = a.on == other or b.on == subject
            holds = {
                "left of": a.x < b.x - 0.3,
                "right of": a.x > b.x + 0.3,
                "behind": a.depth > b.depth + 0.3,
                "in front of": a.depth < b.depth - 0.3,
                "beside": abs(a.depth - b.depth) < 0.4 and 0.3 < abs(a.x - b.x) < 1.1,
                "on": a.on == other,
                "under": b.on == subject,
            }
            assert holds[name], (scene, subject, name, other)
            assert same_pile == (name in ("on", "under"))


def test_relations_come_with_their_inverses():
    inverse = dict(
        zip(RELATIONS, ("right of", "left of", "in front of", "behind", "beside", "under", "on"), strict=True)
    )
    for scene in SCENES:
        held = {tuple(relation) for relation in scene.relations()}
        assert held == {(other, inverse[name], subject) for subject, name, other in held}


def test_objects_stand_apart_or_on_a_flat_top():
    stacked = 0
    for scene in SCENES:
        for i, a in enumerate(scene.objects):
            if a.on is not None:
                stacked += 1
                base = scene.objects[a.on]
                assert base.shape in FLAT_TOPPED
                assert base.on is None
                assert SIZES.index(a.size) <= SIZES.index(base.size)
            for j, b in enumerate(scene.objects):
                if i != j and a.on != j and b.on != i:
                    assert max(abs(a.x - b.x), abs(a.depth - b.depth)) > 0.3
        assert len({(thing.shape, thing.colour) for thing in scene.objects}) == len(scene.objects)
    assert stacked > 100


def test_places_have_habits_and_share_some():
    def share(place, shape):
        first = [scene.objects[0].shape for scene in SCENES if scene.place == place]
        return first.count(shape) / len(first)

    assert share("nursery", "duck") > 3 * share("workshop", "duck")
    assert min(share("kitchen", "mug"), share("study", "mug")) > 2 * share("garden", "mug")


def test_attributes_are_json_and_say_what_the_scene_is():
    scene = SCENES[3]
    attributes = json.loads(json.dumps(scene.attributes()))
    assert attributes["place"] == scene.place
    assert attributes["count"] == len(scene.objects) == len(attributes["objects"])
    assert [TableObject(**thing) for thing in attributes["objects"]] == list(scene.objects)
    assert [tuple(relation) for relation in attributes["relations"]] == list(scene.relations())


def test_the_vector_tells_scenes_apart_by_their_facts():
    ball = TableObject("ball", "red", "large", "glass", 0.0, 0.1)
    cone = TableObject("cone", "blue", "small", "metal", 0.6, 0.8)
    scene = TableScene(0, 0, "study", "oak", "sunset", (ball, cone))
    swapped = TableScene(0, 0, "study", "oak", "sunset", (cone, ball))
    assert scene.vector().shape == (47,)
    assert scene.vector()[6 + 6 + 4 + 4 + SHAPES.index("ball")] == 1.0
    assert scene.vector()[6 + 6 + 4 + 4 + SHAPES.index("cone")] == 0.5
    assert not np.array_equal(scene.vector(), swapped.vector())  # which object is salient is a fact


def test_dice_are_uniform_and_repeatable():
    dice = Dice(1, 2, 3)
    numbers = [dice.number() for _ in range(4000)]
    assert Dice(1, 2, 3).number() == numbers[0] != Dice(1, 2, 4).number()
    assert np.mean(numbers) == pytest.approx(0.5, abs=0.02)
    assert np.var(numbers) == pytest.approx(1 / 12, abs=0.005)
    assert {dice.pick("abc") for _ in range(50)} == set("abc")
    assert sorted(dice.shuffled(range(9))) == list(range(9))
    assert all(2 <= dice.between(2, 3) < 3 for _ in range(50))
