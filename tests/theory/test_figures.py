import csv
from xml.etree import ElementTree

import pytest

from coview.theory import figures
from coview.theory.corpus import corpus_of_texts
from coview.theory.finite_sample import run_study
from coview.theory.prediction import predict_views
from coview.theory.verify import verify_worlds


@pytest.fixture(scope="module")
def records():
    return verify_worlds(12, scenes=(6, 12))


def check(folder, names: list[str], axis_words: list[str]) -> list[list[str]]:
    """The SVG parses, is small, and names its axes as text; returns the rows of the CSV."""
    svg, table = (folder / name for name in names)
    assert svg.stat().st_size < 150_000
    words = " ".join(
        "".join(e.itertext()) for e in ElementTree.parse(svg).getroot().iter() if e.tag.endswith("text")
    )
    for word in axis_words:
        assert word in words
    with table.open(newline="") as stream:
        return list(csv.reader(stream))


def test_error_against_bound(tmp_path, records):
    rows = check(
        tmp_path, figures.error_against_bound(tmp_path, records), ["bound / largest", "error / largest"]
    )
    assert len(rows) == 13
    assert len({len(row) for row in rows}) == 1


def test_ratio_histogram(tmp_path, records):
    rows = check(tmp_path, figures.ratio_histogram(tmp_path, records), ["error / bound", "worlds"])
    assert sum(int(row[3]) for row in rows[1:]) <= 12


def test_spectra_say_what_each_direction_is_about(tmp_path):
    rows = check(tmp_path, figures.spectra(tmp_path), ["eigenvalue", "direction", "cut at d = 6"])
    kinds = {(row[0], row[3]) for row in rows[1:]}
    assert kinds == {("good", "scene"), ("bad", "scene"), ("bad", "nuisance"), ("bad", "scene x nuisance")}


def test_the_staircase_passes_through_the_solved_encoders(tmp_path):
    names = figures.explained_against_sharing(tmp_path, points=21)
    rows = check(tmp_path, names, ["shares the style", "scene-explained", "threshold"])
    solved = [(row[1], row[2]) for row in rows[1:] if row[2]]
    assert len(solved) == 11
    for counted, measured in solved:
        assert float(measured) == pytest.approx(float(counted), abs=1e-6)


def test_alignment_against_samples(tmp_path):
    study = run_study(samples=(1_000, 3_000), seeds=(0,))
    names = figures.alignment_against_samples(tmp_path, study)
    rows = check(tmp_path, names, ["positive pairs seen", "mutual 10-NN", "chance"])
    assert len(rows) == 10


def test_predicted_spectra(tmp_path):
    texts = [[f"a{i % 7} b{i % 11} c{i % 5} d{j}" for j in range(3)] for i in range(200)]
    prediction = predict_views(corpus_of_texts(texts, list(map(str, range(200))), dim=8), 3)
    names = figures.predicted_spectra(tmp_path, prediction)
    rows = check(tmp_path, names, ["direction", "held out", "cut at d = 3"])
    assert {row[0] for row in rows[1:]} == {"good", "bad", "next-token"}


def test_a_figure_is_the_same_each_time(tmp_path):
    for name in ("one", "two"):
        figures.explained_against_sharing(tmp_path / name, points=11)
    first, second = (tmp_path / name / "explained_against_sharing.svg" for name in ("one", "two"))
    assert first.read_bytes() == second.read_bytes()
