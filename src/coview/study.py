"""A study: the three arms on identical texts, several seeds, against one image encoder they never met.

Everything is measured on held-out scenes. Which layer an arm is read at is chosen on the validation scenes,
for every arm in the same way; the number that is reported comes from the test scenes.
"""

import json
import os
import time
from collections.abc import Callable, Generator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import active_children, get_context
from pathlib import Path

import numpy as np
import torch
import yaml
from scipy import stats

from coview.alignment import align, scene_explained_fraction
from coview.alignment.neighbours import top_neighbours
from coview.alignment.overlap import mutual_knn
from coview.alignment.recipes import Layer, prepare
from coview.alignment.retrieval import caption_retrieval
from coview.config import TrainConfig
from coview.data.scenes import Source
from coview.data.tokens import TokenStore
from coview.encoders.bag_of_words import fit_bag_of_words
from coview.encoders.encoder import Encoder, pick_device
from coview.encoders.trained import TrainedTextEncoder, load_text_encoder
from coview.errors import InputError, Interrupted, UsageError, did_you_mean
from coview.held_out import HeldOut
from coview.runs import manifest, read_json, write_json
from coview.training.task import Task
from coview.training.text_task import TextTask
from coview.training.train import is_finished, shell_command, train_text

ARMS = ("good", "bad", "next-token")
RECIPE = "center"  # mean removed, rows of length one: what an embedding is before it is compared
COMPARED = ("mutual_knn", "scene_explained_fraction")  # what differences between arms are given of


@dataclass(frozen=True)
class Study:
    """What to compare, and where.

    Attributes
    ----------
    title : for the report
    store : tokens of the training texts, the same for every arm
    held_out : validation and test scenes
    arms : configuration of each arm; the seed is set by the study
    seeds : one run of every arm for each, paired
    images : name of the image encoder
    k : neighbours
    probes : points of the curve of alignment against scenes seen, beside the one before training
    """

    title: str
    store: TokenStore
    held_out: dict[str, HeldOut]
    arms: dict[str, TrainConfig]
    seeds: tuple[int, ...]
    images: str
    k: int = 10
    probes: int = 6


