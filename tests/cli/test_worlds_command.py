import json
from pathlib import Path

import numpy as np
import pytest

from coview.embeddings import Embeddings, save_embeddings
from coview.theory import verify

EXAMPLES = Path(__file__).parents[2] / "examples" / "worlds"


def test_run_prints_one_document(run_cli):
    code, out, _ = run_cli("worlds", "run", "--n", "6", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["schema"] == "coview.worlds.run/1"
    assert document["ok"] is True
    result = document["result"]
    assert (result["worlds"], result["violations"]) == (6, 0)
    assert 0 < result["max_ratio"] <= 1
    assert result["paper_max_ratio"] == 0.18


def test_run_tells_people_the_paper_figure_and_what_it_belongs_to(run_cli):
    code, out, _ = run_cli("worlds", "run", "--n", "6")
    assert code == 0
    assert "0 violations" in out
    assert "the paper reports at most 18%" in out
    assert "no constant" in out


def test_run_exits_5_when_a_bound_is_broken(run_cli, monkeypatch):
    right = verify.misalignment_bound

    def too_small(*arguments, **options):
        bound = right(*arguments, **options)
        return type(bound)(bound.value / 1000, bound.mismatch, bound.gap, bound.marginal_term, bound.vacuous)

    monkeypatch.setattr(verify, "misalignment_bound", too_small)
    code, out, err = run_cli("worlds", "run", "--n", "6", "--json")
    document = json.loads(out)
    assert code == 5
    assert document["ok"] is False
    assert document["result"]["violations"] > 0
    assert document["result"]["broken"][0]["what"]
    assert document["error"]["code"] == 5
    assert "violations" in err


def test_run_refuses_no_worlds(run_cli):
    assert run_cli("worlds", "run", "--n", "0")[0] == 2


@pytest.mark.parametrize("name", ["agree", "style", "same_state"])
def test_show_tells_the_examples(run_cli, name):
    code, out, _ = run_cli("worlds", "show", EXAMPLES / f"{name}.yaml")
    assert code == 0
    assert "spectrum" in out
    document = json.loads(run_cli("worlds", "show", EXAMPLES / f"{name}.yaml", "--json")[1])
    assert document["result"]["pairs"]


def test_show_says_that_same_state_positives_promise_nothing(run_cli):
    out = run_cli("worlds", "show", EXAMPLES / "same_state.yaml")[1]
    assert "no gap; nothing is guaranteed" in out
    assert "the solutions are not unique" in out


def test_show_says_which_worlds_a_folder_holds(run_cli, tmp_path):
    for name, hint in (
        ("", "It holds none"),
        ("a.yaml", f"Name {tmp_path / 'a.yaml'}."),
        ("b.yml", "its 2, "),
    ):
        if name:
            (tmp_path / name).touch()
        code, _, err = run_cli("worlds", "show", tmp_path)
        assert (code, "it is a folder" in err, hint in err) == (3, True, True), err


def test_show_names_what_is_wrong(run_cli, tmp_path):
    path = tmp_path / "w.yaml"
    path.write_text("states: [a]\njoints: 1\n")
    code, _, err = run_cli("worlds", "show", path)
    assert code == 3
    assert "w.yaml" in err
    assert "Traceback" not in err


def test_from_predicts_from_texts(run_cli, tmp_path):
    code, out, _ = run_cli("worlds", "from", "tabletop:scenes=800", "--dim", "6", "--out", tmp_path, "--json")
    result = json.loads(out)["result"]
    assert code == 0
    assert result["scenes"] == 640
    assert result["advantage"]["bad"]["scene_explained"][0] > 0.1
    assert (tmp_path / "predicted_spectra.svg").exists()


def test_from_predicts_from_embeddings_and_against_another_encoder(run_cli, tmp_path):
    rng = np.random.default_rng(0)
    scene = np.repeat(np.arange(100), 3)
    latent = rng.normal(size=(100, 6))
    rows = np.hstack([latent[scene], 2 * rng.normal(size=(300, 6))]) + 0.1 * rng.normal(size=(300, 12))
    ids, scenes = tuple(f"t{i}" for i in range(300)), tuple(f"s{s}" for s in scene)
    save_embeddings(tmp_path / "texts.safetensors", Embeddings(rows, ids, scenes))
    save_embeddings(tmp_path / "images.safetensors", Embeddings(latent, tuple(f"s{s}" for s in range(100))))
    code, out, _ = run_cli(
        "worlds",
        "from",
        tmp_path / "texts.safetensors",
        "--dim",
        "4",
        "--k",
        "5",
        "--against",
        tmp_path / "images.safetensors",
    )
    assert code == 0
    assert "5-NN with the other" in out
    assert "prediction: good views over bad views by +" in out
    assert "mutual_knn|k:5|n:20|sim:cosine|recipe:center" in out


def test_from_refuses_what_it_cannot_read(run_cli, tmp_path):
    assert run_cli("worlds", "from", tmp_path / "none.jsonl")[0] == 3
    assert run_cli("worlds", "from", "tabletop:scenes=400", "--dim", "500")[0] == 2
    assert run_cli("worlds", "from", "tabletop:scenes=400", "--mask-rate", "0")[0] == 2
