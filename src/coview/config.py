"""Configuration of a training run: a frozen dataclass, checked when it is made.

A run's outcome is a function of its configuration, its data and the machine's arithmetic. The configuration
is written whole into the run folder, and a run is only resumed under the same one.
"""

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Self, get_args

from coview.errors import UsageError, did_you_mean
from coview.runs import hash_json

Modality = Literal["text", "image"]
Views = Literal["good", "bad", "next-token"]
Objective = Literal["lejepa", "vicreg"]
Precision = Literal["auto", "fp32", "bf16"]

CHOICES = {"modality": Modality, "views": Views, "objective": Objective, "precision": Precision}
FREE = ("checkpoint_every", "log_every")  # without any bearing on the outcome


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """What every run has, whatever is trained.

    Parameters
    ----------
    steps
        Optimiser steps.
    batch
        Scenes in a batch.
    learning_rate
        Of AdamW, at its highest.
    warmup
        Steps of linear warm-up; then a cosine down to 1 %.
    weight_decay
        Of AdamW, on matrices.
    clip
        Largest norm of the gradient.
    precision
        auto: bfloat16 where the hardware multiplies it natively, else fp32.
    seed
        Everything random is a function of (seed, step).
    checkpoint_every
        Steps between checkpoints.
    log_every
        Steps between lines of metrics.jsonl.
    """

    steps: int = 1000
    batch: int = 128
    learning_rate: float = 1e-3
    warmup: int = 100
    weight_decay: float = 0.05
    clip: float = 1.0
    precision: Precision = "auto"
    seed: int = 0
    checkpoint_every: int = 100
    log_every: int = 10

    def __post_init__(self):
        for name in CHOICES.keys() & {item.name for item in fields(self)}:
            choices = get_args(CHOICES[name])
            if getattr(self, name) not in choices:
                hint = did_you_mean(str(getattr(self, name)), choices)
                raise UsageError(f"there is no {getattr(self, name)!r}.", where=_option(name), hint=hint)
        for name in ("steps", "batch", "checkpoint_every", "log_every"):
            self._need(name, getattr(self, name) >= 1, "must be at least 1")
        for name in ("seed", "warmup", "weight_decay"):
            self._need(name, getattr(self, name) >= 0, "must not be negative")
        for name in ("learning_rate", "clip"):
            self._need(name, getattr(self, name) > 0, "must be positive")

    def _need(self, name: str, holds: bool, rule: str) -> None:
        if not holds:
            raise UsageError(f"{rule}, not {getattr(self, name)}.", where=_option(name))

    @property
    def hash(self) -> str:
        """Hash of everything that bears on the outcome."""
        return hash_json({name: value for name, value in asdict(self).items() if name not in FREE})

    def changes(self, other: "RunConfig") -> list[str]:
        """What bears on the outcome and differs, as ``--steps 400, not 500``: the other's, not this one's."""
        mine, theirs = asdict(self), asdict(other)
        return [
            f"{_option(name)} {theirs[name]}, not {mine[name]}"
            for name in mine
            if mine[name] != theirs[name] and name not in FREE
        ]

    def as_json(self) -> dict:
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict, where: str = "") -> Self:
        """A configuration from names and values, as they stand in a file; UsageError if one does not fit."""
        known = {item.name: item.default for item in fields(cls)}
        words: dict[type, str] = {int: "a whole number", float: "a number such as 0.001", str: "a word"}
        values: dict[str, Any] = {}
        for name, value in document.items():
            if name not in known:
                raise UsageError(f"unknown key {name!r}.", where=where, hint=did_you_mean(name, list(known)))
            kind = type(known[name])
            values[name] = float(value) if kind is float and type(value) is int else value
            if type(values[name]) is not kind:
                raise UsageError(f"{name} must be {words[kind]}, not {value!r}.", where=where)
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class TrainConfig(RunConfig):
    """How to train an encoder.

    Parameters
    ----------
    modality
        Train on the texts of the scenes or on their images.
    views
        good: several observations of one scene; bad: several corruptions of one observation; next-token:
        prefixes and continuations of texts.
    size
        The one dial of the text encoder: xs, s, m, l or base (109M parameters).
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
    vocabulary
        Token types of a tokenizer trained on the texts.
    max_length
        Tokens of the longest text; what is longer is cut.
    """

    modality: Modality = "text"
    views: Views = "good"
    size: str = "s"
    views_per_scene: int = 3
    mask_rate: float = 0.3
    output: int = 128
    objective: Objective = "lejepa"
    weight: float = 0.05
    reference_rows: int = 128
    slices: int = 256
    penalty: float = 10.0
    vocabulary: int = 8000
    max_length: int = 64

    def __post_init__(self):
        super().__post_init__()
        for name in ("output", "reference_rows", "slices"):
            self._need(name, getattr(self, name) >= 1, "must be at least 1")
        self._need("penalty", self.penalty > 0, "must be positive")
        self._need("mask_rate", 0 < self.mask_rate < 1, "must lie between 0 and 1")
        self._need("weight", 0 <= self.weight <= 1, "must lie in [0, 1]")
        self._need("max_length", self.max_length >= 3, "must be at least 3 (two special tokens and a word)")
        self._need("vocabulary", self.vocabulary >= 6, "must be at least 6 (five special tokens and a word)")
        if self.views == "next-token":
            self._need("views", self.modality == "text", "is for texts only")
            self._need("views_per_scene", self.views_per_scene >= 1, "must be at least 1")
        else:
            self._need("batch", self.batch >= 2, "must be at least 2 (a scene is told from others)")
            few = "must be at least 2 (one observation has no other view)"
            self._need("views_per_scene", self.views_per_scene >= 2, few)


@dataclass(frozen=True, kw_only=True)
class CaptionConfig(RunConfig):
    """How to train a decoder that writes a text from a text's embedding.

    Parameters
    ----------
    size
        The one dial of the decoder: xs, s or m; or hf:NAME, a causal language model of Hugging Face (a
        folder or an id such as gpt2) that is fine-tuned, best with --learning-rate 1e-5 to 1e-4.
    prefix
        Tokens that the embedding is mapped to, which the text follows.
    same_text
        How often a text is written from its own embedding; else from that of another text of the scene.
    noise
        Largest norm of the noise on the embedding, as a multiple of the distance of two texts of one scene.
    """

    steps: int = 4000
    warmup: int = 200
    learning_rate: float = 2e-3
    size: str = "s"
    prefix: int = 2
    same_text: float = 0.5
    noise: float = 1.0

    def __post_init__(self):
        super().__post_init__()
        self._need("prefix", self.prefix >= 1, "must be at least 1")
        self._need("same_text", 0 <= self.same_text <= 1, "must lie in [0, 1]")
        self._need("noise", self.noise >= 0, "must not be negative")


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
