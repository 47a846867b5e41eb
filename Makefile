# `make run` and `make test` set up everything they need. `make help` lists all targets.
VENV   := .venv
PYTHON ?= python3
OL2R   := $(VENV)/bin/ol2r
PYTEST := $(VENV)/bin/python -m pytest
ARGS   ?=
SLURM  ?= /tmp/ol2r-slurm
FAST   := not slow and not gpu and not slurm

.DEFAULT_GOAL := help
.PHONY: help setup setup-locked setup-gpu run test test-core test-plugin a-plugin test-all test-processors test-slurm gpu mutation campaign check format smoke bench performance pictures golden docs links reference notebook lock clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/ /' | awk '{name=$$1; $$1=""; printf "  make %-15s %s\n", name, $$0}'

PIP    := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# What experiments need. torch goes first and alone: any other order lets pip choose a build with gigabytes of CUDA.
$(VENV)/.for-runs: pyproject.toml constraints.txt
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) --editable '.[plots]'
	touch $@

$(VENV)/.installed: $(VENV)/.for-runs
	$(PIP) --editable '.[dev]'
	touch $@

setup: $(VENV)/.installed  ## create .venv and install ol2r with its development tools

# A torch that is there stays: requirements.lock leaves the build to the machine.
setup-locked: constraints.txt requirements.lock  ## the same with the versions of requirements.lock, each file compared with its hash
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) --require-hashes --no-deps --requirement requirements.lock
	$(PIP) --no-deps --no-build-isolation --editable .
	touch $(VENV)/.for-runs $(VENV)/.installed

# It needs no GPU.
setup-gpu: setup  ## add the compiler of loops for a GPU to .venv (extra gpu, 130 MB), with which their tests are not skipped
	@$(VENV)/bin/python -c "import numba_cuda" 2> /dev/null || $(PIP) --editable '.[dev,gpu]'

run: $(VENV)/.for-runs  ## set up and run the main job, PairRank on generated data (make run ARGS="click=navigational rounds=2000")
	$(OL2R) run $(ARGS)

test: setup  ## set up and run the tests, about nine minutes on two cores (make test ARGS=tests/click)
	$(PYTEST) --numprocesses 2 --dist worksteal -m "$(FAST)" $(ARGS)

test-core: setup  ## only the tests of the core and of methods, without those of plug-ins
	$(PYTEST) --numprocesses 2 --dist worksteal -m "$(FAST)" tests $(PLUGINS:%=--ignore=tests/plugins/%) $(ARGS)

