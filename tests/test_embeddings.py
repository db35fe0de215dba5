import json
import pickle
import struct
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coview.embeddings import Embeddings, load_embeddings, save_embeddings
from coview.errors import InputError, MissingError

MATRIX = np.arange(12, dtype=np.float32).reshape(4, 3) + 0.5
IDS, SCENES = ("a", "b", "ü ", "d"), ("s", "s", "t", "t")

words = st.text(st.characters(blacklist_characters="\n\r", blacklist_categories=["Cs"]), max_size=8)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    n=st.integers(1, 6),
    layers=st.integers(0, 3),
    dtype=st.sampled_from([np.float16, np.float32, np.float64]),
    data=st.data(),
)
def test_what_is_saved_is_loaded(tmp_path, n, layers, dtype, data):
    shape = (n, layers, 3) if layers else (n, 3)
    matrix = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    ids = data.draw(st.none() | st.lists(words, min_size=n, max_size=n, unique=True).map(tuple))
    scenes = data.draw(st.none() | st.lists(words, min_size=n, max_size=n).map(tuple))
    saved = Embeddings(matrix, ids, scenes, {"model": "é", "seed": 1})
    save_embeddings(tmp_path / "x.safetensors", saved)
    loaded = load_embeddings(tmp_path / "x.safetensors")
    np.testing.assert_array_equal(loaded.matrix, matrix)
    assert loaded.matrix.dtype == dtype
    assert (loaded.ids, loaded.scenes, loaded.manifest) == (ids, scenes, saved.manifest)


def test_the_matrix_stays_memory_mapped(tmp_path):
    save_embeddings(tmp_path / "x.safetensors", Embeddings(MATRIX, IDS))
    np.save(tmp_path / "x.npy", MATRIX)
    for name in ("x.safetensors", "x.npy"):
        assert isinstance(load_embeddings(tmp_path / name).matrix, np.memmap)


def test_reading_needs_no_torch(tmp_path, monkeypatch):
    save_embeddings(tmp_path / "x.safetensors", Embeddings(MATRIX, IDS))
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "safetensors", None)
    np.testing.assert_array_equal(load_embeddings(tmp_path / "x.safetensors").matrix, MATRIX)


def test_bfloat16_is_widened(tmp_path):
    import torch
    from safetensors.torch import save_file

    save_file({"emb": torch.from_numpy(MATRIX).bfloat16()}, tmp_path / "x.safetensors")
    np.testing.assert_array_equal(load_embeddings(tmp_path / "x.safetensors").matrix, MATRIX)


def test_ids_beside_the_file(tmp_path):
    np.save(tmp_path / "x.npy", MATRIX)
    assert load_embeddings(tmp_path / "x.npy").ids is None
    (tmp_path / "x.ids.txt").write_text("\n".join(IDS) + "\n", encoding="utf-8")
    assert load_embeddings(tmp_path / "x.npy").ids == IDS


def test_npz_and_parquet(tmp_path):
    np.savez(tmp_path / "x.npz", embeddings=MATRIX, ids=np.arange(4), scenes=np.array(SCENES))
    loaded = load_embeddings(tmp_path / "x.npz")
    np.testing.assert_array_equal(loaded.matrix, MATRIX)
    assert loaded.ids == ("0", "1", "2", "3")
    assert loaded.scenes == SCENES
    pyarrow = pytest.importorskip("pyarrow", reason="the data extra is not installed")
    import pyarrow.parquet as parquet

    table = pyarrow.table({"id": IDS, "embedding": MATRIX.tolist(), "scene": SCENES})
    parquet.write_table(table, tmp_path / "x.parquet")
    loaded = load_embeddings(tmp_path / "x.parquet")
    np.testing.assert_array_equal(loaded.matrix, MATRIX)
    assert (loaded.ids, loaded.scenes) == (IDS, SCENES)


def test_parquet_without_pyarrow_names_the_install_command(tmp_path, monkeypatch):
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingError, match=r"pip install 'coview\[data\]'"):
        load_embeddings(tmp_path / "x.parquet")


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".bin", ".pkl"])
def test_pickles_are_refused_with_a_conversion(tmp_path, suffix):
    (tmp_path / f"x{suffix}").write_bytes(b"\x80\x04.")
    with pytest.raises(InputError, match=r"pickled files can run code.*numpy\.save"):
        load_embeddings(tmp_path / f"x{suffix}")


def test_pickles_inside_npy_and_npz_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="not a readable"):
        load_embeddings(tmp_path / "x.npy")
    np.savez(tmp_path / "x.npz", emb=np.array([{}], dtype=object))
    with pytest.raises(InputError, match="not a readable"):
        load_embeddings(tmp_path / "x.npz")


@pytest.mark.parametrize(
    ("dtype", "value", "message"),
    [
        (np.float32, np.nan, "row 2 .id 'ü '. holds NaN"),
        (np.float64, np.inf, "row 2 .* holds infinite values"),
        (np.float16, np.inf, "row 2 .* float16 overflow.*float32 or bfloat16"),
    ],
)
def test_rows_that_are_not_finite_are_named(tmp_path, dtype, value, message):
    matrix = MATRIX.astype(dtype)
    matrix[2, 1] = value
    save_embeddings(tmp_path / "x.safetensors", Embeddings(matrix, IDS))
    with pytest.raises(InputError, match=message):
        load_embeddings(tmp_path / "x.safetensors")


