"""A decoder that writes a text from an embedding, and what is needed to use it: tokenizer, mean, texts.

A causal transformer of the same blocks as the text encoder. A linear map turns the embedding into a few
prefix tokens, the text follows them, and the last prefix token predicts its first word (as in ClipCap, Mokady
et al., 2021, but from scratch and with one linear map, as in DeCap, Li et al., 2023). It only ever sees
embeddings of texts; that an embedding of an image can take their place is the work of a rotation.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from torch import Tensor, nn

from coview.data.tokens import FIRST, LAST, MASK, PAD, UNKNOWN, load_tokenizer
from coview.embeddings import Embeddings, load_embeddings
from coview.encoders.text import Layer, SelfAttention, TextEncoderConfig, pack
from coview.encoders.trained import WEIGHTS, read_weights
from coview.errors import InputError, UsageError, did_you_mean
from coview.joining.rotation import unit_rows
from coview.runs import atomic_path, read_json, read_run_config, write_json

if TYPE_CHECKING:
    from coview.uses.causal_lm import LanguageDecoder

ROWS, TEXTS = "rows.safetensors", "texts.txt"

# The one dial: layers, width, heads.
SIZES = {"xs": (2, 128, 2), "s": (3, 256, 4), "m": (4, 384, 6)}


@dataclass(frozen=True)
class DecoderConfig:
    """Shape of a decoder.

    Attributes
    ----------
    vocabulary : number of token types
    embedding : D, numbers of the embedding that is written from
    layers, width, heads : see `SIZES`
    prefix : tokens that the embedding is mapped to
    max_length : most tokens of a text after the prefix
    """

    vocabulary: int
    embedding: int
    layers: int
    width: int
    heads: int
    prefix: int = 2
    max_length: int = 64

    @classmethod
    def of_size(cls, size: str, vocabulary: int, embedding: int, **more) -> "DecoderConfig":
        if size not in SIZES:
            raise UsageError(f"unknown size {size!r}.", where="--size", hint=did_you_mean(size, list(SIZES)))
        layers, width, heads = SIZES[size]
        return cls(vocabulary, embedding, layers=layers, width=width, heads=heads, **more)


class Cache(NamedTuple):
    """Keys and values of the tokens so far, for each layer a tensor of shape (N, heads, T, width / heads)."""

    keys: list[Tensor]
    values: list[Tensor]


class CaptionDecoder(nn.Module):
    """Scores of the next token, from an embedding and the tokens so far.

    Parameters
    ----------
    inside : tokens that go on with a word, see `pieces_inside`; needed only to write
    """

    end: int = LAST
    never: Sequence[int] = (PAD, UNKNOWN, FIRST, MASK)

    def __init__(self, config: DecoderConfig, inside: Sequence[int] = ()):
        super().__init__()
        self.config, self.longest, self.inside = config, config.max_length, inside
        block = TextEncoderConfig(config.vocabulary, config.layers, config.width, config.heads)
        self.prefix = nn.Linear(config.embedding, config.prefix * config.width)
        self.words = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.prefix + config.max_length, config.width)
        self.norm = nn.LayerNorm(config.width)
        self.layers = nn.ModuleList(Layer(block) for _ in range(config.layers))
        self.apply(_initialise)

    def forward(self, rows: Tensor, texts: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
        """States that predict a token, and the tokens they are to predict, of whole texts.

        Parameters
        ----------
        rows : Tensor of shape (S, D), an embedding for each text
        texts : S arrays of token ids, from [CLS] to [SEP]

        Returns
        -------
        states (T, width) and int64 targets (T,): the words of every text, and the [SEP] that ends it
        """
        starts = [FIRST] * self.config.prefix
        tokens = pack([np.concatenate([starts, text[1:-1]]) for text in texts]).to(rows.device)
        x = self.words(tokens.ids)
        in_prefix = tokens.positions < self.config.prefix
        prefix = self.prefix(rows).view(len(texts), self.config.prefix, -1)[tokens.order]
        x = x.masked_scatter(in_prefix[:, None], prefix.flatten(0, 1).to(x.dtype))
        x = self.norm(x + self.positions(tokens.positions))
        for layer in self.layers:
            x = layer(x, tokens, True)
        targets = np.concatenate([texts[index][1:] for index in tokens.order.tolist()])
        predicting = tokens.positions >= self.config.prefix - 1
        return x[predicting], torch.from_numpy(targets.astype(np.int64)).to(rows.device)

    def shape(self) -> dict:
        """What a run folder keeps to make it again."""
        return asdict(self.config)

    def start(self, rows: Tensor) -> tuple[Tensor, Cache]:
        """Scores (N, vocabulary) of the first token of a text for each embedding (N, D), and the cache."""
        prefix = self.prefix(rows).view(len(rows), self.config.prefix, -1)
        return self._advance(prefix, Cache([], []))

    def step(self, ids: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """Scores (N, vocabulary) of the token after `ids` (N,), and the cache with `ids` in it."""
        return self._advance(self.words(ids)[:, None], cache)

    @staticmethod
    def select(cache: Cache, rows: Tensor) -> Cache:
        """The cache of some of the texts, in another order, some perhaps twice."""
        return Cache([keys[rows] for keys in cache.keys], [values[rows] for values in cache.values])

    def _advance(self, x: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """As `forward` for the next tokens (N, T, width) of N texts; all texts are equally long."""
        texts, count, width = x.shape
        past = cache.keys[0].shape[2] if cache.keys else 0
        x = self.norm(x + self.positions.weight[past : past + count])
        grown = Cache([], [])
        for index, layer in enumerate(self.layers):
            query, key, value = _heads(x, layer.attention["self"])  # type: ignore[index]
            if past:
                key = torch.cat([cache.keys[index], key], dim=2)
                value = torch.cat([cache.values[index], value], dim=2)
            grown.keys.append(key)
            grown.values.append(value)
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=count > 1)
            x = layer.attention["output"](mixed.transpose(1, 2).reshape(texts, count, width), x)  # type: ignore[index]
            x = layer.output(F.gelu(layer.intermediate["dense"](x)), x)  # type: ignore[index]
        return x[:, -1] @ self.words.weight.T, grown


def _heads(x: Tensor, attention: SelfAttention) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value of tokens (N, T, width), each (N, heads, T, width / heads)."""
    query, key, value = (
        project(x).unflatten(2, (attention.heads, -1)).transpose(1, 2)
        for project in (attention.query, attention.key, attention.value)
    )
    return query, key, value


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)


