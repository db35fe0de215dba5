"""Caption scores against pycocoevalcap's own loops: CPU time and the largest difference.

    python benchmarks/caption_scores.py [--references FILE.jsonl] [--images 5000] [--rounds 3]

Needs pycocoevalcap (pip install --no-deps pycocoevalcap). Prints one JSON document. Every measurement is a
fresh process with one thread, from tokenised captions in memory to CIDEr-D, BLEU and ROUGE-L of the corpus;
processes take turns. `intervals` is what `score_captions` gives by default, with 1,000 resamples; `raw`
starts from captions as written and tokenises them too, without a counterpart: theirs is a Java program.

The captions are descriptions of the tabletop world, five references an image, or those of FILE, rows of
{"id": .., "captions": [..]}: of each image one is the candidate and the others are the references.
At least 5 times faster than pycocoevalcap on 5,000 candidates.
"""

import argparse
import json
import time

import numpy as np
from rounds import interleaved, run_worker, spread

from coview.tabletop import describe, make_scene
from coview.uses.caption_scores import score_captions
from coview.uses.caption_tokens import ptb

VARIANTS = ["coview", "intervals", "raw", "pycocoevalcap"]


def corpus(references: str, images: int) -> tuple[list[str], list[list[str]]]:
    """Candidates and their references, as written."""
    if references:
        with open(references, encoding="utf-8") as stream:
            rows = [json.loads(line)["captions"] for line, _ in zip(stream, range(images), strict=False)]
        rng = np.random.default_rng(0)
        rows = [[row[place] for place in rng.permutation(len(row))] for row in rows]
    else:
        rows = [[describe(make_scene(0, index), draw) for draw in range(6)] for index in range(images)]
    return [row[0] for row in rows], [row[1:] for row in rows]


def work(variant: str, references: str, images: int) -> dict:
    candidates, captions = corpus(references, images)
    if variant != "raw":
        candidates = [" ".join(ptb(text)) for text in candidates]
        captions = [[" ".join(ptb(text)) for text in row] for row in captions]
    start = time.process_time()
    if variant == "pycocoevalcap":
        scores = theirs(candidates, captions)
    else:
        tokens, resamples = "ptb" if variant == "raw" else "split", 1000 if variant == "intervals" else 0
        ours = score_captions(candidates, captions, tokens=tokens, resamples=resamples)
        scores = {"cider_d": ours.cider_d, "bleu": ours.bleu.tolist(), "rouge_l": ours.rouge_l}
    return {"cpu_seconds": time.process_time() - start, "images": len(candidates), "scores": scores}


def theirs(candidates: list[str], captions: list[list[str]]) -> dict:
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    referred = dict(enumerate(captions))
    written = {index: [text] for index, text in enumerate(candidates)}
    scores = {}
    for name, scorer in (("cider_d", Cider()), ("bleu", Bleu(4)), ("rouge_l", Rouge())):
        more = {"verbose": 0} if name == "bleu" else {}
        scores[name] = np.asarray(scorer.compute_score(referred, written, **more)[0]).tolist()
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--references", default="")
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worker", choices=VARIANTS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(work(options.worker, options.references, options.images)))
        return
    arguments = ["--references", options.references, "--images", str(options.images)]
    run_worker(__file__, "coview", arguments)  # fills the caches of the disk
    rounds = interleaved(__file__, VARIANTS, arguments, options.rounds)
    seconds = {name: [one[name]["cpu_seconds"] for one in rounds] for name in VARIANTS}
    ours, their = (rounds[0][name]["scores"] for name in ("coview", "pycocoevalcap"))
    document = {
        "images": rounds[0]["coview"]["images"],
        "captions": options.references or "tabletop",
        "cpu_seconds": {name: spread(values) for name, values in seconds.items()},
        "times_faster": {
            name: spread(
                [slow / fast for slow, fast in zip(seconds["pycocoevalcap"], seconds[name], strict=True)]
            )
            for name in VARIANTS[:-1]
        },
        "largest_difference": max(float(np.abs(np.subtract(ours[name], their[name])).max()) for name in ours),
    }
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
