"""Descriptions read back: what a text claims about a scene, and how much of it is true.

The reader knows the describers' vocabulary (`words`) and the order of their phrases: what is told of an
object stands before it, some materials right behind it, and a relation between two objects or before both.
Words it does not know say nothing. So it reads every description that `describe` can write, and what a
decoder trained on them writes as far as that keeps to their grammar.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from coview.tabletop import words
from coview.tabletop.scene import TableObject, TableScene

BEFORE = ("size", "material", "colour")  # what is told of an object before it is named
ROOM = ("place", "surface", "light")
KINDS = ("shape", "colour_shape", "size", "material", "relation", "relation_between", "count", *ROOM)
MOST_WORDS = 8  # of a phrase
SURE = 1.96  # standard errors, of a 95 % interval
_ARTICLES = ("a", "an", "the")
_WORD = re.compile(r"[\w'-]+|[^\w\s.]|\.(?=\s+[A-Z])")  # the points of "sm." and "lg." are left out


@dataclass(frozen=True)
class ClaimedObject:
    """What a text says of one object; None where it says nothing."""

    shape: str | None = None
    colour: str | None = None
    size: str | None = None
    material: str | None = None

    def fits(self, thing: TableObject) -> bool:
        """Everything said is true of this object."""
        return all(fact is None or getattr(thing, kind) == fact for kind, fact in vars(self).items())


@dataclass(frozen=True)
class Claims:
    """What a text says of a scene.

    Attributes
    ----------
    objects : in the order of the text
    relations : (subject, name, object), the ends are indices into `objects`
    counts : numbers of objects that are told
    room : (kind, fact), of place, surface and light
    """

    objects: tuple[ClaimedObject, ...]
    relations: tuple[tuple[int, str, int], ...]
    counts: tuple[int, ...]
    room: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Tally:
    """Claims of one kind.

    Attributes
    ----------
    told, true : how many were told, and how many of them are true
    interval : 95 % of the share of true claims, see `share_interval`; None if none was told
    """

    told: int
    true: int
    interval: tuple[float, float] | None = None

    @property
    def accuracy(self) -> float | None:
        """Share of true claims, None if none was told."""
        return self.true / self.told if self.told else None


def tally_claims(texts: Sequence[str], scenes: Iterable[TableScene]) -> dict[str, Tally]:
    """Tell true claims from false ones in texts that ought to describe these scenes.

    Parameters
    ----------
    texts : one a scene, or several if the scenes come several times
    scenes : the ground truth

    Returns
    -------
    dict from each of KINDS to Tally. ``colour_shape`` counts colours, true if an object of that shape and
    colour is there; ``size`` and ``material`` likewise. An object named more often than the scene has it is
    false from then on. A relation is false too where one of its ends is not in the scene;
    ``relation_between`` counts only those whose ends are both there, of which chance makes a third to a half
    true.
    """
    told: dict[str, Counter] = {kind: Counter() for kind in KINDS}  # of each scene
    true: dict[str, Counter] = {kind: Counter() for kind in KINDS}
    for text, scene in zip(texts, scenes, strict=True):
        for kind, is_true in check_claims(read_claims(text), scene):
            told[kind][scene.index] += 1
            true[kind][scene.index] += is_true
    tallies = {}
    for kind in KINDS:
        counts = [(told[kind][index], true[kind][index]) for index in told[kind]]
        tallies[kind] = Tally(told[kind].total(), true[kind].total(), share_interval(counts))
    return tallies


def share_interval(counts: Sequence[tuple[int, int]]) -> tuple[float, float] | None:
    """95 % interval (Wilson, 1927) of the share of true claims.

    Claims about one scene stand and fall together, so they count as fewer: as many as independent ones whose
    share would vary as much (the design effect of samples in clusters, Kish, 1965).

    Parameters
    ----------
    counts : claims told of each scene, at least one, and how many of them are true

    Returns
    -------
    (low, high), or None if there are no claims
    """
    if not counts:
        return None
    told, true = np.array(counts, dtype=np.float64).T
    claims, share = told.sum(), true.sum() / told.sum()
    alone = claims * share * (1 - share)  # variance of the number of true claims, were each on its own
    # Where all claims are true, or none, how they vary does not show: then a scene counts as one claim.
    effect = max(1.0, ((true - share * told) ** 2).sum() / alone) if alone else claims / len(told)
    z2 = SURE**2 * effect / claims
    middle, half = share + z2 / 2, np.sqrt(z2 * share * (1 - share) + z2**2 / 4)
    return float((middle - half) / (1 + z2)), float((middle + half) / (1 + z2))


def check_claims(claims: Claims, scene: TableScene) -> Iterator[tuple[str, bool]]:
    """Yield (kind, is it true) for every claim."""
    mentioned: Counter[ClaimedObject] = Counter()
    for claimed in claims.objects:
        for kind in ("shape", "colour", "size", "material"):
            fact = getattr(claimed, kind)
            if fact is not None:
                claim = ClaimedObject(**{"shape": claimed.shape, kind: fact})
                mentioned[claim] += 1
                there = sum(claim.fits(thing) for thing in scene.objects)
                yield "colour_shape" if kind == "colour" else kind, mentioned[claim] <= there
    holding = {tuple(relation) for relation in scene.relations()}
    for subject, name, other in claims.relations:
        subjects, others = (_meant(claims.objects[end], scene) for end in (subject, other))
        is_true = any((i, name, j) in holding for i in subjects for j in others)
        yield "relation", is_true
        if any(i != j for i in subjects for j in others):
            yield "relation_between", is_true
    for count in claims.counts:
        yield "count", count == len(scene.objects)
    for kind, fact in claims.room:
        yield kind, getattr(scene, kind) == fact


def _meant(claimed: ClaimedObject, scene: TableScene) -> list[int]:
    """Objects that a text may mean: those that fit, else those of the shape, whose other claims are false."""
    for claim in (claimed, ClaimedObject(shape=claimed.shape)):
        if found := [index for index, thing in enumerate(scene.objects) if claim.fits(thing)]:
            return found
    return []


def read_claims(text: str) -> Claims:
    """What a text says, by the describers' vocabulary and grammar."""
    reader = _Reader()
    for kind, fact in _phrases(text):
        reader.take(kind, fact)
    reader.close_phrase()
    return Claims(tuple(reader.objects), tuple(reader.relations), tuple(reader.counts), tuple(reader.room))


