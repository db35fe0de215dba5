import pytest
import torch
import torch.nn.functional as F

from coview.errors import UsageError
from coview.training import tied_head
from coview.training.tied_head import tied_cross_entropy


def arrays(tokens: int, types: int, width: int, dtype=torch.float64):
    generator = torch.Generator().manual_seed(3)
    hidden = torch.randn(tokens, width, generator=generator, dtype=dtype, requires_grad=True)
    words = torch.randn(types, width, generator=generator, dtype=dtype, requires_grad=True)
    return hidden, words, torch.randint(types, (tokens,), generator=generator)


@pytest.mark.parametrize("tokens", [1, 255, 256, 257, 600])
def test_equals_plain_autograd_in_value_and_gradient(tokens):
    hidden, words, targets = arrays(tokens, types=40, width=8)
    fast = tied_cross_entropy(hidden, words, targets)
    slow = F.cross_entropy(hidden @ words.T, targets, reduction="sum")
    torch.testing.assert_close(fast, slow, rtol=1e-12, atol=0)
    for found, expected in zip(
        torch.autograd.grad(3 * fast, (hidden, words)),
        torch.autograd.grad(3 * slow, (hidden, words)),
        strict=True,
    ):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def test_the_block_changes_nothing_but_rounding(monkeypatch):
    hidden, words, targets = arrays(100, types=30, width=8)
    whole = tied_cross_entropy(hidden, words, targets)
    monkeypatch.setattr(tied_head, "BLOCK", 7)
    torch.testing.assert_close(tied_cross_entropy(hidden, words, targets), whole, rtol=1e-12, atol=0)


def test_large_scores_do_not_overflow():
    hidden, words, targets = arrays(10, types=5, width=4, dtype=torch.float32)
    loss = tied_cross_entropy(hidden * 1e4, words, targets)
    assert torch.isfinite(loss)


def test_bfloat16_products_stay_near():
    hidden, words, targets = arrays(64, types=50, width=32, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = tied_cross_entropy(hidden / 6, words, targets)
    assert low.item() == pytest.approx(tied_cross_entropy(hidden / 6, words, targets).item(), rel=5e-3)


def test_second_derivatives_are_refused():
    hidden, words, targets = arrays(4, types=5, width=3)
    with pytest.raises(UsageError, match="once"):
        torch.autograd.grad(tied_cross_entropy(hidden, words, targets), hidden, create_graph=True)
