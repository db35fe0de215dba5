"""What the decoder is trained on: a row of a scene, noise of the right size, a text of the same scene."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from coview.config import CaptionConfig, TrainConfig
from coview.data.tokens import FIRST, LAST, TokenStore
from coview.encoders.trained import load_text_encoder
from coview.errors import InputError, Interrupted, UsageError
from coview.tabletop import TabletopSource
from coview.training import train as training
from coview.training.caption_task import (
    CaptionData,
    CaptionTask,
    distance_within,
    open_texts,
    read_texts,
    train_captioner,
)
from coview.training.loop import train
from coview.uses.captioner import load_captioner, prepared
from coview.uses.generation import Search, write

CPU = torch.device("cpu")
SMALL = CaptionConfig(
    size="xs", steps=6, batch=16, warmup=2, checkpoint_every=2, log_every=1, precision="fp32"
)


@pytest.fixture(scope="module")
def data(store: TokenStore) -> CaptionData:
    """A row for each text: its scene's own direction and a little of its own."""
    rng = np.random.default_rng(0)
    scene = np.repeat(np.arange(len(store.scenes) - 1), store.texts_per_scene())
    rows = rng.standard_normal((scene[-1] + 1, 10))[scene] + 0.3 * rng.standard_normal((len(scene), 10))
    return CaptionData.of(rows.astype(np.float32), store.scenes, store, "rows")


def which(data: CaptionData, rows: np.ndarray, texts: list[np.ndarray]) -> tuple[np.ndarray, list[set[int]]]:
    """The row of the data nearest to each drawn row, and the texts of the store that each drawn text is."""
    return (rows @ prepared(data.rows, data.mean).T).argmax(1), spelt_as(data, texts)


def spelt_as(data: CaptionData, texts: list[np.ndarray]) -> list[set[int]]:
    """The texts of the store that are spelt as each of these."""
    spelt: dict[bytes, set[int]] = {}
    for index in range(len(data.rows)):
        spelt.setdefault(data.store.text(index).tobytes(), set()).add(index)
    return [spelt[text.tobytes()] for text in texts]


@pytest.mark.parametrize(("share", "low", "high"), [(0.0, 0.0, 0.05), (0.5, 0.4, 0.6), (1.0, 1.0, 1.0)])
def test_row_and_text_are_of_one_scene_and_as_often_the_same_as_asked(data, share, low, high):
    config = replace(SMALL, same_text=share, noise=0.0, batch=40)
    task = CaptionTask(config, data, CPU)
    same = []
    for step in range(10):
        nearest, texts = which(data, *task.draw(step))
        scene = np.searchsorted(data.starts, nearest, side="right") - 1
        for row, of, candidates in zip(nearest, scene, texts, strict=True):
            assert any(data.starts[of] <= text < data.starts[of + 1] for text in candidates)
            same.append(row in candidates)
    assert low <= np.mean(same) <= high  # texts of a scene may be spelt alike, hence .05


def test_every_row_is_drawn_and_every_other_text_told(data):
    task = CaptionTask(replace(SMALL, same_text=0.0, noise=0.0, batch=80), data, CPU)
    pairs = set()
    for step in range(60):
        nearest, texts = which(data, *task.draw(step))
        pairs |= {(row % 5, text % 5) for row, ts in zip(nearest, texts, strict=True) for text in ts}
    assert pairs >= {(row, text) for row in range(5) for text in range(5) if row != text}


def test_the_norm_of_the_noise_is_uniform_up_to_the_distance_of_two_texts(store):
    """In many dimensions noise is at right angles to the row, so its norm is the tangent of the angle."""
    rng = np.random.default_rng(0)
    scene = np.repeat(np.arange(len(store.scenes) - 1), store.texts_per_scene())
    rows = rng.standard_normal((scene[-1] + 1, 2000))[scene] + 0.3 * rng.standard_normal((len(scene), 2000))
    wide = CaptionData.of(rows.astype(np.float32), store.scenes, store, "wide")
    clean, noisy = (CaptionTask(replace(SMALL, batch=64, noise=noise), wide, CPU) for noise in (0.0, 1.0))
    cosines = [(clean.draw(step)[0] * noisy.draw(step)[0]).sum(1) for step in range(10)]
    norms = np.sort(np.sqrt(1 / np.concatenate(cosines).astype(float) ** 2 - 1)) / wide.distance
    assert np.abs(norms - np.linspace(0, 1, len(norms))).max() < 0.06


