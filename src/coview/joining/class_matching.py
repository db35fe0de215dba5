"""The blind match: which class is which text, from nothing but the distances within each side.

Protocol of Schnaus, Araslanov and Cremers, "It's a (Blind) Match!" (CVPR 2025): a prototype for each class
on either side, a kernel of each side's prototypes, and the permutation under which both kernels agree best.
A seed is a random half of the images of each class. Chance is one over the number of classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coview.alignment.rows import read_rows
from coview.embeddings import check_finite
from coview.errors import InputError, UsageError, did_you_mean
from coview.joining.assignment import assign, match_graphs, standardise
from coview.joining.k_means import k_means, squared_distances
from coview.joining.rotation import unit_rows

DISTORTIONS = ("gromov-wasserstein", "cka", "mutual-knn")
RESTARTS = 100
NEIGHBOURS = 5


@dataclass(frozen=True)
class Match:
    """A matching of classes.

    Attributes
    ----------
    order : ndarray of N int: item i of X is item ``order[i]`` of Y
    agreement : float, correlation of both sides' kernels under it, off the diagonal
    """

    order: np.ndarray
    agreement: float


@dataclass(frozen=True)
class Trial:
    """One seed of the protocol.

    Attributes
    ----------
    seed : int
    classes : ndarray of N int, the classes that were to be matched
    accuracy : float, share of them matched with themselves
    agreement : float, of the kernels under the matching found
    true_agreement : float, the same under the true matching: if lower, no better search would help
    """

    seed: int
    classes: np.ndarray
    accuracy: float
    agreement: float
    true_agreement: float


@dataclass(frozen=True)
class Classification:
    """Images classified without labels and without pairs.

    Attributes
    ----------
    predicted : ndarray of N int, the class of each image
    accuracy : float, share of images with their own class
    oracle : float, the same if clusters are named by the labels: what the clusters allow
    matching : float, share of clusters that are named as the oracle names them
    """

    predicted: np.ndarray
    accuracy: float
    oracle: float
    matching: float


def match_classes(
    x,
    y,
    *,
    distortion: str = "gromov-wasserstein",
    k: int = NEIGHBOURS,
    restarts: int = RESTARTS,
    seed: int = 0,
) -> Match:
    """Match the items of two sides by the shape of each.

    Parameters
    ----------
    x, y : arrays of shape (N, Dx) and (N, Dy), one row a class, in any order; left as they are
    distortion : "gromov-wasserstein" (Euclidean distances), "cka" (centred inner products) or "mutual-knn"
        (which k items are nearest)
    k : int, neighbours, for mutual-knn
    restarts : int, starts of the search (see `assignment.match_graphs`)
    seed : int

    Raises
    ------
    InputError
        The sides have different numbers of items, or fewer than three.
    UsageError
        An unknown distortion, or a k that is not below the number of items.
    """
    sides = _matrix(x, "X"), _matrix(y, "Y")
    n = len(sides[0])
    if n != len(sides[1]) or n < 3:
        raise InputError(f"{n} items cannot be matched with {len(sides[1])}; at least three on both sides.")
    a, b = (kernel(side, distortion, k) for side in sides)
    order, value = match_graphs(a, b, np.random.default_rng([seed, 40]), restarts=restarts)
    return Match(order, value / (n * (n - 1)))


def kernel(rows: np.ndarray, distortion: str, k: int = NEIGHBOURS) -> np.ndarray:
    """What one side shows of its shape, standardised off the diagonal: shape (N, N)."""
    rows = rows.astype(np.float64)
    if distortion == "gromov-wasserstein":
        return standardise(-np.sqrt(squared_distances(rows, rows)))
    if distortion == "cka":
        centred = rows - rows.mean(axis=0)
        return standardise(centred @ centred.T)
    if distortion != "mutual-knn":
        raise UsageError(f"unknown distortion {distortion!r}.", hint=did_you_mean(distortion, DISTORTIONS))
    if not 1 <= k < len(rows):
        raise UsageError(f"k = {k} neighbours cannot be found among {len(rows)} items.")
    distances = squared_distances(rows, rows)
    np.fill_diagonal(distances, np.inf)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :k]
    indicator = np.zeros_like(distances)
    np.put_along_axis(indicator, nearest, 1.0, axis=1)
    return standardise(indicator)


def blind_match(
    images,
    labels: Sequence[int],
    texts,
    *,
    classes: int | None = None,
    seeds: int = 20,
    distortion: str = "gromov-wasserstein",
    k: int = NEIGHBOURS,
    restarts: int = RESTARTS,
) -> list[Trial]:
    """The protocol over seeds: prototypes from a random half of the images of each class.

    Parameters
    ----------
    images : array of shape (N, Dx)
    labels : sequence of N int, from 0 to K - 1
    texts : array of shape (K, Dy), row c belongs to class c
    classes : int, how many classes are drawn for each seed; all K by default
    seeds : int, the number of seeds, from 0

    Raises
    ------
    InputError
        A label outside 0 to K - 1, or a class without images.
    """
    rows, texts = _matrix(images, "images"), unit_rows(_matrix(texts, "texts"))
    numbers = _labels(labels, len(rows), len(texts))
    classes = len(texts) if classes is None else classes
    if not 3 <= classes <= len(texts):
        raise UsageError(f"{classes} classes cannot be drawn of {len(texts)}; at least three.")
    trials = []
    for seed in range(seeds):
        rng = np.random.default_rng([seed, 41])
        chosen = np.sort(rng.permutation(len(texts))[:classes])
        x = unit_rows(np.stack([_half(rows, numbers == one, rng).mean(axis=0) for one in chosen]))
        shown = rng.permutation(classes)  # so that the order of rows says nothing
        found = match_classes(
            x, texts[chosen[shown]], distortion=distortion, k=k, restarts=restarts, seed=seed
        )
        a, b = (kernel(side, distortion, k) for side in (x, texts[chosen]))
        truth = float(np.vdot(a, b)) / (classes * (classes - 1))
        accuracy = float((shown[found.order] == np.arange(classes)).mean())
        trials.append(Trial(seed, chosen, accuracy, found.agreement, truth))
    return trials


def classify_clusters(
    images,
    labels: Sequence[int],
    texts,
    *,
    distortion: str = "gromov-wasserstein",
    k: int = NEIGHBOURS,
    restarts: int = RESTARTS,
    starts: int = 20,
    seed: int = 0,
) -> Classification:
    """Cluster images by k-means, match the cluster centres with class texts, name images by their cluster.

    Labels judge the outcome and have no part in it.

    Parameters
    ----------
    images, labels, texts : see `blind_match`
    starts : int, starts of k-means
    """
    rows, texts = unit_rows(_matrix(images, "images")), unit_rows(_matrix(texts, "texts"))
    numbers = _labels(labels, len(rows), len(texts))
    rng = np.random.default_rng([seed, 42])
    centres, clusters = k_means(rows, len(texts), rng, starts=starts)
    shown = rng.permutation(len(texts))
    found = match_classes(
        unit_rows(centres), texts[shown], distortion=distortion, k=k, restarts=restarts, seed=seed
    )
    named = shown[found.order]
    table = np.zeros((len(texts), len(texts)))
    np.add.at(table, (clusters, numbers), 1)
    oracle = assign(table)[1]
    return Classification(
        predicted=named[clusters],
        accuracy=float((named[clusters] == numbers).mean()),
        oracle=float((oracle[clusters] == numbers).mean()),
        matching=float((named == oracle).mean()),
    )


def _half(rows: np.ndarray, members: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    own = np.flatnonzero(members)
    return rows[np.sort(rng.permutation(own)[: max(1, len(own) // 2)])]


def _matrix(rows, where: str) -> np.ndarray:
    """Rows as a float array of their own; integers too."""
    if not hasattr(rows, "detach") and not hasattr(rows, "rows"):
        rows = np.asarray(rows)
    if len(rows.shape) != 2 or 0 in rows.shape:
        raise InputError(f"expected rows of shape (N, D), found {tuple(rows.shape)}.", where=where)
    matrix = read_rows(rows, slice(None))
    check_finite(matrix, where)
    return np.array(matrix)


def _labels(labels, count: int, classes: int) -> np.ndarray:
    numbers = np.asarray(labels)
    if numbers.shape != (count,) or numbers.dtype.kind not in "iu":
        raise InputError(f"expected one class number for each of {count} images.", where="labels")
    present = np.bincount(numbers[(numbers >= 0) & (numbers < classes)], minlength=classes)
    if present.sum() < count:
        raise InputError(f"labels must lie between 0 and {classes - 1}.", where="labels")
    if (present == 0).any():
        raise InputError(f"class {int(np.argmin(present))} has no image.", where="labels")
    return numbers
