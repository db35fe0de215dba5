"""Which scenes make batch number `step`: a pure function of (seed, step, rank, world size).

Scenes are drawn without replacement within an epoch by a keyed permutation that is computed point by point
(a Feistel network with cycle walking), so that nothing is stored, shuffled or lost on resume, be it for a
thousand scenes or a billion. Batches are random in every respect: SIGReg compares a batch with a Gaussian,
and a batch of texts of similar length is not a fair sample of the corpus.
"""

import numpy as np

_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # splitmix64's multipliers
_GOLDEN = 0x9E3779B97F4A7C15


def mix(values: np.ndarray) -> np.ndarray:
    """The splitmix64 finaliser: a fixed bijection of uint64 that looks random (Steele et al., 2014)."""
    values = values.astype(np.uint64)
    values = (values ^ (values >> np.uint64(30))) * _MIX[0]
    values = (values ^ (values >> np.uint64(27))) * _MIX[1]
    return values ^ (values >> np.uint64(31))


def permute(index: np.ndarray, size: int, key: int) -> np.ndarray:
    """A permutation of ``range(size)`` chosen by `key`, evaluated at `index` (any shape) only."""
    half = np.uint64(max(1, (int(size - 1).bit_length() + 1) // 2))
    low = np.uint64((1 << int(half)) - 1)
    keys = mix(np.uint64(key % 2**64) + np.arange(1, 7, dtype=np.uint64) * np.uint64(_GOLDEN))
    values = np.asarray(index).astype(np.uint64)
    pending = np.ones(values.shape, dtype=bool)
    while pending.any():  # walk the cycle until the value falls below `size`: under four steps on average
        left, right = values[pending] >> half, values[pending] & low
        for round_key in keys:
            left, right = right, left ^ (mix(right ^ round_key) & low)
        values[pending] = (left << half) | right
        pending = values >= np.uint64(size)
    return values.astype(np.int64)


def scene_batch(
    scenes: int, batch: int, *, seed: int, step: int, rank: int = 0, world_size: int = 1
) -> np.ndarray:
    """Indices of the scenes of one batch, shape (batch / world_size,).

    The batches of all steps read one endless stream of epochs; every epoch is a fresh permutation of all
    scenes. The batches of the ranks, one after the other, are the batch of a single process.
    """
    place = np.arange(step * batch, (step + 1) * batch, dtype=np.int64)
    epochs = place // scenes
    drawn = np.empty(batch, dtype=np.int64)
    for epoch in np.unique(epochs):
        here = epochs == epoch
        drawn[here] = permute(place[here] % scenes, scenes, key=int(mix(np.array([seed * 2**20 + epoch]))[0]))
    return drawn[rank * batch // world_size : (rank + 1) * batch // world_size]