class _Reader:
    """Takes phrases one after the other and puts objects and relations together."""

    def __init__(self):
        self.objects: list[ClaimedObject] = []
        self.relations: list[tuple[int, str, int]] = []
        self.counts: list[int] = []
        self.room: list[tuple[str, str]] = []
        self.told: dict[str, str] = {}  # of an object that is not named yet
        self.relation = ""  # whose second end comes next
        self.inverted: tuple[str, int] | None = None  # "under the box sits ..": name and second end
        self.last = ""  # kind of the phrase before

    def take(self, kind: str, fact: str) -> None:
        if kind in BEFORE:
            if kind in self.told:
                self.close_phrase()
            self.told[kind] = fact
        elif kind in ("shape", "object"):
            self.told |= {"shape": fact} if kind == "shape" else {}
            self.name_object()
        elif kind == "material behind" and self.last in ("shape", "object"):
            self.objects[-1] = ClaimedObject(**(vars(self.objects[-1]) | {"material": fact}))
        elif kind != "article":
            self.close_phrase()
            self.relation = fact if kind == "relation" else ""
            if kind == "count":
                self.counts.append(words.NUMBERS.index(fact) + 1)
            elif kind in ROOM:
                self.room.append((kind, fact))
        self.last = kind

    def name_object(self) -> None:
        """An object is complete; a relation may have waited for it."""
        self.objects.append(ClaimedObject(**self.told))
        self.told, here = {}, len(self.objects) - 1
        if self.relation and here:
            self.relations.append((here - 1, self.relation, here))
        elif self.relation:
            self.inverted = (self.relation, here)
        elif self.inverted:
            name, other = self.inverted
            self.relations.append((here, name, other))
            self.inverted = None
        self.relation = ""

    def close_phrase(self) -> None:
        """Something was told of an object that is never named."""
        if self.told:
            self.name_object()


def _phrases(text: str) -> Iterator[tuple[str, str]]:
    """The longest known phrases of a text as (kind, fact); any other word is ("", "")."""
    tokens, known, place = _split(text), _vocabulary(), 0
    while place < len(tokens):
        for size in range(min(MOST_WORDS, len(tokens) - place), 1, -1):
            if tuple(tokens[place : place + size]) in known:
                break
        else:
            size = 1
        yield known.get(tuple(tokens[place : place + size]), ("", ""))
        place += size


@cache
def _vocabulary() -> dict[tuple[str, ...], tuple[str, str]]:
    """Phrase, as tokens -> kind and fact. Asides are known so that nothing is read into them."""
    known: dict[tuple[str, ...], tuple[str, str]] = {}

    def learn(phrases: Iterable[str], kind: str, fact: str = "") -> None:
        for phrase in phrases:
            known[tuple(_split(phrase))] = (kind, fact)

    learn(_sentence_parts(), "aside")
    learn([option for voice in words.VOICES.values() for option in (*voice.openers, *voice.closers)], "aside")
    learn([option for topic in words.TOPICS.values() for option in topic], "aside")
    learn(words.NARRATORS, "aside")
    learn([option for voice in words.VOICES.values() for option in voice.attitudes], "article")
    learn(_ARTICLES, "article")
    learn(_names("other", "object"), "object")
    for number in words.NUMBERS:
        for name in _names("other", "counted"):
            learn([f"{number} {name}", f"{number} {name}s"], "count", number)
    for kind in ("relation", "shape", *BEFORE, *ROOM):
        for fact in words.FACTS[kind]:
            names = _names(kind, fact)
            learn([name for name in names if not name.startswith("+")], kind, fact)
            learn([name[1:] for name in names if name.startswith("+")], "material behind", fact)
    return known


def _sentence_parts() -> list[str]:
    """What stands between the slots of sentences, "accompanied by" for instance."""
    patterns = [
        pattern
        for sentences in words.SENTENCES.values()
        for pattern in (
            *sentences.one,
            *sentences.related,
            *sentences.listed,
            sentences.third,
            sentences.counted,
        )
    ]
    parts = [part.strip(" ,:;") for pattern in patterns for part in re.split(r"\{\w+\}", pattern)]
    return [part for part in parts if part]


def _names(kind: str, fact: str) -> list[str]:
    return [name for options in words.FACTS[kind][fact].values() for name in options]


def _split(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]
