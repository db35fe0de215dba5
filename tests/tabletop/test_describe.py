"""Descriptions are true, partial, varied, and coloured by describers unrelated to the scene."""

import re
from collections import Counter
from itertools import combinations, pairwise

import numpy as np
import pytest

from coview.tabletop import Nuisance, describe, make_scene, words
from coview.tabletop.describe import describer
from coview.tabletop.scene import RELATIONS

SCENES = [make_scene(0, index) for index in range(1200)]
TEXTS = [[describe(scene, draw) for draw in range(5)] for scene in SCENES]
PLAIN = Nuisance(style=0.0, told=1.0)


def word_set(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9'-]+", text.lower()))


def mentions(text: str, phrase: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(phrase)}(?![\w-])", text.lower()) is not None


def test_a_description_is_a_pure_function_and_every_draw_another():
    scene = make_scene(2, 9)
    texts = [describe(scene, draw) for draw in range(8)]
    assert texts == [describe(make_scene(2, 9), draw) for draw in range(8)]
    assert len(set(texts)) == 8
    assert describer(scene, 3) == describer(scene, 3)


def test_the_corpus_is_rich_and_its_lengths_have_a_tail():
    counts = Counter(word for texts in TEXTS for text in texts for word in word_set(text))
    lengths = np.array([len(text.split()) for texts in TEXTS for text in texts])
    assert len(counts) >= 400
    assert sum(count >= 5 for count in counts.values()) >= 400
    assert 9 <= lengths.mean() <= 15
    assert np.percentile(lengths, 5) <= 6
    assert np.percentile(lengths, 99) >= 25
    assert lengths.max() <= 60


def test_two_descriptions_of_a_scene_share_few_words():
    shared = [len(word_set(a) & word_set(b)) for texts in TEXTS for a, b in combinations(texts, 2)]
    across = [len(word_set(a[0]) & word_set(b[1])) for a, b in pairwise(TEXTS)]
    assert np.mean(np.array(shared) <= 2) > 0.5
    assert np.mean(shared) > 1.15 * np.mean(across)  # but more than descriptions of other scenes


def test_a_register_shows_in_words_more_than_a_scene_does():
    registers = [[describer(scene, draw).register for draw in range(5)] for scene in SCENES]
    overlap = {"same scene, other register": [], "other scene, same register": []}
    for i in range(len(SCENES) - 1):
        for (j, a), (k, b) in (((i, 0), (i, 1)), ((i, 0), (i + 1, 0))):
            same_register = registers[j][a] == registers[k][b]
            if same_register != (j == k):
                first, second = word_set(TEXTS[j][a]), word_set(TEXTS[k][b])
                kind = "same scene, other register" if j == k else "other scene, same register"
                overlap[kind].append(len(first & second) / len(first | second))
    assert np.mean(overlap["other scene, same register"]) > np.mean(overlap["same scene, other register"])


def test_texts_are_tidy():
    for texts in TEXTS:
        for text in texts:
            assert text[0] == text[0].upper()
            assert text == " ".join(text.split())
            assert not re.search(r"[{}|+_]\w|\.\.|,,| ,|\b(a a|an an|the the|a an)\b", text), text
            assert not re.search(r"\ba [aei]|\ban [^aeiou]", text), text


@pytest.mark.parametrize("kind", ["shape", "colour", "size", "material", "place", "surface", "light"])
def test_plain_descriptions_tell_the_truth(kind):
    told = 0
    for scene in SCENES[:250]:
        facts = {getattr(scene, kind)} if hasattr(scene, kind) else {getattr(o, kind) for o in scene.objects}
        text = describe(scene, 0, PLAIN)
        for fact, names in words.FACTS[kind].items():
            if any(mentions(text, name.removeprefix("+")) for name in names["plain"]):
                told += 1
                assert fact in facts, (text, fact)
    assert told > 50


def test_plain_descriptions_tell_true_relations():
    """Read back from the text: the relation's object follows it, its subject is the other of the two."""
    nouns = {name: fact for fact, names in words.FACTS["shape"].items() for name in names["plain"]}
    noun = "|".join(sorted(nouns, key=len, reverse=True))
    phrases = {p: name for name in RELATIONS for p in words.FACTS["relation"][name]["plain"] if " " in p}
    checked = set()
    for scene in SCENES:
        shapes = [thing.shape for thing in scene.objects]
        if len(set(shapes)) < len(shapes):
            continue
        text = describe(scene, 1, PLAIN).lower()
        found = next((p for p in sorted(phrases, key=len, reverse=True) if mentions(text, p)), None)
        named = [(m.start(), nouns[m.group()]) for m in re.finditer(rf"\b({noun})\b", text)]
        if found is None or len(named) < 2:
            continue
        at = text.index(found)
        other = next(shape for start, shape in named if start > at)
        subject = next(shape for _, shape in named if shape != other)
        held = {(shapes[r.subject], r.name, shapes[r.object]) for r in scene.relations()}
        assert (subject, phrases[found], other) in held, text
        checked.add(phrases[found])
    assert len(checked) >= 5


def test_no_description_tells_everything():
    everything = Nuisance(told=1.0)
    for scene in SCENES[:300]:
        text = describe(scene, 0, everything)
        register = describer(scene, 0, everything).register
        told = [
            any(mentions(text, name) for name in words.FACTS[kind][getattr(scene, kind)][register])
            for kind in ("place", "surface", "light")
        ]
        assert sum(told) <= 2


def test_style_zero_is_plain_and_style_one_is_not():
    moody = {
        word for voice in words.VOICES.values() for part in (voice.attitudes, voice.adverbs) for word in part
    }
    plain = [describe(scene, draw, PLAIN) for scene in SCENES[:100] for draw in range(3)]
    assert {describer(scene, 0, PLAIN).register for scene in SCENES[:50]} == {"plain"}
    assert not any(word_set(text) & moody for text in plain)
    assert np.mean([bool(word_set(text) & moody) for texts in TEXTS for text in texts]) > 0.25
    assert {describer(scene, 0).register for scene in SCENES[:50]} == set(words.REGISTERS)


def test_told_decides_how_much_is_told():
    def mean_length(told):
        return np.mean([len(describe(s, 0, Nuisance(style=0.0, told=told)).split()) for s in SCENES[:300]])

    assert mean_length(0.0) < mean_length(0.5) - 2 < mean_length(1.0) - 4