def test_distance_within_is_the_mean_over_pairs_of_a_scene():
    rows = np.random.default_rng(1).standard_normal((7, 4)).astype(np.float32)
    starts = np.array([0, 3, 4, 4, 7])
    mean = rows.mean(0)
    unit = prepared(rows, mean).astype(float)
    groups = ((0, 1, 2), (4, 5, 6))
    pairs = [np.linalg.norm(unit[a] - unit[b]) for g in groups for i, a in enumerate(g) for b in g[i + 1 :]]
    assert distance_within(rows, starts, mean) == pytest.approx(np.mean(pairs), abs=1e-6)
    assert distance_within(rows[:2], np.array([0, 1, 2]), mean) == 0


def test_a_draw_depends_on_seed_and_step_alone(data):
    one, again = (CaptionTask(SMALL, data, CPU).draw(3) for _ in range(2))
    other = CaptionTask(replace(SMALL, seed=1), data, CPU).draw(3)
    assert np.array_equal(one[0], again[0])
    assert not np.array_equal(one[0], other[0])


def test_the_loss_is_that_of_texts_one_by_one_in_value_and_gradient(data):
    task = CaptionTask(replace(SMALL, batch=5), data, CPU)
    task.model.double()
    rows, texts = task.draw(0)
    rows = rows.astype(np.float64)
    task.draw = lambda step: (rows, texts)
    loss = task.step(0).loss.total
    loss.backward()
    fast = {name: p.grad.clone() for name, p in task.model.named_parameters() if p.grad is not None}
    task.model.zero_grad()
    total, count = torch.zeros((), dtype=torch.float64), 0
    for row, text in zip(rows, texts, strict=True):
        assert (text[0], text[-1]) == (FIRST, LAST)
        scores, cache = task.model.start(torch.from_numpy(row)[None])
        for token in text[1:].astype(np.int64).tolist():  # the prefix itself is never predicted
            total = total + F.cross_entropy(scores, torch.tensor([token]), reduction="sum")
            count += 1
            if token != LAST:
                scores, cache = task.model.step(torch.tensor([token]), cache)
    (total / count).backward()
    assert loss.item() == pytest.approx((total / count).item(), abs=1e-10)
    for name, parameter in task.model.named_parameters():
        if parameter.grad is not None:
            assert torch.allclose(fast[name], parameter.grad, atol=1e-10), name


def test_stopped_and_resumed_is_bit_equal_to_unbroken(data, tmp_path):
    """Stopped between checkpoints, in a way the loop knows, and continued by the same command."""

    def run(folder, **more):
        train_captioner(SMALL, data, folder, encoder="run:x", device="cpu", resume="again", **more)

    run(tmp_path / "unbroken")

    class Stopped(CaptionTask):
        def step(self, step):
            if step == 3:
                raise KeyboardInterrupt
            return super().step(step)

    (tmp_path / "killed").mkdir()
    with pytest.raises(KeyboardInterrupt):
        train(Stopped(SMALL, data, CPU), SMALL, tmp_path / "killed", resume="", report=lambda line: None)
    run(tmp_path / "killed")
    one, other = (tmp_path / name / "model.safetensors" for name in ("unbroken", "killed"))
    assert one.read_bytes() == other.read_bytes()
    with pytest.raises(UsageError, match=r"--noise 1\.0, not 2\.0"):
        train_captioner(
            replace(SMALL, noise=2.0), data, tmp_path / "killed", encoder="", device="cpu", resume=""
        )


