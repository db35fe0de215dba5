"""The command line. Each command is one thin file, imported only when it is called.

Results go to stdout, everything else to stderr. With ``--json`` stdout carries exactly one document,
``{"schema": "coview.COMMAND/1", "ok": true, "result": {...}}``; errors too (``ok`` false).
"""

import json
import sys

COMMANDS = {
    "demo": "the whole story on the embedded world, to a report, in minutes on two cores",
    "study": "the three arms on your own texts, against an image encoder of your choice",
    "data": "look at, check or make scenes",
    "train": "train an encoder of texts from texts grouped by scene",
    "embed": "embed the texts or images of a source with any encoder",
    "align": "how aligned two encoders are: score, chance, error and signature",
    "worlds": "the theorem and its bound on finite worlds, and what they predict for a corpus",
}


def main(argv: list[str] | None = None) -> None:
    """Run one command and exit with its code."""
    argv = sys.argv[1:] if argv is None else argv
    from coview.errors import CoviewError

    command = argv[0] if argv and argv[0] in COMMANDS else "coview"
    try:
        build_app()(argv, result_action="return_value")
    except CoviewError as error:
        fail(command, error, "--json" in argv)
    except KeyboardInterrupt:
        from coview.errors import Interrupted

        fail(command, Interrupted("interrupted; nothing half-written was left."), "--json" in argv)
    except MemoryError:
        from coview.errors import ResourceError

        fail(
            command,
            ResourceError("out of memory.", hint="Use a smaller --batch or --size."),
            "--json" in argv,
        )


def build_app():
    """The cyclopts application, its commands named by import string so that ``--help`` imports none."""
    from cyclopts import App

    from coview import __version__

    app = App(name="coview", version=__version__, help=__doc__.split("\n", 1)[0], help_format="plaintext")
    app.help = "Encoders of one scene seen through many views, and an honest measure of how they line up."
    for name, help_line in COMMANDS.items():
        app.command(f"coview.cli.{name}:{name}", name=name, help=help_line)
    return app


def emit(command: str, result: dict, *, as_json: bool, text: str = "", **extra) -> None:
    """Print a command's result to stdout: one JSON document, or `text` for people."""
    if as_json:
        document = {"schema": f"coview.{command}/1", "ok": True, "result": result, **extra}
        print(json.dumps(document, ensure_ascii=False))
    elif text:
        print(text)


def fail(command: str, error, as_json: bool) -> None:
    """Print an error to stderr (and as JSON to stdout when asked) and exit with its code."""
    if as_json:
        print(json.dumps({"schema": f"coview.{command}/1", "ok": False, "error": error.as_json()}))
    print(f"coview {command}: {error}" if command != "coview" else f"coview: {error}", file=sys.stderr)
    sys.exit(error.exit_code)
