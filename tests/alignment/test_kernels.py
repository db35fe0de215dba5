"""CKA and its kin against the formulas written with N x N matrices in double precision."""

import numpy as np
import pytest
from scipy.stats import spearmanr
from spaces import independent, latent_views, rotation

from coview.alignment import kernels
from coview.alignment.kernels import cka, linear_kernel
from coview.alignment.metrics import cknna, procrustes, rsa, svcca
from coview.alignment.neighbours import top_neighbours
from coview.alignment.recipes import Layer
from coview.errors import InputError, ResourceError, UsageError


def slow_cka(K, L, unbiased):
    n = len(K)

    def hsic(K, L):
        if not unbiased:
            H = np.eye(n) - 1 / n
            return np.trace(K @ H @ L @ H)
        K, L = K - np.diag(np.diag(K)), L - np.diag(np.diag(L))
        middle = K.sum() * L.sum() / ((n - 1) * (n - 2))
        return np.trace(K @ L) + middle - 2 * (K @ L).sum() / (n - 2)

    return hsic(K, L) / np.sqrt(hsic(K, K) * hsic(L, L))


@pytest.mark.parametrize("unbiased", [True, False])
@pytest.mark.parametrize("route", ["gram", "features"])
def test_linear_cka_equals_its_formula_by_both_routes(unbiased, route, monkeypatch):
    monkeypatch.setattr(kernels, "GRAM_UP_TO", 10**6 if route == "gram" else 0)
    for X, Y in (latent_views(90, 0), independent(40, 1), independent(200, 2, (8, 300))):
        expected = slow_cka(X @ X.T, Y @ Y.T, unbiased)
        assert cka(X, Y, unbiased=unbiased) == pytest.approx(expected, abs=1e-9)
        X32, Y32 = X.astype(np.float32), Y.astype(np.float32)
        assert cka(X32, Y32, unbiased=unbiased) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("unbiased", [True, False])
@pytest.mark.parametrize("route", ["gram", "features"])
def test_rows_of_both_routes_are_the_rows(unbiased, route, monkeypatch):
    monkeypatch.setattr(kernels, "GRAM_UP_TO", 10**6 if route == "gram" else 0)
    X, Y = latent_views(90, 3)
    x, y = (linear_kernel(Layer(side), unbiased=unbiased) for side in (X, Y))
    rng = np.random.default_rng(0)
    half, order = np.sort(rng.permutation(90)[:45]), rng.permutation(90)
    assert x.rows(half).compare(y.rows(half)) == pytest.approx(cka(X[half], Y[half], unbiased=unbiased))
    assert x.compare(y.rows(order)) == pytest.approx(cka(X, Y[order], unbiased=unbiased))


def test_a_common_offset_does_not_matter_in_single_precision():
    """Uncentred single precision gives -1 or 0 here instead of .80."""
    rng = np.random.default_rng(0)
    X = (30 + rng.standard_normal((1024, 768))).astype(np.float32)
    Y = (X + 0.5 * rng.standard_normal((1024, 768))).astype(np.float32)
    assert cka(X, Y) == pytest.approx(0.8, abs=0.002)


@pytest.mark.parametrize("scale", [1e-4, 1e3])
def test_scale_does_not_matter(scale):
    X, Y = (side.astype(np.float32) for side in latent_views(64, 4))
    small = np.float32(scale)
    assert cka(X * small, Y) == pytest.approx(cka(X, Y), abs=1e-5)
    assert cka(X * small, Y, unbiased=False) == pytest.approx(cka(X, Y, unbiased=False), abs=1e-5)
    assert cknna(X * small, Y * small, 10, similarity="dot") == pytest.approx(
        cknna(X, Y, 10, similarity="dot"), abs=1e-5
    )


def test_biased_cka_of_unrelated_features_follows_its_formula():
    X, Y = independent(512, 5, (384, 384))
    assert cka(X, Y, unbiased=False) == pytest.approx(384 / (512 + 384), abs=0.01)
    assert abs(cka(X, Y)) < 0.01


def test_unbiased_cka_may_be_negative():
    assert min(cka(*independent(20, seed)) for seed in range(10)) < 0


