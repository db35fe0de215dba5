"""The text encoders that coview trains, as they lie in a run folder: ``config.json``, weights, tokenizer."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from coview.data.tokens import encode, load_tokenizer
from coview.encoders.encoder import Encoder, as_rows, hash_weights
from coview.encoders.text import TextEncoder, TextEncoderConfig, pack
from coview.errors import InputError
from coview.runs import atomic_path, read_run_config, write_json

WEIGHTS = "model.safetensors"


class TrainedTextEncoder(Encoder):
    """A text encoder from a run folder.

    Its own embedding is ``head``: what the JEPA loss saw; for a next-token run the mean over the last
    layer's tokens, whitened on training texts. ``embed`` and ``block.0`` ... are means over a layer's tokens.
    """

    modality, last = "text", "head"

    def __init__(
        self, model: TextEncoder, tokenizer: Tokenizer, *, name: str, causal: bool, batch: int = 256
    ):
        self.model, self.tokenizer, self.name = model.eval(), tokenizer, name
        self.causal, self.batch = causal, batch
        self.width = model.config.output
        self.layers = ("embed", *(f"block.{index}" for index in range(model.config.layers)))
        self.published_layers = self.layers
        self.fingerprint = hash_weights(model, tokenizer.to_str(), causal)

    def encode(self, items: Iterable[str], layers: str = "last") -> np.ndarray:
        return self.arrange(self.encode_layers(items, self.select(layers)), layers)

    @torch.inference_mode()
    def encode_layers(self, items: Iterable[str], names: Sequence[str]) -> dict[str, np.ndarray]:
        """Rows of several layers, which may differ in width: float32 arrays (n, width) by name."""
        tokens, _ = encode(self.tokenizer, list(items), self.model.config.max_length)
        order = np.argsort([len(text) for text in tokens], kind="stable")
        widths = {name: self.width if name == self.last else self.model.config.width for name in names}
        rows = {name: np.empty((len(tokens), width), dtype=np.float32) for name, width in widths.items()}
        device = next(self.model.parameters()).device
        for start in range(0, len(order), self.batch):
            chosen = order[start : start + self.batch]
            packed = pack([tokens[row] for row in chosen]).to(device)
            for name, hidden in zip(self.layers, self.model.states(packed, causal=self.causal), strict=True):
                pooled = self.model.pool(hidden, packed)
                if name in rows:
                    rows[name][chosen] = as_rows(pooled)
                if name == self.layers[-1] and self.last in rows:
                    rows[self.last][chosen] = as_rows(self.model.head(pooled))
        return rows

    def truncated(self, texts: list[str]) -> int:
        return encode(self.tokenizer, texts, self.model.config.max_length)[1]


def save_text_encoder(folder: Path, model: TextEncoder, tokenizer: Tokenizer, config: dict) -> None:
    """Write weights, tokenizer and configuration of a finished run."""
    with atomic_path(folder / "tokenizer.json") as temporary:
        tokenizer.save(str(temporary))
    with atomic_path(folder / WEIGHTS) as temporary:
        save_file({name: value.cpu().contiguous() for name, value in model.state_dict().items()}, temporary)
    write_json(folder / "config.json", {**config, "encoder": asdict(model.config)})


def load_text_encoder(
    folder: str | Path, *, device: str = "cpu", batch: int | None = None
) -> TrainedTextEncoder:
    """The text encoder of a finished run.

    Raises
    ------
    InputError
        The folder holds no finished run of a text encoder.
    """
    folder = Path(folder)
    config, weights = read_run(folder)
    try:
        model = TextEncoder(TextEncoderConfig(**config["encoder"]))
        model.load_state_dict(weights)
    except (KeyError, TypeError, RuntimeError) as error:
        reason = str(error).split("\n", 1)[0]
        raise InputError(f"not a text encoder: {reason}", where=str(folder)) from error
    return TrainedTextEncoder(
        model.to(device),
        load_tokenizer(folder / "tokenizer.json"),
        name=f"run:{folder}",
        causal=config["views"] == "next-token",
        batch=batch or 256,
    )


def read_run(folder: Path) -> tuple[dict, dict[str, torch.Tensor]]:
    """Configuration and weights of a finished run; InputError if it is none."""
    config = read_run_config(folder)
    if not (folder / WEIGHTS).is_file():
        hint = "Resume it first."
        raise InputError("the run is not finished: there are no weights.", where=str(folder), hint=hint)
    return config, read_weights(folder / WEIGHTS)


def read_weights(source: Path) -> dict[str, torch.Tensor]:
    """Tensors of a safetensors file; InputError if it is anything else, a pickle for instance."""
    try:
        return load_file(source)
    except (SafetensorError, json.JSONDecodeError) as error:
        raise InputError(
            f"not a safetensors file ({error}).",
            where=str(source),
            hint="Pickles are never opened; convert the weights to safetensors first.",
        ) from error
