"""The covariance between views against a loop over pairs, and that sharpening keeps the rotation."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from coview.errors import InputError
from coview.joining.sharpening import open_side


def scenes(rng, count=60, views=(2, 4), d=5):
    labels = np.repeat(np.arange(count), rng.integers(*views, size=count))
    shared = rng.normal(size=(count, d)) * np.arange(1, d + 1)
    return (shared[labels] + rng.normal(size=(len(labels), d))).astype(np.float32), labels


def test_the_covariance_between_views_is_the_mean_over_all_pairs_of_views():
    rng = np.random.default_rng(0)
    rows, labels = scenes(rng)
    order = rng.permutation(len(rows))
    side = open_side(rows[order], labels[order])
    centred = rows - rows.mean(axis=0)
    pairs = [
        np.outer(centred[i], centred[j])
        for i in range(len(rows))
        for j in range(len(rows))
        if i != j and labels[i] == labels[j]
    ]
    assert side.between is not None
    assert_allclose(side.between, np.mean(pairs, axis=0), rtol=1e-4, atol=1e-4)
    means = np.stack([centred[labels == one].mean(axis=0) for one in range(60)])
    assert_allclose(side.items, means, atol=1e-5)


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_sharpening_turns_as_the_rows_turn(power):
    rng = np.random.default_rng(1)
    rows, labels = scenes(rng)
    rotation = np.linalg.qr(rng.normal(size=(5, 5)))[0].astype(np.float32)
    one, other = open_side(rows, labels), open_side(rows @ rotation, labels)
    assert_allclose(one.at(power) @ rotation, other.at(power), atol=2e-4)


def test_without_views_nothing_is_sharpened():
    rows = np.random.default_rng(2).normal(size=(20, 4))
    assert open_side(rows).between is None
    assert open_side(rows, np.arange(20)).between is None
    assert_allclose(np.linalg.norm(open_side(rows).at(0), axis=1), 1, rtol=1e-5)


def test_what_is_wrong_with_rows_is_said():
    with pytest.raises(InputError, match="3 scenes for 4 rows"):
        open_side(np.ones((4, 2)), [1, 2, 3])
    with pytest.raises(InputError, match="shape"):
        open_side(np.ones(4))
    with pytest.raises(InputError, match="row 1"):
        open_side(np.array([[1.0, 2], [np.nan, 1]]))
