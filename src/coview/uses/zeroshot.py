"""Zero-shot classification: an image belongs to the class whose text lies nearest, no example ever shown.

A class stands for the mean of its texts' unit rows, scaled to unit length; an image is ranked against all
classes by cosine. Both sides are prepared with the means of the pairs the rotation was fitted on: means of
the test images would let an image be judged by its neighbours in the test.
"""

import csv
import io
from dataclasses import dataclass

import numpy as np

from coview.alignment.signature import format_signature
from coview.errors import InputError
from coview.uses.class_list import ClassList

ROWS_AT_ONCE = 4096
TIED = 1e-6  # similarities closer than this are equal: float32 products of one row can differ by as much
RESAMPLES = 1000
MEASURES = ("top1", "top5", "balanced")


@dataclass(frozen=True)
class ZeroShot:
    """How well classes were told.

    Attributes
    ----------
    top1, top5 : share of images whose class is nearest, or among the k nearest; classes that tie with it
        share its place, so that constant embeddings score chance and the order of classes never matters
    balanced : mean over classes of their top-1, so that a frequent class counts no more than a rare one
    k : min(5, number of classes)
    over_images, over_classes : 95 % percentile intervals by measure, from resampling images, and from
        resampling classes with all their images: how far the numbers would move with other images of these
        classes, and with other classes
    confusion : int array of shape (C, C), images of the row's class that were taken for the column's
    """

    top1: float
    top5: float
    balanced: float
    k: int
    over_images: dict[str, tuple[float, float]]
    over_classes: dict[str, tuple[float, float]]
    confusion: np.ndarray

    @property
    def signature(self) -> str:
        parts = {"images": int(self.confusion.sum()), "classes": len(self.confusion), "k": self.k}
        return format_signature("zeroshot", {**parts, "sim": "cosine", "ties": "shared", "v": "0.1"})

    def as_json(self) -> dict:
        """The numbers with their chance levels; without the confusion."""
        classes = len(self.confusion)
        chance = {"top1": 1 / classes, "top5": self.k / classes, "balanced": 1 / classes}
        measured = {
            name: {
                "value": getattr(self, name),
                "over_images": list(self.over_images[name]),
                "over_classes": list(self.over_classes[name]),
                "chance": chance[name],
            }
            for name in MEASURES
        }
        facts = {"k": self.k, "images": int(self.confusion.sum()), "classes": classes}
        return {**measured, **facts, "signature": self.signature}


