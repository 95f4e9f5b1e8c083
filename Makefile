# Two commands for everyone: `make demo` runs the main job, `make check` the tests.
# Each sets up all it needs in .venv; it takes Python 3.10-3.13 with venv, and make.

PYTHON ?= python3
PIP_ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo check test lint vectors bench fuzz crash setup clean

demo: $(READY)
	$(BIN)/omnidraft demo --out omnidraft-demo

check: lint test

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test: $(READY)
	$(BIN)/python -m pytest

# What every language is compared with; writing it anew leaves no diff.
vectors: $(READY)
	$(BIN)/python spec/make_vectors.py
	git diff --exit-code --stat spec/vectors

bench: $(READY)
	$(BIN)/python -m benchmarks.host_overhead
	$(BIN)/python -m benchmarks.cache_size
	$(BIN)/omnidraft bench omnidraft-demo/starter-a
	$(BIN)/omnidraft bench omnidraft-demo/starter-b

# Bounded in time: about a minute on an idle machine, six at most.
fuzz: $(READY)
	PYTHONPATH=tests $(BIN)/python -m fuzz.fuzz_cache --count 100000 --seconds 240
	PYTHONPATH=tests $(BIN)/python -m fuzz.fuzz_manifest --count 10000 --seconds 120

crash: $(READY)
	OMNIDRAFT_KILLS=200 $(BIN)/python -m pytest tests/test_crash_safety.py

setup: $(READY)

# A Debian or Ubuntu without the venv package says so itself, with the command that installs it.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet $(PIP_ARGS) --constraint constraints.txt --group dev --editable '.[all]'
	touch $(READY)

clean:
	rm -rf $(VENV) omnidraft-demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
