"""Does one description of a scene find another description of it? A sanity check of any text encoder."""

import numpy as np

from coview.errors import InputError

QUERIES_AT_ONCE = 1024


def caption_retrieval(Z, scene, *, seed: int = 0) -> float:
    """Recall at 1 of caption-to-caption retrieval by cosine.

    One caption of every scene is the query, another is in the gallery, both drawn by seed; scenes with a
    single caption take no part. Chance is 1 / (number of scenes). Ties count as their expected share.

    Parameters
    ----------
    Z : array of shape (N, D)
    scene : sequence of N scene ids

    Raises
    ------
    InputError
        Fewer than two scenes have two captions.
    """
    Z = np.asarray(Z, dtype=np.float32)
    scene = np.unique(np.asarray(scene), return_inverse=True)[1]
    shuffled = np.random.default_rng([seed, 4]).permutation(len(Z))
    order = shuffled[np.argsort(scene[shuffled], kind="stable")]
    begin = np.flatnonzero(np.diff(scene[order], prepend=-1))
    begin = begin[np.diff(np.append(begin, len(order))) >= 2]
    if len(begin) < 2:
        raise InputError("retrieval needs at least two scenes with two captions each.")
    query, gallery = (
        rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (Z[order[begin]], Z[order[begin + 1]])
    )
    found = 0.0
    for start in range(0, len(query), QUERIES_AT_ONCE):
        scores = query[start : start + QUERIES_AT_ONCE] @ gallery.T
        truth = scores[np.arange(len(scores)), start + np.arange(len(scores))]
        best = scores.max(axis=1)
        found += float(((truth == best) / (scores == best[:, None]).sum(axis=1)).sum())
    return found / len(query)
