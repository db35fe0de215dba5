"""Descriptions of a scene by describers with a style of their own.

A description is what one describer says: who they are (`Describer`) has nothing to do with the scene and
colours the whole text; what they tell is a part of the scene's facts. The knobs are in `Nuisance`: `style`
for the first, `told` for the second.
"""

from dataclasses import dataclass

from coview.tabletop import words
from coview.tabletop.scene import USUAL, Dice, Nuisance, Relation, TableScene

_OWN_WORDS = 0.9  # share of facts named in the register's own words rather than in plain ones

# Sentences of each register about one object, about two in a relation, and about two side by side.
_SENTENCES = {
    "telegraphic": {
        "one": ("{a}{where}", "{a} only seen{where}", "subject {a}{where}", "1x {a}{where}"),
        "related": ("{a} {rel} {b}{where}", "{a}, {rel} {b}{where}", "layout: {a} {rel} {b}{where}"),
        "listed": ("{a}, {b}{where}", "{a} + {b}{where}", "{a} / {b}{where}", "incl. {a}, {b}{where}"),
    },
    "plain": {
        "one": (
            "there is {a}{where}",
            "{a} {verb}{where}",
            "I see {a}{where}",
            "{a}{where}",
            "someone left {a}{where}",
            "can you see {a}{where}",
        ),
        "related": (
            "{a} is {rel} {b}{where}",
            "{a} {verb} {rel} {b}{where}",
            "{a} {rel} {b}{where}",
            "there is {a} {rel} {b}{where}",
            "{rel} {b} {verb} {a}{where}",
        ),
        "listed": (
            "{a} and {b}{where}",
            "{a} {verb} with {b}{where}",
            "{a} and {b} {verbs}{where}",
            "I see {a} and also {b}{where}",
        ),
    },
    "wordy": {
        "one": (
            "one may observe {a}{where}",
            "the picture before us presents {a}{where}",
            "it should be noted that {a} {verb}{where}",
            "upon closer inspection {a} can be made out{where}",
            "the viewer's attention is drawn to {a}{where}",
            "what appears to be {a} {verb}{where}",
        ),
        "related": (
            "one may observe {a} {rel} {b}{where}",
            "the composition places {a} {rel} {b}{where}",
            "{a} has been positioned {rel} {b}{where}",
            "it should be noted that {a} {verb} {rel} {b}{where}",
            "{a}, which {verb} {rel} {b}{where}, deserves consideration",
        ),
        "listed": (
            "the arrangement comprises {a} as well as {b}{where}",
            "both {a} and {b} are exhibited{where}",
            "one encounters {a} accompanied by {b}{where}",
            "the artist has combined {a} with {b}{where}",
        ),
    },
    "whimsical": {
        "one": (
            "once there was {a}{where}",
            "{a} {verb}{where} and hums a tune",
            "say hello to {a}{where}",
            "guess who {verb}{where}: {a}",
            "in this tale {a} {verb}{where}",
        ),
        "related": (
            "once {a} was {rel} {b}{where}",
            "{a} {verb} {rel} {b}{where}",
            "look, {a} {rel} {b}{where}",
            "see how {a} {verb} {rel} {b}{where}",
        ),
        "listed": (
            "{a} and {b} {verbs} together{where}",
            "{a} has a secret for {b}{where}",
            "{a} waltzes with {b}{where}",
            "{a} told {b} a joke{where}",
        ),
    },
}
_COUNTED = {
    "telegraphic": "{count}: {core}",
    "plain": "{count} here: {core}",
    "wordy": "{core}, making {count} altogether",
    "whimsical": "{count} live here: {core}",
}
_THIRD = {
    "telegraphic": "; {c}",
    "plain": ", and {c} too",
    "wordy": ", in addition to {c}",
    "whimsical": ", and {c} peeks",
}


@dataclass(frozen=True)
class Describer:
    """Who describes: the style nuisance of one text.

    Attributes
    ----------
    register : one of words.REGISTERS; decides syntax, synonyms and length
    voice : a key of words.VOICES, or None for a describer without temper
    topic : a key of words.TOPICS that the describer's thoughts stray to, or None
    narrator : whose words these are, or None
    """

    register: str
    voice: str | None
    topic: str | None
    narrator: str | None


def draw_describer(dice: Dice, style: float) -> Describer:
    """A describer; at style 0 always a plain one who keeps to the facts."""
    register = dice.pick(words.REGISTERS) if dice.chance(style) else "plain"
    voice = dice.pick(tuple(words.VOICES)) if dice.chance(0.85 * style) else None
    topic = dice.pick(tuple(words.TOPICS)) if dice.chance(0.4 * style) else None
    narrator = dice.pick(words.NARRATORS) if dice.chance(0.2 * style) else None
    return Describer(register, voice, topic, narrator)


def describe(scene: TableScene, draw: int, nuisance: Nuisance = USUAL) -> str:
    """Description number `draw` of a scene: one or two sentences that tell part of it.

    A pure function of the scene, `draw` and `nuisance`. At most two of place, surface and light are told,
    so no description tells everything.
    """
    dice = Dice(scene.seed, scene.index, 2, draw)
    teller = _Teller(scene, draw_describer(dice, nuisance.style), dice, nuisance)
    text = teller.styled(teller.core())
    return text[0].upper() + text[1:]


