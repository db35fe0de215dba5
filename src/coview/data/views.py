"""Which observations are views of one another: what makes a training positive good or bad.

- ``good``: V texts of one scene, drawn without replacement. Two observations of one state of the world.
- ``bad``: V maskings of one text of the scene. Two corruptions of one observation share its wording and
  style, so an encoder may spend dimensions on them.
- ``next-token``: V texts of one scene, unmasked, as for ``good``; their prefixes and continuations are the
  positives.

All are pure functions of (seed, step): the draw of a scene in a batch does not depend on the rank it is on.
"""

from collections.abc import Sequence

import numpy as np

from coview.data.batches import scene_batch
from coview.data.tokens import MASK, TokenStore

VIEWS = ("good", "bad", "next-token")


def draw_views(
    store: TokenStore,
    usable: np.ndarray,
    kind: str,
    *,
    views: int,
    batch: int,
    seed: int,
    step: int,
    mask_rate: float = 0.3,
    rank: int = 0,
    world_size: int = 1,
) -> list[np.ndarray]:
    """The texts of one batch as token ids: view v of scene n is item ``v * N + n``.

    Parameters
    ----------
    usable : int64 array, the scenes of the store that may be drawn
    views : V, texts or maskings of each scene
    batch : scenes of the batch, over all ranks
    mask_rate : share of the tokens that a ``bad`` view hides
    """
    scenes = usable[scene_batch(len(usable), batch, seed=seed, step=step, rank=rank, world_size=world_size)]
    share = slice(rank * batch // world_size, (rank + 1) * batch // world_size)
    counts = store.scenes[scenes + 1] - store.scenes[scenes]
    # Random keys for the whole batch, then this rank's share: the same whatever the number of ranks.
    keys = np.random.default_rng([seed, step, 1]).random((batch, int(store.texts_per_scene().max())))[share]
    keys[np.arange(keys.shape[1]) >= counts[:, None]] = np.inf
    chosen = np.argsort(keys, axis=1)[:, :views].T + store.scenes[scenes]
    if kind == "bad":
        texts = [store.text(index) for index in chosen[0].tolist()]
        return [
            masked(text, mask_rate, np.random.default_rng([seed, step, 2, view, share.start + place]))
            for view in range(views)
            for place, text in enumerate(texts)
        ]
    return [store.text(index) for index in chosen.ravel().tolist()]


def masked(text: np.ndarray, rate: float, rng: np.random.Generator) -> np.ndarray:
    """`text` with each token between the first and the last hidden with probability `rate`."""
    hidden = rng.random(len(text)) < rate
    hidden[[0, -1]] = False
    return np.where(hidden, MASK, text)


def usable_scenes(texts_per_scene: Sequence[int] | np.ndarray, kind: str, views: int) -> np.ndarray:
    """Scenes with enough texts: V for ``good`` and ``next-token``, one for ``bad``."""
    needed = 1 if kind == "bad" else views
    return np.flatnonzero(np.asarray(texts_per_scene) >= needed)
