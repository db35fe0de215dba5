"""`tabletop:` as a source: parsed from its name, split by index, the same scene whatever the size."""

import numpy as np
import pytest

from coview.data.scenes import Scene
from coview.errors import InputError, UsageError
from coview.tabletop import Nuisance, TabletopSource, describe, make_scene, paint


def test_the_name_says_it_all():
    source = TabletopSource.parse("tabletop:")
    assert source.name == "tabletop:seed=0,scenes=20000,texts=5"
    source = TabletopSource.parse("tabletop:texts=3, seed=1,scenes=2000,style=0.5")
    assert source.name == "tabletop:seed=1,scenes=2000,texts=3,style=0.5"
    assert source.nuisance == Nuisance(style=0.5)
    assert TabletopSource.parse(source.name).name == source.name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tabletop:sceens=5", "Did you mean 'scenes'"),
        ("tabletop:seed", "seed= is no whole number"),
        ("tabletop:seed=1.5", "no whole number"),
        ("tabletop:style=much", "no number"),
        ("tabletop:style=nan", "out of range"),
        ("tabletop:told=1.2", "0 to 1"),
        ("tabletop:camera=-1", "0 to 2"),
        ("tabletop:seed=1,seed=2", "given twice"),
        ("tabletop:seed=-1", "at least 0"),
        ("tabletop:scenes=0", "at least 1"),
        ("tabletop:texts=0", "at least 1"),
    ],
)
def test_a_bad_name_is_a_usage_error_that_says_what_to_do(name, message):
    with pytest.raises(UsageError, match="tabletop:") as caught:
        TabletopSource.parse(name)
    assert message in str(caught.value)


def test_splits_depend_on_the_index_alone():
    source = TabletopSource(scenes=40, texts=1)
    assert [len(list(source.scenes(split))) for split in (None, "train", "val", "test")] == [40, 32, 4, 4]
    assert not list(source.scenes("reserved"))
    for scene in source.scenes():
        assert scene.split == {8: "val", 9: "test"}.get(source.index_of(scene) % 10, "train")
    with pytest.raises(UsageError, match="Did you mean 'train'"):
        source.scenes("trian")


def test_scenes_do_not_depend_on_how_many_there_are():
    small, large = TabletopSource(seed=4, scenes=10), TabletopSource(seed=4, scenes=30, texts=7)
    for a, b in zip(small.scenes(), large.scenes(), strict=False):
        assert a.texts == b.texts[:5]
        assert (a.id, a.image, a.split) == (b.id, b.image, b.split)


def test_scenes_carry_their_descriptions_and_paintings():
    source = TabletopSource(seed=2, scenes=20, texts=4)
    scene = list(source.scenes())[13]
    truth = make_scene(2, 13)
    assert scene.id == "tabletop-2-000013"
    assert scene.image == "000013.png"
    assert scene.texts == tuple(describe(truth, draw) for draw in range(4))
    image = source.open_image(scene)
    assert image.mode == "RGB"
    assert image.size == source.image_size(scene)
    assert np.array_equal(np.asarray(image), paint(truth, 0))
    assert np.array_equal(source.paintings(13, 6), paint(truth, 6))
    assert source.scene(13) == truth


@pytest.mark.parametrize("scene_id", ["tabletop-1-000003", "tabletop-0-000099", "tabletop-0-x", "photo"])
def test_a_scene_of_another_source_is_refused(scene_id):
    with pytest.raises(InputError, match="not of this source"):
        TabletopSource(scenes=20).open_image(Scene(scene_id, ("a text",), "000003.png"))


def test_nuisance_reaches_texts_and_paintings():
    still = Nuisance(style=0, camera=0, light=0, texture=0, clutter=0, pose=0)
    source = TabletopSource(scenes=3, nuisance=still)
    assert np.array_equal(source.paintings(1, 0), source.paintings(1, 1))
    assert next(source.scenes()).texts[0] == describe(make_scene(0, 0), 0, still)
