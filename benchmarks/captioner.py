"""Captions of photos by a decoder of texts that never saw an image, and what stands beside it.

    coview caption train multi30k,lang=en --run TEXT_RUN --out CAPTIONER
    python benchmarks/captioner.py --flickr8k flickr8k --multi30k multi30k,lang=en --run TEXT_RUN \\
        --captioner CAPTIONER [--blind ROTATION] [--pairs-steps 800] --cache DIR

TEXT_RUN is a text encoder of `coview train`, CAPTIONER the decoder trained on its rows, ``flickr8k`` a
folder of photos with features ``features_NAME.npy`` and their names ``index.txt``. Everything that is chosen
(kind of map, temperature of the memory) is chosen on the val photos by CIDEr-D. Prints one JSON document:

- ``text_to_text``: a caption of each test scene, drawn by seed, goes in as an embedding; what comes out is
  scored against the scene's other captions. ``human`` is the caption itself.
- ``photos``: features, rotation, decoder; scored against all captions of the photo. ``ROTATION`` is one that
  was fitted without pairs (``coview rotate fit --pairs none``).
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from coview.config import CaptionConfig
from coview.data.readers import open_source
from coview.data.tokens import build_store
from coview.embeddings import Embeddings, load_embeddings
from coview.encoders.embed import embed
from coview.encoders.precomputed import pick_rows
from coview.encoders.trained import TrainedTextEncoder, load_text_encoder
from coview.errors import CoviewError
from coview.joining.procrustes import fit_rotation
from coview.joining.rotation import Rotation, load_rotation
from coview.training.caption_task import CaptionData, train_captioner
from coview.training.train import is_finished
from coview.uses.caption_scores import CaptionScores, score_captions
from coview.uses.captioner import Captioner, load_captioner, prepared
from coview.uses.generation import Search
from coview.uses.image_captions import Memory, captions_of, nearest_first, scores_beside_baselines

TEMPERATURES = (None, 0.02, 0.05)
KINDS = ("procrustes", "ridge")
FEW = 300  # pairs


@dataclass(frozen=True)
class Photos:
    """One split: features (N, D) of the photos, their captions, and the captions' rows (5 N, E), in order."""

    features: np.ndarray
    captions: list[tuple[str, ...]]
    rows: Embeddings

    @property
    def starts(self) -> np.ndarray:
        """Which row of `rows` each photo's captions begin with, (N + 1,)."""
        return np.concatenate([[0], np.cumsum([len(texts) for texts in self.captions])])

    def means(self) -> np.ndarray:
        """The mean row of each photo's captions, (N, E)."""
        sums = np.add.reduceat(np.asarray(self.rows.matrix, np.float64), self.starts[:-1])
        return (sums / np.diff(self.starts)[:, None]).astype(np.float32)


def open_photos(options: argparse.Namespace, split: str, encoder) -> Photos:
    folder, cache = Path(options.flickr8k), Path(options.cache)
    source = open_source(options.flickr8k)
    features, names = folder / f"features_{options.features}.npy", folder / "index.txt"
    target = cache / f"{options.features}-{split}.safetensors"
    picked = load_embeddings(pick_rows(source, features, target, names=names, split=split).path)
    rows = embed(source, encoder, cache / f"captions-{split}.safetensors", split=split)
    scenes = list(source.scenes(split))
    place = {scene: row for row, scene in enumerate(picked.scenes or picked.ids or ())}
    order = [place[scene.id] for scene in scenes]
    matrix = np.asarray(picked.matrix, np.float32)[order]
    return Photos(matrix, [scene.texts for scene in scenes], load_embeddings(rows.path))


