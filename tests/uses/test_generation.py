"""Beam search and nucleus sampling against twins that keep nothing and go one text at a time."""

import numpy as np
import pytest
import torch

from coview.data.tokens import LAST
from coview.errors import UsageError
from coview.uses.captioner import CaptionDecoder, DecoderConfig
from coview.uses.generation import Search, Written, beam_search, distinct, nucleus_sample, write


def make_decoder(vocabulary: int = 12, seed: int = 0) -> CaptionDecoder:
    """Random weights, large enough that tokens matter, in double precision, fond of ending texts."""
    torch.manual_seed(seed)
    shape = DecoderConfig(vocabulary, 5, layers=2, width=16, heads=2, prefix=2, max_length=12)
    decoder = CaptionDecoder(shape, inside=(6,))
    for parameter in decoder.parameters():
        parameter.data.add_(0.25 * torch.randn_like(parameter))
    return decoder.double().eval()


def rows_of(count: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((count, 5)))


def words(tokens) -> str:
    return " ".join(str(token) for token in tokens if token != LAST)


def slow_chances(decoder, row, tokens, longest) -> list[float]:
    """Log-probabilities of the next token, from scratch: the text as a whole, with no cache."""
    states, _ = decoder(row[None], [np.r_[2, tokens, LAST].astype(np.int64)])
    chances = (states[-1] @ decoder.words.weight.T).log_softmax(-1).tolist()
    last = len(tokens) + 1 == longest
    for token in range(len(chances)):
        ends = token == LAST
        begins = not len(tokens) and (ends or token in decoder.inside)
        if token in decoder.never or begins or (last and not ends):
            chances[token] = -np.inf
    return chances


def slow_beam_search(decoder, row, search: Search, width: int) -> list[Written]:
    alive, finished = [((), 0.0)], []
    for length in range(1, search.longest + 1):
        grown = []
        for tokens, total in alive:
            for token, chance in enumerate(slow_chances(decoder, row, tokens, search.longest)):
                if chance == -np.inf:
                    continue
                if token == LAST:
                    score = (total + chance) / length**search.length_penalty
                    finished.append(Written((*tokens, LAST), score))
                else:
                    grown.append(((*tokens, token), total + chance))
        alive = sorted(grown, key=lambda one: -one[1])[:width]
        finished = sorted(finished, key=lambda one: -one.score)[:width]
        if not alive:
            break
        if len(finished) == width and finished[-1].score >= alive[0][1] / length**search.length_penalty:
            break
    return finished


@pytest.mark.parametrize(
    ("width", "penalty", "longest"), [(1, 0.7, 10), (3, 0.0, 10), (4, 1.0, 7), (5, 0.7, 3)]
)
def test_beam_search_is_its_slow_twin(width, penalty, longest):
    decoder, rows = make_decoder(), rows_of(6)
    search = Search(length_penalty=penalty, longest=longest)
    for row, found in zip(rows, beam_search(decoder, rows, search, width=width), strict=True):
        expected = slow_beam_search(decoder, row, search, width)
        assert [one.tokens for one in found] == [one.tokens for one in expected]
        assert np.allclose([one.score for one in found], [one.score for one in expected], atol=1e-10)


def test_a_beam_that_holds_everything_finds_the_best_text_there_is():
    decoder, rows = make_decoder(vocabulary=8), rows_of(1, seed=3)
    search = Search(longest=4, length_penalty=0)
    for row, found in zip(rows, beam_search(decoder, rows, search, width=1000), strict=True):
        every = [()]
        whole = {}
        for _ in range(4):
            grown = []
            for tokens in every:
                for token, chance in enumerate(slow_chances(decoder, row, tokens, 4)):
                    if chance > -np.inf:
                        grown.append((*tokens, token))
            whole |= {tokens: 0.0 for tokens in grown if tokens[-1] == LAST}
            every = [tokens for tokens in grown if tokens[-1] != LAST]
        for tokens in whole:
            steps = range(len(tokens))
            whole[tokens] = sum(slow_chances(decoder, row, tokens[:at], 4)[tokens[at]] for at in steps)
        best = max(whole, key=lambda tokens: whole[tokens])
        assert found[0].tokens == best
        assert found[0].score == pytest.approx(whole[best], abs=1e-10)
        assert len(found) == len(whole)  # 4 words: 4 + 16 + 64 texts


def test_a_wider_beam_is_no_worse_on_the_whole():
    decoder, rows = make_decoder(vocabulary=20, seed=5), rows_of(40, seed=5)
    search = Search(length_penalty=0)
    means = [
        np.mean([row[0].score for row in beam_search(decoder, rows, search, width=w)]) for w in (1, 2, 8)
    ]
    assert means[0] < means[1] < means[2]


