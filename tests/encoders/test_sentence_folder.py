"""What is exported gives coview's embeddings, read by Hugging Face's libraries with no code of ours."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from coview.data.tokens import train_tokenizer
from coview.encoders.sentence_folder import LinearRead, export_text_encoder, fold
from coview.encoders.text import TextEncoder, TextEncoderConfig
from coview.encoders.trained import TrainedTextEncoder
from coview.errors import InputError, UsageError
from coview.joining.apply import apply_rotation
from coview.joining.procrustes import fit_rotation

transformers = pytest.importorskip("transformers")

WORDS = "a red blue green ball cube cone on under the table near it small large"
TEXTS = ["a red ball", "The BLUE cube, on a table!", "", "cone?", "red ball " * 20, "größe [SEP] ball"]
MANY = [f"{a} {b} {c}" for a in WORDS.split() for b in WORDS.split()[:5] for c in ("ball", "cube")]


def encoder_of(output: int = 6, *, causal: bool = False) -> TrainedTextEncoder:
    tokenizer = train_tokenizer(lambda: [WORDS, *TEXTS], 80)
    torch.manual_seed(3)
    config = TextEncoderConfig(
        vocabulary=tokenizer.get_vocab_size(), layers=2, width=16, heads=2, max_length=12, output=output
    )
    model = TextEncoder(config)
    with torch.no_grad():  # far from its initialisation, so that every part counts
        for value in model.parameters():
            value.add_(0.3 * torch.randn_like(value))
    return TrainedTextEncoder(model, tokenizer, name="run:toy", causal=causal)


def rotation_of(encoder: TrainedTextEncoder, layer: str = "head", *, side: str = "x", method="procrustes"):
    """A map between the encoder's rows, which do not lie about zero, and a space of nine dimensions."""
    rows = encoder.encode(MANY, layer)
    rng = np.random.default_rng(0)
    other = (rows @ rng.normal(size=(rows.shape[1], 9)) + 3).astype(np.float32)
    made = {"model": encoder.name, "fingerprint": encoder.fingerprint, "layers": [layer]}
    if side == "x":
        return fit_rotation(rows, other, method=method, made_by=(made, {}))
    return fit_rotation(other, rows, method=method, made_by=({}, made))


def read_by_transformers(folder, texts) -> np.ndarray:
    """What sentence-transformers does with the folder, step by step."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    bert, report = transformers.AutoModel.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    limit = json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"]
    tokens = tokenizer(texts, padding=True, truncation=True, max_length=limit, return_tensors="pt")
    with torch.inference_mode():
        hidden = bert.eval()(**tokens).last_hidden_state
    mask = tokens["attention_mask"][:, :, None].float()
    rows = (hidden * mask).sum(dim=1) / mask.sum(dim=1)
    for module in json.loads((folder / "modules.json").read_text())[2:]:
        if module["type"].endswith("Dense"):
            weights = load_file(folder / module["path"] / "model.safetensors")
            rows = rows @ weights["linear.weight"].T + weights.get("linear.bias", 0.0)
        else:
            rows = torch.nn.functional.normalize(rows)
    return rows.numpy()


@pytest.mark.parametrize("causal", [False, True])
def test_an_encoder_as_it_is(tmp_path, causal):
    encoder = encoder_of(causal=causal)
    facts = export_text_encoder(encoder, tmp_path / "out")
    assert (facts["width"], facts["bias"], facts["layer"]) == (6, True, "head")
    np.testing.assert_allclose(
        read_by_transformers(tmp_path / "out", TEXTS), encoder.encode(TEXTS), atol=1e-5
    )


@pytest.mark.parametrize("layer", ["head", "block.1", "block.0", "embed"])
@pytest.mark.parametrize("method", ["procrustes", "whitened", "ridge"])
def test_an_encoder_in_another_space_needs_no_bias(tmp_path, layer, method):
    encoder = encoder_of()
    rotation = rotation_of(encoder, layer, method=method)
    facts = export_text_encoder(encoder, tmp_path / "out", rotation)
    assert (facts["width"], facts["layer"], facts["bias"], facts["notes"]) == (9, layer, False, [])
    dense = load_file(tmp_path / "out" / "2_Dense" / "model.safetensors")
    assert list(dense) == ["linear.weight"]
    expected = rotation.map(encoder.encode(TEXTS, layer))
    np.testing.assert_allclose(read_by_transformers(tmp_path / "out", TEXTS), expected, atol=1e-5)


@pytest.mark.parametrize("named", [True, False])
def test_an_encoder_that_is_the_target_of_a_map(tmp_path, named):
    encoder = encoder_of()
    rotation = rotation_of(encoder, side="y")
    if not named:  # widths tell which side the texts are
        rotation.manifest["y"]["encoder"] = None
    facts = export_text_encoder(encoder, tmp_path / "out", rotation)
    assert (facts["side"], len(facts["notes"])) == ("y", 0 if named else 1)
    expected = rotation.target(encoder.encode(TEXTS))
    np.testing.assert_allclose(read_by_transformers(tmp_path / "out", TEXTS), expected, atol=1e-5)


def test_texts_are_compared_with_images_that_a_map_leads_to_them(tmp_path):
    """The README's map leads from images to texts: what it writes of images, exported texts find."""
    encoder = encoder_of()
    rows = encoder.encode(MANY)
    images = (rows @ np.random.default_rng(0).normal(size=(6, 9)) + 3).astype(np.float32)
    made = {"model": encoder.name, "fingerprint": encoder.fingerprint, "layers": ["head"]}
    rotation = fit_rotation(images, rows, method="ridge", made_by=({}, made))
    np.save(tmp_path / "images.npy", images)
    apply_rotation(rotation, tmp_path / "images.npy", tmp_path / "mapped.npy")
    export_text_encoder(encoder, tmp_path / "out", rotation)
    cosines = read_by_transformers(tmp_path / "out", MANY) @ np.load(tmp_path / "mapped.npy").T
    assert (cosines.argmax(axis=1) == np.arange(len(MANY))).mean() > 0.8


