"""`coview zeroshot` as it is typed, on twelve words that an image encoder has turned."""

import json

import numpy as np
import pytest

from coview.cli import main
from coview.embeddings import Embeddings, load_embeddings, save_embeddings

ANIMALS = ("dog", "cat", "cow", "pig", "hen", "owl", "fox", "bat")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Captions, a bag of words fitted on them, and images that are the captions' means, turned and moved."""
    folder = tmp_path_factory.mktemp("zeroshot")
    rng = np.random.default_rng(0)
    places = ("house", "river", "field", "street", "garden")
    lines, shown = [], []
    for scene in range(800):
        animal, place = rng.choice(ANIMALS), rng.choice(places)
        shown.append(str(animal))
        for text in (
            f"a {animal} near the {place}",
            f"the {place} has a {animal} in it",
            f"one {animal} {place}",
        ):
            record = {"scene": f"{scene:03d}", "text": text, "split": "train", "image": f"{scene:03d}.jpg"}
            lines.append(json.dumps(record))
    source = folder / "captions.jsonl"
    source.write_text("\n".join(lines))
    texts = folder / "texts.safetensors"
    main(
        ["embed", str(source), "--model", f"bow:{source}", "--split", "train", "--out", str(texts), "--quiet"]
    )
    done = load_embeddings(texts)
    means = done.matrix.reshape(800, 3, -1).mean(axis=1)
    turn = np.linalg.qr(rng.standard_normal((means.shape[1],) * 2))[0]
    rows = (means @ turn + 0.02 * rng.standard_normal(means.shape) + 1).astype(np.float32)
    ids = tuple(f"{scene:03d}" for scene in range(800))
    save_embeddings(folder / "images.safetensors", Embeddings(rows, ids, None, {"model": "turned:"}))
    test = Embeddings(rows[:200], tuple(f"{one}.jpg" for one in ids[:200]), None, {"model": "turned:"})
    save_embeddings(folder / "test.safetensors", test)
    (folder / "classes.txt").write_text("\n".join(ANIMALS))
    (folder / "labels.csv").write_text(
        "image,class\n" + "".join(f"{scene:03d}.jpg,{shown[scene]}\n" for scene in reversed(range(200)))
    )
    main(
        [
            "rotate",
            "fit",
            str(folder / "images.safetensors"),
            str(texts),
            "--out",
            str(folder / "r.safetensors"),
        ]
    )
    return folder


@pytest.fixture
def arguments(folder):
    return (
        "zeroshot",
        folder / "test.safetensors",
        *("--labels", folder / "labels.csv", "--run", f"bow:{folder / 'captions.jsonl'}"),
    )


def test_across_a_rotation(run_cli, folder, arguments, tmp_path):
    options = ("--rotation", folder / "r.safetensors", "--out", tmp_path / "out")
    code, out, err = run_cli(*arguments, "--classes", folder / "classes.txt", *options, "--json")
    assert code == 0, err
    result = json.loads(out)["result"]
    assert (result["images"], result["classes"], result["k"]) == (200, 8, 5)
    assert result["top1"]["value"] > 0.9
    assert result["top1"]["chance"] == 1 / 8
    table = (tmp_path / "out" / "confusion.csv").read_text().splitlines()
    assert table[0] == "true \\ predicted," + ",".join(ANIMALS)
    assert sum(int(cell) for line in table[1:] for cell in line.split(",")[1:]) == 200
    assert json.loads((tmp_path / "out" / "zeroshot.json").read_text())["result"] == result

    # Symptom 21 of joining.md: the order of the list is nobody's business.
    (tmp_path / "shuffled.txt").write_text("\n".join(sorted(ANIMALS)))
    code, out, _ = run_cli(*arguments, "--classes", tmp_path / "shuffled.txt", *options, "--json")
    assert json.loads(out)["result"]["top1"]["value"] == result["top1"]["value"]
    code, out, _ = run_cli(*arguments, "--classes", folder / "classes.txt", *options)
    assert "top-1" in out
    assert "over classes" in out


def test_the_protocol_without_pairs(run_cli, folder, arguments):
    corpus = (
        "--corpus-images",
        folder / "images.safetensors",
        "--corpus-texts",
        folder / "texts.safetensors",
    )
    options = ("--classes", folder / "classes.txt", "--protocol", "rosetta", *corpus, "--seeds", "1")
    code, out, err = run_cli(*arguments, *options, "--json")
    assert code == 0, err
    result = json.loads(out)["result"]
    (trial,) = result["trials"]
    assert trial["fit"]["verdict"] in ("found", "not identified")
    assert (trial["without_pairs"] is not None) == (trial["fit"]["verdict"] == "found")
    assert trial["with_pairs"]["top1"]["value"] > 0.9
    assert trial["with_pairs"]["foscttm"] < 0.1
    assert "searching half 1" in err


@pytest.mark.parametrize(
    ("classes", "options", "code", "message"),
    [
        ("dog\ncat\ndog\n", (), 3, "row 3: the class 'dog' is in row 1 already"),
        ("dog\ncat\n", (), 3, "is no class of the list"),
        (None, ("--protocol", "rosetta"), 2, "either --rotation FILE or --protocol"),
        (None, ("--corpus-texts", "a.npy"), 2, "goes with --corpus-images"),
    ],
)
def test_mistakes(run_cli, folder, arguments, classes, options, code, message, tmp_path):
    listed = folder / "classes.txt"
    if classes:
        listed = tmp_path / "classes.txt"
        listed.write_text(classes)
    options = (*options, "--rotation", folder / "r.safetensors", "--out", tmp_path / "out")
    found, out, err = run_cli(*arguments, "--classes", listed, *options)
    assert found == code
    assert message in err
    assert not out
    assert not (tmp_path / "out").exists()


def test_a_label_that_is_no_class_names_its_row(run_cli, folder, arguments):
    labels = folder / "wrong.csv"
    labels.write_text((folder / "labels.csv").read_text() + "x.jpg,dgo\n")
    arguments = ("zeroshot", arguments[1], "--labels", labels, *arguments[4:])
    options = ("--classes", folder / "classes.txt", "--rotation", folder / "r.safetensors")
    code, _, err = run_cli(*arguments, *options)
    assert code == 3
    assert "row 202: the label 'dgo' is no class" in err
    assert "Did you mean 'dog'" in err
