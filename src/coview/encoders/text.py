"""A BERT-shaped text encoder over packed tokens.

The texts of a batch stand one after the other in one row of tokens, sorted by length: no padding is ever
computed, and attention runs on groups of texts of equal length. Parameters are named as in Hugging Face's
``BertModel``, so trained weights load there and the other way round (tests compare the outputs).
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from coview.errors import UsageError, did_you_mean

# The one dial: layers, width, heads. The inner width of the feed-forward part is four times the width.
SIZES = {
    "xs": (2, 128, 2),
    "s": (2, 256, 4),
    "m": (4, 384, 6),
    "l": (12, 384, 12),
    "base": (12, 768, 12),
}


@dataclass(frozen=True)
class TextEncoderConfig:
    """Shape of a text encoder.

    Attributes
    ----------
    vocabulary : number of token types
    layers, width, heads : see `SIZES`
    max_length : longest text in tokens, special tokens included
    output : width of the linear map after pooling (what the JEPA loss sees)
    """

    vocabulary: int
    layers: int
    width: int
    heads: int
    max_length: int = 64
    output: int = 128

    @classmethod
    def of_size(cls, size: str, vocabulary: int, **more) -> "TextEncoderConfig":
        if size not in SIZES:
            raise UsageError(f"unknown size {size!r}.", where="--size", hint=did_you_mean(size, list(SIZES)))
        layers, width, heads = SIZES[size]
        return cls(vocabulary=vocabulary, layers=layers, width=width, heads=heads, **more)


class PackedTokens(NamedTuple):
    """Texts laid end to end, sorted by length.

    Attributes
    ----------
    ids : int64 tensor of shape (T,), the tokens of all texts
    positions : int64 tensor of shape (T,), place of each token in its text
    groups : list of (count, length): `count` texts of `length` tokens follow one another
    order : int64 tensor of shape (S,), which input text each packed text is
    """

    ids: Tensor
    positions: Tensor
    groups: list[tuple[int, int]]
    order: Tensor

    def to(self, device: torch.device | str) -> "PackedTokens":
        return PackedTokens(
            self.ids.to(device), self.positions.to(device), self.groups, self.order.to(device)
        )

    @property
    def spans(self) -> list[int]:
        """Number of tokens in each group of texts of equal length."""
        return [count * length for count, length in self.groups]


def pack(texts: Sequence[np.ndarray]) -> PackedTokens:
    """Lay texts, each an array of token ids, end to end in order of length (stable)."""
    lengths = np.fromiter((len(text) for text in texts), dtype=np.int64, count=len(texts))
    order = np.argsort(lengths, kind="stable")
    ids = np.concatenate([texts[index] for index in order]).astype(np.int64)
    sizes, counts = np.unique(lengths, return_counts=True)
    positions = np.concatenate([np.tile(np.arange(s), n) for s, n in zip(sizes, counts, strict=True)])
    groups = [(int(count), int(size)) for size, count in zip(sizes, counts, strict=True)]
    return PackedTokens(
        torch.from_numpy(ids), torch.from_numpy(positions), groups, torch.from_numpy(order.astype(np.int64))
    )


class SelfAttention(nn.Module):
    def __init__(self, config: TextEncoderConfig):
        super().__init__()
        self.heads = config.heads
        self.query = nn.Linear(config.width, config.width)
        self.key = nn.Linear(config.width, config.width)
        self.value = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor, tokens: PackedTokens, causal: bool) -> Tensor:
        width = x.shape[-1]
        projected = torch.stack((self.query(x), self.key(x), self.value(x)))
        if x.device.type == "cpu" and projected.dtype == torch.bfloat16:
            projected = projected.float()  # bfloat16 attention is ten times slower here, AMX or not
        mixed = []
        # One `split`, not slices: the backward of a slice would fill an array of all tokens for each group.
        for part, (count, length) in zip(projected.split(tokens.spans, dim=1), tokens.groups, strict=True):
            query, key, value = part.view(3, count, length, self.heads, width // self.heads).transpose(2, 3)
            with torch.autocast(x.device.type, enabled=False):
                out = F.scaled_dot_product_attention(query, key, value, is_causal=causal)
            mixed.append(out.transpose(1, 2).reshape(count * length, width))
        return torch.cat(mixed)


class AddAndNorm(nn.Module):
    """Linear map, residual connection, LayerNorm: how both halves of a BERT layer end."""

    def __init__(self, inner: int, width: int):
        super().__init__()
        self.dense = nn.Linear(inner, width)
        self.LayerNorm = nn.LayerNorm(width, eps=1e-12)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return self.LayerNorm(self.dense(x) + residual)


class Layer(nn.Module):
    def __init__(self, config: TextEncoderConfig):
        super().__init__()
        width = config.width
        self.attention = nn.ModuleDict({"self": SelfAttention(config), "output": AddAndNorm(width, width)})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, 4 * width)})
        self.output = AddAndNorm(4 * width, width)

    def forward(self, x: Tensor, tokens: PackedTokens, causal: bool) -> Tensor:
        x = self.attention["output"](self.attention["self"](x, tokens, causal), x)
        return self.output(F.gelu(self.intermediate["dense"](x)), x)


class Embeddings(nn.Module):
    def __init__(self, config: TextEncoderConfig):
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocabulary, config.width)
        self.position_embeddings = nn.Embedding(config.max_length, config.width)
        self.token_type_embeddings = nn.Embedding(2, config.width)  # always type 0; kept for BertModel's sake
        self.LayerNorm = nn.LayerNorm(config.width, eps=1e-12)

    def forward(self, tokens: PackedTokens) -> Tensor:
        x = self.word_embeddings(tokens.ids) + self.position_embeddings(tokens.positions)
        return self.LayerNorm(x + self.token_type_embeddings.weight[0])


class TextEncoder(nn.Module):
    """BERT over packed tokens, mean pooling, and a linear map without a norm after it.

    A final LayerNorm fixes the length of each token's vector, which keeps any embedding made of them from
    being Gaussian; the linear map `head` after pooling lets SIGReg be met.
    """

    def __init__(self, config: TextEncoderConfig):
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(Layer(config) for _ in range(config.layers))})
        self.head = nn.Linear(config.width, config.output)
        self.apply(_initialise)

    def states(self, tokens: PackedTokens, *, causal: bool = False) -> Iterator[Tensor]:
        """Hidden states of the tokens, shape (T, width): of the embedding layer, then of each block.

        With `causal` each token sees only the tokens before it in its text.
        """
        x = self.embeddings(tokens)
        yield x
        for block in self.encoder["layer"]:  # type: ignore[union-attr]
            x = block(x, tokens, causal)
            yield x

    def forward(self, tokens: PackedTokens, *, causal: bool = False) -> Tensor:
        """Hidden states of the last block, shape (T, width)."""
        return deque(self.states(tokens, causal=causal), maxlen=1).pop()  # holds one layer's states at a time

    def pool(self, hidden: Tensor, tokens: PackedTokens) -> Tensor:
        """Mean over each text's tokens, in the order the texts were given: (T, width) to (S, width)."""
        means = [
            part.view(count, length, -1).mean(1)
            for part, (count, length) in zip(hidden.split(tokens.spans), tokens.groups, strict=True)
        ]
        pooled = torch.cat(means)
        return torch.empty_like(pooled).index_copy(0, tokens.order, pooled)


def _initialise(module: nn.Module) -> None:
    """BERT's initialisation (normal, .02), but positions start ten times smaller and token types at zero.

    With BERT's, positions count as much as words in the first embeddings, and all texts look alike.
    """
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
    if isinstance(module, Embeddings):
        nn.init.normal_(module.position_embeddings.weight, std=0.002)
        nn.init.zeros_(module.token_type_embeddings.weight)
