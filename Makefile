# make demo: which of three GPUs carries a chat service at the least cost.  make run: one simulation.
# make test: everything that must hold.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo run test lint clean

demo: $(VENV)/.installed
	$(BIN)/servecast compare sweeps/compare-demo.yaml

run: $(VENV)/.installed
	$(BIN)/servecast run configs/quickstart.yaml

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.installed-dev: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
