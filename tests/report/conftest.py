"""A study's result as `coview.study` gives it: plausible numbers, nothing trained."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

SEEDS = [0, 1, 2]
SIGNATURE = "mutual_knn|k:10|n:1000|sim:cosine|recipe:center|layers:only(1x1)|ties:index|rows:by-order|v:0.1"
LEVELS = {  # mutual k-NN, of mean captions, scene-explained fraction, retrieval: where each arm ends
    "good": (0.1263, 0.1810, 0.804, 0.462, "layer 4"),
    "bad": (0.0781, 0.1122, 0.655, 0.301, "layer 2"),
    "next-token": (0.0602, 0.0934, 0.608, 0.244, "layer 3"),
}
TEXTS = [
    [
        "a small red cone left of a striped cube",
        "Two things: cone, cube.",
        "Beside the cube leans a little cone.",
    ],
    ["three green spheres in evening light", "spheres, green, 3", "A trio of emerald balls glows at dusk."],
    ["a big glass ring on a wooden box", "ring on box", "Someone has set a large clear hoop on the crate."],
    ["one blue star, dim light", "star", "In the half dark there is a star, and it is blue."],
]


def make_result(seeds: list[int] = SEEDS) -> dict:
    dice = np.random.default_rng([7, 1])

    def around(level: float, spread: float) -> list[float]:
        return [round(float(level + spread * dice.standard_normal()), 5) for _ in seeds]

    arms = {}
    for name, (level, mean_caption, explained, recall, layer) in LEVELS.items():
        scenes = [0, *(int(51_200 / 2**halvings) for halvings in range(5, -1, -1))]
        score = around(level, 0.0021)
        fraction = around(explained, 0.006)
        arms[name] = {
            "mutual_knn": score,
            "mutual_knn_stderr": [round(0.0029 + 0.0001 * i, 5) for i in range(len(seeds))],
            "z": [round((value - 0.01) / 0.001, 2) for value in score],
            "mutual_knn_mean_caption": around(mean_caption, 0.003),
            "scene_explained_fraction": fraction,
            "scene_explained_interval": [[round(f - 0.011, 5), round(f + 0.011, 5)] for f in fraction],
            "retrieval_r1": around(recall, 0.01),
            "seconds": around(58.0, 2.0),
            "layer": [layer] * len(seeds),
            "parameters": 1_843_200,
            "tokens": [2_251_776 + 1_000 * seed for seed in seeds],
            "curve": [
                [[seen, round(0.031 + (end - 0.031) * (i / 6) ** 0.8 + 0.001 * float(dice.random()), 5)]
                 for i, seen in enumerate(scenes)]
                for end in score
            ],
            "first_seed_run": f"runs/demo/runs/{name}-s0",
            "signature": [SIGNATURE] * len(seeds),
        }  # fmt: skip
    none = {"mutual_knn_stderr": None, "mutual_knn_mean_caption": None, "retrieval_r1": None}
    return {
        "title": "One world, two modalities",
        "source": "tabletop:seed=0,scenes=10000,texts=5",
        "images": "image encoder of paintings (LeJEPA, two paintings of one scene)",
        "n": 1000,
        "k": 10,
        "chance": 10 / 999,
        "recipe": "center",
        "signature": SIGNATURE,
        "seeds": list(seeds),
        "arms": arms,
        "controls": {
            "untrained encoder": _control(0.0334, 0.0016, 0.0410, 0.212, 0.066),
            "bag of words": _control(0.0711, 0.0022, 0.1050, 0.287, 0.210),
            "shuffled pairs": _control(0.0097, 0.0009, 0.0104, 0.002, 0.001),
            "noise": {"mutual_knn": 0.0102, "scene_explained_fraction": None, **none},
        },
        "differences": {
            f"good - {other}": {
                key: _difference(arms["good"][key], arms[other][key])
                for key in ("mutual_knn", "scene_explained_fraction")
            }
            for other in ("bad", "next-token")
        },
        "image_encoder": {"seconds": 121.4, "scene_explained_fraction": 0.88},
        "examples": {"images": [painting(i) for i in range(len(TEXTS))], "texts": TEXTS},
        "manifest": {
            "made": "2026-11-30T22:40:00Z",
            "command": ["coview", "demo", "--out", "runs/my demo"],
            "versions": {"python": "3.11.14", "coview": "0.1.0", "numpy": "2.4.6", "torch": "2.13.0"},
            "kind": "study",
            "data": {"source": "tabletop:seed=0,scenes=10000,texts=5", "content": "2f61c09b11aa77e0"},
        },
        "next": "coview study YOUR_PHOTOS --images lite2:",
        "seconds": 541.2,
    }


def painting(index: int) -> str:
    """A small picture as a PNG data URI."""
    ramp = np.linspace(40, 220, 64, dtype=np.uint8)
    pixels = np.stack(
        [np.tile(ramp, (64, 1)), np.tile(ramp[:, None], (1, 64)), np.full((64, 64), 60 * index)], 2
    )
    buffer = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(buffer, format="PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def _control(score: float, stderr: float, mean_caption: float, explained: float, recall: float) -> dict:
    return {
        "mutual_knn": score,
        "mutual_knn_stderr": stderr,
        "mutual_knn_mean_caption": mean_caption,
        "z": (score - 0.01) / 0.001,
        "scene_explained_fraction": explained,
        "scene_explained_interval": [explained - 0.01, explained + 0.01],
        "retrieval_r1": recall,
        "signature": SIGNATURE,
    }


def _difference(first: list[float], second: list[float]) -> dict:
    by_seed = np.subtract(first, second)
    half = 4.303 * by_seed.std(ddof=1) / np.sqrt(len(by_seed)) if len(by_seed) > 1 else np.nan
    mean = float(by_seed.mean())
    return {"mean": mean, "low": mean - half, "high": mean + half, "by_seed": by_seed.tolist()}


@pytest.fixture
def result() -> dict:
    """Three seeds, good ahead in all of them."""
    return make_result()


@pytest.fixture
def result_of():
    """A result of the seeds asked for."""
    return make_result
