"""Errors a person can act on: what went wrong, where, and what to do next.

Every error carries the exit code of the command line, so that library code raises and the command line
only prints. Exit codes: 2 usage, 3 bad input, 4 something missing, 5 a check asked for failed,
6 out of memory, disk or time, 130 interrupted.
"""


class CoviewError(Exception):
    """An error that is shown as it stands, without a traceback.

    Parameters
    ----------
    message : str
        What went wrong and why, one sentence.
    where : str, optional
        File, row and column, or the option, that caused it.
    hint : str, optional
        What to do next.
    """

    exit_code = 1
    kind = "error"

    def __init__(self, message: str, *, where: str = "", hint: str = ""):
        super().__init__(message)
        self.message, self.where, self.hint = message, where, hint

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f" {self.hint}" if self.hint else ""
        return f"{place}{self.message}{advice}"

    def as_json(self) -> dict:
        return {
            "code": self.exit_code,
            "kind": self.kind,
            "message": self.message,
            "where": self.where,
            "hint": self.hint,
        }


class UsageError(CoviewError):
    """The command or configuration does not make sense (exit 2)."""

    exit_code, kind = 2, "usage"


class InputError(CoviewError):
    """A file or its content is missing or broken (exit 3)."""

    exit_code, kind = 3, "input"


class MissingError(CoviewError):
    """A package, model or device is not there (exit 4); the hint is the command that brings it."""

    exit_code, kind = 4, "missing"


class CheckFailed(CoviewError):
    """A check the user asked for did not hold (exit 5)."""

    exit_code, kind = 5, "check"


class ResourceError(CoviewError):
    """Out of memory, disk or time (exit 6); what was finished is kept."""

    exit_code, kind = 6, "resources"


class Interrupted(CoviewError):
    """Stopped by the user (exit 130); the hint is the command that resumes."""

    exit_code, kind = 130, "interrupted"


def did_you_mean(word: str, known: list[str] | tuple[str, ...]) -> str:
    """A hint that names the nearest known word, or all of them if none is near."""
    import difflib

    near = difflib.get_close_matches(word, known, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(known)}."
