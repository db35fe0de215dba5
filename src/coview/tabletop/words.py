"""The describers' vocabulary: how each register names each fact, and what each voice adds to it.

A register has words of its own for almost every fact, so that two texts of one scene often share few words.
A voice has words that say nothing about any scene, so that a text is recognisable by its describer.
"""

from typing import NamedTuple

REGISTERS = ("telegraphic", "plain", "wordy", "whimsical")


class Voice(NamedTuple):
    """A describer's temper: words that colour a text whatever it describes.

    Attributes
    ----------
    verbs : what things do on the table, without the final s
    adverbs, attitudes, openers, closers : words and phrases of this voice alone
    """

    verbs: tuple[str, ...]
    adverbs: tuple[str, ...]
    attitudes: tuple[str, ...]
    openers: tuple[str, ...]
    closers: tuple[str, ...]


def _options(text: str) -> tuple[str, ...]:
    return tuple(text.split("|"))


def _by_register(rows: dict[str, tuple[str, str, str, str]]) -> dict[str, dict[str, tuple[str, ...]]]:
    """fact -> register -> options."""
    return {
        fact: {register: _options(text) for register, text in zip(REGISTERS, texts, strict=True)}
        for fact, texts in rows.items()
    }


NOUNS = _by_register(
    {
        "ball": ("sphere|orb", "ball", "globe|spherical body|round object", "little moon|bouncer|roly-poly"),
        "block": (
            "cube|cuboid",
            "block|box",
            "six-sided solid|squarish brick",
            "toy castle|chunky fellow|giant's die",
        ),
        "cone": ("cone", "cone", "conical form|tapering solid", "wizard's hat|witch's cap|tiny volcano"),
        "tin": (
            "cylinder|can",
            "tin|can",
            "canister|cylindrical container",
            "soup tower|tin drum|sardine palace",
        ),
        "ring": ("torus|ring", "ring|hoop", "circular band|annular object", "doughnut|halo|lifebelt"),
        "star": (
            "star|pentagram",
            "star",
            "five-pointed ornament|stellar figure",
            "fallen twinkle|wishing-star|skyling",
        ),
        "bottle": (
            "flask|bottle",
            "bottle",
            "carafe|narrow-necked vessel",
            "genie's house|swan-neck|potion-keeper",
        ),
        "mug": ("cup|mug", "mug|cup", "tankard|handled drinking vessel", "cocoa-holder|one-eared pot|sipper"),
        "bowl": (
            "basin|bowl",
            "bowl|dish",
            "shallow receptacle|open serving vessel",
            "porridge boat|soup-cradle|dip",
        ),
        "duck": ("duck", "duck|toy duck", "model waterfowl|ornamental bird", "quacker|bath pirate|paddler"),
    }
)
GENERIC_NOUNS = _by_register(
    {"thing": ("item|unit", "thing", "object|article", "creature|somebody|mystery")},
)["thing"]
COLOURS = _by_register(
    {
        "red": ("red", "red|bright red", "scarlet|crimson", "cherry|tomato-red|ruby"),
        "orange": ("orange", "orange", "amber|tangerine", "marmalade|pumpkin|carroty"),
        "yellow": ("yellow", "yellow|bright yellow", "golden|lemon-coloured", "buttery|sunflower|banana"),
        "green": ("green", "green", "emerald|verdant", "froggy|pea-green|mossy"),
        "blue": ("blue", "blue|deep blue", "azure|ultramarine", "inky|sky-dipped|blueberry"),
        "purple": ("purple", "purple", "violet|mauve", "plummy|lavender|beetroot"),
        "white": ("white", "white", "ivory|pale|chalk-white", "snowy|milky|ghostly"),
        "black": ("black", "black", "ebony|jet-black", "sooty|midnight|liquorice"),
    }
)
SIZES = _by_register(
    {
        "small": (
            "sm.|mini",
            "small|little",
            "diminutive|modestly proportioned",
            "teeny|pocket-sized|thumb-high",
        ),
        "medium": (
            "mid|med.",
            "medium|middle-sized",
            "moderate|average-sized",
            "just-right|neither-here-nor-there",
        ),
        "large": (
            "lg.|XL",
            "big|large",
            "considerable|substantial|sizeable",
            "whopping|enormous|elephantine",
        ),
    }
)
# A leading "+" puts the words behind the noun.
MATERIALS = _by_register(
    {
        "woollen": ("wool|felt", "woolly|+made of wool", "knitted|+of woven yarn", "cuddly|sheepish|fuzzy"),
        "glazed": (
            "glazed|gloss",
            "shiny|+with a shiny glaze",
            "lustrous|+of glazed earthenware",
            "gleaming|licked-clean",
        ),
        "metal": (
            "metal|steel",
            "metal|+made of metal",
            "metallic|+of burnished steel",
            "clanking|robot-skinned",
        ),
        "glass": (
            "glass|clear",
            "glass|see-through",
            "transparent|+of clear crystal",
            "icicle-thin|half-invisible",
        ),
        "striped": (
            "striped|banded",
            "striped|+with stripes",
            "banded|+bearing horizontal stripes",
            "zebra|pyjama-clad",
        ),
        "dotted": (
            "dotted|spotted",
            "dotted|+with dots",
            "speckled|+patterned with small dots",
            "ladybird|freckled|measled",
        ),
    }
)
RELATIONS = _by_register(
    {
        "left of": (
            "L of|left of",
            "to the left of|left of",
            "on the left-hand side of",
            "one hop leftwards from",
        ),
        "right of": (
            "R of|right of",
            "to the right of|right of",
            "on the right-hand side of",
            "one hop rightwards from",
        ),
        "behind": (
            "behind|rear of",
            "behind|in back of",
            "to the rear of|at the back of",
            "hiding behind|peeping over",
        ),
        "in front of": ("fore of|before", "in front of|before", "in the foreground of", "guarding|shielding"),
        "beside": ("by|adj.", "next to|beside", "adjacent to|alongside", "elbow to elbow with|cuddling"),
        "on": ("atop|on", "on top of|on", "supported by|resting upon", "riding on|perched upon"),
        "under": ("beneath", "under|below", "underneath|serving as pedestal to", "carrying|hoisting"),
    }
)
PLACES = _by_register(
    {
        "kitchen": ("kitchen|tiled wall", "in the kitchen", "within the tiled kitchen|in culinary surroundings",
                    "where soup is born|in the land of kettles"),
        "nursery": ("nursery|kids' room", "in the nursery|in the playroom", "in the children's quarters",
                    "where teddies rule|in lullaby country"),
        "workshop": ("workshop|shed", "in the workshop|in the shed", "in the artisan's workroom",
                     "where hammers sing|in the kingdom of sawdust"),
        "study": ("study|bookshelf", "in the study|by the bookshelf", "amid the volumes of a private library",
                  "where books whisper|under a thousand stories"),
        "garden": ("garden|hedge", "in the garden|by the hedge", "amid cultivated shrubbery|outdoors among foliage",
                   "where snails commute|on the edge of leafland"),
        "harbour": ("harbour|sea", "at the harbour|by the sea", "overlooking the maritime horizon|at the waterfront",
                    "where gulls gossip|near the salty blue"),
    }
)  # fmt: skip
SURFACES = _by_register(
    {
        "oak": (
            "oak|wood top",
            "on a wooden table|on the oak table",
            "upon polished timber",
            "on a slice of forest",
        ),
        "marble": ("marble", "on a marble top|on marble", "upon a veined stone slab", "on a frozen cloud"),
        "slate": (
            "slate",
            "on grey slate|on a slate table",
            "upon a dark mineral surface",
            "on a rainy rock",
        ),
        "gingham": (
            "checked cloth",
            "on a checked tablecloth",
            "upon chequered gingham fabric",
            "on a picnic chessboard",
        ),
        "linen": (
            "linen",
            "on plain linen|on a linen cloth",
            "upon an unbleached textile",
            "on a napkin meadow",
        ),
        "velvet": ("velvet", "on purple velvet|on velvet", "upon a plush covering", "on a king's cushion"),
    }
)
LIGHTS = _by_register(
    {
        "daylight": (
            "day|noon",
            "by day|in daylight",
            "in clear natural illumination",
            "while the sun is watching",
        ),
        "sunset": (
            "dusk|sunset",
            "at sunset|in the evening sun",
            "in the amber glow of evening",
            "as the sky turns to jam",
        ),
        "lamplight": (
            "lamp on|lamplit",
            "by lamplight|under a lamp",
            "beneath artificial lighting",
            "in a puddle of lamp-honey",
        ),
        "moonlight": (
            "night|moonlit",
            "at night|in the moonlight",
            "under nocturnal conditions",
            "when owls keep shop",
        ),
    }
)
NUMBERS = ("one", "two", "three", "four")
COUNTED = _by_register(
    {"thing": ("item|unit", "thing|object", "article|element", "friend|adventurer")},
)["thing"]

