"""n-grams of captions as integers: counted in all texts at once, compared, and found in a corpus.

Counts are sparse rows sorted by text, so that a score of captions is a sum over rows.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from coview.errors import InputError
from coview.runs import read_json, write_json
from coview.uses.caption_tokens import tokeniser

ORDERS = 4  # n-grams of 1 to 4 words
SCHEMA = "coview.document-frequencies/1"


@dataclass(frozen=True)
class DocumentFrequencies:
    """In how many images' references an n-gram occurs: what makes rare words count more in CIDEr-D.

    Attributes
    ----------
    images : number of images counted
    counts : n-gram, its words joined by spaces -> number of images
    tokens : the tokeniser, a key of `caption_tokens.TOKENISERS`
    """

    images: int
    counts: dict[str, int]
    tokens: str


def document_frequencies(references: Sequence[Sequence[str]], *, tokens: str = "ptb") -> DocumentFrequencies:
    """Count in how many images' references each n-gram occurs."""
    texts = CaptionTexts.of([""] * len(references), references, tokens)
    counted: dict[str, int] = {}
    for order in count_ngrams(texts.words):
        counted.update(zip(order.names(texts.words), find_overlap(texts, order).images.tolist(), strict=True))
    return DocumentFrequencies(len(references), counted, tokens)


def save_frequencies(target: str | Path, frequencies: DocumentFrequencies) -> None:
    """Write document frequencies as one JSON object."""
    write_json(target, {"schema": SCHEMA, **vars(frequencies)})


def load_frequencies(source: str | Path) -> DocumentFrequencies:
    """Read document frequencies; InputError if the file holds anything else."""
    if _holds_references(Path(source)):
        hint = f"Count them first: coview caption df {source} --out FILE"
        raise InputError("these are references, and no document frequencies.", where=str(source), hint=hint)
    document = read_json(source)
    images, counts, tokens = (document.get(name) for name in ("images", "counts", "tokens"))
    is_whole = document.get("schema") == SCHEMA and type(images) is int and isinstance(tokens, str)
    if not is_whole or not isinstance(counts, dict):
        raise InputError(
            "these are no document frequencies.",
            where=str(source),
            hint="Make them with: coview caption df REFS --out FILE",
        )
    for gram, count in counts.items():
        if type(count) is not int or not 1 <= count <= images:
            raise InputError(f"{gram!r} cannot occur in {count} of {images} images.", where=str(source))
    return DocumentFrequencies(images, counts, tokens)


def _holds_references(source: Path) -> bool:
    """Whether the first line is a row of references."""
    try:
        with open(source, encoding="utf-8") as stream:
            row = json.loads(stream.readline())
    except (OSError, ValueError):
        return False
    return isinstance(row, dict) and "captions" in row


class CaptionTexts(NamedTuple):
    """Candidates and references as one list of tokenised texts, candidates first.

    Attributes
    ----------
    words : the tokens of each text, N candidates and R references
    image : ndarray of shape (R,), which candidate a reference belongs to; not decreasing
    """

    words: list[list[str]]
    image: np.ndarray

    @classmethod
    def of(
        cls, candidates: Sequence[str], references: Sequence[Sequence[str]], tokens: str
    ) -> "CaptionTexts":
        sizes = [len(captions) for captions in references]
        if isinstance(references, str) or 0 in sizes:
            raise InputError(f"image {sizes.index(0)} has no reference caption.")
        split = tokeniser(tokens)
        words = [split(text) for text in candidates]
        words += [split(text) for captions in references for text in captions]
        return cls(words, np.repeat(np.arange(len(sizes)), sizes))

    @property
    def images(self) -> int:
        return len(self.words) - len(self.image)

    def pairs(self) -> Iterator[tuple[list[str], list[list[str]]]]:
        """Each candidate with its references."""
        ends = (self.images + np.cumsum(np.bincount(self.image))).tolist()
        starts = [self.images, *ends]
        for image, (start, end) in enumerate(zip(starts, ends, strict=False)):
            yield self.words[image], self.words[start:end]

    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """Words of each candidate (N,) and of each reference (R,)."""
        lengths = np.fromiter(map(len, self.words), np.int64, len(self.words))
        return lengths[: self.images], lengths[self.images :]


class NGramCounts(NamedTuple):
    """n-grams of one order in all texts: entry i says that text[i] holds gram[i] count[i] times.

    Attributes
    ----------
    order : words an n-gram
    text, gram, count : integer ndarrays of one length, sorted by text, then by gram
    first : ndarray of shape (G,), a place in the concatenated texts where each gram stands
    """

    order: int
    text: np.ndarray
    gram: np.ndarray
    count: np.ndarray
    first: np.ndarray

    def names(self, texts: list[list[str]]) -> list[str]:
        """The grams as words joined by spaces."""
        words = [word for text in texts for word in text]
        return [" ".join(words[place : place + self.order]) for place in self.first.tolist()]


def count_ngrams(texts: list[list[str]]) -> list[NGramCounts]:
    """Counts of the n-grams of order 1 to 4 in tokenised texts.

    An n-gram is named by a number: that of its first n - 1 words times the vocabulary, plus its last word.
    """
    flat = [word for text in texts for word in text]
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(flat))}
    words = np.fromiter(map(vocabulary.__getitem__, flat), np.int64, len(flat))
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    text = np.repeat(np.arange(len(texts)), lengths)
    left = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(words))  # words to the end of the text
    counted, start, gram = [], np.arange(len(words)), np.zeros(len(words), np.int64)
    for order in range(1, ORDERS + 1):
        fits = left[start] >= order
        start, gram = start[fits], gram[fits] * len(vocabulary) + words[start[fits] + order - 1]
        _, first, gram = np.unique(gram, return_index=True, return_inverse=True)
        keys, count = np.unique(text[start] * len(first) + gram, return_counts=True)
        owner, named = np.divmod(keys, max(1, len(first)))
        counted.append(NGramCounts(order, owner, named, count, start[first]))
    return counted


class Overlap(NamedTuple):
    """Which n-grams candidates and their references share.

    Attributes
    ----------
    reference, candidate : ndarrays of shape (M,), entries of a reference and of its candidate with one gram
    images : ndarray of shape (G,), the images whose references hold each gram
    """

    reference: np.ndarray
    candidate: np.ndarray
    images: np.ndarray


def find_overlap(texts: CaptionTexts, counts: NGramCounts) -> Overlap:
    grams = len(counts.first)
    split = np.searchsorted(counts.text, texts.images)  # where the entries of references begin
    held = counts.text[:split] * grams + counts.gram[:split]
    wanted = texts.image[counts.text[split:] - texts.images] * grams + counts.gram[split:]
    place = np.searchsorted(held, wanted)
    shared = np.flatnonzero(np.append(held, -1)[place] == wanted)
    # Asked for counts, NumPy sorts; asked for the values alone it hashes, which takes many times as long.
    distinct, _ = np.unique(wanted, return_counts=True)
    images = np.bincount(distinct % max(1, grams), minlength=grams)
    return Overlap(split + shared, place[shared], images)
