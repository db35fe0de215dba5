"""`coview rotate` and `coview export` as they are typed."""

import json

import numpy as np
import pytest

from coview.embeddings import Embeddings, load_embeddings, save_embeddings


@pytest.fixture
def spaces(tmp_path):
    """Photos a, captions b (two a photo) of another encoder, and b's photos only partly those of a."""
    rng = np.random.default_rng(0)
    latent = rng.normal(size=(300, 16))
    photos = tuple(f"p{i}" for i in range(300))
    a = (latent + 0.2 * rng.normal(size=latent.shape) + 1).astype(np.float32)
    turned = np.repeat(latent @ np.linalg.qr(rng.normal(size=(16, 16)))[0], 2, axis=0)
    b = (turned + 0.4 * rng.normal(size=turned.shape)).astype(np.float32)
    captions = tuple(f"p{i // 2}#{i % 2}" for i in range(600))
    files = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    save_embeddings(files[0], Embeddings(a, photos, photos, {"model": "A", "fingerprint": "aa"}))
    scenes = tuple(one.split("#")[0] for one in captions)
    save_embeddings(files[1], Embeddings(b, captions, scenes, {"model": "B", "fingerprint": "bb"}))
    return files


def result_of(outcome: tuple[int, str, str]) -> dict:
    code, out, err = outcome
    assert code == 0, err
    return json.loads(out)["result"]


