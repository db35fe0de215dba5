"""Parallel caption files in Multi30k's layout, and plain text."""

import gzip
from pathlib import Path

import pytest

from coview.data.readers import open_source
from coview.data.scenes import HASH_SPLIT_NOTE, Scene
from coview.errors import InputError


@pytest.fixture
def captions(tmp_path: Path) -> Path:
    """Three training scenes, one of them reserved, and one test scene, in two languages of two slots."""
    files = {
        "train.1.en.gz": "a red ball\na cube\na cone\n",
        "train.2.en.gz": "a ball\nthe cube\nthe cone\n",
        "train.1.de.gz": "ein roter Ball\nein Würfel\nein Kegel\n",
        "train.2.de.gz": "ein Ball\nder Würfel\nder Kegel\n",
        "test_2016.1.en": "a ring\n",
        "test_2016.2.en": "the ring\n",
        "test_2016.1.de": "ein Ring\n",
        "test_2016.2.de": "der Ring\n",
        "train_images.txt": "ball.jpg\ncube.jpg\ncone.jpg\n",
        "test_2016_images.txt": "ring.jpg\n",
        "reserved_train_rows.tsv": "row\timage\n1\tcube.jpg\n",
        "README.md": "not captions",
    }
    for name, content in files.items():
        data = content.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return tmp_path


def test_lines_of_the_same_number_are_one_scene(captions):
    source = open_source(f"{captions},lang=en")
    assert list(source.scenes()) == [
        Scene("ball.jpg", ("a red ball", "a ball"), "ball.jpg", "train"),
        Scene("cube.jpg", ("a cube", "the cube"), "cube.jpg", "reserved"),
        Scene("cone.jpg", ("a cone", "the cone"), "cone.jpg", "train"),
        Scene("ring.jpg", ("a ring", "the ring"), "ring.jpg", "test"),
    ]
    assert source.split_note == ""
    assert next(source.scenes("test")).where == str(captions / "test_2016.1.en") + " row 1"


def test_reserved_scenes_are_never_trained_on(captions):
    source = open_source(f"{captions},lang=en")
    assert [scene.id for scene in source.scenes("train")] == ["ball.jpg", "cone.jpg"]
    assert [scene.id for scene in source.scenes("reserved")] == ["cube.jpg"]


def test_several_languages_describe_one_scene(captions):
    scene = next(open_source(f"{captions},lang=de+en").scenes())
    assert scene.texts == ("ein roter Ball", "ein Ball", "a red ball", "a ball")


def test_a_split_is_read_without_touching_the_others(captions):
    (captions / "train.1.en.gz").write_bytes(b"broken")
    assert [scene.id for scene in open_source(f"{captions},lang=en").scenes("test")] == ["ring.jpg"]


def test_slots_are_ordered_by_number_and_ids_by_row_without_images(tmp_path):
    for slot in (1, 2, 10):
        (tmp_path / f"captions.{slot}.fr").write_text(f"{slot}a\n{slot}b\n")
    source = open_source(str(tmp_path))
    assert [(scene.id, scene.texts) for scene in source.scenes()] == [
        ("captions/1", ("1a", "2a", "10a")),
        ("captions/2", ("1b", "2b", "10b")),
    ]
    assert source.split_note == HASH_SPLIT_NOTE


def test_a_list_of_reserved_rows_is_read_strictly_even_by_a_collector(captions):
    (captions / "reserved_train_rows.tsv").write_text("row\timage\none\tcube.jpg\n")
    problems: list[InputError] = []
    source = open_source(f"{captions},lang=en", on_problem=problems.append)
    with pytest.raises(InputError, match=r"reserved_train_rows\.tsv row 2"):
        list(source.scenes("train"))


def test_plain_text(tmp_path):
    (tmp_path / "a.txt").write_bytes(
        "\ufeff\r\n a red ball\r\nthe ball\u2028here\r\n\r\n \t\r\na cube".encode()
    )
    source = open_source(str(tmp_path / "a.txt"))
    scenes = list(source.scenes())
    assert [(scene.id, scene.texts) for scene in scenes] == [
        ("1", ("a red ball", "the ball\u2028here")),
        ("2", ("a cube",)),
    ]
    assert [scene.where for scene in scenes] == [f"{tmp_path}/a.txt row 2", f"{tmp_path}/a.txt row 6"]
    assert source.split_note == HASH_SPLIT_NOTE
