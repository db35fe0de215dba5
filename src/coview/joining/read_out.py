"""Does a row find its partner on the other side? Recall at k, median rank and FOSCTTM, both ways, blockwise.

Conventions. Rows of one scene are partners. A query is answered by its best-placed partner, so that an image
is found by any of its captions, and every caption looks for its one image. Ties count as their expected
share: with constant embeddings recall at 1 is one over the number of scenes, not luck of a sort. FOSCTTM is
the fraction of samples closer than the true match (Liu et al. 2019), ties half: 0 is best, .5 is chance; it
is taken over every pair of partners, and rows of the same scene are left out of the count.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import numpy as np

from coview.alignment.rows import read_rows
from coview.errors import InputError, UsageError

TOP = (1, 5, 10)
HUB_NEIGHBOURS = 10
# Unit rows in single precision: similarities nearer than this cannot be told apart.
TIE = 1e-6
BLOCK_ENTRIES = 2**23
RESAMPLES = 1000
RESAMPLES_AT_ONCE = 50


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Direction:
    """What queries of one side found on the other.

    Attributes
    ----------
    queries, gallery : number of rows on either side
    recall : dict from k to Estimate, share of queries with a partner among the first k
    chance : dict from k to that share under a random order
    median_rank : float, of the best-placed partner, 1 is best
    foscttm : Estimate
    """

    queries: int
    gallery: int
    recall: dict[int, Estimate]
    chance: dict[int, float]
    median_rank: float
    foscttm: Estimate


@dataclass(frozen=True)
class ReadOut:
    """Both directions, and their mean FOSCTTM.

    Attributes
    ----------
    scenes : int
    hub_neighbours : int, k of CSLS; 0 for the plain cosine
    """

    scenes: int
    hub_neighbours: int
    x_to_y: Direction
    y_to_x: Direction
    foscttm: float

    def as_json(self) -> dict:
        return asdict(self)


@dataclass(frozen=True)
class Ranks:
    """Where partners stand, for each query of one side.

    Attributes
    ----------
    better, tied, own : ndarrays of shape (Q,): other rows before the best partner, level with it, and the
        number of partners level with it, itself included
    closer : ndarray of shape (Q,), the fraction of other rows closer than a partner, mean over partners
    """

    better: np.ndarray
    tied: np.ndarray
    own: np.ndarray
    closer: np.ndarray

    def found(self, k: int) -> np.ndarray:
        """The chance that a partner is among the first k, ties in random order: (Q,)."""
        room = k - self.better
        missed = np.ones(len(room))
        # Each of the level partners in turn falls behind the first `room` places among what is level.
        for number in range(int(self.own.max(initial=0))):
            level = self.tied + self.own - number
            share = np.clip(1 - np.maximum(room, 0) / np.maximum(level, 1), 0, 1)
            missed *= np.where(number < self.own, share, 1)
        return 1 - missed

    def rank(self) -> np.ndarray:
        """The expected place of the best partner, counted from 1: (Q,)."""
        return self.better + 1 + self.tied / (self.own + 1)


def read_out(x, y, *, scenes_x=None, scenes_y=None, hub_neighbours: int = 0, seed: int = 0) -> ReadOut:
    """Search each side with the other.

    Parameters
    ----------
    x, y : arrays of shape (N, D) and (M, D), unit rows of one space
    scenes_x, scenes_y : sequences of N and M labels, or None when row i of one belongs to row i of the other
    hub_neighbours : int
        k of CSLS (10 is usual), which takes back what hubs get from everybody; 0 for the plain cosine. It
        looks at all queries and the whole gallery, so it is another, transductive, measurement.
    seed : int, of the intervals, which come from resampling scenes; the gallery stays whole

    Raises
    ------
    InputError
        Rows and labels do not match, or a row has no partner on the other side.
    """
    scenes_x, scenes_y = _labels(x, y, scenes_x, scenes_y)
    number = int(scenes_x.max()) + 1
    hub_x = hub_y = None
    if hub_neighbours:
        hub_x, hub_y = hubness(x, y, hub_neighbours)
    forth = partner_ranks(x, y, scenes_x, scenes_y, hub_y)
    back = partner_ranks(y, x, scenes_y, scenes_x, hub_x)
    x_to_y = _direction(forth, scenes_x, scenes_y, number, seed)
    y_to_x = _direction(back, scenes_y, scenes_x, number, seed)
    foscttm = (x_to_y.foscttm.value + y_to_x.foscttm.value) / 2
    return ReadOut(number, hub_neighbours, x_to_y, y_to_x, foscttm)


def foscttm(x, y) -> float:
    """Fraction of samples closer than the true match, mean of both directions, for rows paired by order."""
    scenes = np.arange(x.shape[0])
    return float(np.mean([partner_ranks(a, b, scenes, scenes).closer.mean() for a, b in ((x, y), (y, x))]))


def recall(x, y, k: int = 1) -> tuple[float, float]:
    """Recall at k from X to Y and from Y to X, for rows paired by order."""
    scenes = np.arange(x.shape[0])
    forth, back = (partner_ranks(a, b, scenes, scenes).found(k).mean() for a, b in ((x, y), (y, x)))
    return float(forth), float(back)


def csls(similarity: np.ndarray, k: int = HUB_NEIGHBOURS) -> np.ndarray:
    """Cross-domain similarity local scaling of a matrix of similarities (N, M) small enough to hold.

    ``2 s(x, y) - r(x) - r(y)``, r being the mean similarity to the k nearest rows of the other side
    (Conneau et al., ICLR 2018).
    """
    down, across = (_mean_of_largest(side, k) for side in (similarity.T, similarity))
    return 2 * similarity - across[:, None] - down[None, :]


def hubness(x, y, k: int = HUB_NEIGHBOURS) -> tuple[np.ndarray, np.ndarray]:
    """Mean similarity of each row to its k nearest rows of the other side: (N,) and (M,)."""
    if k < 1:
        raise UsageError(f"CSLS needs at least one neighbour, not {k}.")
    forth, back = (
        np.concatenate([_mean_of_largest(block, k) for _, block in _similarity_blocks(a, b)])
        for a, b in ((x, y), (y, x))
    )
    return forth, back


def partner_ranks(
    queries, gallery, scenes_q: np.ndarray, scenes_g: np.ndarray, hub: np.ndarray | None = None
) -> Ranks:
    """Where the partners of each query stand in the gallery.

    Parameters
    ----------
    queries, gallery : arrays of shape (Q, D) and (G, D), unit rows
    scenes_q, scenes_g : arrays of int; every query has a partner in the gallery
    hub : array of shape (G,), or None
        Hubness of gallery rows, for CSLS. That of the query moves nothing within its own list.

    Notes
    -----
    Work grows with the largest number of partners a query has; memory is a block of similarities.
    """
    order = np.argsort(scenes_g, kind="stable")
    first = np.searchsorted(scenes_g[order], scenes_q, side="left")
    count = np.searchsorted(scenes_g[order], scenes_q, side="right") - first
    parts = []
    for start, block in _similarity_blocks(queries, gallery):
        if hub is not None:
            block = 2 * block - hub[None, :]
        rows = np.arange(len(block))
        begin, partners = first[start : start + len(block)], count[start : start + len(block)]
        slots = [order[begin + np.minimum(slot, partners - 1)] for slot in range(int(partners.max()))]
        own = np.stack([block[rows, slot] for slot in slots], axis=1)
        there = np.arange(len(slots)) < partners[:, None]
        for slot in slots:
            block[rows, slot] = -np.inf
        above = np.stack([(block > value[:, None] + TIE).sum(axis=1) for value in own.T], axis=1)
        level = np.stack([(block >= value[:, None] - TIE).sum(axis=1) for value in own.T], axis=1) - above
        others = np.maximum(len(scenes_g) - partners, 1)[:, None]
        best = np.argmax(np.where(there, own, -np.inf), axis=1)
        parts.append(
            (
                above[rows, best],
                level[rows, best],
                (there & (own >= own[rows, best][:, None] - TIE)).sum(axis=1),
                (np.where(there, (above + level / 2) / others, 0).sum(axis=1)) / partners,
            )
        )
    return Ranks(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _similarity_blocks(a, b) -> Iterator[tuple[int, np.ndarray]]:
    """Rows of ``a @ b.T``, as many at a time as fit in a fixed number of entries."""
    columns = read_rows(b, slice(None)).T
    height = max(1, BLOCK_ENTRIES // max(1, columns.shape[1]))
    for start in range(0, a.shape[0], height):
        yield start, read_rows(a, slice(start, start + height)) @ columns


def _mean_of_largest(similarity: np.ndarray, k: int) -> np.ndarray:
    k = min(k, similarity.shape[1])
    return (
        np.partition(similarity, -k, axis=1)[:, -k:].mean(axis=1, dtype=np.float64).astype(similarity.dtype)
    )


def _labels(x, y, scenes_x, scenes_y) -> tuple[np.ndarray, np.ndarray]:
    """Scenes of both sides as numbers from 0, the same scene the same number."""
    n, m = x.shape[0], y.shape[0]
    if (scenes_x is None) != (scenes_y is None):
        raise InputError("scenes are needed on both sides or on neither.")
    if scenes_x is None:
        if n != m:
            raise InputError(f"{n} rows cannot be paired with {m} by order.", hint="Name their scenes.")
        return np.arange(n), np.arange(m)
    if (len(scenes_x), len(scenes_y)) != (n, m):
        raise InputError(f"{len(scenes_x)} and {len(scenes_y)} scenes for {n} and {m} rows.")
    numbers = np.unique(np.concatenate([np.asarray(scenes_x), np.asarray(scenes_y)]), return_inverse=True)[1]
    a, b = numbers[:n], numbers[n:]
    if alone := len(np.setxor1d(a, b)):
        raise InputError(f"{alone} scenes are on one side only.", hint="Give both sides the same scenes.")
    return a, b


def _direction(ranks: Ranks, scenes_q, scenes_g, number: int, seed: int) -> Direction:
    interval = scene_intervals(scenes_q, number, seed)
    partners = np.bincount(scenes_g, minlength=number)[scenes_q]
    chance = {}
    for k in TOP:
        blind = Ranks(np.zeros(len(partners)), len(scenes_g) - partners, partners, np.zeros(len(partners)))
        chance[k] = float(blind.found(k).mean())
    return Direction(
        queries=len(scenes_q),
        gallery=len(scenes_g),
        recall={k: interval(ranks.found(k)) for k in TOP},
        chance=chance,
        median_rank=float(np.median(ranks.rank())),
        foscttm=interval(ranks.closer),
    )


def scene_intervals(scenes: np.ndarray, number: int, seed: int) -> Callable[[np.ndarray], Estimate]:
    """A function from a value for each query to its mean and 95 % interval, by resampling whole scenes."""
    rng = np.random.default_rng([seed, 22])
    counts = np.bincount(scenes, minlength=number).astype(np.float64)
    weights = []
    for start in range(0, RESAMPLES, RESAMPLES_AT_ONCE):
        size = min(RESAMPLES_AT_ONCE, RESAMPLES - start)
        weights.append(rng.multinomial(number, np.full(number, 1 / number), size=size).astype(np.uint16))

    def interval(values: np.ndarray) -> Estimate:
        sums = np.bincount(scenes, weights=values, minlength=number)
        means = np.concatenate([(block @ sums) / (block @ counts) for block in weights])
        low, high = np.quantile(means, [0.025, 0.975])
        return Estimate(float(values.mean()), float(low), float(high))

    return interval
