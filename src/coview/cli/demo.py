"""``coview demo``: the whole story on the embedded world, to a report."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from coview.cli import emit


def demo(
    *,
    out: Path | None = None,
    seeds: int = 3,
    quick: Annotated[bool, Parameter(negative="")] = False,
    quiet: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Train good views, bad views and next-token on the embedded world; align each with an image encoder.

    Nothing is downloaded. What is finished in the folder is kept, so the command can be stopped and repeated.

    Parameters
    ----------
    out
        Folder of the runs and the report; by default runs/demo, or runs/demo-quick.
    seeds
        Runs of every arm.
    quick
        Fewer scenes and steps: under two minutes.
    quiet
        No progress on stderr.
    json
        Print one JSON document.
    """
    from coview.demo import FULL, QUICK, run_demo
    from coview.report import study_table
    from coview.study import save_study

    out = out or Path("runs") / ("demo-quick" if quick else "demo")
    say = (lambda line: None) if quiet else lambda line: print(line, file=sys.stderr, flush=True)
    result = run_demo(out, seeds=tuple(range(seeds)), size=QUICK if quick else FULL, say=say)
    result["next"] = "coview study YOUR_PHOTOS --images lite2:"
    report = save_study(result, out)
    emit(
        "demo",
        {**result, "report": str(report)},
        as_json=json,
        text=f"{study_table(result)}\nreport: {report}",
    )
