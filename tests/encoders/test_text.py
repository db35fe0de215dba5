"""The packed text encoder against slow twins: Hugging Face's BertModel, and masked softmax spelt out."""

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from coview.encoders.text import SIZES, TextEncoder, TextEncoderConfig, pack
from coview.errors import UsageError

CONFIG = TextEncoderConfig(vocabulary=50, layers=2, width=32, heads=4, max_length=16, output=6)
LENGTHS = (5, 3, 16, 5, 2, 9, 3, 3)


def make_texts(lengths=LENGTHS, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(1, CONFIG.vocabulary, length) for length in lengths]  # 0 fills up


def make_model(seed: int = 0, **more) -> TextEncoder:
    """An encoder with weights large enough for every part to show in the output."""
    torch.manual_seed(seed)
    model = TextEncoder(TextEncoderConfig(**vars(CONFIG) | more))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, mean=1.0 if parameter.ndim == 1 else 0.0, std=0.3)
    return model


def padded(texts) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids filled up with zeros, and a mask that is one where there is a token; both (S, L)."""
    longest = max(map(len, texts))
    ids = torch.tensor([[*text, *[0] * (longest - len(text))] for text in texts])
    mask = torch.tensor([[1] * len(text) + [0] * (longest - len(text)) for text in texts])
    return ids, mask


def bert_with_weights_of(model: TextEncoder):
    transformers = pytest.importorskip("transformers")
    config = model.config
    shape = transformers.BertConfig(
        vocab_size=config.vocabulary,
        hidden_size=config.width,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        intermediate_size=4 * config.width,
        max_position_embeddings=config.max_length,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    bert = transformers.BertModel(shape, add_pooling_layer=False)
    weights = {name: value for name, value in model.state_dict().items() if not name.startswith("head.")}
    found = bert.load_state_dict(weights, strict=False)
    assert not found.unexpected_keys
    assert not [name for name in found.missing_keys if "position_ids" not in name]
    return bert


def twin(model: TextEncoder, text: np.ndarray, causal: bool) -> list[torch.Tensor]:
    """Hidden states of one text, layer by layer, each step written out."""

    def norm(x, module):
        centred = x - x.mean(-1, keepdim=True)
        return (
            centred / (centred.square().mean(-1, keepdim=True) + 1e-12).sqrt() * module.weight + module.bias
        )

    def linear(x, module):
        return x @ module.weight.T + module.bias

    tables = model.embeddings
    ids = torch.as_tensor(text)
    x = tables.word_embeddings.weight[ids] + tables.position_embeddings.weight[: len(text)]
    states = [norm(x + tables.token_type_embeddings.weight[0], tables.LayerNorm)]
    width, heads = model.config.width, model.config.heads
    for layer in model.encoder["layer"]:
        x, attention = states[-1], layer.attention["self"]
        mixed = []
        for head in range(heads):
            columns = slice(head * width // heads, (head + 1) * width // heads)
            query, key, value = (
                linear(x, part)[:, columns] for part in (attention.query, attention.key, attention.value)
            )
            scores = query @ key.T / math.sqrt(width // heads)
            if causal:
                scores = scores.masked_fill(torch.ones(len(text), len(text)).triu(1).bool(), -torch.inf)
            mixed.append(scores.softmax(-1) @ value)
        ends = layer.attention["output"]
        x = norm(linear(torch.cat(mixed, 1), ends.dense) + x, ends.LayerNorm)
        inner = linear(x, layer.intermediate["dense"])
        inner = inner * (1 + torch.erf(inner / math.sqrt(2))) / 2
        states.append(norm(linear(inner, layer.output.dense) + x, layer.output.LayerNorm))
    return states


def unpacked(hidden: torch.Tensor, tokens) -> list[torch.Tensor]:
    """Hidden states text by text, in the order the texts were given."""
    lengths = [length for count, length in tokens.groups for _ in range(count)]
    parts = hidden.split(lengths)
    return [parts[place] for place in tokens.order.argsort().tolist()]


def assert_same_gradients(model: TextEncoder, other: torch.nn.Module, tolerance: float) -> None:
    """Up to a share of the largest one (the gradient of a key's bias is zero but for rounding)."""
    theirs = {name: value.grad for name, value in other.named_parameters() if not name.startswith("head.")}
    ours = {name: value.grad for name, value in model.named_parameters() if not name.startswith("head.")}
    assert ours.keys() == theirs.keys()
    largest = max(value.abs().max() for value in theirs.values())
    for name, value in theirs.items():
        difference = (ours[name] - value).abs().max() / largest
        assert difference < tolerance, f"{name}: {difference:.2g}"


def test_equal_to_hugging_face_with_the_same_weights():
    model, texts = make_model(), make_texts()
    bert, tokens = bert_with_weights_of(model), pack(texts)
    ids, mask = padded(texts)
    expected = bert(ids, attention_mask=mask).last_hidden_state
    for row, found in enumerate(unpacked(model(tokens), tokens)):
        torch.testing.assert_close(found, expected[row, : len(found)], rtol=0, atol=1e-5)
    mean = (expected * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    torch.testing.assert_close(model.pool(model(tokens), tokens), mean, rtol=0, atol=1e-5)


def test_gradients_equal_to_hugging_face():
    model, texts = make_model(), make_texts()
    bert, tokens = bert_with_weights_of(model), pack(texts)
    ids, mask = padded(texts)
    target = torch.randn(len(texts), CONFIG.width)
    (model.pool(model(tokens), tokens) * target).sum().backward()
    hidden = bert(ids, attention_mask=mask).last_hidden_state
    ((hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True) * target).sum().backward()
    assert_same_gradients(model, bert, 1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_equal_to_the_twin_in_value_and_gradient(causal):
    model = make_model(seed=1).double()
    slow, texts = copy.deepcopy(model), make_texts(seed=1)
    tokens = pack(texts)
    expected = [twin(slow, text, causal) for text in texts]
    for layer, hidden in enumerate(model.states(tokens, causal=causal)):
        for row, found in enumerate(unpacked(hidden, tokens)):
            torch.testing.assert_close(found, expected[row][layer], rtol=0, atol=1e-9)

    weights = [torch.randn(len(text), CONFIG.width, dtype=torch.float64) for text in texts]
    last = unpacked(model(tokens, causal=causal), tokens)
    sum((hidden * weight).sum() for hidden, weight in zip(last, weights, strict=True)).backward()
    sum((states[-1] * weight).sum() for states, weight in zip(expected, weights, strict=True)).backward()
    assert_same_gradients(model, slow, 1e-10)


def test_causal_states_do_not_see_what_follows():
    model, texts = make_model(), make_texts()
    changed = [text.copy() for text in texts]
    changed[2][10:] = (changed[2][10:] + 1) % CONFIG.vocabulary
    tokens, others = pack(texts), pack(changed)
    before, after = (unpacked(model(packed, causal=True), packed)[2] for packed in (tokens, others))
    assert torch.equal(before[:10], after[:10])
    assert (before[10:] - after[10:]).abs().min(1).values.max() > 1e-3


@given(
    lengths=st.lists(st.integers(1, 16), min_size=1, max_size=12),
    causal=st.booleans(),
)
@settings(max_examples=25)
def test_an_embedding_does_not_depend_on_its_batch(lengths, causal):
    model, texts = make_model(), make_texts(lengths)
    with torch.inference_mode():
        tokens = pack(texts)
        together = model.head(model.pool(model(tokens, causal=causal), tokens))
        for row, text in enumerate(texts):
            alone = pack([text])
            found = model.head(model.pool(model(alone, causal=causal), alone))[0]
            scale = found.abs().max().clamp_min(1.0)
            assert (together[row] - found).abs().max() / scale < 1e-6


@pytest.mark.parametrize("causal", [False, True])
def test_a_neighbour_in_the_pack_does_not_leak(causal):
    """Other words in every other text, of equal length or not: not a bit changes."""
    model, texts = make_model(), make_texts()
    for row in range(len(texts)):
        others = [
            text if place == row else (text + 7) % CONFIG.vocabulary for place, text in enumerate(texts)
        ]
        with torch.inference_mode():
            tokens, changed = pack(texts), pack(others)
            before = model.pool(model(tokens, causal=causal), tokens)[row]
            after = model.pool(model(changed, causal=causal), changed)
        assert torch.equal(before, after[row])
        assert not torch.equal(before, after[row - 1])


@given(st.lists(st.integers(1, 16), min_size=1, max_size=20))
@settings(max_examples=50)
def test_packing_keeps_every_text(lengths):
    texts = make_texts(lengths)
    tokens = pack(texts)
    assert [length for _, length in tokens.groups] == sorted(set(lengths))
    assert tokens.spans == [count * length for count, length in tokens.groups]
    for text, ids, positions in zip(
        texts, unpacked(tokens.ids, tokens), unpacked(tokens.positions, tokens), strict=True
    ):
        assert ids.tolist() == text.tolist()
        assert positions.tolist() == list(range(len(text)))


@given(st.lists(st.integers(1, 16), min_size=1, max_size=20))
@settings(max_examples=50)
def test_pooling_gives_means_in_the_order_of_the_texts(lengths):
    texts = make_texts(lengths)
    tokens = pack(texts)
    hidden = tokens.ids[:, None] * torch.tensor([1.0, 2.0, -1.0])
    expected = torch.tensor([[text.mean(), 2 * text.mean(), -text.mean()] for text in texts])
    torch.testing.assert_close(make_model().pool(hidden, tokens), expected.float())


def test_attention_of_one_token_is_its_own_value():
    model = make_model()
    tokens = pack([np.array([7])])
    block = model.encoder["layer"][0].attention["self"]
    x = model.embeddings(tokens)
    torch.testing.assert_close(block(x, tokens, False), block.value(x))


def test_every_size_can_be_made():
    for size, (layers, width, heads) in SIZES.items():
        config = TextEncoderConfig.of_size(size, 100, output=width)
        assert width % heads == 0
        assert (config.layers, config.width) == (layers, width)
    with torch.device("meta"):
        base = TextEncoder(TextEncoderConfig.of_size("base", 30_522, max_length=512))
    assert round(sum(parameter.numel() for parameter in base.parameters()) / 1e6) == 109


def test_an_unknown_size_is_named():
    with pytest.raises(UsageError, match=r"--size: unknown size 'bse'. Did you mean 'base'"):
        TextEncoderConfig.of_size("bse", 10)


def test_texts_start_out_different():
    """Positions start small, else the first embeddings of all texts look alike."""
    torch.manual_seed(0)
    model, texts = TextEncoder(CONFIG), make_texts([8] * 40)
    tokens = pack(texts)
    with torch.inference_mode():
        rows = F.normalize(model.pool(model(tokens), tokens))
    assert (rows @ rows.T).fill_diagonal_(0).abs().max() < 0.8
