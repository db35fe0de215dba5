"""Texts as tokens on disk: a tokenizer, and a memory-mapped store of every training text.

A store is a folder: ``ids.npy`` (all tokens, end to end), ``offsets.npy`` (where each text begins),
``scenes.npy`` (which text each scene begins with), ``tokenizer.json`` and ``meta.json`` with a content hash.
It appears under its name only when it is whole.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from coview.data.scenes import Scene, Source
from coview.errors import InputError
from coview.runs import atomic_folder, hash_bytes, hash_json, read_json, write_json

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # BERT's; their ids are 0 to 4
PAD, UNKNOWN, FIRST, LAST, MASK = range(5)
SCENES_AT_ONCE = 4_000  # whose texts are encoded together


def train_tokenizer(texts: Callable[[], Iterable[str]], vocabulary: int) -> Tokenizer:
    """A lower-casing WordPiece tokenizer as BERT's, learned from the texts; the same texts give the same one.

    Parameters
    ----------
    texts : called twice, gives all texts
    vocabulary : token types, special tokens included; never fewer than the letters there are
    """
    # The library numbers letters in the order of a hash table, which differs from process to process, and
    # breaks ties between pairs by number. So the letters are learned first, sorted, and given as known.
    letters = sorted(_wordpieces(texts(), 0, []))
    pieces = _wordpieces(texts(), vocabulary, letters)
    model = models.WordPiece(pieces, unk_token=SPECIAL[UNKNOWN], max_input_chars_per_word=100)
    tokenizer = _untrained(model)
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", FIRST), ("[SEP]", LAST)],
    )
    return tokenizer


def _wordpieces(texts: Iterable[str], vocabulary: int, letters: list[str]) -> dict[str, int]:
    """Word pieces and their ids; the special tokens and `letters` come first."""
    first = [*SPECIAL, *(letter for letter in letters if letter not in SPECIAL)]
    tokenizer = _untrained(models.WordPiece(unk_token=SPECIAL[UNKNOWN]))
    trainer = trainers.WordPieceTrainer(vocab_size=vocabulary, special_tokens=first, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer.get_vocab()


def _untrained(model: models.WordPiece) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
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
    tokenizer.no_padding()
    tokenizer.no_truncation()
    ids = tokenizer.encode("a").ids
    if ids[:1] != [FIRST] or ids[-1:] != [LAST]:
        raise InputError("it does not put [CLS] before a text and [SEP] after it.", where=str(source))
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
        """Open a store that `build_store` made; InputError if it is damaged."""
        folder = Path(folder)
        try:
            return cls(
                ids=np.load(folder / "ids.npy", mmap_mode="r"),
                offsets=np.load(folder / "offsets.npy", mmap_mode="r"),
                scenes=np.load(folder / "scenes.npy", mmap_mode="r"),
                meta=read_json(folder / "meta.json"),
                tokenizer=load_tokenizer(folder / "tokenizer.json"),
            )
        except (OSError, ValueError) as error:
            hint = "Delete the folder; it is made again when it is needed."
            raise InputError(f"the token store is damaged: {error}.", where=str(folder), hint=hint) from error

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
    cache: str | Path,
    *,
    split: str = "train",
    tokenizer: Tokenizer | None = None,
    vocabulary: int = 8000,
    max_length: int = 64,
    progress: Callable[[str], None] = lambda line: None,
) -> TokenStore:
    """Encode the texts of one split into a store in `cache`, or open the one that is there.

    A store's folder is named by a hash of all it depends on, so a store is never changed once it is there.

    Parameters
    ----------
    tokenizer : the tokenizer to use; by default one of `vocabulary` types is trained on the split
    progress : called with a line of text now and then

    Raises
    ------
    InputError
        The split has no texts.
    ResourceError, UsageError
        The disk is full, or `cache` cannot be written; nothing is left behind.
    """
    key = {
        "data": source_hash(source, split),
        "tokenizer": hash_bytes(tokenizer.to_str().encode()) if tokenizer else vocabulary,
        "max_length": max_length,
    }
    folder = Path(cache) / hash_json(key)
    if folder.is_dir():
        return TokenStore.open(folder)
    if tokenizer is None:
        progress(f"training a tokenizer of at most {vocabulary:,} types")
        tokenizer = train_tokenizer(
            lambda: (text for scene in source.scenes(split) for text in scene.texts), vocabulary
        )
    with atomic_folder(folder) as temporary:
        meta = _write_store(source.scenes(split), temporary, tokenizer, max_length, progress)
        if not meta["texts"]:
            raise InputError(f"the {split} split has no texts.", where=source.name)
        write_json(temporary / "meta.json", {"key": key, "source": source.name, "split": split, **meta})
    return TokenStore.open(folder)


def _write_store(
    scenes: Iterator[Scene],
    folder: Path,
    tokenizer: Tokenizer,
    max_length: int,
    progress: Callable[[str], None],
) -> dict:
    """Write the arrays of a store, streaming, and return its counts."""
    dtype = np.dtype(np.uint16 if tokenizer.get_vocab_size() <= 2**16 else np.uint32)
    tokenizer.save(str(folder / "tokenizer.json"))
    lengths: list[int] = []
    texts_per_scene: list[int] = []
    cut = 0
    digest = hashlib.sha256()
    with open(folder / "ids.bin", "wb") as stream:
        while batch := list(islice(scenes, SCENES_AT_ONCE)):
            texts_per_scene.extend(len(scene.texts) for scene in batch)
            texts = [text for scene in batch for text in scene.texts]
            encoded, cut_here = encode(tokenizer, texts, max_length)
            cut += cut_here
            for ids in encoded:
                data = ids.astype(dtype).tobytes()
                digest.update(data)
                stream.write(data)
            lengths.extend(map(len, encoded))
            progress(f"{len(lengths):,} texts encoded")
    offsets, tokens = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]), sum(lengths)
    starts = np.concatenate([[0], np.cumsum(texts_per_scene, dtype=np.int64)])
    digest.update(offsets.tobytes() + starts.tobytes())
    flat = (
        np.memmap(folder / "ids.bin", dtype=dtype, mode="r", shape=(tokens,))
        if tokens
        else np.zeros(0, dtype)
    )
    np.save(folder / "ids.npy", flat)
    (folder / "ids.bin").unlink()
    np.save(folder / "offsets.npy", offsets)
    np.save(folder / "scenes.npy", starts)
    return {
        "scenes": len(texts_per_scene),
        "texts": len(lengths),
        "tokens": tokens,
        "vocabulary": tokenizer.get_vocab_size(),
        "truncated_share": cut / max(len(lengths), 1),
        "hash": digest.hexdigest()[:16],
    }