def test_fit_apply_eval(run_cli, spaces, tmp_path):
    a, b = spaces
    r = tmp_path / "r.safetensors"
    fitted = result_of(run_cli("rotate", "fit", a, b, "--out", r, "--min-recall", "0.8", "--json"))
    assert (fitted["verdict"], fitted["file"], fitted["pairs"]) == ("fitted", str(r), 240)
    assert fitted["held_out"]["plain"]["scenes"] == 60
    recall = fitted["held_out"]["plain"]
    assert fitted["score"] == min(recall[way]["recall"]["1"]["value"] for way in ("x_to_y", "y_to_x"))
    assert fitted["x"]["encoder"] == "aa"

    judged = result_of(run_cli("rotate", "eval", r, a, b, "--json"))
    assert judged["plain"] == fitted["held_out"]["plain"]  # what was fitted on is left out
    assert "240 items the map was fitted on are left out" in " ".join(judged["notes"])
    everything = result_of(run_cli("rotate", "eval", r, a, b, "--include-fitted", "--json"))
    assert everything["plain"]["scenes"] == 300
    assert "CSLS" in run_cli("rotate", "eval", r, a, b)[1]

    mapped, target = tmp_path / "mapped.safetensors", tmp_path / "target.npy"
    result_of(run_cli("rotate", "apply", r, a, "--out", mapped, "--json"))
    code, out, _err = run_cli("rotate", "apply", r, b, "--out", target, "--side", "y")
    assert (code, out.splitlines()) == (0, ["600 rows of 16 numbers", str(target)])
    x, y = load_embeddings(mapped), load_embeddings(target)
    cosines = x.matrix @ y.matrix.T
    assert (np.argmax(cosines, axis=1) // 2 == np.arange(300)).mean() > 0.8

    again = tmp_path / "again.safetensors"
    run_cli("rotate", "fit", a, b, "--out", again)
    assert again.read_bytes() == r.read_bytes()


def test_the_quality_gate_writes_nothing(run_cli, spaces, tmp_path):
    a, b = spaces
    code, out, err = run_cli(
        "rotate",
        "fit",
        a,
        b,
        "--pairs",
        "4",
        "--out",
        tmp_path / "r.safetensors",
        "--min-recall",
        "0.8",
        "--json",
    )
    assert code == 5
    assert json.loads(out)["error"]["kind"] == "check"
    assert "no file was written" in err
    assert not (tmp_path / "r.safetensors").exists()


def test_few_pairs_are_said_in_words(run_cli, spaces, tmp_path):
    code, out, _ = run_cli("rotate", "fit", *spaces, "--pairs", "4", "--out", tmp_path / "r.safetensors")
    assert code == 0
    assert "4 pairs determine 3 of 16 directions" in out


def test_the_curve(run_cli, spaces, tmp_path):
    arguments = ("rotate", "curve", *spaces, "--sizes", "10,100", "--seeds", "2", "--quiet")
    result = result_of(run_cli(*arguments, "--out", tmp_path / "c.json", "--json"))
    assert [point["pairs"] for point in result["points"]] == [10, 100, 240]
    assert json.loads((tmp_path / "c.json").read_text()) == result
    code, out, _ = run_cli(*arguments, "--out", tmp_path / "c.csv")
    assert code == 0
    assert "60 held-out scenes" in out
    assert len((tmp_path / "c.csv").read_text().splitlines()) == 1 + 3 * 2 * 2 * 2


def test_the_curve_leaves_out_sizes_that_are_too_small(run_cli, spaces):
    arguments = ("rotate", "curve", *spaces, "--seeds", "1", "--quiet", "--method", "whitened")
    result = result_of(run_cli(*arguments, "--json"))
    assert [point["pairs"] for point in result["points"]] == [100, 240]
    left_out = "sizes left out: 30; whitened between spaces of width 16 and 16 needs 32"
    assert left_out in result["notes"]
    assert f"note: {left_out}" in run_cli(*arguments)[1]
    code, _, err = run_cli(*arguments, "--holdout", "275")
    assert (code, "25 pairs are too few for whitened" in err) == (3, True)
    assert run_cli(*arguments, "--sizes", "1")[0] == 2


def test_help_says_what_a_method_needs_and_what_no_answer_exits_with(run_cli):
    words = " ".join(run_cli("rotate", "fit", "--help")[1].replace("│", " ").split())
    assert "needs as many pairs as the widths of A and B together" in words
    assert "The latter is an answer too: no file is written and the exit code is 0" in words
    words = " ".join(run_cli("rotate", "apply", "--help")[1].replace("│", " ").split())
    assert "A row's own distance from the mean is not kept" in words


def test_a_map_at_chance_is_said_to_be(run_cli, spaces, tmp_path):
    noise = np.random.default_rng(2).normal(size=(300, 16))
    other, r = _lone(tmp_path, noise, tuple(f"p{i}" for i in range(300))), tmp_path / "r.safetensors"
    fitted = result_of(run_cli("rotate", "fit", spaces[0], other, "--out", r, "--json"))
    judged = result_of(run_cli("rotate", "eval", r, spaces[0], other, "--json"))
    for notes in (fitted["notes"], judged["notes"]):
        assert any("60 scenes the map is not measurably better than chance" in note for note in notes)
    assert "note: judged on 60 scenes" in run_cli("rotate", "fit", spaces[0], other, "--out", r)[1]


def test_rows_of_unknown_origin_are_said_to_be(run_cli, spaces, tmp_path):
    a, b = spaces
    r, known = tmp_path / "r.safetensors", load_embeddings(spaces[0])
    assert "chance" not in " ".join(result_of(run_cli("rotate", "fit", a, b, "--out", r, "--json"))["notes"])
    rows = _lone(tmp_path, known.matrix, known.ids)
    unsaid = f"{rows} does not say which encoder made the rows: only width and mean of {rows} were checked"
    code, out, err = run_cli("rotate", "apply", r, rows, "--out", tmp_path / "m.npy", "--json")
    assert (code, f"note: {unsaid}" in err) == (0, True)
    assert json.loads(out)["result"]["notes"] == [unsaid]
    assert unsaid in result_of(run_cli("rotate", "eval", r, rows, b, "--json"))["notes"]
    assert result_of(run_cli("rotate", "apply", r, a, "--out", tmp_path / "m.npy", "--json"))["notes"] == []


def _lone(tmp_path, matrix, ids=None, manifest=None):
    file = tmp_path / "other.safetensors"
    save_embeddings(file, Embeddings(matrix.astype(np.float32), ids, None, manifest or {}))
    return file


def test_errors_say_what_to_do(run_cli, spaces, tmp_path):
    a, b = spaces
    out = tmp_path / "r.safetensors"
    rng = np.random.default_rng(1)
    photos = tuple(f"p{i}" for i in range(300))

    def failing(*arguments) -> tuple[int, str]:
        code, _, err = run_cli("rotate", *arguments)
        assert "Traceback" not in err
        return code, err

    code, err = failing("fit", a, _lone(tmp_path, rng.normal(size=(300, 5)), photos), "--out", out)
    assert (code, "widths differ (16 and 5)" in err) == (2, True)
    code, err = failing("fit", a, _lone(tmp_path, rng.normal(size=(2, 16)), ("q1", "q2")), "--out", out)
    assert (code, "share no id and no scene" in err) == (3, True)
    code, err = failing("fit", a, b, "--pairs", "1", "--out", out)
    assert (code, "1 pair is too few" in err) == (3, True)
    code, err = failing("fit", a, b, "--pairs", "some", "--out", out)
    assert (code, "--pairs" in err) == (2, True)
    code, err = failing("curve", a, b, "--sizes", "10;20")
    assert (code, "--sizes" in err) == (2, True)
    code, err = failing("fit", a, b, "--pairs", "241", "--out", out)
    assert (code, "240 pairs besides" in err) == (2, True)
    code, err = failing("fit", a, b, "--holdout", "300", "--out", out)
    assert (code, "--holdout" in err) == (2, True)
    broken = rng.normal(size=(300, 16))
    broken[5, 3] = np.nan
    code, err = failing("fit", a, _lone(tmp_path, broken, photos), "--out", out)
    assert (code, "row 5 (id 'p5') holds NaN" in err) == (3, True)
    broken[5] = 0
    for pairs in ("all", "none"):
        files = (_lone(tmp_path, broken, photos), b)
        code, err = failing("fit", *files, "--pairs", pairs, "--out", out)
        assert (code, "other.safetensors: row 5 (id 'p5') is all zero" in err) == (3, True)
        _lone(tmp_path, np.full((300, 16), 0.1), photos)
        code, err = failing("fit", *files[::-1], "--pairs", pairs, "--out", out)
        assert (code, "other.safetensors: all 300 rows are equal" in err) == (3, True)
    code, err = failing("curve", b, _lone(tmp_path, broken, photos))
    assert (code, "row 5 (id 'p5') is all zero" in err) == (3, True)
    code, err = failing("fit", a, b, "--pairs", "none", "--known", tmp_path / "known.txt", "--out", out)
    assert (code, err) == (3, f"coview rotate: {tmp_path / 'known.txt'}: there is no such file.\n")
    assert not out.exists()

    assert run_cli("rotate", "fit", a, b, "--out", out)[0] == 0
    code, err = failing("apply", out, b, "--out", tmp_path / "m.npy")
    assert (code, "made by B (bb), the rotation was fitted on A (aa)" in err) == (3, True)
    assert "They fit the rotation's side y. If that is meant: --side y." in err
    code, err = failing("eval", out, b, a)
    assert (code, "made by B" in err, "Are A and B swapped?" in err) == (3, True, True)
    code, err = failing("eval", tmp_path / "nothing", a, b)
    assert (code, "nothing: there is no such file. coview rotate fit A B --out FILE" in err) == (3, True)
    code, err = failing("apply", a, b, "--out", tmp_path / "m.npy")
    assert (code, "holds no rotation" in err) == (3, True)
    code, err = failing("apply", out, tmp_path / "none.npy", "--out", tmp_path / "m.npy")
    assert (code, "no such file" in err) == (3, True)
    assert not (tmp_path / "m.npy").exists()


@pytest.fixture
def text_run(tmp_path):
    """The run folder of a small text encoder that was never trained."""
    import torch

    from coview.data.tokens import train_tokenizer
    from coview.encoders.text import TextEncoder, TextEncoderConfig
    from coview.encoders.trained import save_text_encoder

    tokenizer = train_tokenizer(lambda: ["a red ball", "a blue cube"], 40)
    torch.manual_seed(0)
    config = TextEncoderConfig(
        vocabulary=tokenizer.get_vocab_size(), layers=1, width=16, heads=2, max_length=10, output=5
    )
    save_text_encoder(tmp_path / "run", TextEncoder(config), tokenizer, {"views": "good"})
    return tmp_path / "run"


def test_export_of_a_run(run_cli, text_run, tmp_path):
    out = tmp_path / "folder"
    result = result_of(run_cli("export", f"run:{text_run}", "--out", out, "--json"))
    assert (result["width"], result["bias"], result["path"]) == (5, True, str(out))
    assert (out / "modules.json").is_file()
    code, _, err = run_cli("export", text_run, "--out", out)
    assert (code, "exists already" in err) == (2, True)
    assert run_cli("export", tmp_path / "nothing", "--out", tmp_path / "no")[0] == 3
    assert not (tmp_path / "no").exists()


def test_export_says_which_rows_texts_are_compared_with(run_cli, text_run, tmp_path):
    from coview.encoders.trained import load_text_encoder

    encoder, texts = load_text_encoder(text_run), [f"a {'ball ' * n} cube" for n in range(30)]
    made = {"model": encoder.name, "fingerprint": encoder.fingerprint, "layers": [encoder.last]}
    embedded, r = (tmp_path / f"{name}.safetensors" for name in ("texts", "r"))
    save_embeddings(embedded, Embeddings(encoder.encode(texts), manifest=made))
    images = tmp_path / "images.npy"
    np.save(images, np.random.default_rng(0).normal(size=(30, 8)).astype(np.float32))
    for sides, other, side in (
        ((images, embedded), "OTHER", "y"),
        ((embedded, images), "OTHER --side y", "x"),
    ):
        result_of(run_cli("rotate", "fit", *sides, "--method", "procrustes", "--out", r, "--json"))
        out = run_cli("export", text_run, "--in-space-of", r, "--out", tmp_path / side)[1]
        assert f"compared with rows of: coview rotate apply {r} {other} --out FILE" in out
        assert json.loads((tmp_path / side / "coview.json").read_text())["side"] == side
    words = " ".join(run_cli("export", "--help")[1].split())
    assert "where it maps images to texts, by `coview rotate apply R IMAGES`" in words


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--out", "r.npy"), "a rotation is written as .safetensors"),
        (("--out", "r.safetensors", "--min-recall", "90"), "--min-recall: a recall lies between 0 and 1"),
        (("--out", "r.safetensors", "--reweight", "3"), "--reweight: it lies between 0 and 1"),
        (("--out", "r.safetensors", "--pairs", "none", "--method", "ridge"), "--method: without pairs"),
        (("--out", "r.safetensors", "--reweight", "0.5"), "--reweight: only --method whitened weights"),
        (("--out", "r.safetensors", "--reweight", "0.5", "--method", "procrustes"), "--reweight: only"),
    ],
)
def test_options_of_fit_that_make_no_sense(spaces, run_cli, tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    code, _, err = run_cli("rotate", "fit", *spaces, *options)
    assert (code, words in err) == (2, True), err
    assert set(tmp_path.iterdir()) == before
