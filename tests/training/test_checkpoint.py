"""A checkpoint holds all there is to resume, is whole or the old one, and opens nothing but safetensors."""

import errno
import pickle

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import nn

from coview.config import TrainConfig
from coview.errors import InputError, ResourceError, UsageError
from coview.training import checkpoint
from coview.training.checkpoint import NAME, Checkpoint, load_checkpoint, read_checkpoint, save_checkpoint
from coview.training.optim import make_optimizer

MARK = Checkpoint(step=3, config="c" * 16, data="d" * 16)


def make(seed: int):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    model[2].requires_grad_(False)  # a part that is not trained has no state
    return model, make_optimizer(model, TrainConfig())


def train(model, optimizer, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(3):
        model(torch.randn(5, 3, generator=generator)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def test_what_is_saved_goes_on_as_if_nothing_had_happened(tmp_path):
    model, optimizer = make(0)
    train(model, optimizer, 1)
    save_checkpoint(tmp_path, model, optimizer, MARK)
    assert read_checkpoint(tmp_path) == MARK

    resumed, other = make(7)
    assert load_checkpoint(tmp_path, resumed, other, MARK) == 3
    train(model, optimizer, 2)
    train(resumed, other, 2)
    for name, value in model.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


def test_where_there_is_none_nothing_happens(tmp_path):
    model, optimizer = make(0)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert read_checkpoint(tmp_path) is None
    assert load_checkpoint(tmp_path, model, optimizer, MARK) == 0
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(("key", "words"), [("config", "the configuration"), ("data", "the training data")])
def test_another_configuration_or_data_is_refused(tmp_path, key, words):
    model, optimizer = make(0)
    save_checkpoint(tmp_path, model, optimizer, MARK)
    changed = Checkpoint(**vars(MARK) | {key: "x" * 16})
    with pytest.raises(UsageError, match=f"{words} is not the one this run was started with"):
        load_checkpoint(tmp_path, model, optimizer, changed)


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("the pickle was opened",))


def test_a_pickle_is_refused(tmp_path):
    model, optimizer = make(0)
    (tmp_path / NAME).write_bytes(pickle.dumps({"model": Trap()}))
    with pytest.raises(InputError, match="pickles least of all"):
        load_checkpoint(tmp_path, model, optimizer, MARK)
    torch.save({"model": Trap()}, tmp_path / NAME)
    with pytest.raises(InputError, match="pickles least of all"):
        load_checkpoint(tmp_path, model, optimizer, MARK)


def test_a_file_cut_short_and_other_tensors_are_refused(tmp_path):
    model, optimizer = make(0)
    save_checkpoint(tmp_path, model, optimizer, MARK)
    whole = (tmp_path / NAME).read_bytes()
    for length in (0, 7, 200, len(whole) - 1):
        (tmp_path / NAME).write_bytes(whole[:length])
        with pytest.raises(InputError, match="not a whole safetensors file"):
            read_checkpoint(tmp_path)
    save_file({"a": torch.zeros(2)}, tmp_path / NAME)
    with pytest.raises(InputError, match="is no checkpoint"):
        read_checkpoint(tmp_path)


FULL = SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")


@pytest.mark.parametrize("where", ["save_file", "replace"])
def test_a_full_disk_keeps_the_old_checkpoint(tmp_path, monkeypatch, where):
    model, optimizer = make(0)
    save_checkpoint(tmp_path, model, optimizer, MARK)
    before = (tmp_path / NAME).read_bytes()

    def full(*arguments, **options):
        raise FULL if where == "save_file" else OSError(errno.ENOSPC, "No space left on device")

    if where == "save_file":
        monkeypatch.setattr(checkpoint, "save_file", full)
    else:
        monkeypatch.setattr("os.replace", full)
    with pytest.raises(ResourceError, match=r"disk is full; checkpoint.safetensors was not written"):
        save_checkpoint(tmp_path, model, optimizer, Checkpoint(5, MARK.config, MARK.data))
    assert [path.name for path in tmp_path.iterdir()] == [NAME]
    assert (tmp_path / NAME).read_bytes() == before


def test_a_read_only_folder_is_a_clear_error(tmp_path, monkeypatch):
    def refuse(*arguments, **options):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    with pytest.raises(UsageError, match=r"cannot be written \(Permission denied\)"):
        save_checkpoint(tmp_path, *make(0), MARK)
