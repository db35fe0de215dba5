"""A small residual network for images of 64x64 pixels, to be trained by the same objective as the texts.

Three stages of 3x3 convolutions at a quarter, an eighth and a sixteenth of the image's side, then the mean
over positions (He et al. 2016, with GroupNorm: a row never depends on the other images of its batch, in
training or after it). About half a million parameters and one millisecond an image, forward and backward,
on one thread of an ordinary CPU.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import gcd
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor, nn

from coview.encoders.encoder import PixelEncoder, centre_square, hash_weights
from coview.encoders.trained import WEIGHTS, read_run
from coview.errors import InputError
from coview.runs import atomic_path, write_json

GROUPS = 8  # of channels, each normalised by itself


@dataclass(frozen=True)
class ImageEncoderConfig:
    """Shape of an image encoder.

    Attributes
    ----------
    channels : channels of each stage, even; each stage halves the side
    blocks : residual blocks a stage
    output : width of the linear map after pooling (what the JEPA loss sees)
    pixels : side of the square input
    """

    channels: tuple[int, ...] = (32, 64, 128)
    blocks: int = 1
    output: int = 128
    pixels: int = 64

    @property
    def features(self) -> int:
        """Width before the linear map."""
        return self.channels[-1]


class Residual(nn.Module):
    """Two 3x3 convolutions around which the input passes."""

    def __init__(self, channels: int):
        super().__init__()
        self.first = convolution(channels, channels)
        self.second = convolution(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.second(F.relu(self.first(x))))


def convolution(before: int, after: int, stride: int = 1) -> nn.Sequential:
    """A 3x3 convolution and the norm that makes its bias idle."""
    return nn.Sequential(
        nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False),
        nn.GroupNorm(gcd(GROUPS, after), after),
    )


class ImageEncoder(nn.Module):
    """Images to features; the linear map `head` after them is what a JEPA loss sees, as in `TextEncoder`."""

    def __init__(self, config: ImageEncoderConfig = ImageEncoderConfig()):
        super().__init__()
        self.config = config
        first = config.channels[0]
        layers: list[nn.Module] = [convolution(3, first // 2, stride=2), nn.ReLU()]
        for before, after in zip((first // 2, *config.channels), config.channels, strict=False):
            layers += [convolution(before, after, stride=2), nn.ReLU()]
            layers += [Residual(after) for _ in range(config.blocks)]
        self.trunk = nn.Sequential(*layers)
        self.head = nn.Linear(config.features, config.output)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        for module in self.trunk.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")

    def forward(self, pixels: Tensor) -> Tensor:
        """Features of images, before the linear map: (N, 3, S, S) in 0..1 to (N, features)."""
        return self.trunk(pixels * 2 - 1).mean((2, 3))


def as_pixels(images: np.ndarray) -> Tensor:
    """uint8 images (N, S, S, 3) as the network's input (N, 3, S, S) in 0..1, channels last in memory."""
    return torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255


class TrainedImageEncoder(PixelEncoder):
    """An image encoder trained here, as an encoder of images of any size."""

    last, layers, published_layers = "head", ("features",), ("features",)

    def __init__(self, network: ImageEncoder, name: str, *, device: str = "cpu", batch: int | None = None):
        super().__init__(device=device, batch=batch or 256)
        self.network, self.name = network.eval().to(device), name
        self.width = network.config.output
        self.fingerprint = hash_weights(network, network.config)

    def prepare(self, image: Image.Image) -> Tensor:
        return as_pixels(np.array(centre_square(image, self.network.config.pixels))[None])[0]

    def forward(self, pixels: Tensor, names: tuple[str, ...]) -> dict[str, Tensor]:
        features = self.network(pixels)
        return {name: features if name == "features" else self.network.head(features) for name in names}


def save_image_encoder(folder: str | Path, network: ImageEncoder, config: dict) -> None:
    """Write weights and configuration of a finished run."""
    tensors = {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()}
    with atomic_path(Path(folder) / WEIGHTS) as temporary:
        save_file(tensors, temporary)
    write_json(Path(folder) / "config.json", {**config, "encoder": asdict(network.config)})


def load_image_encoder(
    folder: str | Path, *, device: str = "cpu", batch: int | None = None
) -> TrainedImageEncoder:
    """The image encoder of a finished run.

    Raises
    ------
    InputError
        The folder holds no finished run of an image encoder.
    """
    folder = Path(folder)
    config, weights = read_run(folder)
    try:
        shape = config["encoder"]
        network = ImageEncoder(ImageEncoderConfig(**shape | {"channels": tuple(shape["channels"])}))
        network.load_state_dict(weights)
    except (KeyError, TypeError, RuntimeError) as error:
        reason = str(error).split("\n", 1)[0]
        raise InputError(f"not an image encoder: {reason}", where=str(folder)) from error
    return TrainedImageEncoder(network, f"run:{folder}", device=device, batch=batch)


def encode_images(network: ImageEncoder, images: np.ndarray | Sequence[Image.Image]) -> np.ndarray:
    """Embeddings after the linear map of images in memory: float32 array of shape (n, output)."""
    pictures = [Image.fromarray(image) for image in images] if isinstance(images, np.ndarray) else images
    return TrainedImageEncoder(network, "").encode(pictures)
