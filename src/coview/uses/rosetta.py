"""Zero-shot without a single pair: the protocol of Schnaus et al., arXiv 2610.09411 (2026).

A corpus of images with captions is cut, by seed, into scenes that give only their image, as many that give
only their captions, and some that are held out. The rotation is searched between the two halves, so that no
pair exists in what it sees. It is judged on the held-out pairs (FOSCTTM) and by zero-shot classification.
A caption's row has unit length before it is averaged over its scene; both sides are centred by the means of
their own half, at test too; images and classes are shuffled before they are scored, so that no order can
leak. Beside it stands the rotation fitted with the pairs of the half that gives images.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from coview.errors import InputError
from coview.joining.blind import LEAST_ITEMS, BlindFit, find_rotation
from coview.joining.paired import PairedRows
from coview.joining.procrustes import fit_rotation
from coview.joining.read_out import foscttm
from coview.joining.rotation import Rotation, unit_rows
from coview.uses.zeroshot import MEASURES, ZeroShot, class_rows, zero_shot

MOST_HELD = 1000  # scenes that judge, and never more than a fifth


@dataclass(frozen=True)
class Task:
    """What is classified.

    Attributes
    ----------
    images : array of shape (M, Di)
    labels : int array of shape (M,)
    texts : array of shape (T, Dt), rows of the texts of classes
    owner : int array of shape (T,), the class of each text
    """

    images: np.ndarray
    labels: np.ndarray
    texts: np.ndarray
    owner: np.ndarray


@dataclass(frozen=True)
class Judged:
    """A rotation on held-out pairs and on the task; FOSCTTM is 0 at best and .5 by chance."""

    foscttm: float
    zero_shot: ZeroShot

    def as_json(self) -> dict:
        return {"foscttm": self.foscttm, **self.zero_shot.as_json()}


@dataclass(frozen=True)
class Trial:
    """What one seed gave: without pairs (None unless the verdict is "found"), and with."""

    seed: int
    fit: BlindFit
    without_pairs: Judged | None
    with_pairs: Judged

    def as_json(self) -> dict:
        return {
            "seed": self.seed,
            "fit": self.fit.as_json(),
            "without_pairs": self.without_pairs and self.without_pairs.as_json(),
            "with_pairs": self.with_pairs.as_json(),
        }


def rosetta(
    corpus: PairedRows,
    task: Task,
    *,
    seeds: Iterable[int] = range(5),
    progress: Callable[[str], None] = lambda line: None,
) -> list[Trial]:
    """Run the protocol once for each seed.

    Parameters
    ----------
    corpus : PairedRows, x of images and y of their captions
        Its pairs serve to cut it and to judge; the search sees none. With several rows an image (crops) and
        several captions, both sides are sharpened by the covariance of their own views.
    task : Task, in the same spaces
    seeds : of the cuts, searches and shuffles
    progress : called with a line of text now and then

    Raises
    ------
    InputError
        The corpus has too few scenes to be cut.
    """
    return [_trial(corpus, task, seed, progress) for seed in seeds]


def cut(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three disjoint sets of scenes: of images, of captions (as many), held out."""
    held = min(MOST_HELD, count // 5)
    half = (count - held) // 2
    if half < LEAST_ITEMS:
        raise InputError(
            f"{count} scenes leave {half} images and {half} other captions; a search needs {LEAST_ITEMS}.",
            where="corpus",
        )
    order = np.random.default_rng([seed, 10]).permutation(count)
    return order[held : held + half], order[held + half : held + 2 * half], order[:held]


def _trial(corpus: PairedRows, task: Task, seed: int, progress) -> Trial:
    of_images, of_texts, held = cut(len(corpus), seed)
    x, views_x = scene_rows(corpus.x.matrix, corpus.rows_x[of_images], unit=False)
    y, views_y = scene_rows(corpus.y.matrix, corpus.rows_y[of_texts], unit=True)
    fit = find_rotation(
        x,
        y,
        seed=seed,
        views_x=views_x,
        views_y=views_y,
        progress=lambda line: progress(f"seed {seed}: {line}"),
    )
    paired = fit_rotation(*scene_means(corpus, of_images), method="procrustes", seed=seed)
    held_out = scene_means(corpus, held)
    progress(f"seed {seed}: {fit.verdict}")
    return Trial(
        seed,
        fit,
        judge(fit.rotation, held_out, task, seed) if fit.rotation else None,
        judge(paired, held_out, task, seed),
    )


def scene_rows(matrix, rows: np.ndarray, *, unit: bool) -> tuple[np.ndarray, list[int] | None]:
    """The rows of some scenes and the scene of each, None where every scene has one row."""
    chosen = np.asarray(matrix[rows.ravel()], dtype=np.float32)
    views = np.repeat(np.arange(len(rows)), rows.shape[1]).tolist() if rows.shape[1] > 1 else None
    return (unit_rows(chosen) if unit else chosen), views


def scene_means(corpus: PairedRows, items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One row a scene on both sides."""
    images, _ = scene_rows(corpus.x.matrix, corpus.rows_x[items], unit=False)
    texts, _ = scene_rows(corpus.y.matrix, corpus.rows_y[items], unit=True)
    return tuple(rows.reshape(len(items), -1, rows.shape[1]).mean(axis=1) for rows in (images, texts))


def judge(rotation: Rotation, held_out: tuple[np.ndarray, np.ndarray], task: Task, seed: int) -> Judged:
    """A rotation on held-out pairs, one row a scene on both sides, and on the shuffled task."""
    rng = np.random.default_rng([seed, 11])
    images = rng.permutation(len(task.images))
    classes = rng.permutation(int(task.owner.max()) + 1)
    texts = rotation.target(unit_rows(task.texts.astype(np.float32)))
    texts *= task.texts.any(axis=1, keepdims=True)  # a text of unknown words says nothing
    rows = class_rows(texts, task.owner)
    scored = zero_shot(
        rotation.map(task.images[images]),
        rows[classes],
        np.argsort(classes)[task.labels[images]],
        seed=seed,
    )
    return Judged(foscttm(rotation.map(held_out[0]), rotation.target(held_out[1])), scored)


def summary(trials: list[Trial]) -> dict:
    """Means and standard deviations over seeds, without pairs over those where a rotation was found."""
    judged = {
        "without_pairs": [trial.without_pairs for trial in trials if trial.without_pairs],
        "with_pairs": [trial.with_pairs for trial in trials],
    }
    return {
        "protocol": "rosetta",
        "found": len(judged["without_pairs"]),
        "of": len(trials),
        **{kind: _spread(some) for kind, some in judged.items()},
        "trials": [trial.as_json() for trial in trials],
    }


def _spread(some: list[Judged]) -> dict | None:
    if not some:
        return None
    values = {name: [getattr(one.zero_shot, name) for one in some] for name in MEASURES}
    values["foscttm"] = [one.foscttm for one in some]
    return {
        name: {"mean": float(np.mean(row)), "deviation": float(np.std(row, ddof=1)) if len(row) > 1 else None}
        for name, row in values.items()
    }


def words(result: dict) -> str:
    """A summary in words, a line a seed."""
    first = result["trials"][0]["with_pairs"]
    chance = {name: first[name]["chance"] for name in ("top1", "top5")}
    lines = [
        f"a rotation was found without pairs in {result['found']} of {result['of']} seeds",
        f"chance: top-1 {chance['top1']:.4f}, top-{first['k']} {chance['top5']:.4f}, FOSCTTM .5",
        f"{'seed':>4}  {'verdict':14}  {'without pairs: top-1, top-5, FOSCTTM':>37}  {'with pairs':>21}",
    ]
    for trial in result["trials"]:
        without, paired = (
            "  ".join(f"{value:5.3f}" for value in _numbers(trial[kind])) if trial[kind] else "-"
            for kind in ("without_pairs", "with_pairs")
        )
        lines.append(f"{trial['seed']:4}  {trial['fit']['verdict']:14}  {without:>37}  {paired:>21}")
        lines += [f"      {reason}" for reason in trial["fit"]["reasons"]]
    return "\n".join(lines)


def _numbers(judged: dict) -> tuple[float, float, float]:
    return judged["top1"]["value"], judged["top5"]["value"], judged["foscttm"]
