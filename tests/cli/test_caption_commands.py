"""Captions as they are typed: train, write with and without photos, and what is refused."""

import json
import re

import numpy as np
import pytest
from PIL import Image

from coview.cli import run
from coview.embeddings import Embeddings, load_embeddings, save_embeddings
from coview.encoders import Encoder

TINY = "--size xs --steps 3 --batch 8 --warmup 1 --precision fp32"
SOURCE = "tabletop:scenes=20,texts=2"
NAMES = tuple(f"tabletop-0-{index:06d}" for index in range(20))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A text encoder of twenty scenes, a captioner, rows of images and a rotation, made as one types it."""
    folder = tmp_path_factory.mktemp("captions")
    rng = np.random.default_rng(0)
    images = Embeddings(rng.standard_normal((20, 5)).astype(np.float32), NAMES, NAMES)
    save_embeddings(folder / "images.safetensors", images)
    commands = (
        f"train {SOURCE} --out TEXT --size xs --steps 2 --batch 8 --views-per-scene 2 --output 8 --slices 8 "
        "--vocabulary 300 --quiet",
        f"caption train {SOURCE} --run TEXT --out CAPTIONER {TINY} --quiet",
        f"embed {SOURCE} --model run:TEXT --split all --out TEXTS.safetensors --quiet",
        "rotate fit images.safetensors TEXTS.safetensors --method procrustes --holdout 4 "
        "--out ROTATION.safetensors",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COVIEW_CACHE", str(folder / "cache"))
        for command in commands:
            run(command.split())
    return folder


@pytest.fixture
def here(folder, monkeypatch):
    """The folder with everything in it, and in it."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COVIEW_CACHE", str(folder / "cache"))
    return folder


ROTATED = ("--run", "CAPTIONER", "--rotation", "ROTATION.safetensors", "--quiet")


def test_rows_of_images_become_captions_beside_baselines(here, tmp_path, run_cli):
    lines = [json.dumps({"id": name, "captions": ["a red ring", "the red ring rests"]}) for name in NAMES]
    (tmp_path / "refs.jsonl").write_text("\n".join(lines) + "\n")
    out = tmp_path / "c.jsonl"
    code, printed, err = run_cli(
        "caption", "write", "images.safetensors", *ROTATED, "--memory", "0.05", "--rerank", "TEXT",
        "--num-captions", "2", "--refs", tmp_path / "refs.jsonl", "--out", out, "--json",
    )  # fmt: skip
    assert code == 0, err
    assert list(json.loads(printed)["result"]["scores"]) == [
        "decoder", "nearest training caption", "most central caption", "captions of other images"
    ]  # fmt: skip
    written = [json.loads(line) for line in out.read_text().splitlines()]
    assert [one["id"] for one in written] == list(NAMES)
    assert all(one["caption"] == one["captions"][0] != one["captions"][1] for one in written)
    code, _, err = run_cli("caption", "score", out, tmp_path / "refs.jsonl", "--json")
    assert code == 0, err


def test_every_score_of_the_table_has_its_interval(here, tmp_path, run_cli):
    lines = [json.dumps({"id": name, "captions": ["a red ring"]}) for name in NAMES]
    (tmp_path / "refs.jsonl").write_text("\n".join(lines) + "\n")
    command = ("caption", "write", "images.safetensors", *ROTATED, "--out", tmp_path / "c.jsonl")
    code, printed, err = run_cli(*command, "--refs", tmp_path / "refs.jsonl")
    assert code == 0, err
    scores = r" +(\d\.\d{3}) \[(\d\.\d{3}), (\d\.\d{3})\]"
    for name in ("decoder", "nearest training caption", "captions of other images"):
        (found,) = re.findall(f"^{name}{3 * scores}$", printed, re.MULTILINE)
        for value, low, high in zip(found[::3], found[1::3], found[2::3], strict=True):
            assert float(low) <= float(value) <= float(high)


def test_scores_of_scenes_seen_in_training_say_so(here, tmp_path, run_cli):
    """Of twenty scenes the decoder read some and the rotation was fitted on sixteen; scene 21 is new."""
    images = load_embeddings("images.safetensors")
    names = (NAMES[0], "new")
    save_embeddings(tmp_path / "two.safetensors", Embeddings(images.matrix[:2], names, names))
    save_embeddings(tmp_path / "new.safetensors", Embeddings(images.matrix[1:2], names[1:], names[1:]))
    lines = [json.dumps({"id": name, "captions": ["a red ring"]}) for name in names]
    (tmp_path / "refs.jsonl").write_text("\n".join(lines) + "\n")
    more = ("--refs", tmp_path / "refs.jsonl", "--out", tmp_path / "c.jsonl", "--json")
    for file, seen in (("two", ["1 of 2 scenes were seen in training"]), ("new", [])):
        code, printed, err = run_cli("caption", "write", tmp_path / f"{file}.safetensors", *ROTATED, *more)
        assert code == 0, err
        warnings = [one for one in json.loads(printed)["result"]["warnings"] if "seen in training" in one]
        assert [one.split(",")[0] for one in warnings] == seen
        assert all(one in err for one in warnings)


def test_an_image_without_references_is_named_and_nothing_written(here, tmp_path, run_cli):
    refs, out = tmp_path / "refs.jsonl", tmp_path / "c.jsonl"
    refs.write_text(json.dumps({"id": NAMES[1], "captions": ["a red ring"]}) + "\n")
    code, _, err = run_cli("caption", "write", "images.safetensors", *ROTATED, "--refs", refs, "--out", out)
    assert code == 3
    assert f"{NAMES[0]!r} and 18 more have no references" in err
    assert not out.exists()