# An error of make comes before anything is set up.
PLUGINS = $(filter-out __pycache__,$(notdir $(patsubst %/,%,$(wildcard tests/plugins/*/))))
test-plugin: $(if $(filter $(PLUGIN),$(PLUGINS)),setup,a-plugin)  ## only the tests of one plug-in (make test-plugin PLUGIN=search)
	$(PYTEST) -m "$(FAST)" tests/plugins/$(PLUGIN) $(ARGS)

a-plugin:
	@echo "PLUGIN must be one of $(sort $(PLUGINS)), got $(PLUGIN)" >&2; exit 2

test-all: setup  ## the tests with the long ones, and those on a Slurm where one can be installed
	@if scripts/slurm_up.sh $(SLURM); then export SLURM_CONF=$(SLURM)/slurm.conf; else echo "without Slurm"; fi; \
	$(PYTEST) --numprocesses 2 --dist worksteal $(ARGS); status=$$?; \
	scripts/slurm_down.sh $(SLURM) > /dev/null 2>&1; exit $$status

# Every line is a processor to emulate: instruction sets of torch, of MKL, of oneDNN, and of OpenBLAS, which numba calls.
test-processors: setup  ## the tests under the instruction sets of several processors
	@for processor in \
	    "ATEN_CPU_CAPABILITY=default MKL_ENABLE_INSTRUCTIONS=SSE4_2 ONEDNN_MAX_CPU_ISA=SSE41 OPENBLAS_CORETYPE=Prescott" \
	    "ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 ONEDNN_MAX_CPU_ISA=AVX2 OPENBLAS_CORETYPE=Haswell" \
	    "MKL_CBWR=COMPATIBLE" \
	    $$(grep -qw avx512f /proc/cpuinfo 2>/dev/null && echo ATEN_CPU_CAPABILITY=avx512,MKL_ENABLE_INSTRUCTIONS=AVX512); do \
	    echo "== $$processor"; \
	    env $$(echo $$processor | tr , ' ') $(PYTEST) --numprocesses 2 --dist worksteal -m "$(FAST)" $(ARGS) || exit 1; \
	done

test-slurm: setup  ## only the tests on a Slurm, which is installed and started for them (as root)
	@if scripts/slurm_up.sh $(SLURM); then \
	    SLURM_CONF=$(SLURM)/slurm.conf $(PYTEST) -m slurm $(ARGS); status=$$?; \
	    scripts/slurm_down.sh $(SLURM); exit $$status; \
	else echo "skipped: without Slurm there is nothing to test"; fi

NETWORKS ?= olranknet ollambdarank p2neurrank
gpu: setup-gpu  ## on a machine with a GPU: its tests, where it differs from the CPU, speeds, a grid as one launch
	@$(VENV)/bin/python -c "import torch; raise SystemExit(not torch.cuda.is_available())" \
	    || { echo "make gpu needs a CUDA GPU and a torch built for it: see docs/how-to/install.md"; exit 2; }
	$(PYTEST) -m gpu
	$(VENV)/bin/python scripts/gpu.py outputs/gpu --limit 7200
	$(OL2R) bench $(NETWORKS) --replicas 1 10 100 1000 --rounds 300 device=cuda $(ARGS)

mutation: setup  ## what the tests protect: the share of seeded mutants that they notice (an hour or more)
	$(VENV)/bin/python scripts/mutation.py $(ARGS)

campaign: setup  ## fault campaigns: kills, batches, damaged files, writers, settings (hours; make campaign ARGS="kills --count 50")
	$(VENV)/bin/python scripts/campaign.py $(ARGS)

check: setup  ## style and types: ruff, mypy, and lines of prose above 100 columns
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/python scripts/prose.py

format: setup  ## let ruff fix what it can
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

smoke: setup  ## a run of a few seconds, then the same command again, which must not run twice
	$(OL2R) run experiment=smoke $(ARGS)
	$(OL2R) run experiment=smoke $(ARGS)
	$(OL2R) status

bench: setup  ## rounds per second on a generated MSLR-sized dataset
	$(OL2R) bench $(ARGS)

performance: setup  ## measure the table of docs/explanation/performance.md again
	$(VENV)/bin/python scripts/performance.py

pictures: setup  ## draw the pictures of ideas and of results in docs/pictures again
	$(VENV)/bin/python scripts/pictures.py
	$(VENV)/bin/python scripts/field.py

golden: setup  ## rewrite the golden traces; read the diff before committing it
	$(VENV)/bin/python scripts/golden.py $(ARGS)

docs: setup  ## build the site of the documentation into dist/site, with warnings as errors
	$(VENV)/bin/python -m sphinx -q -W --keep-going -c docs/site -d build/site . dist/site $(ARGS)

links: setup  ## open every link of the documentation that leads to another machine; broken ones are listed
	$(VENV)/bin/python -m sphinx -q -b linkcheck -c docs/site -d build/site . build/links

reference: setup  ## write the generated pages of docs/reference again: commands, settings, Python API
	$(VENV)/bin/python scripts/reference.py

notebook: setup  ## execute docs/notebook.ipynb; look at it before committing it
	folder=$$(mktemp -d) && cp docs/notebook.ipynb $$folder && cd $$folder && \
	$(CURDIR)/$(VENV)/bin/jupyter execute --inplace --NotebookClient.record_timing=False notebook.ipynb && \
	cp notebook.ipynb $(CURDIR)/docs

# All platforms and Pythons in one file, without the address of an index: each machine has its own.
lock:  ## write requirements.lock for today's pyproject.toml; ARGS=--upgrade takes newer versions (needs uv: pip install uv)
	echo torch | uv pip compile --quiet --universal --python-version 3.11 --extra dev --constraint constraints.txt \
	    --excludes /dev/stdin --generate-hashes --no-emit-index-url --annotation-style line \
	    --custom-compile-command "make lock" --output-file requirements.lock pyproject.toml $(ARGS)

clean:  ## remove .venv and caches; outputs stay
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis dist build
