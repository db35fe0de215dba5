"""Scores of captions against reference captions: CIDEr-D, BLEU-1 to 4 and ROUGE-L.

Their values are those of coco-caption (pycocoevalcap 1.2) on the same tokens, so they can be set beside
published ones. What papers print as "CIDEr" is CIDEr-D (Vedantam et al., 2015, in coco-caption's version):
counts are clipped, lengths compared, words not stemmed. Plain CIDEr is not computed, so that the two are
never mixed up; nor is METEOR, which without Java and a table of paraphrases exists only in its first version.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coview.errors import InputError, UsageError
from coview.uses.caption_ngrams import (
    ORDERS,
    CaptionTexts,
    DocumentFrequencies,
    NGramCounts,
    Overlap,
    count_ngrams,
    find_overlap,
)

SIGMA = 6.0  # of CIDEr-D's penalty on differences of length, in words
BETA = 1.2  # how much more ROUGE-L's F counts recall than precision
TINY, SMALL = 1e-15, 1e-9  # what coco-caption adds in BLEU against division by zero


@dataclass(frozen=True)
class CaptionScores:
    """Scores of N captions.

    Attributes
    ----------
    cider_d : float from 0 to 10, as pycocoevalcap gives it; papers print 100 times this
    bleu : ndarray of shape (4,), BLEU-1 to BLEU-4 of the corpus, from 0 to 1
    rouge_l : float from 0 to 1
    cider_d_each, rouge_l_each : ndarrays of shape (N,), the scores of each image
    bleu_each : ndarray of shape (N, 4)
    intervals : name of a score -> ndarray of shape (2,), or (4, 2) for BLEU: 95 % by resampling images, with
        document frequencies held fixed; empty for a single image
    references : fewest and most references an image
    tokens : name of the tokeniser
    warnings : what a reader should know before believing the scores
    """

    cider_d: float
    bleu: np.ndarray
    rouge_l: float
    cider_d_each: np.ndarray
    bleu_each: np.ndarray
    rouge_l_each: np.ndarray
    intervals: dict[str, np.ndarray]
    references: tuple[int, int]
    tokens: str
    warnings: tuple[str, ...]


def score_captions(
    candidates: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    tokens: str = "ptb",
    frequencies: DocumentFrequencies | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> CaptionScores:
    """Score one caption for each image against the image's references.

    Parameters
    ----------
    candidates : N captions
    references : for each, at least one reference caption
    tokens : "ptb", "simple", or "split" for texts that are tokenised already
    frequencies : document frequencies of another corpus; by default those of `references`, and then CIDEr-D
        depends on how many images are scored together
    resamples : draws of N images for the intervals; 0 for none
    seed : of the draws

    Raises
    ------
    UsageError
        There is no such tokeniser, or `frequencies` were counted by another one.
    InputError
        There is nothing to score, or an image lacks references.
    """
    if not candidates or len(candidates) != len(references):
        raise InputError(f"{len(candidates)} captions for {len(references)} images cannot be scored.")
    if frequencies and frequencies.tokens != tokens:
        raise UsageError(
            f"document frequencies of {frequencies.tokens!r} tokens do not fit captions split by {tokens!r}.",
            hint=f"Use --tokens {frequencies.tokens}, or count them again.",
        )
    texts = CaptionTexts.of(candidates, references, tokens)
    counts = count_ngrams(texts.words)
    overlaps = [find_overlap(texts, order) for order in counts]
    cider = _cider_d(texts, counts, overlaps, frequencies)
    totals = _bleu_totals(texts, counts, overlaps)
    rouge = np.array([_rouge_l(*pair) for pair in texts.pairs()])
    several = texts.images > 1 and resamples > 0
    sizes = np.bincount(texts.image)
    return CaptionScores(
        cider_d=float(cider.mean()),
        bleu=_bleu(totals.sum(axis=0)),
        rouge_l=float(rouge.mean()),
        cider_d_each=cider,
        bleu_each=_bleu(totals),
        rouge_l_each=rouge,
        intervals=_intervals(cider, totals, rouge, resamples, seed) if several else {},
        references=(int(sizes.min()), int(sizes.max())),
        tokens=tokens,
        warnings=tuple(_warnings(texts.images, frequencies)),
    )


def _cider_d(
    texts: CaptionTexts,
    counts: list[NGramCounts],
    overlaps: list[Overlap],
    frequencies: DocumentFrequencies | None,
) -> np.ndarray:
    """CIDEr-D of each image: ten times the mean cosine of tf-idf rows over references and orders."""
    alike = np.zeros(len(texts.image))
    for order, overlap in zip(counts, overlaps, strict=True):
        images, holding = texts.images, overlap.images
        if frequencies:
            known, names = frequencies.counts, order.names(texts.words)
            images, holding = frequencies.images, np.array([known.get(name, 0) for name in names])
        idf = np.log(images) - np.log(np.maximum(1, holding))
        weight = order.count * idf[order.gram]
        norm = np.sqrt(np.bincount(order.text, weight**2, minlength=len(texts.words)))
        clipped = np.minimum(weight[overlap.candidate], weight[overlap.reference])
        products = np.bincount(
            order.text[overlap.reference],
            clipped * weight[overlap.reference],
            minlength=len(texts.words),
        )[texts.images :]
        norms = norm[texts.image] * norm[texts.images :]
        alike += np.divide(products, norms, out=np.zeros(len(norms)), where=norms > 0)
    # Lengths are compared in bigrams, as the original does: texts of no word and of one are equally long.
    written, referred = (np.maximum(0, lengths - 1) for lengths in texts.lengths())
    alike *= np.exp(-((written[texts.image] - referred) ** 2) / (2 * SIGMA**2)) / ORDERS
    return 10 * np.bincount(texts.image, alike) / np.bincount(texts.image)


def _bleu_totals(texts: CaptionTexts, counts: list[NGramCounts], overlaps: list[Overlap]) -> np.ndarray:
    """What BLEU adds up, (N, 10): correct and written n-grams of 4 orders, words written, nearest length."""
    written, referred = texts.lengths()
    totals = np.zeros((texts.images, 2 * ORDERS + 2))
    for order, overlap in zip(counts, overlaps, strict=True):
        most = np.zeros(len(order.count), np.int64)  # occurrences in the reference that has most of them
        np.maximum.at(most, overlap.candidate, order.count[overlap.reference])
        of_candidates = slice(0, np.searchsorted(order.text, texts.images))
        totals[:, order.order - 1] = np.bincount(
            order.text[of_candidates],
            np.minimum(most, order.count)[of_candidates],
            minlength=texts.images,
        )
        totals[:, ORDERS + order.order - 1] = np.maximum(0, written - order.order + 1)
    # The reference nearest in length, the shorter of two: |difference| first, then length.
    far = np.abs(referred - written[texts.image])
    nearest = np.lexsort((referred, far, texts.image))[np.searchsorted(texts.image, np.arange(texts.images))]
    totals[:, -2], totals[:, -1] = written, referred[nearest]
    return totals


def _bleu(totals: np.ndarray) -> np.ndarray:
    """BLEU-1 to 4 from totals (..., 10), shape (..., 4)."""
    correct, guessed = totals[..., :ORDERS], totals[..., ORDERS : 2 * ORDERS]
    precision = np.cumprod((correct + TINY) / (guessed + SMALL), axis=-1)
    ratio = (totals[..., -2:-1] + TINY) / (totals[..., -1:] + SMALL)
    penalty = np.exp(np.minimum(0, 1 - 1 / ratio))
    return precision ** (1 / np.arange(1, ORDERS + 1)) * penalty


def _rouge_l(candidate: list[str], references: list[list[str]]) -> float:
    """F of the best precision and the best recall of the longest common subsequence, each over references."""
    candidate = candidate or [""]  # an empty text counts as one empty word
    precision = recall = 0.0
    places = word_places(candidate)
    for reference in references:
        shared = common_subsequence(places, len(candidate), reference or [""])
        precision = max(precision, shared / len(candidate))
        recall = max(recall, shared / max(1, len(reference)))
    return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision) if precision else 0.0


def word_places(words: Sequence[str]) -> dict[str, int]:
    """For each word an integer whose bit i is set where words[i] is that word."""
    places: dict[str, int] = {}
    for place, word in enumerate(words):
        places[word] = places.get(word, 0) | 1 << place
    return places


def common_subsequence(places: dict[str, int], length: int, words: Sequence[str]) -> int:
    """Length of the longest common subsequence of `words` and a text given by `word_places`.

    Bit-parallel (Hyyrö, 2004): a zero at bit i of `row` says that the subsequence grows at word i, and
    a whole row of the table of dynamic programming is one addition of long integers.
    """
    row = full = (1 << length) - 1
    for word in words:
        if matches := places.get(word):
            grown = row & matches
            row = (row + grown | row - grown) & full
    return length - row.bit_count()


def _intervals(
    cider: np.ndarray, totals: np.ndarray, rouge: np.ndarray, resamples: int, seed: int
) -> dict[str, np.ndarray]:
    """95 % intervals from draws of N images with replacement; BLEU is computed from each draw's totals."""
    images = len(cider)
    columns = np.column_stack([cider, rouge, totals])
    draws = np.random.default_rng([seed, 6, images])
    sums = np.empty((resamples, columns.shape[1]))
    for number in range(resamples):
        times = np.bincount(draws.integers(images, size=images), minlength=images)
        sums[number] = times @ columns
    scores = {"cider_d": sums[:, 0] / images, "bleu": _bleu(sums[:, 2:]), "rouge_l": sums[:, 1] / images}
    return {name: np.quantile(values, (0.025, 0.975), axis=0).T for name, values in scores.items()}


