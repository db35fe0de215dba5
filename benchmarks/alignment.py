"""The alignment laboratory against the published algorithm written plainly in PyTorch: CPU time and memory.

    python benchmarks/alignment.py [--job sweep pair unbiased_cka sampled null unbiased] [--rounds 3]

Prints one JSON document. Every measurement is a fresh process with one thread, from features in memory to the
number; processes take turns. `ours` is what `align` gives by default except permutations: the
score with its error bar, and for the sweep the cross-fitted maximum; `plain` gives the bare score.

sweep         13 x 13 layers, N = 1,024, D = 768, mutual 10-NN, clipped as published: at least 40 times faster
pair          one layer each, N = 20,000: at least 4 times faster, peak memory under 500 MB
unbiased_cka  N = 5,000: at least 30 times faster (the score alone on both sides)
sampled       100,000 x 768, memory-mapped, 1,024 sampled queries: under 10 CPU-seconds
null          1,000 permutations of the 13 x 13 maximum, N = 1,024: under 20 CPU-seconds
unbiased      sampled queries against all of them at N = 20,000
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
from rounds import forget_peak_memory, interleaved, peak_megabytes, run_worker, spread

from coview.alignment import align
from coview.alignment.metrics import cka

WIDTH, K = 768, 10
AGAINST_PLAIN = {"sweep": 1024, "pair": 20_000, "unbiased_cka": 5_000}
ALONE = {"sampled": 100_000, "null": 1024, "unbiased": 20_000}


def features(rows: int, layers: int, side: int) -> np.ndarray:
    """Noisy views of a latent of 16 dimensions: (rows, layers, WIDTH), or (rows, WIDTH) for one layer."""
    latent = np.random.default_rng(0).standard_normal((rows, 16), dtype=np.float32)
    stack = np.empty((rows, layers, WIDTH), dtype=np.float32)
    for layer in range(layers):
        rng = np.random.default_rng([1, side, layer])
        noise = rng.standard_normal((rows, WIDTH), dtype=np.float32)
        stack[:, layer] = latent @ rng.standard_normal((16, WIDTH), dtype=np.float32) + 4 * noise
    return stack if layers > 1 else stack[:, 0]


def plain_mutual_knn(x, y) -> float:
    """Mutual k-NN as published: all similarities sorted, membership as N x N masks."""
    import torch

    masks = []
    for rows in (x, y):
        rows = torch.nn.functional.normalize(rows, dim=-1)
        similarities = (rows @ rows.T).fill_diagonal_(-1e8)
        nearest = similarities.argsort(dim=1, descending=True)[:, :K]
        mask = torch.zeros(len(rows), len(rows))
        mask[torch.arange(len(rows))[:, None], nearest] = 1.0
        masks.append(mask)
    return ((masks[0] * masks[1]).sum(dim=1) / K).mean().item()


def plain_sweep(x, y) -> float:
    """The best of all layer pairs, neighbours sought anew for each pair, after clipping as published."""
    import torch

    clipped = []
    for stack in (x, y):
        limit = torch.quantile(stack.abs().flatten(1), 0.95, dim=1).mean()
        clipped.append(stack.clamp(-limit, limit))
    a, b = clipped
    return max(plain_mutual_knn(a[:, i], b[:, j]) for i in range(a.shape[1]) for j in range(b.shape[1]))


def plain_unbiased_cka(x, y) -> float:
    """Song et al.'s estimator with N x N kernels and their products."""

    def hsic(k, l):  # noqa: E741 - the kernels K and L
        n = len(k)
        k, l = k.clone().fill_diagonal_(0), l.clone().fill_diagonal_(0)  # noqa: E741
        value = (k * l.T).sum() + k.sum() * l.sum() / ((n - 1) * (n - 2)) - 2 * (k @ l).sum() / (n - 2)
        return value / (n * (n - 3))

    kernel_x, kernel_y = x @ x.T, y @ y.T
    own = (hsic(kernel_x, kernel_x) * hsic(kernel_y, kernel_y)).sqrt()
    return (hsic(kernel_x, kernel_y) / own).item()


def run_plain(job: str, rows: int) -> float:
    import torch

    torch.set_num_threads(1)
    x, y = (torch.from_numpy(features(rows, 13 if job == "sweep" else 1, side)) for side in (0, 1))
    forget_peak_memory()
    measure = {"sweep": plain_sweep, "pair": plain_mutual_knn, "unbiased_cka": plain_unbiased_cka}[job]
    return timed(lambda: measure(x, y))


def run_ours(job: str, rows: int, splits: int):
    if job == "sampled":
        return run_sampled(rows)
    x, y = (features(rows, 13 if job in ("sweep", "null") else 1, side) for side in (0, 1))
    forget_peak_memory()
    if job == "unbiased_cka":
        return timed(lambda: cka(x, y))
    recipe = "prh" if job in ("sweep", "null") else "raw"
    if job == "unbiased":
        exact = align(x, y, permutations=0, splits=0).score
        runs = [align(x, y, queries=1024, permutations=0, seed=seed) for seed in range(30)]
        errors = np.array([run.score - exact for run in runs])
        return {
            "exact": exact,
            "mean_error": errors.mean(),
            "standard_error_of_mean": errors.std(ddof=1) / len(errors) ** 0.5,
            "rms_error": float(np.sqrt((errors**2).mean())),
            "reported_stderr": float(np.mean([run.stderr for run in runs])),
        }
    permutations = 1000 if job == "null" else 0
    return timed(lambda: align(x, y, recipe=recipe, permutations=permutations, splits=splits).score)


def run_sampled(rows: int):
    with tempfile.TemporaryDirectory() as folder:
        for side in (0, 1):
            np.save(Path(folder) / f"{side}.npy", features(rows, 1, side))
        x, y = (np.load(Path(folder) / f"{side}.npy", mmap_mode="r") for side in (0, 1))
        forget_peak_memory()
        return timed(lambda: align(x, y, queries=1024, permutations=0).score)


def timed(measure) -> dict:
    held = peak_megabytes()
    start = time.process_time()
    score = measure()
    seconds = time.process_time() - start
    return {
        "score": score,
        "cpu_seconds": seconds,
        "peak_megabytes": peak_megabytes(),
        "extra_megabytes": peak_megabytes() - held,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    every = [*AGAINST_PLAIN, *ALONE]
    parser.add_argument("--job", nargs="+", default=every, choices=every)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worker", choices=["plain", "ours", "with_errors"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        job = options.job[0]
        rows = (AGAINST_PLAIN | ALONE)[job]
        if options.worker == "plain":
            print(json.dumps(run_plain(job, rows)))
        else:
            print(json.dumps(run_ours(job, rows, 50 if options.worker == "with_errors" else 0)))
        return
    jobs = {}
    for job in options.job:
        if job in ALONE:
            jobs[job] = run_worker(__file__, "with_errors", ["--job", job])
            continue
        variants = ["plain", "ours"] if job == "unbiased_cka" else ["plain", "ours", "with_errors"]
        rounds = interleaved(__file__, variants, ["--job", job], options.rounds)
        ratios = {
            f"{what}_ratio_{variant}": spread([each["plain"][what] / each[variant][what] for each in rounds])
            for what in ("cpu_seconds", "peak_megabytes")
            for variant in variants[1:]
        }
        jobs[job] = ratios | {"rounds": rounds}
    print(json.dumps({"schema": "coview.benchmark.alignment/1", "jobs": jobs}, indent=2))


if __name__ == "__main__":
    main()
