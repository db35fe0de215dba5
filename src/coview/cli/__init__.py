"""The command line. Each command is one thin file, imported only when it is called.

Results go to stdout, everything else to stderr. With ``--json`` stdout carries exactly one document,
``{"schema": "coview.COMMAND/1", "ok": true, "result": {...}}``; errors too (``ok`` false).
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import NoReturn

COMMANDS = {
    "demo": "the whole story on the embedded world, to a report, in minutes on two cores",
    "study": "the three arms on your own texts, against an image encoder of your choice",
    "data": "look at, check or make scenes",
    "train": "train an encoder of texts from texts grouped by scene",
    "embed": "embed the texts or images of a source with any encoder",
    "align": "how aligned two encoders are: score, chance, error and signature",
    "rotate": "join two spaces by one rotation, with pairs or with none; apply it, judge it",
    "export": "a trained text encoder as a folder for sentence-transformers, if wanted in another space",
    "retrieve": "the images that a text describes, across a rotation",
    "zeroshot": "classify images by the names of classes, with pairs or with none",
    "caption": "write captions from embeddings, and score captions",
    "worlds": "the theorem and its bound on finite worlds, and what they predict for a corpus",
}
NESTED = {  # here too, so that an error carries the schema of its subcommand without importing it
    "data": ("check", "make"),
    "rotate": ("fit", "apply", "eval", "curve"),
    "caption": ("train", "write", "score", "df"),
    "worlds": ("run", "show", "from"),
}


def main(argv: list[str] | None = None) -> None:
    """Run one command and exit with its code."""
    argv = sys.argv[1:] if argv is None else argv
    from coview.errors import CoviewError, InputError, Interrupted, ResourceError

    try:
        with sigterm_as_interrupt():
            run(argv)
    except CoviewError as error:
        fail(argv, error)
    except KeyboardInterrupt:
        fail(argv, Interrupted("interrupted; nothing half-written was left."))
    except BrokenPipeError:  # whoever read the output has seen enough, `head` for instance
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        fail(argv, InputError(f"{error.strerror or error}.", where=str(error.filename or "")))
    except MemoryError:
        fail(argv, ResourceError("out of memory.", hint="Use a smaller --batch or --size."))


@contextmanager
def sigterm_as_interrupt() -> Generator[None]:
    """Let SIGTERM end a command as Ctrl-C does, so that what is half-written is removed."""
    if threading.current_thread() is not threading.main_thread():  # only there can signals be caught
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def run(argv: list[str]) -> None:
    """Run one command; raises CoviewError where it cannot."""
    from cyclopts import CycloptsError

    from coview.cli.options import options_from_file, usage_error

    app = build_app(called=argv[0] if argv else "")
    app.config = options_from_file(argv)
    try:
        app(argv, result_action="return_value", exit_on_error=False, print_error=False)
    except CycloptsError as error:
        raise usage_error(error) from error


def build_app(called: str = ""):
    """The cyclopts application, its commands named by import string so that ``--help`` imports none.

    The help of the command that is called is its own docstring, which a line given here would hide.
    """
    from cyclopts import App

    from coview import __version__

    app = App(name="coview", version=__version__, help_format="plaintext", suppress_keyboard_interrupt=False)
    app.help = "Encoders of one scene seen through many views, and an honest measure of how they line up."
    for name, help_line in COMMANDS.items():
        shown = None if name == called else help_line
        app.command(f"coview.cli.{name}:{name}", name=name, help=shown)
    return app


def emit(command: str, result: dict, *, as_json: bool, text: str = "", **extra) -> None:
    """Print a command's result to stdout: one JSON document, or `text` for people."""
    if as_json:
        document = {"schema": f"coview.{command}/1", "ok": True, "result": result, **extra}
        print(json.dumps(document, ensure_ascii=False))
    elif text:
        print(text)


def fail(argv: list[str], error) -> NoReturn:
    """Print an error to stderr (and as JSON to stdout when asked) and exit with its code."""
    command = argv[0] if argv and argv[0] in COMMANDS else ""
    if "--json" in argv:
        below = [word for word in argv[1:2] if word in NESTED.get(command, ())]
        schema = ".".join(["coview", *([command] if command else []), *below]) + "/1"
        print(json.dumps({"schema": schema, "ok": False, "error": error.as_json()}, ensure_ascii=False))
    print(f"coview {command}: {error}" if command else f"coview: {error}", file=sys.stderr)
    sys.exit(error.exit_code)
