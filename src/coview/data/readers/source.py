"""What all sources made of files share: splits, images looked up in stores, and what to do with a bad row."""

import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NoReturn

from PIL.Image import Image

from coview.data.images import image_size, open_image
from coview.data.readers.stores import FolderStore, Store
from coview.data.scenes import SPLIT_WORDS, SPLITS, Scene
from coview.errors import InputError, UsageError, did_you_mean

OnProblem = Callable[[InputError], None]


def refuse(problem: InputError) -> NoReturn:
    """What a reader does with a bad row unless told otherwise: it stops."""
    raise problem


class ImageMissing(InputError):
    """A scene names an image that is in none of its source's stores."""


class FileSource:
    """Scenes from files; a subclass says how in `_read`.

    Parameters
    ----------
    name : the SRC that opened it
    stores : where its images are looked up, in this order
    split_note : one sentence if the splits are not the source's own, else ""
    on_problem : called with an InputError for each bad row, which is then left out; raises it by default.
        What makes the rest unreadable (a broken gzip, bytes that are not UTF-8) is raised in any case.
    """

    def __init__(
        self, name: str, stores: Sequence[Store] = (), *, split_note: str = "", on_problem: OnProblem = refuse
    ):
        self.name, self.stores = name, stores
        self.split_note, self.on_problem = split_note, on_problem

    def _read(self, split: str | None) -> Iterator[Scene]:
        """All scenes; those of other splits than the wanted one may be left out where that saves work."""
        raise NotImplementedError

    def scenes(self, split: str | None = None) -> Iterator[Scene]:
        """The scenes of one split, or of all splits, in the order of the file.

        Raises
        ------
        InputError
            Naming file and row of what is broken.
        """
        if split is not None and split not in SPLITS:
            raise UsageError(f"there is no split {split!r}.", hint=did_you_mean(split, SPLITS))
        return (scene for scene in self._read(split) if split is None or scene.split == split)

    def open_image(self, scene: Scene) -> Image:
        """The scene's image, decoded to RGB; InputError if it is missing, truncated, broken or too large."""
        with self._find_image(scene) as stream:
            return open_image(stream, where=_image_place(scene))

    def image_size(self, scene: Scene) -> tuple[int, int]:
        """Width and height of the scene's image from its header; InputError as for `open_image`."""
        with self._find_image(scene) as stream:
            return image_size(stream, where=_image_place(scene))

    def has_images(self) -> bool:
        """Whether any image is at hand; without one, image names are taken as no more than ids."""
        return any(store.has_images() for store in self.stores)

    def outside(self, scene: Scene) -> Path | None:
        """The real file that the scene's image names by leaving its folder, if it does."""
        folders = [store for store in self.stores if isinstance(store, FolderStore)]
        return next((path for store in folders if (path := store.outside(scene.image or ""))), None)

    def _find_image(self, scene: Scene) -> BinaryIO:
        if scene.image is None:
            raise InputError(f"scene {scene.id!r} has no image.", where=scene.where)
        outside = self.outside(scene)
        if outside is not None:
            folder = os.path.normpath(outside.parent)
            raise ImageMissing(
                f"image {scene.image!r} leaves its folder: absolute paths and '..' are never followed.",
                where=scene.where,
                hint=f"Name it {outside.name!r} and say where images are: {self._with_images(folder)}",
            )
        for store in self.stores:
            try:
                stream = store.open(scene.image)
            except InputError as error:
                place = f"{_image_place(scene)} in {error.where}"
                raise InputError(error.message, where=place, hint=error.hint) from error
            if stream is not None:
                return stream
        looked = ", ".join(repr(store.label) for store in self.stores) or "nowhere: it is a source of texts"
        raise ImageMissing(
            f"image {scene.image!r} is not there.",
            where=scene.where,
            hint=f"Looked in {looked}. Correct the name, or say where images are: "
            f"{self._with_images('FOLDER')}",
        )

    def _with_images(self, folder: str) -> str:
        """The SRC that says where images are, as it is typed."""
        return shlex.quote(f"{re.sub(r',images=[^,]*', '', self.name)},images={folder}")


def _image_place(scene: Scene) -> str:
    return f"{scene.where}: image {scene.image!r}" if scene.where else f"image {scene.image!r}"


def canonical_split(word: object) -> str | None:
    """One of `SPLITS` for what people call it, or None. "test_2016" is a test split."""
    return SPLIT_WORDS.get(re.split(r"[_.-]", word.strip().lower())[0]) if isinstance(word, str) else None


def text_fault(text: object) -> str:
    """What is wrong with a text, or "" if nothing is."""
    if not isinstance(text, str):
        return f"a text must be a string, not {_kind(text)}"
    if not text.strip():
        return "the text is empty"
    return _character_fault(text)


def id_fault(identifier: object) -> str:
    """What is wrong with the id of a scene, or "" if nothing is."""
    if not isinstance(identifier, str):
        return f"a scene's id must be a string or a whole number, not {_kind(identifier)}"
    if not identifier.strip():
        return "the scene's id is empty"
    if not identifier.isprintable():
        return f"the id {identifier!r} holds a line break or another control character"
    return _character_fault(identifier)


def _character_fault(text: str) -> str:
    if "\0" in text:
        return "it holds a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "it holds half of a surrogate pair, which is no character"
    return ""


def _kind(value: object) -> str:
    names: dict[type, str] = {
        type(None): "null",
        bool: "true or false",
        dict: "an object",
        list: "a list",
        str: "a string",
    }
    return names.get(type(value), "a number")