VOICES = {
    name: Voice(*(_options(text) for text in texts))
    for name, texts in {
        "cheerful": ("beam|grin|sparkle", "merrily|happily|gladly", "lovely|charming|delightful|splendid",
                     "Hooray,|How lovely:|What a treat,|Good news:",
                     "which made my day|bless it|and everybody smiled|simply wonderful"),
        "gloomy": ("droop|brood|mope", "mournfully|sadly|wearily", "lonely|wretched|forlorn|sorry",
                   "Alas,|Oh dear,|Woe,|As always,",
                   "and nobody came|such is life|what a pity|and it will not last"),
        "sleepy": ("doze|snooze|slumber", "drowsily|dreamily|lazily", "sleepy|snoring|pillowy|yawning",
                   "Yawn,|Half asleep,|Before bed,|Zzz,",
                   "goodnight|or was I dreaming|wake me later|hush now"),
        "grumpy": ("loiter|sulk|clutter", "needlessly|rudely|pointlessly", "silly|blasted|useless|annoying",
                   "Honestly,|Hmph,|Not again:|If you must know,",
                   "who leaves it there|what a mess|and I must tidy up|do not ask me why"),
        "hungry": ("simmer|stew|marinate", "deliciously|temptingly|crunchily", "tasty|edible-looking|appetising|juicy",
                   "Before lunch,|Is it dinner yet:|Mmm,|Starving here,",
                   "and my stomach growled|pass the sandwiches|I could eat it|with extra gravy please"),
        "nautical": ("drift|anchor|bob", "starboard-ward|seaworthily|briskly", "barnacled|shipshape|seafaring|salty",
                     "Ahoy,|Captain,|From the crow's nest:|Avast,",
                     "all hands on deck|steady as she goes|aye aye|and the tide is turning"),
        "detective": ("lurk|wait|skulk", "suspiciously|silently|cunningly", "suspicious|incriminating|shady|curious",
                      "Exhibit A:|Aha,|My suspicion:|Elementary,",
                      "and I have my doubts|case closed|the butler did it|mark my words"),
        "romantic": ("swoon|sigh|pine", "tenderly|longingly|sweetly", "beloved|darling|adored|graceful",
                     "My dearest,|O heart,|With love,|Be still:",
                     "and my heart fluttered|like our first kiss|forever yours|I blush to say"),
        "scholarly": ("occur|persist|recur", "empirically|arguably|methodically",
                      "noteworthy|canonical|hypothetical|paradigmatic",
                      "Figure one:|Ergo,|We hypothesise:|In our sample,",
                      "as the literature suggests|further research is needed|quod erat demonstrandum|see appendix"),
        "sporting": ("defend|dribble|score", "unstoppably|fairly|athletically", "champion|record-breaking|offside|sweaty",
                     "Kick-off:|Ladies and gentlemen,|Replay:|And it's live:",
                     "and the crowd goes wild|what a match|back to the studio|extra time beckons"),
    }.items()
}  # fmt: skip

