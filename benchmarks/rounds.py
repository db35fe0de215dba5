"""Interleaved rounds: every variant once a round, each in a fresh process, so that load hits all alike."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path


def interleaved(script: str, variants: list[str], arguments: list[str], rounds: int) -> list[dict[str, dict]]:
    """Run `script --worker VARIANT arguments` for each variant in each round; a worker prints one JSON line.

    Returns
    -------
    list over rounds of {variant: its document}
    """
    results = []
    for number in range(rounds):
        order = variants if number % 2 == 0 else variants[::-1]
        results.append({variant: run_worker(script, variant, arguments) for variant in order})
        print(f"round {number + 1} of {rounds} done", file=sys.stderr, flush=True)
    return results


def run_worker(script: str, variant: str, arguments: list[str]) -> dict:
    """One fresh process with one thread; its last line of output is its JSON document."""
    source = str(Path(__file__).resolve().parents[1] / "src")
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": source,
        "TOKENIZERS_PARALLELISM": "false",
    }
    command = [sys.executable, script, "--worker", variant, *arguments]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(done.returncode)  # the worker has said why on stderr
    return json.loads(done.stdout.strip().splitlines()[-1])


def forget_peak_memory() -> None:
    """Reset the process's peak to what it holds now, where the system can (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        print("peak memory includes start-up: this system cannot reset it", file=sys.stderr)


def peak_megabytes() -> float:
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def spread(values: list[float]) -> dict[str, float]:
    """Median and range, for ratios of paired rounds."""
    ordered = sorted(values)
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    return {"median": middle, "lowest": ordered[0], "highest": ordered[-1]}