def pieces_inside(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Tokens that go on with a word ("##ing"); none where a tokenizer does not mark them."""
    model = tokenizer.model
    if not isinstance(model, WordPiece):
        return ()
    mark = model.continuing_subword_prefix
    return tuple(sorted(token for piece, token in tokenizer.get_vocab().items() if piece.startswith(mark)))


def prepared(rows: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Rows as the decoder sees them: without the mean of the training texts, and of length one."""
    return unit_rows(np.asarray(rows, dtype=np.float32) - mean)


@dataclass(frozen=True)
class Captioner:
    """A trained decoder with what it needs.

    Attributes
    ----------
    decoder : in evaluation mode
    tokenizer : of the text encoder that it was trained with, or of the language model
    mean : float32 array (D,), of the training texts' embeddings
    folder : of the run
    facts : the run's manifest, with ``text_encoder``, the encoder it can be read with
    """

    decoder: "CaptionDecoder | LanguageDecoder"
    tokenizer: Tokenizer
    mean: np.ndarray
    folder: Path
    facts: dict

    def text(self, tokens: Sequence[int]) -> str:
        """Tokens as text, in lower case.

        Word pieces and full stops join what stands before them, and a hyphen or an apostrophe joins two
        words, for that is where texts have them ("t-shirt", "man's"); with spaces they are rare.
        """
        spaced = self.tokenizer.decode([token for token in tokens if token != LAST])
        return re.sub(r"(?<=\w) ([-'\u2019]) (?=\w)", r"\1", spaced)

    def memory(self) -> tuple[Embeddings, list[str]]:
        """The training texts and their embeddings (N, D), as the encoder gave them; memory-mapped.

        Raises
        ------
        InputError
            The run folder lacks them.
        """
        file = self.folder / TEXTS
        rows = load_embeddings(self.folder / ROWS)
        if not file.is_file():
            raise InputError("the run's training texts are gone.", where=str(file), hint="Train it again.")
        texts = read_lines(file)
        if len(texts) != len(rows.matrix):
            found = f"{len(texts)} texts for {len(rows.matrix)} embeddings."
            raise InputError(found, where=str(file), hint="Train it again.")
        return rows, texts


def read_lines(file: Path) -> list[str]:
    """The lines of a file of texts; nothing but a line feed ends one."""
    return file.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def save_captioner(
    folder: Path,
    decoder: "CaptionDecoder | LanguageDecoder",
    tokenizer: Tokenizer,
    mean: np.ndarray,
    config: dict,
) -> None:
    """Write weights, tokenizer and configuration of a finished run."""
    with atomic_path(folder / "tokenizer.json") as temporary:
        tokenizer.save(str(temporary))
    tensors = {name: value.cpu().contiguous() for name, value in decoder.state_dict().items()}
    with atomic_path(folder / WEIGHTS) as temporary:
        save_file({**tensors, "mean": torch.from_numpy(mean)}, temporary)
    write_json(folder / "config.json", {**config, "decoder": decoder.shape()})


def load_captioner(folder: str | Path, *, device: str = "cpu") -> Captioner:
    """The captioner of a finished run.

    Raises
    ------
    InputError
        The folder is missing, or holds no finished run of a captioner.
    """
    folder = Path(folder)
    config = read_run_config(folder, made_by="coview caption train")
    if "views" in config:
        what = f"this is the run of an encoder of {config.get('modality')}s, and no captioner."
        hint = "coview caption train SOURCE --run TEXT_ENCODER --out CAPTIONER makes one."
        raise InputError(what, where=str(folder), hint=hint)
    if "decoder" not in config:
        what = "it holds a run that is not finished, or no captioner."
        hint = "coview caption train makes one; with --resume it goes on."
        raise InputError(what, where=str(folder), hint=hint)
    if "network" in config["decoder"]:
        from coview.uses.causal_lm import load_language_captioner

        return load_language_captioner(folder, device=device)
    weights, tokenizer = read_weights(folder / WEIGHTS), load_tokenizer(folder / "tokenizer.json")
    try:
        mean = weights.pop("mean").numpy()
        decoder = CaptionDecoder(DecoderConfig(**config["decoder"]), pieces_inside(tokenizer))
        decoder.load_state_dict(weights)
    except (KeyError, TypeError, RuntimeError) as error:
        reason = str(error).split("\n", 1)[0]
        raise InputError(f"not a captioner: {reason}", where=str(folder)) from error
    facts = read_json(folder / "manifest.json")
    return Captioner(decoder.to(device).eval(), tokenizer, mean, folder, facts)