def test_a_constant_out_of_reach_keeps_a_bias(tmp_path):
    encoder = encoder_of(output=24)  # wider than the hidden states: a plane that need not contain the mean
    rotation = rotation_of(encoder)
    facts = export_text_encoder(encoder, tmp_path / "out", rotation)
    expected = rotation.map(encoder.encode(TEXTS))
    np.testing.assert_allclose(read_by_transformers(tmp_path / "out", TEXTS), expected, atol=1e-5)
    assert facts["bias"] == ("linear.bias" in load_file(tmp_path / "out" / "2_Dense" / "model.safetensors"))
    shift = torch.zeros(2)
    assert fold(LinearRead(np.array([[1.0, 0], [0, 0]]), np.array([0, 1.0]), unit=True), shift) is None
    reached = fold(LinearRead(np.array([[2.0, 0], [0, 4]]), np.array([1, 1.0]), unit=True), shift)
    assert reached.tolist() == [0.5, 0.25]


def test_a_rotation_of_another_run_is_refused_and_an_unknown_one_noted(tmp_path):
    encoder, other = encoder_of(), encoder_of(output=7)
    with pytest.raises(InputError, match="the rotation joins run:toy with None, not run:toy"):
        export_text_encoder(other, tmp_path / "out", rotation_of(encoder))
    rows = encoder.encode(MANY)
    unnamed = fit_rotation(rows, rows)
    assert "not verified" in export_text_encoder(encoder, tmp_path / "out", unnamed)["notes"][0]
    with pytest.raises(InputError, match="joins rows of 6 and 6 numbers, the run gives 7"):
        export_text_encoder(other, tmp_path / "other", unnamed)
    with pytest.raises(UsageError, match="exists already"):
        export_text_encoder(encoder, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_nothing_is_pickled_and_no_code_is_named(tmp_path):
    export_text_encoder(encoder_of(), tmp_path / "out", rotation_of(encoder_of()))
    suffixes = {path.suffix for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert suffixes == {".json", ".safetensors", ".md"}
    assert "auto_map" not in (tmp_path / "out" / "config.json").read_text()


def test_sentence_transformers_loads_it(tmp_path):
    library = pytest.importorskip("sentence_transformers")
    encoder = encoder_of()
    rotation = rotation_of(encoder)
    export_text_encoder(encoder, tmp_path / "out", rotation)
    model = library.SentenceTransformer(str(tmp_path / "out"), device="cpu")
    expected = rotation.map(encoder.encode(TEXTS))
    np.testing.assert_allclose(model.encode(TEXTS), expected, atol=1e-5)
    np.testing.assert_allclose(model.encode(TEXTS[:1]), expected[:1], atol=1e-5)
