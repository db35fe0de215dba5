"""Captions of images: their embeddings, turned into the text encoder's space, read by a decoder of texts.

The decoder has never seen an image. Whatever it is worth shows beside captions that need no decoder at all,
so scores come with those of the nearest training caption, of the most ordinary one, and of other images'.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coview.embeddings import Embeddings
from coview.encoders.trained import TrainedTextEncoder, load_text_encoder
from coview.errors import InputError
from coview.joining.rotation import Rotation, unit_rows
from coview.joining.space import encoder_of, require_space
from coview.pairing import scenes_of
from coview.uses.baselines import central_caption, nearest_captions, shuffled_captions
from coview.uses.caption_scores import CaptionScores, score_captions
from coview.uses.captioner import Captioner, prepared
from coview.uses.generation import Search, write
from coview.uses.memory import project


@dataclass(frozen=True)
class Memory:
    """The captioner's training texts.

    Attributes
    ----------
    texts : list of N str
    raw : float array (N, D), their rows as the encoder gave them
    rows : float32 array (N, D), prepared as the decoder saw them
    """

    texts: list[str]
    raw: np.ndarray
    rows: np.ndarray

    @classmethod
    def of(cls, captioner: Captioner) -> "Memory":
        """The memory that lies in the captioner's run folder; InputError if it does not."""
        found, texts = captioner.memory()
        return cls(texts, found.matrix, prepared(found.matrix, captioner.mean))


def rows_of_images(
    captioner: Captioner, rotation: Rotation, images: Embeddings, *, where: str, rotation_file: str
) -> np.ndarray:
    """Embeddings of images (N, D) in the captioner's space, as its decoder reads them.

    Parameters
    ----------
    where, rotation_file : what the images and the rotation are called in messages

    Raises
    ------
    InputError
        The images are not of the rotation's space, perhaps mapped already, or the rotation leads to another
        text encoder's.
    """
    fitted = rotation.manifest.get("x", {}).get("encoder")
    if "mapped" in images.manifest and encoder_of(images.manifest) != fitted:
        what = f"these rows are mapped already, to {images.manifest['model']}."
        raise InputError(what, where=where, hint="Leave out --rotation.")
    require_space(rotation.manifest.get("x", {}), rotation.mean_x, images, where)
    texts, _ = captioner.memory()
    here, there = encoder_of(texts.manifest), rotation.manifest.get("y", {}).get("encoder")
    if len(rotation.mean_y) != len(captioner.mean) or (here and there and here != there):
        raise InputError(
            f"the rotation leads to {rotation.manifest.get('y', {}).get('model')}, "
            f"the captioner was trained on {texts.manifest.get('model')}.",
            where=rotation_file,
            hint="Fit a rotation to that encoder's texts: coview rotate fit IMAGES TEXTS.",
        )
    return rotation.map(images.matrix)


def rows_of_texts(captioner: Captioner, texts: Embeddings, *, where: str) -> np.ndarray:
    """Embeddings of texts (N, D), or rows mapped to them by `apply_rotation`, as the decoder reads them.

    Raises
    ------
    InputError
        They are another encoder's, or mapped to another's.
    """
    own, _ = captioner.memory()
    here, theirs = encoder_of(own.manifest), encoder_of(texts.manifest)
    if mapped := texts.manifest.get("mapped"):
        theirs = mapped.get("encoder")
        if texts.matrix.shape[1] != len(captioner.mean) or (here and theirs and here != theirs):
            what = (
                f"mapped to {texts.manifest['model']}, and the captioner reads {own.manifest.get('model')}."
            )
            hint = "Give the rows as they were before, and the rotation as --rotation."
            raise InputError(what, where=where, hint=hint)
        is_centred = mapped["into"] == "centred"
        return unit_rows(texts.matrix) if is_centred else prepared(texts.matrix, captioner.mean)
    if texts.matrix.ndim != 2 or texts.matrix.shape[1] != len(captioner.mean):
        what = f"rows of {texts.matrix.shape[1:]} numbers, and the captioner reads {len(captioner.mean)}."
        raise InputError(what, where=where, hint="Rows of images need --rotation.")
    if here and theirs and here != theirs:
        what = f"made by {texts.manifest.get('model')}, and the captioner reads {own.manifest.get('model')}."
        raise InputError(what, where=where, hint="Rows of images need --rotation.")
    return prepared(texts.matrix, captioner.mean)


