"""The token store holds what the texts say, is the same every time, and is whole or not there."""

import errno
import subprocess
import sys
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import BPE

from coview.data import tokens
from coview.data.scenes import Scene
from coview.data.tokens import (
    FIRST,
    LAST,
    SPECIAL,
    TokenStore,
    build_store,
    encode,
    load_tokenizer,
    train_tokenizer,
)
from coview.errors import InputError, ResourceError, UsageError
from coview.tabletop import TabletopSource


class ListSource:
    """Scenes from lists of texts, all of the training split; scene i has the id str(i)."""

    split_note = ""

    def __init__(self, texts: Sequence[Sequence[str]], name: str = "list:"):
        self.name = name
        self.rows = [Scene(str(index), tuple(row)) for index, row in enumerate(texts)]

    def scenes(self, split: str | None = None) -> Iterator[Scene]:
        return iter(self.rows if split in (None, "train") else [])


TEXTS = [
    ["a red ball", "the ball, red"],
    ["Ein blauer Würfel!", "un cube bleu", "синий куб"],
    ["青い立方体", "a " * 100, "x"],
]
SOURCE = ListSource(TEXTS)


@pytest.fixture
def store(tmp_path) -> TokenStore:
    return build_store(SOURCE, tmp_path / "cache", vocabulary=200, max_length=12)


def test_the_store_holds_the_tokens_of_every_text_in_order(store):
    flat = [text for row in TEXTS for text in row]
    expected, _ = encode(store.tokenizer, flat, 12)
    assert [store.text(index).tolist() for index in range(len(flat))] == [ids.tolist() for ids in expected]
    assert store.texts_per_scene().tolist() == [2, 3, 3]
    assert store.ids.dtype == np.uint16
    assert store.meta["texts"] == 8
    assert store.meta["scenes"] == 3
    assert store.meta["tokens"] == len(store.ids) == sum(map(len, expected))


def test_the_arrays_stay_on_disk(store):
    assert all(isinstance(array, np.memmap) for array in (store.ids, store.offsets, store.scenes))


def test_what_is_cut_is_counted_and_keeps_its_end(store):
    assert store.meta["truncated_share"] == 1 / 8
    long = store.text(6)
    assert len(long) == 12
    assert (long[0], long[-1]) == (FIRST, LAST)


def test_a_scene_without_texts_takes_no_room(tmp_path):
    store = build_store(ListSource([["a b"], [], ["c"]]), tmp_path, vocabulary=20)
    assert store.texts_per_scene().tolist() == [1, 0, 1]


@given(st.lists(st.lists(st.text(max_size=30), max_size=3), min_size=1, max_size=6))
@settings(max_examples=25)
def test_any_text_at_all(tmp_path_factory, texts):
    source, folder = ListSource(texts), tmp_path_factory.mktemp("cache")
    if not any(texts):
        with pytest.raises(InputError, match="no texts"):
            build_store(source, folder)
        assert not any(folder.iterdir())
        return
    store = build_store(source, folder, vocabulary=60, max_length=8)
    for index in range(store.meta["texts"]):
        text = store.text(index)
        assert 2 <= len(text) <= 8
        assert (text[0], text[-1]) == (FIRST, LAST)


def test_texts_in_parts_are_stored_as_in_one(tmp_path, monkeypatch):
    source = ListSource([[f"text {i} {j}" for j in range(i % 3)] for i in range(20)])
    whole = build_store(source, tmp_path / "a", vocabulary=60)
    monkeypatch.setattr(tokens, "SCENES_AT_ONCE", 3)
    parts = build_store(source, tmp_path / "b", vocabulary=60)
    assert parts.meta["hash"] == whole.meta["hash"]
    assert all(
        np.array_equal(getattr(whole, name), getattr(parts, name)) for name in ("ids", "offsets", "scenes")
    )


TRAIN_ONE = """
import hashlib
from coview.data.tokens import train_tokenizer
from coview.tabletop import TabletopSource
texts = [text for scene in TabletopSource(scenes=150).scenes("train") for text in scene.texts]
print(hashlib.sha256(train_tokenizer(lambda: texts, 500).to_str().encode()).hexdigest())
"""


def test_a_tokenizer_is_the_same_in_every_process():
    """The library's own trainer numbers letters by the order of a hash table, so its result varies."""
    made = {subprocess.check_output([sys.executable, "-c", TRAIN_ONE]) for _ in range(2)}
    texts = [text for scene in TabletopSource(scenes=150).scenes("train") for text in scene.texts]
    one, other = (train_tokenizer(lambda: texts, 500).to_str() for _ in range(2))
    assert one == other
    assert len(made) == 1


def test_a_trained_tokenizer_is_as_large_as_asked_for():
    texts = [text for scene in TabletopSource(scenes=100).scenes("train") for text in scene.texts]
    tokenizer = train_tokenizer(lambda: texts, 300)
    assert tokenizer.get_vocab_size() == 300
    assert sorted(tokenizer.get_vocab().values()) == list(range(300))
    assert [tokenizer.token_to_id(word) for word in SPECIAL] == [0, 1, 2, 3, 4]
    ids = tokenizer.encode(texts[0]).ids
    assert 1 not in ids
    assert tokenizer.decode(ids).replace(" ", "") == texts[0].lower().replace(" ", "")


