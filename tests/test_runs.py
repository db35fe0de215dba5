"""Files appear whole or not at all, and what the system says about a disk is said in our words."""

import errno
import json
import os

import numpy as np
import pytest
from safetensors import SafetensorError

from coview.embeddings import Embeddings, load_embeddings, save_embeddings
from coview.errors import InputError, ResourceError, UsageError
from coview.runs import (
    atomic_path,
    hash_bytes,
    hash_file,
    hash_json,
    manifest,
    read_json,
    write_json,
    writing,
)


def test_a_file_appears_whole_and_readable_by_all(tmp_path):
    target = tmp_path / "new" / "a.json"
    write_json(target, {"ä": [1, 2]})
    assert read_json(target) == {"ä": [1, 2]}
    assert target.stat().st_mode & 0o777 == 0o644
    assert [path.name for path in target.parent.iterdir()] == ["a.json"]


def test_a_failure_keeps_the_old_file_and_leaves_nothing_else(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")

    def fail() -> None:
        with atomic_path(target) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


FULL = {
    "the system": OSError(errno.ENOSPC, "No space left on device"),
    "a quota": OSError(errno.EDQUOT, "Disk quota exceeded"),
    "safetensors": SafetensorError(
        "Error while serializing: I/O error: No space left on device (os error 28)"
    ),
    "numpy": OSError("1000000 requested and 131056 written"),
}


@pytest.mark.parametrize("who", FULL)
def test_a_full_disk_whoever_says_so(tmp_path, who):
    with (
        pytest.raises(ResourceError, match=r"the disk is full; a.npy was not written"),
        writing(tmp_path / "a.npy"),
    ):
        raise FULL[who]


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOTDIR, errno.EEXIST])
def test_a_place_that_cannot_be_written(tmp_path, number):
    words = r"a.npy: cannot be written \(.*\). Choose another place"
    with pytest.raises(UsageError, match=words), writing(tmp_path / "a.npy"):
        raise OSError(number, os.strerror(number))


@pytest.mark.parametrize("error", [ValueError("other"), OSError(errno.EIO, "I/O error"), InputError("ours")])
def test_other_errors_pass_as_they_are(tmp_path, error):
    with pytest.raises(type(error)) as caught, writing(tmp_path / "a"):
        raise error
    assert caught.value is error


def test_a_folder_inside_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    for target in ("a.json", "deep/a.json"):
        with pytest.raises(
            UsageError, match=r"file: it is a file, and a.json needs a folder. Choose another"
        ):
            write_json(tmp_path / "file" / target, {})


def test_a_folder_that_cannot_be_made(tmp_path):
    """In /proc the system says that the folder to be made is not there."""
    target = tmp_path / "run" / "config.json"
    with pytest.raises(UsageError, match="cannot be written"), writing(target):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(target.parent))
    with pytest.raises(FileNotFoundError), writing(target):
        (tmp_path / "something else").read_text()


def test_embeddings_on_a_full_disk_keep_the_old_ones(tmp_path, monkeypatch):
    target = tmp_path / "rows.safetensors"
    save_embeddings(target, Embeddings(np.ones((3, 2), np.float32)))

    def full(*arguments):
        raise FULL["the system"]

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(ResourceError, match="the disk is full"):
        save_embeddings(target, Embeddings(np.zeros((3, 2), np.float32)))
    assert load_embeddings(target).matrix.tolist() == [[1, 1]] * 3
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"a": 1,\n', r"a.json line 2: not valid JSON"),
        (b"[1]", "expected one JSON object"),
        (b'{"a": "\xff"}', "it is not UTF-8"),
        (None, "there is no such file"),
    ],
)
def test_json_that_cannot_be_read(tmp_path, content, words):
    if content is not None:
        (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_json(tmp_path / "a.json")


def test_hashes(tmp_path):
    (tmp_path / "a").write_bytes(b"abcdef")
    assert hash_file(tmp_path / "a") == hash_bytes(b"abc", b"def") != hash_bytes(b"abc")
    assert hash_json({"a": 1, "b": [2]}) == hash_json({"b": [2], "a": 1}) != hash_json({"a": 1, "b": [3]})


def test_a_manifest_says_what_made_it():
    made = manifest(kind="test", seed=3)
    assert {"made", "command", "versions", "kind", "seed"} == made.keys()
    assert {"python", "coview", "numpy", "torch"} == made["versions"].keys()
    json.dumps(made)
