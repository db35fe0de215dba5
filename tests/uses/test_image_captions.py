"""From images to captions: spaces that do not fit are refused, and baselines stand beside the decoder."""

import numpy as np
import pytest
import torch

from coview.data.tokens import train_tokenizer
from coview.embeddings import Embeddings, load_embeddings, save_embeddings
from coview.encoders.text import TextEncoder, TextEncoderConfig
from coview.encoders.trained import TrainedTextEncoder, save_text_encoder
from coview.errors import InputError
from coview.joining.apply import apply_rotation
from coview.joining.procrustes import fit_rotation
from coview.runs import write_json
from coview.tabletop import TabletopSource
from coview.uses.captioner import (
    ROWS,
    TEXTS,
    CaptionDecoder,
    Captioner,
    DecoderConfig,
    load_captioner,
    prepared,
    save_captioner,
)
from coview.uses.generation import Search
from coview.uses.image_captions import (
    Memory,
    captions_of,
    load_reader,
    nearest_first,
    rows_of_images,
    rows_of_texts,
    scores_beside_baselines,
)
from coview.uses.memory import project

SCENES = list(TabletopSource(scenes=24, texts=2).scenes())
TOLD = [text for scene in SCENES for text in scene.texts]
MADE_BY = {"model": "run:text", "fingerprint": "f" * 16, "layers": ["head"]}


@pytest.fixture(scope="module")
def reader() -> TrainedTextEncoder:
    torch.manual_seed(1)
    tokenizer = train_tokenizer(lambda: TOLD, 500)
    model = TextEncoder(TextEncoderConfig(tokenizer.get_vocab_size(), 1, 16, 2, output=8))
    return TrainedTextEncoder(model, tokenizer, name="run:text", causal=False)


@pytest.fixture
def captioner(tmp_path, reader) -> Captioner:
    torch.manual_seed(0)
    shape = DecoderConfig(reader.tokenizer.get_vocab_size(), 8, layers=1, width=16, heads=2, max_length=12)
    rows = reader.encode(TOLD)
    save_captioner(tmp_path, CaptionDecoder(shape), reader.tokenizer, rows.mean(0), {})
    write_json(tmp_path / "manifest.json", {})
    ids = tuple(f"{scene.id}#{slot}" for scene in SCENES for slot in range(2))
    of = tuple(scene.id for scene in SCENES for _ in range(2))
    save_embeddings(tmp_path / ROWS, Embeddings(rows, ids, of, MADE_BY))
    (tmp_path / TEXTS).write_text("\n".join(TOLD) + "\n")
    return load_captioner(tmp_path)


@pytest.fixture
def images() -> Embeddings:
    return Embeddings(np.random.default_rng(3).standard_normal((24, 5)).astype(np.float32))


def joined(captioner, images, **made_by):
    texts = np.asarray(captioner.memory()[0].matrix)[::2]
    return fit_rotation(images.matrix, texts, method="ridge", made_by=({}, {**MADE_BY, **made_by}))


def test_images_are_read_through_the_rotation_alone(captioner, images):
    rotation = joined(captioner, images)
    rows = rows_of_images(captioner, rotation, images, where="photos", rotation_file="r")
    assert np.array_equal(rows, rotation.map(images.matrix))


def test_a_rotation_to_another_encoder_and_images_of_another_space_are_refused(captioner, images):
    other = joined(captioner, images, fingerprint="0" * 16, model="run:other")
    with pytest.raises(InputError, match=r"r\.st: the rotation leads to run:other.*trained on run:text"):
        rows_of_images(captioner, other, images, where="photos", rotation_file="r.st")
    wide = Embeddings(np.ones((3, 6), np.float32))
    with pytest.raises(InputError, match=r"photos: .*6 numbers wide"):
        rows_of_images(captioner, joined(captioner, images), wide, where="photos", rotation_file="r.st")


def test_rows_of_texts_are_prepared_and_others_refused(captioner, images):
    texts, _ = captioner.memory()
    rows = rows_of_texts(captioner, texts, where="t")
    assert np.array_equal(rows, prepared(texts.matrix, captioner.mean))
    with pytest.raises(InputError, match=r"t: rows of \(5,\).*need --rotation"):
        rows_of_texts(captioner, images, where="t")
    foreign = Embeddings(texts.matrix, manifest={**MADE_BY, "fingerprint": "1" * 16, "model": "run:b"})
    with pytest.raises(InputError, match=r"made by run:b.*reads run:text"):
        rows_of_texts(captioner, foreign, where="t")


