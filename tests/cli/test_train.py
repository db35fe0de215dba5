"""`coview train` as people meet it."""

import errno
import json
import os
import signal
import subprocess
import sys

import pytest

from coview.cli import NESTED, build_app

TINY = {
    "size": "xs",
    "steps": 4,
    "batch": 8,
    "views-per-scene": 2,
    "output": 12,
    "slices": 16,
    "vocabulary": 300,
    "max-length": 16,
    "checkpoint-every": 2,
    "log-every": 1,
    "precision": "fp32",
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def train(run_cli, tmp_path, cache, monkeypatch):
    """`train(source, "--option", steps=3)` runs in `tmp_path` and gives (code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COVIEW_CACHE", str(cache))
    monkeypatch.setattr("coview.training.text_task.WHITENING_SCENES", 64)
    monkeypatch.setattr("coview.training.image_task.WHITENING_SCENES", 64)

    def run(source="tabletop:scenes=100", *words, **options):
        named = TINY | {name.replace("_", "-"): value for name, value in options.items()}
        flags = [f"--{name}={value}" for name, value in named.items() if value is not None]
        monkeypatch.setattr(sys, "argv", ["coview", "train", str(source), *flags, *words])
        return run_cli(*sys.argv[1:])

    return run


def one_line(text: str) -> bool:
    return text.count("\n") == 1 and "Traceback" not in text


def test_from_texts_to_a_run_that_embeds(train, run_cli, tmp_path):
    code, out, err = train("tabletop:scenes=100", "--json")
    document = json.loads(out)
    assert (code, document["schema"], document["ok"]) == (0, "coview.train/1", True)
    run = document["result"]["run"]
    assert run == "runs/good-xs-s0"
    assert sorted(path.name for path in (tmp_path / run).iterdir()) == [
        "checkpoint.safetensors",
        "config.json",
        "manifest.json",
        "metrics.jsonl",
        "model.safetensors",
        "tokenizer.json",
    ]
    assert "train good: 4 of 4" in err
    assert "91.50% of the texts are longer than 16 tokens and are cut" in err
    code, out, _ = run_cli("embed", "tabletop:scenes=100", "--model", f"run:{run}", "--json")
    assert (code, json.loads(out)["ok"]) == (0, True)


def test_the_next_command_can_be_pasted(train, tmp_path):
    code, out, _ = train(out="a run's ünïcode folder", steps=1)
    assert code == 0
    assert out.splitlines()[1] == (
        "next: coview embed tabletop:scenes=100 --model 'run:a run'\"'\"'s ünïcode folder' --split test"
    )
    assert (tmp_path / "a run's ünïcode folder" / "manifest.json").is_file()


def test_the_manifest_says_what_made_the_run(train, tmp_path):
    train(steps=2)
    manifest = json.loads((tmp_path / "runs/good-xs-s0/manifest.json").read_text())
    assert manifest["command"][:3] == ["coview", "train", "tabletop:scenes=100"]
    assert manifest["data"]["texts"] == 400
    assert manifest["data"]["truncated_share"] == 0.915
    assert manifest["precision"] == "fp32"
    assert manifest["peak_memory"] > 0
    assert manifest["estimated_peak_memory"] > 0


def test_a_dry_run_writes_nothing(train, tmp_path, cache):
    before = sorted(cache.rglob("*"))
    code, out, _ = train("tabletop:scenes=60", "--dry-run", vocabulary=200)
    assert code == 0
    assert "MB at the peak, computing in fp32" in out
    assert out.endswith("nothing was written.\n")
    assert not any(tmp_path.iterdir())
    assert sorted(cache.rglob("*")) == before


def test_a_finished_run_is_not_run_again(train, tmp_path):
    train()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*")}
    code, out, _ = train("tabletop:scenes=100", "--resume")
    assert (code, out) == (0, "runs/good-xs-s0: the run is finished already\n")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*")} == before


def test_folders_in_use_and_folders_without_a_run(train, tmp_path):
    code, _, err = train("tabletop:scenes=100", "--resume")
    assert (code, one_line(err)) == (2, True)
    assert "there is no run to resume here. Leave --resume out" in err
    train()
    code, _, err = train()
    assert (code, one_line(err)) == (2, True)
    assert "the folder is not empty. Add --resume" in err


def test_resumed_with_other_options(train, tmp_path):
    train(out="run")
    before = (tmp_path / "run/config.json").read_bytes()
    code, _, err = train("tabletop:scenes=100", "--resume", out="run", learning_rate=0.1, steps=9)
    assert (code, one_line(err)) == (2, True)
    assert "other options (--steps 4, not 9; --learning-rate 0.001, not 0.1)" in err
    assert (tmp_path / "run/config.json").read_bytes() == before


def interrupted_at(monkeypatch, fatal: int, event) -> None:
    """Call `event` before one step of a text run."""
    from coview.training.text_task import TextTask

    honest = TextTask.step

    def step(self, number):
        if number == fatal:
            event(self)
        return honest(self, number)

    monkeypatch.setattr(TextTask, "step", step)


def test_interrupted_and_resumed_as_it_says(train, run_cli, tmp_path, monkeypatch):
    train(out="unbroken")
    with monkeypatch.context() as patch:
        interrupted_at(patch, 3, lambda task: os.kill(os.getpid(), signal.SIGINT))
        code, out, err = train(out="run")
    assert (code, out) == (130, "")
    command = err[err.index("Resume with: coview ") :].removeprefix("Resume with: coview ").split()
    assert command[-1] == "--resume"
    monkeypatch.setattr(sys, "argv", ["coview", *command])
    assert run_cli(*command)[0] == 0
    weights = (tmp_path / "run/model.safetensors").read_bytes()
    assert weights == (tmp_path / "unbroken/model.safetensors").read_bytes()


def test_resumed_on_other_texts(train, monkeypatch):
    with monkeypatch.context() as patch:
        interrupted_at(patch, 3, lambda task: os.kill(os.getpid(), signal.SIGTERM))
        assert train(out="run")[0] == 130
    code, _, err = train("tabletop:scenes=100,seed=1", "--resume", "--quiet", out="run")
    assert (code, one_line(err)) == (2, True)
    assert "the training data is not the one this run was started with" in err


def test_a_loss_that_is_no_number(train, tmp_path, monkeypatch):
    from torch import nan

    with monkeypatch.context() as patch:
        interrupted_at(patch, 3, lambda task: task.model.head.weight.data.fill_(nan))
        code, _, err = train(out="run")
    assert code == 5
    assert "not a number at step 3. The last checkpoint is kept." in err
    assert train("tabletop:scenes=100", "--resume", out="run")[0] == 0


def test_a_full_disk(train, tmp_path, monkeypatch):
    honest = os.replace

    def full(source, target):
        if "checkpoint" in str(target):
            raise OSError(errno.ENOSPC, "No space left on device")
        honest(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        code, _, err = train("tabletop:scenes=100", "--quiet", out="run")
    assert (code, one_line(err)) == (6, True)
    assert "the disk is full; checkpoint.safetensors was not written. Free some space, then resume" in err
    assert err.rstrip().endswith("--resume")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["config.json", "metrics.jsonl"]
    assert train("tabletop:scenes=100", "--resume", out="run")[0] == 0


@pytest.mark.parametrize("out", ["file/run", "file"])
def test_a_run_inside_a_file(train, tmp_path, out):
    (tmp_path / "file").write_text("")
    code, _, err = train(out=out)
    assert (code, one_line(err)) == (2, True)
    assert "it is a file, and the run needs a folder. Choose another --out." in err


def test_a_read_only_folder(train, tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)
    code, _, err = train(out="run")
    assert (code, one_line(err)) == (2, True)
    assert "the folder cannot be written. Choose another --out." in err


def write_scenes(path, scenes: list[list[str]], split: str = "train"):
    rows = [{"id": str(index), "texts": texts, "split": split} for index, texts in enumerate(scenes)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("texts", "options", "code", "words"),
    [
        (1, {}, 3, "no scene has 2 texts (most: 1), which views 'good' need. Give more texts a scene"),
        (2, {"output": 129}, 2, "--output: the embedding cannot have more dimensions than the encoder's 128"),
        (2, {"batch": 21}, 2, "--batch: a batch of 21 scenes is more than the 20 there are. Use --batch 20"),
        (2, {"size": "xss"}, 2, "--size: unknown size 'xss'. Did you mean 'xs'?"),
        (2, {"tokenizer": "none.json"}, 3, "none.json: there is no such tokenizer file."),
        (2, {"device": "warp"}, 2, "--device: no device 'warp'"),
        (2, {"split": "test"}, 3, "the train split has no texts."),
    ],
)
def test_what_cannot_be_trained_leaves_no_folder(train, tmp_path, texts, options, code, words):
    split = options.pop("split", "train")
    scenes = [[f"scene {index} text {number}" for number in range(texts)] for index in range(20)]
    source = write_scenes(tmp_path / "a.jsonl", scenes, split)
    found, out, err = train(source, "--quiet", out="run", **options)
    assert (found, out, one_line(err)) == (code, "", True)
    assert words in err
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [({"size": "huge"}, 2, "unknown size 'huge'"), ({"device": "no-such-device"}, 2, "no device")],
)
def test_a_wrong_word_is_refused_before_any_work(train, monkeypatch, options, code, words):
    def never(*_, **__):
        pytest.fail("work began")

    monkeypatch.setattr("coview.training.train.open_store", never)
    found, _, err = train(**options)
    assert found == code
    assert words in err


def test_one_text_a_scene_trains_on_bad_views(train, tmp_path):
    source = write_scenes(tmp_path / "a.jsonl", [[f"scene {index} is here"] for index in range(20)])
    assert train(source, views="bad")[0] == 0


def test_an_interrupted_tokenisation_leaves_nothing(train, tmp_path, cache, monkeypatch):
    def interrupted(*arguments):
        os.kill(os.getpid(), signal.SIGTERM)

    before = sorted(cache.rglob("*"))
    monkeypatch.setattr("coview.data.tokens.encode", interrupted)
    code, _, err = train("tabletop:scenes=70", "--quiet")
    assert (code, err) == (130, "coview train: interrupted; nothing half-written was left.\n")
    assert sorted(cache.rglob("*")) == before
    assert not any(tmp_path.iterdir())


def test_images(train, tmp_path):
    code, out, _ = train("tabletop:scenes=40", modality="image", steps=2)
    assert code == 0
    assert out.startswith("runs/good-image-s0\n")
    code, _, err = train("tabletop:scenes=40", "--dry-run", modality="image")
    assert (code, one_line(err)) == (2, True)
    assert "only a run on texts can be planned" in err


def test_options_from_a_file(train, tmp_path):
    (tmp_path / "options.yaml").write_text("steps: 3\nlearning_rate: 1e-2\nviews-per-scene: 3\n")
    flags = {"steps": None, "learning_rate": None, "views_per_scene": 2}
    assert train("tabletop:scenes=100", "--config", "options.yaml", **flags)[0] == 0
    used = json.loads((tmp_path / "runs/good-xs-s0/config.json").read_text())
    assert (used["steps"], used["learning_rate"], used["views_per_scene"]) == (3, 0.01, 2)


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        ("stpes: 3\n", 2, "options.yaml: unknown key 'stpes'. Did you mean 'steps'?"),
        (
            "steps: many\n",
            2,
            'Invalid value for [steps] from options.yaml: unable to convert "many" into int.',
        ),
        ("views: god\n", 2, 'Choose from: "good", "bad", "next-token". Did you mean "good"?'),
        ("weight: 2\n", 2, "--weight: must lie in [0, 1], not 2.0."),
        ("steps: [\n", 3, "options.yaml line 2: not valid YAML"),
        ("- steps\n", 3, "options.yaml: expected options, one a line."),
        ("1: 2\n", 3, "options.yaml: expected options, one a line."),
        (None, 3, "options.yaml: cannot be read (No such file or directory)."),
    ],
)
def test_a_file_of_options_that_does_not_fit(run_cli, tmp_path, monkeypatch, content, code, words):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / "options.yaml").write_text(content)
    found, out, err = run_cli("train", "tabletop:", "--config=options.yaml")
    assert (found, out, one_line(err)) == (code, "", True)
    assert words in err


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["trian", "x"], 'Unknown command "trian".', 'Did you mean "train"?'),
        (["train", "x", "--stps", "5"], "Unknown option: --stps.", "Did you mean --steps?"),
        (["train", "x", "--views", "god"], 'Invalid value "god" for --views.', 'Did you mean "good"?'),
        (["train", "x", "--steps", "abc"], 'unable to convert "abc" into int.', ""),
        (["train", "x", "--steps"], "--steps requires an argument.", ""),
        (["train", "x", "--steps", "0"], "must be at least 1, not 0.", ""),
        (["train", "x", "y"], "there is no place for 'y'.", ""),
        (["train"], "SOURCE requires an argument.", ""),
        (["train", "world:"], "there is no source of the kind 'world'.", "Known: tabletop, prh."),
        (["data", "chek", "x"], 'Unknown command "chek".', 'Did you mean "check"?'),
    ],
)
def test_what_is_typed_wrong(run_cli, words, message, hint):
    code, out, err = run_cli(*words)
    assert (code, out, one_line(err)) == (2, "", True)
    assert err.startswith("coview")
    assert message in err
    assert hint in err

    code, out, err = run_cli(*words, "--json")
    document = json.loads(out)
    assert (code, document["ok"], document["error"]["code"]) == (2, False, 2)
    assert document["schema"] == ("coview/1" if words[0] == "trian" else f"coview.{words[0]}/1")
    assert message in document["error"]["message"]
    assert document["error"]["hint"].startswith(hint)
    assert one_line(err)


@pytest.mark.parametrize("command", NESTED)
def test_an_error_of_a_subcommand_carries_the_schema_of_its_result(run_cli, command):
    app = build_app()[command]
    assert {name for name in app if not name.startswith("-")} == set(NESTED[command])
    for name in NESTED[command]:
        document = json.loads(run_cli(command, name, "--no-such-option", "--json")[1])
        assert (document["schema"], document["ok"]) == (f"coview.{command}.{name}/1", False)


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_help_imports_no_torch():
    loaded = python(
        "import sys\nfrom coview.cli import main\n"
        "for words in (['--help'], ['--version'], ['train', '--help'], ['trian']):\n"
        "    try: main(words)\n"
        "    except SystemExit: pass\n"
        "print('LOADED', *sys.modules)"
    )
    loaded = loaded[loaded.index("LOADED") :].split()
    assert "coview.cli.train" in loaded
    assert not {"torch", "scipy", "transformers", "matplotlib"} & set(loaded)


ANALYSIS = (
    "alignment",
    "joining",
    "theory",
    "embeddings",
    "pairing",
    "data.scenes",
    "data.readers",
    "report",
    "tabletop",
)


def test_analysis_imports_without_torch():
    python(
        "import importlib, pkgutil, sys\nsys.modules['torch'] = None\nimport coview\n"
        f"for name in {ANALYSIS}:\n"
        "    module = importlib.import_module(f'coview.{name}')\n"
        "    for part in pkgutil.walk_packages(getattr(module, '__path__', []), module.__name__ + '.'):\n"
        "        importlib.import_module(part.name)\n"
    )
