"""The demo from end to end, tiny: what it prints, writes and keeps. Its science is for `make demo`."""

import json

import pytest

from coview import demo


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    monkeypatch.setenv("COVIEW_CACHE", str(tmp_path / "cache"))
    size = demo.DemoSize(
        scenes=320, text_steps=2, image_steps=2, image_weight=0.05, probes=2, text_batch=16, image_batch=16
    )
    monkeypatch.setattr(demo, "QUICK", size)
    return tmp_path / "demo"


def test_demo_from_end_to_end(tiny, run_cli):
    code, out, err = run_cli("demo", "--quick", "--seeds", "1", "--out", tiny, "--json")
    assert code == 0, err
    result = json.loads(out)["result"]
    for arm in ("good", "bad", "next-token"):
        assert len(result["arms"][arm]["mutual_knn"]) == 1
        assert len(result["arms"][arm]["scene_explained_fraction"]) == 1
        curve = result["arms"][arm]["curve"][0]
        assert curve[0][0] == 0
        assert curve[-1][0] == 2 * 16
    assert result["chance"] == pytest.approx(10 / 31)
    assert set(result["controls"]) == {"untrained encoder", "bag of words", "shuffled pairs"}
    page = (tiny / "report.html").read_text(encoding="utf-8")
    assert "next-token" in page
    assert "://" not in page.replace("http://www.w3.org", "")
    assert json.loads((tiny / "study.json").read_text())["arms"].keys() == result["arms"].keys()

    stamp = (tiny / "runs" / "good-s0" / "model.safetensors").stat().st_mtime_ns
    code, out, err = run_cli("demo", "--quick", "--seeds", "1", "--out", tiny)
    assert code == 0
    assert (tiny / "runs" / "good-s0" / "model.safetensors").stat().st_mtime_ns == stamp, (
        "finished runs are kept"
    )
    assert "next: " in out
    assert "signature" in out
