"""Scenes that no arm was trained on: their texts, and an embedding of each image to compare with."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coview.data.scenes import Source
from coview.embeddings import Embeddings, load_embeddings
from coview.encoders import load_encoder
from coview.encoders.embed import embed
from coview.encoders.precomputed import is_embedding_file, pick_rows
from coview.errors import InputError

FEWEST = 30  # scenes a study needs of each split
MORE_SCENES = "Name the split of each scene (train, val, test) in the source, or give more scenes."


@dataclass(frozen=True)
class HeldOut:
    """Scenes of one split with their texts and an image embedding each.

    Attributes
    ----------
    texts : list of N_t str, scene by scene
    scene : int array (N_t,), which scene a text describes
    images : float32 array (N, D), one row a scene
    """

    texts: list[str]
    scene: np.ndarray
    images: np.ndarray

    @classmethod
    def of(cls, source: Source, split: str, images: Embeddings) -> "HeldOut":
        """The scenes of a split that have an image embedding and at least two texts; InputError under 30."""
        rows = {name: row for row, name in enumerate(images.scenes or images.ids or ())}
        scenes = [scene for scene in source.scenes(split) if scene.id in rows and len(scene.texts) > 1]
        if len(scenes) < FEWEST:
            raise InputError(
                f"{len(scenes)} {split} scenes have an image embedding and two texts; {FEWEST} are needed.",
                where=source.name,
                hint=MORE_SCENES,
            )
        texts = [text for scene in scenes for text in scene.texts]
        counts = [len(scene.texts) for scene in scenes]
        matrix = np.stack([np.asarray(images.matrix[rows[scene.id]], dtype=np.float32) for scene in scenes])
        return cls(texts, np.repeat(np.arange(len(scenes)), counts), matrix)

    def one_each(self, seed: int) -> np.ndarray:
        """Index of one text of each scene, drawn by seed: files often sort a scene's texts by length."""
        order = np.random.default_rng([seed, 5]).permutation(len(self.texts))
        return order[np.unique(self.scene[order], return_index=True)[1]]

    def means(self, rows: np.ndarray) -> np.ndarray:
        """Mean embedding of each scene's texts, (N_t, D) to (N, D)."""
        sums = np.zeros((len(self.images), rows.shape[1]), dtype=np.float64)
        np.add.at(sums, self.scene, rows)
        return (sums / np.bincount(self.scene)[:, None]).astype(np.float32)


def image_rows(
    source: Source, images: str, ids: Path | None, split: str, out: Path, device: str
) -> Embeddings:
    """Image embeddings of a split by a MODEL or from a file of rows, kept in `out`."""
    target = out / f"image-{split}.safetensors"
    count = sum(len(scene.texts) > 1 for scene in source.scenes(split))
    if count < FEWEST:  # said before hours of embedding, not after
        what = f"{count} {split} scenes have two texts or more; {FEWEST} are needed."
        raise InputError(what, where=source.name, hint=MORE_SCENES)
    if is_embedding_file(images):
        return load_embeddings(
            pick_rows(source, images, target, names=ids, split=split, modality="image").path
        )
    encoder = load_encoder(images, modality="image", device=device)
    return load_embeddings(embed(source, encoder, target, split=split).path)
