"""Texts kept with their rows: which is nearest to a row from elsewhere, and where that row stands among them.

A row of an image, mapped into the space of texts, is not quite like the row of any text. `project` puts it
among them: a mean of the memory's rows, weighted by a softmax of their cosines (DeCap, Li et al., 2023).
`nearest` is the simplest captioner there is, and the one that others have to beat.
"""

from collections.abc import Iterator

import numpy as np

from coview.errors import InputError, UsageError

TEMPERATURE = 0.02
COSINES_AT_ONCE = 2**24


def nearest(rows: np.ndarray, memory: np.ndarray) -> np.ndarray:
    """The row of the memory with the largest cosine to each row, the first of equal ones.

    Parameters
    ----------
    rows : array of shape (N, D)
    memory : array of shape (M, D); both centred alike, of any length

    Returns
    -------
    ndarray of shape (N,), indices into the memory

    Raises
    ------
    InputError
        The memory is empty, or the widths differ.
    """
    memory = _unit_memory(rows, memory)
    found = [cosines.argmax(axis=1) for cosines in _cosines(rows, memory)]
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)


def project(rows: np.ndarray, memory: np.ndarray, temperature: float = TEMPERATURE) -> np.ndarray:
    """Mean of the memory's unit rows weighted by softmax(cosine / temperature), scaled to unit length.

    Parameters
    ----------
    rows, memory : as in `nearest`
    temperature : the smaller, the nearer to the nearest text; the larger, the nearer to the mean of all

    Returns
    -------
    float32 ndarray of shape (N, D)

    Raises
    ------
    UsageError
        The temperature is not positive.
    InputError
        The memory is empty, or the widths differ.
    """
    if not temperature > 0:
        raise UsageError(f"a temperature of {temperature} is not positive.", hint="Try 0.02.")
    memory = _unit_memory(rows, memory)
    projected = np.empty((len(rows), memory.shape[1]), dtype=np.float32)
    start = 0
    for weights in _cosines(rows, memory):
        weights -= weights.max(axis=1, keepdims=True)
        np.exp(np.divide(weights, temperature, out=weights), out=weights)
        projected[start : start + len(weights)] = weights @ memory
        start += len(weights)
    return unit_rows(projected)  # which makes it unnecessary to divide by the sum of the weights


def central(memory: np.ndarray) -> int:
    """The row of the memory with the largest mean cosine to all of them: the most ordinary text.

    The memory is as the encoder gave it: in centred rows every direction is ordinary alike.
    """
    memory = _unit_memory(memory, memory)
    return int((memory @ memory.mean(axis=0, dtype=np.float64)).argmax())


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """Rows as float32 of unit length; rows of zeros stay as they are."""
    rows = np.asarray(rows, dtype=np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)


def _unit_memory(rows: np.ndarray, memory: np.ndarray) -> np.ndarray:
    if not len(memory):
        raise InputError("the memory holds no text.")
    if rows.shape[1:] != memory.shape[1:]:
        raise InputError(
            f"rows of {rows.shape[1:]} numbers do not belong to a memory of {memory.shape[1:]}.",
            hint="Both must come from the same text encoder, or from a rotation into its space.",
        )
    return unit_rows(memory)


def _cosines(rows: np.ndarray, memory: np.ndarray) -> Iterator[np.ndarray]:
    """Blocks (n, M) of cosines, whole rows at a time."""
    at_once = max(1, COSINES_AT_ONCE // len(memory))
    for start in range(0, len(rows), at_once):
        yield unit_rows(rows[start : start + at_once]) @ memory.T
