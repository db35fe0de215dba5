"""Paintings show the state of the scene and vary in everything else, each nuisance with its own knob."""

from dataclasses import replace

import numpy as np
import pytest

from coview.tabletop import Nuisance, TableObject, TableScene, make_scene, paint
from coview.tabletop.paint import PIGMENTS
from coview.tabletop.scene import COLOURS, LIGHTS, MATERIALS, PLACES, SHAPES, SURFACES

STILL = Nuisance(camera=0, light=0, texture=0, clutter=0, pose=0)


def a_scene(*objects: TableObject, place="kitchen", surface="linen", light="daylight") -> TableScene:
    return TableScene(0, 0, place, surface, light, objects)


def an_object(**changes) -> TableObject:
    return replace(TableObject("ball", "red", "medium", "glazed", 0.0, 0.15), **changes)


def what_changed(*objects: TableObject) -> np.ndarray:
    """Pixels that differ from the empty table, shadows (darker, same hue) left out, (64, 64) bool."""
    difference = paint(a_scene(*objects), 0, STILL).astype(int) - paint(a_scene(), 0, STILL)
    return np.ptp(difference, axis=2) > 25


def centre(mask: np.ndarray) -> tuple[float, float]:
    rows, columns = np.nonzero(mask)
    return float(columns.mean()), float(rows.mean())


def test_a_painting_is_a_pure_function_and_every_draw_another():
    scene = make_scene(0, 4)
    paintings = [paint(scene, draw) for draw in range(4)]
    assert all(p.shape == (64, 64, 3) and p.dtype == np.uint8 for p in paintings)
    assert np.array_equal(paintings[2], paint(make_scene(0, 4), 2))
    assert len({p.tobytes() for p in paintings}) == 4


@pytest.mark.parametrize("knob", ["camera", "light", "texture", "clutter", "pose"])
def test_each_knob_is_a_nuisance_of_its_own(knob):
    scene = make_scene(0, 11)
    still = {paint(scene, draw, STILL).tobytes() for draw in range(4)}
    moved = {paint(scene, draw, replace(STILL, **{knob: 1.0})).tobytes() for draw in range(4)}
    assert len(still) == 1
    assert len(moved) == 4


def test_objects_are_painted_where_they_stand():
    left, middle, right = (centre(what_changed(an_object(x=x)))[0] for x in (-0.62, 0.0, 0.62))
    assert left < middle - 10 < middle < right - 10
    near, far = (centre(what_changed(an_object(depth=depth)))[1] for depth in (0.15, 0.85))
    assert far < near - 5
    base = an_object(shape="block", colour="blue", size="large")
    lone, piled = what_changed(an_object()), what_changed(base, an_object(on=0))
    assert np.nonzero(piled)[0].min() < np.nonzero(lone)[0].min() - 10


def test_size_and_nearness_make_objects_larger():
    areas = [what_changed(an_object(size=size)).sum() for size in ("small", "medium", "large")]
    assert 0 < 1.5 * areas[0] < areas[1] < areas[2] / 1.5
    assert what_changed(an_object(depth=0.15)).sum() > 1.3 * what_changed(an_object(depth=0.85)).sum()


def test_what_stands_in_front_hides_what_stands_behind():
    front, behind = an_object(colour="red", size="large"), an_object(colour="blue", size="small", depth=0.85)
    both = paint(a_scene(front, behind), 0, STILL)
    assert np.array_equal(both, paint(a_scene(behind, front), 0, STILL))
    alone = what_changed(behind).sum()
    painting = both.astype(int)
    blue = (painting[:, :, 2] > painting[:, :, 0] + 60).sum()
    assert blue < alone


def test_no_object_is_hidden():
    """Whichever object is repainted, the painting changes."""
    seen = []
    for index in range(80):
        scene = make_scene(0, index)
        before = paint(scene, 0, STILL).astype(int)
        for i, thing in enumerate(scene.objects):
            other = replace(
                thing, colour="black" if thing.colour in ("white", "yellow", "orange") else "white"
            )
            objects = (*scene.objects[:i], other, *scene.objects[i + 1 :])
            change = np.abs(paint(replace(scene, objects=objects), 0, STILL) - before).max(2)
            seen.append((change > 20).sum())
    assert min(seen) > 10


def test_a_pile_moves_as_one():
    scene = a_scene(an_object(shape="tin", colour="blue", size="large"), an_object(colour="red", on=0))
    swaying = replace(STILL, pose=2.0)
    gaps = []
    for draw in range(12):
        painting = paint(scene, draw, swaying).astype(int)
        red = painting[:, :, 0] > painting[:, :, 2] + 90
        blue = painting[:, :, 2] > painting[:, :, 0] + 60
        foot, top = np.nonzero(red)[0].max(), np.nonzero(blue)[0].min()
        assert abs(foot - top) <= 7  # the ball covers the middle of the lid
        gaps.append(centre(red[foot - 1 : foot + 1])[0] - centre(blue[top : top + 8])[0])
    assert np.max(np.abs(gaps)) < 3  # moved and leaning on their own they would part by up to 8 pixels


@pytest.mark.parametrize("colour", COLOURS)
def test_colours_are_recognisable(colour):
    scene = a_scene(an_object(colour=colour, size="large", material="woollen"), surface="slate")
    mean = paint(scene, 0, STILL)[36:48, 26:38].reshape(-1, 3).mean(0) / 255

    def distance(name: str) -> float:  # to the pigment in more or less light
        return min(
            np.linalg.norm(mean - shade * np.array(PIGMENTS[name])) for shade in (0.7, 0.85, 1.0, 1.15)
        )

    assert min(PIGMENTS, key=distance) == colour


def test_every_value_of_every_attribute_looks_different():
    for field, values in (("shape", SHAPES), ("colour", COLOURS), ("material", MATERIALS)):
        looks = [paint(a_scene(an_object(**{field: value})), 0, STILL).astype(float) for value in values]
        assert _least_difference(looks) > 0.7, field
    for field, values in (("place", PLACES), ("surface", SURFACES), ("light", LIGHTS)):
        looks = [paint(a_scene(**{field: value}), 0, STILL).astype(float) for value in values]
        assert _least_difference(looks) > 4.0, field


def _least_difference(looks: list[np.ndarray]) -> float:
    return min(np.abs(a - b).mean() for i, a in enumerate(looks) for b in looks[:i])


def test_strong_nuisance_stays_inside_the_frame():
    wild = Nuisance(camera=2, light=2, texture=2, clutter=2, pose=2)
    for index in range(40):
        assert paint(make_scene(7, index), 1, wild).shape == (64, 64, 3)


def test_places_can_be_read_off_paintings_in_spite_of_the_nuisance():
    scenes = [make_scene(0, index) for index in range(300)]
    thumbs = np.array([paint(scene, 0)[:24, ::8].reshape(-1) / 255.0 for scene in scenes])
    places = np.array([PLACES.index(scene.place) for scene in scenes])
    means = np.array([thumbs[:200][places[:200] == place].mean(0) for place in range(len(PLACES))])
    guess = np.square(thumbs[200:, None] - means).sum(2).argmin(1)
    assert (guess == places[200:]).mean() > 0.6  # chance: 0.17
