"""Maps fitted on pairs and applied to files: CPU time of a fit, speed and memory of an application.

    python benchmarks/joining.py [--rounds 3] [--rows 100000] [--width 768]

Prints one JSON document. Every measurement is a fresh process with one thread; variants take turns.

procrustes, whitened, ridge   a fit on memory-mapped files, from file to rotation: under 10 CPU-seconds
apply                         file to file, with the memory a process may write to limited to LIMIT
plain                         the least any application does: the same file times a matrix, block by block
copy                          the file copied block by block, which is what the disk and the page cache give
"""

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rounds import interleaved, spread

FITS = ("procrustes", "whitened", "ridge")
FILES = ("apply", "plain", "copy")
LIMIT = 384 * 2**20
BLOCK = 4096


def write_spaces(folder: Path, rows: int, width: int) -> None:
    """Two files of paired rows: one latent, turned, with noise."""
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(width, width)))[0].astype(np.float32)
    files = [
        np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=np.float32, shape=(rows, width))
        for name in "xy"
    ]
    for start in range(0, rows, BLOCK):
        rng = np.random.default_rng([1, start])
        latent = rng.standard_normal((min(BLOCK, rows - start), width), dtype=np.float32)
        noise = rng.standard_normal(latent.shape, dtype=np.float32)
        files[0][start : start + BLOCK] = latent
        files[1][start : start + BLOCK] = latent @ turn + 0.5 * noise + 1


def run(variant: str, folder: Path) -> dict:
    from coview.embeddings import load_embeddings
    from coview.joining.apply import apply_rotation
    from coview.joining.procrustes import fit_rotation
    from coview.joining.rotation import load_rotation, save_rotation

    x = folder / "x.npy"
    size = x.stat().st_size
    if variant in FITS:
        start = time.process_time()
        sides = [load_embeddings(folder / f"{name}.npy").matrix for name in "xy"]
        rotation = fit_rotation(*sides, method=variant)
        seconds = time.process_time() - start
        save_rotation(folder / f"{variant}.safetensors", rotation)
        return {"cpu_seconds": seconds, "signature": rotation.manifest["signature"]}
    rotation = load_rotation(folder / "procrustes.safetensors")
    if sys.platform == "linux" and variant == "apply":
        resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
    clock, start = time.perf_counter(), time.process_time()
    if variant == "apply":
        apply_rotation(rotation, x, folder / "out.npy")
    else:
        source = np.load(x, mmap_mode="r")
        with open(folder / "out.npy", "wb") as stream:
            for first in range(0, len(source), BLOCK):
                block = source[first : first + BLOCK]
                stream.write((block @ rotation.matrix if variant == "plain" else np.array(block)).data)
    seconds, wall = time.process_time() - start, time.perf_counter() - clock
    return {"cpu_seconds": seconds, "wall_seconds": wall, "megabytes_per_cpu_second": size / 2**20 / seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--worker", choices=[*FITS, *FILES], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(run(options.worker, options.folder)))
        return
    with tempfile.TemporaryDirectory() as folder:
        write_spaces(Path(folder), options.rows, options.width)
        rounds = interleaved(__file__, [*FITS], ["--folder", folder], options.rounds)
        files = interleaved(__file__, [*FILES], ["--folder", folder], options.rounds)
    document = {
        "schema": "coview.benchmark.joining/1",
        "rows": options.rows,
        "width": options.width,
        "megabytes": options.rows * options.width * 4 / 2**20,
        "memory_limit_megabytes": LIMIT / 2**20,
        "fit_cpu_seconds": {name: spread([one[name]["cpu_seconds"] for one in rounds]) for name in FITS},
        "apply_cpu_ratio_to": {
            name: spread([one["apply"]["cpu_seconds"] / one[name]["cpu_seconds"] for one in files])
            for name in ("plain", "copy")
        },
        "rounds": rounds,
        "files": files,
    }
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
