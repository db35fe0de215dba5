"""The demo's captions in the table and on the page."""

import pytest

from coview.report.page import write_report
from coview.report.text import share_of, study_table

CLAIMS = {
    "shape": {"told": 4, "true": 3, "interval": [0.3006, 0.9544]},
    "colour_shape": {"told": 1200, "true": 1200, "interval": [0.9968, 1.0]},
    "relation": {"told": 0, "true": 0, "interval": None},
    "relation_between": {"told": 2, "true": 1, "interval": [0.0945, 0.9055]},
}


@pytest.fixture
def captioned(result) -> dict:
    captions = {
        "claims": {"decoder, from the <b>original": CLAIMS},
        "paintings": 300,
        "pairs": 3200,
        "captions": ["a red & ring"],
    }
    return {**result, "captions": captions}


def test_claims_are_in_the_table_where_there_are_captions(result, captioned):
    assert "true claims" not in study_table(result)
    table = study_table(captioned)
    assert "captions of 300 held-out paintings: true claims" in table
    assert ".75 [.30, .95] of 4 " in table
    assert "1.00 [1.00, 1.00] of 1,200" in table
    assert max(len(line) for line in table.split("\n") if "claims" in line or "decoder" in line) <= 100


def test_claims_and_captions_are_on_the_page(result, captioned, tmp_path):
    write_report(result, tmp_path / "without.html")
    assert "captioned" not in (tmp_path / "without.html").read_text(encoding="utf-8")
    write_report(captioned, tmp_path / "with.html")
    page = (tmp_path / "with.html").read_text(encoding="utf-8")
    assert "from the &lt;b&gt;original" in page
    assert ".75 [.30, .95] of 4<" in page
    assert ".50 [.09, .91] of 2<" in page
    assert "a red &amp; ring" in page


def test_nothing_told_is_a_dash():
    assert share_of({"told": 0, "true": 0, "interval": None}) == "-"
