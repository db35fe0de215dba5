"""`coview data` as people meet it."""

import json


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