def slow_nucleus(decoder, row, search: Search, uniforms) -> tuple[int, ...]:
    tokens: tuple[int, ...] = ()
    for draw in uniforms:
        chances = np.exp(slow_chances(decoder, row, tokens, search.longest))
        order = sorted(range(len(chances)), key=lambda token: -chances[token])
        kept, total = [], 0.0
        for token in order:
            if total >= search.nucleus:
                break
            kept.append(token)
            total += chances[token]
        mark = draw * total
        for token in kept:
            mark -= chances[token]
            if mark < 0:
                break
        tokens = (*tokens, token)
        if token == LAST:
            break
    return tokens


@pytest.mark.parametrize("nucleus", [0.3, 0.9, 1.0])
def test_nucleus_sampling_is_its_slow_twin(nucleus):
    decoder, rows = make_decoder(seed=2), rows_of(12, seed=2)
    search = Search(nucleus=nucleus, longest=8)
    uniforms = np.random.default_rng(4).random((12, 8))
    found = nucleus_sample(decoder, rows, search, uniforms)
    for row, one, draws in zip(rows, found, uniforms, strict=True):
        assert one.tokens == slow_nucleus(decoder, row, search, draws)


def test_a_tiny_nucleus_is_greedy():
    decoder, rows = make_decoder(), rows_of(8, seed=7)
    sampled = nucleus_sample(decoder, rows, Search(nucleus=1e-9), np.random.default_rng(0).random((8, 40)))
    for one, row in zip(sampled, rows, strict=True):
        greedy: tuple[int, ...] = ()
        while greedy[-1:] != (LAST,):
            greedy = (*greedy, int(np.argmax(slow_chances(decoder, row, greedy, 12))))
        assert one.tokens == greedy


class Fixed:
    """A decoder that always gives the same probabilities."""

    longest, end, never, inside = 20, LAST, (), ()

    def __init__(self, chances):
        self.scores = torch.tensor(chances, dtype=torch.float64).log()

    def start(self, rows):
        return self.scores.expand(len(rows), -1), None

    def step(self, ids, cache):
        return self.scores.expand(len(ids), -1), None

    def select(self, cache, rows):
        return None


def test_tokens_come_as_often_as_the_nucleus_says():
    decoder = Fixed([0, 0, 0, 0.25, 0, 0.3, 0.25, 0.15, 0.05])
    draws = np.random.default_rng(0).random((20_000, 6))
    found = nucleus_sample(decoder, torch.zeros(20_000, 1), Search(nucleus=0.8, longest=6), draws)
    first = np.bincount([one.tokens[0] for one in found], minlength=9) / 20_000
    # At the first token no end is allowed, so the nucleus is filled from the others.
    assert np.allclose(first[[5, 6, 7, 8]], np.array([0.3, 0.25, 0.15, 0.05]) / 0.75, atol=0.015)
    second = [one.tokens[1] for one in found]
    share = np.bincount(second, minlength=9) / 20_000
    assert np.allclose(share[[5, 3, 6, 7]], np.array([0.3, 0.25, 0.25, 0.0]) / 0.8, atol=0.02)


@pytest.mark.parametrize("nucleus", [None, 0.95])
def test_texts_are_whole_distinct_and_the_same_in_any_batch(nucleus):
    decoder, rows = make_decoder(vocabulary=20), rows_of(9).numpy()
    search = Search(beam=2, nucleus=nucleus, longest=9)
    decoder = decoder.float()
    together = write(decoder, rows, search, words, count=4)
    assert together == write(decoder, rows, search, words, count=4, batch=2)
    for texts in together:
        assert len(set(texts)) == len(texts) == 4
        assert all(text and len(text.split()) < 9 for text in texts)
    best = write(decoder, rows, search, words)
    assert [len(texts) for texts in best] == [1] * 9
    again = write(decoder, rows, Search(beam=2, nucleus=nucleus, longest=9, seed=1), words)
    assert (again == best) == (nucleus is None)


@pytest.mark.parametrize("nucleus", [None, 1.0])
def test_no_text_begins_inside_a_word(nucleus):
    decoder, rows = make_decoder().float(), rows_of(60, seed=9).numpy()
    search = Search(nucleus=nucleus)
    texts = [text.split() for row in write(decoder, rows, search, words, count=8) for text in row]
    assert "6" not in {text[0] for text in texts}
    assert "6" in {word for text in texts for word in text[1:]}
    decoder.inside = ()
    free = [text.split() for row in write(decoder, rows, search, words, count=8) for text in row]
    assert "6" in {text[0] for text in free}


def test_texts_that_are_spelt_alike_count_once():
    decoder, rows = make_decoder(vocabulary=20).float(), rows_of(3).numpy()
    texts = write(decoder, rows, Search(), lambda tokens: words(token // 3 for token in tokens), count=3)
    assert all(len(set(row)) == 3 for row in texts)
    assert distinct(["a", "b", "a"]) == ["a", "b"]


@pytest.mark.parametrize(
    "options", [{"beam": 0}, {"nucleus": 0.0}, {"nucleus": 1.5}, {"nucleus": float("nan")}, {"longest": 1}]
)
def test_what_is_no_search_is_refused(options):
    with pytest.raises(UsageError):
        Search(**options)
