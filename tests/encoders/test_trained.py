"""A text encoder as it lies in a run folder: what goes in comes out, and nothing else is opened."""

import dataclasses
import pickle

import numpy as np
import pytest
import torch

from coview.data.tokens import FIRST, LAST, train_tokenizer
from coview.encoders.text import TextEncoder, TextEncoderConfig, pack
from coview.encoders.trained import TrainedTextEncoder, load_text_encoder, save_text_encoder
from coview.errors import InputError, UsageError

TEXTS = ["a red ball", "the blue cube on a table", "", "ball", "red red red red red red red red red red red"]
TOKENIZER = train_tokenizer(lambda: TEXTS, 60)
CONFIG = TextEncoderConfig(
    vocabulary=TOKENIZER.get_vocab_size(), layers=2, width=16, heads=2, max_length=10, output=5
)


@pytest.fixture
def run(tmp_path):
    torch.manual_seed(3)
    model = TextEncoder(CONFIG)
    save_text_encoder(tmp_path, model, TOKENIZER, {"views": "good", "seed": 3})
    return tmp_path, model


def test_what_is_saved_is_loaded(run):
    folder, model = run
    loaded = load_text_encoder(folder)
    assert loaded.model.config == model.config
    for name, value in model.state_dict().items():
        assert torch.equal(loaded.model.state_dict()[name], value)
    assert (
        loaded.encode(TEXTS).tolist()
        == TrainedTextEncoder(model, TOKENIZER, name="other", causal=False).encode(TEXTS).tolist()
    )


def test_rows_are_those_of_each_text_alone_whatever_the_batch(run):
    folder, model = run
    loaded = load_text_encoder(folder, batch=2)
    rows = loaded.encode(iter(TEXTS), "all")
    assert rows.shape == (5, 3, 16)
    heads = loaded.encode(TEXTS)
    assert heads.shape == (5, 5)
    for row, text in enumerate(TEXTS):
        ids = [FIRST, *TOKENIZER.encode(text, add_special_tokens=False).ids, LAST]
        ids = ids if len(ids) <= 10 else [*ids[:9], LAST]
        tokens = pack([np.array(ids)])
        states = [model.pool(hidden, tokens)[0] for hidden in model.states(tokens)]
        np.testing.assert_allclose(rows[row], torch.stack(states).detach().numpy(), atol=1e-6)
        np.testing.assert_allclose(heads[row], model.head(states[-1]).detach().numpy(), atol=1e-6)


def test_layers_by_name(run):
    loaded = load_text_encoder(run[0])
    everything = loaded.encode(TEXTS, "all")
    assert loaded.layers == ("embed", "block.0", "block.1")
    assert np.array_equal(loaded.encode(TEXTS, "block.0"), everything[:, 1])
    assert loaded.encode([], "last").shape == (0, 5)
    assert loaded.truncated(TEXTS) == 1
    with pytest.raises(UsageError, match=r"no layer 'block\.7'"):
        loaded.encode(TEXTS, "block.7")


def test_a_next_token_run_reads_from_left_to_right(run, tmp_path):
    _, model = run
    save_text_encoder(tmp_path, model, TOKENIZER, {"views": "next-token"})
    causal = load_text_encoder(tmp_path)
    both_ways = TrainedTextEncoder(model, TOKENIZER, name="", causal=False)
    assert causal.fingerprint != both_ways.fingerprint
    assert not np.allclose(causal.encode(TEXTS[:2]), both_ways.encode(TEXTS[:2]), atol=1e-5)


def test_the_fingerprint_is_that_of_weights_and_tokenizer(run):
    folder, model = run
    first = load_text_encoder(folder).fingerprint
    assert load_text_encoder(folder).fingerprint == first
    with torch.no_grad():
        model.head.bias[0] += 1
    assert TrainedTextEncoder(model, TOKENIZER, name="", causal=False).fingerprint != first


def test_a_pickle_is_never_opened(run):
    folder, _ = run

    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("the pickle was opened",))

    (folder / "model.safetensors").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(InputError, match="Pickles are never opened"):
        load_text_encoder(folder)


def test_an_unfinished_run_says_so(run):
    folder, _ = run
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"not finished.*Resume it first"):
        load_text_encoder(folder)
    with pytest.raises(InputError, match="no such run folder"):
        load_text_encoder(folder / "elsewhere")


@pytest.mark.parametrize("change", ["no encoder", "another width", "an unknown key"])
def test_a_configuration_that_does_not_fit_the_weights(run, change):
    folder, model = run
    shape = dataclasses.asdict(model.config)
    document = {
        "no encoder": {"views": "good"},
        "another width": {"views": "good", "encoder": shape | {"width": 32}},
        "an unknown key": {"views": "good", "encoder": shape | {"depth": 2}},
    }[change]
    from coview.runs import write_json

    write_json(folder / "config.json", document)
    with pytest.raises(InputError, match="not a text encoder"):
        load_text_encoder(folder)


def test_a_full_disk_leaves_the_old_weights(run, monkeypatch):
    folder, model = run
    before = (folder / "model.safetensors").read_bytes()

    from safetensors import SafetensorError

    from coview.encoders import trained
    from coview.errors import ResourceError

    def full(*arguments, **options):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(trained, "save_file", full)
    with pytest.raises(ResourceError, match="disk is full"):
        save_text_encoder(folder, model, TOKENIZER, {"views": "bad"})
    assert (folder / "model.safetensors").read_bytes() == before
    assert load_text_encoder(folder).causal is False
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]
