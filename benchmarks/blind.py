"""Rotations found without pairs: on planted clouds, between two languages, between texts and images.

    python benchmarks/blind.py planted --trials 40 > planted.json
    python benchmarks/blind.py real X-train.npz Y-train.npz X-test.npz Y-test.npz
    python benchmarks/blind.py cost

Files of `real` are those of `coview embed`. The scenes of the two train files are split into disjoint halves,
drawn by seed, so that no row of one side has a partner on the other; the test files show the same scenes on
both sides and only judge. FOSCTTM is 0 at best and .5 by chance.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

from coview.embeddings import Embeddings, load_embeddings
from coview.joining.blind import FOUND, BlindFit, find_rotation
from coview.joining.planted import plant
from coview.joining.procrustes import fit_rotation
from coview.joining.read_out import foscttm, recall
from coview.joining.rotation import Rotation

# Latent, noise, width, and whether its rotation can be found.
SETTINGS = (
    ("clusters", 0.3, 48, True),
    ("clusters", 0.7, 48, True),
    ("clusters", 1.2, 48, True),
    ("skewed", 0.5, 48, True),
    ("clusters", 0.3, 16, True),
    ("clusters", 0.3, 128, True),
    ("clusters", 0.3, 256, True),
    ("isotropic", 0.1, 48, False),
    ("gaussian", 0.1, 48, False),
    ("gaussian", 0.1, 16, False),
    ("heavy-tailed", 0.5, 48, False),
    ("independent", 0.3, 48, False),
    ("independent", 0.3, 16, False),
)
RIGHT = 0.05


def planted(trials: int, n: int, matchings: int, only: list[int]) -> list[dict]:
    """Verdicts and errors over seeds; a found rotation is wrong beyond FOSCTTM .05, and twice the truth's."""
    rows = []
    for latent, noise, d, identifiable in [SETTINGS[i] for i in only] if only else SETTINGS:
        found, errors, truths = 0, [], []
        start = time.process_time()
        for seed in range(trials):
            cloud = plant(latent, n=n, d=d, noise=noise, seed=seed)
            fit = find_rotation(cloud.x, cloud.y, seed=seed, matchings=matchings)
            if fit.rotation is not None:
                truth = Rotation(
                    cloud.rotation.astype(np.float32), fit.rotation.mean_x, fit.rotation.mean_y, {}
                )
                found += 1
                errors.append(error(fit.rotation, cloud.held_x, cloud.held_y))
                truths.append(error(truth, cloud.held_x, cloud.held_y))
        wrong = sum(e > max(RIGHT, 2 * t) for e, t in zip(errors, truths, strict=True))
        rows.append(
            {
                "latent": latent,
                "noise": noise,
                "d": d,
                "n": n,
                "identifiable": identifiable,
                "trials": trials,
                "found": found,
                "found_wrong": wrong,
                "foscttm": errors,
                "foscttm_of_the_truth": truths,
                "cpu_seconds_a_trial": (time.process_time() - start) / trials,
            }
        )
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return rows


def error(rotation: Rotation, x: np.ndarray, y: np.ndarray) -> float:
    return foscttm(rotation.map(x), rotation.target(y))


def real(files: list[Path], seeds: list[int], matchings: int) -> list[dict]:
    """Fits on disjoint halves of the scenes, judged on means of the views of each test scene, and on one."""
    x, y, test_x, test_y = (load_embeddings(file) for file in files)
    rows = []
    for seed in seeds:
        start = time.process_time()
        half_x, half_y = halves(x, y, seed)
        (rows_x, scenes_x), (rows_y, scenes_y) = (take(x, half_x), take(y, half_y))
        views = [len(set(scenes)) < len(scenes) for scenes in (scenes_x, scenes_y)]
        fit = find_rotation(
            rows_x,
            rows_y,
            seed=seed,
            views_x=scenes_x if views[0] else None,
            views_y=scenes_y if views[1] else None,
            matchings=matchings,
            progress=lambda line: print(line, file=sys.stderr, flush=True),
        )
        seconds = time.process_time() - start
        row = {"seed": seed, **fit.as_json(), **judged(fit, test_x, test_y, seed), "cpu_seconds": seconds}
        rows.append(row)
        print(json.dumps(row), file=sys.stderr, flush=True)
    return rows