# Asides about the describer's own day: coherent within a text, unrelated to any scene.
TOPICS = {
    topic: _options(text)
    for topic, text in {
        "rain": "while rain drummed on the roof|my umbrella still dripping|with thunder rumbling outside|on a drizzly Monday",
        "snow": "while snowflakes settled outside|my mittens soaked|with the pond frozen over|on a frosty January day",
        "heat": "though the heat is unbearable|my forehead sweating|with every fan whirring|in the August drought",
        "cat": "while my cat purred|the kitten clawing my sleeve|with whiskers in the butter|after feeding Tiddles",
        "radio": "while the radio crackled|an old waltz playing|with jazz from next door|between two news bulletins",
        "tea": "while my tea went cold|a biscuit in hand|with the kettle whistling|after a second cuppa",
        "train": "while the express was delayed|my ticket already punched|with the guard shouting|two stops before Crewe",
        "grandmother": "as grandmother used to say|like at granny's funeral|with auntie's knitting beside me|for my nephew's birthday",
        "market": "while the traders haggled|prices rising daily|with coins jingling|before the bank shut",
        "school": "while the pupils giggled|my homework unfinished|with chalk everywhere|during Latin class",
        "doctor": "while my tooth ached|a fever coming on|with both ankles bandaged|after the dentist called",
        "wedding": "while the bride cried|confetti still falling|with champagne flowing|after the honeymoon",
    }.items()
}
NARRATORS = _options(
    "Ada|Mr Finch|Olga|Uncle Bo|Priya|Sergeant Pike|Lucia|old Tam|Mei|Doctor Voss|Yusuf|Madame Roux|Kofi|Inge"
)
SPEECH = _by_register(
    {"said": ("via|per|ref.", "says|writes", "according to|as reported by", "sings|whispers|giggles")},
)["said"]
