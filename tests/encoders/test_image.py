"""The small image network: shapes, independence of the batch, the run folder."""

import numpy as np
import pytest
import torch
from PIL import Image

from coview.encoders import load_encoder
from coview.encoders.image import (
    ImageEncoder,
    ImageEncoderConfig,
    as_pixels,
    encode_images,
    save_image_encoder,
)
from coview.errors import InputError

PICTURES = np.random.default_rng(0).integers(0, 256, (6, 64, 64, 3), dtype=np.uint8)


def network(**shape) -> ImageEncoder:
    torch.manual_seed(3)
    return ImageEncoder(ImageEncoderConfig(**shape))


def test_shapes_and_size():
    made = network(output=48)
    features = made(as_pixels(PICTURES))
    assert features.shape == (6, 128)
    assert made.head(features).shape == (6, 48)
    assert sum(parameter.numel() for parameter in made.parameters()) < 1_000_000
    assert network(channels=(8, 16), blocks=2)(as_pixels(PICTURES)).shape == (6, 16)


def test_pixels_are_the_pictures_in_0_to_1():
    pixels = as_pixels(PICTURES)
    assert pixels.is_contiguous(memory_format=torch.channels_last)
    np.testing.assert_allclose(pixels.permute(0, 2, 3, 1).numpy() * 255, PICTURES, atol=1e-4)


def test_every_parameter_learns():
    made = network()
    made.head(made(as_pixels(PICTURES))).square().mean().backward()
    for name, parameter in made.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_a_row_does_not_depend_on_its_batch_even_in_training():
    made = network().train()
    together = made(as_pixels(PICTURES))
    for index in range(6):
        alone = made(as_pixels(PICTURES[index : index + 1]))[0]
        torch.testing.assert_close(alone, together[index], atol=1e-5, rtol=1e-5)


def test_first_features_are_spread():
    """Layers keep the scale of what passes through them, so the first step is neither blind nor wild."""
    features = network()(as_pixels(PICTURES))
    assert 0.1 < features.std() < 10


def test_a_run_folder_gives_back_the_same_rows(tmp_path):
    made = network(output=32)
    save_image_encoder(tmp_path, made, {"modality": "image", "seed": 5})
    encoder = load_encoder(f"run:{tmp_path}", device="cpu")
    expected = made.eval().head(made(as_pixels(PICTURES))).detach().numpy()
    pictures = [Image.fromarray(picture) for picture in PICTURES]
    np.testing.assert_allclose(encoder.encode(pictures), expected, atol=1e-6)
    np.testing.assert_allclose(encode_images(made, PICTURES), expected, atol=1e-6)
    assert encoder.encode(pictures, "features").shape == (6, 128)
    assert (encoder.width, encoder.name) == (32, f"run:{tmp_path}")
    wide = Image.fromarray(np.pad(PICTURES[0], ((0, 0), (20, 20), (0, 0))))
    np.testing.assert_allclose(encoder.encode([wide])[0], expected[0], atol=1e-6)


def test_broken_run_folders(tmp_path):
    (tmp_path / "config.json").write_text('{"modality": "image"}')
    with pytest.raises(InputError, match="not finished"):
        load_encoder(f"run:{tmp_path}")
    torch.save({"a": torch.zeros(1)}, tmp_path / "model.safetensors")
    with pytest.raises(InputError, match="not a safetensors file"):
        load_encoder(f"run:{tmp_path}")
    save_image_encoder(tmp_path, network(), {"modality": "image"})
    (tmp_path / "config.json").write_text('{"modality": "image", "encoder": {"channels": [8]}}')
    with pytest.raises(InputError, match="not an image encoder"):
        load_encoder(f"run:{tmp_path}")
