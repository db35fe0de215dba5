"""`coview caption score` and `coview caption df` as they are typed."""

import json

import pytest

from coview.uses.caption_scores import score_captions

CAPTIONS = {"a": "A dog runs.", "b": "Two cats sit on a mat", "3": "It's a bird!"}
REFERENCES = {
    "a": ["A dog is running.", "the dog runs"],
    "b": ["two cats on a mat"],
    "3": ["a blue bird", "birds"],
}


def rows(items) -> str:
    return "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items)


@pytest.fixture
def files(tmp_path):
    """Captions and references, a good example; texts given replace them."""

    def write(captions=None, references=None):
        paths = tmp_path / "with space" / "captions.jsonl", tmp_path / "references.jsonl"
        paths[0].parent.mkdir(exist_ok=True)
        good = (
            rows({"id": key, "caption": text} for key, text in CAPTIONS.items()),
            rows({"id": key, "captions": texts} for key, texts in reversed(REFERENCES.items())),
        )
        for path, given, usual in zip(paths, (captions, references), good, strict=True):
            content = usual if given is None else given
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return paths

    return write


def test_json_has_the_scores_of_the_library(run_cli, files):
    code, out, err = run_cli("caption", "score", *files(), "--json")
    assert code == 0, err
    document = json.loads(out)
    assert document["schema"] == "coview.caption.score/1"
    result = document["result"]
    expected = score_captions([CAPTIONS[key] for key in REFERENCES], list(REFERENCES.values()))
    assert result["cider_d"] == pytest.approx(expected.cider_d)
    assert result["bleu"] == pytest.approx(expected.bleu.tolist())
    assert result["rouge_l"] == pytest.approx(expected.rouge_l)
    assert result["images"] == 3
    assert result["references_per_image"] == [1, 2]
    assert result["tokens"] == "ptb"
    assert len(result["intervals"]["bleu"]) == 4
    assert "fewer than 100 images" in err


def test_text_names_the_score_and_both_scales(run_cli, files):
    code, out, _ = run_cli("caption", "score", *files(), "--tokens", "simple")
    assert code == 0
    for part in (
        "CIDEr-D",
        "BLEU-4",
        "ROUGE-L",
        "raw",
        "x 100",
        "95 % interval",
        "3 images",
        "tokens: simple",
    ):
        assert part in out


def test_frequencies_are_counted_once_and_used_for_one_image(run_cli, files, tmp_path):
    captions, references = files()
    code, out, _ = run_cli("caption", "df", references, "--out", tmp_path / "df.json", "--json")
    assert code == 0
    assert json.loads(out)["result"]["images"] == 3
    code, out, err = run_cli("caption", "score", captions, references, "--df", tmp_path / "df.json", "--json")
    assert code == 0
    again = json.loads(out)["result"]
    plain = json.loads(run_cli("caption", "score", captions, references, "--json")[1])["result"]
    assert again["cider_d"] == plain["cider_d"]
    assert again["df"].endswith("df.json")
    one = files(rows([{"id": 1, "caption": "a dog runs"}]), rows([{"id": "1", "captions": ["a dog runs"]}]))
    code, out, err = run_cli("caption", "score", *one, "--json")
    assert json.loads(out)["result"]["cider_d"] == 0
    assert "idf" in err
    code, out, _ = run_cli("caption", "score", *one, "--df", tmp_path / "df.json", "--json")
    assert json.loads(out)["result"]["cider_d"] > 1
    code, _, err = run_cli("caption", "score", *one, "--df", tmp_path / "df.json", "--tokens", "simple")
    assert code == 2
    assert "'ptb'" in err


def test_references_without_a_caption_are_left_out_and_counted(run_cli, files):
    some = [{"id": key, "caption": CAPTIONS[key]} for key in ("b", "a")]
    captions, references = files(rows(some))
    code, out, err = run_cli("caption", "score", captions, references, "--json")
    assert code == 0, err
    left_out = f"images of {references} left out, as they have no caption: 1 of 3."
    assert f"warning: {left_out}" in err
    result = json.loads(out)["result"]
    assert left_out in result["warnings"]
    known = [{"id": key, "captions": REFERENCES[key]} for key in ("b", "a")]
    alone = json.loads(run_cli("caption", "score", *files(rows(some), rows(known)), "--json")[1])["result"]
    assert (result["images"], result["cider_d"]) == (2, alone["cider_d"])
    assert not any("left out" in warning for warning in alone["warnings"])


