"""`coview align` as it is typed."""

import json

import numpy as np
import pytest

from coview.alignment.signature import parse_signature
from coview.embeddings import Embeddings, save_embeddings


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    latent = rng.standard_normal((60, 8))
    ids = tuple(f"scene {number:02}" for number in range(60))
    for name, width in (("a", 24), ("b", 16), ("noise", 8)):
        rows = latent @ rng.standard_normal((8, width)) + 0.5 * rng.standard_normal((60, width))
        rows = rng.standard_normal((60, width)) if name == "noise" else rows
        save_embeddings(tmp_path / f"{name}.safetensors", Embeddings(rows.astype(np.float32), ids))
    stack = np.stack([rng.standard_normal((60, 16)), latent @ rng.standard_normal((8, 16))], axis=1)
    save_embeddings(tmp_path / "stack.safetensors", Embeddings(stack.astype(np.float32), ids))
    captions = np.repeat(latent, 3, axis=0) + rng.standard_normal((180, 8))
    save_embeddings(
        tmp_path / "captions.safetensors",
        Embeddings(captions, tuple(f"caption {i}" for i in range(180)), tuple(np.repeat(ids, 3))),
    )
    return lambda name: str(tmp_path / f"{name}.safetensors")


def result_of(outcome):
    code, out, err = outcome
    assert code == 0, err
    document = json.loads(out)
    assert document["schema"] == "coview.align/1"
    assert document["ok"]
    return document["result"]


def test_json_has_score_chance_error_p_and_signature(run_cli, files):
    result = result_of(run_cli("align", files("a"), files("b"), "--k", "5", "--json"))
    assert 0.2 < result["score"] < 1
    assert result["chance"] == pytest.approx(5 / 59)
    assert 0 < result["stderr"] < 0.1
    assert result["p"] == pytest.approx(1 / 1001)
    assert parse_signature(result["signature"])["k"] == "5"
    assert set(result["recipes"]) == {"center", "prh"}
    assert {"max_in_degree", "tie_share", "mean_cosine", "participation_ratio"} <= set(
        result["diagnostics"]["a"]
    )


def test_words_say_when_the_null_stands(run_cli, files):
    code, out, _ = run_cli("align", files("a"), files("noise"), "--permutations", "99")
    assert code == 0
    assert "Not distinguishable from chance" in out
    assert "prepared by prh instead" in out
    assert "±" in out


@pytest.mark.parametrize("metric", ["mutual_knn", "cka", "unbiased_cka", "cknna", "rsa", "procrustes"])
@pytest.mark.parametrize("recipe", ["raw", "prh", "center"])
def test_every_metric_under_every_recipe(run_cli, files, metric, recipe):
    options = ("--metric", metric, "--recipe", recipe, "--permutations", "20", "--splits", "5", "--json")
    result = result_of(run_cli("align", files("a"), files("b"), *options))
    assert result["metric"] == metric
    assert result["recipe"] == recipe
    assert result["score"] > result["chance"]


def test_layers_are_searched_and_drawn(run_cli, files, tmp_path):
    out = tmp_path / "out"
    result = result_of(run_cli("align", files("stack"), files("b"), "--out", out, "--json"))
    assert result["layers"] == [1, 0]
    assert np.array(result["matrix"]).shape == (2, 1)
    assert result["cross_fitted"] > result["matrix"][0][0]
    written = {path.name for path in out.iterdir()}
    assert written == {"align.json", "layers.csv", "layers.svg", "layers.png"}
    assert json.loads((out / "align.json").read_text())["result"] == result


def test_captions_like_prh(run_cli, files):
    mean = result_of(run_cli("align", files("captions"), files("b"), "--json"))
    prh = result_of(run_cli("align", files("captions"), files("b"), "--like", "prh", "--json"))
    assert parse_signature(mean["signature"])["captions"] == "mean"
    parts = parse_signature(prh["signature"])
    assert (parts["captions"], parts["recipe"], parts["k"]) == ("first", "prh", "10")


def test_ids_can_be_left_out(run_cli, files, tmp_path):
    (tmp_path / "out.txt").write_text("scene 01\nscene 07\n")
    result = result_of(
        run_cli("align", files("a"), files("b"), "--exclude-ids", tmp_path / "out.txt", "--json")
    )
    assert result["n"] == 58
    code, _, err = run_cli("align", files("a"), files("b"), "--exclude-ids", tmp_path / "none.txt")
    assert (code, "none.txt" in err) == (3, True)


