"""The embedding job: what it writes, and that stopping it, or running it again, changes nothing."""

import errno
import json
from dataclasses import replace

import numpy as np
import pytest
from doubles import Counting, MemorySource
from hypothesis import given, settings
from hypothesis import strategies as st

from coview.data.scenes import Scene
from coview.embeddings import load_embeddings
from coview.encoders import embed as job
from coview.encoders.embed import Journal, embed
from coview.errors import InputError, ResourceError, UsageError


def stop_at(source, out, rows: int, **options) -> None:
    with pytest.raises(KeyboardInterrupt):
        embed(source, Counting(fail_after=rows, **options), out)


def part(out):
    return out.with_name(out.name + ".part")


def test_texts_have_a_row_for_each_slot(texts, tmp_path):
    done = embed(texts, Counting(), tmp_path / "a.safetensors")
    found = load_embeddings(done.path)
    assert found.ids[:3] == ("s0#0", "s0#1", "s1#0")
    assert found.scenes[:3] == ("s0", "s0", "s1")
    assert "seen#0" not in found.ids
    expected = Counting().encode([text for scene in texts.scenes("test") for text in scene.texts])
    np.testing.assert_array_equal(found.matrix, expected)
    assert found.matrix.dtype == np.float32
    assert not part(done.path).exists()


def test_images_are_called_by_their_scene(images, tmp_path):
    done = embed(images, Counting("image"), tmp_path / "a.safetensors")
    found = load_embeddings(done.path)
    assert found.ids == found.scenes == tuple(f"s{i}" for i in range(600))
    assert found.manifest["modality"] == "image"


def test_the_manifest_says_what_made_the_rows(texts, tmp_path):
    manifest = embed(texts, Counting(), tmp_path / "a.safetensors", split=None).manifest
    assert load_embeddings(tmp_path / "a.safetensors").manifest == manifest
    assert manifest["model"] == "counting:"
    assert (manifest["source"], manifest["split"]) == ("memory:", "all")
    assert manifest["layers"] == ["late"]
    assert manifest["truncated"] == sum(len(text) > 8 for scene in texts.list for text in scene.texts)
    assert manifest["versions"]["numpy"] == np.__version__


@pytest.mark.parametrize(
    ("layers", "shape", "names"),
    [
        ("last", (700, 3), ["late"]),
        ("early", (700, 3), ["early"]),
        ("all", (700, 2, 3), ["early", "late"]),
        ("prh", (700, 1, 3), ["early"]),
        ("late,early", (700, 2, 3), ["late", "early"]),
    ],
)
def test_layers(texts, tmp_path, layers, shape, names):
    done = embed(texts, Counting(), tmp_path / "a.safetensors", layers=layers)
    assert done.shape == load_embeddings(done.path).matrix.shape == shape
    assert done.manifest["layers"] == names


def test_a_second_run_computes_nothing(texts, images, tmp_path):
    for source, modality in ((texts, "text"), (images, "image")):
        out = tmp_path / f"{modality}.safetensors"
        first = embed(source, Counting(modality), out)
        written = out.read_bytes()
        again = Counting(modality)
        second = embed(source, again, out)
        assert second.cached
        assert not first.cached
        assert again.encoded == 0
        assert out.read_bytes() == written
        assert second.manifest == first.manifest
        assert second.shape == first.shape


def test_another_model_or_layer_or_input_is_computed_anew(texts, tmp_path):
    out = tmp_path / "a.safetensors"
    embed(texts, Counting(), out)
    assert not embed(texts, Counting(fingerprint="two"), out).cached
    assert not embed(texts, Counting(fingerprint="two"), out, layers="all").cached
    assert not embed(texts, Counting(fingerprint="two"), out).cached
    texts.list[17] = replace(texts.list[17], texts=("changed", "other"))
    changed = embed(texts, Counting(fingerprint="two"), out)
    assert not changed.cached
    assert embed(texts, Counting(fingerprint="two"), out).cached


def test_a_changed_pixel_is_noticed(images, tmp_path):
    out = tmp_path / "a.safetensors"
    before = embed(images, Counting("image"), out).manifest["input_hash"]
    images.images["s599"][0, 0, 0] ^= 1
    after = embed(images, Counting("image"), out)
    assert not after.cached
    assert after.manifest["input_hash"] != before