def _warnings(images: int, frequencies: DocumentFrequencies | None):
    if images == 1 and not frequencies:
        yield "one image: every word's idf is ln 1 = 0, so CIDEr-D is 0; give document frequencies with --df."
    elif (frequencies.images if frequencies else images) < 100:
        yield "CIDEr-D on document frequencies of fewer than 100 images compares with no other set."


def document(scores: CaptionScores) -> dict:
    """Scores of the corpus as a JSON document, on their raw scale."""
    values = {"cider_d": scores.cider_d, "bleu": scores.bleu.tolist(), "rouge_l": scores.rouge_l}
    return {
        **values,
        "intervals": {name: interval.tolist() for name, interval in scores.intervals.items()},
        "scale": "CIDEr-D from 0 to 10, the others from 0 to 1; papers print 100 times these values",
        "images": len(scores.cider_d_each),
        "references_per_image": list(scores.references),
        "tokens": scores.tokens,
        "warnings": list(scores.warnings),
    }


def words(scores: CaptionScores) -> str:
    """Scores of the corpus for people: raw, and times 100 as papers print them."""
    rows = [("CIDEr-D", scores.cider_d, scores.intervals.get("cider_d"))]
    for order in range(ORDERS):
        interval = scores.intervals["bleu"][order] if scores.intervals else None
        rows.append((f"BLEU-{order + 1}", float(scores.bleu[order]), interval))
    rows.append(("ROUGE-L", scores.rouge_l, scores.intervals.get("rouge_l")))
    lines = [f"{'':<8}{'raw':>8}{'x 100':>8}   95 % interval of the raw score"]
    for name, value, interval in rows:
        between = "none" if interval is None else f"{interval[0]:.4f} to {interval[1]:.4f}"
        lines.append(f"{name:<8}{value:>8.4f}{100 * value:>8.2f}   {between}")
    least, most = scores.references
    lines.append(
        f'CIDEr-D is what papers print, times 100, as "CIDEr". {len(scores.cider_d_each):,} images, '
        f"{least if least == most else f'{least} to {most}'} references an image; tokens: {scores.tokens}"
    )
    return "\n".join(lines)