def test_curve(run_cli, files, tmp_path):
    options = ("--curve", "30,60", "--k", "5", "--out", tmp_path / "out")
    code, out, _ = run_cli("align", files("a"), files("b"), *options)
    assert code == 0
    assert "score against n at fixed k" in out
    assert {"curve.csv", "curve.svg"} <= {path.name for path in (tmp_path / "out").iterdir()}
    assert run_cli("align", files("a"), files("b"), "--curve", "many")[0] == 2


def test_matrix_of_many(run_cli, files, tmp_path):
    everyone = [files(name) for name in ("a", "b", "noise")]
    out = tmp_path / "out"
    result = result_of(
        run_cli("align", "--matrix", *everyone, "--permutations", "99", "--out", out, "--json")
    )
    assert result["names"] == ["a", "b", "noise"]
    assert result["scores"][0][1] == result["pairs"][0]["score"]
    assert result["adjusted_p"][0][1] <= 0.05 < result["adjusted_p"][0][2]
    assert {path.name for path in out.iterdir()} == {"align.json", "align.csv", "align.svg", "align.png"}


def test_results_compare_only_under_one_signature(run_cli, files, tmp_path):
    for name, options in {"one": (), "other": ("--k", "5")}.items():
        assert run_cli("align", files("a"), files("b"), "--out", tmp_path / name, *options)[0] == 0
    assert run_cli("align", files("captions"), files("b"), "--out", tmp_path / "third")[0] == 0
    one, other, third = (str(tmp_path / name / "align.json") for name in ("one", "other", "third"))
    assert result_of(run_cli("align", "--compare", one, one, "--json"))["difference"] == 0
    code, _, err = run_cli("align", "--compare", one, other)
    assert code == 3
    assert "differ in k: 10 against 5" in err
    code, _, err = run_cli("align", "--compare", one, third)
    assert (code, "captions: one against mean" in err) == (3, True)
    assert run_cli("align", "--compare", one)[0] == 2
    (tmp_path / "else.json").write_text('{"ok": true}')
    code, _, err = run_cli("align", "--compare", one, tmp_path / "else.json")
    assert (code, "else.json: this is not a result of coview align --json" in err) == (3, True)
    for other in ('{"result": [1]}', "\x80 no JSON"):
        (tmp_path / "else.json").write_text(other)
        code, _, err = run_cli("align", "--compare", tmp_path / "else.json", one)
        assert (code, "else.json: this is not a result" in err) == (3, True)
    code, _, err = run_cli("align", "--compare", one, tmp_path / "none.json")
    assert (code, "no such file" in err) == (3, True)


def test_bad_input_is_one_clear_error(run_cli, files, tmp_path):
    np.save(tmp_path / "bad.npy", np.where(np.arange(60)[:, None] == 4, np.nan, np.ones((60, 3))))
    code, out, err = run_cli("align", files("a"), tmp_path / "bad.npy")
    assert (code, out) == (3, "")
    assert "bad.npy: row 4 holds NaN" in err
    assert "Traceback" not in err
    code, out, _ = run_cli("align", files("a"), tmp_path / "bad.npy", "--json")
    assert json.loads(out)["error"]["code"] == code == 3
    (tmp_path / "x.pt").write_bytes(b"")
    assert run_cli("align", files("a"), tmp_path / "x.pt")[0] == 3
    save_embeddings(tmp_path / "few.safetensors", Embeddings(np.eye(3), ("a", "b", "scene 01")))
    code, _, err = run_cli("align", files("a"), tmp_path / "few.safetensors")
    assert code == 3
    assert "few.safetensors (2): 'a', 'b'" in err
    assert run_cli("align", files("a"))[0] == 2
    assert run_cli("align", "--matrix", files("a"), files("b"), "--curve", "30")[0] == 2
    assert run_cli("align", files("a"), files("b"), files("noise"))[0] == 2
    code, _, err = run_cli("align", files("a"), files("b"), "--metric", "mutualknn")
    assert (code, "mutual_knn" in err) == (2, True)
    code, _, err = run_cli("align", files("a"), files("b"), "--k", "60")
    assert (code, "between 1 and 59" in err) == (2, True)
