"""Files are mapped block by block, to the same rows as in memory."""

import numpy as np
import pytest

from coview.embeddings import Embeddings, load_embeddings, save_embeddings
from coview.errors import InputError, UsageError
from coview.joining import rotation as rotation_module
from coview.joining.apply import apply_rotation
from coview.joining.procrustes import fit_rotation


@pytest.fixture
def old_and_new(monkeypatch):
    monkeypatch.setattr(rotation_module, "ROWS_AT_ONCE", 7)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 6)).astype(np.float32) + 1
    y = (3 * x @ np.linalg.qr(rng.normal(size=(6, 8)).T)[0].T - 5).astype(np.float32)
    return fit_rotation(x, y, method="procrustes"), x, y


def test_both_formats_hold_what_map_gives(tmp_path, old_and_new):
    rotation, x, _y = old_and_new
    ids, scenes = tuple(f"r{i}" for i in range(50)), tuple(f"s{i // 5}" for i in range(50))
    save_embeddings(tmp_path / "old.safetensors", Embeddings(x, ids, scenes, {"model": "old"}))
    done: list[int] = []
    applied = apply_rotation(
        rotation, tmp_path / "old.safetensors", tmp_path / "new.safetensors", progress=done.append
    )
    assert (applied.rows, applied.width) == (50, 8)
    assert done == [*range(7, 50, 7), 50]
    found = load_embeddings(tmp_path / "new.safetensors")
    np.testing.assert_array_equal(found.matrix, rotation.map(x))
    assert (found.ids, found.scenes) == (ids, scenes)
    assert found.manifest["from"] == {"model": "old"}
    apply_rotation(rotation, tmp_path / "old.safetensors", tmp_path / "new.npy")
    beside = load_embeddings(tmp_path / "new.npy")
    np.testing.assert_array_equal(beside.matrix, found.matrix)
    assert beside.ids == ids
    np.save(tmp_path / "half.npy", x.astype(np.float16))
    apply_rotation(rotation, tmp_path / "half.npy", tmp_path / "from_half.npy")
    np.testing.assert_allclose(np.load(tmp_path / "from_half.npy"), found.matrix, atol=2e-3)


def test_the_other_side_is_prepared_to_be_compared(tmp_path, old_and_new):
    rotation, _, y = old_and_new
    np.save(tmp_path / "new.npy", y)
    apply_rotation(rotation, tmp_path / "new.npy", tmp_path / "target.npy", side="y")
    np.testing.assert_array_equal(np.load(tmp_path / "target.npy"), rotation.target(y))


def test_raw_rows_stand_among_rows_of_the_new_encoder(tmp_path, old_and_new):
    rotation, x, y = old_and_new
    np.save(tmp_path / "old.npy", x)
    apply_rotation(rotation, tmp_path / "old.npy", tmp_path / "raw.npy", into="raw")
    raw = np.load(tmp_path / "raw.npy")
    np.testing.assert_allclose(raw.mean(axis=0), y.mean(axis=0), atol=1.5)
    nearest = np.argmin(np.square(raw[:, None] - y[None]).sum(axis=2), axis=1)
    assert (nearest == np.arange(50)).mean() > 0.5
    np.testing.assert_allclose(rotation.target(raw), rotation.map(x), atol=1e-5)
    lengths = np.linalg.norm(raw - rotation.mean_y, axis=1)
    np.testing.assert_allclose(lengths, rotation.manifest["y"]["spread"], rtol=1e-4)


def test_mapped_rows_are_not_mapped_again(tmp_path):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(50, 6)).astype(np.float32)
    rotation = fit_rotation(x, x[:, ::-1], made_by=({"fingerprint": "a"}, {"fingerprint": "b", "model": "B"}))
    save_embeddings(tmp_path / "old.safetensors", Embeddings(x, manifest={"fingerprint": "a"}))
    apply_rotation(rotation, tmp_path / "old.safetensors", tmp_path / "new.safetensors")
    with pytest.raises(InputError, match="made by B, centred"):
        apply_rotation(rotation, tmp_path / "new.safetensors", tmp_path / "twice.safetensors")


def test_errors_leave_no_file(tmp_path, old_and_new):
    rotation, x, _ = old_and_new
    broken = x.copy()
    broken[30, 2] = np.inf
    save_embeddings(tmp_path / "broken.safetensors", Embeddings(broken, tuple(f"r{i}" for i in range(50))))
    for target in ("out.npy", "out.safetensors"):
        with pytest.raises(InputError, match=r"broken.safetensors: row 30 \(id 'r30'\) holds infinite"):
            apply_rotation(rotation, tmp_path / "broken.safetensors", tmp_path / target)
    with pytest.raises(UsageError, match=r"written as \.safetensors or \.npy"):
        apply_rotation(rotation, tmp_path / "broken.safetensors", tmp_path / "out.csv")
    np.save(tmp_path / "x.npy", x)
    with pytest.raises(UsageError, match="over itself"):
        apply_rotation(rotation, tmp_path / "x.npy", tmp_path / "x.npy")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.safetensors", "x.npy"]
