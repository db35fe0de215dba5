import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spaces import latent_views

from coview.alignment import recipes
from coview.alignment.recipes import Layer, check_layer, percentile_by_sample, percentile_of_all, prepare
from coview.errors import InputError, UsageError


def unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def test_center_subtracts_the_mean_and_then_normalises():
    X = latent_views(50, 0)[0] + 3
    [layer] = prepare([Layer(X)], "center")
    np.testing.assert_allclose(layer.matrix(), unit(X - X.mean(axis=0)), atol=1e-12)


def test_raw_changes_nothing():
    X = latent_views(50, 0)[0]
    np.testing.assert_array_equal(prepare([Layer(X)], "raw")[0].matrix(), X)


@pytest.mark.parametrize("recipe", ["prh", "prh-exact"])
def test_a_stack_shares_one_threshold_and_a_list_has_one_each(recipe):
    stack = np.stack([latent_views(60, seed)[0] * (seed + 1) for seed in range(3)], axis=1)
    if recipe == "prh":
        shared = np.quantile(np.abs(stack).reshape(60, -1), 0.95, axis=1).mean()
        own = [np.quantile(np.abs(stack[:, i]), 0.95, axis=1).mean() for i in range(3)]
    else:
        shared = np.sort(np.abs(stack), axis=None)[int(0.95 * stack.size)]
        own = [np.sort(np.abs(stack[:, i]), axis=None)[int(0.95 * stack[:, i].size)] for i in range(3)]
    layers = [Layer(stack[:, i]) for i in range(3)]
    for i, layer in enumerate(prepare(layers, recipe, stacked=True)):
        expected = unit(np.clip(stack[:, i], -shared, shared))
        np.testing.assert_allclose(layer.matrix(), expected, atol=1e-5)
    for i, layer in enumerate(prepare(layers, recipe)):
        assert layer.clip == pytest.approx(own[i], rel=1e-6)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**16),
    n=st.integers(1, 60),
    d=st.integers(1, 40),
    q=st.sampled_from([0, 0.5, 0.95, 1]),
)
def test_streamed_percentiles_equal_sorting(seed, n, d, q):
    X = np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)
    X[X > 1.5] = 1.5  # repeated values
    assert percentile_of_all([Layer(X)], q) == np.sort(np.abs(X), axis=None)[min(int(q * X.size), X.size - 1)]
    by_sample = np.quantile(np.abs(X), q, axis=1).mean()
    assert percentile_by_sample([Layer(X)], q) == pytest.approx(by_sample, rel=1e-6, abs=1e-12)


def test_percentiles_of_many_blocks(monkeypatch):
    X = latent_views(500, 1)[0].astype(np.float32)
    whole = percentile_of_all([Layer(X)]), percentile_by_sample([Layer(X)])
    monkeypatch.setattr(recipes, "ROWS_AT_ONCE", 37)
    assert percentile_of_all([Layer(X)]) == whole[0]
    assert percentile_by_sample([Layer(X)]) == pytest.approx(whole[1], rel=1e-12)


def test_layers_are_prepared_as_they_are_read(tmp_path):
    X = latent_views(80, 2)[0].astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    order = np.random.default_rng(0).permutation(80)[:50]
    [layer] = prepare([Layer(np.load(tmp_path / "x.npy", mmap_mode="r"), order=order)], "center")
    assert layer.shape == (50, 64)
    expected = unit(X[order] - X[order].mean(axis=0))
    np.testing.assert_allclose(layer.rows(slice(10, 20)), expected[10:20], atol=1e-6)
    np.testing.assert_allclose(layer.loaded().matrix(), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("value", "what"), [(np.nan, "NaN"), (np.inf, "infinite"), (None, "constant"), (0.0, "constant")]
)
def test_rows_no_metric_can_use_are_named(value, what):
    X = latent_views(20, 3)[0].astype(np.float32)
    if value is None or value == 0:
        X[7] = 2.5 if value is None else 0
    else:
        X[7, 3] = value
    with pytest.raises(InputError, match=rf"somewhere: row 7 .*{what}"):
        check_layer(Layer(X, name="somewhere"))


def test_a_row_that_is_the_mean_has_no_direction():
    X = np.array([[1.0, 2, 4], [3, 4, 0], [2, 3, 2]])
    [layer] = prepare([Layer(X, order=np.array([0, 2, 1]), name="a.npy")], "center")
    with pytest.raises(InputError, match=r"a\.npy: row 2 has no direction"):  # the row of the file
        layer.rows(slice(1, 3))


def test_unknown_recipe():
    with pytest.raises(UsageError, match="Did you mean 'center'"):
        prepare([], "centre")
