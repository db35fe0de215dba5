"""What is shown beside every captioner: captions that need no decoder, and captions of other images.

A captioner that does not beat `nearest_captions` has learnt to retrieve; one that does not beat
`shuffled_captions` has learnt what captions are like, but not to look.
"""

from collections.abc import Sequence

import numpy as np

from coview.errors import InputError
from coview.uses.memory import central, nearest


def nearest_captions(rows: np.ndarray, memory: np.ndarray, captions: Sequence[str]) -> list[str]:
    """For each row the training caption whose row has the largest cosine to it.

    Parameters
    ----------
    rows : array of shape (N, D), of images mapped into the space of texts
    memory : array of shape (M, D), of the training captions, centred as `rows` are
    captions : the M training captions

    Raises
    ------
    InputError
        There are no training captions, or rows and captions do not belong together.
    """
    _require_caption_a_row(memory, captions)
    return [captions[row] for row in nearest(rows, memory)]


def central_caption(memory: np.ndarray, captions: Sequence[str]) -> str:
    """The training caption most like all others: what a captioner says that sees nothing.

    Parameters
    ----------
    memory : array of shape (M, D), of the training captions, as the encoder gave them (not centred)
    captions : the M training captions
    """
    _require_caption_a_row(memory, captions)
    return captions[central(memory)]


def shuffled_captions(captions: Sequence[str], *, seed: int = 0) -> list[str]:
    """The captions, each given to another image: all images stand in one random circle and hand theirs on.

    Raises
    ------
    InputError
        There is only one image.
    """
    if len(captions) < 2:
        raise InputError("captions of fewer than two images cannot be shuffled.")
    order = np.random.default_rng([seed, 7, len(captions)]).permutation(len(captions))
    shuffled = list(captions)
    for receiver, giver in zip(order, np.roll(order, 1), strict=True):
        shuffled[receiver] = captions[giver]
    return shuffled


def _require_caption_a_row(memory: np.ndarray, captions: Sequence[str]) -> None:
    if len(memory) != len(captions):
        raise InputError(f"{len(memory)} rows of training captions for {len(captions)} captions.")