def halves(x: Embeddings, y: Embeddings, seed: int) -> tuple[set[str], set[str]]:
    """Scenes of one half for X, of the other for Y."""
    every = sorted(set(scenes(x)) | set(scenes(y)))
    order = np.random.default_rng([seed, 50]).permutation(len(every))
    middle = len(every) // 2
    return {every[i] for i in order[:middle]}, {every[i] for i in order[middle:]}


def scenes(side: Embeddings) -> tuple[str, ...]:
    if side.scenes is None and side.ids is None:
        raise SystemExit("the files must name their scenes")
    return side.scenes or side.ids or ()


def take(side: Embeddings, kept: set[str]) -> tuple[np.ndarray, list[str]]:
    chosen = [row for row, scene in enumerate(scenes(side)) if scene in kept]
    return np.asarray(side.matrix[chosen]), [scenes(side)[row] for row in chosen]


def judged(fit: BlindFit, test_x: Embeddings, test_y: Embeddings, seed: int) -> dict:
    """Read-outs on test scenes: of the rotation found, and of one fitted on these very pairs, the ceiling."""
    rng = np.random.default_rng([seed, 51])
    shared = sorted(set(scenes(test_x)) & set(scenes(test_y)))
    result: dict = {"test_scenes": len(shared)}
    for name, mean in (("means", True), ("single", False)):
        a, b = (views(side, shared, mean, rng) for side in (test_x, test_y))
        result[f"ceiling_{name}"] = error(fit_rotation(a, b, method="procrustes"), a, b)
        if fit.verdict == FOUND and fit.rotation is not None:
            found = fit.rotation.map(a), fit.rotation.target(b)
            result[f"foscttm_{name}"] = foscttm(*found)
            for k in (1, 10):
                result[f"recall_{k}_{name}"] = recall(*found, k)
    return result


def views(side: Embeddings, wanted: list[str], mean: bool, rng: np.random.Generator) -> np.ndarray:
    """The mean of the rows of each scene, or one of them drawn by chance: (scenes, D)."""
    rows: dict[str, list[int]] = {}
    for row, scene in enumerate(scenes(side)):
        rows.setdefault(scene, []).append(row)
    matrix = np.asarray(side.matrix)
    if mean:
        return np.stack([matrix[rows[scene]].mean(axis=0) for scene in wanted])
    return np.stack([matrix[rng.choice(rows[scene])] for scene in wanted])


def cost(n: int, d: int) -> dict:
    cloud = plant("clusters", n=n, d=d, noise=0.3, seed=0)
    start = time.process_time()
    fit = find_rotation(cloud.x, cloud.y, seed=0)
    seconds = time.process_time() - start
    wrong = fit.rotation and error(fit.rotation, cloud.held_x, cloud.held_y)
    return {"n": n, "d": d, "verdict": fit.verdict, "foscttm": wrong, "cpu_seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("what", choices=("planted", "real", "cost"))
    parser.add_argument("files", nargs="*", type=Path, help="for real: X train, Y train, X test, Y test")
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--only", type=int, nargs="*", default=[], help="numbers of planted settings")
    parser.add_argument("--seeds", type=int, nargs="*", default=list(range(5)))
    parser.add_argument("--matchings", type=int, default=9)
    parser.add_argument("--n", type=int, default=3000)
    parser.add_argument("--d", type=int, default=256)
    options = parser.parse_args()
    if options.what == "planted":
        result: object = planted(options.trials, options.n, options.matchings, options.only)
    elif options.what == "real":
        result = real(options.files, options.seeds, options.matchings)
    else:
        result = cost(options.n, options.d)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
