"""The readers on real data packs; skipped where they are absent."""

from collections import Counter

import pytest

from coview.data.check import Problems, check_source
from coview.data.readers import open_source


def count(source) -> tuple[Counter, set[int]]:
    scenes = list(source.scenes())
    return Counter(scene.split for scene in scenes), {len(scene.texts) for scene in scenes}


@pytest.mark.parametrize("language", ["en", "de"])
def test_multi30k_keeps_its_reserved_rows_out_of_training(shared, language):
    folder = shared / "data" / "multi30k"
    source = open_source(f"{folder},lang={language}")
    assert count(source) == ({"train": 27598, "reserved": 1402, "val": 1014, "test": 1000}, {5})
    assert source.split_note == ""
    reserved = {
        line.split("\t")[1] for line in (folder / "reserved_train_rows.tsv").read_text().split("\n")[1:-1]
    }
    assert {scene.id for scene in source.scenes("reserved")} == reserved
    assert reserved.isdisjoint(scene.id for scene in source.scenes("train"))


def test_flickr8k_and_its_zip_of_images(shared):
    source = open_source(str(shared / "data" / "flickr8k"))
    assert count(source) == ({"train": 5586, "val": 500, "test": 1000}, {5})
    scene = next(source.scenes("val"))
    assert source.open_image(scene).size == (224, 224)
    problems = Problems()
    result = check_source(source, problems)
    assert (result["images"]["found"], problems.count) == (7086, 0)


def test_coco_captions(shared):
    source = open_source(str(shared / "data" / "coco_captions_val2017"))
    splits, texts = count(source)
    assert splits.total() == 4921
    assert texts == {5, 6, 7}
    assert abs(splits["train"] / 4921 - 0.9) < 0.02


def test_caltech_labels_as_texts(shared):
    source = open_source(f"{shared / 'data' / 'caltech100'},text=name")
    scene = next(source.scenes("val"))
    assert scene.texts == ("accordion",)
    assert min(source.open_image(scene).size) <= 224
