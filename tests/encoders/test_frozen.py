"""From MODEL to encoder: families, options, revisions, and what is said when something is missing."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coview.encoders import frozen, load_encoder
from coview.encoders.frozen import require, split_options, split_revision
from coview.encoders.image import ImageEncoder, ImageEncoderConfig, save_image_encoder
from coview.errors import InputError, MissingError, UsageError


def test_pytorch_is_imported_only_for_encoders_that_need_it():
    code = """
import sys
from coview.encoders import load_encoder
import coview.cli.embed, coview.encoders.embed, coview.encoders.precomputed, coview.data.prh
load_encoder("bow:tabletop:scenes=20,width=4").encode(["a cube"])
sys.exit("torch" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("clip:x", "no kind of model 'clip'"),
        ("lite2", "no kind of model 'lite2'"),
        ("lit2:", "Did you mean 'lite2'"),
        ("hf:", "hf: what"),
        ("run:", "run: what"),
    ],
)
def test_what_is_no_model(model, message):
    with pytest.raises(UsageError, match=message.replace("?", r"\?")):
        load_encoder(model)


def test_an_encoder_of_the_other_modality_is_refused(tmp_path):
    save_image_encoder(tmp_path, ImageEncoder(ImageEncoderConfig(channels=(8, 8))), {"modality": "image"})
    assert load_encoder(f"run:{tmp_path}", modality="image").modality == "image"
    with pytest.raises(UsageError, match="encoder of images"):
        load_encoder(f"run:{tmp_path}", modality="text")


def test_run_folders(tmp_path):
    with pytest.raises(InputError, match="no such run folder"):
        load_encoder(f"run:{tmp_path / 'none'}")
    (tmp_path / "config.json").write_text('{"modality": "sound"}')
    with pytest.raises(InputError, match="'sound'"):
        load_encoder(f"run:{tmp_path}")


@given(st.text("ab,=:/", max_size=12), st.sampled_from([{}, {"width": "5"}, {"pool": "x", "width": "7"}]))
def test_options_come_off_the_end(rest, options):
    body, found = split_options(rest, ("width", "pool"))
    assert (body, found) == (rest, {})
    written = rest + "".join(f",{key}={value}" for key, value in options.items())
    assert split_options(written, ("width", "pool")) == (rest, options)


def test_revisions(tmp_path):
    assert split_revision("a/b@c1") == ("a/b", "c1")
    assert split_revision("a/b") == ("a/b", None)
    folder = tmp_path / "me@home"
    folder.mkdir()
    assert split_revision(str(folder)) == (str(folder), None)


def test_a_missing_package_comes_with_its_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    with pytest.raises(MissingError, match="efficientnet_lite_pytorch") as error:
        load_encoder("lite0:")
    assert error.value.hint == 'pip install "coview[lite]"'
    assert error.value.exit_code == 4


def test_a_package_that_does_not_fit_is_told_from_one_that_is_absent(tmp_path, monkeypatch):
    (tmp_path / "unfit_package.py").write_text("raise RuntimeError('operator nms does not exist')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingError, match=r"cannot be imported \(operator nms"):
        require("unfit_package", "lite")


def test_hub_libraries_are_told_to_stay_offline_where_no_hub_is(monkeypatch):
    def unreachable(*_):
        raise OSError("no such host")

    for name in ("HF_HUB_OFFLINE", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    environment = frozen.os.environ
    monkeypatch.setattr(frozen.socket, "getaddrinfo", lambda *_: [])
    require("json", "hub")
    assert "HF_HUB_OFFLINE" not in environment
    monkeypatch.setattr(frozen.socket, "getaddrinfo", unreachable)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")
    require("json", "hub")
    assert "HF_HUB_OFFLINE" not in environment
    monkeypatch.delenv("HTTPS_PROXY")
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")  # so that it is put back after the test
    monkeypatch.delenv("HF_HUB_OFFLINE")
    require("json", "hub")
    assert environment["HF_HUB_OFFLINE"] == "1"


def test_bag_of_words_by_name(tmp_path):
    rows = ["a red cube", "a blue ball", "two red balls", "the blue cube stands"]
    table = tmp_path / "my,captions.csv"
    lines = [f"s{index},{text},train" for index, text in enumerate(rows)]
    table.write_text("\n".join(["scene,text,split", *lines, "s9,unseenword,test"]) + "\n")
    made = load_encoder(f"bow:{table},width=2")
    assert (made.width, made.modality) == (2, "text")
    assert "unseenword" not in made.columns
    assert np.isfinite(made.encode(rows)).all()
    with pytest.raises(UsageError, match="whole number"):
        load_encoder(f"bow:{table},width=x")
