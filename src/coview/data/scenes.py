"""A scene: one state of the world, the texts that describe it and perhaps an image of it.

The scene id carries the whole product: rows that share a scene are views of one state of the world.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from PIL.Image import Image

SPLITS = ("train", "val", "test", "reserved")

# What people call their splits; "restval" is Karpathy's name for the part of COCO's val that is trained on.
SPLIT_WORDS = {
    "train": "train",
    "training": "train",
    "restval": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "test": "test",
    "reserved": "reserved",
}

HASH_SPLIT_NOTE = "no split is registered: 90/5/5 % of the scenes are train/val/test, by a hash of their ids."


@dataclass(frozen=True, slots=True)
class Scene:
    """One scene.

    Attributes
    ----------
    id : str, unique in its source
    texts : the texts that describe the scene, in the source's order
    image : name of the scene's image in its source, or None
    split : train, val, test, or reserved (kept for an evaluation elsewhere; never trained on)
    where : file and row the scene came from, for messages; no part of what the scene is
    """

    id: str
    texts: tuple[str, ...]
    image: str | None = None
    split: str = "train"
    where: str = field(default="", compare=False, repr=False)


class Source(Protocol):
    """Where scenes come from. Readers stream: a source need not fit in memory.

    Attributes
    ----------
    name : what the source is called in messages and manifests, the SRC that opened it
    split_note : one sentence to show once if the splits are not the source's own, else ""
    """

    name: str
    split_note: str

    def scenes(self, split: str | None = None) -> Iterator[Scene]:
        """The scenes of one split, or of all splits, always in the same order."""
        ...

    def open_image(self, scene: Scene) -> "Image":
        """The scene's image, RGB; InputError if it is missing, truncated or too large."""
        ...

    def image_size(self, scene: Scene) -> tuple[int, int]:
        """Width and height of the scene's image, from its header; InputError if missing or no image."""
        ...


def split_by_hash(scene_id: str) -> str:
    """The split of a scene whose source registers none: 90 % train, 5 % val, 5 % test.

    It depends on the id alone, so a scene keeps its split when others are added or the order changes.
    """
    digest = hashlib.sha256(scene_id.encode()).digest()
    share = int.from_bytes(digest[:8], "big") / 2**64
    return "train" if share < 0.90 else "val" if share < 0.95 else "test"
