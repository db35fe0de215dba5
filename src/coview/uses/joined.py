"""A text encoder and images joined by a rotation: which of them is X, and their rows in one space."""

from dataclasses import dataclass

import numpy as np

from coview.embeddings import Embeddings
from coview.encoders.encoder import Encoder
from coview.encoders.frozen import FAMILIES, load_encoder
from coview.errors import InputError, UsageError
from coview.joining.rotation import Rotation
from coview.joining.space import lies_in


@dataclass(frozen=True)
class Joined:
    """Texts and images in one space.

    Attributes
    ----------
    rotation : Rotation
    encoder : Encoder of texts
    layer : where it is read
    texts_are_mapped : whether the rotation maps texts to images; else it maps images to texts
    """

    rotation: Rotation
    encoder: Encoder
    layer: str
    texts_are_mapped: bool

    def texts(self, texts: list[str]) -> np.ndarray:
        """Unit rows of texts in the common space, float32 (len(texts), D); zero where no word is known."""
        rows = self.encoder.encode(texts, self.layer)
        joined = self.rotation.map(rows) if self.texts_are_mapped else self.rotation.target(rows)
        return joined * rows.any(axis=1, keepdims=True)

    def query(self, text: str) -> np.ndarray:
        """The unit row of one text, (D,).

        Raises
        ------
        InputError
            The encoder knows no word of it, so that its row would say nothing.
        """
        row = self.texts([text])[0]
        if not row.any():
            raise InputError(f"{self.encoder.name} knows no word of {text!r}.", hint="Say it in other words.")
        return row

    def images(self, rows: np.ndarray) -> np.ndarray:
        """Unit rows of images in the common space, from their embeddings."""
        return self.rotation.target(rows) if self.texts_are_mapped else self.rotation.map(rows)


def load_text_encoder(model: str, device: str = "auto") -> Encoder:
    """The text encoder of a run folder, or of any MODEL."""
    is_family = model.partition(":")[0] in FAMILIES and ":" in model
    return load_encoder(model if is_family else f"run:{model}", modality="text", device=device)


def join(rotation: Rotation, encoder: Encoder, images: Embeddings) -> Joined:
    """Find out which side of a rotation is the encoder's, and check that both are what it was fitted on.

    Parameters
    ----------
    rotation : Rotation
    encoder : Encoder of texts
        It is read at the layer the rotation was fitted on, if the rotation knows; else at its last.
    images : Embeddings of the index

    Raises
    ------
    InputError
        The rotation was fitted on other spaces.
    UsageError
        Neither encoders nor widths nor means tell which side is which.
    """
    means = {"x": rotation.mean_x, "y": rotation.mean_y}
    fits = []
    for texts, other in (("x", "y"), ("y", "x")):
        layer = _layer(rotation.manifest.get(texts, {}), encoder, len(means[texts]))
        if layer and lies_in(rotation.manifest.get(other, {}), means[other], images):
            fits.append((texts, layer))
    if not fits:
        known = " and ".join(
            f"{rotation.manifest.get(side, {}).get('model') or 'rows of unknown origin'} ({len(mean)} wide)"
            for side, mean in means.items()
        )
        raise InputError(
            f"the rotation joins {known}; these are {encoder.name} ({encoder.width} wide) and images by "
            f"{images.manifest.get('model') or 'an unknown model'} ({images.matrix.shape[-1]} wide).",
            hint="Fit one for these two: coview rotate fit TEXTS IMAGES.",
        )
    if len(fits) > 1:
        raise UsageError(
            "which side of the rotation are the texts? Both have one width, and no file says its encoder.",
            hint="Fit it on files that coview embed wrote.",
        )
    side, layer = fits[0]
    return Joined(rotation, encoder, layer, texts_are_mapped=side == "x")


def _layer(facts: dict, encoder: Encoder, width: int) -> str | None:
    """The layer at which the encoder gives the rows of one side of a rotation, or None if it does not."""
    if facts.get("encoder"):
        fingerprint, _, layer = facts["encoder"].partition("|")
        return (layer or encoder.last) if fingerprint == encoder.fingerprint else None
    return encoder.last if encoder.width == width else None
