"""What all encoders share: layers by name, batches, crops, hashes."""

import numpy as np
import pytest
import torch
from doubles import Counting
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import nn

from coview.encoders.encoder import batched, centre_square, hash_weights, pick_device, recording
from coview.errors import MissingError, UsageError


def test_layers_are_chosen_by_word_or_by_name():
    encoder = Counting()
    assert encoder.select("last") == ("late",)
    assert encoder.select("all") == ("early", "late")
    assert encoder.select("prh") == ("early",)
    assert encoder.select("late,early") == ("late", "early")
    assert [encoder.stacked(word) for word in ("last", "late", "all", "prh", "late,early")] == [0, 0, 1, 1, 1]
    with pytest.raises(UsageError, match="no layer 'lates'"):
        encoder.select("early,lates")


@given(st.lists(st.integers()), st.integers(1, 10))
def test_batches_hold_everything_in_order(items, size):
    batches = list(batched(iter(items), size))
    assert [item for batch in batches for item in batch] == items
    assert all(len(batch) == size for batch in batches[:-1])


@given(st.integers(1, 90), st.integers(1, 90), st.integers(1, 40))
def test_centre_square_is_square(width, height, pixels):
    cut = centre_square(Image.new("L", (width, height)), pixels)
    assert cut.size == (pixels, pixels)
    assert cut.mode == "RGB"


def test_centre_square_keeps_the_centre():
    image = np.zeros((10, 30, 3), np.uint8)
    image[:, 10:20] = 200
    np.testing.assert_array_equal(np.asarray(centre_square(Image.fromarray(image), 10)), 200)
    np.testing.assert_array_equal(np.asarray(centre_square(Image.fromarray(image[:, 10:20]), 10)), 200)


def test_hash_weights_sees_every_weight_and_fact():
    def network(value: float = 0.0):
        torch.manual_seed(1)
        made = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
        made[1].running_mean[2] = value
        return made

    same = hash_weights(network(), "mean")
    assert hash_weights(network(), "mean") == same
    assert hash_weights(network(), "last") != same
    assert hash_weights(network(1e-7), "mean") != same
    assert hash_weights(network().to(torch.bfloat16), "mean") != same


def test_recording_pools_each_block_and_leaves_no_hook():
    blocks = [nn.Linear(2, 2) for _ in range(3)]
    network = nn.Sequential(*blocks)
    x = torch.randn(4, 5, 2)
    with recording(blocks, lambda hidden: hidden.mean(1)) as rows:
        network(x)
    torch.testing.assert_close(rows["embed"], x.mean(1))
    torch.testing.assert_close(rows["block.0"], blocks[0](x).mean(1))
    torch.testing.assert_close(rows["block.2"], network(x).mean(1))
    assert list(rows) == ["embed", "block.0", "block.1", "block.2"]
    assert not any(block._forward_hooks or block._forward_pre_hooks for block in blocks)


def test_pick_device(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pick_device("auto") == pick_device("cpu") == "cpu"
    with pytest.raises(MissingError, match="no GPU"):
        pick_device("cuda")
    with pytest.raises(UsageError, match="no device 'gpu'"):
        pick_device("gpu")
