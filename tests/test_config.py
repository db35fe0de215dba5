"""A configuration is checked when it is made, and says what differs from another."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coview.config import FREE, TrainConfig
from coview.errors import UsageError

GOOD = {
    "seed": st.integers(0, 2**40),
    "steps": st.integers(1, 10**6),
    "weight": st.floats(0, 1),
    "learning_rate": st.floats(1e-9, 10),
    "views": st.sampled_from(["good", "bad", "next-token"]),
    "precision": st.sampled_from(["auto", "fp32", "bf16"]),
}


@given(st.fixed_dictionaries(GOOD))
def test_to_json_and_back(values):
    config = TrainConfig(**values)
    again = TrainConfig.from_json(json.loads(json.dumps(config.as_json())))
    assert again == config
    assert again.hash == config.hash


def test_whole_numbers_stand_for_numbers():
    assert TrainConfig.from_json({"clip": 1, "weight": 0}).hash == TrainConfig(clip=1.0, weight=0.0).hash


@pytest.mark.parametrize("field", dataclasses.fields(TrainConfig), ids=lambda field: field.name)
def test_whatever_bears_on_the_outcome_is_in_the_hash(field):
    other = {
        "modality": "image",
        "views": "bad",
        "size": "m",
        "objective": "vicreg",
        "precision": "bf16",
        "mask_rate": 0.31,
        "weight": 0.06,
    }.get(field.name, field.default * 2 or 1)
    config, changed = TrainConfig(), TrainConfig(**{field.name: other})
    option = "--" + field.name.replace("_", "-")
    if field.name in FREE:
        assert changed.hash == config.hash
        assert not config.changes(changed)
    else:
        assert changed.hash != config.hash
        assert config.changes(changed) == [f"{option} {other}, not {field.default}"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"views": "god"}, "--views: there is no 'god'. Did you mean 'good'?"),
        ({"precision": "fp16"}, "--precision: there is no 'fp16'."),
        ({"steps": 0}, "--steps: must be at least 1, not 0."),
        ({"log_every": 0}, "--log-every: must be at least 1, not 0."),
        ({"seed": -1}, "--seed: must not be negative, not -1."),
        ({"learning_rate": 0.0}, "--learning-rate: must be positive, not 0.0."),
        ({"learning_rate": float("nan")}, "--learning-rate: must be positive, not nan."),
        ({"weight": 1.1}, "--weight: must lie in [0, 1], not 1.1."),
        ({"mask_rate": 1.0}, "--mask-rate: must lie between 0 and 1, not 1.0."),
        ({"views_per_scene": 1}, "--views-per-scene: must be at least 2 (one observation has no other view)"),
        ({"batch": 1}, "--batch: must be at least 2"),
        ({"batch": 0, "views": "next-token"}, "--batch: must be at least 1, not 0."),
        ({"modality": "image", "views": "next-token"}, "--views: is for texts only"),
        ({"max_length": 2}, "--max-length: must be at least 3"),
        ({"vocabulary": 5}, "--vocabulary: must be at least 6"),
    ],
)
def test_what_makes_no_sense_is_refused(values, words):
    with pytest.raises(UsageError) as caught:
        TrainConfig(**values)
    assert str(caught.value).startswith(words)


def test_next_token_takes_one_text_a_scene():
    TrainConfig(views="next-token", views_per_scene=1, batch=1)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"stpes": 3}, "a.yaml: unknown key 'stpes'. Did you mean 'steps'?"),
        ({"steps": "3"}, "a.yaml: steps must be a whole number, not '3'."),
        ({"steps": 2.5}, "a.yaml: steps must be a whole number, not 2.5."),
        ({"steps": True}, "a.yaml: steps must be a whole number, not True."),
        ({"learning_rate": "1e-3"}, "a.yaml: learning_rate must be a number such as 0.001, not '1e-3'."),
        ({"views": None}, "a.yaml: views must be a word, not None."),
    ],
)
def test_keys_and_values_of_a_file_that_do_not_fit(document, words):
    with pytest.raises(UsageError) as caught:
        TrainConfig.from_json(document, where="a.yaml")
    assert str(caught.value) == words
