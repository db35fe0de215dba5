"""The data of the Platonic Representation Hypothesis: `minhuh/prh`, 1,024 images of Wikipedia with texts.

Huh, Cheung, Wang and Isola (2024). Each subset is a revision of the repository, not a configuration;
``wit_1024`` is the published one. A row's `text` lists its caption, the page's and the section's description;
the published scores use the caption alone.
"""

from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from coview.data.images import image_size, open_image
from coview.data.scenes import Scene
from coview.encoders.frozen import require, split_options
from coview.errors import InputError, MissingError, UsageError, did_you_mean

if TYPE_CHECKING:
    from PIL.Image import Image

SCHEME = "prh:"
REPOSITORY, PUBLISHED = "minhuh/prh", "wit_1024"
TEXTS = ("caption", "all")


class PrhSource:
    """Rows of `minhuh/prh` as scenes, all of the test split, in the repository's order.

    Parameters
    ----------
    name : the SRC that opened it
    texts : a list of texts a row, the caption first
    image : gives the encoded image of a row, by its index
    kept : ``caption`` or ``all``, which of the texts are kept
    """

    split_note = ""

    def __init__(
        self, name: str, texts: Sequence[Sequence[str]], image: Callable[[int], bytes], kept: str = "caption"
    ):
        self.name, self.texts, self.image, self.kept = name, texts, image, kept

    def scenes(self, split: str | None = None) -> Iterator[Scene]:
        if split not in (None, "test"):
            return
        for index, texts in enumerate(self.texts):
            if not texts or not (texts[0] or "").strip():
                raise InputError("the row has no caption.", where=f"{self.name} row {index}")
            kept = texts[:1] if self.kept == "caption" else [text for text in texts if (text or "").strip()]
            name = f"{index:05d}"
            yield Scene(name, tuple(kept), name, "test", where=f"{self.name} row {index}")

    def open_image(self, scene: Scene) -> "Image":
        return open_image(BytesIO(self.image(int(scene.id))), scene.where)

    def image_size(self, scene: Scene) -> tuple[int, int]:
        """Width and height of a scene's image, from its header."""
        return image_size(BytesIO(self.image(int(scene.id))), scene.where)


def open_prh(src: str) -> PrhSource:
    """Open ``prh:[REVISION-or-FOLDER][,texts=caption|all]``.

    Parameters
    ----------
    src : str
        Without a revision ``wit_1024`` is meant. A folder is a copy of the repository, for a machine that
        cannot reach the hub.

    Raises
    ------
    MissingError
        The package `datasets` or the data is not there.
    InputError
        The data has no columns `text` and `image`.
    """
    where, options = split_options(src.removeprefix(SCHEME), ("texts",))
    kept = options.get("texts", "caption")
    if kept not in TEXTS:
        raise UsageError(f"there are no texts {kept!r}.", where=src, hint=did_you_mean(kept, TEXTS))
    datasets = require("datasets", "hub")
    try:
        if Path(where).is_dir() and where:
            table = datasets.load_dataset(where, split="train")
        else:
            table = datasets.load_dataset(REPOSITORY, revision=where or PUBLISHED, split="train")
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).split("\n", 1)[0]
        fetch = (
            f"hf download {REPOSITORY} --repo-type dataset --revision {where or PUBLISHED} --local-dir prh"
        )
        raise MissingError(
            f"the data is not here and could not be fetched: {reason}",
            where=src,
            hint=f"Where there is a network: {fetch}; then give prh:FOLDER.",
        ) from error
    missing = {"text", "image"} - set(table.column_names)
    if missing:
        found = ", ".join(table.column_names)
        raise InputError(f"there is no column {missing.pop()!r}; found {found}.", where=src)
    # Encoded images: coview's own reader decodes them, with its limits on format and size.
    encoded = table.cast_column("image", datasets.Image(decode=False))

    def image(index: int) -> bytes:
        cell = encoded[index]["image"]
        return cell["bytes"] if cell["bytes"] is not None else Path(cell["path"]).read_bytes()

    return PrhSource(src, table["text"], image, kept)
