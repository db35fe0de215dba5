"""The schedule is a function of the step, and AdamW decays matrices alone."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from coview.config import TrainConfig
from coview.training.optim import learning_rate, make_optimizer, set_learning_rate


def rates(**more) -> list[float]:
    config = TrainConfig(**more)
    return [learning_rate(config, step) for step in range(config.steps)]


def test_a_line_up_and_a_cosine_down():
    rate = rates(steps=101, warmup=10, learning_rate=2.0)
    cosine = [0.01 + 0.99 * (1 + math.cos(math.pi * step / 100)) / 2 for step in range(101)]
    assert rate == pytest.approx([2 * min(1, (step + 1) / 10) * cosine[step] for step in range(101)])
    assert rate[100] == pytest.approx(0.02)
    assert max(rate) == rate[9]


@given(steps=st.integers(1, 300), share=st.floats(0, 0.5))
def test_rates_are_positive_and_rise_before_they_fall(steps, share):
    rate = rates(steps=steps, warmup=int(share * steps), learning_rate=1e-3)
    assert all(0 < value <= 1e-3 for value in rate)
    top = rate.index(max(rate))
    assert rate[: top + 1] == sorted(rate[: top + 1])
    assert rate[top:] == sorted(rate[top:], reverse=True)


def test_one_step_is_taken_in_full_without_warm_up():
    assert rates(steps=1, warmup=0, learning_rate=0.5) == [0.5]


def test_weight_decay_shrinks_matrices_and_nothing_else():
    model = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3))
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    optimizer = make_optimizer(model, TrainConfig(weight_decay=0.1))
    set_learning_rate(optimizer, 0.5)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, value in model.named_parameters():
        shrunk = 1 - 0.5 * 0.1 if name == "0.weight" else 1.0
        torch.testing.assert_close(value.detach(), before[name] * shrunk)


def test_the_rate_that_is_set_is_the_rate_that_is_used():
    model = nn.Linear(2, 1, bias=False)
    optimizer = make_optimizer(model, TrainConfig(weight_decay=0.0))
    before = model.weight.detach().clone()
    set_learning_rate(optimizer, 0.25)
    model.weight.grad = torch.tensor([[3.0, -0.1]])
    optimizer.step()  # Adam's first step is the rate along the gradient's sign
    torch.testing.assert_close(model.weight.detach(), before - torch.tensor([[0.25, -0.25]]))


def test_a_parameter_without_gradient_stays_as_it_is():
    """The linear map of a next-token run is not trained, and must not decay either."""
    model = nn.Linear(3, 2)
    before = model.weight.detach().clone()
    make_optimizer(model, TrainConfig(weight_decay=0.5)).step()
    assert torch.equal(model.weight, before)
