"""Which side of a rotation is which, and that a rotation of other spaces is refused."""

from collections.abc import Iterable

import numpy as np
import pytest

from coview.embeddings import Embeddings
from coview.encoders import Encoder
from coview.errors import InputError, UsageError
from coview.joining.procrustes import fit_rotation
from coview.uses.joined import join

RNG = np.random.default_rng(0)
TURN = np.linalg.qr(RNG.standard_normal((6, 6)))[0]
WORDS = RNG.standard_normal((200, 6)).astype(np.float32)


class Words(Encoder):
    """The text "7" is row 7."""

    modality, last, layers = "text", "head", ("embed",)

    def __init__(self, width: int = 6, fingerprint: str = "words"):
        self.name, self.width, self.fingerprint = f"words:{width}", width, fingerprint

    def encode(self, items: Iterable[str], layers: str = "last") -> np.ndarray:
        rows = np.stack([WORDS[int(item), : self.width] if item != "?" else 0 * WORDS[0] for item in items])
        return rows + (1 if layers == "embed" else 0)


def images(width=6, fingerprint: str | None = "eyes") -> Embeddings:
    manifest = {"model": "eyes:", "fingerprint": fingerprint, "layers": ["embedding"]} if fingerprint else {}
    return Embeddings((WORDS @ TURN)[:, :width] + 3, manifest=manifest)


def rotation(first, second, *made_by):
    return fit_rotation(first, second, method="procrustes", made_by=made_by or ({}, {}))


TEXTS = {"model": "words:6", "fingerprint": "words", "layers": ["head"]}


@pytest.mark.parametrize("texts_first", [True, False])
def test_the_encoder_is_found_on_either_side(texts_first):
    index = images()
    sides = (WORDS, index.matrix) if texts_first else (index.matrix, WORDS)
    made_by = (TEXTS, index.manifest) if texts_first else (index.manifest, TEXTS)
    joined = join(rotation(*sides, *made_by), Words(), index)
    assert joined.texts_are_mapped == texts_first
    assert joined.layer == "head"
    similarity = joined.texts(["3", "11"]) @ joined.images(index.matrix).T
    np.testing.assert_array_equal(similarity.argmax(axis=1), [3, 11])
    np.testing.assert_allclose(similarity.max(axis=1), 1, atol=1e-5)


def test_the_layer_is_the_one_fitted_on():
    index = images()
    made_by = TEXTS | {"layers": ["embed"]}, index.manifest
    joined = join(rotation(WORDS + 1, index.matrix, *made_by), Words(), index)
    assert joined.layer == "embed"
    assert (joined.texts(["5"]) @ joined.images(index.matrix).T).argmax() == 5


def test_files_that_say_nothing_are_told_apart_by_width_or_mean():
    narrow = images(width=4, fingerprint=None)
    assert not join(rotation(narrow.matrix, WORDS), Words(), narrow).texts_are_mapped
    far = Embeddings(images(fingerprint=None).matrix + 10)
    assert join(rotation(WORDS, far.matrix), Words(), far).texts_are_mapped


def test_what_cannot_be_told_is_not_guessed():
    centred = Embeddings(WORDS @ TURN)
    with pytest.raises(UsageError, match="which side of the rotation are the texts"):
        join(rotation(WORDS, centred.matrix), Words(), centred)


def test_a_rotation_of_other_spaces_is_refused():
    index = images()
    fitted = rotation(WORDS, index.matrix, TEXTS, index.manifest)
    with pytest.raises(InputError, match=r"joins words:6 \(6 wide\) and eyes: \(6 wide\); these are words:6"):
        join(fitted, Words(fingerprint="other words"), index)
    with pytest.raises(InputError, match="Fit one for these two"):
        join(fitted, Words(), images(fingerprint="other eyes"))
    with pytest.raises(InputError, match=r"images by eyes: \(4 wide\)"):
        join(fitted, Words(), images(width=4))


def test_a_text_of_unknown_words_says_nothing_and_is_no_query():
    index = images()
    joined = join(rotation(WORDS, index.matrix, TEXTS, index.manifest), Words(), index)
    rows = joined.texts(["1", "?"])
    assert not rows[1].any()
    np.testing.assert_array_equal(rows[0], joined.query("1"))
    with pytest.raises(InputError, match="knows no word of"):
        joined.query("?")
