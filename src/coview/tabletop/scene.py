"""The state of the embedded world: things on a table, drawn by rule from (seed, index).

A scene is ground truth. Paintings (`paint`) and descriptions (`describe`) are its views: each shows part of
the state through a nuisance of its own. Scenes resemble each other in part: a place (kitchen, nursery, ...)
leans towards some shapes, colours, materials and surfaces, and the first object is the largest in the eye
of painters and describers, so that "which scenes are near" has an answer that both can find.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

Item = TypeVar("Item")

SHAPES = ("ball", "block", "cone", "tin", "ring", "star", "bottle", "mug", "bowl", "duck")
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "white", "black")
SIZES = ("small", "medium", "large")
MATERIALS = ("woollen", "glazed", "metal", "glass", "striped", "dotted")
PLACES = ("kitchen", "nursery", "workshop", "study", "garden", "harbour")
SURFACES = ("oak", "marble", "slate", "gingham", "linen", "velvet")
LIGHTS = ("daylight", "sunset", "lamplight", "moonlight")
FLAT_TOPPED = ("block", "tin")  # what another object can stand on

# What a place leans towards. Neighbouring places share a favourite, so the world is connected.
_HABITS = {
    "kitchen": {
        "shape": ("mug", "bowl", "bottle"),
        "colour": ("white", "yellow", "red"),
        "material": ("glazed", "glass"),
        "surface": ("marble", "gingham"),
        "light": ("daylight", "lamplight"),
    },
    "nursery": {
        "shape": ("duck", "ball", "block"),
        "colour": ("yellow", "orange", "red"),
        "material": ("woollen", "dotted"),
        "surface": ("gingham", "linen"),
        "light": ("daylight", "moonlight"),
    },
    "workshop": {
        "shape": ("tin", "block", "cone"),
        "colour": ("orange", "black", "green"),
        "material": ("metal", "striped"),
        "surface": ("oak", "slate"),
        "light": ("lamplight", "daylight"),
    },
    "study": {
        "shape": ("mug", "tin", "ring"),
        "colour": ("purple", "black", "blue"),
        "material": ("glass", "metal"),
        "surface": ("velvet", "oak"),
        "light": ("lamplight", "moonlight"),
    },
    "garden": {
        "shape": ("bowl", "star", "ball"),
        "colour": ("green", "white", "purple"),
        "material": ("glazed", "dotted"),
        "surface": ("slate", "linen"),
        "light": ("sunset", "daylight"),
    },
    "harbour": {
        "shape": ("ring", "bottle", "star"),
        "colour": ("blue", "white", "red"),
        "material": ("striped", "glass"),
        "surface": ("linen", "oak"),
        "light": ("sunset", "moonlight"),
    },
}
# Probability that an attribute follows the place's habit.
_HABIT_STRENGTH = {"surface": 0.85, "light": 0.85, "shape": 0.65, "colour": 0.65, "material": 0.65}
_COLUMNS, _ROWS = (-0.62, 0.0, 0.62), (0.15, 0.85)  # where objects may stand; left to right, front to back
_SLOT_JITTER = 0.08
_APART = 0.35  # least distance at which a relation of position holds


class Dice:
    """Random choices that are a pure function of the numbers the dice are made from."""

    def __init__(self, *key: int):
        self.rng = np.random.default_rng(key)
        self._numbers: list[float] = []

    def number(self) -> float:
        """Uniform in [0, 1)."""
        if not self._numbers:
            self._numbers = self.rng.random(64).tolist()
        return self._numbers.pop()

    def chance(self, probability: float) -> bool:
        return self.number() < probability

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self.number()

    def pick(self, options: Sequence[Item]) -> Item:
        return options[int(self.number() * len(options))]

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        return sorted(items, key=lambda _: self.number())


@dataclass(frozen=True)
class Nuisance:
    """How much a view differs from its scene: the knobs of the embedded world's nuisance.

    All but `told` are strengths: 0 switches the nuisance off, 1 is the default world. `style` is what bad
    views and next-token prediction pay for: it colours the whole text, so that two maskings of one text
    agree on it and two texts of one scene do not. `told` is what good views pay for: the less two texts
    tell, the less they share.

    Attributes
    ----------
    style : register-bound synonyms, voices, openers and closers, asides, narrators (texts)
    told : probability that a fact about a mentioned object, or about the room, is told (texts)
    camera : shift and zoom (paintings)
    light : direction and warmth of the light (paintings)
    texture : grain over the whole painting (paintings)
    clutter : small things that belong to no scene (paintings)
    pose : position, turn and size of each object (paintings)
    """

    style: float = 1.0
    told: float = 0.5
    camera: float = 1.0
    light: float = 1.0
    texture: float = 1.0
    clutter: float = 1.0
    pose: float = 1.0


USUAL = Nuisance()  # the nuisance of the world as it is


@dataclass(frozen=True)
class TableObject:
    """One thing on the table.

    Attributes
    ----------
    shape, colour, size, material : one of SHAPES, COLOURS, SIZES, MATERIALS
    x : left (-1) to right (1)
    depth : front edge of the table (0) to its back edge (1)
    on : index of the object it stands on, or None if it stands on the table
    """

    shape: str
    colour: str
    size: str
    material: str
    x: float
    depth: float
    on: int | None = None


class Relation(NamedTuple):
    """`subject` stands in relation `name` to `object`; both are indices into the scene's objects."""

    subject: int
    name: str
    object: int


