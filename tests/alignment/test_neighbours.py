"""The search against a slow, obvious twin: every pair by itself in double precision, stable sort."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spaces import latent_views

from coview.alignment.neighbours import SIMILARITIES, NeighbourLists, half_depth, top_neighbours
from coview.alignment.rows import first_of_duplicates, similarity
from coview.errors import InputError, UsageError


def slow_neighbours(X, k, metric="cosine", groups=None):
    X = np.asarray(X, dtype=np.float64)
    n = len(X)
    groups = np.arange(n) if groups is None else groups
    lists = []
    for i in range(n):
        scores = similarity(X, np.full(n, i), np.arange(n), metric)
        scores[groups == groups[i]] = -np.inf
        lists.append(np.argsort(-scores, kind="stable")[:k])
    return np.array(lists)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**16),
    n=st.integers(5, 90),
    d=st.integers(1, 30),
    dtype=st.sampled_from([np.float16, np.float32, np.float64]),
    kind=st.sampled_from(["plain", "duplicates", "few values", "common offset", "scaled copies"]),
    metric=st.sampled_from(SIMILARITIES),
    grouped=st.booleans(),
    block=st.integers(1, 100),
    device=st.sampled_from([None, "cpu"]),
)
def test_equals_the_slow_twin(seed, n, d, dtype, kind, metric, grouped, block, device):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    if kind == "duplicates":
        X = X[rng.integers(0, n // 2, n)]
    elif kind == "few values":
        X = np.round(X) + 0.5
    elif kind == "common offset":
        X = X + 30
    elif kind == "scaled copies":
        X = X[rng.integers(0, n // 2, n)] * 2.0 ** rng.integers(-2, 3, (n, 1))
    X = X.astype(dtype)
    groups = rng.integers(0, max(2, n // 3), n) if grouped else None
    most = n - (1 if groups is None else np.bincount(groups).max())
    if most < 1:
        return
    k = int(rng.integers(1, most + 1))
    found = top_neighbours(X, k, metric=metric, groups=groups, block=block, device=device)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, slow_neighbours(X, k, metric, groups))


def test_precision_of_storage_does_not_reorder_anisotropic_rows():
    """A mean cosine of .99: single precision products alone would misorder a third of such lists."""
    X = (latent_views(600, 0)[0] + 60).astype(np.float32)
    np.testing.assert_array_equal(top_neighbours(X, 10), slow_neighbours(X, 10))


def test_the_same_result_for_every_block_size():
    X = latent_views(500, 1)[0].astype(np.float32)
    whole = top_neighbours(X, 20)
    for block in (64, 100, 333):
        np.testing.assert_array_equal(top_neighbours(X, 20, block=block), whole)


def test_duplicated_rows_keep_each_other_and_never_themselves():
    X = np.repeat(latent_views(30, 2)[0], 10, axis=0)
    lists = top_neighbours(X, 12)
    assert not (lists == np.arange(300)[:, None]).any()
    assert (lists[:, :9] // 10 == np.arange(300)[:, None] // 10).all()
    assert (np.diff(lists[:, :9], axis=1) > 0).all()  # the tie rule: the lower index first
    np.testing.assert_array_equal(first_of_duplicates(X), np.arange(300) // 10 * 10)


def test_all_rows_equal_is_one_great_tie():
    lists = top_neighbours(np.ones((5000, 4), dtype=np.float32), 3)
    np.testing.assert_array_equal(lists[0], [1, 2, 3])
    np.testing.assert_array_equal(lists[4000], [0, 1, 2])


def test_minus_zero_is_zero():
    np.testing.assert_array_equal(first_of_duplicates(np.array([[0.0, 1.0], [-0.0, 1.0]])), [0, 0])


def test_metrics_agree_on_unit_rows_and_differ_on_raw_ones():
    X = latent_views(200, 3)[0]
    X *= np.random.default_rng(0).uniform(0.2, 5, (200, 1))
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    lists = [top_neighbours(unit, 5, metric=metric) for metric in SIMILARITIES]
    np.testing.assert_array_equal(lists[0], lists[1])
    np.testing.assert_array_equal(lists[0], lists[2])
    raw = [top_neighbours(X, 5, metric=metric) for metric in SIMILARITIES]
    assert (raw[0] != raw[1]).any()
    assert (raw[0] != raw[2]).any()


def test_sampled_queries_are_rows_of_the_whole(tmp_path):
    X = latent_views(400, 4)[0].astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    queries = np.array([3, 390, 17, 200])
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    found = top_neighbours(mapped, 7, queries=queries, block=64)
    np.testing.assert_array_equal(found, top_neighbours(X, 7)[queries])


def test_tensors_are_searched_like_arrays():
    import torch

    X = latent_views(150, 5)[0].astype(np.float32)
    np.testing.assert_array_equal(top_neighbours(torch.from_numpy(X), 5), top_neighbours(X, 5))
    half = torch.from_numpy(X).bfloat16()
    np.testing.assert_array_equal(top_neighbours(half, 5), top_neighbours(half.float().numpy(), 5))


@pytest.mark.parametrize("k", [0, 5, 9])
def test_k_must_leave_neighbours_to_choose_from(k):
    with pytest.raises(UsageError, match="among 5 rows"):
        top_neighbours(np.eye(5), k)


def test_k_counts_only_rows_of_other_groups():
    with pytest.raises(UsageError, match="groups of up to 3"):
        top_neighbours(np.eye(6), 4, groups=np.repeat([0, 1], 3))


@pytest.mark.parametrize("group_size", [1, 5])
def test_lists_of_a_half_are_those_of_a_new_search(group_size):
    X = latent_views(300, 6)[0]
    groups = np.arange(300) // group_size
    lists = NeighbourLists(top_neighbours(X, half_depth(10, 300, group_size), groups=groups), 10)
    rng = np.random.default_rng(0)
    for _ in range(20):
        half = np.flatnonzero(np.isin(groups, rng.permutation(300 // group_size)[: 150 // group_size]))
        again = top_neighbours(X[half], 10, groups=groups[half])
        np.testing.assert_array_equal(lists.rows(half).ids, again)


def test_lists_follow_a_permutation_of_the_rows():
    X = latent_views(100, 7)[0]
    lists = NeighbourLists(top_neighbours(X, 6), 6)
    order = np.random.default_rng(1).permutation(100)
    np.testing.assert_array_equal(lists.rows(order).ids, top_neighbours(X[order], 6))


def test_sampled_lists_follow_a_permutation_of_the_queries():
    X = latent_views(100, 8)[0]
    queries = np.array([5, 20, 40, 77, 90])
    lists = NeighbourLists(top_neighbours(X, 60, queries=queries), 60, queries)
    order = np.array([3, 0, 4, 1, 2])
    moved = np.arange(100)
    moved[queries] = queries[order]
    np.testing.assert_array_equal(lists.rows(order).ids, top_neighbours(X[moved], 60, queries=queries))
    np.testing.assert_array_equal(lists.rows(np.array([1, 2])).ids, lists.ids[[1, 2]])


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_rows_without_direction_are_named(value):
    X = latent_views(20, 9)[0]
    X[13] = value
    with pytest.raises(InputError, match="row 13"):
        top_neighbours(X, 3)


@pytest.mark.parametrize("scale", [1e-25, 1e25])
def test_extreme_scales_are_no_trouble(scale):
    X = latent_views(50, 10)[0].astype(np.float32)
    np.testing.assert_array_equal(top_neighbours(X * np.float32(scale), 5), top_neighbours(X, 5))
