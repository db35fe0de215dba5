"""JSONL and CSV: both forms of rows, splits, names of columns, and a round trip."""

import csv
import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coview.data.readers import open_source
from coview.data.scenes import HASH_SPLIT_NOTE, Scene, split_by_hash
from coview.errors import InputError

ids = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=8)
# Anything but NUL and halves of surrogate pairs; readers strip the ends.
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30).filter(
    lambda text: text.strip() == text and text
)
splits = st.sampled_from(["train", "val", "test", "reserved"])


@st.composite
def some_scenes(draw) -> list[Scene]:
    names = draw(st.lists(ids, unique=True, min_size=1, max_size=6))
    return [
        Scene(name, tuple(draw(st.lists(texts, min_size=1, max_size=4))), f"{name}.jpg", draw(splits))
        for name in names
    ]


@given(scenes=some_scenes())
def test_jsonl_of_scenes_round_trip(scenes, tmp_path_factory):
    path = tmp_path_factory.mktemp("jsonl") / "a.jsonl"
    rows = [{"id": s.id, "texts": s.texts, "image": s.image, "split": s.split} for s in scenes]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    assert list(open_source(str(path)).scenes()) == scenes


@given(scenes=some_scenes(), packed=st.booleans())
def test_jsonl_of_texts_round_trip(scenes, packed, tmp_path_factory):
    path = tmp_path_factory.mktemp("jsonl") / ("a.jsonl.gz" if packed else "a.jsonl")
    rows = [
        {"scene": s.id, "text": text, "image": s.image, "split": s.split} for s in scenes for text in s.texts
    ]
    data = "".join(json.dumps(row) + "\r\n" for row in rows).encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    assert list(open_source(str(path)).scenes()) == scenes


@given(scenes=some_scenes(), delimiter=st.sampled_from(",;\t"), line_end=st.sampled_from(["\n", "\r\n"]))
def test_csv_round_trip(scenes, delimiter, line_end, tmp_path_factory):
    # Python's writer leaves a lone carriage return unquoted, which no reader can tell from a line's end.
    scenes = [replace(s, texts=tuple(text.replace("\r", " ") for text in s.texts)) for s in scenes]
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    with path.open("w", encoding="utf-8-sig", newline="") as stream:
        writer = csv.writer(stream, delimiter=delimiter, lineterminator=line_end)
        writer.writerow(["scene", "image", "caption", "split"])
        writer.writerows([s.id, s.image, text, s.split] for s in scenes for text in s.texts)
    assert list(open_source(str(path)).scenes()) == scenes


def scenes_of(tmp_path: Path, name: str, content: str, options: str = "") -> list[Scene]:
    (tmp_path / name).write_text(content, encoding="utf-8")
    return list(open_source(str(tmp_path / name) + options).scenes())


def test_rows_of_one_scene_need_not_be_neighbours(tmp_path):
    scenes = scenes_of(tmp_path, "a.csv", "image,caption,split\na.jpg,1,train\nb.jpg,2,dev\na.jpg,3,train\n")
    assert scenes == [Scene("a.jpg", ("1", "3"), "a.jpg", "train"), Scene("b.jpg", ("2",), "b.jpg", "val")]
    assert [scene.where.rpartition("/")[2] for scene in scenes] == ["a.csv row 2", "a.csv row 3"]


def test_kaggles_pipe_form(tmp_path):
    content = 'image_name| comment_number| comment\na.jpg| 0| A "red" ball, here .\na.jpg| 1| The ball .\n'
    assert [scene.texts for scene in scenes_of(tmp_path, "results.csv", content)] == [
        ('A "red" ball, here .', "The ball .")
    ]


def test_a_txt_with_a_header_is_a_table(tmp_path):
    content = 'image,caption\na.jpg,"A ball, red ."\na.jpg,The ball .\n'
    assert [scene.texts for scene in scenes_of(tmp_path, "captions.txt", content)] == [
        ("A ball, red .", "The ball .")
    ]