class _Teller:
    """One describer at one scene: turns facts into phrases and phrases into a text."""

    def __init__(self, scene: TableScene, who: Describer, dice: Dice, nuisance: Nuisance):
        self.scene, self.who, self.dice, self.nuisance = scene, who, dice, nuisance
        self.voice = words.VOICES[who.voice] if who.voice else None

    # Facts

    def word(self, options: dict[str, tuple[str, ...]]) -> str:
        own = self.dice.chance(_OWN_WORDS)
        return self.dice.pick(options[self.who.register if own else "plain"])

    def phrase(self, options: dict[str, tuple[str, ...]]) -> str:
        """As `word`, for phrases whose grammar belongs to the register."""
        return self.dice.pick(options[self.who.register])

    def told(self, scale: float = 1.0) -> bool:
        return self.dice.chance(self.nuisance.told * scale)

    def noun_phrase(self, index: int) -> str:
        """An object with those of its attributes that are told, and an article where the register has one."""
        thing, before, after = self.scene.objects[index], [], ""
        if self.voice and self.dice.chance(0.35 * self.nuisance.style):
            before.append(self.dice.pick(self.voice.attitudes))
        if self.told(0.5):
            before.append(self.word(words.SIZES[thing.size]))
        if self.told(0.6):
            material = self.word(words.MATERIALS[thing.material])
            if material.startswith("+"):
                after = " " + material[1:]
            else:
                before.append(material)
        named = self.dice.chance(0.92)
        if self.told(1.3) or not named:
            before.append(self.word(words.COLOURS[thing.colour]))
        before.append(self.word(words.NOUNS[thing.shape] if named else words.GENERIC_NOUNS))
        text = " ".join(before)
        if self.who.register == "telegraphic":
            return text + after
        return f"{'the' if self.dice.chance(0.15) else _article(text)} {text}{after}"

    def subjects(self) -> list[int]:
        """Which objects are told, the most salient usually first."""
        count = len(self.scene.objects)
        others = self.dice.shuffled(range(1, count))
        chosen = ([0] if not others or self.dice.chance(0.88) else []) + others
        return chosen[: self.dice.pick((1, 2, 2, 2, 3))]

    def relation(self, subject: int, other: int) -> Relation | None:
        holding = [r for r in self.scene.relations() if (r.subject, r.object) == (subject, other)]
        return self.dice.pick(holding) if holding and self.told(1.4) else None

    def setting(self) -> str:
        """Phrases for at most two of place, surface and light, ready to follow a sentence."""
        scene = self.scene
        facts = [words.PLACES[scene.place], words.SURFACES[scene.surface], words.LIGHTS[scene.light]]
        told = [self.phrase(fact) for fact in facts if self.told(0.7)]
        separator = ", " if self.who.register == "telegraphic" else " "
        return "".join(separator + phrase for phrase in told[: self.dice.pick((1, 2))])

    def core(self) -> str:
        """The facts, as one sentence of the register."""
        register, subjects = self.who.register, self.subjects()
        sentences, relation = _SENTENCES[register], None
        parts = {"a": self.noun_phrase(subjects[0]), "where": self.setting(), "verb": self.verb()}
        kind = "one"
        if len(subjects) > 1:
            relation = self.relation(subjects[0], subjects[1])
            kind = "related" if relation else "listed"
            parts |= {"b": self.noun_phrase(subjects[1]), "verbs": self.verb(plural=True)}
        if relation:
            parts["rel"] = self.phrase(words.RELATIONS[relation.name])
        core = self.dice.pick(sentences[kind]).format(**parts)
        if len(subjects) > 2:
            core += _THIRD[register].format(c=self.noun_phrase(subjects[2]))
        if self.told(0.3):
            number = words.NUMBERS[len(self.scene.objects) - 1]
            count = f"{number} {self.phrase(words.COUNTED)}{'' if number == 'one' else 's'}"
            core = _COUNTED[register].format(count=count, core=core)
        return core

    # Style

    def verb(self, plural: bool = False) -> str:
        lexicon = self.voice.verbs if self.voice and self.dice.chance(0.8) else ("stand", "sit", "rest")
        verb = self.dice.pick(lexicon)
        adverb = ""
        if self.voice and self.dice.chance(0.25 * self.nuisance.style):
            adverb = " " + self.dice.pick(self.voice.adverbs)
        return f"{verb}{'' if plural else 's'}{adverb}"

    def styled(self, core: str) -> str:
        """The core between the describer's opener and closing thoughts."""
        style, parts = self.nuisance.style, []
        if self.who.narrator and self.who.register in ("plain", "whimsical"):
            core = f"{core}, {self.phrase(words.SPEECH)} {self.who.narrator}"
        elif self.who.narrator:
            parts.append(f"{self.phrase(words.SPEECH)} {self.who.narrator},")
        elif self.voice and self.dice.chance(0.5 * style):
            parts.append(self.dice.pick(self.voice.openers))
        parts.append(core)
        text = " ".join(parts)
        if self.who.topic:
            text += ", " + self.dice.pick(words.TOPICS[self.who.topic])
        elif self.voice and self.dice.chance(0.5 * style):
            text += ", " + self.dice.pick(self.voice.closers)
        return text + ("" if self.dice.chance(0.3) else ".")


def _article(text: str) -> str:
    vowel = text[0].lower() in "aeio" or text.startswith(("ul", "un"))
    return "an" if vowel and not text.startswith("one") else "a"
