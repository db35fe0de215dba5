"""``coview study``: the three arms on your own texts, against an image encoder of your choice."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from coview.cli import emit


def study(
    source: str,
    /,
    *,
    images: str,
    on: str | None = None,
    ids: Path | None = None,
    arms: Path | None = None,
    seeds: int = 3,
    out: Path = Path("runs/study"),
    device: str = "auto",
    quiet: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Train good views, bad views and next-token on your texts, and align each with an image encoder.

    The arms read the training split of SOURCE; alignment is measured on the test split, and where to read an
    encoder is chosen on the validation split. What is finished in the folder is kept.

    Parameters
    ----------
    source
        Texts grouped by scene to train on.
    images
        The image encoder: lite0:, lite2:, timm:NAME, ..., or a file of rows that are there already.
    on
        Where the val and test scenes with images are; by default SOURCE itself.
    ids
        The names of a file's rows, one a line. Only if --images is a file.
    arms
        A YAML file with options of ``coview train``: under ``common`` for all three arms, and under ``good``,
        ``bad`` and ``next-token`` for each; see configs/.
    seeds
        Runs of every arm.
    out
        Folder of the runs and the report.
    device
        auto, cpu, cuda, ...
    quiet
        No progress on stderr.
    json
        Print one JSON document.
    """
    from coview.data.readers import open_source
    from coview.held_out import HeldOut, image_rows
    from coview.report import study_table
    from coview.study import Study, bag_of_words, load_arms, run_study, save_study
    from coview.training.train import open_store, token_cache

    say = (lambda line: None) if quiet else lambda line: print(line, file=sys.stderr, flush=True)
    train, held_out = open_source(source), open_source(on or source)
    for note in {train.split_note, held_out.split_note} - {""}:
        say(f"note: {note}")
    configs = load_arms(arms)
    rows = {split: image_rows(held_out, images, ids, split, out, device) for split in ("val", "test")}
    result = run_study(
        Study(
            title=f"{Path(source.split(',')[0]).name} against {Path(images).name}",
            store=open_store(train, configs["good"], None, token_cache(), progress=say),
            held_out={split: HeldOut.of(held_out, split, rows[split]) for split in rows},
            arms=configs,
            seeds=tuple(range(seeds)),
            images=images,
        ),
        out,
        frozen={"bag of words": bag_of_words(train)},
        device=device,
        say=say,
    )
    result["next"] = f"coview embed {on or source} --model run:{result['arms']['good']['first_seed_run']}"
    report = save_study(result, out)
    emit(
        "study",
        {**result, "report": str(report)},
        as_json=json,
        text=f"{study_table(result)}\nreport: {report}",
    )