def class_rows(texts: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """The mean of each class's text rows, unit length.

    Parameters
    ----------
    texts : array of shape (T, D), unit rows
    owner : int array of shape (T,), the class of each text

    Returns
    -------
    float32 array of shape (C, D)
    """
    sums = np.zeros((int(owner.max()) + 1, texts.shape[1]))
    np.add.at(sums, owner, texts)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return (sums / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def zero_shot(images: np.ndarray, classes: np.ndarray, labels: np.ndarray, *, seed: int = 0) -> ZeroShot:
    """Classify images by the nearest class text and compare with their labels.

    Parameters
    ----------
    images : array of shape (N, D), unit rows
    classes : array of shape (C, D), unit rows in the same space
    labels : int array of shape (N,), the class of each image
    seed : of the intervals

    Raises
    ------
    InputError
        The numbers of images and labels differ, a label is out of range, or widths differ.
    """
    count = len(classes)
    if images.shape[1] != classes.shape[1]:
        raise InputError(f"images are {images.shape[1]} wide and class texts {classes.shape[1]}.")
    if len(images) != len(labels):
        raise InputError(f"{len(labels)} labels for {len(images)} images.")
    if len(labels) == 0 or labels.min() < 0 or labels.max() >= count:
        raise InputError(f"labels must be numbers from 0 to {count - 1}, one for each image.")
    k = min(5, count)
    first, within, predicted = (np.empty(len(images)) for _ in range(3))
    for start in range(0, len(images), ROWS_AT_ONCE):
        block = slice(start, start + ROWS_AT_ONCE)
        scores = np.asarray(images[block], dtype=np.float32) @ classes.T
        truth = np.take_along_axis(scores, labels[block, None], axis=1)
        above = (scores > truth + TIED).sum(axis=1)
        tied = (np.abs(scores - truth) <= TIED).sum(axis=1)
        first[block] = np.clip((1 - above) / tied, 0, 1)
        within[block] = np.clip((k - above) / tied, 0, 1)
        predicted[block] = scores.argmax(axis=1)
    confusion = np.zeros((count, count), dtype=np.int64)
    np.add.at(confusion, (labels, predicted.astype(np.int64)), 1)
    top1, top5, balanced = _measures(*_sums(first, within, labels, np.ones(len(labels)), count))
    over_images, over_classes = _intervals(first, within, labels, count, seed)
    return ZeroShot(float(top1), float(top5), float(balanced), k, over_images, over_classes, confusion)


def _sums(first, within, labels, weights, count):
    """Weighted sums by class: of top-1, of top-k, and of the weights."""
    return tuple(np.bincount(labels, weights * shares, minlength=count) for shares in (first, within, 1.0))


def _measures(first: np.ndarray, within: np.ndarray, images: np.ndarray, classes: np.ndarray | None = None):
    """Top-1, top-k and balanced accuracy from sums by class; `classes` weighs the classes."""
    weights = (images > 0) * (1.0 if classes is None else classes)
    recall = first / np.where(images > 0, images, 1)
    total = (weights * images).sum()
    return (
        (weights * first).sum() / total,
        (weights * within).sum() / total,
        np.average(recall, weights=weights),
    )


def _intervals(first, within, labels, count, seed) -> tuple[dict, dict]:
    """Percentile intervals over images and over classes."""
    rng = np.random.default_rng([seed, 8])
    images = [
        _measures(*_sums(first, within, labels, _drawn(rng, len(labels)), count)) for _ in range(RESAMPLES)
    ]
    sums = _sums(first, within, labels, np.ones(len(labels)), count)
    present = np.flatnonzero(sums[2])
    sums = tuple(one[present] for one in sums)
    classes = [_measures(*sums, classes=_drawn(rng, len(present))) for _ in range(RESAMPLES)]
    return _percentiles(images), _percentiles(classes)


def _percentiles(draws: list) -> dict[str, tuple[float, float]]:
    """The middle 95 % of each measure."""
    low, high = np.quantile(draws, (0.025, 0.975), axis=0)
    return {name: (float(low[place]), float(high[place])) for place, name in enumerate(MEASURES)}


def _drawn(rng: np.random.Generator, count: int) -> np.ndarray:
    """How often each of `count` things is drawn in as many draws with replacement."""
    return np.bincount(rng.integers(0, count, count), minlength=count).astype(np.float64)


def confusion_csv(result: ZeroShot, classes: ClassList) -> str:
    """The confusion as CSV: a row a true class, a column a predicted one, counts of images."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["true \\ predicted", *classes.ids])
    writer.writerows([name, *row] for name, row in zip(classes.ids, result.confusion.tolist(), strict=True))
    return stream.getvalue()


def words(result: dict) -> str:
    """A result as JSON, in words."""
    lines = [
        f"{result['images']:,} images, {result['classes']:,} classes",
        f"{'':10}{'value':>7}  {'chance':>7}  {'95 % over images':>18}  {'over classes':>14}",
    ]
    names = {"top1": "top-1", "top5": f"top-{result['k']}", "balanced": "balanced"}
    for key, name in names.items():
        row = result[key]
        images, classes = (
            f"{row[over][0]:.3f} to {row[over][1]:.3f}" for over in ("over_images", "over_classes")
        )
        lines.append(f"{name:10}{row['value']:7.3f}  {row['chance']:7.4f}  {images:>18}  {classes:>14}")
    return "\n".join([*lines, result["signature"]])