def text_to_text(
    captioner: Captioner,
    encoder: TrainedTextEncoder,
    memory: Memory,
    captions: Sequence[tuple[str, ...]],
    rows: np.ndarray,
    seed: int,
) -> dict:
    """One caption of each scene in; scored against the others. `rows` are those of all captions, in order."""
    rng = np.random.default_rng([seed, 31])
    starts = np.concatenate([[0], np.cumsum([len(texts) for texts in captions])[:-1]])
    slots = np.array([rng.integers(len(texts)) for texts in captions])
    given = prepared(rows[starts + slots], captioner.mean)
    human = [texts[slot] for texts, slot in zip(captions, slots, strict=True)]
    others = [
        [text for place, text in enumerate(texts) if place != slot]
        for texts, slot in zip(captions, slots, strict=True)
    ]
    started = time.process_time()
    written = firsts(captions_of(captioner, given, Search()))
    seconds = time.process_time() - started
    scores = {"human": score_captions(human, others, seed=seed)}
    scores |= scores_beside_baselines(written, given, memory, others, seed=seed)
    greedy = firsts(captions_of(captioner, given, Search(beam=1)))
    scores["decoder, greedy"] = score_captions(greedy, others, seed=seed)
    reranked = firsts(
        nearest_first(captioner, encoder, given, captions_of(captioner, given, Search(), count=8))
    )
    scores["decoder, reranked"] = score_captions(reranked, others, seed=seed)
    return {name: brief(score) for name, score in scores.items()} | {
        "cpu_seconds_of_beam_4": round(seconds, 1),
        "captions": len(written),
        "distinct_captions": len(set(written)),
        "mean_words": float(np.mean([len(text.split()) for text in written])),
        "mean_words_human": float(np.mean([len(text.split()) for text in human])),
    }


def noted(name: str, part: dict) -> dict:
    """A part of the result, shown on stderr as soon as it is there."""
    scores = {
        key: value["cider_d"] for key, value in part.items() if isinstance(value, dict) and "cider_d" in value
    }
    print(
        json.dumps({name: scores or part, "cpu_seconds": round(time.process_time())}),
        file=sys.stderr,
        flush=True,
    )
    return part


def firsts(captions: list[list[str]]) -> list[str]:
    return [texts[0] for texts in captions]


def brief(scores: CaptionScores) -> dict:
    """What is reported of one set of captions."""
    return {
        "cider_d": scores.cider_d,
        "interval": scores.intervals["cider_d"].tolist(),
        "bleu_4": float(scores.bleu[3]),
        "rouge_l": scores.rouge_l,
        "images": len(scores.cider_d_each),
        "references": list(scores.references),
    }


def choose(
    captioner: Captioner, memory: Memory, maps: dict[str, Rotation], val: Photos
) -> tuple[str, float | None, dict[str, float]]:
    """Kind of map and temperature with the highest CIDEr-D on the val photos, and all of them."""
    tried = {}
    for kind, rotation in maps.items():
        for temperature in TEMPERATURES:
            rows = rotation.map(val.features)
            texts = captions_of(captioner, rows, Search(), memory=memory, temperature=temperature)
            score = score_captions(firsts(texts), val.captions, resamples=0)
            tried[kind, temperature] = score.cider_d
    kind, temperature = max(tried, key=lambda key: tried[key])
    return kind, temperature, {f"{kind}, memory {t or 'none'}": value for (kind, t), value in tried.items()}


def read_photos(
    captioner: Captioner,
    encoder: TrainedTextEncoder,
    memory: Memory,
    rotation: Rotation,
    temperature: float | None,
    test: Photos,
    seed: int,
) -> dict:
    """Captions of the test photos by one map, beside the baselines that the same map gives."""
    rows = rotation.map(test.features)
    found = captions_of(captioner, rows, Search(), memory=memory, temperature=temperature, count=8)
    written = firsts(captions_of(captioner, rows, Search(), memory=memory, temperature=temperature))
    scores = scores_beside_baselines(written, rows, memory, test.captions, seed=seed)
    reranked = firsts(nearest_first(captioner, encoder, rows, found))
    scores["decoder, reranked"] = score_captions(reranked, test.captions, seed=seed)
    return {name: brief(score) for name, score in scores.items()} | {
        "memory": temperature,
        "distinct_captions": len(set(written)),
        "examples": written[:16],
    }