def seen_in_training(captioner: Captioner, rotation: Rotation | None, images: Embeddings) -> int:
    """How many rows show a scene whose texts the decoder has read, or that the rotation was fitted on.

    By the names of scenes; 0 where the rows have none.
    """
    scenes = scenes_of(images)
    read = set(scenes_of(captioner.memory()[0]))
    seen = np.array([scene in read for scene in scenes], dtype=bool)
    if rotation is not None:
        seen |= rotation.was_fitted_on(scenes)
    return int(seen.sum())


def captions_of(
    captioner: Captioner,
    rows: np.ndarray,
    search: Search,
    *,
    memory: Memory | None = None,
    temperature: float | None = None,
    count: int = 1,
    progress: Callable[[int], None] = lambda done: None,
) -> list[list[str]]:
    """Captions for rows in the captioner's space, the best first.

    Parameters
    ----------
    rows : float array (N, D), see `rows_of_images`
    temperature : of the projection on `memory`; None for none
    count : captions a row

    Returns
    -------
    list of N lists of str
    """
    if temperature is not None:
        assert memory is not None
        rows = project(rows, memory.rows, temperature)
    device = next(captioner.decoder.parameters()).device
    return write(
        captioner.decoder, rows, search, captioner.text, count=count, device=device, progress=progress
    )


def load_reader(captioner: Captioner, run: str | Path, *, device: str = "cpu") -> TrainedTextEncoder:
    """The text encoder that the captioner was trained with; InputError if the run is another's."""
    encoder = load_text_encoder(run, device=device)
    texts, _ = captioner.memory()
    if texts.manifest.get("fingerprint") not in (None, encoder.fingerprint):
        raise InputError(
            f"the captioner was trained with another text encoder, {texts.manifest.get('model')}.",
            where=str(run),
            hint="Give the run folder of that one.",
        )
    return encoder


def nearest_first(
    captioner: Captioner, encoder: TrainedTextEncoder, rows: np.ndarray, captions: Sequence[Sequence[str]]
) -> list[list[str]]:
    """The captions of each row by the cosine of their own embedding to it, the nearest first.

    A decoder prefers what is common; the encoder that made the embedding can tell what it meant. (Candidates
    are ranked by CLIP in the same way in much of the literature.)

    Parameters
    ----------
    rows : float array (N, D), what the captions were written from
    captions : of each row, such as `captions_of` gives with a larger `count`
    """
    flat = [text for texts in captions for text in texts]
    cosines = prepared(encoder.encode(flat), captioner.mean)
    cosines = (cosines * np.repeat(rows, [len(texts) for texts in captions], axis=0)).sum(axis=1)
    ordered, first = [], 0
    for texts in captions:
        order = np.argsort(-cosines[first : first + len(texts)], kind="stable")
        ordered.append([texts[place] for place in order])
        first += len(texts)
    return ordered


def scores_beside_baselines(
    captions: Sequence[str],
    rows: np.ndarray,
    memory: Memory,
    references: Sequence[Sequence[str]],
    *,
    seed: int = 0,
) -> dict[str, CaptionScores]:
    """Scores of captions and of what they are to be compared with, by name.

    Parameters
    ----------
    captions : N captions, of the decoder
    rows : float array (N, D), what they were written from, before any projection
    references : of each of the N, its reference captions
    """
    candidates = {
        "decoder": list(captions),
        "nearest training caption": nearest_captions(rows, memory.rows, memory.texts),
        "most central caption": [central_caption(memory.raw, memory.texts)] * len(captions),
    }
    if len(captions) > 1:
        candidates["captions of other images"] = shuffled_captions(captions, seed=seed)
    return {name: score_captions(texts, references, seed=seed) for name, texts in candidates.items()}
