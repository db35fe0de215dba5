"""Zero-shot scoring against a loop over images, and against what must not matter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coview.errors import InputError
from coview.uses.class_list import ClassList
from coview.uses.zeroshot import class_rows, confusion_csv, zero_shot


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def problem(seed, images=120, classes=9, width=6, noise=0.6):
    """Images scattered about the class texts, some classes far more frequent than others."""
    rng = np.random.default_rng(seed)
    texts = unit(rng.standard_normal((classes, width)))
    labels = np.minimum(rng.geometric(0.3, images) - 1, classes - 1)
    return unit(texts[labels] + noise * rng.standard_normal((images, width))), texts, labels


def slow(images, texts, labels):
    """Top-1, top-5 and balanced accuracy, one image after the other."""
    first, within = [], []
    for image, label in zip(images, labels, strict=True):
        order = sorted(range(len(texts)), key=lambda index, image=image: -float(image @ texts[index]))
        first.append(order[0] == label)
        within.append(label in order[:5])
    recalls = [
        np.mean([hit for hit, one in zip(first, labels, strict=True) if one == c]) for c in set(labels)
    ]
    return np.mean(first), np.mean(within), np.mean(recalls)


@settings(max_examples=10)
@given(st.integers(0, 1000), st.integers(2, 12))
def test_equals_the_slow_way(seed, classes):
    images, texts, labels = problem(seed, classes=classes)
    result = zero_shot(images, texts, labels)
    np.testing.assert_allclose((result.top1, result.top5, result.balanced), slow(images, texts, labels))
    assert np.trace(result.confusion) == round(result.top1 * len(images))
    np.testing.assert_array_equal(result.confusion.sum(axis=1), np.bincount(labels, minlength=classes))


@settings(max_examples=10)
@given(st.integers(0, 1000))
def test_the_order_of_classes_does_not_matter(seed):
    """Symptom 21 of joining.md: near chance because classes came in another order."""
    images, texts, labels = problem(seed)
    order = np.random.default_rng(seed).permutation(len(texts))
    shuffled = zero_shot(images, texts[order], np.argsort(order)[labels])
    plain = zero_shot(images, texts, labels)
    for name in ("top1", "top5", "balanced"):
        assert getattr(shuffled, name) == pytest.approx(getattr(plain, name), abs=1e-12)
    np.testing.assert_array_equal(shuffled.confusion, plain.confusion[order][:, order])


def test_constant_embeddings_score_chance():
    images, texts, labels = problem(0)
    result = zero_shot(images, np.repeat(texts[:1], len(texts), axis=0), labels)
    assert result.top1 == pytest.approx(1 / 9)
    assert result.top5 == pytest.approx(5 / 9)
    assert result.balanced == pytest.approx(1 / 9)


def test_fewer_classes_than_five():
    images, texts, labels = problem(1, classes=3)
    result = zero_shot(images, texts, labels)
    assert (result.k, result.top5) == (3, 1.0)
    assert result.as_json()["top5"]["chance"] == 1.0
    assert result.signature == "zeroshot|images:120|classes:3|k:3|sim:cosine|ties:shared|v:0.1"


def test_intervals_cover_and_depend_on_the_seed_alone():
    images, texts, labels = problem(2, images=400)
    one, same, other = (zero_shot(images, texts, labels, seed=seed) for seed in (0, 0, 1))
    assert one.over_images == same.over_images
    assert one.over_images != other.over_images
    low, high = one.over_images["top1"]
    assert low < one.top1 < high
    # As wide as a binomial's, within a tenth
    assert (high - low) / 2 == pytest.approx(1.96 * np.sqrt(one.top1 * (1 - one.top1) / 400), rel=0.1)
    low, high = one.over_classes["balanced"]
    assert low < one.balanced < high


def test_intervals_over_classes_are_wide_when_classes_differ():
    """Half of the classes all right, half all wrong: other images change nothing, other classes do."""
    texts = np.eye(8, dtype=np.float32)
    labels = np.repeat(np.arange(8), 50)
    shown = np.where(labels < 4, labels, (labels + 1) % 8)
    result = zero_shot(texts[shown], texts, labels)
    width = {key: np.ptp(getattr(result, key)["balanced"]) for key in ("over_images", "over_classes")}
    assert result.balanced == 0.5
    assert width["over_images"] == 0
    assert width["over_classes"] > 0.5


def test_a_class_is_the_mean_of_its_texts():
    texts = unit(np.random.default_rng(3).standard_normal((5, 4)))
    rows = class_rows(texts, np.array([0, 0, 1, 1, 1]))
    expected = np.stack([texts[:2].mean(axis=0), texts[2:].mean(axis=0)])
    np.testing.assert_allclose(rows, unit(expected), atol=1e-6)


def test_a_text_that_says_nothing_counts_for_nothing():
    texts = np.array([[0.6, 0.8], [0, 0], [0, 0]], dtype=np.float32)
    np.testing.assert_allclose(class_rows(texts, np.array([0, 0, 1])), [[0.6, 0.8], [0, 0]])


def test_confusion_as_csv():
    texts = np.eye(2, dtype=np.float32)
    result = zero_shot(texts[[0, 1, 1]], texts, np.array([0, 0, 1]))
    table = confusion_csv(result, ClassList(("a, b", "c"), ("x", "y"), (("x",), ("y",))))
    assert table == 'true \\ predicted,"a, b",c\n"a, b",1,1\nc,0,1\n'


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (np.eye(3), [0, 1], "2 labels for 3 images"),
        (np.eye(3), [0, 1, 3], "from 0 to 2"),
        (np.eye(3), [0, 1, -1], "from 0 to 2"),
        (np.eye(4), [0, 1, 2, 0], "4 wide and class texts 3"),
    ],
)
def test_what_does_not_fit_is_refused(images, labels, message):
    with pytest.raises(InputError, match=message):
        zero_shot(images, np.eye(3), np.array(labels))
