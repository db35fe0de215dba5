"""A batch is a pure function of (seed, step, rank, world size), and an epoch shows each scene once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coview.data.batches import mix, permute, scene_batch


@given(size=st.integers(1, 3000), key=st.integers(0, 2**70))
@settings(max_examples=60)
def test_a_permutation_is_a_bijection(size, key):
    assert np.array_equal(np.sort(permute(np.arange(size), size, key)), np.arange(size))


@given(size=st.integers(1, 2**40), key=st.integers(0, 2**64 - 1), start=st.integers(0, 2**40))
@settings(max_examples=60)
def test_a_point_is_permuted_without_the_others(size, key, start):
    index = (start + np.arange(5)) % size
    together = permute(index, size, key)
    assert ((together >= 0) & (together < size)).all()
    assert [int(permute(np.array([one]), size, key)[0]) for one in index] == together.tolist()


def test_permutations_look_random():
    """Over many keys every value lands everywhere alike, and neighbours do not stay neighbours."""
    size, keys = 11, 4000
    where = np.stack([permute(np.arange(size), size, key) for key in range(keys)])
    counts = np.stack([np.bincount(where[:, place], minlength=size) for place in range(size)])
    chi_square = ((counts - keys / size) ** 2).sum() / (keys / size)
    freedom = (size - 1) ** 2
    assert abs(chi_square - freedom) < 5 * np.sqrt(2 * freedom)
    steps = np.bincount((np.diff(where, axis=1) % size).ravel(), minlength=size)[1:]
    assert abs(steps / steps.sum() - 1 / (size - 1)).max() < 0.01


def test_mix_loses_nothing():
    values = np.arange(5000, dtype=np.uint64)
    assert len(np.unique(mix(values))) == len(values)


@given(
    scenes=st.integers(1, 200),
    batch=st.integers(1, 64),
    seed=st.integers(0, 10),
    step=st.integers(0, 500),
    world_size=st.integers(1, 9),
)
@settings(max_examples=80)
def test_batches_of_the_ranks_together_are_the_batch_of_one_process(scenes, batch, seed, step, world_size):
    whole = scene_batch(scenes, batch, seed=seed, step=step)
    parts = [
        scene_batch(scenes, batch, seed=seed, step=step, rank=rank, world_size=world_size)
        for rank in range(world_size)
    ]
    assert np.concatenate(parts).tolist() == whole.tolist()
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize(("scenes", "batch"), [(60, 12), (50, 7), (5, 16)])
def test_each_epoch_shows_each_scene_once(scenes, batch):
    steps = 3 * scenes  # enough for `batch` times three epochs
    stream = np.concatenate([scene_batch(scenes, batch, seed=4, step=step) for step in range(steps)])
    epochs = stream[: len(stream) // scenes * scenes].reshape(-1, scenes)
    assert (np.sort(epochs, axis=1) == np.arange(scenes)).all()
    assert (
        len(np.unique(epochs, axis=0)) > len(epochs) / 2
    )  # in another order, but for a chance that is 5! = 120


def test_other_seeds_and_steps_give_other_batches():
    drawn = [tuple(scene_batch(10_000, 16, seed=seed, step=step)) for seed in range(20) for step in range(20)]
    assert len(set(drawn)) == len(drawn)
