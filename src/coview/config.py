"""Configuration of a training run: one frozen dataclass, checked when it is made.

A run's outcome is a function of its configuration, its data and the machine's arithmetic. The configuration
is written whole into the run folder, and a run is only resumed under the same one.
"""

from dataclasses import asdict, dataclass, fields
from typing import Literal

from coview.errors import UsageError, did_you_mean
from coview.runs import hash_json

Views = Literal["good", "bad", "next-token"]
Objective = Literal["lejepa", "vicreg"]
Precision = Literal["auto", "fp32", "bf16"]


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """What to train and how.

    Parameters
    ----------
    modality
        Train on the texts of the scenes or on their images.
    views
        good: several observations of one scene; bad: several corruptions of one observation; next-token:
        prefixes and continuations of texts.
    size
        The one dial of the text encoder: xs, s, m, l or base (109M parameters).
    steps
        Optimiser steps.
    batch
        Scenes in a batch.
    views_per_scene
        V, observations of each scene in a batch.
    mask_rate
        Share of the tokens that a bad view hides.
    output
        Width of the embedding, a linear map after pooling; at most the encoder's width.
    objective
        lejepa: invariance + SIGReg; vicreg: invariance + second-order penalty. For good and bad views.
    weight
        Share of SIGReg in the loss when a view has `reference_rows` rows, in [0, 1].
    reference_rows
        N at which the weight is stated; its pull is kept equal at any batch.
    slices
        Random directions of SIGReg, redrawn every step.
    penalty
        Weight of vicreg's covariance term.
    learning_rate
        Of AdamW, at its highest.
    warmup
        Steps of linear warm-up; then a cosine down to 1 %.
    weight_decay
        Of AdamW, on matrices.
    clip
        Largest norm of the gradient.
    vocabulary
        Token types of a tokenizer trained on the texts.
    max_length
        Tokens of the longest text; what is longer is cut.
    precision
        auto: bfloat16 where the hardware multiplies it natively, else fp32.
    seed
        Everything random is a function of (seed, step).
    checkpoint_every
        Steps between checkpoints.
    log_every
        Steps between lines of metrics.jsonl.
    """

    modality: Literal["text", "image"] = "text"
    views: Views = "good"
    size: str = "s"
    steps: int = 1000
    batch: int = 128
    views_per_scene: int = 3
    mask_rate: float = 0.3
    output: int = 128
    objective: Objective = "lejepa"
    weight: float = 0.05
    reference_rows: int = 128
    slices: int = 256
    penalty: float = 10.0
    learning_rate: float = 1e-3
    warmup: int = 100
    weight_decay: float = 0.05
    clip: float = 1.0
    vocabulary: int = 8000
    max_length: int = 64
    precision: Precision = "auto"
    seed: int = 0
    checkpoint_every: int = 100
    log_every: int = 10

    def __post_init__(self):
        for name in ("steps", "batch", "output", "reference_rows", "slices", "checkpoint_every", "log_every"):
            if getattr(self, name) < 1:
                self._refuse(name, "must be at least 1")
        if self.views_per_scene < 2 and self.views != "next-token":
            self._refuse("views_per_scene", "must be at least 2: one observation has no other view")
        if not 0 < self.mask_rate < 1:
            self._refuse("mask_rate", "must lie between 0 and 1")
        if not 0 <= self.weight <= 1:
            self._refuse("weight", "must lie in [0, 1]")
        if self.modality == "image" and self.views == "next-token":
            self._refuse("views", "is for texts only")
        if self.max_length < 3:
            self._refuse("max_length", "must be at least 3: two special tokens and a word")

    def _refuse(self, name: str, why: str) -> None:
        option = "--" + name.replace("_", "-")
        raise UsageError(f"{why}, not {getattr(self, name)}.", where=option)

    @property
    def hash(self) -> str:
        """Hash of everything that bears on the outcome."""
        facts = asdict(self)
        for free in ("checkpoint_every", "log_every"):
            del facts[free]
        return hash_json(facts)

    def as_json(self) -> dict:
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict, where: str = "") -> "TrainConfig":
        known = [item.name for item in fields(cls)]
        for name in document:
            if name not in known:
                raise UsageError(f"unknown key {name!r}.", where=where, hint=did_you_mean(name, known))
        return cls(**document)
