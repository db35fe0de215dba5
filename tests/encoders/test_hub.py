"""Language models, built small and at random from configurations, against transformers' own hidden states."""

import json

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from coview.encoders import hub, load_encoder
from coview.encoders.hub import LanguageModel, refuse_hidden_code, token_weights
from coview.errors import InputError, MissingError, UsageError

transformers = pytest.importorskip("transformers")

TEXTS = [
    "a red cube",
    "a small blue ball stands left of a red cube",
    "ball",
    "two cubes",
    "a red ball",
    "cube",
]
LONG = " ".join(["a", "red", "ball"] * 13)
WORDS = sorted({word for text in TEXTS for word in text.split()})
SHAPE = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def tokenizer(family: str = "bert", side: str = "right"):
    """Words as tokens; [CLS] before and [SEP] after a text, or [CLS] alone as the causal models' BOS."""
    vocabulary = {word: index for index, word in enumerate([*SPECIAL, *WORDS])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    template = "[CLS] $A" if family in CAUSAL else "[CLS] $A [SEP]"
    backend.post_processor = processors.TemplateProcessing(
        single=template, special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=backend, padding_side=side, **names)


def rotary(name: str):
    config = getattr(transformers, f"{name}Config")
    return config(vocab_size=40, num_key_value_heads=2, head_dim=8, max_position_embeddings=64, **SHAPE)


CAUSAL = {
    "gpt2": lambda: transformers.GPT2Config(vocab_size=40, n_embd=32, n_layer=3, n_head=4, n_positions=64),
    "bloom": lambda: transformers.BloomConfig(vocab_size=40, hidden_size=32, n_layer=3, n_head=4),
    "llama": lambda: rotary("Llama"),
    "gemma3": lambda: rotary("Gemma3Text"),
    "qwen2": lambda: rotary("Qwen2"),
}
MASKED = {
    "bert": lambda: transformers.BertConfig(vocab_size=40, max_position_embeddings=64, **SHAPE),
    "roberta": lambda: transformers.RobertaConfig(
        vocab_size=40, max_position_embeddings=64, pad_token_id=0, **SHAPE
    ),
    "distilbert": lambda: transformers.DistilBertConfig(
        vocab_size=40, dim=32, n_layers=3, n_heads=4, hidden_dim=48, max_position_embeddings=64
    ),
    "modernbert": lambda: transformers.ModernBertConfig(
        vocab_size=40, max_position_embeddings=64, pad_token_id=0, **SHAPE
    ),
}
FAMILIES = {**CAUSAL, **MASKED}


def network(family: str):
    torch.manual_seed(7)
    config = FAMILIES[family]()
    config._attn_implementation = "eager"
    built = transformers.AutoModel.from_config(config)
    with torch.no_grad():  # norms and biases start as 1 and 0, where mistakes do not show
        for parameter in built.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return built.eval()


def encoder(family: str, **options) -> LanguageModel:
    return LanguageModel(network(family), tokenizer(family), f"hf:{family}", **options)


def padded_twin(family: str, texts: list[str], side: str) -> np.ndarray:
    """Masked means over all `hidden_states` of one padded batch, positions counted from the mask."""
    model, words = network(family), tokenizer(family, side)
    batch = words(texts, padding=True, return_tensors="pt")
    mask = batch["attention_mask"]
    arguments = {"input_ids": batch["input_ids"], "attention_mask": mask, "output_hidden_states": True}
    if family in ("gpt2", "llama", "gemma3", "qwen2"):
        arguments["position_ids"] = (mask.cumsum(1) - 1).clamp_min(0)
    with torch.inference_mode():
        states = torch.stack(model(**arguments).hidden_states, dim=1)
    weights = mask[:, None, :, None].float()
    return ((states * weights).sum(2) / weights.sum(2)).numpy()


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_are_the_masked_means_of_the_hidden_states(family):
    rows = encoder(family).encode(TEXTS, "prh")
    sides = ["right", "left"] if family in ("gpt2", "llama", "gemma3", "qwen2") else ["right"]
    for side in sides:
        np.testing.assert_allclose(rows, padded_twin(family, TEXTS, side), atol=3e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_layer_names(family):
    made = encoder(family)
    blocks = ("block.0", "block.1", "block.2")
    if family in ("bert", "roberta", "distilbert"):  # they norm inside each block
        assert made.layers == made.published_layers == ("embed", *blocks)
        assert made.last == "block.2"
    else:
        assert made.layers == ("embed", *blocks, "final_norm")
        assert made.published_layers == ("embed", "block.0", "block.1", "final_norm")
        assert made.last == "final_norm"
        before, after = made.encode(TEXTS, "block.2"), made.encode(TEXTS)
        assert np.abs(before - after).max() > 1e-2
    assert made.width == 32
    assert made.encode(TEXTS, "all").shape == (len(TEXTS), len(made.layers), 32)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_row_depends_neither_on_its_batch_nor_on_the_padding_side(family):
    limited = [*TEXTS, LONG]
    together = encoder(family).encode(limited, "all")
    for index, text in enumerate(limited):
        alone = encoder(family).encode([text], "all")[0]
        np.testing.assert_allclose(alone, together[index], atol=2e-6)
    for batch in (1, 2, 100):
        np.testing.assert_allclose(encoder(family, batch=batch).encode(limited, "all"), together, atol=2e-6)
    shuffled = encoder(family).encode(limited[::-1], "all")
    np.testing.assert_allclose(shuffled[::-1], together, atol=2e-6)
    left = LanguageModel(network(family), tokenizer(family, "left"), "hf:left").encode(limited, "all")
    np.testing.assert_array_equal(left, together)


def test_pools():
    model, words = network("gpt2"), tokenizer("gpt2")
    ids = words(TEXTS[1])["input_ids"]
    with torch.inference_mode():
        hidden = model(torch.tensor([ids])).last_hidden_state[0].numpy()
    expected = {"mean": hidden.mean(0), "content": hidden[1:].mean(0), "first": hidden[0], "last": hidden[-1]}
    for pool, row in expected.items():
        for side in ("left", "right"):
            made = LanguageModel(network("gpt2"), tokenizer("gpt2", side), "hf:x", pool=pool)
            np.testing.assert_allclose(made.encode([*TEXTS, LONG])[1], row, atol=2e-6)
    fingerprints = {encoder("gpt2", pool=pool).fingerprint for pool in expected}
    assert len(fingerprints) == 4
    with pytest.raises(UsageError, match="no pooling 'men'"):
        encoder("gpt2", pool="men")


def test_a_text_of_special_tokens_alone_is_pooled_over_them():
    weights = token_weights(torch.tensor([[1, 1], [1, 0]]), "content")
    assert weights.tolist() == [[0.5, 0.5], [0, 1]]


@pytest.mark.parametrize("family", ["gpt2", "bert", "roberta"])
def test_long_texts_are_cut_and_counted(family):
    made = encoder(family)
    limit = 63 if family == "roberta" else 64  # its first position is behind the padding index
    assert made.limit == limit
    words = limit - (1 if family == "gpt2" else 2)
    fits, too_long = " ".join(["ball"] * words), " ".join(["ball"] * (words + 30))
    assert made.truncated([fits, too_long, "ball"]) == 1
    assert made.truncated([]) == 0
    assert np.isfinite(made.encode([too_long])).all()


def test_no_texts_and_no_tokens():
    assert encoder("bert").encode([]).shape == (0, 32)
    bare = tokenizer("gpt2")
    bare.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A", special_tokens=[])
    with pytest.raises(InputError, match="no tokens"):
        LanguageModel(network("gpt2"), bare, "hf:x").encode(["a", ""])


def test_bfloat16_weights_are_pooled_in_float32():
    """A mean of many equal bfloat16 numbers is that number only if the sum is kept in float32."""
    made = LanguageModel(network("llama").to(torch.bfloat16), tokenizer("llama"), "hf:x")
    rows = made.encode([LONG], "all")
    assert rows.dtype == np.float32
    exact = encoder("llama").encode([LONG], "all")
    assert np.abs(rows - exact).max() < 0.1 * np.abs(exact).max()


@pytest.fixture
def folder(tmp_path):
    network("llama").save_pretrained(tmp_path / "model")
    tokenizer("llama").save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_a_folder_is_loaded_as_saved(folder):
    made = load_encoder(f"hf:{folder}", device="cpu")
    assert (made.name, made.modality) == (f"hf:{folder}", "text")
    np.testing.assert_allclose(made.encode(TEXTS, "all"), encoder("llama").encode(TEXTS, "all"), atol=1e-6)
    assert made.fingerprint == load_encoder(f"hf:{folder}").fingerprint
    last = load_encoder(f"hf:{folder},pool=last")
    assert np.abs(last.encode(TEXTS) - made.encode(TEXTS)).max() > 1e-3


def test_a_causal_model_with_its_head_gives_the_same_rows(tmp_path):
    config = CAUSAL["gpt2"]()
    torch.manual_seed(7)
    whole = transformers.GPT2LMHeadModel(config)
    whole.save_pretrained(tmp_path)
    tokenizer("gpt2").save_pretrained(tmp_path)
    rows = load_encoder(f"hf:{tmp_path}").encode(TEXTS)
    bare = LanguageModel(whole.transformer, tokenizer("gpt2"), "hf:x").encode(TEXTS)
    np.testing.assert_allclose(rows, bare, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"auto_map": {"AutoModel": "evil.Model"}, "model_type": "unheard-of"}, InputError),
        ({"vision_config": {"trust_remote_code": True}}, MissingError),
        ({"text_config": {"deep": {"auto_map": {"AutoModel": "evil.Model"}}}}, MissingError),
        ({"trust_remote_code": True}, MissingError),
    ],
)
def test_a_model_never_runs_code_of_its_own(folder, tmp_path, change, error):
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'canary')!r}, 'w')")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(error):
        load_encoder(f"hf:{folder}")
    assert not (tmp_path / "canary").exists()


