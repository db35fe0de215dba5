"""`tabletop:` as a source of scenes."""

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np

from coview.data.scenes import SPLITS, Scene
from coview.errors import InputError, UsageError, did_you_mean
from coview.tabletop.describe import describe
from coview.tabletop.paint import SIZE, paint
from coview.tabletop.scene import USUAL, Nuisance, TableScene, make_scene

if TYPE_CHECKING:
    from PIL.Image import Image

SCHEME = "tabletop:"
_KNOBS = tuple(field.name for field in fields(Nuisance))
_KEYS = ("seed", "scenes", "texts", *_KNOBS)
_LIMITS = {"style": 1, "told": 1}  # of knobs that are probabilities; the others go to 2


def split_of(index: int) -> str:
    """Of ten scenes in a row, eight for training, the ninth for val and the tenth for test."""
    return {8: "val", 9: "test"}.get(index % 10, "train")


class TabletopSource:
    """The embedded world as a source. Nothing is stored: every scene is made when it is asked for.

    Scene `index` is the same whatever the number of scenes; so are its split, its texts and its paintings.

    Parameters
    ----------
    seed : which world, 0 or more
    scenes : number of scenes, all splits together
    texts : descriptions a scene
    nuisance : how strongly views differ from their scene

    Raises
    ------
    UsageError
        A number is out of range.
    """

    split_note = ""

    def __init__(self, seed: int = 0, scenes: int = 20_000, texts: int = 5, nuisance: Nuisance = USUAL):
        for key, value, least in (("seed", seed, 0), ("scenes", scenes, 1), ("texts", texts, 1)):
            if value < least:
                raise UsageError(f"{key} is {value}.", where=SCHEME, hint=f"Give at least {least}.")
        self.seed, self.size, self.texts, self.nuisance = seed, scenes, texts, nuisance
        changed = [
            f",{knob}={getattr(nuisance, knob):g}"
            for knob in _KNOBS
            if getattr(nuisance, knob) != getattr(USUAL, knob)
        ]
        self.name = f"{SCHEME}seed={seed},scenes={scenes},texts={texts}{''.join(changed)}"

    @classmethod
    def parse(cls, name: str) -> "TabletopSource":
        """The source for ``tabletop:seed=1,scenes=2000``; the keys may be any of seed, scenes, texts and the
        fields of `Nuisance`.

        Raises
        ------
        UsageError
            A key is unknown or given twice, or a value is no number or out of range.
        """
        counts: dict[str, int] = {}
        knobs: dict[str, float] = {}
        for part in filter(None, name.removeprefix(SCHEME).split(",")):
            key, _, text = part.partition("=")
            key = key.strip()
            if key not in _KEYS:
                raise UsageError(f"there is no setting {key!r}.", where=name, hint=did_you_mean(key, _KEYS))
            if key in counts or key in knobs:
                raise UsageError(f"{key} is given twice.", where=name, hint="Give it once.")
            try:
                if key in _KNOBS:
                    knobs[key] = float(text)
                else:
                    counts[key] = int(text)
            except ValueError:
                kind = "number" if key in _KNOBS else "whole number"
                raise UsageError(f"{key}={text} is no {kind}.", where=name, hint=f"Write {key}=1.") from None
            if key in _KNOBS and not 0 <= knobs[key] <= _LIMITS.get(key, 2):
                raise UsageError(
                    f"{key}={text} is out of range.", where=name, hint=f"Give 0 to {_LIMITS.get(key, 2)}."
                )
        return cls(**counts, nuisance=replace(USUAL, **knobs))

    def scene(self, index: int) -> TableScene:
        """The ground truth of scene `index`."""
        return make_scene(self.seed, index)

    def index_of(self, scene: Scene) -> int:
        """The index of one of this source's scenes; InputError if it is another's."""
        prefix, _, digits = scene.id.rpartition("-")
        if prefix != f"tabletop-{self.seed}" or not digits.isdecimal() or int(digits) >= self.size:
            raise InputError(
                f"scene {scene.id!r} is not of this source.",
                where=self.name,
                hint="Give the source it came from.",
            )
        return int(digits)

    def scenes(self, split: str | None = None) -> Iterator[Scene]:
        """The scenes of one split, or of all splits, by index."""
        if split is not None and split not in SPLITS:
            raise UsageError(f"there is no split {split!r}.", hint=did_you_mean(split, SPLITS))
        wanted = (i for i in range(self.size) if split is None or split_of(i) == split)
        return (self._described(i) for i in wanted)

    def _described(self, index: int) -> Scene:
        scene = self.scene(index)
        return Scene(
            id=f"tabletop-{self.seed}-{index:06d}",
            texts=tuple(describe(scene, draw, self.nuisance) for draw in range(self.texts)),
            image=f"{index:06d}.png",
            split=split_of(index),
            where=f"{self.name} scene {index}",
        )

    def paintings(self, index: int, draw: int) -> np.ndarray:
        """Painting `draw` of scene `index`, (64, 64, 3) uint8; there is no end of paintings of a scene."""
        return paint(self.scene(index), draw, self.nuisance)

    def open_image(self, scene: Scene) -> "Image":
        """Painting 0 of a scene, RGB; InputError if the scene is of another source."""
        from PIL import Image

        return Image.fromarray(self.paintings(self.index_of(scene), 0))

    def image_size(self, scene: Scene) -> tuple[int, int]:
        """Width and height of a scene's painting, in pixels."""
        self.index_of(scene)
        return SIZE, SIZE
