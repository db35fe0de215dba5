"""The decoder: whole texts at once and token by token are one function; tokens turn back into text."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import BPE

from coview.config import TrainConfig
from coview.data.tokens import LAST, encode, train_tokenizer
from coview.embeddings import Embeddings, save_embeddings
from coview.encoders.trained import WEIGHTS
from coview.errors import InputError, UsageError
from coview.runs import write_json
from coview.tabletop import TabletopSource
from coview.uses.captioner import (
    ROWS,
    TEXTS,
    CaptionDecoder,
    Captioner,
    DecoderConfig,
    load_captioner,
    pieces_inside,
    prepared,
    save_captioner,
)

WORLD = TabletopSource(scenes=60)
TEXTS_OF = [scene.texts for scene in WORLD.scenes()]
TOKENIZER = train_tokenizer(lambda: (text for texts in TEXTS_OF for text in texts), 900)


@pytest.fixture(scope="module")
def decoder() -> CaptionDecoder:
    """Random weights, large enough that tokens matter, in double precision."""
    torch.manual_seed(0)
    decoder = CaptionDecoder(DecoderConfig(30, 6, layers=2, width=16, heads=2, prefix=3, max_length=12))
    for parameter in decoder.parameters():
        parameter.data.add_(0.2 * torch.randn_like(parameter))
    return decoder.double().eval()


def some_texts(count: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [np.r_[2, rng.integers(5, 30, rng.integers(1, 9)), LAST] for _ in range(count)]


def test_whole_texts_and_token_by_token_give_the_same_scores(decoder):
    texts, rows = some_texts(7), torch.randn(7, 6, dtype=torch.float64)
    states, targets = decoder(rows, texts)
    expected = (states @ decoder.words.weight.T).log_softmax(-1).gather(1, targets[:, None])[:, 0]
    slow = []
    for index in np.argsort([len(text) for text in texts], kind="stable"):
        scores, cache = decoder.start(rows[index : index + 1])
        for token in texts[index][1:].tolist():
            slow.append(scores.log_softmax(-1)[0, token])
            scores, cache = decoder.step(torch.tensor([token]), cache)
    assert torch.allclose(expected, torch.stack(slow), atol=1e-12)
    assert targets.tolist().count(LAST) == 7


def test_a_text_depends_on_its_own_embedding_and_on_earlier_tokens_alone(decoder):
    texts, rows = some_texts(3, seed=1), torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    alone = [decoder(rows[index : index + 1], texts[index : index + 1])[0] for index in range(3)]
    order = np.argsort([len(text) for text in texts], kind="stable")
    together = decoder(rows, texts)[0]
    assert torch.allclose(together, torch.cat([alone[index] for index in order]), atol=1e-12)
    first = alone[0][0].sum()
    (gradient,) = torch.autograd.grad(first, rows)
    assert gradient[0].abs().max() > 0
    assert gradient[1:].abs().max() == 0
    changed = texts[0].copy()
    changed[-2] = 5 + changed[-2] % 25  # the last word: nothing before it may notice
    other = decoder(rows[:1], [changed])[0]
    assert torch.equal(other[:-1], alone[0][:-1])


def test_the_cache_of_some_texts_goes_on_as_theirs(decoder):
    rows = torch.randn(4, 6, dtype=torch.float64)
    ids, chosen = torch.tensor([5, 6, 7, 8]), torch.tensor([2, 0, 2])
    cache = decoder.step(ids, decoder.start(rows)[1])[1]
    some = decoder.step(torch.tensor([9, 9, 9]), decoder.select(cache, chosen))[0]
    every = decoder.step(torch.tensor([9, 9, 9, 9]), cache)[0]
    assert torch.allclose(some, every[chosen], atol=1e-12)


def test_unknown_size():
    with pytest.raises(UsageError, match="unknown size 'xl'"):
        DecoderConfig.of_size("xl", 100, 8)


@settings(max_examples=40)
@given(st.integers(0, 59), st.integers(0, 4))
def test_tokens_as_text_are_the_same_tokens_again_and_the_same_letters(scene, slot):
    text = TEXTS_OF[scene][slot]
    captioner = Captioner(None, TOKENIZER, np.zeros(1), None, {})  # type: ignore[arg-type]
    tokens = encode(TOKENIZER, [text], 100)[0][0]
    written = captioner.text(tokens[1:].tolist())
    assert encode(TOKENIZER, [written], 100)[0][0].tolist() == tokens.tolist()
    assert written.replace(" ", "") == text.lower().replace(" ", "")


def test_word_pieces_join_and_stops_stand_close():
    captioner = Captioner(None, TOKENIZER, np.zeros(1), None, {})  # type: ignore[arg-type]
    text = "The unmistakable kettle, a tomato-red ring of the giant's."
    tokens = encode(TOKENIZER, [text], 100)[0][0].tolist()
    assert len(tokens) > 11  # "unmistakable" is no word of this vocabulary
    assert captioner.text(tokens[1:]) == text.lower()


def test_pieces_inside_are_those_that_no_word_begins_with():
    inside = pieces_inside(TOKENIZER)
    assert "##" in TOKENIZER.id_to_token(inside[0])
    texts = encode(TOKENIZER, [text for texts in TEXTS_OF for text in texts], 100)[0]
    assert not {int(tokens[1]) for tokens in texts} & set(inside)
    assert {int(token) for tokens in texts for token in tokens} & set(inside)
    assert pieces_inside(Tokenizer(BPE({"##": 0, "a": 1}, []))) == ()  # there "##" is a word like others


def test_prepared_rows_have_length_one_and_a_zero_row_stays_finite():
    rows = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    mean = rows[0]
    done = prepared(rows, mean)
    assert np.allclose(np.linalg.norm(done[1:], axis=1), 1, atol=1e-6)
    assert (done[0] == 0).all()


@pytest.fixture
def run(tmp_path, decoder):
    """A run folder as training leaves it."""
    mean = np.arange(6, dtype=np.float32)
    save_captioner(tmp_path, decoder, TOKENIZER, mean, {"steps": 3})
    write_json(tmp_path / "manifest.json", {"text_encoder": "run:somewhere"})
    save_embeddings(tmp_path / ROWS, Embeddings(np.eye(2, 6, dtype=np.float32), ("a#0", "a#1"), ("a", "a")))
    (tmp_path / TEXTS).write_text("one\u2028ring\ntwo\n", encoding="utf-8")
    return tmp_path


def test_saved_and_loaded_is_the_same(run, decoder):
    loaded = load_captioner(run)
    assert loaded.mean.tolist() == list(range(6))
    assert loaded.decoder.inside == pieces_inside(TOKENIZER)
    assert loaded.facts["text_encoder"] == "run:somewhere"
    for name, value in decoder.state_dict().items():
        assert torch.equal(loaded.decoder.state_dict()[name].double(), value.float().double())
    rows, texts = loaded.memory()
    assert texts == ["one\u2028ring", "two"]
    assert rows.matrix.shape == (2, 6)


def test_broken_run_folders_say_what_is_wrong(run, tmp_path):
    captioner = load_captioner(run)
    (run / TEXTS).write_text("one\n", encoding="utf-8")
    with pytest.raises(InputError, match="1 texts for 2 embeddings"):
        captioner.memory()
    (run / TEXTS).unlink()
    with pytest.raises(InputError, match=r"texts are gone.*Train it again"):
        captioner.memory()
    (run / WEIGHTS).write_bytes(b"\x80\x04 pickled")
    with pytest.raises(InputError, match="not a safetensors file"):
        load_captioner(run)
    write_json(run / "config.json", {"steps": 3})
    with pytest.raises(InputError, match="not finished, or no captioner"):
        load_captioner(run)
    write_json(run / "config.json", TrainConfig(size="xs").as_json())
    with pytest.raises(InputError, match=r"an encoder of texts.*coview caption train"):
        load_captioner(run)
    with pytest.raises(InputError, match=r"no such run folder.*coview caption train"):
        load_captioner(run / "none")
