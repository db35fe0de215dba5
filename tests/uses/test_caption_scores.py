"""Caption scores against plain twins, small cases by hand, and the scores of coco-caption."""

import json
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coview.errors import InputError, UsageError
from coview.uses.caption_ngrams import (
    DocumentFrequencies,
    document_frequencies,
    load_frequencies,
    save_frequencies,
)
from coview.uses.caption_scores import common_subsequence, document, score_captions, word_places, words


def grams(text, order):
    tokens = text.split()
    return Counter(tuple(tokens[i : i + order]) for i in range(len(tokens) - order + 1))


def plain_cider_d(candidates, references):
    """Term by term, from the definition."""
    images = len(references)
    scores = []
    for candidate, captions in zip(candidates, references, strict=True):
        similarities = []
        for caption in captions:
            gap = max(0, len(candidate.split()) - 1) - max(0, len(caption.split()) - 1)
            for order in (1, 2, 3, 4):

                def idf(gram, order=order):
                    holding = sum(any(gram in grams(text, order) for text in texts) for texts in references)
                    return math.log(images) - math.log(max(1, holding))

                written, referred = grams(candidate, order), grams(caption, order)
                left = {gram: count * idf(gram) for gram, count in written.items()}
                right = {gram: count * idf(gram) for gram, count in referred.items()}
                product = sum(
                    min(left[gram], right[gram]) * right[gram] for gram in left.keys() & right.keys()
                )
                norms = math.hypot(*left.values()) * math.hypot(*right.values())
                similarities.append(product / norms * math.exp(-(gap**2) / 72) if norms else 0.0)
        scores.append(10 * np.mean(similarities))
    return np.array(scores)


def plain_bleu(candidates, references):
    correct, guessed, written, nearest = [0] * 4, [0] * 4, 0, 0
    for candidate, captions in zip(candidates, references, strict=True):
        length = len(candidate.split())
        written += length
        nearest += min((abs(len(text.split()) - length), len(text.split())) for text in captions)[1]
        for order in (1, 2, 3, 4):
            guessed[order - 1] += max(0, length - order + 1)
            for gram, count in grams(candidate, order).items():
                correct[order - 1] += min(count, max(grams(text, order)[gram] for text in captions))
    bleu, product = [], 1.0
    for order in range(4):
        product *= (correct[order] + 1e-15) / (guessed[order] + 1e-9)
        ratio = (written + 1e-15) / (nearest + 1e-9)
        bleu.append(product ** (1 / (order + 1)) * (math.exp(1 - 1 / ratio) if ratio < 1 else 1.0))
    return bleu


def plain_common(a, b):
    table = np.zeros((len(a) + 1, len(b) + 1), int)
    for i, left in enumerate(a):
        for j, right in enumerate(b):
            table[i + 1, j + 1] = table[i, j] + 1 if left == right else max(table[i, j + 1], table[i + 1, j])
    return table[-1, -1]


def plain_rouge_l(candidate, captions):
    written = candidate.split() or [""]
    pairs = [(plain_common(written, text.split() or [""]), len(text.split() or [""])) for text in captions]
    precision = max(common / len(written) for common, _ in pairs)
    recall = max(common / length for common, length in pairs)
    return (1 + 1.44) * precision * recall / (recall + 1.44 * precision) if precision else 0.0


texts = st.lists(st.sampled_from(["a", "b", "c", "d", "e"]), max_size=9).map(" ".join)
corpora = st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=4)), min_size=1, max_size=6)


@settings(max_examples=80)
@given(corpora)
def test_scores_are_those_of_plain_loops(corpus):
    candidates, references = (list(side) for side in zip(*corpus, strict=True))
    scores = score_captions(candidates, references, tokens="split", resamples=0)
    each = plain_cider_d(candidates, references)
    np.testing.assert_allclose(scores.cider_d_each, each, atol=1e-12)
    assert scores.cider_d == pytest.approx(each.mean(), abs=1e-12)
    np.testing.assert_allclose(scores.bleu, plain_bleu(candidates, references), rtol=1e-9, atol=1e-15)
    for row, candidate, captions in zip(scores.bleu_each, candidates, references, strict=True):
        np.testing.assert_allclose(row, plain_bleu([candidate], [captions]), rtol=1e-9, atol=1e-15)
    rouge = [plain_rouge_l(*pair) for pair in zip(candidates, references, strict=True)]
    np.testing.assert_allclose(scores.rouge_l_each, rouge, atol=1e-12)


@given(st.lists(st.integers(0, 3), max_size=200), st.lists(st.integers(0, 4), max_size=200))
@settings(max_examples=30)
def test_the_common_subsequence_is_that_of_the_table(a, b):
    a, b = [str(word) for word in a], [str(word) for word in b]
    assert common_subsequence(word_places(a), len(a), b) == plain_common(a, b)


