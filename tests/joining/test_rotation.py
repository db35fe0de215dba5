"""A rotation in a file, and rows of another space that are refused."""

import json

import numpy as np
import pytest

from coview.embeddings import Embeddings
from coview.errors import InputError
from coview.joining.procrustes import fit_rotation
from coview.joining.rotation import load_rotation, save_rotation
from coview.joining.space import encoder_of, require_side, require_space

MADE_BY = (
    {"model": "run:a", "fingerprint": "f00d", "layers": ["head"]},
    {"model": "lite2:", "fingerprint": "cafe"},
)


@pytest.fixture
def fitted():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 6)).astype(np.float32) + 2
    y = (x @ np.linalg.qr(rng.normal(size=(6, 6)))[0] - 5).astype(np.float32)
    return fit_rotation(x, y, made_by=MADE_BY, scenes=[f"s{i}" for i in range(200)]), x, y


def test_what_is_saved_is_what_is_loaded(tmp_path, fitted):
    rotation, x, y = fitted
    save_rotation(tmp_path / "r.safetensors", rotation)
    loaded = load_rotation(tmp_path / "r.safetensors")
    assert loaded.manifest == rotation.manifest
    np.testing.assert_array_equal(loaded.map(x), rotation.map(x))
    np.testing.assert_array_equal(loaded.target(y), rotation.target(y))
    assert loaded.was_fitted_on(["s0", "t0", "s199"]).tolist() == [True, False, True]
    assert loaded.manifest["signature"].startswith(
        "rotation|method:procrustes|center:train|unit:True|pairs:200"
    )


def test_the_safetensors_package_reads_it_too(tmp_path, fitted):
    from safetensors.numpy import load_file

    save_rotation(tmp_path / "r.safetensors", fitted[0])
    tensors = load_file(tmp_path / "r.safetensors")
    np.testing.assert_array_equal(tensors["matrix"], fitted[0].matrix)


def test_mapping_is_centre_unit_turn_unit(fitted):
    rotation, x, y = fitted
    centred = x - x.mean(axis=0)
    expected = centred / np.linalg.norm(centred, axis=1, keepdims=True) @ rotation.matrix
    np.testing.assert_allclose(rotation.map(x), expected, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(rotation.map(x), axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(rotation.map(x), rotation.target(y), atol=1e-4)
    assert not rotation.map(rotation.mean_x[None]).any()  # the mean has no direction


def test_rows_of_another_width_or_with_nan_are_refused(fitted):
    rotation, x, _ = fitted
    with pytest.raises(InputError, match="rows of X are 6 numbers wide"):
        rotation.map(x[:, :5])
    broken = x.copy()
    broken[7, 2] = np.nan
    with pytest.raises(InputError, match=r"row 7 holds NaN"):
        rotation.map(broken)


def refuse(rotation, side, matrix, manifest) -> str:
    mean = rotation.mean_x if side == "x" else rotation.mean_y
    with pytest.raises(InputError) as raised:
        require_space(rotation.manifest[side], mean, Embeddings(matrix, manifest=manifest), "file")
    return str(raised.value)


def test_the_wrong_space_is_recognised_by_width_encoder_or_mean(fitted):
    rotation, x, y = fitted
    assert "rows are 5 numbers wide" in refuse(rotation, "x", x[:, :5], {})
    assert "made by lite2: (cafe)" in refuse(rotation, "x", x, MADE_BY[1])
    assert "times as far" in refuse(rotation, "x", y, {})  # nothing says what made y, but it lies elsewhere
    other_layer = {**MADE_BY[0], "layers": ["block.0"]}
    assert "made by run:a" in refuse(rotation, "x", x, other_layer)
    for rows, side, manifest in ((x, "x", MADE_BY[0]), (x[:5], "x", {}), (y, "y", MADE_BY[1]), (y, "y", {})):
        mean = rotation.mean_x if side == "x" else rotation.mean_y
        notes = require_space(rotation.manifest[side], mean, Embeddings(rows, manifest=manifest), "file")
        unsaid = "file does not say which encoder made the rows: only width and mean of file were checked"
        assert notes == (() if manifest else (unsaid,))
    unnamed = {**rotation.manifest["x"], "encoder": None}
    (note,) = require_space(unnamed, rotation.mean_x, Embeddings(x, manifest=MADE_BY[0]), "file")
    assert note.startswith("the rotation does not say which encoder")


def test_rows_of_the_other_side_are_told_by_the_means():
    """Also of encoders that both embed about zero; new rows, few rows and rows of another domain pass."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(1000, 64)).astype(np.float32)
    turned = x @ np.linalg.qr(rng.normal(size=(64, 64)))[0].astype(np.float32)
    shift = np.full(64, 0.5, dtype=np.float32)  # half as far as a row lies from the mean
    for y, away in ((turned, False), (turned + shift, True)):
        rotation = fit_rotation(x[:800], y[:800])

        def checked(rows, side="x", of=rotation):
            return require_side(of, side, Embeddings(rows), "file", "Swapped?")

        elsewhere = rng.normal(size=64).astype(np.float32) / 2
        for rows in (x, x[:1], rng.normal(size=(500, 64)), x + elsewhere, x - elsewhere):
            assert len(checked(rows)) == 1
        for rows, side in ((y, "x"), (x, "y")):
            if away:
                with pytest.raises(InputError, match=r"these are rows of side [xy]\. Swapped\?"):
                    checked(rows, side)
            else:
                assert "from that of side" in checked(rows, side)[1]


def test_what_fits_the_other_side_alone_is_said_to(fitted):
    rotation, x, y = fitted
    for rows, manifest in ((y, MADE_BY[1]), (y, {})):
        with pytest.raises(InputError, match=r"They fit the rotation's side y\. Swapped\?"):
            require_side(rotation, "x", Embeddings(rows, manifest=manifest), "file", "Swapped?")
    with pytest.raises(InputError, match="Fit a rotation for this space"):
        require_side(rotation, "x", Embeddings(x[:, :5]), "file", "Swapped?")


def test_rows_picked_from_a_file_are_of_the_encoder_that_made_the_file():
    picked = {"model": "rows.safetensors", "fingerprint": "hash of the file", "made_by": MADE_BY[0]}
    assert encoder_of(picked) == encoder_of(MADE_BY[0]) == "f00d|head"
    assert encoder_of({**picked, "made_by": {}}) is None
    assert encoder_of({}) is None


def test_a_file_that_is_no_rotation_or_was_changed_is_refused(tmp_path, fitted):
    from coview.embeddings import save_embeddings

    save_embeddings(tmp_path / "rows.safetensors", Embeddings(fitted[1]))
    with pytest.raises(InputError, match="holds no rotation"):
        load_rotation(tmp_path / "rows.safetensors")
    with pytest.raises(InputError, match=r"no such file\. coview rotate fit A B --out FILE writes one"):
        load_rotation(tmp_path / "none.safetensors")
    rotation = fitted[0]
    other = {**rotation.manifest, "x": rotation.manifest["y"]}
    save_rotation(tmp_path / "mixed.safetensors", type(rotation)(**{**vars(rotation), "manifest": other}))
    with pytest.raises(InputError, match="mean of X is not the one"):
        load_rotation(tmp_path / "mixed.safetensors")
    save_rotation(tmp_path / "whole.safetensors", rotation)
    data = (tmp_path / "whole.safetensors").read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(data[:-8])
    with pytest.raises(InputError, match="cut short"):
        load_rotation(tmp_path / "cut.safetensors")
    assert json.dumps(rotation.manifest)
