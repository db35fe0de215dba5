"""Sources in memory, of texts and of images."""

import os

import numpy as np
import pytest
from doubles import MemorySource

from coview.data.scenes import Scene

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before any hub library is imported: no test asks a hub


@pytest.fixture
def texts() -> MemorySource:
    """700 texts of 350 test scenes, and one training scene."""
    scenes = [Scene(f"s{i}", (f"text {i}", f"other text {i}"), split="test") for i in range(350)]
    return MemorySource([*scenes, Scene("seen", ("a training text",))])


@pytest.fixture
def images() -> MemorySource:
    """600 tiny images."""
    pixels = np.random.default_rng(0).integers(0, 256, (600, 4, 4, 3), dtype=np.uint8)
    scenes = [Scene(f"s{i}", (), f"folder/{i}.png", "test") for i in range(600)]
    return MemorySource(scenes, {scene.id: image for scene, image in zip(scenes, pixels, strict=True)})
