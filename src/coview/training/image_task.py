"""The image side: LeJEPA on paintings of one scene (good views) or on crops of one image (bad views)."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np
import torch
from torch import Tensor

from coview.config import TrainConfig
from coview.data.batches import scene_batch
from coview.data.scenes import Source
from coview.encoders.image import ImageEncoder, ImageEncoderConfig, as_pixels
from coview.errors import InputError
from coview.runs import hash_bytes
from coview.training.task import WHITENING_SCENES, Outcome, autocast, check_sizes, jepa_loss, whiten

SMALLEST_CROP = 0.5  # side of a crop, as a share of the image's
PAINTED_ALONE = 1000  # scenes that are painted before a second process would have started


@dataclass(frozen=True)
class ImageStore:
    """Images in memory.

    Attributes
    ----------
    pixels : uint8 array of shape (scenes, images a scene, side, side, 3)
    hash : of the content
    """

    pixels: np.ndarray
    hash: str


def build_images(
    source: Source, views: int, side: int, progress: Callable[[int, str], None] = lambda done, note="": None
) -> ImageStore:
    """The training images of a source: `views` paintings a scene where it can paint, else its one image.

    Raises
    ------
    InputError
        The training split has no images.
    """
    rows = []
    for done, images in enumerate(_images_of_scenes(source, views, side), start=1):
        rows.append(images)
        progress(done, "")
    if not rows:
        raise InputError("the training split has no images.", where=source.name)
    pixels = np.stack(rows)
    return ImageStore(pixels, hash_bytes(pixels.tobytes()))


def _images_of_scenes(source: Source, views: int, side: int) -> Iterator[np.ndarray]:
    """The images of each training scene in turn, (images a scene, side, side, 3) uint8."""
    from coview.encoders.encoder import batched, centre_square

    scenes = source.scenes("train")
    if not hasattr(source, "paintings"):
        for scene in scenes:
            if scene.image is not None:
                yield np.array(centre_square(source.open_image(scene), side))[None]
        return
    indices = [source.index_of(scene) for scene in scenes]  # type: ignore[attr-defined]
    scene, draw = [i for i in indices for _ in range(views)], list(range(views)) * len(indices)
    if len(indices) <= PAINTED_ALONE:
        yield from map(np.stack, batched(map(source.paintings, scene, draw), views))  # type: ignore[attr-defined]
        return
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        painted = pool.map(source.paintings, scene, draw, chunksize=64)  # type: ignore[attr-defined]
        yield from map(np.stack, batched(painted, views))


class ImageTask:
    """LeJEPA on images; good views are several images of one scene, bad views are crops of one image."""

    def __init__(self, config: TrainConfig, store: ImageStore, device: torch.device):
        self.config, self.store, self.device = config, store, device
        self.data_hash = store.hash
        if config.views == "good" and store.pixels.shape[1] < config.views_per_scene:
            raise InputError(
                f"a scene has {store.pixels.shape[1]} image, and good views need {config.views_per_scene}.",
                hint="Train with --views bad: crops of one image.",
            )
        shape = ImageEncoderConfig(output=config.output, pixels=store.pixels.shape[2])
        check_sizes(config, scenes=len(store.pixels), width=shape.features)
        torch.manual_seed(config.seed)  # initial weights only; nothing after this draws from it
        self.model = ImageEncoder(shape).to(device)

    def images(self, step: int) -> np.ndarray:
        """uint8 images of one batch, shape (V * N, side, side, 3): view v of scene n is row v * N + n."""
        config, pixels = self.config, self.store.pixels
        scenes = scene_batch(len(pixels), config.batch, seed=config.seed, step=step)
        rng = np.random.default_rng([config.seed, step, 3])
        if config.views == "good":
            order = rng.random((config.batch, pixels.shape[1])).argsort(axis=1)[:, : config.views_per_scene]
            return pixels[scenes[None], order.T].reshape(-1, *pixels.shape[2:])
        crops = [crop(pixels[scene, 0], rng) for _ in range(config.views_per_scene) for scene in scenes]
        return np.stack(crops)

    def step(self, step: int) -> Outcome:
        config, images = self.config, self.images(step)
        with autocast(config, self.device):
            features = self.model(as_pixels(images).to(self.device))
        z = self.model.head(features.float()).view(config.views_per_scene, config.batch, -1)
        return Outcome(jepa_loss(z, config, step), len(images), z)

    @torch.no_grad()
    def prepare(self) -> None:
        steps = -(-WHITENING_SCENES // self.config.batch)
        samples: list[Tensor] = [
            self.model(as_pixels(self.images(step)).to(self.device)) for step in range(steps)
        ]
        whiten(self.model.head, torch.cat(samples))

    def finish(self) -> None:
        """Nothing is left to estimate."""


def crop(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random square of the image, mirrored half of the time, at the image's own size."""
    from PIL import Image

    side = len(image)
    size = int(rng.integers(round(SMALLEST_CROP * side), side + 1))
    top, left = rng.integers(0, side - size + 1, size=2)
    part = image[top : top + size, left : left + size]
    part = part[:, ::-1] if rng.random() < 0.5 else part
    return np.asarray(
        Image.fromarray(np.ascontiguousarray(part)).resize((side, side), Image.Resampling.BILINEAR)
    )
