"""The vocabulary is complete, unambiguous, and made so that sentences come out grammatical."""

import string

import pytest

from coview.tabletop import words
from coview.tabletop.scene import COLOURS, LIGHTS, MATERIALS, PLACES, RELATIONS, SHAPES, SIZES, SURFACES

VALUES = {
    "shape": SHAPES,
    "colour": COLOURS,
    "size": SIZES,
    "material": MATERIALS,
    "place": PLACES,
    "surface": SURFACES,
    "light": LIGHTS,
    "relation": RELATIONS,
}


@pytest.mark.parametrize("kind", VALUES)
def test_every_fact_has_a_name_in_every_register(kind):
    assert set(words.FACTS[kind]) == set(VALUES[kind])
    for names in words.FACTS[kind].values():
        assert tuple(names) == words.REGISTERS
        assert all(name and name == name.strip() for options in names.values() for name in options)


@pytest.mark.parametrize("kind", VALUES)
def test_no_name_stands_for_two_facts(kind):
    owner = {}
    for fact, names in words.FACTS[kind].items():
        for name in {name for options in names.values() for name in options}:
            assert owner.setdefault(name, fact) == fact, name


def test_registers_share_few_names():
    for kind in ("colour", "shape", "size", "material"):
        for names in words.FACTS[kind].values():
            assert not set(names["wordy"]) & set(names["whimsical"])
            assert not set(names["plain"]) & set(names["whimsical"])


def test_sentences_use_known_slots():
    allowed = {
        "one": "a verb verbs where",
        "related": "a b relation verb verbs where",
        "listed": "a b verb verbs where",
    }
    for sentences in words.SENTENCES.values():
        for kind, slots in allowed.items():
            for pattern in getattr(sentences, kind):
                used = {name for _, name, _, _ in string.Formatter().parse(pattern) if name}
                assert used <= set(slots.split()), pattern
                assert "where" in used, pattern
                assert kind == "one" or {"a", "b"} <= used, pattern
        assert "{c}" in sentences.third
        assert {"{count}", "{sentence}"} <= set(sentences.counted.replace(",", "").replace(":", "").split())


def test_verbs_take_a_plain_s():
    for voice in words.VOICES.values():
        for verb in voice.verbs:
            assert not verb.endswith(("s", "sh", "ch", "x", "z", "y", "o")), verb


def test_voices_say_nothing_about_scenes():
    facts = {
        name
        for kind in ("shape", "colour", "size", "material")
        for names in words.FACTS[kind].values()
        for options in names.values()
        for name in options
    }
    for voice in words.VOICES.values():
        assert not facts & {
            word for part in voice for phrase in part for word in phrase.strip(",:").lower().split()
        }
