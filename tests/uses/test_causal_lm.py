"""Language models built small and at random, saved as a hub would have them, and fine-tuned."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from coview.config import CaptionConfig
from coview.data.tokens import TokenStore, build_store
from coview.embeddings import Embeddings, save_embeddings
from coview.errors import InputError, MissingError, UsageError
from coview.tabletop import TabletopSource
from coview.training.caption_task import CaptionData, CaptionTask, in_tokens_of, train_captioner
from coview.training.loop import train
from coview.uses.captioner import ROWS, TEXTS, load_captioner, prepared
from coview.uses.causal_lm import LanguageDecoder, load_pretrained
from coview.uses.generation import Search, beam_search, nucleus_sample, write

transformers = pytest.importorskip("transformers")

CPU = torch.device("cpu")
SOURCE = TabletopSource(scenes=10, texts=2)
LINES = [" ".join(text.split()) for scene in SOURCE.scenes("train") for text in scene.texts]
SPECIAL = ["<unk>", "<s>", "</s>", "<pad>"]
END, TYPES, ROWS_OF = 2, 600, 620  # the model has more rows than the tokenizer has types
SHAPES = {
    # Dropout as GPT-2 has it: what is drawn for it must not be drawn at all.
    "gpt2": lambda: transformers.GPT2Config(
        vocab_size=ROWS_OF, n_embd=32, n_layer=2, n_head=4, n_positions=80, bos_token_id=1, eos_token_id=END
    ),
    "llama": lambda: transformers.LlamaConfig(
        vocab_size=ROWS_OF, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=48, max_position_embeddings=80, tie_word_embeddings=True,
    ),
    "llama-untied": lambda: transformers.LlamaConfig(
        vocab_size=ROWS_OF, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=48, max_position_embeddings=80, tie_word_embeddings=False,
    ),
}  # fmt: skip
SMALL = CaptionConfig(
    steps=6, batch=6, warmup=2, checkpoint_every=2, log_every=1, precision="fp32", learning_rate=5e-3
)


def save_tokenizer(folder) -> None:
    """Byte pairs of the texts, as GPT-2 and SmolLM have them."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=TYPES, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(LINES, trainer)
    names = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **names).save_pretrained(folder)


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict:
    """A folder for each shape, as a hub would have it."""
    made = {}
    for name, shape in SHAPES.items():
        torch.manual_seed(0)
        made[name] = tmp_path_factory.mktemp(name)
        transformers.AutoModelForCausalLM.from_config(shape()).save_pretrained(made[name])
        save_tokenizer(made[name])
    return made


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> CaptionData:
    store: TokenStore = build_store(SOURCE, tmp_path_factory.mktemp("tokens"), vocabulary=300)
    rows = np.random.default_rng(0).standard_normal((len(LINES), 10)).astype(np.float32)
    return CaptionData.of(rows, store.scenes, store, "rows")


def run_folder(folder, data: CaptionData):
    """A folder with what `read_texts` leaves there."""
    folder.mkdir()
    (folder / TEXTS).write_text("\n".join(LINES) + "\n", encoding="utf-8")
    ids = tuple(str(index) for index in range(len(LINES)))
    save_embeddings(folder / ROWS, Embeddings(np.asarray(data.rows), ids, ids))
    return folder


def fine_tune(config, data, folder, model, **more) -> None:
    pretrained = load_pretrained(f"hf:{model}")
    train_captioner(
        config, data, folder, encoder="run:x", device="cpu", resume="", pretrained=pretrained, **more
    )


@pytest.fixture(scope="module", params=list(SHAPES))
def decoder(folders, request) -> LanguageDecoder:
    """In double precision, with weights large enough that tokens matter."""
    torch.manual_seed(1)
    decoder = LanguageDecoder(load_pretrained(f"hf:{folders[request.param]}"), 10, 3)
    for parameter in decoder.parameters():
        parameter.data.add_(0.2 * torch.randn_like(parameter))
    return decoder.double().eval()


def some_rows(count: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(5).standard_normal((count, 10)))


def test_the_tokens_of_a_text_are_its_own_and_the_end(folders):
    pretrained = load_pretrained(f"hf:{folders['gpt2']}")
    for text, tokens in zip(LINES, pretrained.tokens(LINES), strict=True):
        assert tokens[-1] == pretrained.end == END
        assert pretrained.tokenizer.decode(tokens[:-1].tolist()) == text
    (long,) = pretrained.tokens(["ring " * 200])
    assert (len(long), long[-1]) == (64, END)