class Colours(Encoder):
    """Five numbers of an image."""

    name, modality, width, fingerprint = "colours:", "image", 5, "c"

    def encode(self, items, layers="last"):
        return np.array([[*np.asarray(image).mean((0, 1)), 1, 2] for image in items], np.float32) / 99


def test_photos_become_captions_and_a_sheet(here, tmp_path, run_cli, monkeypatch):
    monkeypatch.setattr("coview.encoders.load_encoder", lambda *_, **__: Colours())
    photos, out, sheet = tmp_path / "photos", tmp_path / "c.jsonl", tmp_path / "sheet.png"
    photos.mkdir()
    for number in range(3):
        Image.new("RGB", (8, 8), (90 * number, 9, 9)).save(photos / f"{number}.png")
    command = ("caption", "write", photos, *ROTATED, "--out", out, "--sheet", sheet)
    code, _, err = run_cli(*command)
    assert (code, "--model: photos need an encoder" in err) == (2, True)
    code, _, err = run_cli(
        "caption", "write", photos, "--run", "CAPTIONER", "--model", "colours:", "--out", out
    )
    assert (code, "--rotation: photos need a rotation" in err) == (2, True)
    assert not out.exists()
    code, _, err = run_cli(*command, "--model", "colours:")
    assert code == 0, err
    assert len(out.read_text().splitlines()) == 3
    with Image.open(sheet) as drawn:
        assert drawn.width > 3 * 200


def test_nucleus_from_embeddings_of_texts(here, tmp_path, run_cli):
    out = tmp_path / "c.jsonl"
    code, printed, err = run_cli(
        "caption", "write", "TEXTS.safetensors", "--run", "CAPTIONER", "--nucleus", "0.9", "--out", out
    )
    assert code == 0, err
    assert len(out.read_text().splitlines()) == 40
    assert printed.splitlines()[-1] == str(out)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--num-captions", "0"), "--num-captions: must be at least 1"),
        (("--nucleus", "2"), "--nucleus"),
        (("--memory", "0"), "--memory: must be a positive number, not 0"),
        (("--memory", "-1"), "--memory"),
        (("--sheet", "s.png"), "--sheet: a file of embeddings has no photos to show. Leave it out"),
    ],
)
def test_what_makes_no_sense_is_refused(here, tmp_path, run_cli, more, message):
    out = tmp_path / "c.jsonl"
    code, _, err = run_cli("caption", "write", "images.safetensors", *ROTATED, "--out", out, *more)
    assert code == 2
    assert message in err
    assert not out.exists()


def test_mapped_rows_are_written_from_without_the_rotation(here, tmp_path, run_cli):
    moved = tmp_path / "moved.safetensors"
    code, _, err = run_cli("rotate", "apply", "ROTATION.safetensors", "images.safetensors", "--out", moved)
    assert code == 0, err
    outs = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    code, _, err = run_cli("caption", "write", moved, *ROTATED, "--out", outs[0])
    assert (code, f"{moved}: these rows are mapped already" in err) == (3, True)
    assert "Leave out --rotation" in err
    code, _, err = run_cli("caption", "write", moved, "--run", "CAPTIONER", "--quiet", "--out", outs[0])
    assert code == 0, err
    code, _, err = run_cli("caption", "write", "images.safetensors", *ROTATED, "--out", outs[1])
    assert outs[0].read_text() == outs[1].read_text()


def test_the_run_of_a_text_encoder_is_no_captioner(here, tmp_path, run_cli):
    code, _, err = run_cli("caption", "write", "TEXTS.safetensors", "--run", "TEXT", "--out", tmp_path / "c")
    assert code == 3
    assert "TEXT: this is the run of an encoder of texts, and no captioner. coview caption train" in err


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (("--run", "none"), 3, "none: there is no such run folder."),
        (("--run", "TEXT", "--size", "huge"), 2, "--size: unknown size 'huge'"),
        (("--run", "TEXT", "--device", "cuda:99"), 4, "--device"),
        (("--run", "CAPTIONER"), 3, "not a text encoder"),
    ],
)
def test_a_start_that_fails_leaves_nothing(here, tmp_path, run_cli, more, code, message):
    out = tmp_path / "new"
    found, _, err = run_cli("caption", "train", SOURCE, "--out", out, "--quiet", *more)
    assert (found, message in err) == (code, True), err
    assert not out.exists()


def test_texts_that_are_not_for_training_leave_nothing(here, tmp_path, run_cli):
    source, out = tmp_path / "held-out.jsonl", tmp_path / "new"
    source.write_text('{"id": "a", "texts": ["one", "two"], "split": "test"}\n')
    code, _, err = run_cli("caption", "train", source, "--run", "TEXT", "--out", out, "--quiet")
    assert (code, "the train split has no texts" in err) == (3, True), err
    assert not out.exists()


def test_a_finished_run_is_left_alone_and_another_folder_refused(here, run_cli):
    same = ("caption", "train", SOURCE, "--run", "TEXT", "--out", "CAPTIONER", *TINY.split(), "--quiet")
    code, out, _ = run_cli(*same, "--resume")
    assert (code, "finished already" in out) == (0, True)
    code, _, err = run_cli(*same)
    assert (code, "--resume" in err) == (2, True)
