"""The whole story on the embedded world: three text arms, an image encoder that never met them, one table."""

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from coview.config import TrainConfig
from coview.demo_captions import caption_paintings
from coview.embeddings import load_embeddings
from coview.encoders import load_encoder
from coview.encoders.embed import embed
from coview.held_out import HeldOut
from coview.study import Study, bag_of_words, run_study
from coview.tabletop import TabletopSource
from coview.training.image_task import build_images
from coview.training.train import is_finished, open_store, shell_command, token_cache, train_image

EXAMPLES = 9  # scenes shown in the report, in rows of three


@dataclass(frozen=True)
class DemoSize:
    """How much of everything; the science is the same, the noise is not."""

    scenes: int
    text_steps: int
    text_batch: int
    image_steps: int
    image_weight: float  # of SIGReg; few steps need a stronger pull
    probes: int
    image_batch: int = 96
    captions: bool = False  # they take a minute


FULL = DemoSize(
    scenes=10_000,
    text_steps=250,
    text_batch=64,
    image_steps=400,
    image_weight=0.05,
    probes=5,
    captions=True,
)
QUICK = DemoSize(scenes=3_000, text_steps=75, text_batch=32, image_steps=50, image_weight=0.1, probes=2)


def run_demo(
    out: Path, *, seeds: tuple[int, ...], size: DemoSize, say: Callable[[str], None] = lambda line: None
) -> dict:
    """Make the world, train the image encoder and the text arms, measure; the result of `run_study`."""
    world = TabletopSource(seed=0, scenes=size.scenes)
    arms: dict[str, TrainConfig] = {
        views: TrainConfig(
            views=views,
            size="xs",
            output=64,
            steps=size.text_steps,
            batch=size.text_batch,
            learning_rate=3e-3,
            warmup=20,
            vocabulary=4000,
            checkpoint_every=size.text_steps,
        )
        for views in ("good", "bad", "next-token")
    }
    images = train_painter(world, out / "image", size, say)
    held_out = {}
    for split in ("val", "test"):
        rows = embed(
            world, load_encoder(f"run:{out / 'image'}"), out / f"image-{split}.safetensors", split=split
        )
        held_out[split] = HeldOut.of(world, split, load_embeddings(rows.path))
    store = open_store(world, arms["good"], None, token_cache(), progress=say)
    study = Study(
        title="One world, two modalities",
        store=store,
        held_out=held_out,
        arms=arms,
        seeds=seeds,
        images=images,
        probes=size.probes,
    )
    result = run_study(study, out, frozen={"bag of words": bag_of_words(world)}, say=say)
    result["examples"] = examples(world)
    if size.captions:
        good = Path(result["arms"]["good"]["first_seed_run"])
        result["captions"] = caption_paintings(world, good, out / "image", out / "captions", say=say)
    return result


def train_painter(world: TabletopSource, run: Path, size: DemoSize, say: Callable[[str], None]) -> str:
    """Train an image encoder on paintings of the training scenes; its name for the report."""
    config = TrainConfig(
        modality="image",
        views="good",
        views_per_scene=2,
        steps=size.image_steps,
        batch=size.image_batch,
        output=64,
        learning_rate=2e-3,
        warmup=20,
        weight=size.image_weight,
        checkpoint_every=size.image_steps,
        log_every=max(1, size.image_steps // 5),
    )
    if not (run.is_dir() and (run / "config.json").is_file() and is_finished(run, config)):
        say("painting the training scenes")
        store = build_images(world, views=config.views_per_scene, side=64)
        say("training the image encoder on pairs of paintings")
        train_image(
            config,
            store,
            run,
            device="auto",
            resume=shell_command(),
            report=lambda line: say(f"step {line['step'] + 1} of {config.steps}"),
        )
    return "image encoder of paintings (LeJEPA, two paintings of one scene)"


def examples(world: TabletopSource) -> dict:
    """A few test scenes, to look at: PNG data URIs and descriptions."""
    scenes = [scene for _, scene in zip(range(EXAMPLES), world.scenes("test"), strict=False)]
    pictures = []
    for scene in scenes:
        buffer = io.BytesIO()
        world.open_image(scene).save(buffer, format="PNG")
        pictures.append("data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode())
    return {"images": pictures, "texts": [list(scene.texts) for scene in scenes]}
