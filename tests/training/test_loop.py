"""The loop: stopped anywhere and resumed it does what it would have done, and what it logs is true."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from coview.errors import CheckFailed, Interrupted, ResourceError, UsageError
from coview.training import loop
from coview.training.checkpoint import NAME, read_checkpoint
from coview.training.loop import caught_signals, metrics_file, train
from coview.training.objectives import effective_rank, view_shuffle_control
from coview.training.optim import learning_rate
from coview.training.sigreg import gaussian_floor
from coview.training.text_task import TextTask

CPU = torch.device("cpu")


class Watched(TextTask):
    """Notes the rate and the tokens of every step, and calls `event` before one of them."""

    def __init__(self, *arguments, at: int = -1, event=lambda task: None):
        super().__init__(*arguments)
        self.at, self.event, self.steps, self.reads = at, event, [], []

    def step(self, step: int):
        if step == self.at:
            self.event(self)
        self.steps.append(step)
        outcome = super().step(step)
        self.reads.append(outcome.read)
        return outcome


def run(config, store, folder: Path, **watched) -> Watched:
    folder.mkdir(exist_ok=True)
    task = Watched(config, store, CPU, **watched)
    train(task, config, folder, resume="coview train X --resume", report=lambda line: None)
    return task


def lines(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def weights(task) -> dict[str, torch.Tensor]:
    return task.model.state_dict()


def same(one, other) -> bool:
    return all(torch.equal(value, weights(other)[name]) for name, value in weights(one).items())


@pytest.mark.parametrize("precision", ["auto", "fp32"])
def test_killed_anywhere_and_resumed_is_bit_equal_to_unbroken(tmp_path, precision):
    """SIGKILL before the first checkpoint, within steps, and with half of a checkpoint written."""
    script = Path(__file__).with_name("killed.py")
    environment = os.environ | {"COVIEW_CACHE": str(tmp_path / "cache")}
    subprocess.run([sys.executable, script, tmp_path, precision], env=environment, check=True)
    unbroken, killed = tmp_path / "unbroken", tmp_path / "killed"
    assert (unbroken / "model.safetensors").read_bytes() == (killed / "model.safetensors").read_bytes()
    assert [line["step"] for line in lines(killed)] == list(range(9))
    for one, other in zip(lines(unbroken), lines(killed), strict=True):
        assert {**one, "read_per_s": 0} == {**other, "read_per_s": 0}


@pytest.mark.parametrize("views", ["good", "bad", "next-token"])
def test_one_seed_gives_one_result_and_another_seed_another(store, tiny, tmp_path, views):
    first, again, other = (
        run(tiny(views=views, steps=3, seed=seed), store, tmp_path / str(place))
        for place, seed in enumerate((0, 0, 1))
    )
    assert same(first, again)
    assert not same(first, other)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_writes_a_checkpoint_and_says_how_to_resume(store, tiny, tmp_path, number):
    config = tiny(checkpoint_every=100)
    handler = signal.getsignal(number)
    with pytest.raises(Interrupted, match=r"stopped after 4 of 6 steps.*coview train X --resume") as stop:
        run(config, store, tmp_path / "a", at=4, event=lambda task: os.kill(os.getpid(), number))
    assert stop.value.exit_code == 130
    assert signal.getsignal(number) is handler
    assert read_checkpoint(tmp_path / "a").step == 4

    resumed = run(config, store, tmp_path / "a")
    assert resumed.steps == [4, 5]
    assert same(resumed, run(config, store, tmp_path / "b"))
    assert [line["step"] for line in lines(tmp_path / "a")] == list(range(6))


def test_a_second_signal_is_not_caught():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    with caught_signals() as stopped:
        os.kill(os.getpid(), signal.SIGINT)
        assert stopped == [signal.SIGINT]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    signal.signal(signal.SIGINT, before)


def test_a_loss_that_is_no_number_stops_and_keeps_the_good_checkpoint(store, tiny, tmp_path):
    def poison(task):
        with torch.no_grad():
            task.model.head.weight[0, 0] = torch.nan

    config = tiny(steps=20)
    with pytest.raises(CheckFailed, match=r"not a number at step 6.*--learning-rate") as stop:
        run(config, store, tmp_path, at=6, event=poison)
    assert stop.value.exit_code == 5
    assert read_checkpoint(tmp_path).step == 4
    assert [line["step"] for line in lines(tmp_path)] == list(range(6))
    resumed = run(config, store, tmp_path)
    assert resumed.steps[0] == 4
    assert all(torch.isfinite(value).all() for value in weights(resumed).values())


def test_a_huge_learning_rate_never_spoils_the_checkpoint(store, tiny, tmp_path):
    with pytest.raises(CheckFailed, match="not a number"):
        run(tiny(steps=30, learning_rate=1e30, warmup=0, checkpoint_every=1), store, tmp_path)
    if (tmp_path / NAME).exists():  # else it failed before the first one
        mark = read_checkpoint(tmp_path)
        config = tiny(steps=30, learning_rate=1e30, warmup=0, checkpoint_every=1)
        task = TextTask(config, store, CPU)
        loop.load_checkpoint(tmp_path, task.model, loop.make_optimizer(task.model, config), mark)
        assert torch.isfinite(task.step(mark.step).loss.total)


def test_resumed_with_another_configuration_or_other_data(store, tiny, tmp_path):
    run(tiny(), store, tmp_path)
    with pytest.raises(UsageError, match="the configuration is not the one"):
        run(tiny(learning_rate=1e-4), store, tmp_path)
    run(tiny(log_every=3, checkpoint_every=5), store, tmp_path)  # these have no bearing on the outcome
    task = TextTask(tiny(), store, CPU)
    task.data_hash = "other"
    with pytest.raises(UsageError, match="the training data is not the one"):
        train(task, tiny(), tmp_path, resume="", report=lambda line: None)


def test_the_rate_is_that_of_the_step_also_after_a_stop(store, tiny, tmp_path, monkeypatch):
    rates = []
    honest = loop.set_learning_rate
    monkeypatch.setattr(
        loop, "set_learning_rate", lambda optimizer, value: (rates.append(value), honest(optimizer, value))
    )
    config = tiny()
    with pytest.raises(Interrupted):
        run(config, store, tmp_path, at=3, event=lambda task: os.kill(os.getpid(), signal.SIGTERM))
    run(config, store, tmp_path)
    assert rates == [learning_rate(config, step) for step in (0, 1, 2, 3, 3, 4, 5)]


def test_what_is_logged(store, tiny, tmp_path):
    config = tiny(steps=4, precision="fp32")
    task = run(config, store, tmp_path)
    first = lines(tmp_path)[0]
    twin = TextTask(config, store, CPU)
    twin.prepare()
    outcome = twin.step(0)
    terms = outcome.loss.terms
    expected = {
        "step": 0,
        "loss": outcome.loss.total.item(),
        "invariance": float(terms["invariance"]),
        "sigreg": float(terms["sigreg"]),
        "effective_weight": config.weight * config.reference_rows / config.batch,
        "sigreg_over_floor": float(terms["sigreg"]) / gaussian_floor(),
        "effective_rank": float(effective_rank(outcome.embeddings)),
        "view_shuffle": float(view_shuffle_control(outcome.embeddings)),
    }
    assert {key: first[key] for key in expected} == pytest.approx(expected)
    assert [line["read"] for line in lines(tmp_path)] == task.reads


def test_the_first_and_the_last_step_are_logged(store, tiny, tmp_path):
    run(tiny(steps=6, log_every=4), store, tmp_path)
    assert [line["step"] for line in lines(tmp_path)] == [0, 4, 5]


def test_tokens_a_second_times_seconds_are_tokens(store, tiny, tmp_path, monkeypatch):
    clock = iter(range(0, 1000, 2))
    monkeypatch.setattr(loop.time, "perf_counter", lambda: next(clock))
    task = run(tiny(steps=5), store, tmp_path)
    for done, line in enumerate(lines(tmp_path), start=1):
        assert line["read_per_s"] * 2 * done == pytest.approx(sum(task.reads[:done]))


def test_probes_are_logged_once_also_after_a_stop(store, tiny, tmp_path):
    def probed(task, done: int) -> dict:
        return {"probe": done} if done % 3 == 0 else {}

    config = tiny(steps=9, log_every=100)
    for at in (0, 5, -1):
        task = Watched(config, store, CPU, at=at, event=lambda task: os.kill(os.getpid(), signal.SIGTERM))
        try:
            train(task, config, tmp_path, resume="", report=lambda line: None, probe=probed)
        except Interrupted:
            assert at >= 0
    probes = [(line["step"], line["probe"]) for line in lines(tmp_path) if "probe" in line]
    assert probes == [(-1, 0), (2, 3), (5, 6), (8, 9)]


def test_metrics_of_steps_to_come_are_dropped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 0}\n{"step": 3}\n{"step": 4}\n{"st')
    with metrics_file(path, first=4) as write:
        write({"step": 4, "again": True})
    assert path.read_text() == '{"step": 0}\n{"step": 3}\n{"step": 4, "again": true}\n'


def test_metrics_on_a_full_disk(tmp_path):
    full = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(ResourceError, match="disk is full"), metrics_file(tmp_path / "metrics.jsonl", 0):
        raise full


def test_a_run_of_one_step(store, tiny, tmp_path):
    task = run(tiny(steps=1), store, tmp_path)
    assert task.steps == [0]
    assert len(lines(tmp_path)) == 1


def test_the_process_is_left_as_it_was(store, tiny, tmp_path):
    """A flush of denormals that stays on would change whatever is computed afterwards."""
    run(tiny(steps=1), store, tmp_path)
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.tensor(1e-40) * 0.5 > 0