RELATIONS = ("left of", "right of", "behind", "in front of", "beside", "on", "under")


@dataclass(frozen=True)
class TableScene:
    """One state of the embedded world; a pure function of (seed, index).

    Attributes
    ----------
    seed, index : what the scene is made from
    place, surface, light : one of PLACES, SURFACES, LIGHTS
    objects : one to four; the first is the most salient
    """

    seed: int
    index: int
    place: str
    surface: str
    light: str
    objects: tuple[TableObject, ...]

    def relations(self) -> tuple[Relation, ...]:
        """All relations that hold, in both directions, derived from the layout."""
        found = []
        for i, a in enumerate(self.objects):
            for j, b in enumerate(self.objects):
                if i == j:
                    continue
                if a.on == j:
                    found.append(Relation(i, "on", j))
                elif b.on == i:
                    found.append(Relation(i, "under", j))
                else:
                    found.extend(Relation(i, name, j) for name in _relative_position(a, b))
        return tuple(found)

    def attributes(self) -> dict:
        """The ground truth as a JSON document."""
        return {
            "place": self.place,
            "surface": self.surface,
            "light": self.light,
            "count": len(self.objects),
            "objects": [vars(thing) for thing in self.objects],
            "relations": [list(relation) for relation in self.relations()],
        }

    def vector(self) -> np.ndarray:
        """The ground truth as a vector of 47 numbers, the ceiling for what an encoder can know.

        One-hot blocks for place, surface, light and count, then for shape, colour, size and material summed
        over objects, the first object counting 1 and the others 0.5.
        """
        blocks = [
            np.array([self.place == name for name in PLACES], float),
            np.array([self.surface == name for name in SURFACES], float) * 0.7,
            np.array([self.light == name for name in LIGHTS], float) * 0.7,
            np.array([len(self.objects) == count for count in (1, 2, 3, 4)], float) * 0.5,
        ]
        weights = np.array([1.0, 0.5, 0.5, 0.5])[: len(self.objects)]
        for field, values in (
            ("shape", SHAPES),
            ("colour", COLOURS),
            ("size", SIZES),
            ("material", MATERIALS),
        ):
            chosen = [[getattr(thing, field) == value for value in values] for thing in self.objects]
            blocks.append(weights @ np.array(chosen, float))
        return np.concatenate(blocks)


def _relative_position(a: TableObject, b: TableObject) -> list[str]:
    names = []
    across, away = b.x - a.x, b.depth - a.depth
    if across > _APART:
        names.append("left of")
    elif across < -_APART:
        names.append("right of")
    if away > _APART:
        names.append("in front of")
    elif away < -_APART:
        names.append("behind")
    elif _APART < abs(across) < 3 * _APART:
        names.append("beside")
    return names


def make_scene(seed: int, index: int) -> TableScene:
    """Scene `index` of the world `seed`; the same pair always gives the same scene."""
    dice = Dice(seed, index, 0)
    place = dice.pick(PLACES)
    habits = _HABITS[place]

    def choose(field: str, values: tuple[str, ...]) -> str:
        return dice.pick(habits[field] if dice.chance(_HABIT_STRENGTH[field]) else values)

    surface, light = choose("surface", SURFACES), choose("light", LIGHTS)
    count = dice.pick((1, 1, 2, 2, 2, 3, 3, 4))
    slots = dice.shuffled([(x, depth) for x in _COLUMNS for depth in _ROWS])
    front, back = _ROWS
    if slots[0][1] == front:
        slots.remove((slots[0][0], back))  # the largest object would hide what stands right behind it
    objects: list[TableObject] = []
    looks: set[tuple[str, str]] = set()
    while len(objects) < count:
        shape, colour = choose("shape", SHAPES), choose("colour", COLOURS)
        if (shape, colour) in looks:
            continue
        looks.add((shape, colour))
        x, depth = slots[len(objects)]
        objects.append(
            TableObject(
                shape=shape,
                colour=colour,
                size=dice.pick(("medium", "large", "large") if not objects else ("small", "small", "medium")),
                material=choose("material", MATERIALS),
                x=round(x + dice.between(-_SLOT_JITTER, _SLOT_JITTER), 3),
                depth=round(depth + dice.between(-_SLOT_JITTER, _SLOT_JITTER), 3),
            )
        )
    return TableScene(seed, index, place, surface, light, tuple(_stack(objects, dice)))


def _stack(objects: list[TableObject], dice: Dice) -> list[TableObject]:
    """Sometimes put one object on top of a flat-topped one that is at least as large."""
    pairs = [
        (upper, lower)
        for upper in range(len(objects))
        for lower in range(len(objects))
        if upper != lower
        and objects[lower].shape in FLAT_TOPPED
        and SIZES.index(objects[upper].size) <= SIZES.index(objects[lower].size)
    ]
    if not pairs or not dice.chance(0.6):
        return objects
    upper, lower = dice.pick(pairs)
    thing, base = objects[upper], objects[lower]
    stacked = TableObject(thing.shape, thing.colour, thing.size, thing.material, base.x, base.depth, on=lower)
    return [stacked if i == upper else other for i, other in enumerate(objects)]
