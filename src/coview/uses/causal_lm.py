"""A causal language model of Hugging Face as the decoder: fine-tuned to write a text from an embedding.

A linear map turns the embedding into a few prefix tokens, which take the place of word embeddings, and all
weights are trained (as in ClipCap, Mokady et al., 2021). The model must be one that transformers knows by
itself, whose scores are its last states times a matrix: GPT-2, Llama, SmolLM, Qwen and most others are.
"""

import copy
from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from coview.encoders.frozen import require, split_revision
from coview.encoders.hub import loading, refuse_hidden_code
from coview.encoders.trained import WEIGHTS, read_weights
from coview.errors import InputError, UsageError
from coview.runs import read_json
from coview.uses.captioner import Captioner, pieces_inside

PREFIX = "hf:"
LONGEST = 64  # most tokens of a text, the one that ends it included


class Pretrained(NamedTuple):
    """A causal language model, its tokenizer, and the token that ends a text."""

    network: Any
    tokenizer: Tokenizer
    end: int

    def tokens(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Token ids of each text and the end token, cut to what the model reads; the end is kept."""
        encoded = self.tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [np.array([*one.ids[: LONGEST - 1], self.end], dtype=np.int64) for one in encoded]


def load_pretrained(size: str) -> Pretrained:
    """The model that ``hf:NAME[@REVISION]`` names, a folder or an id of the hub; only safetensors are read.

    Raises
    ------
    MissingError
        The extra `hub` is not installed, or the model is not there.
    InputError
        Its folder is broken or holds code that would have to be run.
    UsageError
        It is no causal language model, or one that cannot be a decoder.
    """
    transformers = require("transformers", "hub")
    name, revision = split_revision(size.removeprefix(PREFIX))
    arguments: dict[str, Any] = {"trust_remote_code": False, "revision": revision or "main"}
    with loading(name, option="--size"):
        facts, _ = transformers.PretrainedConfig.get_config_dict(name, **arguments)
        refuse_hidden_code(facts, name)
        network = transformers.AutoModelForCausalLM.from_pretrained(
            name, dtype=torch.float32, use_safetensors=True, **arguments
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **arguments)
    backend, end = getattr(tokenizer, "backend_tokenizer", None), tokenizer.eos_token_id
    if backend is None or end is None:
        raise UsageError(f"{name} has no fast tokenizer with a token that ends a text.", where="--size")
    backend.no_padding()
    backend.no_truncation()
    _probe(network.eval(), name)
    return Pretrained(network, backend, end)


@torch.no_grad()
def _probe(network: Any, name: str) -> None:
    """UsageError unless no state knows of later tokens, and scores are states times the output matrix."""
    ids = torch.tensor([[0, 1], [0, 2]])
    states, scores = network.base_model(input_ids=ids).last_hidden_state, network(input_ids=ids).logits
    if not torch.allclose(states[0, 0], states[1, 0], atol=1e-4):
        raise UsageError(f"{name} is no causal language model.", where="--size", hint="Try hf:gpt2.")
    if not torch.allclose(states @ network.get_output_embeddings().weight.T, scores, rtol=1e-3, atol=1e-3):
        what = f"{name} does more to its last states than to multiply them by a matrix."
        raise UsageError(what, where="--size", hint="Try hf:gpt2.")


class LanguageDecoder(nn.Module):
    """Scores of the next token, from an embedding and the tokens so far; see `generation.Decoder`.

    Parameters
    ----------
    pretrained : becomes part of the decoder
    embedding : D, numbers of the embedding that is written from
    prefix : tokens that the embedding is mapped to
    """

    def __init__(self, pretrained: Pretrained, embedding: int, prefix: int):
        super().__init__()
        network, tokenizer, self.end = pretrained
        self.body, output = network.base_model, network.get_output_embeddings()
        enter = network.get_input_embeddings()
        self.head = None if output.weight is enter.weight else output
        self.count, self.longest = prefix, LONGEST
        # transformers 5.24 renames the argument model by model.
        known = signature(self.body.forward).parameters
        self.cache_name = "cache" if "cache" in known else "past_key_values"
        if positions := getattr(network.config, "max_position_embeddings", None):
            self.longest = min(LONGEST, positions - prefix)
        if self.longest < LONGEST:
            what = f"the model reads {positions} tokens, and a text needs {LONGEST} behind the prefix."
            raise UsageError(what, where="--size")
        if tokenizer.get_vocab_size() > len(enter.weight):
            raise InputError("the tokenizer has more tokens than the model.", where="--size")
        special = {token for token, added in tokenizer.get_added_tokens_decoder().items() if added.special}
        # Many models have rows beyond their tokenizer's last token, for the sake of round numbers.
        unused = range(tokenizer.get_vocab_size(), len(self.words.weight))
        self.never: Sequence[int] = tuple(sorted({*special, *unused} - {self.end}))
        self.inside: Sequence[int] = pieces_inside(tokenizer)
        self.prefix = nn.Linear(embedding, prefix * enter.embedding_dim)
        # Rows have length one, so prefix tokens are then as large as the words that the model knows.
        nn.init.normal_(self.prefix.weight, std=enter.weight.detach().square().mean().sqrt().item())
        nn.init.zeros_(self.prefix.bias)

    @property
    def words(self) -> Any:
        """Its ``weight`` (vocabulary, width) turns states into scores."""
        return self.body.get_input_embeddings() if self.head is None else self.head

    def train(self, mode: bool = True) -> "LanguageDecoder":
        """Stay in evaluation mode: dropout draws from global state, and a run could not be resumed."""
        return super().train(False)

    def forward(self, rows: Tensor, texts: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
        """States that predict a token, and the tokens they are to predict, of whole texts.

        Parameters
        ----------
        rows : Tensor of shape (S, D), an embedding for each text
        texts : S arrays of token ids, each with the end token as its last

        Returns
        -------
        states (T, width) and int64 targets (T,): every token of every text, never the prefix
        """
        ids = [torch.from_numpy(np.asarray(text, dtype=np.int64)) for text in texts]
        padded = pad_sequence(ids, batch_first=True, padding_value=self.end).to(rows.device)
        lengths = torch.tensor([len(text) for text in texts], device=rows.device)
        kept = torch.arange(padded.shape[1], device=rows.device) < lengths[:, None]
        words = self.body.get_input_embeddings()(padded[:, :-1])
        # No mask for what is padded: it stands last, where no token of a text sees it.
        states = self.body(
            inputs_embeds=torch.cat([self._prefix(rows), words], dim=1), use_cache=False
        ).last_hidden_state
        return states[:, self.count - 1 :][kept], padded[kept]

    def shape(self) -> dict:
        """What a run folder keeps to make it again, without the model's own folder."""
        facts = self.body.config.to_dict()
        network = {name: facts[name] for name in facts if not name.startswith("_") and name != "auto_map"}
        shape = {"embedding": self.prefix.in_features, "prefix": self.count, "end": self.end}
        return {**shape, "network": network}

    def start(self, rows: Tensor) -> tuple[Tensor, Any]:
        """Scores (N, vocabulary) of the first token of a text for each embedding (N, D), and the cache."""
        return self._advance(self._prefix(rows), None)

    def step(self, ids: Tensor, cache: Any) -> tuple[Tensor, Any]:
        """Scores (N, vocabulary) of the token after `ids` (N,), and the cache with `ids` in it."""
        return self._advance(self.body.get_input_embeddings()(ids)[:, None], _twin(cache))

    @staticmethod
    def select(cache: Any, rows: Tensor) -> Any:
        """The cache of some of the texts, in another order, some perhaps twice."""
        chosen = _twin(cache)
        chosen.batch_select_indices(rows)
        return chosen

    def _advance(self, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
        output = self.body(inputs_embeds=x, use_cache=True, **{self.cache_name: cache})
        return output.last_hidden_state[:, -1] @ self.words.weight.T, getattr(output, self.cache_name)

    def _prefix(self, rows: Tensor) -> Tensor:
        return self.prefix(rows).unflatten(1, (self.count, -1))


def _twin(cache: Any) -> Any:
    """A cache with the same tensors, which does not change when this one does (its layers grow in place)."""
    twin = copy.copy(cache)
    twin.layers = [copy.copy(layer) for layer in cache.layers]
    return twin


class LanguageCaptioner(Captioner):
    """A captioner whose tokenizer, unlike ours, knows by itself where spaces belong."""

    def text(self, tokens: Sequence[int]) -> str:
        """Tokens as text."""
        words = [token for token in tokens if token != self.decoder.end]
        return " ".join(self.tokenizer.decode(words).split())


def load_language_captioner(folder: Path, *, device: str = "cpu") -> LanguageCaptioner:
    """The captioner of a finished run whose configuration has a ``network``; errors as `load_captioner`."""
    transformers = require("transformers", "hub")
    shape, weights = read_json(folder / "config.json")["decoder"], read_weights(folder / WEIGHTS)
    refuse_hidden_code(shape["network"], str(folder))
    with loading(str(folder)):
        mean = weights.pop("mean").numpy()
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        config = transformers.AutoConfig.for_model(**shape["network"])
        network = transformers.AutoModelForCausalLM.from_config(config, trust_remote_code=False)
        pretrained = Pretrained(network, tokenizer, shape["end"])
        decoder = LanguageDecoder(pretrained, shape["embedding"], shape["prefix"])
        decoder.load_state_dict(weights)
    facts = read_json(folder / "manifest.json")
    return LanguageCaptioner(decoder.to(device).eval(), tokenizer, mean, folder, facts)
