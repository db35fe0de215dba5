"""The describers' vocabulary, read from ``words.toml``: how each register names each fact, and what else
describers say. Add a voice, a topic or a synonym there; nothing else need change.
"""

import tomllib
from collections.abc import Iterable
from importlib.resources import files
from typing import NamedTuple

REGISTERS = ("telegraphic", "plain", "wordy", "whimsical")

Options = tuple[str, ...]
ByRegister = dict[str, Options]  # register -> what it may say


class Sentences(NamedTuple):
    """Sentence patterns of a register.

    Attributes
    ----------
    one, related, listed : patterns for one object, for two in a relation, for two side by side
    third : what is appended for a third object
    counted : what is put around a sentence to tell the number of objects
    """

    one: Options
    related: Options
    listed: Options
    third: str
    counted: str


class Voice(NamedTuple):
    """Words of a temper that colour a text whatever it describes; verbs stand without their final s."""

    verbs: Options
    adverbs: Options
    attitudes: Options
    openers: Options
    closers: Options


def _options(cell: str) -> Options:
    return tuple(cell.split("|"))


def _by_register(cells: Iterable[str]) -> ByRegister:
    return {register: _options(cell) for register, cell in zip(REGISTERS, cells, strict=True)}


_TABLES = tomllib.loads(files("coview.tabletop").joinpath("words.toml").read_text(encoding="utf-8"))

# kind of fact -> fact -> register -> what it may be called
FACTS: dict[str, dict[str, ByRegister]] = {
    kind: {fact: _by_register(cells) for fact, cells in _TABLES[kind].items()}
    for kind in ("shape", "colour", "size", "material", "place", "surface", "light", "relation", "other")
}
SENTENCES = {
    register: Sentences(
        one=tuple(patterns["one"]),
        related=tuple(patterns["related"]),
        listed=tuple(patterns["listed"]),
        third=patterns["third"],
        counted=patterns["counted"],
    )
    for register, patterns in _TABLES["sentences"].items()
}
VOICES = {
    name: Voice(*(_options(cells[part]) for part in Voice._fields))
    for name, cells in _TABLES["voices"].items()
}
TOPICS = {name: _options(cell) for name, cell in _TABLES["topics"].items()}
NARRATORS = _options(_TABLES["people"]["narrators"])
NUMBERS = ("one", "two", "three", "four")
