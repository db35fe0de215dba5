"""A trained text encoder as a folder that stock sentence-transformers loads, if wanted in another space.

The folder holds a ``BertModel``, mean pooling, one linear map and, in another space, the scaling to unit
length. Head, centring and rotation are all linear, so they are multiplied out into that one map: with head
``W p + b``, mean m and rotation R an embedding is the direction of ``R^T W p + R^T (b - m)``. The constant
needs no bias in the map: what is added to the shift of the last LayerNorm is added to every token's vector,
and so to their mean. Only where W cannot reach the constant, or reaches it only with figures that single
precision cannot carry, does the map keep a bias, and the folder says so.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from coview.encoders.trained import TrainedTextEncoder
from coview.errors import InputError, UsageError
from coview.joining.rotation import Rotation
from coview.runs import atomic_folder, manifest, write_json, write_text

NEGLIGIBLE = 1e-6
MODULE = "sentence_transformers.models."


@dataclass(frozen=True)
class LinearRead:
    """What follows mean pooling: ``weight @ (p + shift) + bias``, then unit length if `unit`.

    Attributes
    ----------
    weight : float64 array of shape (output, width)
    constant : float64 array of shape (output,), what the whole must add
    unit : bool
    """

    weight: np.ndarray
    constant: np.ndarray
    unit: bool


def export_text_encoder(
    encoder: TrainedTextEncoder, folder: str | Path, rotation: Rotation | None = None
) -> dict:
    """Write the folder.

    Parameters
    ----------
    encoder : of a finished run
    folder : must not exist
    rotation : map that has this encoder on one of its sides; None exports the encoder as it is

    Returns
    -------
    dict with ``path``, ``layer``, ``width``, ``bias`` (whether the map keeps one), ``side`` of the rotation
    ("x", "y", or None without one), ``notes``

    Raises
    ------
    InputError
        The rotation joins other spaces.
    UsageError
        The folder exists.
    """
    folder = Path(folder)
    if folder.exists():
        raise UsageError("this folder exists already.", where=f"--out {folder}", hint="Choose another name.")
    side, layer, notes = (None, encoder.last, []) if rotation is None else find_side(encoder, rotation)
    weights, blocks = bert_weights(encoder, layer)
    read = linear_read(encoder, layer, rotation, side)
    last_shift = (
        "embeddings.LayerNorm.bias" if not blocks else f"encoder.layer.{blocks - 1}.output.LayerNorm.bias"
    )
    shifted = fold(read, weights[last_shift]) if read.unit else None
    dense = {"linear.weight": torch.from_numpy(read.weight.astype(np.float32))}
    if shifted is None:
        dense["linear.bias"] = torch.from_numpy(read.constant.astype(np.float32))
    else:
        weights[last_shift] = shifted
    facts = {
        "path": str(folder),
        "model": encoder.name,
        "layer": layer,
        "width": len(read.weight),
        "bias": shifted is None,
        "side": side,
        "rotation": None if rotation is None else rotation.manifest.get("signature"),
        "notes": notes,
    }
    with atomic_folder(folder) as temporary:
        save_file(weights, temporary / "model.safetensors", metadata={"format": "pt"})
        write_json(temporary / "config.json", bert_config(encoder, blocks))
        _write_tokenizer(temporary, encoder)
        _write_modules(temporary, encoder, read, dense)
        write_json(temporary / "coview.json", {**manifest(), **facts, "path": folder.name})
        write_text(temporary / "README.md", _card(facts))
    return facts


def find_side(encoder: TrainedTextEncoder, rotation: Rotation) -> tuple[str, str, list[str]]:
    """Which side of a rotation an encoder is, the layer it is read at, and what could not be told.

    Raises
    ------
    InputError
        Neither side is this encoder, or the widths do not fit.
    """
    for side in ("x", "y"):
        known = rotation.manifest[side].get("encoder")
        if known and known.split("|")[0] == encoder.fingerprint:
            return side, known.split("|")[1], []
    joined = [rotation.manifest[side] for side in ("x", "y")]
    if joined[0].get("encoder"):
        made = [f"{facts.get('model')}" for facts in joined]
        raise InputError(
            f"the rotation joins {made[0]} with {made[1]}, not {encoder.name}.",
            where="--in-space-of",
            hint="Embed with this run and fit a rotation on those rows.",
        )
    if joined[0]["width"] == encoder.width:
        side, taken = "x", "to map this run's rows"
    elif joined[1]["width"] == encoder.width and not joined[1].get("encoder"):
        side, taken = "y", "to lead to this run's rows"
    else:
        widths = " and ".join(f"{facts['width']}" for facts in joined)
        what = f"the rotation joins rows of {widths} numbers, the run gives {encoder.width}."
        raise InputError(what, where="--in-space-of")
    note = f"the rotation does not say which encoder it was fitted on: it is taken {taken}, not verified"
    return side, encoder.last, [note]


def linear_read(
    encoder: TrainedTextEncoder, layer: str, rotation: Rotation | None, side: str | None
) -> LinearRead:
    """Head, centring and rotation of one layer, multiplied out."""
    width = encoder.model.config.width
    weight, constant = np.eye(width), np.zeros(width)
    if layer == encoder.last:
        weight, constant = (_double(part) for part in (encoder.model.head.weight, encoder.model.head.bias))
    if rotation is None:
        return LinearRead(weight, constant, unit=False)
    mean = rotation.mean_x if side == "x" else rotation.mean_y
    turn = rotation.matrix.astype(np.float64).T if side == "x" else np.eye(len(mean))
    return LinearRead(turn @ weight, turn @ (constant - mean), unit=True)


def fold(read: LinearRead, shift: Tensor) -> Tensor | None:
    """The last LayerNorm's shift with the constant in it, or None if single precision cannot carry that."""
    before = _double(shift)
    wanted = np.linalg.lstsq(read.weight, read.constant, rcond=None)[0]
    after = (before + wanted).astype(np.float32)
    reached = read.weight.astype(np.float32).astype(np.float64) @ (after - before)
    # A token's vector has a length of about the root of the width once normalised.
    scale = np.linalg.norm(read.weight) + np.linalg.norm(read.constant)
    if np.linalg.norm(reached - read.constant) > NEGLIGIBLE * scale:
        return None
    return torch.from_numpy(after)


