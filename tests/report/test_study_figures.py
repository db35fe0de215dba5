import csv
from xml.etree import ElementTree

import pytest

from coview.report.figures import scene_explained_of_all, study_figures, write_figures

NAMES = ["alignment_while_training", "mutual_knn", "scene_explained"]


def words(svg: str) -> list[str]:
    """Texts of a figure; they are text and not outlines."""
    return [
        "".join(e.itertext()).strip() for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("text")
    ]


def test_files_are_written_whole(tmp_path, result):
    names = write_figures(result, tmp_path / "figures")
    assert names == [f"{name}.{ending}" for name in NAMES for ending in ("svg", "csv")]
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == sorted(names)
    assert all((tmp_path / "figures" / name).stat().st_size < 150_000 for name in names)


def test_axes_are_named_and_arms_told(result):
    curve, scores, explained = (words(figure.svg) for figure in study_figures(result))
    assert {"scenes seen in training (log scale)", "mutual 10-NN", *result["arms"], "chance"} <= set(curve)
    assert {"mutual 10-NN with the image encoder", *result["arms"], *result["controls"]} <= set(scores)
    assert {"scene-explained fraction", *result["arms"], "bag of words"} <= set(explained)


def test_what_has_no_value_has_no_row(result):
    figure = scene_explained_of_all(result)
    assert "noise" not in words(figure.svg)
    assert "noise" not in figure.alt
    assert "noise,,,,,," in figure.csv


def test_tables_hold_the_numbers_drawn(tmp_path, result):
    write_figures(result, tmp_path)
    curve, scores, explained = (
        list(csv.DictReader((tmp_path / f"{name}.csv").open(newline=""))) for name in NAMES
    )
    points = [
        (row["arm"], int(row["seed"]), [float(row["scenes_seen"]), float(row["mutual_knn"])]) for row in curve
    ]
    assert points == [
        (name, seed, point)
        for name, arm in result["arms"].items()
        for seed, line in enumerate(arm["curve"])
        for point in line
    ]
    good = result["arms"]["good"]
    assert [float(scores[0][f"seed {seed}"]) for seed in (0, 1, 2)] == good["mutual_knn"]
    assert float(scores[0]["mutual_knn"]) == pytest.approx(sum(good["mutual_knn"]) / 3)
    width = float(scores[0]["high"]) - float(scores[0]["low"])
    assert width == pytest.approx(2 * 1.96 * sum(good["mutual_knn_stderr"]) / 3)
    assert float(explained[0]["low"]) == pytest.approx(
        sum(low for low, _ in good["scene_explained_interval"]) / 3
    )


def test_the_same_result_gives_the_same_bytes(result):
    assert study_figures(result) == study_figures(result)


def test_names_are_neither_mathematics_nor_markup_nor_formulas(result):
    result["controls"]["$x_1$ <b>&amp;"] = result["controls"]["bag of words"]
    result["controls"]["=1+1"] = result["controls"]["bag of words"]
    figure = study_figures(result)[1]
    assert {"$x_1$ <b>&amp;", "=1+1"} <= set(words(figure.svg))
    assert "\n'=1+1," in figure.csv


@pytest.mark.parametrize("last", [3_200, 51_200, 900_000_000])
def test_a_curve_without_its_start_and_of_any_length(result, last):
    for arm in result["arms"].values():
        arm["curve"] = [[[last // 8, 0.02], [last // 2, 0.03], [last, 0.05]] for _ in result["seeds"]]
    curve = study_figures(result)[0]
    assert 3 <= sum(word[-1:] in "0123456789kMG" for word in words(curve.svg) if word[:1].isdigit()) <= 14


def test_the_mean_is_drawn_where_every_seed_was_measured(result):
    for arm in result["arms"].values():
        arm["curve"][1] = arm["curve"][1][:-1]
    ends = {
        name: [line[-2][1] for line in (arm["curve"][0], arm["curve"][2])]
        for name, arm in result["arms"].items()
    }
    ends["good"].append(result["arms"]["good"]["curve"][1][-1][1])
    assert f"good {sum(ends['good']) / 3:.3f}" in study_figures(result)[0].alt


def test_one_seed_without_intervals(result_of):
    result = result_of([0])
    for arm in result["arms"].values():
        arm["mutual_knn_stderr"], arm["scene_explained_interval"] = [None], [[]]
    assert len(study_figures(result)) == 3
