"""The demo's captions: paintings described by a decoder that only ever read descriptions.

The painted world knows the truth, so what a caption claims is counted as true or false, beside the nearest
training description, and beside captions of other paintings, which say what guessing is worth.
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from coview.config import CaptionConfig
from coview.embeddings import Embeddings, load_embeddings
from coview.encoders import load_encoder
from coview.encoders.embed import embed
from coview.encoders.trained import load_text_encoder
from coview.joining.procrustes import fit_rotation
from coview.runs import write_json
from coview.tabletop import TabletopSource
from coview.tabletop.claims import tally_claims
from coview.tabletop.scene import TableScene
from coview.training.caption_task import open_texts, read_texts, train_captioner
from coview.training.train import is_finished, shell_command, token_cache
from coview.uses.baselines import nearest_captions, shuffled_captions
from coview.uses.captioner import Captioner, load_captioner, prepared
from coview.uses.contact_sheet import contact_sheet
from coview.uses.generation import Search
from coview.uses.image_captions import Memory, captions_of

SCENES = 4_000  # of which four in five are read, and painted once for the rotation
CAPTIONED = 300  # test scenes
SAMPLES, NUCLEUS = 4, 0.9  # texts that are drawn for each of them, and how
SHOWN = 16
CONFIG = CaptionConfig(
    size="xs",
    steps=400,
    batch=64,
    learning_rate=3e-3,
    warmup=20,
    precision="fp32",  # at this size bfloat16 is slower
    checkpoint_every=400,
)


def caption_paintings(
    world: TabletopSource,
    text_run: Path,
    image_run: Path,
    out: Path,
    *,
    config: CaptionConfig = CONFIG,
    scenes: int = SCENES,
    say: Callable[[str], None] = lambda line: None,
) -> dict:
    """Train a decoder on descriptions, caption held-out paintings, and count what is true.

    Parameters
    ----------
    text_run, image_run : finished runs of encoders of this world
    out : folder of the captioner; gets ``captions.png`` and ``captions.json`` too
    scenes : how much of the world is read; its scenes are the first ones of `world`

    Returns
    -------
    dict, JSON-able: ``claims`` has, for each captioner and kind of claim, how many were told and true, and
    a 95 % interval of the share of true ones.
    """
    # The decoder reads describers who say all they know in plain words: it is to learn facts, not manners.
    plain = replace(world.nuisance, style=0.0, told=1.0)
    part = TabletopSource(world.seed, min(scenes, world.size), world.texts, plain)
    encoder, reader = load_encoder(f"run:{image_run}", modality="image"), load_text_encoder(text_run)
    say("captions: reading descriptions and training the decoder")
    if not ((out / "config.json").is_file() and is_finished(out, config)):
        write_json(out / "config.json", config.as_json())
        data = read_texts(part, reader, open_texts(part, reader, token_cache()), out)
        train_captioner(config, data, out, encoder=reader.name, device="auto", resume=shell_command())
    captioner = load_captioner(out)
    memory = Memory.of(captioner)
    say("captions: fitting the rotation from paintings to descriptions, and writing")
    painted = load_embeddings(embed(part, encoder, out / "paintings.safetensors", split="train").path)
    descriptions, _ = captioner.memory()
    rotation = fit_rotation(np.asarray(painted.matrix), scene_means(descriptions), method="ridge")
    test = [scene for _, scene in zip(range(CAPTIONED), world.scenes("test"), strict=False)]
    truth = [world.scene(world.index_of(scene)) for scene in test]
    rows = rotation.map(encoder.encode(world.open_image(scene) for scene in test))
    described = prepared(reader.encode([scene.texts[0] for scene in test]), captioner.mean)
    # The likeliest text hardly ever tells a relation, though two descriptions in five do; samples often do.
    searches = [Search(), *(Search(nucleus=NUCLEUS, seed=draw) for draw in range(SAMPLES))]
    captions, *samples = (write_once(captioner, rows, search) for search in searches)
    retold, *samples_retold = (write_once(captioner, described, search) for search in searches)
    said = {
        "decoder, from the painting": [captions],
        "decoder, from a description": [retold],
        "sampled, from the painting": samples,
        "sampled, from a description": samples_retold,
        "nearest description it read": [nearest_captions(rows, memory.rows, memory.texts)],
        "captions of other paintings": [shuffled_captions(captions)],
        "samples of other paintings": [shuffled_captions(texts) for texts in samples],
    }
    contact_sheet((world.open_image(scene) for scene in test[:SHOWN]), captions[:SHOWN], out / "captions.png")
    result = {
        "claims": {name: count_claims(rounds, truth) for name, rounds in said.items()},
        "paintings": len(test),
        "pairs": len(painted.matrix),
        "captions": captions[:SHOWN],
    }
    write_json(out / "captions.json", result)
    return result


def write_once(captioner: Captioner, rows: np.ndarray, search: Search) -> list[str]:
    """One text for each row."""
    return [texts[0] for texts in captions_of(captioner, rows, search)]


def count_claims(rounds: list[list[str]], truth: list[TableScene]) -> dict:
    """What is told and true, by kind of claim, in captions of these scenes, one of each in every round."""
    tallies = tally_claims([text for texts in rounds for text in texts], truth * len(rounds))
    return {kind: asdict(tally) for kind, tally in tallies.items()}


def scene_means(texts: Embeddings) -> np.ndarray:
    """The mean row of each scene's texts (S, D), scenes in the order they come."""
    _, starts = np.unique(np.array(texts.scenes), return_index=True)
    starts.sort()
    counts = np.diff([*starts, len(texts.matrix)])
    sums = np.add.reduceat(np.asarray(texts.matrix, dtype=np.float64), starts)
    return (sums / counts[:, None]).astype(np.float32)