def test_harmless_configurations_pass():
    refuse_hidden_code({"auto_map": {"AutoModel": "x"}, "text_config": {"trust_remote_code": False}}, "x")


def test_pickled_or_broken_weights_are_refused(folder):
    weights = folder / "model.safetensors"
    weights.rename(folder / "pytorch_model.bin")
    with pytest.raises(InputError, match="cannot be loaded"):
        load_encoder(f"hf:{folder}")
    weights.write_bytes(b"not safetensors")
    with pytest.raises(InputError, match="cannot be loaded"):
        load_encoder(f"hf:{folder}")


def test_encoder_decoders_are_refused(tmp_path):
    config = transformers.T5Config(vocab_size=40, d_model=16, d_kv=4, num_heads=2, num_layers=1, d_ff=16)
    config.save_pretrained(tmp_path)
    with pytest.raises(UsageError, match="neither a causal nor a masked"):
        load_encoder(f"hf:{tmp_path}")


def test_without_a_hub_the_error_says_what_to_do(monkeypatch):
    def offline(*_, **__):
        raise OSError("We couldn't connect to the hub.\nMore lines.")

    monkeypatch.setattr(transformers.PretrainedConfig, "get_config_dict", offline)
    with pytest.raises(MissingError, match="couldn't connect to the hub") as error:
        load_encoder("hf:someone/model@abc")
    assert error.value.hint.endswith("hf download someone/model")
    assert error.value.exit_code == 4


