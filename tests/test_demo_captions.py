"""The demo's captions, tiny: what is counted and kept. Whether they are any good is for `make demo`."""

import json
from dataclasses import replace

import numpy as np
import pytest

from coview.config import TrainConfig
from coview.demo_captions import CONFIG, caption_paintings, count_claims, scene_means
from coview.embeddings import Embeddings
from coview.tabletop import TabletopSource, describe
from coview.tabletop.claims import KINDS
from coview.training.image_task import build_images
from coview.training.train import open_store, token_cache, train_image, train_text

WORLD = TabletopSource(scenes=60)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A text and an image encoder of the world, trained for two steps."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COVIEW_CACHE", str(folder / "cache"))
        for task in ("text_task", "image_task"):
            patch.setattr(f"coview.training.{task}.WHITENING_SCENES", 64)
        text = TrainConfig(size="xs", steps=2, batch=8, output=16, slices=8, vocabulary=600)
        store = open_store(WORLD, text, None, token_cache(), lambda line: None)
        train_text(text, store, folder / "text", device="cpu", resume="")
        image = replace(text, modality="image", views_per_scene=2)
        train_image(image, build_images(WORLD, views=2, side=64), folder / "image", device="cpu", resume="")
        yield folder


def test_captions_are_counted_and_kept(runs):
    config = replace(CONFIG, steps=3, batch=8)
    out = runs / "captions"
    result = caption_paintings(WORLD, runs / "text", runs / "image", out, config=config, scenes=40)
    assert result["paintings"] == 6
    assert result["pairs"] == 32
    assert len(result["captions"]) == 6
    assert json.loads((out / "captions.json").read_text()) == json.loads(json.dumps(result))
    assert (out / "captions.png").is_file()
    for claims in result["claims"].values():
        assert claims.keys() == set(KINDS)
        for tally in claims.values():
            assert 0 <= tally["true"] <= tally["told"]
            assert (tally["interval"] is None) == (tally["told"] == 0)
    assert result["claims"]["nearest description it read"]["shape"]["told"] > 0
    stamp = (out / "model.safetensors").stat().st_mtime_ns
    again = caption_paintings(WORLD, runs / "text", runs / "image", out, config=config, scenes=40)
    assert again == result
    assert (out / "model.safetensors").stat().st_mtime_ns == stamp, "a finished decoder is kept"


def test_rounds_of_captions_are_counted_against_the_same_scenes():
    truth = [WORLD.scene(index) for index in range(5)]
    texts = [describe(scene, 0) for scene in truth]
    once, twice = count_claims([texts], truth), count_claims([texts, texts], truth)
    for kind, tally in once.items():
        assert tally["true"] == tally["told"]
        assert (twice[kind]["told"], twice[kind]["true"]) == (2 * tally["told"], 2 * tally["true"])
    assert twice["shape"]["interval"] == pytest.approx(once["shape"]["interval"])  # nothing new was told


def test_scene_means_are_in_the_order_of_the_scenes():
    rows = np.arange(10, dtype=np.float32).reshape(5, 2)
    texts = Embeddings(rows, tuple("vwxyz"), ("b", "b", "a", "a", "a"))
    assert np.array_equal(scene_means(texts), [rows[:2].mean(0), rows[2:].mean(0)])
