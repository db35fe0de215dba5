"""`coview retrieve` as it is typed: words, a rotation fitted a moment ago, and files."""

import json

import numpy as np
import pytest
from PIL import Image

SOURCE = "tabletop:scenes=400"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Bag-of-words texts of a small world, its images as sizes of their colours, and a rotation between."""
    from coview.cli import main
    from coview.data.readers import open_source
    from coview.embeddings import Embeddings, load_embeddings, save_embeddings

    folder = tmp_path_factory.mktemp("joined")
    texts = folder / "texts.safetensors"
    main(
        [
            "embed",
            SOURCE,
            "--model",
            f"bow:{SOURCE},width=32",
            "--split",
            "all",
            "--out",
            str(texts),
            "--quiet",
        ]
    )
    done = load_embeddings(texts)
    scenes = sorted(set(done.scenes))
    means = np.stack(
        [done.matrix[[one == scene for one in done.scenes]].mean(axis=0) for scene in scenes[:200]]
    )
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((40, 32)))[0].T
    rows = (means @ turn + 2).astype(np.float32)
    images = Embeddings(rows, tuple(scenes[:200]), None, {"source": SOURCE, "model": "turned:"})
    save_embeddings(folder / "images.safetensors", images)
    arguments = [
        "--method",
        "procrustes",
        "--holdout",
        "20",
        "--out",
        str(folder / "r.safetensors"),
        "--json",
    ]
    main(["rotate", "fit", str(texts), str(folder / "images.safetensors"), *arguments])
    scene = next(one for one in open_source(SOURCE).scenes() if one.id == scenes[7])
    (folder / "query.txt").write_text(scene.texts[0])
    return folder


@pytest.fixture
def joined(folder):
    return ("--run", f"bow:{SOURCE},width=32", "--rotation", folder / "r.safetensors")


def test_a_description_finds_its_scene(run_cli, folder, joined, tmp_path):
    query, images = (folder / "query.txt").read_text(), folder / "images.safetensors"
    code, out, err = run_cli(
        "retrieve", query, *joined, "--images", images, "--top", "12", "--json", "--sheet", tmp_path / "s.png"
    )
    assert code == 0, err
    result = json.loads(out)["result"]
    assert len(result["found"]) == 12
    assert result["images"] == 200
    row = next(place for place, one in enumerate(result["found"]) if one["row"] == 7)
    assert row < 10  # one description in as many words as others use
    scores = [one["score"] for one in result["found"]]
    assert scores == sorted(scores, reverse=True)
    assert Image.open(tmp_path / "s.png").width > 4 * 224
    code, out, _ = run_cli("retrieve", query, *joined, "--images", images, "--top", "3")
    head, *lines = out.splitlines()
    assert [line.split()[1] for line in lines] == [one["image"] for one in result["found"][:3]]
    level, deviation = (result["all_images"][name] for name in ("mean", "deviation"))
    assert level + deviation < scores[0]
    assert head.startswith(
        f"cosine with 200 images; a random one of them scores {level:.3f} ± {deviation:.3f}"
    )


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("xyxyx vwvwv",), 3, "knows no word of 'xyxyx vwvwv'"),
        (("",), 2, "no words to search with"),
        (("  \n",), 2, "no words to search with"),
        (("a cup", "--top", "0"), 2, "0 results"),
        (("a cup", "--sheet", "s.jpg"), 2, "written as .png"),
        (("a cup", "--sheet", "s.png", "--photos", "nowhere"), 3, "no such file or folder"),
    ],
)
def test_mistakes(run_cli, folder, joined, arguments, code, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found, out, err = run_cli("retrieve", *arguments, *joined, "--images", folder / "images.safetensors")
    assert found == code
    assert message in err
    assert not out
    assert not list(tmp_path.iterdir())


def test_a_rotation_that_is_none(run_cli, folder, joined):
    images = folder / "images.safetensors"
    code, _, err = run_cli("retrieve", "a cup", *joined[:2], "--rotation", images, "--images", images)
    assert code == 3
    assert "no rotation" in err
    code, _, err = run_cli("retrieve", "a cup", *joined[:2], "--rotation", "nothing", "--images", images)
    assert (code, "coview rotate fit A B --out FILE writes one" in err) == (3, True)
