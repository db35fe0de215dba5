"""The embedded world as a folder that people can look at: images, texts and the truth behind them."""

import errno
import json
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image

from coview.errors import InputError, ResourceError
from coview.runs import writing
from coview.tabletop.source import TabletopSource


def write_tabletop(source: TabletopSource, out_dir: str | Path) -> int:
    """Write ``images/000123.png`` and ``scenes.jsonl`` for all scenes of a source.

    A row of ``scenes.jsonl`` holds ``id``, ``texts``, ``image``, ``split`` and the ground-truth
    ``attributes``; `coview data check` and the other commands read the folder as a source. It is built
    beside its place and renamed, so that it appears whole or not at all.

    Returns
    -------
    number of scenes written

    Raises
    ------
    InputError
        `out_dir` is a file, or a folder that is not empty.
    UsageError
        Nothing can be written there, or it lies inside a file.
    ResourceError
        The disk is full; nothing is left behind.
    """
    out_dir = Path(out_dir)
    if out_dir.exists() and not (out_dir.is_dir() and not any(out_dir.iterdir())):
        raise InputError(
            "there is something already.", where=str(out_dir), hint="Name a new or empty folder."
        )
    with writing(out_dir):
        out_dir.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(dir=out_dir.parent, prefix=f".{out_dir.name}."))
    try:
        _write_scenes(source, building)
        building.chmod(0o755)
        if out_dir.exists():
            out_dir.rmdir()
        building.rename(out_dir)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ResourceError(
                f"the disk is full; {out_dir.name} was not written.",
                where=str(out_dir.parent),
                hint="Free some space, or ask for fewer scenes: tabletop:scenes=1000.",
            ) from error
        raise
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return source.size


def _write_scenes(source: TabletopSource, folder: Path) -> None:
    (folder / "images").mkdir()
    with open(folder / "scenes.jsonl", "w", encoding="utf-8") as rows:
        for index, scene in enumerate(source.scenes()):
            painting = Image.fromarray(source.paintings(index, 0))
            painting.save(folder / "images" / str(scene.image), compress_level=1)
            row = {
                "id": scene.id,
                "texts": scene.texts,
                "image": f"images/{scene.image}",
                "split": scene.split,
                "attributes": source.scene(index).attributes(),
            }
            rows.write(json.dumps(row, ensure_ascii=False) + "\n")
            if (index + 1) % 1000 == 0:
                print(f"{index + 1:,} of {source.size:,} scenes written", file=sys.stderr)
