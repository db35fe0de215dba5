"""The demo's captions: paintings described by a decoder that only ever read descriptions.

The painted world knows the truth, so what a caption claims is counted as true or false, beside the nearest
training description, and beside captions of other paintings, which say what guessing is worth.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from coview.config import CaptionConfig
from coview.embeddings import Embeddings, load_embeddings
from coview.encoders import load_encoder
from coview.encoders.embed import embed
from coview.joining.procrustes import fit_rotation
from coview.runs import write_json
from coview.tabletop import TabletopSource
from coview.tabletop.claims import Tally, tally_claims
from coview.training.caption_task import read_texts, train_captioner
from coview.training.train import is_finished, shell_command, token_cache
from coview.uses.baselines import nearest_captions, shuffled_captions
from coview.uses.captioner import load_captioner
from coview.uses.contact_sheet import contact_sheet
from coview.uses.generation import Search
from coview.uses.image_captions import Memory, captions_of

SCENES = 4_000  # of which four in five are read, and painted once for the rotation
CAPTIONED = 300  # test scenes
SHOWN = 16
KINDS = ("shape", "colour_shape", "relation")  # what is shown; the JSON has all
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
    dict, JSON-able: ``claims`` has, for each captioner and kind of claim, how many were told and true.
    """
    part = TabletopSource(seed=world.seed, scenes=min(scenes, world.size), texts=world.texts)
    encoder = load_encoder(f"run:{image_run}", modality="image")
    say("captions: reading descriptions and training the decoder")
    if not ((out / "config.json").is_file() and is_finished(out, config)):
        write_json(out / "config.json", config.as_json())
        data = read_texts(part, text_run, out, token_cache())
        name = f"run:{text_run}"
        train_captioner(config, data, out, encoder=name, device="auto", resume=shell_command())
    captioner = load_captioner(out)
    memory = Memory.of(captioner)
    say("captions: fitting the rotation from paintings to descriptions, and writing")
    painted = load_embeddings(embed(part, encoder, out / "paintings.safetensors", split="train").path)
    descriptions, _ = captioner.memory()
    rotation = fit_rotation(np.asarray(painted.matrix), scene_means(descriptions), method="ridge")
    test = [scene for _, scene in zip(range(CAPTIONED), world.scenes("test"), strict=False)]
    truth = [world.scene(world.index_of(scene)) for scene in test]
    rows = rotation.map(encoder.encode(world.open_image(scene) for scene in test))
    captions = [texts[0] for texts in captions_of(captioner, rows, Search())]
    said = {
        "decoder": captions,
        "nearest training description": nearest_captions(rows, memory.rows, memory.texts),
        "captions of other paintings": shuffled_captions(captions),
        "the scene's own first description": [scene.texts[0] for scene in test],
    }
    contact_sheet((world.open_image(scene) for scene in test[:SHOWN]), captions[:SHOWN], out / "captions.png")
    result = {
        "claims": {
            name: {kind: asdict(tally) for kind, tally in tally_claims(texts, truth).items()}
            for name, texts in said.items()
        },
        "paintings": len(test),
        "pairs": len(painted.matrix),
        "captions": captions[:SHOWN],
    }
    write_json(out / "captions.json", result)
    return result


def scene_means(texts: Embeddings) -> np.ndarray:
    """The mean row of each scene's texts (S, D), scenes in the order they come."""
    _, starts = np.unique(np.array(texts.scenes), return_index=True)
    starts.sort()
    counts = np.diff([*starts, len(texts.matrix)])
    sums = np.add.reduceat(np.asarray(texts.matrix, dtype=np.float64), starts)
    return (sums / counts[:, None]).astype(np.float32)


def claims_table(result: dict, kinds: Sequence[str] = KINDS) -> str:
    """True claims of all that were told, for people: plain text, no newline at the end."""
    names = {"colour_shape": "colour"}
    lines = [
        f"captions of {result['paintings']} held-out paintings: true claims of all that were told",
        f"{'':<36}" + "".join(f"{names.get(kind, kind):<18}" for kind in kinds).rstrip(),
    ]
    for name, claims in result["claims"].items():
        lines.append(f"{name:<36}" + "".join(f"{share(claims[kind]):<18}" for kind in kinds).rstrip())
    return "\n".join(lines)


def share(claims: dict) -> str:
    """``.71 (213/300)``, a dash where nothing was told."""
    tally = Tally(**claims)
    return "-" if tally.accuracy is None else f"{tally.accuracy:.2f} ({tally.true}/{tally.told})"