def run_study(
    study: Study,
    out: Path,
    *,
    frozen: dict[str, Encoder],
    jobs: int | None = None,
    device: str = "auto",
    say: Callable[[str], None] = lambda line: None,
) -> dict:
    """Train every arm with every seed, measure, and return the result; what is finished in `out` is kept.

    Parameters
    ----------
    frozen : text encoders to measure beside the arms, by name
    jobs : runs at a time; by default one on a GPU, and one a core without
    say : called with a line of progress now and then

    Returns
    -------
    dict, JSON-able: ``arms`` with lists by seed, ``controls``, ``differences``, ``chance``, ``signature``.
    """
    started = time.perf_counter()
    runs = {(arm, seed): out / "runs" / f"{arm}-s{seed}" for seed in study.seeds for arm in study.arms}
    cores = os.cpu_count() or 1
    jobs = jobs or (1 if pick_device(device) != "cpu" else min(cores, len(runs)))
    measured: dict[tuple[str, int], dict] = {}
    say(f"training {len(runs)} runs, {jobs} at a time")
    with ProcessPoolExecutor(
        jobs,
        mp_context=get_context("spawn"),
        initializer=torch.set_num_threads,
        initargs=(max(1, cores // jobs),),
    ) as pool:
        # The longest first, so that no core idles at the end.
        ordered = sorted(runs.items(), key=lambda item: item[0][0] != "next-token")
        waiting = {
            pool.submit(run_arm, study, replace(study.arms[arm], seed=seed), run, device): (arm, seed)
            for (arm, seed), run in ordered
        }
        with stopping(pool, out):
            for done in as_completed(waiting):
                arm, seed = waiting[done]
                row = measured[arm, seed] = done.result()
                say(
                    f"{len(measured)} of {len(runs)}: {arm}, seed {seed}, mutual {study.k}-NN "
                    f"{row['mutual_knn']:.4f}, {row['seconds']:,.0f} s"
                )
    arms: dict[str, dict] = {}
    for arm in study.arms:
        rows = [measured[arm, seed] for seed in study.seeds]
        arms[arm] = {key: [row[key] for row in rows] for key in rows[0]}
        arms[arm]["first_seed_run"] = str(runs[arm, study.seeds[0]])
    test, good = study.held_out["test"], arms["good"]
    result = {
        "title": study.title,
        "source": study.store.meta["source"],
        "images": study.images,
        "n": len(test.images),
        "k": study.k,
        "chance": study.k / (len(test.images) - 1),
        "recipe": RECIPE,
        "signature": good["signature"][0],
        "seeds": list(study.seeds),
        "arms": arms,
        "controls": controls(study, frozen, Path(good["first_seed_run"]), good["layer"][0]),
        "differences": {
            f"good - {other}": {key: difference(good[key], arms[other][key]) for key in COMPARED}
            for other in arms
            if other != "good"
        },
        "seconds": round(time.perf_counter() - started, 1),
        "manifest": manifest(kind="study", data=study.store.meta),
    }
    return result


@contextmanager
def stopping(pool: ProcessPoolExecutor, out: Path) -> Generator[None]:
    """When the block fails or is interrupted, end the runs as well (each writes its checkpoint)."""
    try:
        yield
    except BaseException as error:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in active_children():
            child.terminate()
        if isinstance(error, KeyboardInterrupt | Interrupted):
            hint = "The same command goes on."
            raise Interrupted("interrupted; what was done is kept.", where=str(out), hint=hint) from None
        raise


def save_study(result: dict, out: Path) -> Path:
    """Write the result, its figures and its page; the path of the page."""
    from coview.report import write_figures, write_report

    write_json(out / "study.json", result)
    write_figures(result, out / "figures")
    write_report(result, out / "report.html")
    return out / "report.html"


def run_arm(study: Study, config: TrainConfig, run: Path, device: str) -> dict:
    """Train one arm unless it is finished already, and measure it."""
    if not ((run / "config.json").is_file() and is_finished(run, config)):
        train_arm(study, config, run, device)
    return measure_arm(study, run, config.seed)


def train_arm(study: Study, config: TrainConfig, run: Path, device: str) -> None:
    """Train one arm, or go on where it was stopped, measuring its alignment along the way."""
    test = study.held_out["test"]
    chosen = test.one_each(config.seed)
    texts = [test.texts[index] for index in chosen]
    images = neighbours(test.images, study.k)
    stops = {
        round(config.steps * share)
        for share in (0, *np.geomspace(1 / 2 ** (study.probes - 1), 1, study.probes))
    }

    def probe(task: Task, done: int) -> dict:
        if done not in stops:
            return {}
        task.finish()
        encoder = as_encoder(task)
        rows = encoder.encode_layers(texts, candidates(encoder))
        scores = {layer: overlap(matrix, images, study.k) for layer, matrix in rows.items()}
        return {"scenes_seen": done * config.batch, "mutual_knn": scores}

    train_text(config, study.store, run, device=device, resume=shell_command(), probe=probe)


def measure_arm(study: Study, run: Path, seed: int) -> dict:
    """Everything that is reported of one finished run, on the test scenes."""
    encoder = load_text_encoder(run)
    layer = choose_layer(study, encoder, seed)
    done = read_json(run / "manifest.json")
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    probes = [line for line in lines if "scenes_seen" in line]
    return {
        **measure(study, encoder.encode(study.held_out["test"].texts, layer), seed),
        "layer": layer,
        "seconds": done["seconds"],
        "parameters": sum(parameter.numel() for parameter in encoder.model.parameters()),
        "curve": [[line["scenes_seen"], line["mutual_knn"][layer]] for line in probes],
    }


def measure(study: Study, rows: np.ndarray, seed: int) -> dict:
    """The measures of one encoder's embeddings of the test texts, shape (N_t, D)."""
    test = study.held_out["test"]
    one = align(rows[test.one_each(seed)], test.images, k=study.k, recipe=RECIPE, permutations=0, seed=seed)
    mean = align(test.means(rows), test.images, k=study.k, recipe=RECIPE, permutations=0, splits=0)
    explained = scene_explained_fraction(rows, test.scene, ci=0.95, resamples=200, seed=seed)
    return {
        "mutual_knn": one.score,
        "mutual_knn_stderr": one.stderr,
        "z": one.z,
        "mutual_knn_mean_caption": mean.score,
        "scene_explained_fraction": explained.value,
        "scene_explained_interval": list(explained.interval or ()),
        "retrieval_r1": caption_retrieval(rows, test.scene, seed=seed),
        "signature": one.signature,
    }


def candidates(encoder: Encoder) -> tuple[str, ...]:
    """The layers an arm may be read at."""
    return (encoder.last, *encoder.layers[1:])


def choose_layer(study: Study, encoder: TrainedTextEncoder, seed: int) -> str:
    """The layer with the highest mutual k-NN on the validation scenes."""
    val = study.held_out["val"]
    texts = [val.texts[index] for index in val.one_each(seed)]
    images = neighbours(val.images, study.k)
    rows = encoder.encode_layers(texts, candidates(encoder))
    return max(rows, key=lambda layer: overlap(rows[layer], images, study.k))


def neighbours(rows: np.ndarray, k: int) -> np.ndarray:
    """The k nearest rows of each row, prepared by the study's recipe."""
    return top_neighbours(prepare([Layer(rows)], RECIPE)[0].matrix(), k)


def overlap(rows: np.ndarray, images: np.ndarray, k: int) -> float:
    """Mutual k-NN of rows with the neighbour lists of the images."""
    return float(mutual_knn(neighbours(rows, k), images).mean())


def as_encoder(task: Task) -> TrainedTextEncoder:
    """The encoder of a task that is still training."""
    assert isinstance(task, TextTask)
    return TrainedTextEncoder(task.model, task.store.tokenizer, name="run:unfinished", causal=task.causal)


def controls(study: Study, frozen: dict[str, Encoder], run: Path, layer: str) -> dict[str, dict]:
    """What a study must be compared with: an encoder that saw nothing, frozen ones, and wrong pairs.

    Parameters
    ----------
    run, layer : the run whose pairs are shuffled, and where it is read
    """
    seed, test = study.seeds[0], study.held_out["test"]
    task = TextTask(replace(study.arms["good"], seed=seed), study.store, torch.device("cpu"))
    task.prepare()
    untrained = as_encoder(task)
    trained = load_text_encoder(run).encode(test.texts, layer)
    shuffled = np.random.default_rng([seed, 6]).permutation(len(trained))
    return {
        "untrained encoder": measure(
            study, untrained.encode(test.texts, choose_layer(study, untrained, seed)), seed
        ),
        **{name: measure(study, encoder.encode(test.texts), seed) for name, encoder in frozen.items()},
        "shuffled pairs": measure(study, trained[shuffled], seed),
    }


def bag_of_words(source: Source) -> Encoder:
    """Words counted: the baseline fitted on the training texts of a source."""
    return fit_bag_of_words(text for scene in source.scenes("train") for text in scene.texts)


def difference(first: list[float], second: list[float]) -> dict:
    """Paired difference over seeds, with a 95 % interval by Student's t (none for one seed)."""
    by_seed = np.subtract(first, second)
    mean, count = float(by_seed.mean()), len(by_seed)
    row = {"mean": mean, "low": None, "high": None, "by_seed": by_seed.tolist()}
    if count > 1:
        half = float(stats.t.ppf(0.975, count - 1) * by_seed.std(ddof=1) / np.sqrt(count))
        row |= {"low": mean - half, "high": mean + half}
    return row


def load_arms(file: Path | None) -> dict[str, TrainConfig]:
    """Configurations of the three arms: ``common`` options, then those of each arm.

    Raises
    ------
    InputError, UsageError
        The file is no YAML mapping, or names an arm or an option that does not exist.
    """
    document = {}
    if file is not None:
        try:
            document = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
        except (OSError, yaml.YAMLError) as error:
            raise InputError(f"cannot be read as YAML: {error}", where=str(file)) from error
        if not isinstance(document, dict) or not all(isinstance(part, dict) for part in document.values()):
            raise InputError("not a mapping of arms to options.", where=str(file), hint="See configs/.")
    for name in document:
        if name not in ("common", *ARMS):
            raise UsageError(
                f"there is no arm {name!r}.", where=str(file), hint=did_you_mean(name, ("common", *ARMS))
            )
    common = document.get("common", {})
    return {
        arm: TrainConfig.from_json({**common, **document.get(arm, {}), "views": arm}, where=str(file))
        for arm in ARMS
    }
