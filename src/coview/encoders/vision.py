"""Frozen encoders of images from timm, and of images and texts from open_clip.

Of a vision transformer every block can be had, as platonic-rep takes them: the class token after each block,
before the final norm (https://github.com/minyoungg/platonic-rep). The default is the model's own embedding.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from coview.encoders.encoder import Encoder, PixelEncoder, as_rows, batched, hash_weights, recording
from coview.encoders.frozen import require
from coview.encoders.hub import loading
from coview.errors import UsageError, did_you_mean


class TimmEncoder(PixelEncoder):
    """An image model of timm: its pooled features, and of a vision transformer every block.

    Parameters
    ----------
    network : created with ``num_classes=0``, so that it returns its features
    transform : maps a PIL image to the network's input, timm's own for these weights
    """

    def __init__(
        self,
        network: Any,
        transform: Callable[[Image.Image], Tensor],
        name: str,
        *,
        device: str = "cpu",
        batch: int | None = None,
    ):
        super().__init__(device=device, batch=batch)
        self.network, self.transform, self.name = network.eval().to(device), transform, name
        is_transformer = hasattr(network, "num_prefix_tokens") and hasattr(network, "blocks")
        self.blocks = list(network.blocks) if is_transformer else []
        if self.blocks:
            self.published_layers = tuple(f"block.{index}" for index in range(len(self.blocks)))
            # A model that averages its tokens may norm after the average and not before.
            normed = not isinstance(getattr(network, "norm", nn.Identity()), nn.Identity)
            self.layers = (*self.published_layers, "final_norm") if normed else self.published_layers
        blank = transform(Image.new("RGB", (64, 64)))
        with torch.inference_mode():
            self.width = network(blank[None].to(device)).shape[-1]
        self.fingerprint = hash_weights(network, str(transform))

    def prepare(self, image: Image.Image) -> Tensor:
        return self.transform(image)

    def _pool(self, tokens: Tensor) -> Tensor:
        return tokens[:, 0] if self.network.num_prefix_tokens else tokens.mean(1)

    def forward(self, pixels: Tensor, names: tuple[str, ...]) -> dict[str, Tensor]:
        with recording(self.blocks, self._pool) as rows:
            features = self.network.forward_features(pixels)
        if self.blocks:
            rows["final_norm"] = self._pool(features)
        rows["embedding"] = self.network.forward_head(features, pre_logits=True)
        return {name: rows[name] for name in names}


def load_timm(name: str, device: str, batch: int | None) -> TimmEncoder:
    """Load a pretrained image model of timm with the transform its weights were trained for."""
    timm = require("timm", "hub")
    if not timm.is_model(name):
        near = did_you_mean(name, timm.list_models(pretrained=True))
        hint = near if near.startswith("Did") else "timm.list_models(pretrained=True) lists them."
        raise UsageError(f"timm knows no model {name!r}.", where="--model", hint=hint)
    with loading(name):
        network = timm.create_model(name, pretrained=True, num_classes=0)
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(network), is_training=False)
    return TimmEncoder(network, transform, f"timm:{name}", device=device, batch=batch)


class ClipImages(PixelEncoder):
    """The image tower of a CLIP model: its projected embedding, and the class token after every block."""

    def __init__(
        self,
        network: Any,
        transform: Callable[[Image.Image], Tensor],
        name: str,
        *,
        device: str = "cpu",
        batch: int | None = None,
    ):
        super().__init__(device=device, batch=batch)
        self.network, self.transform, self.name = network.eval().to(device), transform, name
        self.blocks = find_residual_blocks(network.visual)
        if self.blocks:
            self.layers = self.published_layers = tuple(f"block.{index}" for index in range(len(self.blocks)))
        blank = transform(Image.new("RGB", (64, 64)))
        with torch.inference_mode():
            self.width = network.encode_image(blank[None].to(device)).shape[-1]
        self.fingerprint = hash_weights(network.visual, str(transform))

    def prepare(self, image: Image.Image) -> Tensor:
        return self.transform(image)

    def forward(self, pixels: Tensor, names: tuple[str, ...]) -> dict[str, Tensor]:
        with recording(self.blocks, lambda tokens: tokens[:, 0]) as rows:
            rows["embedding"] = self.network.encode_image(pixels)
        return {name: rows[name] for name in names}


class ClipTexts(Encoder):
    """The text tower of a CLIP model: its projected embedding, and its summary token after every block.

    The tokenizer fills every text up to one fixed length, so a row does not depend on its batch.
    """

    modality = "text"

    def __init__(
        self,
        network: Any,
        tokenizer: Any,
        name: str,
        *,
        device: str = "cpu",
        batch: int | None = None,
    ):
        self.network, self.tokenizer, self.name = network.eval().to(device), tokenizer, name
        self.device, self.batch = device, batch or 64
        # The first CLIP has its text tower's parts at the top, beside the image tower; later ones in `text`.
        tower = getattr(network, "text", network)
        self.blocks = find_residual_blocks(tower.transformer)
        self.pool_type = getattr(network, "text_pool_type", None) or getattr(tower, "pool_type", "argmax")
        if self.blocks:
            self.layers = self.published_layers = tuple(f"block.{index}" for index in range(len(self.blocks)))
        with torch.inference_mode():
            self.width = network.encode_text(tokenizer(["a"]).to(device)).shape[-1]
        self.fingerprint = hash_weights(network, type(tokenizer).__name__, self.pool_type)

    def encode(self, items: Iterable[str], layers: str = "last") -> np.ndarray:
        text_global_pool = require("open_clip.transformer", "hub").text_global_pool
        names = self.select(layers)
        parts: dict[str, list[np.ndarray]] = {name: [] for name in names}
        for texts in batched(items, self.batch):
            tokens = self.tokenizer(texts).to(self.device)

            def pool(hidden: Tensor, tokens: Tensor = tokens) -> Tensor:
                eos = getattr(self.network, "text_eos_id", None)
                return text_global_pool(hidden, tokens, self.pool_type, eos_token_id=eos)

            with torch.inference_mode(), recording(self.blocks, pool) as rows:
                rows["embedding"] = self.network.encode_text(tokens)
            for name in names:
                parts[name].append(as_rows(rows[name]))
        empty = [np.empty((0, self.width), np.float32)]
        return self.arrange({name: np.concatenate(rows or empty) for name, rows in parts.items()}, layers)

    def truncated(self, texts: list[str]) -> int:
        return sum(self._length(text) > self.network.context_length for text in texts)

    def _length(self, text: str) -> int:
        """Tokens of a text with its start and end marks, before it is cut."""
        if hasattr(self.tokenizer, "encode"):
            return len(self.tokenizer.encode(text)) + 2
        return len(self.tokenizer.tokenizer(text)["input_ids"])


def find_residual_blocks(tower: nn.Module) -> list[nn.Module]:
    """The residual blocks of a transformer; none for a convolutional tower or one of another library."""
    for module in tower.modules():
        blocks = getattr(module, "resblocks", None)
        if isinstance(blocks, nn.ModuleList):
            return list(blocks)
    return []


def load_open_clip(rest: str, modality: str | None, device: str, batch: int | None) -> ClipImages | ClipTexts:
    """Load one tower of ``ARCH/TAG``; `modality` says which."""
    architecture, slash, tag = rest.partition("/")
    if modality not in ("text", "image"):
        hint = "Say which: --modality text or --modality image."
        raise UsageError("a CLIP model has two towers.", where=f"open_clip:{rest}", hint=hint)
    library = require("open_clip", "hub")
    tags = library.list_pretrained_tags_by_model(architecture)
    if architecture not in library.list_models():
        near = did_you_mean(architecture, library.list_models())
        hint = near if near.startswith("Did") else "open_clip.list_pretrained() lists them."
        raise UsageError(f"open_clip knows no architecture {architecture!r}.", where="--model", hint=hint)
    if not slash or tag not in tags:
        hint = did_you_mean(tag, tags)
        raise UsageError(f"{architecture} has no weights {tag!r}.", where="--model", hint=hint)
    with loading(rest):
        network, _, transform = library.create_model_and_transforms(architecture, pretrained=tag)
    name = f"open_clip:{rest}"
    if modality == "image":
        return ClipImages(network, transform, name, device=device, batch=batch)
    return ClipTexts(network, library.get_tokenizer(architecture), name, device=device, batch=batch)
