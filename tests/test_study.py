import time
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import replace
from multiprocessing import get_context

import numpy as np
import pytest

from coview.alignment import align
from coview.errors import InputError, Interrupted, UsageError
from coview.study import ARMS, RECIPE, difference, load_arms, neighbours, overlap, stopping


def test_overlap_is_what_align_reports():
    images = np.random.default_rng(0).standard_normal((60, 6)).astype(np.float32)
    rows = np.random.default_rng(3).standard_normal((60, 4)).astype(np.float32) + images[:, :4]
    reported = align(rows, images, k=5, recipe=RECIPE, permutations=0, splits=0).score
    assert overlap(rows, neighbours(images, 5), 5) == pytest.approx(reported, abs=1e-12)


def test_difference_is_paired_and_has_no_interval_for_one_seed():
    row = difference([3.0, 4.0, 5.5], [1.0, 3.0, 4.0])
    assert row["by_seed"] == [2.0, 1.0, 1.5]
    half = 4.302653 * 0.5 / np.sqrt(3)  # Student's t with two degrees of freedom; deviation 0.5
    assert (row["mean"], row["low"], row["high"]) == pytest.approx((1.5, 1.5 - half, 1.5 + half), rel=1e-6)
    assert difference([1.0], [0.5]) == {"mean": 0.5, "low": None, "high": None, "by_seed": [0.5]}


def test_arms_share_what_is_common(tmp_path):
    file = tmp_path / "arms.yaml"
    file.write_text("common: {steps: 7, size: xs}\nbad: {mask_rate: 0.2}\n")
    arms = load_arms(file)
    assert tuple(arms) == ARMS
    assert all(config.steps == 7 and config.views == arm for arm, config in arms.items())
    assert replace(arms["bad"], views="good", mask_rate=arms["good"].mask_rate) == arms["good"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("goood: {}", "Did you mean 'good'"),
        ("good: {stepz: 3}", "Did you mean 'steps'"),
        ("good: 3", "mapping"),
        ("{", "YAML"),
        ("good: {steps: 0}", "at least 1"),
    ],
)
def test_arms_that_make_no_sense_are_refused(tmp_path, text, words):
    file = tmp_path / "arms.yaml"
    file.write_text(text)
    with pytest.raises((InputError, UsageError), match=words):
        load_arms(file)


def test_an_interrupted_study_ends_its_runs_and_starts_no_other(tmp_path):
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pool.submit(abs, -1).result()  # the worker is up
        waiting = [pool.submit(time.sleep, 3600) for _ in range(3)]
        with pytest.raises(Interrupted, match="kept"), stopping(pool, tmp_path):
            raise KeyboardInterrupt
    assert not wait(waiting, timeout=60).not_done


def test_a_run_that_fails_ends_the_others_and_says_why(tmp_path):
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pool.submit(abs, -1).result()
        pool.submit(time.sleep, 3600)
        with pytest.raises(InputError, match="broken"), stopping(pool, tmp_path):
            raise InputError("broken")
