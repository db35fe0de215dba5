"""Fixtures shared by all tests."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("coview", deadline=None)  # no test depends on the clock
settings.load_profile("coview")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of data packs and oracles, named by COVIEW_SHARED; tests that need it skip without it."""
    folder = Path(os.environ.get("COVIEW_SHARED", ""))
    if not os.environ.get("COVIEW_SHARED") or not folder.is_dir():
        pytest.skip("needs the data packs: set COVIEW_SHARED to their folder")
    return folder


@pytest.fixture
def run_cli(capsys):
    """Call the command line in this process: `run_cli("align", "a", "b")` gives (code, stdout, stderr)."""
    from coview.cli import main

    def run(*arguments: str) -> tuple[int, str, str]:
        code: int | str | None = 0
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code
        captured = capsys.readouterr()
        return int(code or 0), captured.out, captured.err

    return run