def bert_weights(encoder: TrainedTextEncoder, layer: str) -> tuple[dict[str, Tensor], int]:
    """Parameters of a BertModel that ends with `layer`, and its number of blocks."""
    blocks = encoder.model.config.layers if layer == encoder.last else encoder.layers.index(layer)
    kept = {}
    for name, value in encoder.model.state_dict().items():
        parts = name.split(".")
        beyond = parts[0] == "encoder" and int(parts[2]) >= blocks
        if parts[0] != "head" and not beyond:
            kept[name] = value.detach().cpu().float().contiguous()
    # The pooler is not read; without one, loaders announce that they have drawn it at random.
    width = encoder.model.config.width
    pooler = {"pooler.dense.weight": torch.zeros(width, width), "pooler.dense.bias": torch.zeros(width)}
    return kept | pooler, blocks


def bert_config(encoder: TrainedTextEncoder, blocks: int) -> dict:
    """Hugging Face's configuration of the encoder."""
    config = encoder.model.config
    return {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "vocab_size": config.vocabulary,
        "hidden_size": config.width,
        "num_hidden_layers": blocks,
        "num_attention_heads": config.heads,
        "intermediate_size": 4 * config.width,
        "max_position_embeddings": config.max_length,
        "type_vocab_size": 2,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
        "is_decoder": encoder.causal,
        "use_cache": False,
        "dtype": "float32",
    }


def _write_tokenizer(folder: Path, encoder: TrainedTextEncoder) -> None:
    encoder.tokenizer.save(str(folder / "tokenizer.json"))
    facts = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": encoder.model.config.max_length,
        **{f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")},
    }
    write_json(folder / "tokenizer_config.json", facts)


def _write_modules(
    folder: Path, encoder: TrainedTextEncoder, read: LinearRead, dense: dict[str, Tensor]
) -> None:
    names = ["Transformer", "Pooling", "Dense", *(["Normalize"] if read.unit else [])]
    paths = ["", *(f"{index}_{name}" for index, name in enumerate(names) if index)]
    for path in paths[1:]:
        (folder / path).mkdir()
    length, (output, width) = encoder.model.config.max_length, read.weight.shape
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": length, "do_lower_case": False})
    write_json(
        folder / "1_Pooling" / "config.json",
        {
            "word_embedding_dimension": width,
            "pooling_mode_mean_tokens": True,
            "pooling_mode_cls_token": False,
        },
    )
    write_json(
        folder / "2_Dense" / "config.json",
        {
            "in_features": width,
            "out_features": output,
            "bias": "linear.bias" in dense,
            "activation_function": "torch.nn.modules.linear.Identity",
        },
    )
    save_file(dense, folder / "2_Dense" / "model.safetensors", metadata={"format": "pt"})
    similarity = "cosine"
    write_json(
        folder / "config_sentence_transformers.json", {"prompts": {}, "similarity_fn_name": similarity}
    )
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": MODULE + name}
        for index, (name, path) in enumerate(zip(names, paths, strict=True))
    ]
    write_text(folder / "modules.json", json.dumps(modules, indent=2) + "\n")


def _card(facts: dict) -> str:
    space = (
        "as its run trained it"
        if facts["rotation"] is None
        else f"mapped by `{facts['rotation']}` to unit length"
    )
    return f"""---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
---

A text encoder trained by coview, read at `{facts["layer"]}`, {space}: {facts["width"]} numbers a text.

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("path/of/this/folder")
vectors = model.encode(["A dog in the snow."])
```
"""


def _double(values: Tensor) -> np.ndarray:
    return values.detach().cpu().double().numpy()
