"""What `joining_real.py` measures on: photos, captions, and text encoders read at a layer chosen on val."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coview.data.readers import open_source
from coview.embeddings import load_embeddings
from coview.encoders import load_encoder
from coview.encoders.encoder import Encoder
from coview.encoders.precomputed import pick_rows
from coview.held_out import HeldOut
from coview.runs import hash_bytes
from coview.study import candidates, neighbours, overlap
from coview.uses.class_list import TEMPLATES, ClassList

K = 10
WORDS = {
    "bag of words, 128": 128,
    "bag of words": 256,
}  # as wide as the arms' embeddings, and coview's default
ARMS = ("good", "bad", "next-token", "good-256", *WORDS)


@dataclass(frozen=True)
class Pack:
    """Photos for zero-shot classification.

    Attributes
    ----------
    images : float32 array of shape (N, D)
    labels : int array of shape (N,)
    classes : ClassList
    """

    images: np.ndarray
    labels: np.ndarray
    classes: ClassList


@dataclass(frozen=True)
class TextSide:
    """A text encoder at the layer it is read at; what it has encoded is kept in a folder."""

    encoder: Encoder
    layer: str
    cache: Path

    def rows(self, texts: Sequence[str]) -> np.ndarray:
        """Rows of texts, shape (len(texts), D)."""
        key = hash_bytes(self.encoder.fingerprint.encode(), self.layer.encode(), "\n".join(texts).encode())
        file = self.cache / f"{key}.npy"
        if not file.is_file():
            self.cache.mkdir(parents=True, exist_ok=True)
            np.save(file, self.encoder.encode(texts, self.layer))
        return np.load(file)


def open_split(flickr8k: str, features: str, split: str, cache: Path) -> HeldOut:
    """Captions and image features of one split of the Flickr8k pack."""
    source = open_source(flickr8k)
    file, names = Path(flickr8k) / f"features_{features}.npy", Path(flickr8k) / "index.txt"
    picked = pick_rows(source, file, cache / f"{features}-{split}.safetensors", names=names, split=split)
    return HeldOut.of(source, split, load_embeddings(picked.path))


def open_text_side(arm: str, seed: int, runs: Path, multi30k: str, val: HeldOut, cache: Path) -> TextSide:
    """An arm's run of a seed, read at the layer with the highest mutual k-NN on the val photos."""
    if arm in WORDS:
        encoder = load_encoder(f"bow:{multi30k},width={WORDS[arm]}")
        return TextSide(encoder, encoder.last, cache)
    encoder = load_encoder(f"run:{runs / f'{arm}-s{seed}'}", device="cpu")
    texts = [val.texts[index] for index in val.one_each(seed)]
    images = neighbours(val.images, K)
    scores = {
        layer: overlap(TextSide(encoder, layer, cache).rows(texts), images, K)
        for layer in candidates(encoder)
    }
    return TextSide(encoder, max(scores, key=lambda layer: scores[layer]), cache)


def open_caltech(folder: Path, features: str) -> Pack:
    """The 100 classes of Caltech: label, and name as words, from labels.jsonl."""
    import json

    records = [json.loads(line) for line in (folder / "labels.jsonl").read_text().splitlines()]
    names = {record["label"]: record["name"] for record in records}
    labels = np.array([record["label"] for record in records])
    images = np.load(folder / f"features_{features}.npy").astype(np.float32)
    return Pack(images, labels, class_list([names[label] for label in range(len(names))]))


def open_imagenet(folder: Path, features: str) -> Pack:
    """One image of each ImageNet class, in the order of the classes."""
    lines = (folder / "classes.tsv").read_text().splitlines()[1:]
    images = np.load(folder / f"features_{features}.npy").astype(np.float32)
    return Pack(images, np.arange(len(lines)), class_list([line.split("\t")[2] for line in lines]))


def class_list(names: list[str]) -> ClassList:
    """Names in coview's templates; two of ImageNet's names stand for two classes each and stay so."""
    texts = tuple(tuple(template.replace("{}", name) for template in TEMPLATES) for name in names)
    return ClassList(tuple(map(str, range(len(names)))), tuple(names), texts)
