"""Writing texts with a decoder: beam search and nucleus sampling, many texts at a time.

A decoder gives scores of the next token and keeps what it has computed of earlier ones in a cache. All texts
of a batch are equally long at every step, so nothing is padded; texts that are finished leave the batch. A
text does not depend on which others are in its batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from coview.errors import UsageError

ROUNDS = 8  # times that nucleus sampling is tried again for captions that differ


class Decoder(Protocol):
    """What writes a text token by token; see `coview.uses.captioner.CaptionDecoder`."""

    longest: int  # most tokens it can write
    end: int  # the token that ends a text
    never: Sequence[int]  # tokens that no text holds
    inside: Sequence[int]  # tokens that go on with a word, so that no text begins with one

    def start(self, rows: Tensor) -> tuple[Tensor, Any]: ...

    def step(self, ids: Tensor, cache: Any) -> tuple[Tensor, Any]: ...

    def select(self, cache: Any, rows: Tensor) -> Any: ...


class Written(NamedTuple):
    """A text as tokens, and its score: log-probability (nats) over length to the power of the penalty."""

    tokens: tuple[int, ...]
    score: float


@dataclass(frozen=True)
class Search:
    """How a text is chosen.

    Attributes
    ----------
    beam : texts that are followed at a time; 1 is greedy
    nucleus : None for beam search; else the share of probability that a token is drawn from, in (0, 1]
    longest : most tokens of a text, the one that ends it included
    length_penalty : 0 favours short texts, 1 compares mean log-probabilities of tokens
    seed : of nucleus sampling
    """

    beam: int = 4
    nucleus: float | None = None
    longest: int = 40
    length_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self):
        if self.beam < 1:
            raise UsageError(f"must be at least 1, not {self.beam}.", where="--beam")
        if self.nucleus is not None and not 0 < self.nucleus <= 1:
            raise UsageError(f"must lie in (0, 1], not {self.nucleus:g}.", where="--nucleus")
        if self.longest < 2:
            raise UsageError(f"a text has at least two tokens, not {self.longest}.", where="longest")


def write(
    decoder: Decoder,
    rows: np.ndarray,
    search: Search,
    text_of: Callable[[Sequence[int]], str],
    *,
    count: int = 1,
    batch: int = 64,
    device: torch.device | str = "cpu",
    progress: Callable[[int], None] = lambda done: None,
) -> list[list[str]]:
    """Texts for embeddings, the best first.

    Parameters
    ----------
    rows : float array (N, D), as the decoder was trained on: centred and of length one
    text_of : turns tokens into text
    count : texts for each row, no two alike; fewer where nucleus sampling finds no more
    batch : rows at a time

    Returns
    -------
    list of N lists of str
    """
    texts: list[list[str]] = []
    for first in range(0, len(rows), batch):
        part = torch.from_numpy(np.ascontiguousarray(rows[first : first + batch], np.float32)).to(device)
        places = range(first, first + len(part))
        if search.nucleus is None:
            found = beam_search(decoder, part, search, width=max(search.beam, count))
            texts += [distinct([text_of(one.tokens) for one in row])[:count] for row in found]
            # Two token sequences may spell one text, so a few more are followed where texts are short.
            for place in (place for place in places if len(texts[place]) < count):
                row = beam_search(decoder, part[place - first][None], search, width=4 * count)[0]
                texts[place] = distinct([text_of(one.tokens) for one in row])[:count]
        else:
            texts += _sampled(decoder, part, search, text_of, count, places)
        progress(len(texts))
    return texts


def distinct(texts: Sequence[str]) -> list[str]:
    """Texts in their order, without those that came before."""
    return list(dict.fromkeys(texts))


@torch.inference_mode()
def beam_search(decoder: Decoder, rows: Tensor, search: Search, *, width: int) -> list[list[Written]]:
    """The best texts found by following `width` at a time, best first, up to `width` for each row.

    A row is finished when no unfinished text, scored as if it ended now, is better than the worst of its
    `width` finished ones.

    Parameters
    ----------
    rows : Tensor (N, D)
    """
    penalty, longest = search.length_penalty, min(search.longest, decoder.longest)
    active = torch.arange(len(rows), device=rows.device)
    scores, cache = decoder.start(rows)
    alive = torch.zeros(len(rows), 1, device=rows.device, dtype=scores.dtype)  # log-probabilities (A, beams)
    tokens = torch.empty(len(rows), 1, 0, dtype=torch.int64, device=rows.device)
    finished: list[list[Written]] = [[] for _ in range(len(rows))]
    for length in range(1, longest + 1):
        types = scores.shape[-1]
        chances = _allowed(decoder, scores, length, longest).view(*alive.shape, types)
        totals = alive[..., None] + chances
        ends = totals[..., decoder.end] / length**penalty
        for place, beam in (ends > -torch.inf).nonzero().tolist():
            whole = (*tokens[place, beam].tolist(), decoder.end)
            finished[int(active[place])].append(Written(whole, ends[place, beam].item()))
        totals[..., decoder.end] = -torch.inf
        most = min(width, totals[0].numel())
        alive, flat = totals.flatten(1).topk(most)
        parents, chosen = flat // types, flat % types
        going = []
        for place, row in enumerate(active.tolist()):
            finished[row] = sorted(finished[row], key=lambda one: -one.score)[:width]
            full = len(finished[row]) == width
            best = alive[place, 0].item() / length**penalty  # -inf once a text is as long as may be
            if best > -torch.inf and not (full and finished[row][-1].score >= best):
                going.append(place)
        if not going:
            break
        kept = torch.tensor(going, device=rows.device)
        beams = tokens.shape[1]
        tokens = tokens.gather(1, parents[..., None].expand(-1, -1, length - 1))
        tokens = torch.cat([tokens, chosen[..., None]], dim=2)[kept]
        places = (kept[:, None] * beams + parents[kept]).flatten()
        active, alive = active[kept], alive[kept]
        scores, cache = decoder.step(tokens[..., -1].flatten(), decoder.select(cache, places))
    return finished


@torch.inference_mode()
def nucleus_sample(decoder: Decoder, rows: Tensor, search: Search, uniforms: np.ndarray) -> list[Written]:
    """One text for each row, every token drawn from the fewest types that hold the nucleus' probability.

    (Holtzman et al., 2020.)

    Parameters
    ----------
    rows : Tensor (N, D)
    uniforms : float array (N, longest) in [0, 1), what decides the draws of each row
    """
    assert search.nucleus is not None
    longest = min(search.longest, decoder.longest)
    active = torch.arange(len(rows), device=rows.device)
    draws = torch.from_numpy(uniforms).to(rows.device)
    scores, cache = decoder.start(rows)
    tokens = torch.empty(len(rows), 0, dtype=torch.int64, device=rows.device)
    totals = torch.zeros(len(rows), device=rows.device, dtype=scores.dtype)
    texts: list[Written] = [Written((), 0.0)] * len(rows)
    for length in range(1, longest + 1):
        chances = _allowed(decoder, scores, length, longest)
        sorted_chances, order = chances.exp().double().sort(dim=1, descending=True, stable=True)
        before = sorted_chances.cumsum(1) - sorted_chances
        kept = sorted_chances.where(before < search.nucleus, 0).cumsum(1)
        marks = draws[active, length - 1, None] * kept[:, -1:]
        place = torch.searchsorted(kept, marks, right=True).clamp_max(chances.shape[1] - 1)
        chosen = order.gather(1, place)
        totals = totals + chances.gather(1, chosen)[:, 0]
        tokens = torch.cat([tokens, chosen], dim=1)
        done = chosen[:, 0] == decoder.end
        for at in done.nonzero()[:, 0].tolist():
            score = totals[at].item() / length**search.length_penalty
            texts[int(active[at])] = Written(tuple(tokens[at].tolist()), score)
        going = (~done).nonzero()[:, 0]
        if not len(going):
            break
        active, tokens, totals = active[going], tokens[going], totals[going]
        scores, cache = decoder.step(tokens[:, -1], decoder.select(cache, going))
    return texts


def _sampled(
    decoder: Decoder,
    rows: Tensor,
    search: Search,
    text_of: Callable[[Sequence[int]], str],
    count: int,
    places: range,
) -> list[list[str]]:
    """Texts that differ, for each row; draws depend on (seed, place of the row, number of the draw)."""
    found: list[list[str]] = [[] for _ in places]
    for attempt in range(count * ROUNDS):
        short = [at for at, texts in enumerate(found) if len(texts) < count]
        if not short:
            break
        uniforms = np.stack(
            [
                np.random.default_rng([search.seed, 11, places[at], attempt]).random(search.longest)
                for at in short
            ]
        )
        for at, one in zip(short, nucleus_sample(decoder, rows[short], search, uniforms), strict=True):
            found[at] = distinct([*found[at], text_of(one.tokens)])
    return found


def _allowed(decoder: Decoder, scores: Tensor, length: int, longest: int) -> Tensor:
    """Log-probabilities of the tokens that may come next; -inf where one may not.

    A text begins with the beginning of a word, and its last token, when it is as long as may be, ends it.
    """
    chances = scores.log_softmax(-1)
    chances[:, list(decoder.never)] = -torch.inf
    if length == 1:
        chances[:, [decoder.end, *decoder.inside]] = -torch.inf
    if length == longest:
        end = chances[:, decoder.end].clone()
        chances.fill_(-torch.inf)
        chances[:, decoder.end] = end
    return chances
