"""The three text arms: what they read, and what they minimise, against twins that fill up with zeros."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from coview.data.tokens import FIRST, LAST, MASK, TokenStore
from coview.data.views import draw_views
from coview.encoders.text import pack
from coview.errors import InputError, UsageError
from coview.training.objectives import effective_rank
from coview.training.sigreg import gaussian_floor
from coview.training.text_task import TextTask, shifted

CPU = torch.device("cpu")


def test_next_token_targets_never_cross_texts():
    texts = [np.array([2, 11, 12, 3]), np.array([2, 3]), np.array([2, 21, 22, 3]), np.array([7])]
    tokens = pack(texts)
    seen, targets = shifted(tokens)
    pairs = list(zip(tokens.ids[seen].tolist(), targets.tolist(), strict=True))
    expected = [(2, 3), *zip(texts[0][:-1], texts[0][1:], strict=True), (2, 21), (21, 22), (22, 3)]
    assert pairs == [(int(one), int(other)) for one, other in expected]


def test_next_token_loss_and_gradient_equal_a_padded_twin(store, tiny):
    config = tiny(views="next-token", views_per_scene=3)
    task, twin = TextTask(config, store, CPU), TextTask(config, store, CPU)
    loss = task.step(4).loss.total
    loss.backward()

    texts = draw_views(store, twin.scenes, "next-token", views=3, batch=8, seed=0, step=4)
    hidden = torch.zeros(len(texts), 16, twin.model.config.width)
    targets = torch.full((len(texts), 16), -100)
    for row, text in enumerate(texts):
        hidden[row, : len(text)] = twin.model(pack([text]), causal=True)
        targets[row, : len(text) - 1] = torch.as_tensor(text[1:].astype(np.int64))
    logits = F.linear(hidden, twin.model.embeddings.word_embeddings.weight)
    expected = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)
    expected.backward()

    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=1e-6)
    theirs = {name: value.grad for name, value in twin.model.named_parameters() if value.grad is not None}
    largest = max(value.abs().max() for value in theirs.values())
    for name, parameter in task.model.named_parameters():
        if name.startswith("head."):
            assert parameter.grad is None  # the word embeddings are the head
        else:
            assert (parameter.grad - theirs[name]).abs().max() < 1e-5 * largest


@pytest.mark.parametrize("views", ["good", "bad"])
@pytest.mark.parametrize("objective", ["lejepa", "vicreg"])
def test_jepa_loss_is_that_of_the_views_one_by_one(store, tiny, views, objective):
    from coview.training.task import jepa_loss

    config = tiny(views=views, objective=objective)
    task = TextTask(config, store, CPU)
    task.prepare()
    outcome = task.step(3)
    texts = draw_views(store, task.scenes, views, views=2, batch=8, seed=0, step=3)
    rows = []
    for text in texts:
        tokens = pack([text])
        rows.append(task.model.head(task.model.pool(task.model(tokens), tokens))[0])
    z = torch.stack(rows).view(2, 8, -1)
    torch.testing.assert_close(outcome.embeddings, z, rtol=0, atol=2e-4)
    torch.testing.assert_close(outcome.loss.total, jepa_loss(z, config, 3).total, rtol=1e-4, atol=1e-5)
    assert outcome.read == sum(map(len, texts))


def test_the_arms_read_the_same_texts_and_start_from_the_same_weights(store, tiny):
    arms = {views: TextTask(tiny(views=views), store, CPU) for views in ("good", "bad", "next-token")}
    good, bad, following = (task.tokens(2) for task in arms.values())
    assert torch.equal(good.ids, following.ids)
    assert (bad.ids == MASK).any()
    assert not (good.ids == MASK).any()
    weights = [task.model.state_dict() for task in arms.values()]
    assert all(torch.equal(weights[0][name], other[name]) for other in weights for name in other)


def test_another_seed_starts_elsewhere_and_reads_something_else(store, tiny):
    one, other = TextTask(tiny(seed=0), store, CPU), TextTask(tiny(seed=1), store, CPU)
    assert not torch.equal(one.tokens(0).ids, other.tokens(0).ids)
    name = "embeddings.word_embeddings.weight"
    assert not torch.equal(one.model.state_dict()[name], other.model.state_dict()[name])


@pytest.mark.parametrize("views", ["good", "bad"])
def test_training_starts_white(store, tiny, views):
    """The first embeddings have mean zero and covariance one, so SIGReg starts near its floor."""
    task = TextTask(tiny(views=views, batch=64, slices=256), store, CPU)
    task.prepare()
    with torch.no_grad():
        outcome = task.step(0)
        sample = task.model.head(task._sample())
    torch.testing.assert_close(torch.cov(sample.T), torch.eye(12), rtol=0, atol=0.05)
    assert sample.mean(0).abs().max() < 1e-3
    if views == "good":  # masks move the embeddings away from those of whole texts, which are white
        assert float(outcome.loss.terms["sigreg"]) < 3 * gaussian_floor()
    assert effective_rank(outcome.embeddings) > 6


def test_next_token_embeddings_are_whitened_at_the_end(store, tiny):
    task = TextTask(tiny(views="next-token"), store, CPU)
    before = task.model.head.weight.clone()
    task.prepare()
    assert torch.equal(task.model.head.weight, before)
    task.finish()
    torch.testing.assert_close(
        torch.cov(task.model.head(task._sample()).detach().T), torch.eye(12), rtol=0, atol=0.05
    )


def of_counts(store: TokenStore, counts: list[int]) -> TokenStore:
    """The same texts grouped into scenes of the given sizes."""
    starts = np.concatenate([[0], np.cumsum(counts)])
    return TokenStore(store.ids, store.offsets[: starts[-1] + 1], starts, store.meta, store.tokenizer)


def test_bad_views_train_on_scenes_of_any_size(store, tiny):
    """Whitening reads unmasked texts: no more of a scene than it has."""
    uneven = of_counts(store, [1, 4, 2, 1, 3, 5, 1, 1])
    task = TextTask(tiny(views="bad", views_per_scene=3), uneven, CPU)
    task.prepare()
    assert torch.isfinite(task.step(0).loss.total)
    # As many rows as batches of one text a scene have: none of a scene that was not drawn.
    assert len(task._sample()) == 128


def test_unmasked_texts_are_of_the_scenes_drawn(store, tiny):
    uneven = of_counts(store, [1, 4, 2, 1, 3, 5, 1, 1])
    task = TextTask(tiny(views="bad", views_per_scene=3), uneven, CPU)
    rows = {tuple(uneven.text(index)) for index in range(uneven.scenes[-1])}
    drawn = task.tokens(0, unmasked=True)
    lengths = [length for count, length in drawn.groups for _ in range(count)]
    assert {tuple(part.tolist()) for part in drawn.ids.split(lengths)} <= rows
    assert len(lengths) == 8
    assert all(part[0] == FIRST and part[-1] == LAST for part in drawn.ids.split(lengths))


def test_too_few_texts_a_scene(store, tiny):
    single = of_counts(store, [1] * 12)
    with pytest.raises(InputError, match=r"no scene has 2 texts \(most: 1\).*train with --views bad"):
        TextTask(tiny(views="good"), single, CPU)
    TextTask(tiny(views="bad"), single, CPU)
    TextTask(tiny(views="next-token", views_per_scene=1), single, CPU)


def test_sizes_that_do_not_fit(store, tiny):
    with pytest.raises(UsageError, match=r"--output: .*encoder's 128.*Use --output 128 or less"):
        TextTask(tiny(output=129), store, CPU)
    with pytest.raises(UsageError, match=r"--batch: .*more than the 80 there are.*--batch 80 or less"):
        TextTask(tiny(batch=81), store, CPU)
    with pytest.raises(InputError, match="only one scene"):
        TextTask(tiny(), of_counts(store, [5]), CPU)
    TextTask(tiny(output=128, batch=80), store, CPU)


def test_bfloat16_is_close_to_float32(store, tiny):
    losses = []
    for precision in ("fp32", "bf16"):
        task = TextTask(tiny(precision=precision), store, CPU)
        task.prepare()
        outcome = task.step(0)
        outcome.loss.total.backward()
        gradient = task.model.embeddings.word_embeddings.weight.grad
        assert gradient.dtype == torch.float32
        losses.append(outcome.loss.total.item())
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)
