"""Rows that others made, found by scene id or image name."""

import numpy as np
import pytest

from coview.embeddings import load_embeddings
from coview.encoders.precomputed import is_embedding_file, pick_rows
from coview.errors import InputError

ROWS = np.random.default_rng(0).standard_normal((601, 5)).astype(np.float16)


@pytest.mark.parametrize("form", ["s{}", "folder/{}.png", None, "{}"])
def test_rows_are_found_by_any_of_their_names(images, tmp_path, form):
    order = np.random.default_rng(1).permutation(600)
    call = (form or "s{}").replace("{}", "{0}")
    called = [call.format(place) for place in order]
    np.save(tmp_path / "rows.npy", ROWS)
    names = tmp_path / ("names.txt" if form else "rows.ids.txt")
    names.write_text("\n".join([*called, "one more"]) + "\n")
    done = pick_rows(
        images, tmp_path / "rows.npy", tmp_path / "out.safetensors", names=names if form else None
    )
    found = load_embeddings(tmp_path / "out.safetensors")
    assert found.ids == tuple(f"s{i}" for i in range(600))
    np.testing.assert_array_equal(found.matrix, ROWS[np.argsort(order)])
    assert done.shape == (600, 5)
    assert found.manifest["model"] == str(tmp_path / "rows.npy")
    assert found.manifest["fingerprint"]


def test_texts_are_found_by_their_slot(texts, tmp_path):
    ids = [f"s{scene}#{slot}" for slot in (1, 0) for scene in range(350)]
    np.save(tmp_path / "rows.npy", np.arange(1400.0).reshape(700, 2))
    (tmp_path / "rows.ids.txt").write_text("\n".join(ids))
    pick_rows(texts, tmp_path / "rows.npy", tmp_path / "out.safetensors", modality="text")
    found = load_embeddings(tmp_path / "out.safetensors")
    assert found.matrix[0].tolist() == [700, 701]
    assert found.scenes[:2] == ("s0", "s0")


def test_missing_rows_and_names(images, tmp_path):
    out = tmp_path / "out.safetensors"
    np.save(tmp_path / "rows.npy", ROWS[:2])
    with pytest.raises(InputError, match="have no names") as error:
        pick_rows(images, tmp_path / "rows.npy", out)
    assert "--ids" in error.value.hint
    names = tmp_path / "names.txt"
    names.write_text("s0\ns7\ns9\n")
    with pytest.raises(InputError, match="3 names for 2 rows"):
        pick_rows(images, tmp_path / "rows.npy", out, names=names)
    names.write_text("s0\ns7\n")
    with pytest.raises(InputError, match="598 of 600 rows are not in it: 's1', 's2', 's3'") as error:
        pick_rows(images, tmp_path / "rows.npy", out, names=names)
    assert "'s0', 's7'" in error.value.hint
    with pytest.raises(InputError, match="cannot be read"):
        pick_rows(images, tmp_path / "rows.npy", out, names=tmp_path / "none.txt")
    assert not out.exists()


def test_what_counts_as_a_file():
    assert is_embedding_file("a/b.npy")
    assert is_embedding_file("c.safetensors")
    assert not is_embedding_file("lite2:")
    assert not is_embedding_file("hf:weights.safetensors")