def test_two_images_by_hand():
    # Every word is in one image of two: idf ln 2 throughout, which cancels. "red dog" against "red dog" is
    # alike in orders 1 and 2 and has no longer n-grams: (1 + 1 + 0 + 0) / 4, times 10.
    scores = score_captions(["red dog", "cat"], [["red dog"], ["blue bird"]], tokens="split")
    assert scores.cider_d_each.tolist() == pytest.approx([5.0, 0.0])
    assert scores.cider_d == pytest.approx(2.5)
    assert scores.rouge_l_each.tolist() == [1.0, 0.0]
    # 2 of 3 words are right; 3 written for 4 referred: exp(1 - 4/3).
    assert scores.bleu[0] == pytest.approx(2 / 3 * math.exp(-1 / 3))
    # Against "a red dog" 2 of 3 words are common: precision 1, recall 2/3.
    scores = score_captions(["red dog", "cat"], [["a red dog"], ["blue bird"]], tokens="split")
    assert scores.rouge_l_each[0] == pytest.approx(2.44 * (2 / 3) / (2 / 3 + 1.44))


def test_one_image_has_no_cider_without_frequencies_and_says_so(tmp_path):
    alone = score_captions(["a dog runs"], [["a dog runs", "the dog"]])
    assert alone.cider_d == 0.0
    assert alone.intervals == {}
    assert "idf" in alone.warnings[0]
    corpus = [["a dog runs", "the dog"], ["a cat sits"], ["birds fly over a lake"]]
    save_frequencies(tmp_path / "df.json", document_frequencies(corpus))
    frequencies = load_frequencies(tmp_path / "df.json")
    helped = score_captions(["a dog runs"], corpus[:1], frequencies=frequencies)
    assert helped.cider_d > 1
    assert not any("idf" in warning for warning in helped.warnings)


def test_frequencies_of_the_references_themselves_change_nothing(tmp_path):
    candidates = ["a dog runs.", "two cats", "It's a bird!", ""]
    references = [
        ["a dog is running", "dog runs"],
        ["two cats sit", "cats"],
        ["it's a bird"],
        ["a fish (blue)"],
    ]
    counted = document_frequencies(references)
    assert counted.counts["a"] == 3
    assert counted.counts["two cats"] == 1
    assert counted.images == 4
    save_frequencies(tmp_path / "df.json", counted)
    again = load_frequencies(tmp_path / "df.json")
    assert again == counted
    plain, given_ = (score_captions(candidates, references, frequencies=df) for df in (None, again))
    np.testing.assert_array_equal(plain.cider_d_each, given_.cider_d_each)


def test_other_images_weigh_words_through_given_frequencies():
    frequencies = DocumentFrequencies(1000, {"a": 900, "zebra": 2}, "split")
    common, rare = (
        score_captions(["a zebra"], [[text]], tokens="split", frequencies=frequencies).cider_d
        for text in ("a dog", "the zebra")
    )
    assert rare > 10 * common > 0


@pytest.mark.parametrize(
    "content",
    [
        '{"images": 3}',
        '{"schema": "coview.document-frequencies/1", "images": 3, "tokens": "ptb", "counts": []}',
    ],
)
def test_a_file_that_holds_no_frequencies_is_refused(tmp_path, content):
    (tmp_path / "df.json").write_text(content)
    with pytest.raises(InputError, match=r"df\.json: these are no document frequencies"):
        load_frequencies(tmp_path / "df.json")


@pytest.mark.parametrize("rows", [1, 2])
def test_references_in_the_place_of_frequencies_are_told_how_to_be_counted(tmp_path, rows):
    (tmp_path / "refs.jsonl").write_text('{"id": "a", "captions": ["a dog"]}\n' * rows)
    with pytest.raises(InputError, match=r"these are references.*coview caption df .*refs\.jsonl --out"):
        load_frequencies(tmp_path / "refs.jsonl")


@pytest.mark.parametrize("count", ["0", "4", "true", '"2"', "1.5", "null"])
def test_impossible_frequencies_are_refused(tmp_path, count):
    head = '{"schema": "coview.document-frequencies/1", "images": 3, "tokens": "ptb", "counts": {"dog": '
    (tmp_path / "df.json").write_text(head + count + "}}")
    with pytest.raises(InputError, match="'dog' cannot occur in"):
        load_frequencies(tmp_path / "df.json")