def test_padded_texts_and_the_cache_give_the_loss_of_texts_one_by_one(decoder):
    """The loss covers every token and the end, never the prefix, in value and gradient."""
    rng = np.random.default_rng(3)
    texts = [np.r_[rng.integers(4, TYPES, size), END] for size in (3, 1, 7)]
    rows = some_rows(3)
    states, targets = decoder(rows, texts)
    fast = F.cross_entropy(states @ decoder.words.weight.T, targets)
    fast.backward()
    gradients = {name: p.grad.clone() for name, p in decoder.named_parameters()}
    decoder.zero_grad()
    assert targets.tolist() == np.concatenate(texts).tolist()
    cached, plain = [], []
    for row, text in zip(rows, texts, strict=True):
        scores, cache = decoder.start(row[None])
        words = decoder.body.get_input_embeddings()
        for place, token in enumerate(text.tolist()):
            so_far = torch.cat([decoder._prefix(row[None]), words(torch.tensor(text[:place])[None])], dim=1)
            whole = decoder.body(inputs_embeds=so_far).last_hidden_state[:, -1] @ decoder.words.weight.T
            assert torch.allclose(scores, whole, atol=1e-5)
            cached.append(F.cross_entropy(scores, torch.tensor([token])))
            plain.append(F.cross_entropy(whole, torch.tensor([token])))
            scores, cache = decoder.step(torch.tensor([token]), cache)
    slow = torch.stack(plain).mean()
    slow.backward()
    assert torch.allclose(fast, slow, atol=1e-5)
    assert torch.allclose(fast, torch.stack(cached).mean(), atol=1e-5)
    for name, parameter in decoder.named_parameters():
        # Llama norms in single precision whatever it is given.
        assert torch.allclose(gradients[name], parameter.grad, atol=1e-5), name
    decoder.zero_grad()


@torch.no_grad()
def test_a_cache_is_left_as_it_was_by_those_that_go_on_from_it(decoder):
    ids, chosen = torch.tensor([5, 6, 7, 8]), torch.tensor([2, 0, 2])
    cache = decoder.step(ids, decoder.start(some_rows(4))[1])[1]
    first = decoder.step(ids, cache)[0]
    some = decoder.step(ids[chosen], decoder.select(cache, chosen))[0]
    assert torch.allclose(some, first[chosen], atol=1e-5)
    assert torch.equal(decoder.step(ids, cache)[0], first)


class Uncached:
    """The same decoder, which keeps the tokens so far and reads all of them anew at every step."""

    def __init__(self, decoder):
        self.decoder = decoder
        self.longest, self.end, self.never = decoder.longest, decoder.end, decoder.never
        self.inside = decoder.inside

    def start(self, rows):
        return self._scores(rows, torch.empty(len(rows), 0, dtype=torch.int64))

    def step(self, ids, cache):
        return self._scores(cache[0], torch.cat([cache[1], ids[:, None]], dim=1))

    def select(self, cache, rows):
        return cache[0][rows], cache[1][rows]

    def _scores(self, rows, ids):
        words = self.decoder.body.get_input_embeddings()(ids)
        x = torch.cat([self.decoder._prefix(rows), words], dim=1)
        hidden = self.decoder.body(inputs_embeds=x, use_cache=False).last_hidden_state[:, -1]
        return hidden @ self.decoder.words.weight.T, (rows, ids)


def test_generation_with_the_cache_is_that_without(decoder):
    rows, search = some_rows(4), Search(longest=9)
    found = beam_search(decoder, rows, search, width=3)
    expected = beam_search(Uncached(decoder), rows, search, width=3)
    assert [[one.tokens for one in row] for row in found] == [[one.tokens for one in row] for row in expected]
    draws, drawn = np.random.default_rng(0).random((4, 9)), Search(nucleus=0.9, longest=9)
    sampled, again = (nucleus_sample(one, rows, drawn, draws) for one in (decoder, Uncached(decoder)))
    assert [one.tokens for one in sampled] == [one.tokens for one in again]
    forbidden = {0, 1, 3, *range(TYPES, ROWS_OF)}
    assert set(decoder.never) == forbidden
    assert not forbidden & {token for row in found for one in row for token in one.tokens}


