import re
import shlex
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from PIL import Image

from coview.errors import InputError
from coview.report import write_report
from coview.report.page import picture

VOID = {"meta", "img", "br", "link", "input", "hr"}


class Page(HTMLParser):
    """What is in a page; fails where a tag is not closed in its turn."""

    def __init__(self, text: str):
        super().__init__()
        self.open, self.tags, self.words = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split()).replace("\u2011", "-")

    def all(self, *names: str) -> list[dict]:
        return [attributes for tag, attributes in self.tags if tag in names]


def page_of(result, tmp_path) -> tuple[Page, str]:
    write_report(result, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    return Page(text), text


def test_the_page_is_whole_in_itself(result, tmp_path):
    page, text = page_of(result, tmp_path)
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)", text)
    assert not page.all("script", "link", "iframe", "object", "embed", "base", "form")
    assert all(not name.startswith("on") for _, attributes in page.tags for name in attributes)
    policy = next(m["content"] for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_every_seed_the_controls_and_the_way_to_repeat_it(result, tmp_path):
    page, _ = page_of(result, tmp_path)
    for arm in result["arms"].values():
        for key, digits in (("mutual_knn", 4), ("scene_explained_fraction", 3), ("retrieval_r1", 3)):
            assert all(f"{value:.{digits}f}" in page.text for value in arm[key])
    for name in result["controls"]:
        assert name in page.text
    assert shlex.join(["coview", "demo", "--out", "runs/my demo"]) in page.text
    for expected in (
        "good is on average 1.6 times bad and 2.0 times next-token in mutual 10-NN, and ahead in every seed.",
        "Chance is 0.0100 for mutual 10-NN",
        result["signature"],
        result["next"],
        "torch 2.13.0",
        '"content": "2f61c09b11aa77e0"',
        "+0.0472",
    ):
        assert expected in page.text


def test_the_page_can_be_read_without_eyes(result, tmp_path):
    page, _ = page_of(result, tmp_path)
    assert page.all("html")[0]["lang"] == "en"
    assert len(page.all("h1")) == len(page.all("main")) == 1
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in page.tags:
        assert attributes.get("aria-labelledby", ids[0]) in ids
        for reference in re.findall(
            r"#([\w.-]+)\)?$", attributes.get("href", "") + attributes.get("clip-path", "")
        ):
            assert reference in ids
    assert all(image["alt"] for image in page.all("img"))
    for svg in page.all("svg"):
        assert svg["role"] == "img"
        assert all(f"{name} 0." in svg["aria-label"] for name in result["arms"])
    assert len(page.all("svg")) == 3
    assert all("scope" in head for head in page.all("th"))


def test_figures_take_the_colours_of_a_light_or_a_dark_page(result, tmp_path):
    page, text = page_of(result, tmp_path)
    assert "prefers-color-scheme: dark" in text
    drawn = " ".join(attributes.get("style", "") for _, attributes in page.tags)
    assert {"var(--good)", "var(--bad)", "var(--next-token)", "currentColor"} <= set(
        re.findall(r"var\(--[\w-]+\)|currentColor", drawn)
    )
    assert not re.search(r"#[0-9a-f]{6}", drawn)
    for variable in ("good", "bad", "next-token", "control"):
        assert text.count(f"--{variable}: #") == 2


def test_nothing_in_a_result_is_taken_for_markup(result, tmp_path):
    hostile = "</script><img src=x onerror=alert(1)>\u202e"
    result["title"] = result["source"] = result["images"] = result["next"] = hostile
    result["controls"][hostile] = result["controls"]["bag of words"]
    result["examples"]["texts"][0] = [hostile]
    result["manifest"]["command"].append(hostile)
    page, _ = page_of(result, tmp_path)
    assert len(page.all("img")) == 4
    assert all(image["src"].startswith("data:image/") and "onerror" not in image for image in page.all("img"))
    assert page.text.count(hostile) >= 6


def test_pictures_at_paths_come_in_small(result, tmp_path):
    Image.new("RGB", (2000, 1000), "teal").save(tmp_path / "photo.png")
    result["examples"] = {"images": [str(tmp_path / "photo.png")], "texts": [["a wide teal wall"]]}
    (image,) = page_of(result, tmp_path)[0].all("img")
    assert image["alt"] == "a wide teal wall"
    assert image["src"].startswith("data:image/jpeg;base64,")
    assert len(image["src"]) < 20_000


@pytest.mark.parametrize(
    "image",
    ["https://example.org/a.png", "data:text/html;base64,AAAA", "data:image/svg+xml;base64,AAAA", "no.png"],
)
def test_other_pictures_are_refused_and_nothing_is_left(result, tmp_path, image):
    result["examples"]["images"][0] = image
    with pytest.raises(InputError):
        write_report(result, tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_an_inline_picture_stays_as_it_is(result):
    image = result["examples"]["images"][0]
    assert picture(image) == image


def test_what_may_be_missing_may_be_missing(result_of, tmp_path):
    result = result_of([0])
    for key in ("examples", "image_encoder", "next", "seconds"):
        del result[key]
    result["controls"] = {}
    for arm in result["arms"].values():
        del arm["tokens"]
    page, _ = page_of(result, tmp_path)
    assert "Scenes to look at" not in page.text
    assert "nan" not in page.text


def test_the_same_result_gives_the_same_page(result, tmp_path):
    assert page_of(result, tmp_path)[1] == page_of(result, tmp_path)[1]


def test_a_report_needs_no_torch(tmp_path):
    code = "import sys; sys.modules['torch'] = None; import coview.report; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.strip() == "False"
