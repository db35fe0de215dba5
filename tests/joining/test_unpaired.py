"""The search without pairs on files: nothing it could see is a pair, and pairs that exist only judge it."""

import json

import numpy as np
import pytest

from coview.embeddings import Embeddings, save_embeddings
from coview.errors import InputError
from coview.joining import unpaired
from coview.joining.unpaired import fit_unpaired


def clusters(n: int, *, shared: bool = True) -> tuple[Embeddings, Embeddings]:
    """Two turned views of items in 20 clusters of unequal size, which determine the rotation."""
    rng = np.random.default_rng(5)
    centres = rng.normal(size=(20, 8))
    shares = rng.dirichlet(np.full(20, 3.0))
    latent = centres[rng.choice(20, size=n, p=shares)] + 0.3 * rng.normal(size=(n, 8))
    turned = latent @ np.linalg.qr(rng.normal(size=(8, 8)))[0]
    names = tuple(f"s{i}" for i in range(n))
    others = names if shared else tuple(f"t{i}" for i in range(n))
    x, y = ((rows + 0.05 * rng.normal(size=rows.shape)).astype(np.float32) for rows in (latent, turned))
    order = rng.permutation(n)
    return Embeddings(x, names), Embeddings(y[order], tuple(others[row] for row in order))


@pytest.fixture(scope="module")
def found():
    return fit_unpaired(*clusters(1800), held=200)


def test_clusters_are_joined_and_judged_on_scenes_held_out(found):
    assert found.fit.verdict == "found"
    assert found.judged.plain.scenes == 200
    assert found.judged.plain.foscttm < 0.02
    assert found.judged.plain.x_to_y.recall[1].value > 0.5
    assert "200 are held out" in found.notes[0]
    x, _ = clusters(1800)
    assert found.rotation.was_fitted_on(x.ids).sum() == 1600


def test_no_pair_is_among_what_is_searched(monkeypatch):
    seen = {}

    def search(x, y, **options):
        seen.update(x=x, y=y, **options)
        raise InputError("enough")

    monkeypatch.setattr(unpaired, "find_rotation", search)
    x, y = clusters(100)
    captions = Embeddings(
        np.repeat(y.matrix, 2, axis=0),
        tuple(f"{one}#{slot}" for one in y.ids for slot in range(2)),
        tuple(np.repeat(y.ids, 2)),
    )
    with pytest.raises(InputError, match="enough"):
        fit_unpaired(x, captions, held=20, known=[])
    assert len(seen["x"]) + len(set(seen["views_y"])) == 80
    ids = {x.matrix[row].tobytes(): x.ids[row] for row in range(100)}
    assert not {ids[row.tobytes()] for row in seen["x"]} & set(seen["views_y"])
    assert seen["known_pairs"] is None


def test_files_without_a_common_scene_are_used_whole(monkeypatch):
    seen = {}
    monkeypatch.setattr(unpaired, "find_rotation", lambda x, y, **options: seen.update(x=x, y=y, **options))
    x, y = clusters(50, shared=False)
    with pytest.raises(AttributeError):  # the double returns nothing
        fit_unpaired(x, y, known=[("s3", y.ids[7])])
    assert (len(seen["x"]), len(seen["y"]), seen["known_pairs"]) == (50, 50, [(3, 7)])
    with pytest.raises(InputError, match="names no row of B"):
        fit_unpaired(x, y, known=[("s3", "s3")])


def test_the_command_prints_the_verdict_and_writes_a_file_only_where_found(run_cli, tmp_path, found):
    x, y = clusters(1800)
    save_embeddings(tmp_path / "x.safetensors", x)
    save_embeddings(tmp_path / "y.safetensors", y)
    noise = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    np.save(tmp_path / "noise.npy", noise)
    r = tmp_path / "r.safetensors"
    files = tmp_path / "x.safetensors", tmp_path / "y.safetensors"
    code, out, err = run_cli(
        "rotate", "fit", *files, "--pairs", "none", "--holdout", "200", "--out", r, "--json"
    )
    assert code == 0, err
    result = json.loads(out)["result"]
    assert (result["verdict"], result["file"]) == ("found", str(r))
    assert result["score"] == found.fit.score
    assert result["held_out"] == json.loads(json.dumps(found.judged.as_json()))
    code, out, _ = run_cli("rotate", "eval", r, *files, "--json")
    assert json.loads(out)["result"]["plain"] == result["held_out"]["plain"]

    q = tmp_path / "q.safetensors"
    arguments = (
        "rotate",
        "fit",
        tmp_path / "noise.npy",
        tmp_path / "noise.npy",
        "--pairs",
        "none",
        "--out",
        q,
    )
    code, out, _ = run_cli(*arguments, "--json")
    result = json.loads(out)["result"]
    assert (code, result["verdict"], result["file"], q.exists()) == (0, "not identified", None, False)
    code, out, _ = run_cli(*arguments)
    assert code == 0
    assert "because" in out
    assert "no file was written" in out
    code, out, err = run_cli(*arguments, "--min-recall", "0.1")
    assert (code, out, "no rotation was identified" in err, q.exists()) == (5, "", True, False)


def test_known_pairs_are_for_a_search_without_pairs(run_cli, tmp_path):
    x, y = clusters(50, shared=False)
    save_embeddings(tmp_path / "x.safetensors", x)
    save_embeddings(tmp_path / "y.safetensors", y)
    (tmp_path / "known.txt").write_text("s1\tt1\ns2 t2\n")
    common = (
        "rotate",
        "fit",
        tmp_path / "x.safetensors",
        tmp_path / "y.safetensors",
        "--out",
        tmp_path / "r.st",
    )
    code, _, err = run_cli(*common, "--known", tmp_path / "known.txt")
    assert (code, "--pairs none" in err) == (2, True)
    code, _, err = run_cli(*common, "--pairs", "none", "--known", tmp_path / "known.txt")
    assert (code, "known.txt line 2" in err) == (3, True)
