"""The world as a folder: complete, true to its source, whole or not at all."""

import errno
import json

import numpy as np
import pytest
from PIL import Image

from coview.errors import InputError, ResourceError, UsageError
from coview.tabletop import TabletopSource, make_scene, paint, write_tabletop

SOURCE = TabletopSource(seed=1, scenes=12, texts=3)


def test_the_folder_holds_what_the_source_says(tmp_path):
    assert write_tabletop(SOURCE, tmp_path / "deep" / "world") == 12
    rows = [
        json.loads(line) for line in (tmp_path / "deep" / "world" / "scenes.jsonl").open(encoding="utf-8")
    ]
    assert len(rows) == 12
    for index, (row, scene) in enumerate(zip(rows, SOURCE.scenes(), strict=True)):
        assert (row["id"], tuple(row["texts"]), row["split"]) == (scene.id, scene.texts, scene.split)
        assert row["image"] == f"images/{index:06d}.png"
        assert row["attributes"]["place"] == make_scene(1, index).place
        image = Image.open(tmp_path / "deep" / "world" / row["image"])
        assert np.array_equal(np.asarray(image), paint(make_scene(1, index), 0))
    assert not [path for path in (tmp_path / "deep").iterdir() if path.name != "world"]


def test_an_empty_folder_is_filled_and_a_full_one_refused(tmp_path):
    (tmp_path / "world").mkdir()
    write_tabletop(SOURCE, tmp_path / "world")
    before = (tmp_path / "world" / "scenes.jsonl").read_bytes()
    with pytest.raises(InputError, match="new or empty folder"):
        write_tabletop(SOURCE, tmp_path / "world")
    with pytest.raises(InputError, match="new or empty folder"):
        write_tabletop(SOURCE, tmp_path / "world" / "scenes.jsonl")
    assert (tmp_path / "world" / "scenes.jsonl").read_bytes() == before


def test_a_folder_inside_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file: it is a file, and world needs a folder"):
        write_tabletop(SOURCE, tmp_path / "file" / "world")


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    def fail_at_the_fifth(index, draw):
        if index == 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        return paint(make_scene(1, index), draw)

    source = TabletopSource(seed=1, scenes=12)
    monkeypatch.setattr(source, "paintings", fail_at_the_fifth)
    with pytest.raises(ResourceError, match="disk is full"):
        write_tabletop(source, tmp_path / "world")
    assert not list(tmp_path.iterdir())


def test_progress_goes_to_stderr(tmp_path, monkeypatch, capsys):
    blank = np.zeros((64, 64, 3), np.uint8)
    source = TabletopSource(scenes=1000, texts=1)
    monkeypatch.setattr(source, "paintings", lambda index, draw: blank)
    write_tabletop(source, tmp_path / "world")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "1,000 of 1,000 scenes" in captured.err
