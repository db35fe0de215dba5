"""Options from a file, and what is wrong with options, in coview's words."""

from pathlib import Path
from typing import TYPE_CHECKING

from coview.errors import InputError, UsageError, did_you_mean

if TYPE_CHECKING:
    from cyclopts import CycloptsError
    from cyclopts.config import Dict

CONFIG = "--config"


def options_from_file(argv: list[str]) -> "tuple[Dict, ...]":
    """The options in the YAML file that ``--config FILE`` names; those on the command line win over them.

    Raises
    ------
    InputError
        The file is missing, is not YAML, or holds something else than options.
    """
    from cyclopts.config import Dict

    words = [word for argument in argv for word in argument.split("=", 1)] if CONFIG in " ".join(argv) else []
    if CONFIG not in words[:-1]:
        return ()
    file = words[words.index(CONFIG) + 1]
    return (Dict(read_options(Path(file)), source=file, use_commands_as_keys=False),)


def read_options(file: Path) -> dict[str, object]:
    """One mapping of names to values from a YAML file."""
    import yaml

    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise InputError(f"cannot be read ({reason}).", where=str(file)) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{file} line {mark.line + 1}" if mark else str(file)
        problem = getattr(error, "problem", None) or "unreadable"
        raise InputError(f"not valid YAML: {problem}.", where=place) from error
    if document is None:
        return {}
    if not isinstance(document, dict) or not all(isinstance(name, str) for name in document):
        raise InputError("expected options, one a line.", where=str(file), hint="Write them as `steps: 500`.")
    return document


def usage_error(error: "CycloptsError") -> UsageError:
    """What cyclopts found wrong, as an error of ours: one line, with the nearest option as the hint."""
    from cyclopts import UnknownOptionError, UnusedCliTokensError

    error.verbose = False
    if isinstance(error, UnusedCliTokensError):
        return UsageError(f"there is no place for {' '.join(error.unused_tokens or [])!r}.")
    if isinstance(error, UnknownOptionError) and error.token.source != "cli":
        key = (error.token.keyword or "").strip("[]")
        names = (name for argument in error.argument_collection for name in argument.names)
        known = [name[2:] for name in names if name.startswith("--")]
        return UsageError(f"unknown key {key!r}.", where=error.token.source, hint=did_you_mean(key, known))
    message, asks, near = " ".join(str(error).split()).partition(" Did you mean ")
    return UsageError(message, hint=f"Did you mean {near}" if asks else "")
