"""Words of a caption: what caption scores count.

The figures in papers are counted on the tokens of Stanford's PTBTokenizer 3.4.1 (Java), lower-cased, less the
punctuation that coco-caption takes out. ``ptb`` gives those tokens without Java, by the rules below;
``simple`` keeps runs of ASCII letters and digits; ``split`` takes texts that are tokenised already. All of
them read a text as one line, whereas the Java one takes a form feed, a carriage return or U+2028 for the end
of a caption, and every caption after it moves up a row.

Quirks of the original that ``ptb`` keeps, because scores are compared with it: brackets become ``-lrb-`` and
count as words, ``!!!`` stays in though ``!`` does not, € becomes $, emoji are dropped.
"""

import re
import unicodedata
from collections.abc import Callable

from coview.errors import UsageError, did_you_mean

Tokeniser = Callable[[str], list[str]]

# What coco-caption leaves out. Its list has brackets in upper case, tokens are in lower case: they stay in.
PUNCTUATION = frozenset(["''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";", '"'])
BRACKETS = {"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-"}
ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'", "nbsp": " "}
SPLIT_WORDS = {
    "cannot": ["can", "not"],
    "gonna": ["gon", "na"],
    "gotta": ["got", "ta"],
    "wanna": ["wan", "na"],
    "gimme": ["gim", "me"],
    "lemme": ["lem", "me"],
    "'tis": ["'t", "is"],
    "'twas": ["'t", "was"],
}
KEPT_SYMBOLS = "°©®™"  # of those that are no letter, digit or punctuation; others are dropped as emoji are

_ENTITY = re.compile(r"&(amp|lt|gt|quot|apos|nbsp);")
_ALIKE: dict[str, str | None] = {  # typographic characters and what they count as
    **dict.fromkeys("\u2018\u2019\u201b", "'"),
    **dict.fromkeys("“”„«»", '"'),
    **dict.fromkeys("\u2013\u2014", "--"),
    **{"…": "...", "€": "$", "£": "#", "½": "1/2", "¼": "1/4", "¾": "3/4", "\u00ad": None},
}
_TO_ASCII = str.maketrans(_ALIKE)

_RUN = r"(?:[^\W_][\u0300-\u036f]*)+"  # letters and digits, with accents that stand by themselves
_WORD = rf"{_RUN}(?:[-/_]{_RUN})*"
_SHORT_FOR = (
    "mr|mrs|ms|dr|prof|rev|gen|col|sgt|capt|lt|gov|sen|rep|jr|sr|st|ste|mt|ft|ave|blvd|rd|dept|univ|inc|co|corp|ltd"
    "|bros|vs|etc|est|jan|feb|mar|apr|aug|sept?|oct|nov|dec|mon|tue|tues|wed|thu|thurs|fri"
)
# Kinds of token, the first that fits at a place is taken.
_TOKEN = re.compile(
    "|".join(
        [
            r"(?:https?://|www\.)[^\s\"<>()]*[^\s\"<>().,;:!?']",  # an address of the web
            r"[\w.+-]+@\w+(?:[.-]\w+)*\.\w+",  # an address of mail
            r"</?[A-Za-z]\w*/?>",  # <unk>
            rf"\b(?i:{_SHORT_FOR})\.(?![^\W_])",  # mr.
            r"\b[Nn]o\.(?=\s*\d)",  # no. 5
            r"\b[A-Z]\.(?![^\W_])",  # J. Smith
            r"\b[^\W\d_](?:\.[^\W\d_])+\b\.?",  # u.s.  a.k.a.
            r"\b[A-Z]+(?:&[A-Z]+)+\b",  # AT&T
            rf"(?<![^\W_])[-+]?\d+(?:[.,:]\d+)+(?:-{_RUN})*",  # 3.5  37,000  5:30  10,000-foot
            r"(?<!\S)(?:[-+]\.?|\.)\d+\b",  # -5  .5
            rf"{_WORD}(?:[.!?](?=[^\W\d_]){_WORD})*(?:['`](?!n'){_RUN})?",  # t-shirt  and/or  runs.the  don't
            r"'n'",  # rock 'n' roll
            r"'(?i:s|m|d|re|ve|ll|em|til|n|cause|tis|twas|\d0s)(?![^\W_])",  # 's by itself
            rf"[@#](?!\d){_RUN}",  # #selfie
            r"\.{2,}|-{2,}|[!?]+|\*+|_+|=+|``|''",
            r"\S",
        ]
    )
)
_SUFFIX = re.compile(r"(.+?)('(?:s|m|d|re|ve|ll)|n['`]t)", re.DOTALL)
_NOT_SIMPLE = re.compile(r"[^a-z0-9']+")


def ptb(text: str) -> list[str]:
    """Tokens as Stanford's PTBTokenizer and coco-caption give them; see the module's head."""
    text = " ".join(_ENTITY.sub(lambda entity: ENTITIES[entity[1]], text).translate(_TO_ASCII).split())
    tokens: list[str] = []
    for token in map(str.lower, _TOKEN.findall(text)):
        if token in SPLIT_WORDS:
            tokens += SPLIT_WORDS[token]
        elif "'" in token or "`" in token:
            tokens += _without_apostrophe(token)
        elif token in BRACKETS:
            tokens.append(BRACKETS[token])
        elif token.isascii() or len(token) > 1 or not _is_dropped(token):
            tokens.append(token)
    return [token for token in tokens if token not in PUNCTUATION and token.strip(".-")]


def _without_apostrophe(token: str) -> list[str]:
    """Contractions fall apart (it 's, do n't), o'clock and l'orange stay whole."""
    if match := _SUFFIX.fullmatch(token):
        return [match[1], match[2]]
    before, mark, after = token.partition("'" if "'" in token else "`")
    is_elided = len(before) == 1 and before.isalpha() and before != "y"
    if not before or not after or (mark == "'" and (is_elided or token == "ma'am")):
        return [token]
    return [before + mark if before == "y" else before, after]


def _is_dropped(character: str) -> bool:
    return unicodedata.category(character) in ("So", "Sk", "Mn", "Me", "Cf", "Co", "Cn", "Cs") and (
        character not in KEPT_SYMBOLS
    )


def simple(text: str) -> list[str]:
    """Runs of a to z, digits and apostrophes after NFKC and lower-casing; no apostrophes at the ends."""
    text = unicodedata.normalize("NFKC", text).lower()
    return [word for part in _NOT_SIMPLE.sub(" ", text).split() if (word := part.strip("'"))]


TOKENISERS: dict[str, Tokeniser] = {"ptb": ptb, "simple": simple, "split": str.split}


def tokeniser(name: str) -> Tokeniser:
    """The tokeniser of a name; UsageError if there is none."""
    if name not in TOKENISERS:
        raise UsageError(
            f"unknown tokeniser {name!r}.", where="--tokens", hint=did_you_mean(name, [*TOKENISERS])
        )
    return TOKENISERS[name]
