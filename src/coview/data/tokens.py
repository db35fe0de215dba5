"""Texts as tokens on disk: a tokenizer, and a memory-mapped store of every training text.

A store is a folder: ``ids.npy`` (all tokens, end to end), ``offsets.npy`` (where each text begins),
``scenes.npy`` (which text each scene begins with), ``tokenizer.json`` and ``meta.json`` with a content hash.
It appears under its name only when it is whole.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from coview.data.scenes import Scene, Source
from coview.errors import InputError
from coview.runs import read_json, write_json

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # BERT's; their ids are 0 to 4
PAD, UNKNOWN, FIRST, LAST, MASK = range(5)
CHUNK = 20_000  # texts encoded at once


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """A lower-casing WordPiece tokenizer as BERT's, learned from `texts`."""
    from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary, special_tokens=list(SPECIAL), show_progress=False, continuing_subword_prefix="##"
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer


def load_tokenizer(source: str | Path) -> Tokenizer:
    """A tokenizer from a ``tokenizer.json``; InputError if it is missing or lacks BERT's special tokens."""
    source = Path(source)
    if not source.is_file():
        raise InputError("there is no such tokenizer file.", where=str(source), hint="Give a tokenizer.json.")
    try:
        tokenizer = Tokenizer.from_file(str(source))
    except Exception as error:  # the library raises bare Exception
        raise InputError(f"not a tokenizer: {error}.", where=str(source)) from error
    if [tokenizer.token_to_id(token) for token in SPECIAL] != list(range(len(SPECIAL))):
        raise InputError(
            f"its special tokens are not {', '.join(SPECIAL)} with ids 0 to 4.",
            where=str(source),
            hint="Leave the option out to train a tokenizer on the texts.",
        )
    return tokenizer


def encode(tokenizer: Tokenizer, texts: list[str], max_length: int) -> tuple[list[np.ndarray], int]:
    """Token ids of each text, special tokens included, and how many texts were cut to `max_length`.

    A text that is cut keeps its closing token.
    """
    lists = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    cut = sum(len(ids) > max_length for ids in lists)
    lists = [ids if len(ids) <= max_length else [*ids[: max_length - 1], LAST] for ids in lists]
    return [np.array(ids, dtype=np.int32) for ids in lists], cut


@dataclass(frozen=True)
class TokenStore:
    """The tokens of every text of a split, memory-mapped.

    Attributes
    ----------
    ids : (tokens,) uint16 or uint32
    offsets : (texts + 1,) int64, text t is ``ids[offsets[t]:offsets[t + 1]]``
    scenes : (scenes + 1,) int64, scene s has the texts ``scenes[s]`` to ``scenes[s + 1]``
    meta : counts, content hash, share of texts that were cut
    tokenizer : the tokenizer that made the ids
    """

    ids: np.ndarray
    offsets: np.ndarray
    scenes: np.ndarray
    meta: dict
    tokenizer: Tokenizer

    @classmethod
    def open(cls, folder: str | Path) -> "TokenStore":
        folder = Path(folder)
        arrays = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("ids", "offsets", "scenes"))
        return cls(*arrays, read_json(folder / "meta.json"), Tokenizer.from_file(str(folder / "tokenizer.json")))

    def text(self, index: int) -> np.ndarray:
        """The tokens of one text."""
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def texts_per_scene(self) -> np.ndarray:
        """Number of texts of each scene, shape (scenes,)."""
        return np.diff(self.scenes)


def source_hash(source: Source, split: str) -> str:
    """Hash of the scene ids and texts of one split, in order."""
    digest = hashlib.sha256()
    for scene in source.scenes(split):
        digest.update("\x1f".join((scene.id, *scene.texts)).encode() + b"\x1e")
    return digest.hexdigest()[:16]


def build_store(
    source: Source,
    folder: str | Path,
    *,
    split: str = "train",
    tokenizer: Tokenizer | None = None,
    vocabulary: int = 8000,
    max_length: int = 64,
    progress: Callable[[str], None] = lambda line: None,
) -> TokenStore:
    """Encode the texts of one split into a store at `folder`; an equal store that is there already is reused.

    Parameters
    ----------
    tokenizer : the tokenizer to use; by default one of `vocabulary` types is trained on the split
    progress : called with a line of text now and then

    Raises
    ------
    InputError
        The split has no texts.
    """
    folder = Path(folder)
    key = {
        "data": source_hash(source, split),
        "tokenizer": hashlib.sha256(tokenizer.to_str().encode()).hexdigest()[:16] if tokenizer else vocabulary,
        "max_length": max_length,
    }
    if (folder / "meta.json").is_file() and read_json(folder / "meta.json").get("key") == key:
        return TokenStore.open(folder)
    if tokenizer is None:
        progress(f"training a tokenizer of at most {vocabulary:,} types")
        tokenizer = train_tokenizer((text for scene in source.scenes(split) for text in scene.texts), vocabulary)
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        meta = _write_store(source.scenes(split), temporary, tokenizer, max_length, progress)
        if not meta["texts"]:
            raise InputError(f"the {split} split has no texts.", where=source.name)
        write_json(temporary / "meta.json", {"key": key, "source": source.name, "split": split, **meta})
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return TokenStore.open(folder)


def _write_store(
    scenes: Iterator[Scene], folder: Path, tokenizer: Tokenizer, max_length: int, progress: Callable[[str], None]
) -> dict:
    """Write the arrays of a store, streaming, and return its counts."""
    dtype = np.dtype(np.uint16 if tokenizer.get_vocab_size() <= 2**16 else np.uint32)
    tokenizer.save(str(folder / "tokenizer.json"))
    lengths: list[np.ndarray] = []
    texts_per_scene: list[int] = []
    cut = 0
    with open(folder / "ids.bin", "wb") as stream:
        while batch := list(islice(scenes, CHUNK // 5)):
            texts = [text for scene in batch for text in scene.texts]
            texts_per_scene.extend(len(scene.texts) for scene in batch)
            encoded, cut_here = encode(tokenizer, texts, max_length)
            cut += cut_here
            for ids in encoded:
                stream.write(ids.astype(dtype).tobytes())
            lengths.append(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)))
            progress(f"{sum(map(len, lengths)):,} texts encoded")
    offsets = np.concatenate([[0], np.cumsum(np.concatenate([np.zeros(0, np.int64), *lengths]))])
    tokens = int(offsets[-1])
    flat = np.memmap(folder / "ids.bin", dtype=dtype, mode="r", shape=(tokens,)) if tokens else np.zeros(0, dtype)
    np.save(folder / "ids.npy", flat)
    (folder / "ids.bin").unlink()
    np.save(folder / "offsets.npy", offsets)
    np.save(folder / "scenes.npy", np.concatenate([[0], np.cumsum(texts_per_scene, dtype=np.int64)]))
    texts = len(offsets) - 1
    return {
        "scenes": len(texts_per_scene),
        "texts": texts,
        "tokens": tokens,
        "vocabulary": tokenizer.get_vocab_size(),
        "truncated_share": cut / max(texts, 1),
        "hash": hashlib.sha256(flat.tobytes() + offsets.tobytes()).hexdigest()[:16],
    }
