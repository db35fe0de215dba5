"""timm and open_clip models, small and at random; both need a torchvision that fits the installed torch."""

import numpy as np
import pytest
import torch
from PIL import Image

from coview.encoders import load_encoder
from coview.errors import MissingError, UsageError

IMAGES = [
    Image.fromarray(np.random.default_rng(index).integers(0, 256, (40 + index, 50, 3), dtype=np.uint8))
    for index in range(5)
]


def library(name: str):
    """Import a library that may be absent, or present beside a torchvision that does not fit."""
    try:
        return pytest.importorskip(name)
    except (RuntimeError, AttributeError) as error:
        pytest.skip(f"{name} cannot be imported: {error}")


def timm_encoder(name: str, batch: int | None = None, **shape):
    from coview.encoders.vision import TimmEncoder

    timm = library("timm")
    torch.manual_seed(7)
    network = timm.create_model(name, pretrained=False, num_classes=0, **shape)
    size = (3, shape.get("img_size", 64), shape.get("img_size", 64))
    data = timm.data.resolve_data_config({"input_size": size}, model=network)
    return TimmEncoder(
        network, timm.data.create_transform(**data, is_training=False), f"timm:{name}", batch=batch
    )


def tiny_vit(batch: int | None = None, **more):
    shape = {"embed_dim": 32, "depth": 3, "num_heads": 4, "img_size": 32, "patch_size": 16}
    return timm_encoder("vit_tiny_patch16_224", batch, **shape | more)


def test_every_block_of_a_vit_by_its_class_token():
    made = tiny_vit()
    assert made.layers == ("block.0", "block.1", "block.2", "final_norm")
    assert made.published_layers == ("block.0", "block.1", "block.2")
    pixels = torch.stack([made.prepare(image) for image in IMAGES])
    network = made.network
    with torch.inference_mode():
        x = network.norm_pre(network.patch_drop(network._pos_embed(network.patch_embed(pixels))))
        expected = []
        for block in network.blocks:
            x = block(x)
            expected.append(x[:, 0])
        expected.append(network.norm(x)[:, 0])
        own = network(pixels)
    rows = made.encode(IMAGES, "all")
    np.testing.assert_allclose(rows, torch.stack(expected, 1).numpy(), atol=2e-6)
    np.testing.assert_allclose(made.encode(IMAGES), own.numpy(), atol=2e-6)
    np.testing.assert_allclose(made.encode(IMAGES), rows[:, -1], atol=2e-6)
    np.testing.assert_array_equal(made.encode(IMAGES, "prh"), rows[:, :3])
    np.testing.assert_allclose(tiny_vit(batch=2).encode(iter(IMAGES), "all"), rows, atol=2e-6)
    assert made.encode([]).shape == (0, 32)


def test_a_vit_without_class_token_is_averaged():
    made = tiny_vit(class_token=False, global_pool="avg")
    assert made.layers == ("block.0", "block.1", "block.2")  # it norms after the average
    pixels = torch.stack([made.prepare(image) for image in IMAGES])
    with torch.inference_mode():
        expected = made.network.forward_features(pixels).mean(1).numpy()
    np.testing.assert_allclose(made.encode(IMAGES, "block.2"), expected, atol=2e-6)


def test_other_models_have_their_pooled_features():
    made = timm_encoder("resnet10t")
    assert made.layers == ("embedding",)
    assert made.width == 512
    pixels = torch.stack([made.prepare(image) for image in IMAGES])
    with torch.inference_mode():
        np.testing.assert_allclose(made.encode(IMAGES), made.network(pixels).numpy(), atol=1e-5)


def test_load_timm(monkeypatch):
    timm = library("timm")
    with pytest.raises(UsageError, match="Did you mean 'vit_tiny"):
        load_encoder("timm:vit_tinny_patch16_224.augreg_in21k")
    create = timm.create_model
    monkeypatch.setattr(timm, "create_model", lambda name, pretrained, **more: create(name, **more))
    made = load_encoder("timm:vit_tiny_patch16_224.augreg_in21k", device="cpu")
    assert (made.width, len(made.layers), made.modality) == (192, 13, "image")

    def offline(*_, **__):
        raise OSError("no network")

    monkeypatch.setattr(timm, "create_model", offline)
    with pytest.raises(MissingError, match="no network"):
        load_encoder("timm:vit_tiny_patch16_224.augreg_in21k")


@pytest.fixture
def clip(monkeypatch):
    """open_clip's ViT-B-32 with towers of two narrow blocks and random weights, loaded by its usual name."""
    open_clip = library("open_clip")
    config = open_clip.get_model_config("ViT-B-32")
    config["embed_dim"] = 24
    config["vision_cfg"] |= {"layers": 2, "width": 64, "head_width": 32, "image_size": 64}
    config["text_cfg"] |= {"layers": 2, "width": 32, "heads": 2}
    create = open_clip.create_model_and_transforms

    def tiny(architecture, pretrained):
        assert (architecture, pretrained) == ("ViT-B-32", "laion2b_s34b_b79k")
        open_clip.factory._MODEL_CONFIGS["tiny"] = config
        torch.manual_seed(7)
        return create("tiny", pretrained=None)

    monkeypatch.setattr(open_clip, "create_model_and_transforms", tiny)
    yield "open_clip:ViT-B-32/laion2b_s34b_b79k"
    open_clip.factory._MODEL_CONFIGS.pop("tiny", None)


def test_clip_images(clip):
    made = load_encoder(clip, modality="image", device="cpu")
    assert (made.width, made.layers) == (24, ("block.0", "block.1"))
    pixels = torch.stack([made.prepare(image) for image in IMAGES])
    visual = made.network.visual
    with torch.inference_mode():
        np.testing.assert_allclose(made.encode(IMAGES), made.network.encode_image(pixels).numpy(), atol=1e-5)
        normed = visual.ln_post(torch.from_numpy(made.encode(IMAGES, "block.1"))) @ visual.proj
    np.testing.assert_allclose(made.encode(IMAGES), normed.numpy(), atol=1e-5)
    assert made.encode(IMAGES, "all").shape == (5, 2, 64)


def test_clip_texts(clip):
    made = load_encoder(clip, modality="text", device="cpu")
    texts = ["a red cube", "a small blue ball left of two cubes", "ball"]
    assert (made.width, made.layers) == (24, ("block.0", "block.1"))
    network = made.network
    with torch.inference_mode():
        expected = network.encode_text(made.tokenizer(texts)).numpy()
        last = torch.from_numpy(made.encode(texts, "block.1"))
        projected = (network.ln_final(last) @ network.text_projection).numpy()
    np.testing.assert_allclose(made.encode(texts), expected, atol=1e-5)
    np.testing.assert_allclose(projected, expected, atol=1e-5)
    np.testing.assert_allclose(made.encode(texts[2:])[0], expected[2], atol=1e-5)
    assert made.truncated(["ball", "ball " * 75, "ball " * 76]) == 1


def test_clip_needs_a_tower_and_known_names(clip):
    for model, modality, message in [
        (clip, None, "two towers"),
        ("open_clip:ViT-B-33/openai", "text", "no architecture"),
        ("open_clip:ViT-B-32/openia", "text", "has no weights"),
        ("open_clip:ViT-B-32", "text", "has no weights"),
    ]:
        with pytest.raises(UsageError, match=message):
            load_encoder(model, modality=modality)
