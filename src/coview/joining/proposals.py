"""Rough rotations between two clouds of unit rows without a single pair, each by what it sees of their shape.

Each proposal fails somewhere: profiles where all rows see the same similarities, principal axes where
variances are equal, moments where the cloud is symmetric, centroids where there are no clusters. Which one
to believe is left to a score on rows none of them has seen.
"""

from collections.abc import Iterator

import numpy as np

from coview.joining.assignment import assign, match_graphs, standardise
from coview.joining.k_means import k_means, squared_distances
from coview.joining.refinement import draw, polar
from coview.joining.rotation import unit_rows

PROFILE_ROWS = 1000
QUANTILES = 128
AXES = (8, 24, 48)
MOMENT_ROWS = 2000
MOMENT_STEPS = 20
CENTROID_ROWS = 3000
CLUSTERS = (15, 30, 45)


def proposals(
    x: np.ndarray, y: np.ndarray, rng: np.random.Generator, *, matchings: int = 9
) -> Iterator[tuple[str, np.ndarray]]:
    """Name and rotation (Dx, Dy) of each proposal.

    Parameters
    ----------
    x, y : arrays of shape (N, Dx) and (M, Dy), unit rows
    rng : draws rows and starts
    matchings : number of matchings of cluster centres, in turn of 15, 30 and 45 clusters
    """
    for _ in range(2):
        yield "profile", polar(by_profiles(draw(rng, x, PROFILE_ROWS), draw(rng, y, PROFILE_ROWS)))
    widest = min(x.shape[1], y.shape[1])
    turned = [by_axes(x, y, axes) for axes in sorted({min(axes, widest) for axes in AXES})]
    for one in turned:
        yield "principal axes", one.astype(np.float32)
    few = [draw(rng, side, MOMENT_ROWS) for side in (x, y)]
    yield "third moments", by_third_moments(polar(turned[-1]), few[0], few[1])
    total = np.zeros((x.shape[1], y.shape[1]))
    for matching in range(matchings):
        clusters = max(2, min(CLUSTERS[matching % len(CLUSTERS)], min(len(x), len(y)) // 4))
        cross = by_centroids(draw(rng, x, CENTROID_ROWS), draw(rng, y, CENTROID_ROWS), clusters, rng)
        total += cross / max(float(np.linalg.norm(cross)), 1e-30)
        yield f"{clusters} centroids", polar(cross)
    if matchings > 1:
        yield "average of centroids", polar(total)


def by_profiles(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Cross-covariance of rows matched by their profiles: the quantiles of a row's similarities to its own
    side, which no rotation changes (after VecMap; Artetxe, Labaka and Agirre, ACL 2018)."""
    own = [_quantiles(side) for side in (x, y)]
    mean = np.concatenate(own).mean(axis=0)
    a, b = (unit_rows(side - mean) for side in own)
    rows, columns = assign(a @ b.T)
    return x[rows].T @ y[columns]


def by_axes(x: np.ndarray, y: np.ndarray, axes: int) -> np.ndarray:
    """Principal axes paired by rank, their signs by third moments: shape (Dx, Dy), of rank `axes`.

    The mean of t_i² t_j changes sign with axis j and with no other, which fixes each sign by many moments;
    those of three different axes then settle what is left.
    """
    (vx, tx), (vy, ty) = _third_moments(x, axes), _third_moments(y, axes)
    agreement = tx * ty
    signs = _signs(np.einsum("iij->j", agreement))
    for _ in range(MOMENT_STEPS):
        pulled = _signs(np.einsum("ijk,i,k->j", agreement, signs, signs))
        if (pulled == signs).all():
            break
        signs = pulled
    return (vx * signs) @ vy.T


def by_third_moments(rotation: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Turn one whitened cloud so that its third moments fit the other's best.

    The sum over all pairs of cubed products, (xᵢ W yⱼ)³, is the inner product of both tensors of third
    moments under W; its gradient needs the squared products only, and each step is a polar decomposition.
    """
    x, y = _whiten(x), _whiten(y)
    for _ in range(MOMENT_STEPS):
        rotation = polar(x.T @ (np.square((x @ rotation) @ y.T) @ y))
    return rotation


def by_centroids(x: np.ndarray, y: np.ndarray, clusters: int, rng: np.random.Generator) -> np.ndarray:
    """Cross-covariance of cluster centres matched by the distances among them on each side."""
    centres = [k_means(side, clusters, rng)[0].astype(np.float64) for side in (x, y)]
    kernels = [standardise(-squared_distances(side, side)) for side in centres]
    order, _ = match_graphs(kernels[0], kernels[1], rng)
    a, b = (side - side.mean(axis=0) for side in centres)
    return a.T @ b[order]


def _quantiles(rows: np.ndarray) -> np.ndarray:
    """The sorted similarities of each row to its own side at 128 places, itself (the largest) left out."""
    ranked = np.sort(rows @ rows.T, axis=1)[:, :-1]
    return ranked[:, np.linspace(0, ranked.shape[1] - 1, QUANTILES).round().astype(int)]


def _third_moments(rows: np.ndarray, axes: int) -> tuple[np.ndarray, np.ndarray]:
    """The leading principal axes (D, axes), and the third moments along them, standardised: (axes,) * 3."""
    centred = (rows - rows.mean(axis=0)).astype(np.float64)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    vectors = vectors[:, ::-1][:, :axes]
    along = centred @ vectors
    along /= np.maximum(along.std(axis=0), 1e-12)
    return vectors, np.stack([(along * one[:, None]).T @ along / len(along) for one in along.T])


def _signs(values: np.ndarray) -> np.ndarray:
    return np.where(values < 0, -1.0, 1.0)


def _whiten(rows: np.ndarray) -> np.ndarray:
    """Multiplied by the inverse root of their covariance: this too turns as the rows turn."""
    centred = rows - rows.mean(axis=0)
    values, vectors = np.linalg.eigh((centred.T @ centred).astype(np.float64) / len(rows))
    values = np.maximum(values, max(values[-1], 1e-30) * 1e-4)
    return centred @ ((vectors * values**-0.5) @ vectors.T).astype(np.float32)
