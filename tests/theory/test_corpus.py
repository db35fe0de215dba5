import numpy as np
import pytest

from coview.embeddings import Embeddings
from coview.errors import InputError, UsageError
from coview.theory.corpus import (
    MASK_RATE,
    corpus_of_embeddings,
    corpus_of_texts,
    leading_directions,
    read_corpus,
)

WORDS = [f"word{i}" for i in range(60)]


def random_texts(scenes: int = 120, seed: int = 0) -> tuple[list[list[str]], list[str]]:
    rng = np.random.default_rng(seed)
    texts = []
    for _ in range(scenes):
        topic = rng.choice(60, 8, replace=False)
        texts.append(
            [" ".join(WORDS[i] for i in rng.choice(topic, 5, replace=False)) + "." for _ in range(3)]
        )
    return texts, [f"scene{i}" for i in range(scenes)]


def random_embeddings(scenes: int = 120, views: int = 3, width: int = 20) -> Embeddings:
    rng = np.random.default_rng(1)
    scene = np.repeat(np.arange(scenes), views)
    matrix = rng.normal(size=(scenes, width))[scene] + rng.normal(size=(len(scene), width))
    return Embeddings(matrix, tuple(f"text{i}" for i in range(len(scene))), tuple(f"scene{s}" for s in scene))


def test_leading_directions_are_those_of_the_singular_value_decomposition():
    matrix = np.random.default_rng(0).normal(size=(200, 40)) * 0.8 ** np.arange(40)
    found = leading_directions(matrix, 6)
    _, _, right = np.linalg.svd(matrix)
    assert np.abs(found.T @ right[:6].T) == pytest.approx(np.eye(6), abs=1e-6)


def test_texts_become_bags_of_words_under_three_views():
    texts, names = random_texts()
    corpus = corpus_of_texts(texts, names, dim=64)
    assert corpus.scenes == tuple(names)
    assert corpus.clean.rows.shape == (360, 12)  # no more features than a tenth of the scenes
    assert set(corpus.arms) == {"good", "bad", "next-token"}
    assert np.array_equal(corpus.clean.scene, np.repeat(np.arange(120), 3))
    for arm in ("bad", "next-token"):
        assert np.array_equal(np.bincount(corpus.arms[arm].group), np.full(360, 2))
        assert np.array_equal(corpus.arms[arm].scene, np.repeat(np.arange(120), 6))


def test_copies_differ_by_what_is_hidden():
    texts, names = random_texts()
    likeness = []
    for rate in (1e-9, 0.2, 0.5):
        corpus = corpus_of_texts(texts, names, dim=20, mask_rate=rate)
        first, second = corpus.arms["bad"].rows.reshape(360, 2, -1).transpose(1, 0, 2)
        likeness.append((first * second).sum() / np.sqrt((first**2).sum() * (second**2).sum()))
        if rate == 1e-9:
            assert first == pytest.approx(corpus.clean.rows)
    assert likeness[0] == pytest.approx(1)
    assert likeness[0] > likeness[1] + 0.05 > likeness[2] + 0.1


def test_prefix_and_continuation_share_no_word_but_make_up_the_text():
    texts, names = random_texts()
    corpus = corpus_of_texts(texts, names, dim=12)
    clean = corpus.clean.rows
    prefix, rest = corpus.arms["next-token"].rows.reshape(360, 2, -1).transpose(1, 0, 2)
    # Rows have unit length, so that a whole is a positive mix of its parts: least squares finds it.
    for whole, *parts in zip(clean[:20], prefix[:20], rest[:20], strict=True):
        mix, *_ = np.linalg.lstsq(np.array(parts).T, whole)
        assert np.array(parts).T @ mix == pytest.approx(whole, abs=1e-5)
        assert (mix > 0).all()


def test_scenes_with_one_text_are_left_out_and_too_few_are_refused():
    texts, names = random_texts()
    texts[0] = texts[0][:1]
    assert corpus_of_texts(texts, names, dim=8).scenes == tuple(names[1:])
    with pytest.raises(InputError, match="0 of 120 scenes have two observations"):
        corpus_of_texts([group[:1] for group in texts], names, dim=8)


def test_embeddings_without_copies_get_isotropic_noise():
    corpus = corpus_of_embeddings(random_embeddings(), dim=8)
    assert "isotropic noise" in corpus.features
    bad = corpus.arms["bad"]
    noise = bad.rows[:360] - corpus.clean.rows
    expected = MASK_RATE / (1 - MASK_RATE) * corpus.clean.rows.var(axis=0).mean()
    assert noise.var(axis=0) == pytest.approx(np.full(8, expected), rel=0.3)
    assert np.array_equal(bad.scene[:360], corpus.clean.scene)


def test_copies_are_matched_to_their_rows_by_id():
    embeddings = random_embeddings()
    rng = np.random.default_rng(2)
    order = rng.permutation(720) % 360
    copies = Embeddings(embeddings.matrix[order], None, tuple(f"text{i}" for i in order))
    corpus = corpus_of_embeddings(embeddings, copies, dim=8)
    bad = corpus.arms["bad"]
    assert bad.rows == pytest.approx(corpus.clean.rows[bad.group])
    assert np.array_equal(bad.scene, corpus.clean.scene[bad.group])
    stray = Embeddings(embeddings.matrix[:2], None, ("text0", "text999"))
    with pytest.raises(InputError, match="text999"):
        corpus_of_embeddings(embeddings, stray, dim=8)


def test_the_last_layer_of_a_stack_is_used():
    embeddings = random_embeddings()
    stack = np.stack([np.zeros_like(embeddings.matrix), embeddings.matrix], axis=1)
    one = corpus_of_embeddings(embeddings, dim=8)
    two = corpus_of_embeddings(Embeddings(stack, embeddings.ids, embeddings.scenes), dim=8)
    assert two.clean.rows == pytest.approx(one.clean.rows)


def test_embeddings_without_scenes_are_refused():
    with pytest.raises(InputError, match="name no scenes"):
        corpus_of_embeddings(Embeddings(np.ones((4, 2))), dim=2)


def test_another_encoder_is_matched_by_scene():
    texts, names = random_texts()
    corpus = corpus_of_texts(texts, names, dim=8)
    order = np.random.default_rng(0).permutation(100)
    other = Embeddings(np.arange(100.0)[order, None] * [1, 2], tuple(names[i] for i in order))
    both, matrix = corpus.beside(other)
    assert both.scenes == tuple(names[:100])
    assert matrix[:, 0] == pytest.approx(np.arange(100) - 49.5)
    assert np.array_equal(np.unique(both.arms["bad"].scene), np.arange(100))
    with pytest.raises(InputError, match="must be the scene ids"):
        corpus.beside(Embeddings(np.ones((3, 2)), ("x", "y", "z")), "other.npy")


def test_a_corpus_is_read_from_a_source_or_an_embedding_file(tmp_path):
    corpus = read_corpus("tabletop:scenes=100", dim=6, split="train")
    assert len(corpus.scenes) == 80
    with pytest.raises(UsageError, match="mask rate"):
        read_corpus("tabletop:scenes=100", mask_rate=1.5)
    with pytest.raises(UsageError, match="copies"):
        read_corpus("tabletop:scenes=100", copies=tmp_path / "copies.npy")
