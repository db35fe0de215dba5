"""What every encoder offers: a row of numbers for each text or image, from one layer or from all."""

import hashlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from coview.errors import MissingError, UsageError, did_you_mean

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image


class Encoder:
    """Turns texts or images into rows.

    Attributes
    ----------
    name : the MODEL string, with its revision resolved where there is one
    modality : "text" or "image"
    width : numbers a row
    last : name of the layer that is given by default, the model's own embedding
    layers : names of the layers that ``layers="all"`` stacks, first to last: ``embed`` (the input of
        block 0), ``block.0`` ... ``block.L-1`` (what leaves each block, before any final norm) and
        ``final_norm``, as far as the model has them
    published_layers : the layers that platonic-rep compares, see `select`
    fingerprint : hash of the weights and the preparation; equal fingerprints give equal rows
    caution : one sentence if the encoder is known to have seen common evaluation data, else ""
    """

    name: str
    modality: str
    width: int
    last: str = "embedding"
    layers: tuple[str, ...] = ("embedding",)
    published_layers: tuple[str, ...] = ("embedding",)
    fingerprint: str = ""
    caution: str = ""

    def encode(self, items: Iterable[Any], layers: str = "last") -> np.ndarray:
        """Rows of texts or of RGB images.

        Parameters
        ----------
        items : texts or PIL images; images are taken from the iterable one batch at a time
        layers : see `select`

        Returns
        -------
        float32 array of shape (n, width), or (n, L, width) if `layers` means several.
        """
        raise NotImplementedError

    def truncated(self, texts: list[str]) -> int:
        """How many of the texts are longer than the encoder reads."""
        return 0

    def select(self, layers: str) -> tuple[str, ...]:
        """The layers that a word means.

        ``last`` is the model's own embedding, ``all`` is every layer, ``prh`` is what platonic-rep takes
        (https://github.com/minyoungg/platonic-rep): of a language model its `hidden_states`, which are
        ``embed``, the blocks, and ``final_norm`` in the last block's place; of a vision transformer its
        blocks. Anything else is names with commas between.
        """
        known = {"last": (self.last,), "all": self.layers, "prh": self.published_layers}
        if layers in known:
            return known[layers]
        names = tuple(layers.split(","))
        for name in names:
            if name not in (*self.layers, self.last):
                hint = did_you_mean(name, (*known, *self.layers))
                raise UsageError(f"{self.name} has no layer {name!r}.", where="--layers", hint=hint)
        return names

    def arrange(self, rows: dict[str, np.ndarray], layers: str) -> np.ndarray:
        """Stack the rows of several layers, or give those of the one that was asked for."""
        names = self.select(layers)
        return np.stack([rows[name] for name in names], axis=1) if self.stacked(layers) else rows[names[0]]

    def stacked(self, layers: str) -> bool:
        """Whether the word means several layers, so that rows have an axis for them."""
        return layers in ("all", "prh") or len(self.select(layers)) > 1


class PixelEncoder(Encoder):
    """An encoder of images: a subclass says how one image is prepared and what a batch turns into."""

    modality = "image"

    def __init__(self, *, device: str, batch: int | None):
        self.device, self.batch = device, batch or 32

    def prepare(self, image: "Image") -> "torch.Tensor":
        """The network's input for one RGB image, shape (3, height, width)."""
        raise NotImplementedError

    def forward(self, pixels: "torch.Tensor", names: tuple[str, ...]) -> dict[str, "torch.Tensor"]:
        """Rows of each named layer, shape (batch, width)."""
        raise NotImplementedError

    def encode(self, items: Iterable["Image"], layers: str = "last") -> np.ndarray:
        import torch

        names = self.select(layers)
        parts: dict[str, list[np.ndarray]] = {name: [] for name in names}
        for images in batched((self.prepare(image) for image in items), self.batch):
            # Depthwise convolutions are up to a third faster on a CPU with the channels last.
            pixels = torch.stack(images).to(self.device, memory_format=torch.channels_last)
            with torch.inference_mode():
                for name, rows in self.forward(pixels, names).items():
                    parts[name].append(as_rows(rows))
        empty = [np.empty((0, self.width), np.float32)]
        return self.arrange({name: np.concatenate(rows or empty) for name, rows in parts.items()}, layers)


def centre_square(image: "Image", pixels: int) -> "Image":
    """Scale the shorter side to `pixels` (bicubic) and crop the centre."""
    from PIL.Image import Resampling

    if image.size == (pixels, pixels):
        return image.convert("RGB")
    scale = pixels / min(image.size)
    width, height = (max(pixels, round(side * scale)) for side in image.size)
    left, top = (width - pixels) // 2, (height - pixels) // 2
    resized = image.convert("RGB").resize((width, height), Resampling.BICUBIC)
    return resized.crop((left, top, left + pixels, top + pixels))


def batched(items: Iterable, size: int) -> Iterator[list]:
    """Lists of `size` items, the last one perhaps shorter."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def as_rows(rows: "torch.Tensor") -> np.ndarray:
    """A tensor on any device, in any precision, as a float32 array."""
    return rows.detach().float().cpu().numpy()


@contextmanager
def recording(
    blocks: Sequence["torch.nn.Module"], pool: Callable[["torch.Tensor"], "torch.Tensor"]
) -> Generator[dict[str, "torch.Tensor"]]:
    """Record what goes into the first block and comes out of each while the network runs.

    Each layer is pooled as it appears, so the hidden states of all layers are never held at once.

    Parameters
    ----------
    blocks : the network's blocks, in order
    pool : maps a block's hidden states to one row an item

    Yields
    ------
    dict that fills with ``embed``, ``block.0``, ..., each of shape (batch, width)
    """
    rows: dict[str, torch.Tensor] = {}

    def before(module, arguments, named):
        rows["embed"] = pool(arguments[0] if arguments else named["hidden_states"])

    def after(index: int):
        def hook(module, arguments, output):
            rows[f"block.{index}"] = pool(output[0] if isinstance(output, tuple) else output)

        return hook

    handles = [block.register_forward_pre_hook(before, with_kwargs=True) for block in blocks[:1]]
    handles += [block.register_forward_hook(after(index)) for index, block in enumerate(blocks)]
    try:
        yield rows
    finally:
        for handle in handles:
            handle.remove()


def hash_weights(network: "torch.nn.Module", *facts: object) -> str:
    """Hash of a network's weights and of whatever else decides its rows; 16 hexadecimal digits."""
    import torch

    digest = hashlib.sha256(repr(facts).encode())
    for name, tensor in network.state_dict().items():
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()[:16]


def pick_device(device: str) -> str:
    """The device to run on; ``auto`` takes a GPU if there is one.

    Raises
    ------
    MissingError
        The device asked for is not there.
    """
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise MissingError("PyTorch finds no GPU here.", where="--device", hint="Use --device cpu.")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).split("\n", 1)[0]
        hint = "Use auto, cpu or cuda."
        raise UsageError(f"no device {device!r}: {reason}", where="--device", hint=hint) from None
    return device
