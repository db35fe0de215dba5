"""Tokens as published scores count them."""

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coview.errors import UsageError
from coview.uses.caption_tokens import PUNCTUATION, TOKENISERS, ptb, simple, tokeniser

# Written by hand after what the Java tokeniser prints.
FIXTURES = {
    "A man (with a hat) stands.": "a man -lrb- with a hat -rrb- stands",
    "It's the dog's ball; don't!": "it 's the dog 's ball do n't",
    "CAN'T cannot Gonna wanna gotta lemme gimme": "ca n't can not gon na wan na got ta lem me gim me",
    "I'm you're we'll they've she'd": "i 'm you 're we 'll they 've she 'd",
    "rock 'n' roll o'clock ma'am l'orange": "rock 'n' roll o'clock ma'am l'orange",
    "rock'n'roll y'all 'tis": "rock 'n' roll y' all 't is",
    "women's boys' toys": "women 's boys toys",
    "“Smart quotes” and \u2018it\u2019s\u2019 \u2013 dash — em…": "smart quotes and it 's dash em",
    "U.S. Army, e.g. a.k.a. Mr. Smith vs. St. Louis": "u.s. army e.g. a.k.a. mr. smith vs. st. louis",
    "T-shirt and/or 3-year-old 9-11": "t-shirt and/or 3-year-old 9-11",
    "3.5 km, 37,000 at 5:30pm or 5pm; 1/2": "3.5 km 37,000 at 5:30 pm or 5pm 1/2",
    "50% off #1 $5 €5": "50 % off # 1 $ 5 $ 5",
    "No. 5 is no. No.": "no. 5 is no no",
    "AT&amp;T and a&b I&lt;3": "at&t and a & b i < 3",
    "wait!!! what?! -- ok...": "wait !!! what ?! ok",
    "[a] {b}": "-lsb- a -rsb- -lcb- b -rcb-",
    "see http://a.b/c. or www.foo.com, mail me@foo.com": "see http://a.b/c or www.foo.com mail me@foo.com",
    "<unk> naïve café שלום 😀 dog 👍🏽": "<unk> naïve café שלום dog",
    "runs.The dog": "runs.the dog",
    "6' tall, 'em '60s": "6 tall 'em '60s",
    "": "",
    "..": "",
}


@pytest.mark.parametrize("text", FIXTURES)
def test_ptb_by_hand(text):
    assert " ".join(ptb(text)) == FIXTURES[text]


def test_simple_by_hand():
    assert simple("The ﬁrst CAFÉ, 'n' rock's 2nd-best!") == [
        "the",
        "first",
        "caf",
        "n",
        "rock's",
        "2nd",
        "best",
    ]


@pytest.mark.parametrize("name", TOKENISERS)
@pytest.mark.parametrize("line_break", ["\n", "\r", "\f", "\x1c", "\u2028", "\x85"])
def test_a_line_break_is_a_space(name, line_break):
    assert tokeniser(name)(f"a dog{line_break}runs") == ["a", "dog", "runs"]


@given(st.text(alphabet=st.sampled_from(string.printable + "\u2019\u2013…é😀שﬁ€\u0301\ud800"), max_size=200))
def test_tokens_of_any_text_hold_no_space_and_are_found_again(text):
    for name in ("ptb", "simple"):
        tokens = TOKENISERS[name](text)
        assert all(token and not token.isspace() and token == token.lower() for token in tokens)
        assert " ".join(tokens).split() == tokens
        assert not set(tokens) & PUNCTUATION


def test_a_long_text_takes_time_in_proportion():
    for piece in ("a", "'", ".", "a.", "a@", "-", "http://", "no.", "5:", "&"):  # would hang if it did not
        ptb(piece * 50_000)


def test_an_unknown_tokeniser_is_named():
    with pytest.raises(UsageError, match="'pbt'"):
        tokeniser("pbt")


def test_ptb_and_simple_equal_the_oracle(shared):
    folder = shared / "oracle" / "captions"
    for text, tokens in json.loads((folder / "ptb_fixtures.json").read_text()):
        assert " ".join(ptb(text)) == tokens
    for file in sorted(folder.glob("multi30k_*.json")):
        oracle = json.loads(file.read_text())
        raw = [*oracle["candidates_raw"], *(text for texts in oracle["references_raw"] for text in texts)]
        for name in ("ptb", "simple"):
            split = oracle["scores"][name]
            expected = [
                *split["candidates_tok"],
                *(text for texts in split["references_tok"] for text in texts),
            ]
            assert [" ".join(TOKENISERS[name](text)) for text in raw] == expected