def test_a_line_break_inside_a_caption_shifts_no_other(run_cli, files):
    captions, references = files()
    whole = json.loads(run_cli("caption", "score", captions, references, "--json")[1])["result"]
    for line_break in ("\r", "\f", "\u2028", "\n"):
        broken = {key: text.replace(" ", line_break, 1) for key, text in CAPTIONS.items()}
        paths = files(rows({"id": key, "caption": text} for key, text in broken.items()))
        result = json.loads(run_cli("caption", "score", *paths, "--json")[1])["result"]
        assert result["cider_d"] == whole["cider_d"]


def test_an_empty_caption_scores_nothing(run_cli, files):
    paths = files(rows({"id": key, "caption": ""} for key in CAPTIONS))
    code, out, _ = run_cli("caption", "score", *paths, "--json")
    assert code == 0
    assert json.loads(out)["result"]["cider_d"] == 0


GOOD = '{"id": "a", "caption": "x"}\n'
GOOD_REFERENCES = '{"id": "a", "captions": ["x"]}\n'


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        (GOOD + '{"id": "b", "caption": "x"}\n' + GOOD, "row 3", "'a' already stands in row 1"),
        (GOOD + '{"id": "c", "caption": "x"}\n', "row 2", "'c' is not in"),
        (
            GOOD + '{"id": "c", "caption": "x"}\n{"id": "d", "caption": "x"}',
            "row 2",
            "'c' and 1 more are not in",
        ),
        ("", "", "no row in it"),
        ("\n \n", "", "no row in it"),
        ('{"id": "a", "captions": ["x", "y"]}\n', "row 1", "exactly one is scored"),
        ('{"id": "a", "caption": ["x", "y"]}\n', "row 1", "must be a string, not a list"),
        ('{"id": "a", "text": "x"}\n', "row 1", "there is no 'caption'"),
        ('{"caption": "x"}\n', "row 1", "there is no 'id'"),
        ('{"id": null, "caption": "x"}\n', "row 1", "row's id must be a string"),
        (GOOD + '["a"]\n', "row 2", "not a JSON object"),
        (GOOD + "{'id'}\n", "row 2", "not valid JSON"),
        (GOOD.encode() + b'{"id": "b", "caption": "caf\xe9"}\n', "row 2", "not valid UTF-8"),
        ('{"id": "a", "caption": "\\ud800"}\n', "row 1", "surrogate"),
    ],
)
def test_what_is_wrong_with_captions_is_said_with_its_row(run_cli, files, content, place, message):
    captions, references = files(content, GOOD_REFERENCES + '{"id": "b", "captions": ["x"]}\n')
    code, out, err = run_cli("caption", "score", captions, references, "--json")
    assert code == 3
    assert f"{captions} {place}".strip() in err
    assert message in err
    assert json.loads(out)["ok"] is False


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        (GOOD_REFERENCES * 2, "row 2", "already stands in row 1"),
        ('{"id": "a", "captions": []}\n', "row 1", "at least one caption"),
        ('{"id": "a", "captions": "x"}\n', "row 1", "must be a list"),
        ('{"id": "a", "captions": ["x", " "]}\n', "row 1", "the text is empty"),
        ('{"id": "a", "captions": ["x", 4]}\n', "row 1", "must be a string, not a number"),
        ("", "", "no row in it"),
    ],
)
def test_what_is_wrong_with_references_is_said_with_its_row(run_cli, files, content, place, message):
    captions, references = files(GOOD, content)
    code, _, err = run_cli("caption", "score", captions, references)
    assert code == 3
    assert f"{references} {place}".strip() in err
    assert message in err


def test_missing_files_are_named(run_cli, files, tmp_path):
    captions, references = files()
    for given in ((captions, tmp_path / "none"), (tmp_path / "none", references)):
        code, _, err = run_cli("caption", "score", *given)
        assert code == 3
        assert str(tmp_path / "none") in err
    code, _, err = run_cli("caption", "score", captions, references, "--df", tmp_path / "none")
    assert code == 3
    assert "no such file" in err