@pytest.mark.parametrize("into", ["centred", "raw"])
def test_rows_that_are_mapped_already_need_no_rotation(captioner, images, tmp_path, into):
    rotation = joined(captioner, images)
    save_embeddings(tmp_path / "images.safetensors", images)
    moved = tmp_path / "moved.safetensors"
    apply_rotation(rotation, tmp_path / "images.safetensors", moved, into=into)
    mapped = load_embeddings(moved)
    with pytest.raises(InputError, match=r"moved: these rows are mapped already.*Leave out --rotation"):
        rows_of_images(captioner, rotation, mapped, where="moved", rotation_file="r")
    through = rows_of_images(captioner, rotation, images, where="photos", rotation_file="r")
    rows = rows_of_texts(captioner, mapped, where="moved")
    if into == "centred":
        assert np.allclose(rows, through, atol=1e-6)
    else:  # the rotation's mean was put back, and the captioner takes away its own, of twice as many texts
        assert np.array_equal(rows, prepared(mapped.matrix, captioner.mean))
        assert (rows * through).sum(axis=1).min() > 0.9


def test_rows_mapped_elsewhere_are_refused(captioner, images, tmp_path):
    save_embeddings(tmp_path / "images.safetensors", images)
    other = joined(captioner, images, fingerprint="0" * 16, model="run:other")
    apply_rotation(other, tmp_path / "images.safetensors", tmp_path / "moved.safetensors")
    mapped = load_embeddings(tmp_path / "moved.safetensors")
    with pytest.raises(InputError, match=r"moved: mapped to run:other.*reads run:text"):
        rows_of_texts(captioner, mapped, where="moved")


def test_a_rotation_may_have_been_fitted_on_mapped_rows(captioner, images):
    facts = {"model": "m, centred", "fingerprint": "mapped-1", "mapped": {"into": "centred"}}
    mapped = Embeddings(images.matrix, manifest=facts)
    texts = np.asarray(captioner.memory()[0].matrix)[::2]
    rotation = fit_rotation(images.matrix, texts, method="ridge", made_by=(facts, MADE_BY))
    rows = rows_of_images(captioner, rotation, mapped, where="photos", rotation_file="r")
    assert np.array_equal(rows, rotation.map(images.matrix))


def test_a_memory_is_projected_on_before_the_decoder_reads(captioner):
    memory = Memory.of(captioner)
    assert memory.texts == TOLD
    rows = memory.rows[:4] + np.float32(0.1)
    through = captions_of(captioner, rows, Search(), memory=memory, temperature=0.1)
    assert through == captions_of(captioner, project(rows, memory.rows, 0.1), Search())


def test_the_nearest_caption_comes_first(captioner, reader):
    wanted = prepared(reader.encode(TOLD[:3]), captioner.mean)
    candidates = [[TOLD[5], TOLD[0]], [TOLD[1]], [TOLD[9], TOLD[2], TOLD[8]]]
    ordered = nearest_first(captioner, reader, wanted, candidates)
    assert [texts[0] for texts in ordered] == TOLD[:3]
    assert [sorted(texts) for texts in ordered] == [sorted(texts) for texts in candidates]


def test_the_reader_must_be_the_encoder_the_captioner_was_trained_with(captioner, reader, tmp_path):
    run = tmp_path / "text"
    save_text_encoder(run, reader.model, reader.tokenizer, {"views": "good"})
    with pytest.raises(InputError, match="another text encoder, run:text"):
        load_reader(captioner, run)
    texts, _ = captioner.memory()
    own = Embeddings(
        np.array(texts.matrix), texts.ids, texts.scenes, {**MADE_BY, "fingerprint": reader.fingerprint}
    )
    save_embeddings(captioner.folder / ROWS, own)
    assert load_reader(captioner, run).fingerprint == reader.fingerprint


def test_baselines_stand_beside_the_decoder(captioner):
    memory = Memory.of(captioner)
    rows = memory.rows[:20]
    own = [[text] for text in TOLD[:20]]
    scores = scores_beside_baselines(TOLD[:20], rows, memory, own)
    assert scores["decoder"].cider_d > 9  # a text against itself; one of three words has no fourth order
    assert scores["nearest training caption"].cider_d == pytest.approx(scores["decoder"].cider_d)
    assert scores["most central caption"].cider_d < 2
    assert scores["captions of other images"].cider_d < 2
    alone = scores_beside_baselines(TOLD[:1], rows[:1], memory, own[:1])
    assert "captions of other images" not in alone