def test_without_blocks_there_is_one_layer(monkeypatch):
    monkeypatch.setattr(hub, "find_blocks", lambda network: [])
    made = encoder("bert")
    assert made.layers == ("output",)
    np.testing.assert_allclose(made.encode(TEXTS), encoder("bert").encode(TEXTS), atol=1e-6)


def test_sentence_transformers(tmp_path):
    library = pytest.importorskip("sentence_transformers")
    network("bert").save_pretrained(tmp_path / "bert")
    tokenizer("bert").save_pretrained(tmp_path / "bert")
    parts = pytest.importorskip("sentence_transformers.models")
    word = parts.Transformer(str(tmp_path / "bert"), max_seq_length=16)
    model = library.SentenceTransformer(modules=[word, parts.Pooling(32)], device="cpu")
    model.save(str(tmp_path / "st"))
    made = load_encoder(f"st:{tmp_path / 'st'}", device="cpu")
    assert (made.width, made.modality, made.caution) == (32, "text", "")
    assert made.truncated([LONG, "ball"]) == 1
    together = made.encode([*TEXTS, LONG])
    np.testing.assert_allclose(together, model.encode([*TEXTS, LONG]), atol=1e-6)
    np.testing.assert_allclose(made.encode(["ball"])[0], together[2], atol=2e-6)
    np.testing.assert_allclose(together[:6], encoder("bert").encode(TEXTS), atol=2e-6)
    assert made.encode([]).shape == (0, 32)
