"""The search for a rotation on one cloud of items a side: proposals at every sharpening, the best refined.

Everything that is compared is compared by the same score (`matched_similarity`) on the same held-out rows at
the same, the least sharpening: scores at different powers say nothing about each other. This is how the
power is chosen without a pair.
"""

from collections.abc import Mapping

import numpy as np

from coview.joining.proposals import proposals
from coview.joining.refinement import (
    growing_steps,
    matched_similarity,
    neighbour_steps,
    polar,
    soft_steps,
)

HELD = 600
MATCHINGS = 9
KEPT = 3
REFINED = 2


class Cloud:
    """Unit rows of both sides at one sharpening, some of them held out.

    Parameters
    ----------
    x, y : arrays of shape (N, Dx) and (M, Dy)
    orders : permutations of N and M: the first rows in them are held out
    known : array of shape (Dx, Dy) or None, cross-covariance of known pairs
    """

    def __init__(self, x: np.ndarray, y: np.ndarray, orders, known: np.ndarray | None):
        held = [min(HELD, len(order) // 4) for order in orders]
        self.x, self.y = x[orders[0][held[0] :]], y[orders[1][held[1] :]]
        self.held_x, self.held_y = x[orders[0][: held[0]]], y[orders[1][: held[1]]]
        self.known = known

    def score(self, rotation: np.ndarray) -> float:
        return matched_similarity(rotation, self.held_x, self.held_y)

    def soften(self, rotation: np.ndarray, rng: np.random.Generator, rounds: int) -> np.ndarray:
        return soft_steps(rotation, self.x, self.y, rng, rounds=rounds, known=self.known)

    def refine(self, rotation: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The best of a rotation, of what growing batches make of it, and of a finish by neighbours."""
        grown = growing_steps(rotation, self.x, self.y, rng, known=self.known)
        finished = neighbour_steps(grown, self.x, self.y, rng, known=self.known)
        return max((rotation, grown, finished), key=self.score)


def clouds(
    x: Mapping[float, np.ndarray],
    y: Mapping[float, np.ndarray],
    rng: np.random.Generator,
    known: Mapping[float, np.ndarray | None],
) -> dict[float, Cloud]:
    """A cloud at each power, the same rows held out from all."""
    orders = [rng.permutation(len(next(iter(side.values())))) for side in (x, y)]
    return {power: Cloud(x[power], y[power], orders, known[power]) for power in x}


def search(
    at: Mapping[float, Cloud], rng: np.random.Generator, *, matchings: int = MATCHINGS
) -> tuple[np.ndarray, float]:
    """The best rotation by the score on held-out rows.

    Parameters
    ----------
    at : the cloud at each power of sharpening
    rng : draws rows and starts
    matchings : number of matchings of cluster centres at each power

    Returns
    -------
    rotation : ndarray of shape (Dx, Dy), and the power at which it was proposed
    """
    least = at[min(at)]
    candidates = []
    for power, cloud in at.items():
        starts = [] if cloud.known is None else [polar(cloud.known)]
        starts += [rotation for _, rotation in proposals(cloud.x, cloud.y, rng, matchings=matchings)]
        softened = [cloud.soften(start, rng, 3) for start in starts]
        for rotation in sorted(softened, key=cloud.score, reverse=True)[:KEPT]:
            carried = cloud.soften(rotation, rng, 8)
            if cloud is not least:
                carried = least.soften(carried, rng, 6)
            candidates.append((least.score(carried), power, carried))
    candidates.sort(key=lambda one: -one[0])
    refined = [(least.refine(rotation, rng), power) for _, power, rotation in candidates[:REFINED]]
    return max(refined, key=lambda one: least.score(one[0]))


def join(
    found: tuple[np.ndarray, np.ndarray], at: Mapping[float, Cloud], rng: np.random.Generator
) -> np.ndarray:
    """Refine on all rows what two searches agree on, from the strongest sharpening to the weakest.

    One of the two may have stopped in a worse place near by: their mean and each of them compete.
    """
    candidates = [polar(found[0] + found[1]), *found]
    for power in sorted(at, reverse=True):
        cloud = at[power]
        candidates += [cloud.soften(one, rng, 8) for one in candidates]
        candidates = [cloud.refine(max(candidates, key=cloud.score), rng)]
    return candidates[0]


def split(count: int, seed: int, side: int) -> list[np.ndarray]:
    """Indices of two halves of a side's items, each in ascending order."""
    order = np.random.default_rng([seed, 31, side]).permutation(count)
    return [np.sort(half) for half in np.array_split(order, 2)]
