"""Text encoders joined with an image encoder they never met: search and zero-shot, with pairs and with none.

    python benchmarks/joining_real.py --flickr8k FOLDER --multi30k FOLDER --runs runs/flickr/runs \\
        --caltech FOLDER --imagenet FOLDER [--parts retrieval zeroshot rosetta] > joining.json

The runs are those of `coview study` on Multi30k (docs/results/flickr.md), ARM-sSEED for three arms and three
seeds, and good-256-sSEED with embeddings of 256 dimensions (configs/good-256.yaml); bag of words is fitted on
the same training captions. Prints one JSON document.

retrieval   1,000 test photos and their 5,000 captions against the number of training pairs; a pair is a photo
            with the mean of its captions. Procrustes maps photos to texts, ridge texts to photos: each the
            better way on the val photos; whitened, photos to texts, where there are enough of them. The pairs
            of a smaller number lie in those of a larger one.
zeroshot    a rotation fitted on all training pairs, names of classes in coview's templates
rosetta     no pairs: the protocol of `coview.uses.rosetta` on the training photos and captions, five seeds on
            the first run of each arm, and beside it the rotation from the pairs of the same photos; where the
            verdict is "not identified", also what the map would have given that the search came back with
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from joining_data import ARMS, Pack, TextSide, open_caltech, open_imagenet, open_split, open_text_side

from coview.embeddings import Embeddings
from coview.held_out import HeldOut
from coview.joining.blind import search
from coview.joining.paired import PairedRows, pair_up
from coview.joining.procrustes import fit_rotation, least_pairs
from coview.joining.rotation import Rotation
from coview.joining.sharpening import open_side
from coview.runs import manifest
from coview.uses.retrieval import score_retrieval
from coview.uses.rosetta import Judged, Task, cut, judge, rosetta, scene_means, scene_rows, summary
from coview.uses.zeroshot import class_rows, zero_shot

SIZES = (30, 100, 300, 1000, 5000)
METHODS = ("procrustes", "ridge", "whitened")
FEATURES = ("efficientnet_lite2", "efficientnet_lite0")


def fit(images: np.ndarray, texts: np.ndarray, method: str) -> Rotation:
    """The map in the direction that serves the method better."""
    pair = (texts, images) if method == "ridge" else (images, texts)
    return fit_rotation(*pair, method=method)


def both_sides(rotation: Rotation, images, texts, method: str) -> tuple[np.ndarray, np.ndarray]:
    """Unit rows of images and of texts in the space the map leads to."""
    if method == "ridge":
        return rotation.target(images), rotation.map(texts)
    return rotation.map(images), rotation.target(texts)


def retrieval(side: TextSide, seed: int, train: HeldOut, test: HeldOut) -> Iterator[dict]:
    """One row for each number of pairs and method."""
    means, test_rows = train.means(side.rows(train.texts)), side.rows(test.texts)
    order = np.random.default_rng([seed, 40]).permutation(len(train.images))
    for size in (*SIZES, len(order)):
        drawn = np.sort(order[:size])
        for method in METHODS:
            if size < least_pairs(method, train.images.shape[1], means.shape[1]):
                continue
            rotation = fit(train.images[drawn], means[drawn], method)
            images, texts = both_sides(rotation, test.images, test_rows, method)
            row: dict = {"pairs": size, "method": method}
            for csls in (False, True):
                scored = score_retrieval(images, texts, test.scene, csls=csls, seed=seed)
                for way in ("image_to_text", "text_to_image"):
                    found = getattr(scored, way)
                    row[f"{way}{'_csls' if csls else ''}"] = {
                        **{
                            f"r{k}": [found.recall[k].value, found.recall[k].low, found.recall[k].high]
                            for k in (1, 5, 10)
                        },
                        "median_rank": found.median_rank,
                        "foscttm": found.foscttm.value,
                        "chance_r1": found.chance[1],
                    }
            yield row


def zeroshot(side: TextSide, seed: int, train: HeldOut, pack: Pack) -> Iterator[dict]:
    """One row for each method, with all training pairs."""
    means, texts = train.means(side.rows(train.texts)), side.rows(pack.classes.flat)
    for method in METHODS:
        images, prompts = both_sides(fit(train.images, means, method), pack.images, texts, method)
        prompts = prompts * texts.any(axis=1, keepdims=True)  # unknown words say nothing of a class
        rows = class_rows(prompts, pack.classes.owner)
        yield {"method": method, **zero_shot(images, rows, pack.labels, seed=seed).as_json()}


def without_pairs(side: TextSide, train: HeldOut, pack: Pack, seeds: int) -> dict:
    """The protocol on the training photos; two photos never share a caption, so a scene is its number."""
    scenes = tuple(map(str, range(len(train.images))))
    of_text = tuple(scenes[index] for index in train.scene)
    ids = tuple(f"{scene}#{row}" for row, scene in enumerate(of_text))
    corpus = pair_up(
        Embeddings(train.images, scenes, scenes), Embeddings(side.rows(train.texts), ids, of_text)
    )
    task = Task(pack.images, pack.labels, side.rows(pack.classes.flat), pack.classes.owner)
    trials = rosetta(corpus, task, seeds=range(seeds))
    refused = [refused_map(corpus, task, trial.seed).as_json() for trial in trials if not trial.without_pairs]
    return {**summary(trials), "refused": refused}


def refused_map(corpus: PairedRows, task: Task, seed: int) -> Judged:
    """What a search gives that never says no: the best by its own score, on all rows that may be seen."""
    of_images, of_texts, held = cut(len(corpus), seed)
    x = open_side(scene_rows(corpus.x.matrix, corpus.rows_x[of_images], unit=False)[0])
    y = open_side(*scene_rows(corpus.y.matrix, corpus.rows_y[of_texts], unit=True))
    matrix = search(x.at(0), y.at(0), np.random.default_rng([seed, 41]))
    return judge(Rotation(matrix, x.mean, y.mean, {}), scene_means(corpus, held), task, seed)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--flickr8k", required=True)
    parser.add_argument("--multi30k", required=True)
    parser.add_argument("--runs", required=True, type=Path)
    parser.add_argument("--caltech", required=True, type=Path)
    parser.add_argument("--imagenet", required=True, type=Path)
    parser.add_argument("--cache", default=Path("runs/joining"), type=Path)
    parser.add_argument("--parts", nargs="*", default=["retrieval", "zeroshot", "rosetta"])
    parser.add_argument("--seeds", type=int, default=3, help="runs of each arm")
    parser.add_argument("--protocol-seeds", type=int, default=5)
    parser.add_argument("--arms", nargs="*", default=list(ARMS), choices=ARMS)
    given = parser.parse_args()
    started = time.process_time()
    splits = {
        (features, split): open_split(given.flickr8k, features, split, given.cache)
        for features in FEATURES
        for split in ("train", "val", "test")
    }
    packs = {("caltech100", features): open_caltech(given.caltech, features) for features in FEATURES} | {
        ("imagenet", FEATURES[1]): open_imagenet(given.imagenet, FEATURES[1])
    }
    result: dict = {"layers": {}, **{part: [] for part in given.parts}}
    for seed in range(given.seeds):
        for arm in given.arms:
            val = splits[FEATURES[0], "val"]
            side = open_text_side(arm, seed, given.runs, f"{given.multi30k},lang=en", val, given.cache)
            result["layers"][f"{arm}-s{seed}"] = side.layer
            facts = {"arm": arm, "seed": seed}
            if "retrieval" in given.parts:
                train, test = (splits[FEATURES[0], split] for split in ("train", "test"))
                result["retrieval"] += [facts | row for row in retrieval(side, seed, train, test)]
            if "zeroshot" in given.parts:
                for (name, features), pack in packs.items():
                    named = facts | {"pack": name, "images": features}
                    rows = zeroshot(side, seed, splits[features, "train"], pack)
                    result["zeroshot"] += [row | named for row in rows]
            if "rosetta" in given.parts and seed == 0:
                for name, features in (("caltech100", FEATURES[0]), ("imagenet", FEATURES[1])):
                    named = facts | {"pack": name, "images": features}
                    train, pack = splits[features, "train"], packs[name, features]
                    found = without_pairs(side, train, pack, given.protocol_seeds)
                    result["rosetta"].append(named | found)
            spent = time.process_time() - started
            print(f"{arm}, seed {seed}: {spent:,.0f} CPU-s", file=sys.stderr, flush=True)
    result["cpu_seconds"] = round(time.process_time() - started)
    print(json.dumps({**result, "versions": manifest()["versions"]}))


if __name__ == "__main__":
    main()
