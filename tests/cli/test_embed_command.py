"""`coview embed` as it is typed."""

import json

import numpy as np
import pytest

from coview.cli.embed import default_path
from coview.embeddings import load_embeddings

SOURCE = "tabletop:scenes=60"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("COVIEW_CACHE", str(tmp_path / "cache"))


def test_a_baseline_of_the_sources_own_words(run_cli, tmp_path):
    code, out, err = run_cli("embed", SOURCE, "--model", "bow:,width=16", "--json")
    assert code == 0, err
    result = json.loads(out)["result"]
    assert (result["rows"], result["width"], result["cached"]) == (30, 16, False)
    assert result["model"] == f"bow:{SOURCE},width=16"
    assert result["path"].startswith(str(tmp_path / "cache"))
    assert load_embeddings(result["path"]).matrix.shape == (30, 16)
    assert "30 of 30" in err
    again = run_cli("embed", SOURCE, "--model", "bow:,width=16")
    assert again[0] == 0
    assert "already there" in again[1]
    assert again[1].splitlines()[-1] == result["path"]


def test_rows_that_are_there_already(run_cli, tmp_path):
    np.save(tmp_path / "rows.npy", np.arange(24.0).reshape(6, 4))
    names = [f"{index:06d}.png" for index in (9, 19, 29, 39, 49, 59)]
    (tmp_path / "names.txt").write_text("\n".join(names))
    out = tmp_path / "rows.safetensors"
    arguments = ("--model", tmp_path / "rows.npy", "--ids", tmp_path / "names.txt", "--out", out)
    code, text, err = run_cli("embed", SOURCE, *arguments)
    assert code == 0, err
    assert "6 images" in text
    assert load_embeddings(out).ids[0] == "tabletop-0-000009"
    code, _, err = run_cli("embed", SOURCE, *arguments, "--layers", "all")
    assert code == 2
    assert "keeps the layers it has" in err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--model", "litte0:"), 2, "Did you mean 'lite0'"),
        (("--model", "bow:", "--ids", "x.txt"), 2, "--ids names the rows of a file"),
        (("--model", "bow:", "--modality", "image"), 2, "encoder of texts"),
        (("--model", "none.npy"), 3, "there is no such file"),
        (("--model", "run:none"), 3, "no such run folder"),
        (("--model", "bow:", "--layers", "block.1"), 2, "no layer 'block.1'"),
        (("--model", "bow:", "--split", "reserved"), 3, "no texts in the split 'reserved'"),
        (("--model", "bow:", "--split", "tst"), 2, "tst"),
        (("--model", "bow:", "--out", "x.npy"), 2, "written as .safetensors"),
        ((), 2, "--model"),
    ],
)
def test_mistakes(run_cli, arguments, code, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found, out, err = run_cli("embed", SOURCE, *arguments, "--quiet")
    assert found == code
    assert message in err
    assert not out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("finished", [0, 1])
def test_an_interrupted_job_says_how_to_go_on(run_cli, monkeypatch, tmp_path, finished):
    from coview.encoders import embed as job
    from coview.encoders.bag_of_words import BagOfWords

    encode, calls = BagOfWords.encode, []

    def interrupted(self, items, layers="last"):
        if len(calls) == finished:
            raise KeyboardInterrupt
        calls.append(1)
        return encode(self, items, layers)

    monkeypatch.setattr(job, "CHUNK", 8)
    monkeypatch.setattr(BagOfWords, "encode", interrupted)
    code, _, err = run_cli("embed", SOURCE, "--model", "bow:", "--out", tmp_path / "a.safetensors")
    assert code == 130
    assert ("same command goes on" in err) == bool(finished)
    assert ("nothing was finished yet" in err) == (not finished)
    assert (tmp_path / "a.safetensors.part").exists() == bool(finished)
    assert (f"kept in {tmp_path / 'a.safetensors.part'}." in err) == bool(finished)


def test_the_default_place_is_the_same_for_the_same_command():
    one = default_path("tabletop:", "lite0:", "test", "last", None)
    assert one == default_path("tabletop:", "lite0:", "test", "last", None)
    others = {
        default_path("tabletop:seed=1", "lite0:", "test", "last", None),
        default_path("tabletop:", "lite2:", "test", "last", None),
        default_path("tabletop:", "lite0:", "val", "last", None),
        default_path("tabletop:", "lite0:", "test", "all", None),
    }
    assert len(others | {one}) == 5
    assert one.suffix == ".safetensors"
    assert len(default_path("/a/b" * 100, "hf:" + "x" * 300, "test", "last", "text").name) < 110
