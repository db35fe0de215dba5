import csv
import io
import json
import re

import numpy as np
import pytest
from spaces import independent, latent_views

from coview.alignment import report
from coview.alignment.figures import curve, heat_map
from coview.alignment.many import align_all, alignment_curve
from coview.alignment.measure import Plan, align_pairs
from coview.alignment.sides import pair_any
from coview.errors import InputError

PLAN = Plan(permutations=99, k=5)


def measured(X, Y, plan=PLAN):
    return align_pairs(pair_any([X, Y]), plan)


def as_document(X, Y, plan=PLAN):
    return json.loads(json.dumps(report.document(measured(X, Y, plan), "a", "b", plan)))


def test_a_document_is_json_with_everything_and_words_say_the_same():
    result = measured(*latent_views(80, 0))
    document = json.loads(json.dumps(report.document(result, "a", "b", PLAN)))
    assert document["score"] == result.score
    assert document["p"] == 0.01
    assert document["signature"] == result.signature
    assert np.array(document["halves"]).shape == (50, 2)
    words = report.words(result, "a", "b")
    assert f"{result.score:.4f} ± {result.stderr:.4f}" in words
    assert "p = 0.01 (99 permutations; none below 0.01)" in words
    assert "Not distinguishable" not in words


def test_a_null_that_stands_is_said_in_words():
    words = report.words(measured(*independent(80, 2)), "a", "b")
    assert "Not distinguishable from chance" in words


def test_numbers_that_are_not_known_are_null():
    plan = Plan(permutations=0, splits=0, metric="svcca")
    document = as_document(*latent_views(40, 2), plan)
    assert document["chance"] is document["stderr"] is document["p"] is document["null"] is None
    assert "±" not in report.words(measured(*latent_views(40, 2), plan), "a", "b")


def test_comparison_is_paired_on_the_same_halves():
    X, Y = latent_views(150, 3)
    worse = Y + 2 * np.random.default_rng(0).standard_normal(Y.shape)
    first, second = as_document(X, Y), as_document(X, worse)
    found = report.compare(first, second)
    assert found["difference"] == pytest.approx(first["score"] - second["score"])
    assert found["paired"]
    assert found["stderr"] < np.hypot(first["stderr"], second["stderr"])
    assert found["distinguishable"]
    words = report.compare_words(found, "one", "two")
    assert "larger than its error" in words
    assert "nothing shows that the samples are the same" in words
    unpaired = report.compare(first, second | {"seed": 1})
    assert not unpaired["paired"]
    assert unpaired["stderr"] == pytest.approx(np.hypot(first["stderr"], second["stderr"]))


def test_comparison_is_refused_when_signatures_differ():
    X, Y = latent_views(80, 4)
    with pytest.raises(InputError, match=r"differ in k: 5 against 6; recipe: center against prh"):
        report.compare(as_document(X, Y), as_document(X, Y, Plan(permutations=99, k=6, recipe="prh")))
    with pytest.raises(InputError, match=r"second: this is not a result of coview align --json"):
        report.compare(as_document(X, Y), {})


def test_a_table_as_document_csv_and_words():
    X, Y = latent_views(60, 5)
    table = align_all(pair_any([X, Y, independent(60, 6)[0]]), PLAN, ["x", "=y", "noise"])
    document = json.loads(json.dumps(report.table_document(table, PLAN)))
    assert document["scores"][0][1] == table.scores[0, 1]
    assert len(document["pairs"]) == 3
    rows = list(csv.DictReader(io.StringIO(report.table_csv(table))))
    assert [row["a"] for row in rows] == ["x", "x", "'=y"]  # no formula for a spreadsheet
    assert float(rows[0]["score"]) == table.scores[0, 1]
    assert float(rows[0]["low"]) < float(rows[0]["score"]) < float(rows[0]["high"])
    words = report.table_words(table)
    assert "x against noise: not distinguishable from chance" in words
    assert "x against =y" not in words
    for line in words.splitlines()[:4]:  # four columns, gaps between them
        assert len(re.split(r"\s{2,}", line)) == 4, line


def test_curves_as_csv_and_words():
    curves = alignment_curve(pair_any(latent_views(200, 7)), [100, 200], Plan(k=5, splits=10))
    rows = list(csv.DictReader(io.StringIO(report.curve_csv(curves))))
    assert {row["curve"] for row in rows} == {"fixed_k", "fixed_share"}
    assert "n =       200   k =      5" in report.curve_words(curves)
    assert report.matrix_csv(np.array([[0.5, 0.25]])) == "layer,0,1\n0,0.5,0.25\n"


def test_figures_are_written_whole(tmp_path):
    scores = np.array([[1.0, 0.3], [0.3, np.nan]])
    files = heat_map(tmp_path, "map", scores, ["a", "b"], ["a", "b"], "mutual_knn")
    curves = alignment_curve(pair_any(latent_views(100, 8)), [50, 100], Plan(k=5, splits=5))
    files += curve(tmp_path, "curve", curves, "mutual_knn")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(files)
    assert "0.300" in (tmp_path / "map.svg").read_text()
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