@pytest.mark.parametrize("name", ["gpt2", "llama-untied"])
def test_texts_learnt_by_heart_are_written_by_the_run_alone(folders, data, tmp_path, name):
    """The loss falls, the run folder needs no other one, and loading it again writes the same."""
    model = tmp_path / "model"
    shutil.copytree(folders[name], model)
    folder, lines = run_folder(tmp_path / "run", data), []
    config = replace(SMALL, steps=140, batch=8, same_text=1.0, noise=0.0, size=f"hf:{model}")
    fine_tune(config, data, folder, model, report=lines.append)
    shutil.rmtree(model)
    losses = [line["loss"] for line in lines]
    assert np.isfinite(losses).all()
    assert losses[-1] < 0.3 * losses[0]
    assert {file.suffix for file in folder.iterdir()} == {".safetensors", ".json", ".jsonl", ".txt"}
    known = prepared(data.rows, data.mean)
    once, again = (load_captioner(folder) for _ in range(2))
    written = write(once.decoder, known, Search(longest=60), once.text)
    assert written == write(again.decoder, known, Search(longest=60), again.text)
    alike = [one[0].split()[:3] == line.split()[:3] for one, line in zip(written, LINES, strict=True)]
    assert np.mean(alike) > 0.5
    assert once.memory()[1] == LINES


def test_the_loaded_decoder_is_the_trained_one(folders, data, tmp_path):
    folder = run_folder(tmp_path / "run", data)
    pretrained = load_pretrained(f"hf:{folders['gpt2']}")
    train_captioner(SMALL, data, folder, encoder="", device="cpu", resume="", pretrained=pretrained)
    trained = LanguageDecoder(pretrained, 10, 2)  # the network is trained in place; the prefix is new
    loaded = load_captioner(folder)
    trained.prefix.load_state_dict(loaded.decoder.prefix.state_dict())
    known = prepared(data.rows, data.mean)
    assert write(trained, known, Search(longest=12), loaded.text) == write(
        loaded.decoder, known, Search(longest=12), loaded.text
    )


def test_stopped_and_resumed_is_bit_equal_to_unbroken(folders, data, tmp_path):
    """With a model that has dropout in its configuration."""
    model = folders["gpt2"]
    unbroken, killed = (run_folder(tmp_path / name, data) for name in ("unbroken", "killed"))
    fine_tune(SMALL, data, unbroken, model)

    class Stopped(CaptionTask):
        def step(self, step):
            if step == 3:
                raise KeyboardInterrupt
            return super().step(step)

    pretrained = load_pretrained(f"hf:{model}")
    own = in_tokens_of(pretrained, data, LINES)
    with pytest.raises(KeyboardInterrupt):
        train(Stopped(SMALL, own, CPU, pretrained), SMALL, killed, resume="", report=lambda line: None)
    torch.rand(7)  # whatever else draws from global state
    fine_tune(SMALL, data, killed, model)
    one, other = (folder / "model.safetensors" for folder in (unbroken, killed))
    assert one.read_bytes() == other.read_bytes()


def test_a_model_that_is_not_there_is_named_before_anything_is_written(tmp_path, run_cli, monkeypatch):
    monkeypatch.setenv("COVIEW_CACHE", str(tmp_path / "cache"))
    # The hub's libraries read the switch when they are imported, which here they are already.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("coview.encoders.trained.load_text_encoder", lambda run: None)
    code, _, err = run_cli(
        "caption", "train", "tabletop:scenes=10,texts=2", "--run", tmp_path / "text",
        "--out", tmp_path / "out", "--size", "hf:nobody/nothing-of-that-name",
    )  # fmt: skip
    assert code == 4
    assert "--size: nobody/nothing-of-that-name is no folder here" in err
    assert not (tmp_path / "out").exists()
    with pytest.raises(MissingError, match="hf download"):
        load_pretrained("hf:nobody/nothing-of-that-name")


def test_what_cannot_be_a_decoder_is_refused(folders, tmp_path):
    bert = transformers.BertConfig(
        vocab_size=ROWS_OF, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    transformers.BertLMHeadModel(bert).save_pretrained(tmp_path / "bert")
    save_tokenizer(tmp_path / "bert")
    with pytest.raises(UsageError, match="no causal language model"):
        load_pretrained(f"hf:{tmp_path / 'bert'}")
    shutil.copytree(folders["gpt2"], tmp_path / "pickled")
    (tmp_path / "pickled" / "model.safetensors").rename(tmp_path / "pickled" / "pytorch_model.bin")
    with pytest.raises(InputError, match="Only safetensors are read"):
        load_pretrained(f"hf:{tmp_path / 'pickled'}")
    shutil.copytree(folders["llama"], tmp_path / "code")
    facts = json.loads((tmp_path / "code" / "config.json").read_text())
    (tmp_path / "code" / "config.json").write_text(json.dumps(facts | {"trust_remote_code": True}))
    with pytest.raises(MissingError, match="code of its own"):
        load_pretrained(f"hf:{tmp_path / 'code'}")
