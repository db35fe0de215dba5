"""A scene: one state of the world, the texts that describe it and perhaps an image of it.

The scene id carries the whole product: rows that share a scene are views of one state of the world.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from PIL.Image import Image

SPLITS = ("train", "val", "test", "reserved")


@dataclass(frozen=True)
class Scene:
    """One scene.

    Attributes
    ----------
    id : str, unique in its source
    texts : the texts that describe the scene, in the source's order
    image : name of the scene's image in its source, or None
    split : train, val, test, or reserved (kept for an evaluation elsewhere; never trained on)
    """

    id: str
    texts: tuple[str, ...]
    image: str | None = None
    split: str = "train"


class Source(Protocol):
    """Where scenes come from. Readers stream: a source need not fit in memory."""

    name: str

    def scenes(self, split: str | None = None) -> Iterator[Scene]:
        """The scenes of one split, or of all splits, always in the same order."""
        ...

    def open_image(self, scene: Scene) -> "Image":
        """The scene's image, RGB; InputError if it is missing, truncated or too large."""
        ...
