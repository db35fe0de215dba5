"""The decoder: from the embedding of one text of a scene, write a text of that scene.

Good views again: half of the time the text to write is another one than the one that was embedded, so the
decoder learns what the scene's texts share, which is what the embedding of an image can hold. Noise on the
embedding bridges what a rotation from images leaves. The text encoder is frozen, and its rows are made once.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from coview.config import CaptionConfig
from coview.data.batches import scene_batch
from coview.data.scenes import Source
from coview.data.tokens import TokenStore, build_store
from coview.embeddings import load_embeddings
from coview.encoders.embed import Progress, embed, silent
from coview.encoders.encoder import pick_device
from coview.encoders.trained import TrainedTextEncoder
from coview.errors import InputError
from coview.runs import hash_bytes, write_text
from coview.training.loop import Report, no_probe
from coview.training.loop import silent as unseen
from coview.training.objectives import next_token
from coview.training.task import Outcome, autocast
from coview.training.train import run_task, sign
from coview.uses.captioner import (
    ROWS,
    TEXTS,
    CaptionDecoder,
    DecoderConfig,
    prepared,
    read_lines,
    save_captioner,
)

if TYPE_CHECKING:
    from coview.uses.causal_lm import LanguageDecoder, Pretrained

MEASURED = 2000  # scenes whose texts' distance is measured


@dataclass(frozen=True)
class CaptionData:
    """What to write from, and what to write.

    Attributes
    ----------
    rows : float array (R, D), embeddings, perhaps memory-mapped
    starts : int64 array (scenes + 1,), scene s has the rows ``starts[s]`` to ``starts[s + 1]``
    store : the texts of the same scenes as tokens
    mean : float32 array (D,), of all rows
    distance : mean distance of two prepared rows of one scene; 0 when no scene has two
    hash : of rows and texts
    """

    rows: np.ndarray
    starts: np.ndarray
    store: TokenStore
    mean: np.ndarray
    distance: float
    hash: str

    @classmethod
    def of(cls, rows: np.ndarray, starts: np.ndarray, store: TokenStore, fingerprint: str) -> "CaptionData":
        """Data from rows and the texts of the same scenes.

        Parameters
        ----------
        fingerprint : what tells these rows from others

        Raises
        ------
        InputError
            The rows are of other scenes than the texts.
        """
        if len(starts) != len(store.scenes) or starts[-1] != len(rows):
            raise InputError(
                f"{len(rows)} rows of {len(starts) - 1} scenes do not fit {store.meta['scenes']} scenes.",
                where=str(store.meta.get("source", "")),
            )
        blocks = [np.asarray(rows[at : at + 4096], np.float64).sum(0) for at in range(0, len(rows), 4096)]
        mean = (np.sum(blocks, axis=0) / len(rows)).astype(np.float32)
        marks = f"{store.meta['hash']} {fingerprint}".encode()
        return cls(rows, starts, store, mean, distance_within(rows, starts, mean), hash_bytes(marks))


def distance_within(rows: np.ndarray, starts: np.ndarray, mean: np.ndarray) -> float:
    """Mean distance of two prepared rows of one scene, over the first scenes that have two."""
    scenes = np.flatnonzero(np.diff(starts) > 1)[:MEASURED]
    if not len(scenes):
        return 0.0
    total = pairs = 0.0
    for scene in scenes:
        own = prepared(rows[starts[scene] : starts[scene + 1]], mean).astype(np.float64)
        first, second = np.triu_indices(len(own), 1)
        total += np.linalg.norm(own[first] - own[second], axis=1).sum()
        pairs += len(first)
    return float(total / pairs)


class CaptionTask:
    """A decoder on the texts of a store, each written from a row of its scene."""

    def __init__(
        self,
        config: CaptionConfig,
        data: CaptionData,
        device: torch.device,
        pretrained: "Pretrained | None" = None,
    ):
        self.config, self.data, self.device = config, data, device
        self.data_hash = data.hash
        texts = data.store.texts_per_scene()
        self.scenes = np.flatnonzero((texts > 0) & (np.diff(data.starts) > 0))
        if not len(self.scenes):
            where = str(data.store.meta.get("source", ""))
            raise InputError("there is no scene with a text to write.", where=where)
        # With a row for each text, the text of a row is known; rows of images have none of their own.
        self.rows_are_texts = np.array_equal(data.starts, data.store.scenes)
        torch.manual_seed(config.seed)  # initial weights only; nothing after this draws from it
        self.model = self._decoder(pretrained).to(device)

    def _decoder(self, pretrained: "Pretrained | None") -> "CaptionDecoder | LanguageDecoder":
        config, store, width = self.config, self.data.store, self.data.rows.shape[1]
        if pretrained is not None:
            from coview.uses.causal_lm import LanguageDecoder

            return LanguageDecoder(pretrained, width, config.prefix)
        longest = int(np.diff(store.offsets).max())
        shape = DecoderConfig.of_size(
            config.size, store.meta["vocabulary"], width, prefix=config.prefix, max_length=longest
        )
        return CaptionDecoder(shape)

    def draw(self, step: int) -> tuple[np.ndarray, list[np.ndarray]]:
        """One batch: prepared rows with noise (N, D) float32, and the tokens of the text of each."""
        config, data, store = self.config, self.data, self.data.store
        chosen = scene_batch(len(self.scenes), config.batch, seed=config.seed, step=step)
        scenes = self.scenes[chosen]
        rng = np.random.default_rng([config.seed, step, 8])
        picks, others, keeps, norms = rng.random((4, config.batch))
        counts = np.diff(data.starts)[scenes]
        place = (picks * counts).astype(np.int64)
        texts = store.texts_per_scene()[scenes]
        if self.rows_are_texts:
            # Any other text of the scene, or the row's own.
            away = 1 + (others * (texts - 1)).astype(np.int64)
            told = np.where((keeps < config.same_text) | (texts == 1), place, (place + away) % texts)
        else:
            told = (others * texts).astype(np.int64)
        rows = prepared(data.rows[data.starts[scenes] + place], data.mean)
        noise = rng.standard_normal(rows.shape) * (norms * config.noise * data.distance)[:, None]
        rows = rows + noise / np.sqrt(rows.shape[1])  # so that the noise's expected squared norm is norms^2
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows.astype(np.float32), [store.text(index) for index in store.scenes[scenes] + told]

    def step(self, step: int) -> Outcome:
        rows, texts = self.draw(step)
        with autocast(self.config, self.device):
            states, targets = self.model(torch.from_numpy(rows).to(self.device), texts)
            return Outcome(next_token(states, self.model.words.weight, targets), len(targets))

    def prepare(self) -> None:
        """Nothing is estimated before the first step."""

    def finish(self) -> None:
        """Nothing is estimated after the last step."""


def open_texts(source: Source, encoder: TrainedTextEncoder, cache: Path) -> TokenStore:
    """A source's training texts in the encoder's tokens, kept in `cache`; InputError if there are none."""
    longest = encoder.model.config.max_length
    return build_store(source, cache, tokenizer=encoder.tokenizer, max_length=longest)


def read_texts(
    source: Source, encoder: TrainedTextEncoder, store: TokenStore, out: Path, progress: Progress = silent
) -> CaptionData:
    """The training texts of a source as tokens and as rows of a trained text encoder, which `out` keeps.

    Parameters
    ----------
    store : of `open_texts`, for the same source and encoder
    out : run folder of the captioner; gets the rows and the texts, the memory that images are read with
    """
    done = embed(source, encoder, out / ROWS, split="train", progress=progress)
    texts = (" ".join(text.split()) for scene in source.scenes("train") for text in scene.texts)
    write_text(out / TEXTS, "\n".join(texts) + "\n")
    rows = load_embeddings(out / ROWS).matrix
    return CaptionData.of(rows, store.scenes, store, f"{encoder.fingerprint} {done.manifest['input_hash']}")


def in_tokens_of(pretrained: "Pretrained", data: CaptionData, texts: list[str]) -> CaptionData:
    """The same data with its texts in the tokens of a language model instead of the text encoder's."""
    tokens = pretrained.tokens(texts)
    ids, offsets = np.concatenate(tokens), np.cumsum([0, *map(len, tokens)])
    meta = data.store.meta | {"tokens": len(ids), "vocabulary": pretrained.tokenizer.get_vocab_size()}
    store = replace(data.store, ids=ids, offsets=offsets, meta=meta, tokenizer=pretrained.tokenizer)
    return replace(data, store=store, hash=hash_bytes(data.hash.encode() + ids.tobytes()))


def train_captioner(
    config: CaptionConfig,
    data: CaptionData,
    out: Path,
    *,
    encoder: str,
    device: str,
    resume: str,
    report: Report = unseen,
    pretrained: "Pretrained | None" = None,
) -> None:
    """Train a decoder into the run folder `out`, or resume it there.

    Parameters
    ----------
    pretrained : a language model to fine-tune instead of a decoder from scratch; `out` then holds the texts
    encoder : name of what made the rows, for the record
    resume : see `coview.training.loop.train`

    Raises
    ------
    InputError, UsageError
        Nothing to write; the folder holds another run.
    Interrupted
        Stopped by a signal; the checkpoint is written.
    """
    if pretrained is not None:
        data = in_tokens_of(pretrained, data, read_lines(out / TEXTS))
    task = CaptionTask(config, data, torch.device(pick_device(device)), pretrained)
    seconds = run_task(task, config, out, resume, report, no_probe)
    save_captioner(out, task.model, data.store.tokenizer, data.mean, config.as_json())
    named = ("source", "scenes", "texts", "tokens")
    facts = {name: data.store.meta[name] for name in named} | {"hash": data.hash}
    sign(out, config, facts, seconds, text_encoder=encoder, distance_of_texts=data.distance)