def decoder_on_pairs(options: argparse.Namespace, captioner: Captioner, train: Photos, test: Photos) -> dict:
    """What pairs are worth: the same decoder trained from the features of the photos, and nothing else."""
    cache = Path(options.cache)
    store = build_store(
        open_source(options.flickr8k),
        cache / "tokens",
        tokenizer=captioner.tokenizer,
        max_length=captioner.decoder.longest,
    )
    starts = np.arange(len(train.features) + 1)
    data = CaptionData.of(train.features, starts, store, f"{options.features} of the pack")
    out = cache / "decoder-on-pairs"
    config = CaptionConfig(steps=options.pairs_steps, warmup=100)
    started = time.process_time()
    if not ((out / "config.json").is_file() and is_finished(out, config)):
        train_captioner(config, data, out, encoder=options.features, device="cpu", resume="the same command")
    seconds = time.process_time() - started
    reader = load_captioner(out)
    texts = captions_of(reader, prepared(test.features, reader.mean), Search())
    score = score_captions(firsts(texts), test.captions)
    return brief(score) | {"pairs": len(train.features), "steps": config.steps, "cpu_seconds": round(seconds)}


def run(options: argparse.Namespace) -> dict:
    seed = options.seed
    cache = Path(options.cache)
    encoder, captioner = load_text_encoder(options.run), load_captioner(options.captioner)
    memory = Memory.of(captioner)
    train, val, test = (open_photos(options, split, encoder) for split in ("train", "val", "test"))
    multi30k = open_source(options.multi30k)
    rows = load_embeddings(
        embed(multi30k, encoder, cache / "multi30k-test.safetensors", split="test").path
    ).matrix
    names = [scene.texts for scene in multi30k.scenes("test")]
    result: dict = {
        "schema": "coview.benchmark.captioner/1",
        "seed": seed,
        "captioner": captioner.facts,
        "text_to_text": {
            "flickr8k test": noted(
                "flickr8k test",
                text_to_text(captioner, encoder, memory, test.captions, test.rows.matrix, seed),
            ),
            "multi30k test": noted(
                "multi30k test", text_to_text(captioner, encoder, memory, names, rows, seed)
            ),
        },
    }
    means, photos = train.means(), {}
    maps = {kind: fit_rotation(train.features, means, method=kind) for kind in KINDS}
    kind, temperature, tried = choose(captioner, memory, maps, val)
    photos["all pairs"] = noted(
        "all pairs",
        {"pairs": len(means), "kind": kind, "val": tried}
        | read_photos(captioner, encoder, memory, maps[kind], temperature, test, seed),
    )
    photos["300 pairs"] = []
    for draw in range(options.draws):
        chosen = np.random.default_rng([seed, draw, 32]).permutation(len(means))[:FEW]
        maps = {kind: fit_rotation(train.features[chosen], means[chosen], method=kind) for kind in KINDS}
        if not draw:
            kind, temperature, tried = choose(captioner, memory, maps, val)
        read = read_photos(captioner, encoder, memory, maps[kind], temperature, test, seed)
        photos["300 pairs"].append(noted("300 pairs", {"pairs": FEW, "kind": kind, "val": tried} | read))
    if options.blind:
        blind = load_rotation(options.blind)
        _, temperature, tried = choose(captioner, memory, {"blind": blind}, val)
        read = read_photos(captioner, encoder, memory, blind, temperature, test, seed)
        photos["no pairs"] = noted("no pairs", {"pairs": 0, "val": tried, "fit": blind.manifest} | read)
    if options.pairs_steps:
        photos["decoder on pairs"] = noted(
            "decoder on pairs", decoder_on_pairs(options, captioner, train, test)
        )
    return result | {"photos": photos, "cpu_seconds": round(time.process_time())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--flickr8k", required=True)
    parser.add_argument("--multi30k", required=True, metavar="SRC")
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--captioner", type=Path, required=True)
    parser.add_argument("--features", default="efficientnet_lite2")
    parser.add_argument("--blind", type=Path)
    parser.add_argument("--pairs-steps", type=int, default=800, help="0 leaves this baseline out")
    parser.add_argument("--draws", type=int, default=3, help="of the 300 pairs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cache", default="cache/captioner")
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        print(json.dumps(run(options), indent=2, ensure_ascii=False))
    except CoviewError as error:
        print(error, file=sys.stderr)
        raise SystemExit(error.exit_code) from None


if __name__ == "__main__":
    main()
