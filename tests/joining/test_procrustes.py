"""Maps fitted on pairs, against planted rotations and against the formulas spelt out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coview.alignment.recipes import Layer
from coview.errors import InputError, UsageError
from coview.joining.procrustes import METHODS, Moments, fit_rotation, moments, procrustes, ridge, whitened
from coview.joining.rotation import unit_rows


def turn(rng, wide: int, narrow: int) -> np.ndarray:
    """A random matrix (wide, narrow) with orthonormal columns."""
    return np.linalg.qr(rng.normal(size=(wide, narrow)))[0]


def planted(d: int, noise: float, seed: int, n: int = 600):
    rng = np.random.default_rng([seed, d])
    rotation = turn(rng, d, d)
    x = rng.normal(size=(n, d)) * np.arange(1, d + 1) ** -0.5
    return x, x @ rotation + noise * x.std() * rng.normal(size=x.shape), rotation


@settings(max_examples=20)
@given(d=st.integers(2, 24), extra=st.integers(0, 8), seed=st.integers(0, 99), swap=st.booleans())
def test_a_rotation_of_rows_is_recovered_and_not_its_transpose(d, extra, seed, swap):
    rng = np.random.default_rng(seed)
    rotation = turn(rng, d + extra, d)
    if swap:  # into a wider space: semi-orthogonal, all lengths are kept
        rotation = rotation.T
    x = turn(rng, 4 * (d + extra), len(rotation))
    np.testing.assert_allclose(procrustes(x, x @ rotation), rotation, atol=1e-4)


@pytest.mark.parametrize("d", [16, 64, 256])
@pytest.mark.parametrize("noise", [0.0, 0.3, 0.7, 1.2])
def test_no_rotation_fits_better_than_the_one_found(d, noise):
    x, y, truth = planted(d, noise, seed=1)
    found = procrustes(x, y).astype(np.float64)

    def error(w) -> float:
        return float(np.square(x @ w - y).sum())

    np.testing.assert_allclose(found.T @ found, np.eye(d), atol=1e-5)
    slack = 1e-6 * float(np.square(y).sum())
    assert error(found) <= error(truth) + slack
    # At the optimum tr(Wᵀ XᵀY) is the sum of the singular values of XᵀY (von Neumann).
    assert np.vdot(found, x.T @ y) == pytest.approx(np.linalg.svd(x.T @ y, compute_uv=False).sum(), rel=1e-6)
    rng = np.random.default_rng(2)
    for _ in range(3):
        skew = 1e-2 * rng.normal(size=(d, d))
        nearby = found @ np.linalg.qr(np.eye(d) + skew - skew.T)[0]
        assert error(nearby) > error(found) - slack


@pytest.mark.parametrize("method", METHODS)
def test_a_fit_knows_nothing_of_offset_scale_or_order(method):
    x, y, _ = planted(12, 0.2, seed=3)
    shuffled = np.random.default_rng(4).permutation(len(x))
    first = fit_rotation(x, y, method=method)
    second = fit_rotation(5 * x + 3, 0.1 * y - 7, method=method)
    np.testing.assert_allclose(first.map(x), second.map(5 * x + 3), atol=2e-4)
    np.testing.assert_allclose(first.target(y), second.target(0.1 * y - 7), atol=2e-4)
    ordered = fit_rotation(Layer(x, order=shuffled), Layer(y, order=shuffled), method=method)
    if method != "ridge":  # whose folds are drawn by place
        np.testing.assert_allclose(ordered.matrix, first.matrix, atol=1e-5)
    assert (np.einsum("ij,ij->i", first.map(x), first.target(y)) > 0.5).all()


def test_whitened_with_all_weight_is_least_squares_and_with_none_a_rotation_of_whitened_rows():
    x, y, _ = planted(8, 0.5, seed=5)
    m = moments(x, y)
    expected = np.linalg.lstsq(x, y, rcond=None)[0]
    np.testing.assert_allclose(whitened(m, 1.0)[0], expected, atol=1e-5)

    def root(matrix, power):
        values, vectors = np.linalg.eigh(matrix)
        return vectors * values**power @ vectors.T

    left, _, right = np.linalg.svd(root(m.xx, -0.5) @ m.xy @ root(m.yy, -0.5))
    expected = root(m.xx, -0.5) @ left @ right @ root(m.yy, 0.5)
    np.testing.assert_allclose(whitened(m, 0.0)[0], expected, atol=1e-6)


def test_whitening_leaves_out_a_constant_column():
    x, y, _ = planted(8, 0.1, seed=6)
    x[:, 3] = 0
    matrix, rank = whitened(moments(x, y))
    assert rank == 7
    assert np.isfinite(matrix).all()
    np.testing.assert_allclose(matrix[3], 0, atol=1e-9)


def test_ridge_solves_its_equation_with_the_strength_that_validation_likes_best():
    rng = np.random.default_rng(7)
    x = rng.normal(size=(80, 30))
    y = x[:, :5] @ rng.normal(size=(5, 20)) + 3 * rng.normal(size=(80, 20))
    matrix, strength = ridge(x, y, seed=1)
    own = x.T @ x
    expected = np.linalg.solve(own + strength * np.trace(own) / 30 * np.eye(30), x.T @ y)
    np.testing.assert_allclose(matrix, expected, rtol=1e-3, atol=1e-5)
    order = np.random.default_rng([1, 21]).permutation(80)

    def cosine(weight: float) -> float:
        total = 0.0
        for held in np.array_split(order, 5):
            kept = np.setdiff1d(order, held)
            own = x[kept].T @ x[kept]
            w = np.linalg.solve(own + weight * np.trace(own) / 30 * np.eye(30), x[kept].T @ y[kept])
            total += float((unit_rows(x[held] @ w) * unit_rows(y[held])).sum())
        return total

    assert cosine(strength) >= max(cosine(strength / 10**0.5), cosine(strength * 10**0.5))
    assert 1e-3 < strength < 1e3


def test_moments_of_blocks_are_those_of_the_whole():
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=(9000, 3)), rng.normal(size=(9000, 5))
    m = moments(x, y)
    for found, expected in zip((m.xx, m.yy, m.xy), (x.T @ x, y.T @ y, x.T @ y), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert isinstance(m, Moments)


def test_what_few_pairs_leave_open_is_mapped_to_zero_and_said():
    x, y, rotation = planted(20, 0.0, seed=9)
    fitted = fit_rotation(x[:6], y[:6])
    assert fitted.manifest["rank"] == 5  # six pairs, less the mean
    assert fitted.manifest["pairs"] == 6
    np.testing.assert_allclose(np.linalg.svd(fitted.matrix, compute_uv=False)[5:], 0, atol=1e-5)
    inside = (x[:6] - x[:6].mean(axis=0)) @ fitted.matrix
    np.testing.assert_allclose(inside, (x[:6] - x[:6].mean(axis=0)) @ rotation, atol=1e-4)


@pytest.mark.parametrize(
    ("x", "y", "method", "error", "words"),
    [
        (np.eye(5, 3), np.eye(5, 4), None, UsageError, "widths differ (3 and 4)"),
        (np.eye(5, 3), np.eye(5, 3), "procustes", UsageError, "Did you mean 'procrustes'"),
        (np.eye(5), np.eye(6, 5), None, InputError, "5 rows cannot be paired with 6"),
        (np.eye(1, 3), np.eye(1, 3), None, InputError, "1 pair is too few"),
        (np.eye(9, 5), np.eye(9, 5), "whitened", InputError, "at least 10 are needed"),
        (np.eye(9, 5), np.eye(9, 5), "ridge", InputError, "at least 10 are needed"),
        (np.ones((9, 5)), np.eye(9, 5), None, InputError, "row 0 has no direction"),
    ],
)
def test_what_cannot_be_fitted_is_said(x, y, method, error, words):
    with pytest.raises(error) as raised:
        fit_rotation(x.astype(np.float32), y.astype(np.float32), method=method)
    assert words in str(raised.value)
