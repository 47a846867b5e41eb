# Run `make` or `make help` for the list of targets.
VENV   := .venv
PYTHON ?= python3
OL2R   := $(VENV)/bin/ol2r
ARGS   ?=
SLURM  ?= /tmp/ol2r-slurm

.DEFAULT_GOAL := help
.PHONY: help setup run test test-slurm check format smoke bench golden clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/ /' | awk '{name=$$1; $$1=""; printf "  make %-10s %s\n", name, $$0}'

# torch goes first and alone: any other order lets pip choose a build with gigabytes of CUDA.
$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

setup: $(VENV)/.installed  ## create .venv and install ol2r with its development tools

run: setup  ## a first experiment: PairRank on generated data (more: make run ARGS="click=navigational rounds=2000")
	$(OL2R) run $(ARGS)

test: setup  ## the whole test suite (quick one: make test ARGS="-m 'not slow'")
	$(VENV)/bin/python -m pytest --numprocesses 2 --dist worksteal $(ARGS)

test-slurm: setup  ## the tests on a Slurm that is installed and started for them (as root), skipped where it cannot be
	@if scripts/slurm_up.sh $(SLURM); then \
	    SLURM_CONF=$(SLURM)/slurm.conf $(VENV)/bin/python -m pytest -m slurm $(ARGS); status=$$?; \
	    scripts/slurm_down.sh $(SLURM); exit $$status; \
	else echo "skipped: without Slurm there is nothing to test"; fi

check: setup  ## style and types: ruff and mypy
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

format: setup  ## let ruff mend what it can
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

smoke: setup  ## a run of a few seconds, then asked for again: it must not run twice
	$(OL2R) run experiment=smoke $(ARGS)
	$(OL2R) run experiment=smoke $(ARGS)
	$(OL2R) status

bench: setup  ## rounds per second on a generated MSLR-sized dataset
	$(OL2R) bench $(ARGS)

golden: setup  ## rewrite the golden traces; read the diff before committing it
	$(VENV)/bin/python scripts/golden.py $(ARGS)

clean:  ## remove .venv and caches; outputs stay
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis dist build
