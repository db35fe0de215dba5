"""Frozen text encoders of model hubs: language models of transformers, and sentence-transformers.

A language model's row for a text is a mean over its tokens. Texts are run in batches of equal length in
tokens, so no padding exists: a row depends neither on the padding side nor on the other texts of its batch,
for any kind of position encoding, and no time is spent on padding.
"""

import json
import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from coview.encoders.encoder import Encoder, as_rows, batched, hash_weights, recording
from coview.encoders.frozen import require
from coview.errors import InputError, MissingError, UsageError, did_you_mean

POOLS = ("mean", "content", "first", "last")


class LanguageModel(Encoder):
    """All layers of a causal or masked language model, pooled over the tokens of each text.

    Parameters
    ----------
    network : the model without its head, whose output has `last_hidden_state`
    tokenizer : of transformers; the special tokens it adds by itself are kept
    pool : ``mean`` over all tokens, ``content`` over all but special tokens, ``first`` or ``last`` token
    """

    modality = "text"

    def __init__(
        self,
        network: Any,
        tokenizer: Any,
        name: str,
        *,
        pool: str = "mean",
        device: str = "cpu",
        batch: int | None = None,
    ):
        if pool not in POOLS:
            raise UsageError(f"no pooling {pool!r}.", where="pool=", hint=did_you_mean(pool, POOLS))
        self.network, self.tokenizer = network.eval().to(device), tokenizer
        network.config.use_cache = False  # keys and values kept for generation would only take memory
        self.name, self.pool, self.device, self.batch = name, pool, device, batch or 32
        self.limit = longest_text(network, tokenizer)
        self.blocks = find_blocks(network)
        self._probe()
        self.fingerprint = hash_weights(network, pool, self.limit, tokenizer_state(tokenizer))

    def _probe(self) -> None:
        """Learn width and layers from one token: no config says whether a final norm follows the blocks."""
        token = torch.zeros((1, 1), dtype=torch.long, device=self.device)
        with torch.inference_mode(), recording(self.blocks, lambda hidden: hidden[:, 0]) as rows:
            output = self.network(input_ids=token, attention_mask=torch.ones_like(token)).last_hidden_state
        self.width = output.shape[-1]
        names = tuple(rows)
        if not names:
            self.last = "output"
            self.layers = self.published_layers = ("output",)
        elif torch.equal(rows[names[-1]], output[:, 0]):
            self.last, self.layers, self.published_layers = names[-1], names, names
        else:
            self.last = "final_norm"
            self.layers = (*names, "final_norm")
            self.published_layers = (*names[:-1], "final_norm")

    def encode(self, items: Iterable[str], layers: str = "last") -> np.ndarray:
        names = self.select(layers)
        texts = self.tokens(list(items))
        rows = {name: np.empty((len(texts), self.width), np.float32) for name in names}
        by_length: dict[int, list[int]] = {}
        for index, (ids, _) in enumerate(texts):
            by_length.setdefault(len(ids), []).append(index)
        for indices in by_length.values():
            for batch in batched(indices, self.batch):
                ids = torch.tensor([texts[index][0] for index in batch], device=self.device)
                special = torch.tensor([texts[index][1] for index in batch], device=self.device)
                for name, values in self._forward(ids, token_weights(special, self.pool)).items():
                    if name in rows:
                        rows[name][batch] = as_rows(values)
        return self.arrange(rows, layers)

    def _forward(self, ids: Tensor, weights: Tensor) -> dict[str, Tensor]:
        """Rows of every layer for texts of one length: token ids (B, T), weights (B, T)."""

        def pool(hidden: Tensor) -> Tensor:
            return torch.einsum("bt,btd->bd", weights, hidden.float())

        with torch.inference_mode(), recording(self.blocks, pool) as rows:
            output = self.network(input_ids=ids, attention_mask=torch.ones_like(ids))
        return rows | {self.last: pool(output.last_hidden_state)}

    def tokens(self, texts: list[str]) -> list[tuple[list[int], list[int]]]:
        """Token ids and special-token marks of each text, cut at the longest the model reads."""
        if not texts:
            return []
        found = self.tokenizer(
            texts, truncation=True, max_length=self.limit, return_special_tokens_mask=True, verbose=False
        )
        for text, ids in zip(texts, found["input_ids"], strict=True):
            if not ids:
                raise InputError(f"the text {text!r} has no tokens for {self.name}.", hint="Take it out.")
        return list(zip(found["input_ids"], found["special_tokens_mask"], strict=True))

    def truncated(self, texts: list[str]) -> int:
        found = self.tokenizer(texts, verbose=False)["input_ids"] if texts else []
        return sum(len(ids) > self.limit for ids in found)


def token_weights(special: Tensor, pool: str) -> Tensor:
    """The weight of each token in its text's row, shape (B, T); each row of weights sums to 1.

    A text of nothing but special tokens is pooled over all of them.
    """
    weights = torch.ones(special.shape, device=special.device)
    if pool == "content":
        content = (special == 0).float()
        weights = torch.where(content.sum(1, keepdim=True) > 0, content, weights)
    elif pool in ("first", "last"):
        weights = torch.zeros_like(weights)
        weights[:, 0 if pool == "first" else -1] = 1
    return weights / weights.sum(1, keepdim=True)


def find_blocks(network: Any) -> list[nn.Module]:
    """The transformer's blocks: the module list as long as the configuration says the model is deep."""
    depth = getattr(network.config, "num_hidden_layers", None)
    for module in network.modules():
        if isinstance(module, nn.ModuleList) and len(module) == depth:
            return list(module)
    return []