@pytest.mark.parametrize("unbiased", [True, False])
def test_gaussian_kernels_equal_their_formula(unbiased):
    X, Y = latent_views(60, 6)

    def kernel(X, sigma):
        return np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=-1) / (2 * sigma**2))

    expected = slow_cka(kernel(X, 10.0), kernel(Y, 10.0), unbiased)
    assert cka(X, Y, kernel="rbf", sigma=10.0, unbiased=unbiased) == pytest.approx(expected)
    median = [
        np.median(np.linalg.norm(side[:, None] - side[None], axis=-1)[np.triu_indices(60, 1)])
        for side in (X, Y)
    ]
    expected = slow_cka(kernel(X, median[0]), kernel(Y, median[1]), unbiased)
    assert cka(X, Y, kernel="rbf", unbiased=unbiased) == pytest.approx(expected)


def test_cknna_equals_the_masked_kernels():
    X, Y = latent_views(70, 7)
    k, n = 8, 70

    def masked(K, lists_a, lists_b):
        mask = np.zeros((2, n, n))
        for one, lists in zip(mask, (lists_a, lists_b), strict=True):
            one[np.arange(n)[:, None], lists] = 1
        return K * mask[0] * mask[1]

    def hsic(K, L):
        middle = K.sum() * L.sum() / ((n - 1) * (n - 2))
        return (K * L.T).sum() + middle - 2 * (K @ L).sum() / (n - 2)

    a, b = (top_neighbours(side, k, metric="dot") for side in (X, Y))
    K, L = X @ X.T, Y @ Y.T
    shared = hsic(masked(K, a, b), masked(L, a, b))
    own = hsic(masked(K, a, a), masked(K, a, a)) * hsic(masked(L, b, b), masked(L, b, b))
    assert cknna(X, Y, k, similarity="dot") == pytest.approx(shared / own**0.5)


def test_svcca_is_the_mean_canonical_correlation():
    X, Y = latent_views(80, 8)

    def main(X):
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        return np.linalg.svd(X, full_matrices=False)[0][:, :5]

    expected = np.linalg.svd(main(X).T @ main(Y), compute_uv=False).mean()
    assert svcca(X, Y, components=5) == pytest.approx(expected)
    assert svcca(X[:20], Y[:20], components=19) == pytest.approx(1)  # as many as there are: 1 by construction
    assert svcca(X[:, :6], Y, components=10) <= 1  # fewer columns than components


def test_procrustes_is_the_nuclear_norm_and_finds_rotations():
    X, Y = latent_views(80, 9)
    A, B = X - X.mean(axis=0), Y - Y.mean(axis=0)
    expected = np.linalg.svd(A.T @ B, compute_uv=False).sum() / (np.linalg.norm(A) * np.linalg.norm(B))
    assert procrustes(X, Y) == pytest.approx(expected)
    assert (
        procrustes(X[:30], Y[:30])
        == pytest.approx(  # D > N goes through coordinates
            np.linalg.svd(
                (X[:30] - X[:30].mean(axis=0)).T @ (Y[:30] - Y[:30].mean(axis=0)), compute_uv=False
            ).sum()
            / (np.linalg.norm(X[:30] - X[:30].mean(axis=0)) * np.linalg.norm(Y[:30] - Y[:30].mean(axis=0)))
        )
    )
    assert procrustes(X, 3 * X @ rotation(64) + 1) == pytest.approx(1)


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
def test_rsa_is_the_rank_correlation_of_distances(similarity):
    X, Y = latent_views(40, 10)
    above = np.triu_indices(40, 1)

    def distances(X):
        if similarity == "euclidean":
            return np.linalg.norm(X[:, None] - X[None], axis=-1)[above]
        X = X / np.linalg.norm(X, axis=1, keepdims=True) if similarity == "cosine" else X
        return -(X @ X.T)[above]

    expected = spearmanr(distances(X), distances(Y)).statistic
    assert rsa(X, Y, similarity=similarity) == pytest.approx(expected)


def test_too_few_rows_are_refused():
    X, Y = independent(3, 11)
    with pytest.raises(InputError, match="at least 4 rows"):
        cka(X, Y)
    with pytest.raises(InputError, match="at least 3 rows"):
        rsa(X[:2], Y[:2])


def test_constant_features_score_nan_and_not_a_number_that_looks_right():
    assert np.isnan(cka(np.ones((10, 3)), independent(10, 12)[0]))


def test_all_pairs_of_too_many_rows_are_refused_before_they_fill_the_memory():
    with pytest.raises(ResourceError, match="GiB"):
        rsa(*[np.zeros((20_000, 1))] * 2)


def test_unknown_kernel():
    with pytest.raises(UsageError, match="unknown kernel"):
        cka(*independent(10, 0), kernel="rfb")
