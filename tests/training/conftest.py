"""A token store and a configuration small enough to train on in every test."""

from collections.abc import Callable

import pytest

from coview.config import TrainConfig
from coview.data.tokens import TokenStore, build_store
from coview.tabletop import TabletopSource

TINY = {
    "size": "xs",
    "steps": 6,
    "batch": 8,
    "views_per_scene": 2,
    "output": 12,
    "slices": 16,
    "warmup": 2,
    "log_every": 1,
    "checkpoint_every": 2,
    "vocabulary": 300,
    "max_length": 16,
    "precision": "fp32",
}


@pytest.fixture(scope="session")
def store(tmp_path_factory) -> TokenStore:
    """The training texts of 100 tabletop scenes (80 of them train), cut at 16 tokens."""
    return build_store(
        TabletopSource(scenes=100), tmp_path_factory.mktemp("tokens"), vocabulary=300, max_length=16
    )


@pytest.fixture
def tiny() -> Callable[..., TrainConfig]:
    """`tiny(steps=3)` is a configuration of a run that takes a second."""
    return lambda **more: TrainConfig(**TINY | more)


@pytest.fixture(autouse=True)
def small_whitening_sample(monkeypatch):
    """Whiten on few scenes: it is most of the work of a tiny run."""
    for module in ("text_task", "image_task"):
        monkeypatch.setattr(f"coview.training.{module}.WHITENING_SCENES", 128)