@settings(max_examples=12)
@given(stops=st.lists(st.integers(0, 699), min_size=1, max_size=3))
def test_stopped_anywhere_the_file_is_byte_equal(stops, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stops")
    scenes = [Scene(f"s{i}", (f"text {i}", f"other text {i}"), split="test") for i in range(350)]
    source = MemorySource(scenes)
    embed(source, Counting(), folder / "whole.safetensors")
    out = folder / "broken.safetensors"
    kept = 0
    for stop in stops:
        encoder = Counting(fail_after=stop)
        try:
            embed(source, encoder, out)
        except KeyboardInterrupt:
            assert not out.exists()
            kept += encoder.encoded // job.CHUNK * job.CHUNK
        else:
            break
    if not out.exists():
        done = embed(source, Counting(), out)
        assert done.resumed == kept
    assert out.read_bytes() == (folder / "whole.safetensors").read_bytes()
    assert not part(out).exists()


def test_images_that_were_finished_are_not_encoded_again(images, tmp_path):
    out = tmp_path / "a.safetensors"
    with pytest.raises(KeyboardInterrupt):
        embed(images, Counting("image", fail_after=520), out)
    rest = Counting("image")
    done = embed(images, rest, out)
    assert (done.resumed, rest.encoded) == (512, 88)


def test_a_chunk_whose_input_changed_is_dropped_with_all_after_it(texts, tmp_path):
    out = tmp_path / "a.safetensors"
    stop_at(texts, out, 600)
    texts.list[200] = replace(texts.list[200], texts=("changed", "other"))
    rest = Counting()
    done = embed(texts, rest, out)
    assert done.resumed == 256
    assert rest.encoded == 444
    embed(texts, Counting(), tmp_path / "whole.safetensors")
    assert out.read_bytes() == (tmp_path / "whole.safetensors").read_bytes()


def test_another_model_does_not_take_over_chunks(texts, tmp_path):
    out = tmp_path / "a.safetensors"
    stop_at(texts, out, 600)
    assert embed(texts, Counting(fingerprint="two"), out).resumed == 0


@pytest.mark.parametrize("damage", ["half a line", "rows cut short", "rows too long", "garbage"])
def test_what_a_kill_leaves_half_written_is_not_trusted(texts, tmp_path, damage):
    out = tmp_path / "a.safetensors"
    stop_at(texts, out, 600)
    rows, lines = part(out) / "rows.f32", part(out) / "chunks.jsonl"
    if damage == "half a line":
        lines.write_text(lines.read_text()[:-5])
    elif damage == "rows cut short":
        rows.write_bytes(rows.read_bytes()[:-100])
    elif damage == "rows too long":
        rows.write_bytes(rows.read_bytes() + b"\0" * 100)
    else:
        lines.write_text("\0\0\0\n")
    done = embed(texts, Counting(), out)
    assert done.resumed == {"rows too long": 512, "garbage": 0}.get(damage, 256)
    embed(texts, Counting(), tmp_path / "whole.safetensors")
    assert out.read_bytes() == (tmp_path / "whole.safetensors").read_bytes()


def test_a_full_disk_keeps_finished_chunks(texts, tmp_path, monkeypatch):
    out = tmp_path / "a.safetensors"
    append, calls = job.append, []

    def full(file, data):
        calls.append(file)
        if len(calls) > 4:  # two empty files and the first chunk's rows and line
            raise OSError(errno.ENOSPC, "No space left on device")
        append(file, data)

    monkeypatch.setattr(job, "append", full)
    with pytest.raises(ResourceError, match="1 finished chunks are kept"):
        embed(texts, Counting(), out)
    assert not out.exists()
    monkeypatch.setattr(job, "append", append)
    assert embed(texts, Counting(), out).resumed == 256


@pytest.mark.parametrize("calls", [0, 1, 2, 3])
def test_a_full_disk_before_the_first_chunk_leaves_nothing(texts, tmp_path, monkeypatch, calls):
    append, made = job.append, []

    def full(file, data):
        made.append(file)
        if len(made) > calls:
            raise OSError(errno.ENOSPC, "No space left on device")
        append(file, data)

    monkeypatch.setattr(job, "append", full)
    with pytest.raises(ResourceError, match="nothing was finished"):
        embed(texts, Counting(), tmp_path / "a.safetensors")
    assert not any(tmp_path.iterdir())


def test_a_place_inside_a_file_is_refused_before_any_work(texts, tmp_path):
    (tmp_path / "existing").write_text("")
    encoder = Counting()
    with pytest.raises(UsageError, match=r"existing: it is a file, and a\.safetensors needs a folder"):
        embed(texts, encoder, tmp_path / "existing" / "a.safetensors")
    assert encoder.encoded == 0


def test_images_are_read_one_at_a_time(images, tmp_path):
    """The encoder pulls images from the stream: none is opened before the one before it was taken."""
    seen = []

    class Watching(Counting):
        def encode(self, items, layers="last"):
            return super().encode((seen.append(images.opened) or item for item in items), layers)

    embed(images, Watching("image"), tmp_path / "a.safetensors")
    assert seen == list(range(1, 601))


def test_bad_rows_name_their_id_and_leave_nothing(texts, tmp_path):
    class Broken(Counting):
        def encode(self, items, layers="last"):
            rows = super().encode(items, layers)
            rows[5, 1] = np.nan
            return rows

    with pytest.raises(InputError, match="s2#1"):
        embed(texts, Broken(), tmp_path / "a.safetensors")
    assert not list(tmp_path.iterdir())


def test_nothing_to_embed(texts, tmp_path):
    with pytest.raises(InputError, match="no texts in the split 'val'") as error:
        embed(texts, Counting(), tmp_path / "a.safetensors", split="val")
    assert "--split" in error.value.hint
    with pytest.raises(InputError, match="no image"):
        embed(texts, Counting("image"), tmp_path / "a.safetensors")
    assert not list(tmp_path.iterdir())


def test_ids_that_come_twice(tmp_path):
    source = MemorySource([Scene("a", ("one",), split="test"), Scene("a", ("two",), split="test")])
    with pytest.raises(InputError, match="'a#0' comes twice"):
        embed(source, Counting(), tmp_path / "a.safetensors")


def test_foreign_files_are_not_overwritten(texts, tmp_path):
    out = tmp_path / "precious.safetensors"
    out.write_text("thesis")
    with pytest.raises(UsageError, match="not an embedding file"):
        embed(texts, Counting(), out)
    assert out.read_text() == "thesis"
    with pytest.raises(UsageError, match="safetensors"):
        embed(texts, Counting(), tmp_path / "a.npy")
    with pytest.raises(UsageError, match="no layer 'lat'") as error:
        embed(texts, Counting(), tmp_path / "a.safetensors", layers="lat")
    assert "'late'" in error.value.hint


def test_the_journal_is_readable(texts, tmp_path):
    out = tmp_path / "a.safetensors"
    stop_at(texts, out, 600)
    lines = [json.loads(line) for line in (part(out) / "chunks.jsonl").read_text().splitlines()]
    assert [line["shape"] for line in lines] == [[256, 3], [256, 3]]
    recipe = json.loads((part(out) / "recipe.json").read_text())
    assert Journal(part(out), recipe).matrix().shape == (512, 3)


def test_bfloat16_halves_the_file_and_rounds_as_torch_does(texts, tmp_path):
    import torch
    from safetensors.numpy import load_file
    from safetensors.torch import load_file as load_tensors

    embed(texts, Counting(), tmp_path / "whole.safetensors", layers="all")
    done = embed(texts, Counting(), tmp_path / "half.safetensors", layers="all", bfloat16=True)
    whole, half = (load_embeddings(tmp_path / f"{name}.safetensors") for name in ("whole", "half"))
    rounded = torch.from_numpy(np.array(whole.matrix)).bfloat16()
    np.testing.assert_array_equal(half.matrix, rounded.float().numpy())
    assert torch.equal(load_tensors(tmp_path / "half.safetensors")["embeddings"], rounded)
    np.testing.assert_array_equal(load_file(tmp_path / "whole.safetensors")["embeddings"], whole.matrix)
    assert (half.ids, half.scenes, done.manifest["stored"]) == (whole.ids, whole.scenes, "bfloat16")
    assert embed(texts, Counting(), done.path, layers="all", bfloat16=True).cached
    assert not embed(texts, Counting(), done.path, layers="all").cached
