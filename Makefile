# Two commands do all the set-up: `make demo` and `make test`. Both need Python 3.11 or newer and nothing else.
PYTHON ?= python3
TORCH ?= torch==2.13.0
BIN = .venv/bin

.PHONY: demo test lint install

install: .venv/installed

demo: .venv/installed
	$(BIN)/coview demo

test: .venv/tested lint
	$(BIN)/python -m pytest

lint: .venv/tested
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyrefly check

# PyTorch first and pinned: a release with a CPU wheel at hand spares gigabytes of CUDA packages.
.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet "$(TORCH)"
	$(BIN)/pip install --quiet --editable .
	touch $@

.venv/tested: .venv/installed
	$(BIN)/pip install --quiet --editable ".[test]"
	touch $@
