"""A source and an encoder that live in memory, for tests of what is built on them."""

from collections.abc import Iterable, Iterator

import numpy as np
from PIL import Image

from coview.data.scenes import Scene
from coview.encoders import Encoder


class MemorySource:
    """Scenes and images from lists; counts how often an image is opened."""

    name, split_note = "memory:", ""

    def __init__(self, scenes: list[Scene], images: dict[str, np.ndarray] | None = None):
        self.list, self.images, self.opened = scenes, images or {}, 0

    def scenes(self, split: str | None = None) -> Iterator[Scene]:
        return (scene for scene in self.list if split is None or scene.split == split)

    def open_image(self, scene: Scene) -> Image.Image:
        self.opened += 1
        return Image.fromarray(self.images[scene.id])


class Counting(Encoder):
    """Rows that depend on their item alone, at once or a layer at a time; fails when told to."""

    name, width, last, layers = "counting:", 3, "late", ("early", "late")
    published_layers = ("early",)

    def __init__(self, modality: str = "text", fingerprint: str = "one", fail_after: int | None = None):
        self.modality, self.fingerprint, self.fail_after = modality, fingerprint, fail_after
        self.encoded = 0

    def encode(self, items: Iterable, layers: str = "last") -> np.ndarray:
        rows = []
        for item in items:
            if self.fail_after is not None and self.encoded >= self.fail_after:
                raise KeyboardInterrupt
            self.encoded += 1
            data = item.encode() if isinstance(item, str) else item.tobytes()
            rows.append(np.random.default_rng(list(data)).standard_normal(self.width))
        late = np.array(rows, np.float32).reshape(-1, self.width)
        return self.arrange({"early": late + 1, "late": late}, layers)

    def truncated(self, texts: list[str]) -> int:
        return sum(len(text) > 8 for text in texts)