def longest_text(network: Any, tokenizer: Any) -> int:
    """Most tokens a text may have: the tokenizer's limit or the size of the position table."""
    limits = [tokenizer.model_max_length, getattr(network.config, "max_position_embeddings", None) or 10**9]
    for module in network.modules():
        # RoBERTa counts its positions from behind the padding index.
        is_table = isinstance(module, nn.Embedding) and module.num_embeddings == limits[1]
        if is_table and module.padding_idx is not None:
            limits.append(limits[1] - module.padding_idx - 1)
    return int(min(limits))


def load_language_model(
    name: str, revision: str | None, pool: str, device: str, batch: int | None
) -> LanguageModel:
    """Load a causal or masked language model, from safetensors or GGUF and never with code of its own."""
    transformers = require("transformers", "hub")
    arguments: dict[str, Any] = {"trust_remote_code": False, "revision": revision or "main"}
    where = name
    if name.endswith(".gguf"):
        if not Path(name).is_file():
            raise InputError("there is no such file.", where=name)
        require("gguf", "hub")
        where, arguments["gguf_file"] = str(Path(name).parent), Path(name).name
    with loading(name):
        facts, _ = transformers.PretrainedConfig.get_config_dict(where, **arguments)
        refuse_hidden_code(facts, name)
        config = transformers.AutoConfig.from_pretrained(where, **arguments)
        if config.is_encoder_decoder or not getattr(config, "vocab_size", None):
            hint = "Images: timm:NAME. Encoder-decoders: st:NAME, if sentence-transformers knows it."
            what = f"{name} is neither a causal nor a masked language model."
            raise UsageError(what, where="--model", hint=hint)
        network = transformers.AutoModel.from_pretrained(
            where, dtype=torch.float32, use_safetensors="gguf_file" not in arguments, **arguments
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(where, **arguments)
    commit = getattr(config, "_commit_hash", None) or revision
    full_name = f"hf:{name}@{commit}" if commit else f"hf:{name}"
    return LanguageModel(network, tokenizer, full_name, pool=pool, device=device, batch=batch)


class SentenceEncoder(Encoder):
    """A model of sentence-transformers, with its own pooling and normalisation."""

    modality = "text"

    def __init__(self, model: Any, name: str, batch: int | None = None):
        self.model, self.name, self.batch = model, name, batch or 32
        self.width = model.encode(["a"], show_progress_bar=False).shape[-1]
        self.fingerprint = hash_weights(model, str(model), tokenizer_state(model.tokenizer))
        if re.search(r"\ball-(minilm|mpnet|distilroberta|roberta)-", name.lower().replace("_", "-")):
            self.caution = "It was trained on caption pairs of Flickr30k and COCO: no fair baseline there."

    def encode(self, items: Iterable[str], layers: str = "last") -> np.ndarray:
        self.select(layers)
        rows = self.model.encode(
            list(items), batch_size=self.batch, convert_to_numpy=True, show_progress_bar=False
        )
        return self.arrange({self.last: np.asarray(rows, np.float32).reshape(-1, self.width)}, layers)

    def truncated(self, texts: list[str]) -> int:
        limit = self.model.max_seq_length or self.model.tokenizer.model_max_length
        found = self.model.tokenizer(texts, verbose=False)["input_ids"] if texts else []
        return sum(len(ids) > limit for ids in found)


def load_sentence_transformer(
    name: str, revision: str | None, device: str, batch: int | None
) -> SentenceEncoder:
    """Load a sentence-transformers folder or hub id, from safetensors and never with code of its own."""
    library = require("sentence_transformers", "hub")
    with loading(name):
        model = library.SentenceTransformer(
            name,
            revision=revision,
            device=device,
            trust_remote_code=False,
            model_kwargs={"use_safetensors": True, "dtype": torch.float32},
        )
    return SentenceEncoder(model.eval(), f"st:{name}@{revision}" if revision else f"st:{name}", batch)


def tokenizer_state(tokenizer: Any) -> str:
    """What a tokenizer does, as text for a hash, without the padding and truncation of its last call."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return repr(sorted(tokenizer.get_vocab().items()))
    return json.dumps(json.loads(backend.to_str()) | {"padding": None, "truncation": None})


def refuse_hidden_code(facts: Any, name: str) -> None:
    """MissingError if a configuration, or one nested in it, asks for code to be run.

    ``auto_map`` at the top is common and harmless, since transformers then needs leave to follow it; deeper
    down it, or a ``trust_remote_code`` of its own, has been used to get round that.
    """
    nested = [value for value in facts.values() if isinstance(value, dict)]
    if facts.get("trust_remote_code") or any("auto_map" in part for part in nested):
        raise MissingError(
            "its configuration asks for code of its own to be run, which coview never does.",
            where=name,
            hint="Take a model that transformers knows by itself.",
        )
    for part in nested:
        refuse_hidden_code(part, name)


@contextmanager
def loading(name: str, option: str = "--model") -> Generator[None]:
    """Turn what libraries raise while they load a model into one error that says what to do."""
    try:
        yield
    except ImportError as error:
        what = f"{name} needs another package: {first_line(error)}"
        raise MissingError(what, hint='pip install "coview[hub]"') from error
    except (OSError, ValueError, RuntimeError, SafetensorError, KeyError) as error:
        reason = first_line(error)
        if Path(name).exists():
            hint = "Only safetensors are read, and no code of the model's own is run."
            raise InputError(f"cannot be loaded: {reason}", where=name, hint=hint) from error
        what = f"{name} is no folder here, nor in the hub's local cache, nor could it be fetched: {reason}"
        hint = f"Check the name; then, where there is a network: hf download {name}"
        raise MissingError(what, where=option, hint=hint) from error


def first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0] or type(error).__name__
