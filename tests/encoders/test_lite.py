"""EfficientNet-Lite against features that were made elsewhere, with another runtime."""

import numpy as np
import pytest
import torch
from PIL import Image

from coview.data.readers import open_source
from coview.encoders import load_encoder

pytest.importorskip("efficientnet_lite_pytorch")


@pytest.mark.parametrize("variant", ["lite0", "lite2"])
@pytest.mark.parametrize("pack", ["flickr8k", "caltech100"])
def test_features_equal_those_of_the_packs(shared, variant, pack):
    """To float16's precision; caltech100's photos are oblong, so that the crop is tested too."""
    folder = shared / "data" / pack
    names = (folder / "index.txt").read_text().split()
    stored = np.load(folder / f"features_efficientnet_{variant}.npy", mmap_mode="r")
    source = open_source(str(folder / "images.zip"))
    scenes = {scene.image: scene for scene in source.scenes()}
    chosen = range(0, len(names), len(names) // 4)
    images = [source.open_image(scenes[names[row]]) for row in chosen]
    rows = load_encoder(f"{variant}:", device="cpu").encode(images)
    np.testing.assert_allclose(rows, stored[list(chosen)].astype(np.float32), atol=3e-3, rtol=1e-3)


def test_preparation_and_independence_of_the_batch():
    made = load_encoder("lite0:", device="cpu", batch=2)
    assert (made.width, made.modality, made.name) == (1280, "image", "lite0:")
    grey = Image.new("RGB", (300, 224), (127, 127, 255))
    pixels = made.prepare(grey)
    assert pixels.shape == (3, 224, 224)
    torch.testing.assert_close(pixels[:, 0, 0], torch.tensor([0.0, 0.0, 1.0]))
    noise = np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3), dtype=np.uint8)
    images = [Image.fromarray(image) for image in noise]
    together = made.encode(iter(images))
    np.testing.assert_allclose(made.encode(images[2:])[0], together[2], atol=1e-5)
    assert made.fingerprint == load_encoder("lite0:").fingerprint