def test_intervals_cover_the_score_shrink_with_images_and_repeat():
    rng = np.random.default_rng(0)
    vocabulary = np.array(["a", "dog", "cat", "runs", "sits", "red", "blue", "on", "the", "grass"])

    def corpus(count):
        rows = [[" ".join(rng.choice(vocabulary, 8)) for _ in range(4)] for _ in range(count)]
        return [row[0] for row in rows], [row[1:] for row in rows]

    few, many = corpus(50), corpus(800)
    scores = [score_captions(*data, tokens="split", resamples=300, seed=3) for data in (few, few, many)]
    widths = []
    for one in scores:
        values = {"cider_d": one.cider_d, "bleu": one.bleu, "rouge_l": one.rouge_l}
        for name, interval in one.intervals.items():
            low, high = np.moveaxis(interval, -1, 0)
            assert np.all(low < values[name])
            assert np.all(values[name] < high)
        widths.append(float(np.diff(one.intervals["cider_d"])[0]))
    assert widths[0] == widths[1] > 2 * widths[2]
    # The error of a mean, which is what CIDEr-D is, has a formula.
    each = scores[2].cider_d_each
    assert widths[2] == pytest.approx(2 * 1.96 * each.std() / math.sqrt(len(each)), rel=0.2)


def test_documents_and_words_name_the_score_and_its_scale():
    scores = score_captions(["a dog", "a cat"], [["a dog"], ["the cat", "one cat"]])
    assert json.loads(json.dumps(document(scores), allow_nan=False))["references_per_image"] == [1, 2]
    for part in ("CIDEr-D", "x 100", "2 images", "1 to 2 references", "tokens: ptb"):
        assert part in words(scores)


def test_what_cannot_be_scored_is_said():
    with pytest.raises(InputError, match="0 captions"):
        score_captions([], [])
    with pytest.raises(InputError, match="1 captions for 2 images"):
        score_captions(["a"], [["a"], ["b"]])
    with pytest.raises(InputError, match="image 1 has no reference"):
        score_captions(["a", "b"], [["a"], []])
    with pytest.raises(UsageError, match="unknown tokeniser"):
        score_captions(["a"], [["a"]], tokens="words")
    with pytest.raises(UsageError, match="'simple'"):
        score_captions(["a"], [["a"]], frequencies=DocumentFrequencies(3, {}, "simple"))


ODD = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ["", " ", "\u2028", "😀👍🏽", "שלום עולם", "\u202eabc", "\x00", "\ud800", "a|||b", "'" * 50, "{}[]"]
    ),
    st.integers(1, 300).map("dog ".__mul__),
)


def score_odd(strings):
    images = [strings[start : start + 4] for start in range(0, len(strings), 4)]
    for tokens in ("ptb", "simple", "split"):
        candidates = [row[0] for row in images]
        references = [row[1:] or ["a dog"] for row in images]
        scores = score_captions(candidates, references, tokens=tokens, resamples=20)
        for values in (
            scores.cider_d_each,
            scores.bleu_each,
            scores.rouge_l_each,
            *scores.intervals.values(),
        ):
            assert np.isfinite(values).all()
            assert (values >= 0).all()


@settings(max_examples=60)
@given(st.lists(ODD, min_size=1, max_size=40))
def test_odd_strings_have_finite_scores(strings):
    score_odd(strings)


def odd_strings(count):
    """Strings from all of Unicode, right-to-left and surrogates among them, empty to 10,000 words long."""
    rng = np.random.default_rng(1)
    blocks = [(0, 128), (0x590, 0x6FF), (0x300, 0x36F), (0x2000, 0x206F), (0x1F300, 0x1FAFF), (0, 0x110000)]
    for _ in range(count):
        low, high = blocks[rng.integers(len(blocks))]
        text = "".join(map(chr, rng.integers(low, high, size=rng.integers(0, 60))))
        yield text if rng.random() < 0.998 else f"{text} " * (10_000 // max(1, len(text.split())))


def test_ten_thousand_words_have_finite_scores():
    score_odd(["dog " * 10_000, "a dog " * 5000, "a dog", *odd_strings(97)])


@pytest.mark.slow
def test_ten_thousand_odd_strings_have_finite_scores():
    score_odd(list(odd_strings(10_000)))


def test_scores_equal_the_oracle(shared):
    folder = shared / "oracle" / "captions"
    for file in sorted([*folder.glob("toy*.json"), *folder.glob("multi30k_*.json")]):
        for oracle in json.loads(file.read_text())["scores"].values():
            scores = score_captions(
                oracle["candidates_tok"], oracle["references_tok"], tokens="split", resamples=0
            )
            for ours, theirs in (
                (scores.cider_d, "CIDEr"),
                (scores.cider_d_each, "CIDEr_each"),
                (scores.bleu, "BLEU"),
                (scores.bleu_each[:, 3], "BLEU4_each"),
                (scores.rouge_l, "ROUGE_L"),
                (scores.rouge_l_each, "ROUGE_L_each"),
            ):
                np.testing.assert_allclose(ours, oracle[theirs], rtol=0, atol=1e-9)
