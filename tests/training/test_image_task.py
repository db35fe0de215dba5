"""The image side: what is drawn as views, and its loss."""

import numpy as np
import pytest
import torch
from PIL import Image

from coview.data.batches import scene_batch
from coview.data.scenes import Scene
from coview.encoders.image import as_pixels
from coview.errors import InputError, UsageError
from coview.tabletop import TabletopSource
from coview.training.image_task import ImageStore, ImageTask, build_images, crop
from coview.training.task import jepa_loss

CPU = torch.device("cpu")


def numbered(scenes: int, views: int, side: int = 16) -> ImageStore:
    """Image d of scene s is of one colour, (s, d, 0)."""
    pixels = np.zeros((scenes, views, side, side, 3), np.uint8)
    pixels[..., 0] = np.arange(scenes)[:, None, None, None]
    pixels[..., 1] = np.arange(views)[:, None, None]
    return ImageStore(pixels, "hash")


def test_good_views_are_different_images_of_one_scene(tiny):
    task = ImageTask(tiny(modality="image", views_per_scene=3), numbered(30, 5), CPU)
    seen = set()
    for step in range(30):
        scene, draw = np.moveaxis(task.images(step)[:, 0, 0, :2], -1, 0).reshape(2, 3, 8)
        assert (scene == scene_batch(30, 8, seed=0, step=step)).all()
        assert all(len(set(column)) == 3 for column in draw.T)
        seen |= {(view, int(number)) for view, row in enumerate(draw) for number in row}
    assert len(seen) == 15  # any image of a scene may be any view


def test_bad_views_are_crops_of_one_image(tiny):
    task = ImageTask(tiny(modality="image", views="bad"), numbered(30, 1), CPU)
    images = task.images(4)
    scene = images[:, 0, 0, 0].reshape(2, 8)
    assert (scene == scene_batch(30, 8, seed=0, step=4)).all()
    assert images.shape == (16, 16, 16, 3)


def test_a_crop_is_a_square_of_the_image_mirrored_half_of_the_time():
    side = 40
    ramp = np.zeros((side, side, 3), np.uint8)
    ramp[..., 0], ramp[..., 1] = np.arange(side), np.arange(side)[:, None]
    mirrored, sizes = 0, []
    for seed in range(60):
        part = crop(ramp, np.random.default_rng(seed)).astype(int)
        assert part.shape == ramp.shape
        across, down = part[side // 2, :, 0], part[:, side // 2, 1]
        mirrored += across[0] > across[-1]
        assert abs(abs(across[-1] - across[0]) - (down[-1] - down[0])) <= 1  # a square
        sizes.append(down[-1] - down[0] + 1)
    assert 15 < mirrored < 45
    assert min(sizes) >= side / 2 - 1
    assert max(sizes) > 0.9 * side


def test_images_are_a_function_of_seed_and_step(tiny):
    store = ImageStore(np.random.default_rng(0).integers(0, 255, (20, 3, 16, 16, 3), np.uint8), "hash")
    for views in ("good", "bad"):
        one, other, again = (
            ImageTask(tiny(modality="image", views=views, seed=seed), store, CPU) for seed in (0, 1, 0)
        )
        assert np.array_equal(one.images(3), again.images(3))
        assert not np.array_equal(one.images(3), one.images(4))
        assert not np.array_equal(one.images(3), other.images(3))


def test_the_loss_is_that_of_the_images_one_by_one_and_training_starts_white(tiny):
    store = build_images(TabletopSource(scenes=40), views=2, side=32)
    config = tiny(modality="image")
    task = ImageTask(config, store, CPU)
    task.prepare()
    outcome = task.step(2)
    rows = [task.model.head(task.model(as_pixels(image[None])))[0] for image in task.images(2)]
    z = torch.stack(rows).view(2, 8, -1)
    torch.testing.assert_close(outcome.embeddings, z, rtol=0, atol=1e-3)
    torch.testing.assert_close(outcome.loss.total, jepa_loss(z, config, 2).total, rtol=1e-3, atol=1e-4)
    assert outcome.read == 16
    outcome.loss.total.backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in task.model.parameters())
    assert 0.2 < outcome.embeddings.detach().var() < 5


def test_paintings_of_the_embedded_world():
    source = TabletopSource(scenes=20)
    store = build_images(source, views=2, side=64)
    assert store.pixels.shape == (16, 2, 64, 64, 3)
    scenes = list(source.scenes("train"))
    assert np.array_equal(store.pixels[3, 1], source.paintings(source.index_of(scenes[3]), 1))
    assert build_images(source, views=2, side=64).hash == store.hash


class Photos:
    """Three scenes, the second without an image."""

    name, split_note = "photos:", ""

    def scenes(self, split=None):
        return iter([Scene("a", ("x",), "a.png"), Scene("b", ("y",)), Scene("c", ("z",), "c.png")])

    def open_image(self, scene):
        return Image.new("RGB", (50, 30), (200, 0, 0) if scene.id == "a" else (0, 0, 200))


def test_photos_are_squared_and_scenes_without_one_left_out(tiny):
    store = build_images(Photos(), views=1, side=24)
    assert store.pixels.shape == (2, 1, 24, 24, 3)
    assert store.pixels[:, 0, 0, 0].tolist() == [[200, 0, 0], [0, 0, 200]]
    with pytest.raises(InputError, match=r"a scene has 1 image.*--views bad"):
        ImageTask(tiny(modality="image", batch=2), store, CPU)


def test_a_source_of_texts_alone(tiny):
    class Texts(Photos):
        def scenes(self, split=None):
            return iter([Scene("a", ("x",))])

    with pytest.raises(InputError, match="the training split has no images"):
        build_images(Texts(), views=1, side=24)


def test_sizes_that_do_not_fit(tiny):
    with pytest.raises(UsageError, match="--output"):
        ImageTask(tiny(modality="image", output=200), numbered(30, 2), CPU)
    with pytest.raises(UsageError, match="--batch"):
        ImageTask(tiny(modality="image", batch=31), numbered(30, 2), CPU)