def test_a_cell_of_several_lines_keeps_the_rows_right(tmp_path):
    (tmp_path / "a.csv").write_text('id,text\n1,"two\nlines"\n2,\n')
    with pytest.raises(InputError, match=r"a\.csv row 4: the text is empty"):
        list(open_source(str(tmp_path / "a.csv")).scenes())


@pytest.mark.parametrize(
    ("word", "split"),
    [("train", "train"), ("restval", "train"), ("dev", "val"), ("Validation", "val"), ("test_2016", "test")],
)
def test_words_for_splits(word, split, tmp_path):
    content = json.dumps({"id": "a", "texts": ["x"], "split": word})
    assert [scene.split for scene in scenes_of(tmp_path, "a.jsonl", content)] == [split]


def test_options_name_columns(tmp_path):
    content = "".join(
        json.dumps({"key": i // 2, "de": f"Ball {i}", "file": f"{i // 2}.png", "part": "dev"}) + "\n"
        for i in range(4)
    )
    scenes = scenes_of(tmp_path, "a.jsonl", content, ",scene=key,text=de,image=file,split=part")
    assert scenes[1] == Scene("1", ("Ball 2", "Ball 3"), "1.png", "val")


def test_a_comma_in_a_path_begins_no_option(tmp_path):
    (tmp_path / "a,b=c").mkdir()
    assert (
        scenes_of(tmp_path, "a,b=c/d,e.csv", "image,sentence\na.jpg,x\n", ",text=sentence")[0].id == "a.jpg"
    )


def test_without_registered_splits_the_id_decides(tmp_path):
    rows = [json.dumps({"id": f"scene {i}", "texts": ["a", "b"]}) + "\n" for i in range(4000)]
    (tmp_path / "a.jsonl").write_text("".join(rows))
    source = open_source(str(tmp_path / "a.jsonl"))
    assert source.split_note == HASH_SPLIT_NOTE
    counts = {split: len(list(source.scenes(split))) for split in ("train", "val", "test", "reserved")}
    assert sum(counts.values()) == 4000
    assert abs(counts["train"] - 3600) < 80  # four standard deviations of a binomial count
    assert abs(counts["val"] - 200) < 60
    assert counts["reserved"] == 0
    (tmp_path / "a.jsonl").write_text("".join(reversed(rows[:100])))
    assert all(scene.split == split_by_hash(scene.id) for scene in source.scenes())


def test_whole_scenes_stream(tmp_path):
    """A broken row is met only when the reading gets there."""
    row = json.dumps({"id": "a", "texts": ["x"], "split": "train"})
    (tmp_path / "a.jsonl").write_text(row + "\nbroken\n")
    scenes = open_source(str(tmp_path / "a.jsonl")).scenes()
    assert next(scenes).id == "a"
    with pytest.raises(InputError, match="row 2"):
        next(scenes)


def test_a_collector_hears_of_bad_rows_and_gets_the_rest(tmp_path):
    rows = [
        '{"id": "a", "texts": ["x"]}',
        "broken",
        '{"id": "b", "texts": []}',
        '{"id": "c", "texts": ["y"]}',
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    problems: list[InputError] = []
    source = open_source(str(tmp_path / "a.jsonl"), on_problem=problems.append)
    assert [scene.id for scene in source.scenes()] == ["a", "c"]
    assert [problem.where.rpartition(" ")[2] for problem in problems] == ["2", "3"]


def test_texts_are_kept_as_they_are_but_for_their_ends(tmp_path):
    content = json.dumps({"id": 7, "texts": ["  Ein  Ball\u2028rot ", "x\ty"]}, ensure_ascii=False)
    assert scenes_of(tmp_path, "a.jsonl", content)[0] == Scene(
        "7", ("Ein  Ball\u2028rot", "x\ty"), None, split_by_hash("7")
    )