def test_words_never_seen_are_spelt_out_and_letters_never_seen_are_unknown():
    tokenizer = train_tokenizer(lambda: ["abc cab", "bca"], 30)
    assert tokenizer.encode("accb").tokens[1] != "[UNK]"
    assert tokenizer.encode("xyz").tokens == ["[CLS]", "[UNK]", "[SEP]"]


def test_a_store_is_made_once(tmp_path, monkeypatch):
    first = build_store(SOURCE, tmp_path, vocabulary=200)
    monkeypatch.setattr(tokens, "_write_store", None)
    again = build_store(ListSource(TEXTS, name="another name"), tmp_path, vocabulary=200)
    assert again.meta == first.meta


@pytest.mark.parametrize("change", ["texts", "vocabulary", "max_length", "tokenizer"])
def test_a_store_of_something_else_is_not_taken_for_it(tmp_path, change):
    first = build_store(SOURCE, tmp_path, vocabulary=200)
    source, options = SOURCE, {"vocabulary": 200}
    if change == "texts":
        source = ListSource([*TEXTS[:2], ["more", "texts"]])
    elif change == "tokenizer":
        options = {"tokenizer": train_tokenizer(lambda: ["abc"], 50)}
    else:
        options |= {change: 50}
    other = build_store(source, tmp_path, **options)
    assert other.meta["key"] != first.meta["key"]
    assert len(list(tmp_path.iterdir())) == 2
    assert (
        first.text(0).tolist()
        == TokenStore.open(tmp_path / tokens.hash_json(first.meta["key"])).text(0).tolist()
    )


def test_moving_a_text_to_another_scene_changes_the_hash_of_the_source():
    one, other = ListSource([["a", "b"], ["c"]]), ListSource([["a"], ["b", "c"]])
    assert tokens.source_hash(one, "train") != tokens.source_hash(other, "train")


def test_the_content_hash_tells_scenes_apart(tmp_path):
    """The same texts in the same order, grouped otherwise: a run must not resume on it."""
    options = {"tokenizer": train_tokenizer(lambda: ["a b c"], 30)}
    one = build_store(ListSource([["a", "b"], ["c"]]), tmp_path, **options)
    other = build_store(ListSource([["a"], ["b", "c"]]), tmp_path, **options)
    assert one.meta["hash"] != other.meta["hash"]


def test_an_interrupted_store_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(tokens, "encode", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build_store(SOURCE, tmp_path)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("number", "expected", "words"),
    [(errno.ENOSPC, ResourceError, "disk is full"), (errno.EROFS, UsageError, "cannot be written")],
)
def test_a_full_or_read_only_disk(tmp_path, monkeypatch, number, expected, words):
    def refuse(*arguments, **options):
        raise OSError(number, "refused")

    monkeypatch.setattr(tokens.np, "save", refuse)
    with pytest.raises(expected, match=words):
        build_store(SOURCE, tmp_path)
    assert not any(tmp_path.iterdir())


def test_a_cache_inside_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file: it is a file"):
        build_store(SOURCE, tmp_path / "file" / "cache")


def test_another_process_may_make_the_same_store_meanwhile(tmp_path):
    written = build_store(SOURCE, tmp_path / "other", vocabulary=50)
    name = next((tmp_path / "other").iterdir()).name

    def overtake(line: str) -> None:
        if "encoded" in line:
            (tmp_path / "other" / name).rename(tmp_path / "cache" / name)

    (tmp_path / "cache").mkdir()
    store = build_store(SOURCE, tmp_path / "cache", vocabulary=50, progress=overtake)
    assert store.meta == written.meta
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [name]


@pytest.mark.parametrize("name", ["ids.npy", "offsets.npy", "meta.json", "tokenizer.json"])
def test_a_damaged_store_is_said_to_be_damaged(tmp_path, name):
    build_store(SOURCE, tmp_path, vocabulary=50)
    (damaged,) = tmp_path.glob(f"*/{name}")
    damaged.write_bytes(damaged.read_bytes()[:20])
    with pytest.raises(InputError) as caught:
        build_store(SOURCE, tmp_path, vocabulary=50)
    assert str(damaged.parent) in caught.value.where


def test_a_split_without_texts_is_an_error(tmp_path):
    with pytest.raises(InputError, match="the val split has no texts"):
        build_store(SOURCE, tmp_path, split="val")
    assert not any(tmp_path.iterdir())


def test_a_tokenizer_from_a_file(tmp_path, store):
    store.tokenizer.enable_padding(length=50)
    store.tokenizer.enable_truncation(3)
    store.tokenizer.save(str(tmp_path / "tokenizer.json"))
    loaded = load_tokenizer(tmp_path / "tokenizer.json")
    assert len(loaded.encode("a red ball").ids) == 5  # neither filled up nor cut
    again = build_store(SOURCE, tmp_path / "cache", tokenizer=loaded, max_length=12)
    assert again.meta["hash"] == store.meta["hash"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no such tokenizer"),
        ("{}", "not a tokenizer"),
        (Tokenizer(BPE()).to_str(), "special tokens"),
    ],
)
def test_what_is_no_tokenizer_is_refused(tmp_path, content, words):
    file = tmp_path / "tokenizer.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(InputError, match=words):
        load_tokenizer(file)


def test_a_tokenizer_that_does_not_frame_texts_is_refused(tmp_path, store):
    document = store.tokenizer.to_str()
    bare = Tokenizer.from_str(document)
    bare.post_processor = None
    bare.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(InputError, match="before a text"):
        load_tokenizer(tmp_path / "tokenizer.json")
