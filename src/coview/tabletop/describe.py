"""Descriptions of a scene by describers with a style of their own.

A description is what one describer says. Who they are (`Describer`) has nothing to do with the scene and
colours the whole text: the register chooses the syntax and a vocabulary of its own for nearly every fact,
the voice chooses verbs and moods, and thoughts stray to the describer's own day. What they tell is a part of
the scene. The knobs are `Nuisance.style` for the first and `Nuisance.told` for the second.
"""

from dataclasses import dataclass

from coview.tabletop import words
from coview.tabletop.scene import USUAL, Dice, Nuisance, TableScene


@dataclass(frozen=True)
class Describer:
    """Who describes: the style nuisance of one text.

    Attributes
    ----------
    register : one of words.REGISTERS; decides syntax, synonyms and length
    voice : a key of words.VOICES, or None for a describer without temper
    topic : a key of words.TOPICS that the describer's thoughts stray to, or None
    narrator : whose words these are, one of words.NARRATORS, or None
    """

    register: str
    voice: str | None
    topic: str | None
    narrator: str | None


def describer(scene: TableScene, draw: int, nuisance: Nuisance = USUAL) -> Describer:
    """Who gives description number `draw` of a scene; at style 0 a plain one who keeps to the facts."""
    dice, style = Dice(scene.seed, scene.index, 2, draw), nuisance.style
    return Describer(
        register=dice.pick(words.REGISTERS) if dice.chance(style) else "plain",
        voice=dice.pick(tuple(words.VOICES)) if dice.chance(0.85 * style) else None,
        topic=dice.pick(tuple(words.TOPICS)) if dice.chance(0.2 * style) else None,
        narrator=dice.pick(words.NARRATORS) if dice.chance(0.15 * style) else None,
    )


def describe(scene: TableScene, draw: int, nuisance: Nuisance = USUAL) -> str:
    """Description number `draw` of a scene: one sentence that tells part of it.

    A pure function of the scene, `draw` and `nuisance`. At most two of place, surface and light are told,
    so no description tells everything.
    """
    dice = Dice(scene.seed, scene.index, 3, draw)
    telling = _Telling(scene, describer(scene, draw, nuisance), dice, nuisance)
    text = telling.styled(telling.facts())
    return text[0].upper() + text[1:]


