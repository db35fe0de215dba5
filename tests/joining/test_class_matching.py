"""The blind match against exhaustive search, over seeds, and what is left untouched."""

from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from coview.errors import InputError, UsageError
from coview.joining.class_matching import DISTORTIONS, blind_match, classify_clusters, kernel, match_classes


def classes(n, *, noise=0.1, seed=0, images=6, d=12):
    """Images, labels and texts of n classes, the texts turned."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n, d)) * np.arange(1, d + 1) ** -0.5
    labels = np.repeat(np.arange(n), images)
    pictures = centres[labels] + noise * rng.normal(size=(len(labels), d))
    texts = (centres + noise * rng.normal(size=centres.shape)) @ np.linalg.qr(rng.normal(size=(d, d)))[0]
    return pictures, labels, texts


@pytest.mark.parametrize("distortion", DISTORTIONS)
@pytest.mark.parametrize("n", [4, 7])
def test_no_permutation_agrees_better(distortion, n):
    rng = np.random.default_rng(n)
    x, y = rng.normal(size=(n, 5)), rng.normal(size=(n, 5))
    found = match_classes(x, y, distortion=distortion, k=2)
    a, b = kernel(x, distortion, 2), kernel(y, distortion, 2)
    values = [np.vdot(a, b[np.ix_(p, p)]) / (n * (n - 1)) for p in map(list, permutations(range(n)))]
    assert_allclose(found.agreement, max(values))


def test_kernels_by_their_definitions():
    rows = np.random.default_rng(0).normal(size=(9, 4))
    slow = -np.array([[np.linalg.norm(a - b) for b in rows] for a in rows])
    off = ~np.eye(9, dtype=bool)
    fast = kernel(rows, "gromov-wasserstein")
    assert_allclose(fast[off], (slow[off] - slow[off].mean()) / slow[off].std(), atol=1e-6)
    near = np.array([[sorted(row, reverse=True).index(one) <= 2 for one in row] for row in slow])
    mutual = kernel(rows, "mutual-knn", 2)
    assert_array_equal(mutual > 0, near & off)


@pytest.mark.parametrize("n", [10, 30])
def test_classes_of_one_shape_are_matched_in_every_seed(n):
    images, labels, texts = classes(n)
    trials = blind_match(images, labels, texts, seeds=3, restarts=30)
    assert [trial.accuracy for trial in trials] == [1.0] * 3
    assert all(trial.agreement >= trial.true_agreement - 1e-9 for trial in trials)


def test_unrelated_classes_are_matched_by_chance_only():
    images, labels, _ = classes(12)
    texts = np.random.default_rng(9).normal(size=(12, 12))
    trials = blind_match(images, labels, texts, seeds=8, restarts=10)
    assert np.mean([trial.accuracy for trial in trials]) < 0.35


@pytest.mark.parametrize("subset", [None, 8])
def test_calls_leave_their_inputs_alone_and_repeat(subset):
    images, labels, texts = classes(12, noise=0.4)
    before = [np.copy(one) for one in (images, labels, texts)]
    first = blind_match(images, labels, texts, classes=subset, seeds=3, restarts=10)
    second = blind_match(images, labels, texts, classes=subset, seeds=3, restarts=10)
    for one, other in zip(first, second, strict=True):
        assert one.accuracy == other.accuracy
        assert one.agreement == other.agreement
        assert_array_equal(one.classes, other.classes)
        assert len(one.classes) == (subset or 12)
    assert any((one.classes != first[0].classes).any() for one in first[1:]) == (subset is not None)
    for now, then in zip((images, labels, texts), before, strict=True):
        assert_array_equal(now, then)


def test_more_seeds_repeat_the_first():
    images, labels, texts = classes(10, noise=0.4)
    few, more = (blind_match(images, labels, texts, classes=6, seeds=n, restarts=10) for n in (2, 4))
    assert [trial.agreement for trial in few] == [trial.agreement for trial in more[:2]]


@pytest.mark.parametrize("kind", [np.int64, np.float32, np.float64])
def test_integers_and_both_precisions(kind):
    rng = np.random.default_rng(3)
    x = rng.integers(-9, 9, size=(8, 5))
    order = rng.permutation(8)
    found = match_classes(x.astype(kind), x[order].astype(kind))
    assert_array_equal(order[found.order], np.arange(8))
    assert_array_equal(match_classes(x.astype(kind), x.astype(kind)).order, np.arange(8))


def test_clusters_are_named_without_labels():
    images, labels, texts = classes(6, noise=0.05, images=20)
    found = classify_clusters(images, labels, texts, restarts=20)
    assert found.accuracy == found.oracle == found.matching == 1
    assert_array_equal(found.predicted, labels)
    shuffled = np.random.default_rng(0).permutation(labels)
    blind = classify_clusters(images, shuffled, texts, restarts=20)
    assert_array_equal(blind.predicted, found.predicted)  # labels judge, and have no other part


def test_what_is_wrong_is_said():
    images, labels, texts = classes(5)
    with pytest.raises(InputError, match="class 0 has no image"):
        blind_match(images, np.where(labels == 0, 1, labels), texts)
    with pytest.raises(InputError, match="between 0 and 4"):
        blind_match(images, labels + 1, texts)
    with pytest.raises(UsageError, match="at least three"):
        blind_match(images, labels, texts, classes=6)
    with pytest.raises(InputError, match="5 items cannot be matched with 4"):
        match_classes(texts, texts[:4])
    with pytest.raises(UsageError, match="gromov"):
        match_classes(texts, texts, distortion="gromov")
    with pytest.raises(UsageError, match="k = 5"):
        match_classes(texts, texts, distortion="mutual-knn", k=5)