@pytest.mark.parametrize(
    ("embeddings", "message"),
    [
        (Embeddings(MATRIX, IDS[:3]), "3 ids for 4 rows"),
        (Embeddings(MATRIX, IDS, SCENES[:2]), "2 scenes for 4 rows"),
        (Embeddings(MATRIX, ("a", "b", "a", "c")), "id 'a' stands for more than one row"),
        (Embeddings(MATRIX[0]), r"expected \(N, D\)"),
        (Embeddings(MATRIX.astype(np.uint8)), "floating point"),
        (Embeddings(MATRIX[:0]), "empty"),
    ],
)
def test_files_that_make_no_sense(tmp_path, embeddings, message):
    save_embeddings(tmp_path / "x.safetensors", embeddings)
    with pytest.raises(InputError, match=message):
        load_embeddings(tmp_path / "x.safetensors")


def test_line_breaks_in_ids_are_not_written(tmp_path):
    with pytest.raises(InputError, match="line breaks"):
        save_embeddings(tmp_path / "x.safetensors", Embeddings(MATRIX, ("a", "b\nc", "d", "e")))
    assert not any(tmp_path.iterdir())


def broken_safetensors():
    header = json.dumps({"emb": {"dtype": "F32", "shape": [4, 3], "data_offsets": [0, 48]}}).encode()
    whole = struct.pack("<Q", len(header)) + header + MATRIX.tobytes()
    lying = header.replace(b"[0, 48]", b"[0, 99]")
    return {
        "empty": b"",
        "cut in its length": whole[:5],
        "cut in its header": whole[:20],
        "cut in its data": whole[:-1],
        "no JSON": struct.pack("<Q", 3) + b"abc",
        "a list": struct.pack("<Q", 2) + b"[]",
        "a header longer than the file": struct.pack("<Q", 2**62) + header,
        "offsets that lie": struct.pack("<Q", len(lying)) + lying + MATRIX.tobytes(),
        "an unknown type": whole.replace(b"F32", b"F8X"),
        "no matrix": struct.pack("<Q", 2) + b"{}",
        "no tensor": struct.pack("<Q", 9) + b'{"emb":1}',
    }


@pytest.mark.parametrize("kind", broken_safetensors())
def test_broken_safetensors(tmp_path, kind):
    (tmp_path / "x.safetensors").write_bytes(broken_safetensors()[kind])
    with pytest.raises(InputError, match=r"x\.safetensors"):
        load_embeddings(tmp_path / "x.safetensors")


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04 cut"])
def test_broken_numpy_files(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match="not a readable"):
        load_embeddings(tmp_path / name)


@pytest.mark.parametrize("name", ["x.safetensors", "x.npy"])
@pytest.mark.parametrize(
    ("content", "what"),
    [(pickle.dumps({"rows": [1.0]}), "a pickle, which can run"), (b"PK\x03\x04 cut", "a zip, as torch.save")],
)
def test_pickles_under_another_name_are_named_and_not_opened(tmp_path, name, content, what):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"it is {what}.*it was not opened.*Convert it once"):
        load_embeddings(tmp_path / name)


def test_a_header_as_long_as_a_pickle_begins_is_read(tmp_path):
    header = json.dumps({"emb": {"dtype": "F32", "shape": [4, 3], "data_offsets": [0, 48]}}).encode()
    header = header.ljust(0x480)  # its length begins with the bytes 80 04, as a pickle does
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + MATRIX.tobytes())
    assert load_embeddings(tmp_path / "x.safetensors").matrix.tolist() == MATRIX.tolist()


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_python_objects_are_refused_in_our_words(tmp_path, name):
    rows = np.array([[1.0, None]], dtype=object)
    np.save(tmp_path / name, rows) if name == "x.npy" else np.savez(tmp_path / name, emb=rows)
    with pytest.raises(
        InputError, match=r"holds Python objects, which can run code when opened.*numpy\.save"
    ):
        load_embeddings(tmp_path / name)


def test_integers_and_bad_rows_say_what_to_do(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((4, 3), np.int64))
    with pytest.raises(InputError, match=r"found int64\. .*astype\('float32'\)"):
        load_embeddings(tmp_path / "x.npy")
    np.save(tmp_path / "x.npy", np.array([[1.0], [np.nan]]))
    with pytest.raises(InputError, match=r"row 1 holds NaN\. Rows count from 0"):
        load_embeddings(tmp_path / "x.npy")


def test_missing_and_unknown_files(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        load_embeddings(tmp_path / "x.npy")
    (tmp_path / "x.npyy").write_bytes(b"")
    with pytest.raises(InputError, match=r"Did you mean '\.npy'"):
        load_embeddings(tmp_path / "x.npyy")
