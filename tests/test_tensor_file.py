"""Our writer and reader of safetensors against the safetensors package."""

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from coview.errors import InputError
from coview.tensor_file import open_tensors, write_blocks, write_tensors

TENSORS = {
    "words": np.frombuffer("größe".encode(), dtype=np.uint8),  # of odd length, before numbers of eight bytes
    "rows": np.arange(12.0).reshape(3, 4),
    "half": np.arange(3, dtype=np.float16),
    "nothing": np.empty((0, 4), dtype=np.float32),
}


def test_the_package_reads_what_we_write(tmp_path):
    write_tensors(tmp_path / "a.safetensors", TENSORS, {"schema": "x/1"})
    for name, value in load_file(tmp_path / "a.safetensors").items():
        np.testing.assert_array_equal(value, TENSORS[name])


def test_we_read_what_the_package_writes_without_reading_it_all(tmp_path):
    save_file(TENSORS, tmp_path / "b.safetensors", metadata={"schema": "x/1"})
    file = open_tensors(tmp_path / "b.safetensors")
    assert file.metadata == {"schema": "x/1"}
    assert file.shapes == {name: value.shape for name, value in TENSORS.items()}
    for name, value in TENSORS.items():
        np.testing.assert_array_equal(file.tensor(name), value)
    assert isinstance(file.tensor("rows"), np.memmap)


def test_blocks_make_the_same_file_as_whole_tensors(tmp_path):
    write_tensors(tmp_path / "whole.safetensors", TENSORS, {})
    described = {name: (value.dtype, value.shape) for name, value in TENSORS.items()}
    rows = TENSORS["rows"]
    blocks = [TENSORS["words"], rows[:1], rows[1:], TENSORS["half"], TENSORS["nothing"]]
    write_blocks(tmp_path / "blocks.safetensors", described, blocks, {})
    assert (tmp_path / "blocks.safetensors").read_bytes() == (tmp_path / "whole.safetensors").read_bytes()


def test_what_is_not_there_or_not_readable_is_said(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        open_tensors(tmp_path / "none.safetensors")
    (tmp_path / "words.safetensors").write_text("not at all a file of tensors")
    with pytest.raises(InputError, match="safetensors file"):
        open_tensors(tmp_path / "words.safetensors")
    save_file({"numbers": np.arange(3)}, tmp_path / "integers.safetensors")
    file = open_tensors(tmp_path / "integers.safetensors")
    for name in ("numbers", "other"):
        with pytest.raises(InputError, match="no readable description"):
            file.tensor(name)
