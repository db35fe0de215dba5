"""The reader of `minhuh/prh`, on small data of the same schema."""

import io
import sys

import numpy as np
import pytest
from PIL import Image

from coview.data.prh import PrhSource, open_prh
from coview.errors import InputError, MissingError, UsageError

TEXTS = [["a red cube", "a page", "a section"], ["a ball", "", "sections"], ["two balls", "pages", None]]
PIXELS = np.random.default_rng(0).integers(0, 256, (3, 8, 9, 3), dtype=np.uint8)


def png(index: int) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(PIXELS[index]).save(stream, "PNG")
    return stream.getvalue()


def check(source, kept):
    scenes = list(source.scenes())
    assert [scene.texts for scene in scenes] == kept
    assert [scene.id for scene in scenes] == ["00000", "00001", "00002"]
    assert {scene.split for scene in scenes} == {"test"}
    assert list(source.scenes("test")) == scenes
    assert not list(source.scenes("train"))
    for scene, pixels in zip(scenes, PIXELS, strict=True):
        np.testing.assert_array_equal(np.asarray(source.open_image(scene)), pixels)
        assert source.image_size(scene) == (9, 8)


CAPTIONS = [("a red cube",), ("a ball",), ("two balls",)]
ALL = [("a red cube", "a page", "a section"), ("a ball", "sections"), ("two balls", "pages")]


def test_captions_alone_or_all_texts():
    check(PrhSource("prh:", TEXTS, png), CAPTIONS)
    check(PrhSource("prh:", TEXTS, png, "all"), ALL)


def test_broken_rows_are_named():
    with pytest.raises(InputError, match="prh: row 1: the row has no caption"):
        list(PrhSource("prh:", [["one"], ["", "page"]], png).scenes())
    source = PrhSource("prh:", TEXTS, lambda index: png(index)[:40])
    with pytest.raises(InputError, match="row 2"):
        source.open_image(list(source.scenes())[2])


def test_options_and_missing_package(monkeypatch):
    with pytest.raises(UsageError, match="no texts 'captions'"):
        open_prh("prh:wit_1024,texts=captions")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingError, match="datasets") as error:
        open_prh("prh:")
    assert "coview[hub]" in error.value.hint


def test_a_copy_of_the_repository(tmp_path):
    datasets = pytest.importorskip("datasets")
    images = [{"bytes": png(index), "path": None} for index in range(3)]
    features = {"text": datasets.List(datasets.Value("string")), "image": datasets.Image()}
    table = datasets.Dataset.from_dict({"text": TEXTS, "image": images}, datasets.Features(features))
    (tmp_path / "data").mkdir()
    table.to_parquet(str(tmp_path / "data" / "train-00000-of-00001.parquet"))
    check(open_prh(f"prh:{tmp_path}"), CAPTIONS)
    check(open_prh(f"prh:{tmp_path},texts=all"), ALL)
    table.remove_columns("image").to_parquet(str(tmp_path / "data" / "train-00000-of-00001.parquet"))
    with pytest.raises(InputError, match="no column 'image'"):
        open_prh(f"prh:{tmp_path}")


def test_the_published_revision_is_asked_for(monkeypatch):
    datasets = pytest.importorskip("datasets")
    asked = []

    def offline(*names, **more):
        asked.append((*names, more["revision"]))
        raise ConnectionError("no hub")

    monkeypatch.setattr(datasets, "load_dataset", offline)
    for src in ("prh:", "prh:wit_4096"):
        with pytest.raises(MissingError, match="no hub"):
            open_prh(src)
    assert asked == [("minhuh/prh", "wit_1024"), ("minhuh/prh", "wit_4096")]