def test_a_signal_leaves_a_checkpoint(data, tmp_path):
    import os
    import signal

    class Signalled(CaptionTask):
        def step(self, step):
            if step == 3:
                os.kill(os.getpid(), signal.SIGTERM)
            return super().step(step)

    with pytest.raises(Interrupted, match=r"stopped after 3 of 6 steps.*coview caption train"):
        train(
            Signalled(SMALL, data, CPU),
            SMALL,
            tmp_path,
            resume="coview caption train X --resume",
            report=lambda line: None,
        )
    assert (tmp_path / "checkpoint.safetensors").is_file()


def test_rows_of_images_have_no_text_of_their_own(data):
    """One row a scene: no distance, no noise, and every text of the scene is told."""
    rows = np.random.default_rng(2).standard_normal((len(data.starts) - 1, 7)).astype(np.float32)
    images = CaptionData.of(rows, np.arange(len(rows) + 1), data.store, "images")
    assert images.distance == 0
    task = CaptionTask(replace(SMALL, batch=80), images, CPU)
    drawn, texts = task.draw(0)
    every = prepared(rows, images.mean)
    scenes = (drawn @ every.T).argmax(1)
    assert np.abs(drawn - every[scenes]).max() < 1e-6
    told = spelt_as(data, texts)
    assert all(
        scene in {text // 5 for text in candidates} for scene, candidates in zip(scenes, told, strict=True)
    )
    slots = {
        text % 5
        for step in range(9)
        for candidates in spelt_as(data, task.draw(step)[1])
        for text in candidates
    }
    assert slots == set(range(5))


def test_rows_of_other_scenes_are_refused(data):
    with pytest.raises(InputError, match="10 rows of 10 scenes do not fit"):
        CaptionData.of(np.ones((10, 3), np.float32), np.arange(11), data.store, "")


def test_from_a_text_encoder_to_texts(tmp_path):
    """The whole way on four scenes, until the decoder knows their texts by heart."""
    source = TabletopSource(scenes=5, texts=2)
    config = TrainConfig(size="xs", steps=2, batch=4, views_per_scene=2, output=16, slices=8, vocabulary=300)
    encoder, out, cache = tmp_path / "text", tmp_path / "captioner", tmp_path / "cache"
    store = training.open_store(source, config, None, cache, lambda line: None)
    training.train_text(config, store, encoder, device="cpu", resume="")
    reader = load_text_encoder(encoder)
    data = read_texts(source, reader, open_texts(source, reader, cache), out)
    assert data.rows.shape == (10, 16)
    assert isinstance(data.rows, np.memmap)
    learn = replace(SMALL, steps=80, batch=20, learning_rate=5e-3, same_text=1.0, noise=0.0, warmup=5)
    lines: list[dict] = []
    train_captioner(learn, data, out, encoder="run:x", device="cpu", resume="", report=lines.append)
    assert lines[-1]["loss"] < 0.2 * lines[0]["loss"]
    captioner = load_captioner(out)
    rows, texts = captioner.memory()
    assert texts == [text for scene in source.scenes("train") for text in scene.texts]
    known = prepared(rows.matrix, captioner.mean)
    written = write(captioner.decoder, known, Search(), captioner.text)
    right = [
        one[0].replace(" ", "") == text.lower().replace(" ", "")
        for one, text in zip(written, texts, strict=True)
    ]
    assert np.mean(right) > 0.6
    assert json.loads((out / "manifest.json").read_text())["text_encoder"] == "run:x"


@pytest.mark.parametrize("option", [{"prefix": 0}, {"same_text": 1.5}, {"noise": -1.0}, {"steps": 0}])
def test_a_configuration_that_makes_no_sense_is_refused(option):
    name = next(iter(option)).replace("_", "-")
    with pytest.raises(UsageError, match=f"--{name}: must"):
        CaptionConfig(**option)


def test_a_configuration_goes_to_json_and_back_and_every_option_of_its_own_counts():
    config = CaptionConfig(noise=0.5, prefix=3)
    assert CaptionConfig.from_json(json.loads(json.dumps(config.as_json()))) == config
    for change in ({"noise": 0.4}, {"prefix": 2}, {"same_text": 0.1}, {"size": "m"}):
        assert replace(config, **change).hash != config.hash
