"""Images for a text and texts for an image: the search itself, and how well it does.

Convention, that of Karpathy's splits: every caption is a query that looks for its one image among all images;
an image looks among all captions and counts as answered by the best placed of its own. Exact duplicates among
captions of different images stay in and are wrong answers. With one caption an image, image to text comes out
lower than with five: both counts stand beside every result.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath

import numpy as np

from coview.alignment.signature import format_signature
from coview.data.scenes import Scene, Source
from coview.errors import InputError, UsageError
from coview.joining.read_out import HUB_NEIGHBOURS, Direction, read_out

ROWS_AT_ONCE = 8192
ANY_OF = "image to text: the best placed of an image's captions; text to image: every caption for itself"


@dataclass(frozen=True)
class Hit:
    """A row of an index and its cosine with the query."""

    row: int
    score: float


@dataclass(frozen=True)
class Found:
    """The best rows of an index, and the mean and standard deviation of the cosine over all its rows."""

    hits: list[Hit]
    mean: float
    deviation: float


@dataclass(frozen=True)
class Retrieval:
    """How well images and captions find each other.

    Attributes
    ----------
    images, captions : int
    similarity : "cosine", or "csls", which looks at all queries and so is another measurement
    image_to_text, text_to_image : Direction, with recall at 1, 5, 10 and 95 % intervals over images
    """

    images: int
    captions: int
    similarity: str
    image_to_text: Direction
    text_to_image: Direction

    @property
    def signature(self) -> str:
        parts = {"images": self.images, "captions": self.captions, "sim": self.similarity}
        return format_signature("retrieval", {**parts, "partner": "best", "ties": "shared", "v": "0.1"})

    def as_json(self) -> dict:
        facts = {"captions_an_image": self.captions / self.images, "convention": ANY_OF}
        return {**asdict(self), **facts, "signature": self.signature}


def search(
    query: np.ndarray, index: np.ndarray, prepare: Callable[[np.ndarray], np.ndarray], *, top: int = 10
) -> Found:
    """The rows of an index with the largest cosine to a query, best first; equal ones in order of rows.

    Parameters
    ----------
    query : array of shape (D,), unit length
    index : array of shape (N, Di)
        It may be memory-mapped and larger than memory; it is read in blocks.
    prepare : maps a block of its rows to unit rows of the query's space, shape (n, D)
    top : how many; all if there are fewer

    Raises
    ------
    UsageError
        `top` is not positive.
    """
    if top < 1:
        raise UsageError(f"{top} results cannot be shown.", where="--top", hint="Give 1 or more.")
    rows = np.empty(0, dtype=np.int64)
    scores = np.empty(0, dtype=np.float32)
    total = squares = 0.0
    for start in range(0, len(index), ROWS_AT_ONCE):
        block = prepare(np.asarray(index[start : start + ROWS_AT_ONCE])) @ query
        total += float(block.sum(dtype=np.float64))
        squares += float(np.square(block, dtype=np.float64).sum())
        rows = np.concatenate([rows, np.arange(start, start + len(block))])
        scores = np.concatenate([scores, block])
        best = np.lexsort((rows, -scores))[:top]
        rows, scores = rows[best], scores[best]
    hits = [Hit(int(row), float(score)) for row, score in zip(rows, scores, strict=True)]
    mean = total / len(index)
    return Found(hits, mean, math.sqrt(max(0.0, squares / len(index) - mean**2)))


def find_scenes(source: Source, ids: Sequence[str]) -> list[Scene]:
    """The scenes of a source that rows are called by: by scene id, or by image name with or without folder.

    Raises
    ------
    InputError
        The source has no such scene.
    """
    wanted, found = set(ids), {}
    for scene in source.scenes():
        for name in (scene.id, *([scene.image, PurePosixPath(scene.image).name] if scene.image else [])):
            if name in wanted:
                found.setdefault(name, scene)
    if missing := [name for name in ids if name not in found]:
        raise InputError(
            f"there is no photo {missing[0]!r}.",
            where=source.name,
            hint="Say where they are with --photos SRC.",
        )
    return [found[name] for name in ids]


def score_retrieval(
    images: np.ndarray, texts: np.ndarray, scene: np.ndarray, *, csls: bool = False, seed: int = 0
) -> Retrieval:
    """Recall at 1, 5 and 10 and the median rank, both ways, with 95 % intervals from resampling images.

    Parameters
    ----------
    images : array of shape (N, D), unit rows in one space with the texts
    texts : array of shape (T, D), unit rows
    scene : int array of shape (T,), the image that each text describes
    csls : correct for hubs with the 10 nearest neighbours on the other side
    seed : of the intervals

    Raises
    ------
    InputError
        An image has no text, or a text no image.
    """
    done = read_out(
        images,
        texts,
        scenes_x=np.arange(len(images)),
        scenes_y=scene,
        hub_neighbours=HUB_NEIGHBOURS if csls else 0,
        seed=seed,
    )
    name = "csls" if csls else "cosine"
    return Retrieval(len(images), len(texts), name, image_to_text=done.x_to_y, text_to_image=done.y_to_x)
