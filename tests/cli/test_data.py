"""`coview data` as people meet it."""

import json
import zipfile

from PIL import Image


def test_check_prints_what_is_there(tmp_path, run_cli):
    table = "scene,text,split\n1,a red ball,train\n1,the ball,train\n2,A red  ball,test\n"
    (tmp_path / "a.csv").write_text(table)
    code, out, err = run_cli("data", "check", tmp_path / "a.csv")
    assert code == 0
    assert "2 scenes, 3 texts" in out
    assert "train 1, test 1" in out
    assert "1 stand in train and test" in out
    assert "1 scenes have one text; --views good needs two" in out
    assert err == f"next: coview train {tmp_path / 'a.csv'} --views good\n"


def test_check_says_when_splits_are_its_own(tmp_path, run_cli):
    (tmp_path / "a.txt").write_text("a ball\nthe ball\n\na cube\nthe cube\n")
    _, out, _ = run_cli("data", "check", tmp_path / "a.txt")
    assert "by a hash of their ids" in out


def test_check_as_json(tmp_path, run_cli):
    (tmp_path / "a.txt").write_text("a ball\nthe ball\n\na cube\n")
    code, out, err = run_cli("data", "check", tmp_path / "a.txt", "--json")
    document = json.loads(out)
    assert (code, err, document["schema"], document["ok"]) == (0, "", "coview.data.check/1", True)
    assert {
        "scenes",
        "texts",
        "texts_per_scene",
        "words_per_text",
        "splits",
        "duplicates",
        "images",
        "problems",
    } <= document["result"].keys()
    assert document["result"]["texts"] == 3


def test_check_reports_what_is_whole_beside_what_is_broken(tmp_path, run_cli):
    (tmp_path / "a.jsonl").write_text('{"id": 1, "texts": ["x", "y"]}\n{"id": 2}\n')
    code, out, _ = run_cli("data", "check", tmp_path / "a.jsonl", "--json")
    document = json.loads(out)
    assert code == 3
    assert document["result"]["scenes"] == 1
    assert document["result"]["problems"]["count"] == 1
    assert document["error"]["where"].endswith("a.jsonl row 2")


def test_a_path_is_quoted_and_small_splits_are_said(tmp_path, run_cli):
    folder = tmp_path / "ü photos mit leer"
    folder.mkdir()
    (folder / "captions.csv").write_text("image,caption\n" + "".join(f"{n}.jpg,a\n" for n in range(50)))
    code, out, err = run_cli("data", "check", folder)
    assert code == 0
    assert f"next: coview train '{folder}' --views bad\n" == err
    assert "scenes: a study needs 30 of each; add a split column or more scenes." in out
    (folder / "captions.csv").write_text(
        "scene,text,split\n" + "".join(f"{n},a,{('val', 'test')[n % 2]}\n" for n in range(60))
    )
    assert "a study needs" not in run_cli("data", "check", folder)[1]


def test_what_is_broken_is_said_once_and_nothing_false_is_counted(tmp_path, run_cli):
    (tmp_path / "a.csv").write_bytes(b"image,caption\na.jpg,x\nb.jpg,caf\xe9\n")
    code, out, err = run_cli("data", "check", tmp_path / "a.csv")
    assert (code, "nothing was counted" in out, "0 scenes" in out) == (3, True, False)
    assert (err.count("0xe9"), out.count("0xe9")) == (1, 0)
    (tmp_path / "a.jsonl").write_bytes(b'{"id": 1, "texts": ["x"]}\n{"id": 2, "texts": ["\xe9"]}\n')
    _, out, _ = run_cli("data", "check", tmp_path / "a.jsonl")
    assert "1 scenes, 1 texts, read up to what is broken" in out
    assert "blank line" not in out


def test_a_single_scene_is_doubted_in_the_words_of_its_format(tmp_path, run_cli):
    (tmp_path / "a.txt").write_text("a ball\nthe ball\n")
    (tmp_path / "a.csv").write_text("scene,text\n1,a ball\n1,the ball\n")
    assert "a blank line begins the next" in run_cli("data", "check", tmp_path / "a.txt")[1]
    out = run_cli("data", "check", tmp_path / "a.csv")[1]
    assert ("blank line" in out, "the column of scenes" in out) == (False, True)


def test_unsafe_names_in_an_archive_are_counted(tmp_path, run_cli):
    for table, rows in (
        ("captions.txt", "a ball\n\na cube\n"),
        ("captions.csv", "image,caption\nup.jpg,x\n"),
    ):
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
            for name in (table, "../../up.jpg", "/root.jpg"):
                archive.writestr(name, rows)
        code, out, _ = run_cli("data", "check", tmp_path / "a.zip")
        assert code == 0
        assert "note: 2 entries of the archive were left out" in out
    result = json.loads(run_cli("data", "check", tmp_path / "a.zip", "--json")[1])["result"]
    assert result["unsafe_names"] == 2


def test_an_image_outside_is_refused_alike_by_check_and_embed(tmp_path, run_cli):
    (tmp_path / "v").mkdir()
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "photos" / "a.png")
    row = {"id": "a", "texts": ["x", "y"], "image": "../photos/a.png", "split": "test"}
    (tmp_path / "v" / "b.jsonl").write_text(json.dumps(row))
    source = f"{tmp_path / 'v' / 'b.jsonl'},images={tmp_path / 'v'}"
    here = f"say where images are: {tmp_path / 'v' / 'b.jsonl'},images={tmp_path / 'photos'}\n"
    out = tmp_path / "x.safetensors"
    for command in (("data", "check", source), ("embed", source, "--model", "lite2:", "--out", out)):
        code, _, err = run_cli(*command)
        assert (code, "leaves its folder: absolute paths and '..' are never followed" in err) == (3, True)
        assert err.endswith(here)


def test_make_then_check(tmp_path, run_cli):
    out_dir = tmp_path / "world"
    code, out, err = run_cli("data", "make", "tabletop:scenes=12,seed=3", out_dir)
    assert code == 0
    assert "12 scenes" in out
    assert f"next: coview data check {out_dir}" in err
    code, out, _ = run_cli("data", "check", out_dir, "--images")
    assert code == 0
    assert "12 scenes, 60 texts" in out
    assert "12 decoded, 0 missing, 0 broken" in out

    code, _, err = run_cli("data", "make", "tabletop:scenes=12", out_dir)
    assert (code, "Traceback" in err) == (3, False)


def test_make_gives_the_scenes_of_its_source(tmp_path, run_cli):
    from coview.data.readers import open_source

    run_cli("data", "make", "tabletop:scenes=4", tmp_path / "world")
    made, folder = open_source("tabletop:scenes=4"), open_source(str(tmp_path / "world"))
    for one, other in zip(made.scenes(), folder.scenes(), strict=True):
        assert (one.id, one.texts, one.split) == (other.id, other.texts, other.split)
        assert made.open_image(one).tobytes() == folder.open_image(other).tobytes()


def test_make_makes_worlds_only(tmp_path, run_cli):
    code, _, err = run_cli("data", "make", tmp_path / "a.csv", tmp_path / "out")
    assert code == 2
    assert "tabletop:" in err
    assert not (tmp_path / "out").exists()