class _Telling:
    """One describer at one scene: facts become phrases, phrases a sentence, the sentence a text."""

    def __init__(self, scene: TableScene, who: Describer, dice: Dice, nuisance: Nuisance):
        self.scene, self.who, self.dice, self.nuisance = scene, who, dice, nuisance
        self.voice = words.VOICES[who.voice] if who.voice else None

    def is_told(self, weight: float) -> bool:
        return self.dice.chance(self.nuisance.told * weight)

    def has_style(self, weight: float) -> bool:
        return self.voice is not None and self.dice.chance(self.nuisance.style * weight)

    def word(self, kind: str, fact: str) -> str:
        """What the register calls a fact; now and then a describer falls back on the plain word."""
        register = "plain" if self.dice.chance(0.05) else self.who.register
        return self.dice.pick(words.FACTS[kind][fact][register])

    def phrase(self, kind: str, fact: str) -> str:
        """As `word`, where the grammar belongs to the register."""
        return self.dice.pick(words.FACTS[kind][fact][self.who.register])

    def noun_phrase(self, index: int) -> str:
        """An object with what is told of it, and an article where the register has one."""
        thing, before, after = self.scene.objects[index], [], ""
        weight = 1.0 if index == 0 else 0.6  # less is told of what is less salient
        if self.voice and self.has_style(0.3):
            before.append(self.dice.pick(self.voice.attitudes))
        if self.is_told(0.5 * weight):
            before.append(self.word("size", thing.size))
        if self.is_told(0.7 * weight):
            material = self.word("material", thing.material)
            if material.startswith("+"):
                after = " " + material[1:]
            else:
                before.append(material)
        is_named = self.dice.chance(0.92)
        if self.is_told(1.6 * weight) or not is_named:
            before.append(self.word("colour", thing.colour))
        before.append(self.word("shape", thing.shape) if is_named else self.word("other", "object"))
        text = " ".join(before) + after
        if self.who.register == "telegraphic":
            return text
        return f"{'the' if self.dice.chance(0.15) else _article(text)} {text}"

    def subjects(self) -> list[int]:
        """Which objects are told, the most salient one usually first."""
        others = self.dice.shuffled(range(1, len(self.scene.objects)))
        chosen = [0, *others] if not others or self.dice.chance(0.88) else others
        return chosen[: self.dice.pick((1, 1, 1, 1, 2, 2, 2, 2, 2, 3))]

    def relation(self, subject: int, other: int) -> str | None:
        """A relation that holds between two objects, if it is told."""
        holding = [r.name for r in self.scene.relations() if (r.subject, r.object) == (subject, other)]
        return self.dice.pick(holding) if holding and self.is_told(1.4) else None

    def setting(self) -> str:
        """Phrases for at most two of place, surface and light, ready to follow a sentence."""
        weights = (("place", 1.3), ("surface", 0.7), ("light", 0.7))
        kinds = self.dice.shuffled([kind for kind, weight in weights if self.is_told(weight)])
        phrases = [self.phrase(kind, getattr(self.scene, kind)) for kind in kinds]
        separator = ", " if self.who.register == "telegraphic" else " "
        return "".join(separator + phrase for phrase in phrases[: self.dice.pick((1, 2, 2))])

    def verb(self) -> str:
        """What things do here, without the final s."""
        return self.dice.pick(
            self.voice.verbs if self.voice and self.has_style(0.8) else ("stand", "sit", "rest")
        )

    def facts(self) -> str:
        """What is told, as one sentence of the register."""
        sentences, subjects = words.SENTENCES[self.who.register], self.subjects()
        verb = self.verb()
        adverb = f" {self.dice.pick(self.voice.adverbs)}" if self.voice and self.has_style(0.25) else ""
        parts = {
            "a": self.noun_phrase(subjects[0]),
            "verb": f"{verb}s{adverb}",
            "verbs": f"{verb}{adverb}",
            "where": self.setting(),
        }
        patterns = sentences.one
        if len(subjects) > 1:
            parts["b"] = self.noun_phrase(subjects[1])
            name = self.relation(subjects[0], subjects[1])
            patterns = sentences.related if name else sentences.listed
            parts["relation"] = self.phrase("relation", name) if name else ""
        sentence = self.dice.pick(patterns).format(**parts)
        if len(subjects) > 2:
            sentence += sentences.third.format(c=self.noun_phrase(subjects[2]))
        if self.is_told(0.2):
            number = words.NUMBERS[len(self.scene.objects) - 1]
            count = f"{number} {self.phrase('other', 'counted')}{'' if number == 'one' else 's'}"
            sentence = sentences.counted.format(count=count, sentence=sentence)
        return sentence

    def styled(self, sentence: str) -> str:
        """The sentence between the describer's opener and closing thoughts."""
        if self.who.narrator:
            says = f"{self.phrase('other', 'says')} {self.who.narrator}"
            after = self.who.register in ("plain", "whimsical")
            sentence = f"{sentence}, {says}" if after else f"{says}, {sentence}"
        elif self.voice and self.has_style(0.3):
            sentence = f"{self.dice.pick(self.voice.openers)} {sentence}"
        if self.who.topic:
            sentence += f", {self.dice.pick(words.TOPICS[self.who.topic])}"
        elif self.voice and self.has_style(0.25):
            sentence += f", {self.dice.pick(self.voice.closers)}"
        return sentence if self.dice.chance(0.3) else sentence + "."


def _article(text: str) -> str:
    vowel = text[0] in "aeio" or text.startswith(("ul", "un"))
    return "an" if vowel and not text.startswith("one") else "a"
