"""Progress of long work on stderr: a bar on a terminal, one line every 30 seconds elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EVERY = 30.0  # seconds between lines where there is no terminal


@contextmanager
def progress_of(label: str, total: int, *, quiet: bool = False) -> Iterator[Callable[[int, str], None]]:
    """A function `update(done, note)` that shows how far the work is; the last one is always shown."""
    if quiet:
        yield lambda done, note="": None
    elif sys.stderr.isatty():
        with _bar(label, total) as update:
            yield update
    else:
        yield _lines(label, total)


@contextmanager
def _bar(label: str, total: int) -> Iterator[Callable[[int, str], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total, note="")
        yield lambda done, note="": bar.update(task, completed=done, note=note)


def _lines(label: str, total: int) -> Callable[[int, str], None]:
    last = -EVERY

    def update(done: int, note: str = "") -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= EVERY or done >= total:
            last = now
            print(f"{label}: {done:,} of {total:,}  {note}".rstrip(), file=sys.stderr, flush=True)

    return update
