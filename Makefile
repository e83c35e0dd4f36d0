# Two commands matter: `make demo` and `make test`. Each sets up what is missing first and is quick the second time.
#
# Set-up is two stamp files: packages (depends on pyproject.toml) and compiled kernels (depends on their sources).
# The kernel cache itself is keyed by content (src/everview/kernels/build/cache.py), so a stamp that is too old costs a
# second, never a stale kernel.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# Hundreds of processes are started, and without bytecode each would first compile 300 modules: a second of CPU.
unexport PYTHONDONTWRITEBYTECODE

# `make test PYTHON=python3.12` has an environment of its own, .venv-3.12, beside .venv.
ifeq ($(origin PYTHON),command line)
NAMED := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
$(if $(NAMED),,$(error $(PYTHON) does not run; give PYTHON= the path of one that does))
VENV := .venv-$(NAMED)
else
VENV := .venv
endif
PY := $(VENV)/bin/python
INSTALLED := $(VENV)/.stamp-installed
WARM := $(VENV)/.stamp-warm
WARM_DEBUG := $(VENV)/.stamp-warm-debug
KERNELS := $(shell find src/everview/kernels src/everview/codes src/everview/dataflow -name '*.py' 2>/dev/null) src/everview/types.py

# Durable sessions write, flush and remove ten thousands of small files in tests. Where there is room for them in memory,
# that takes a hundredth of the time; a process that is killed leaves the same behind.
IN_MEMORY := $(shell [ -w /dev/shm ] && [ "$$(df -Pk /dev/shm | awk 'NR == 2 {print $$4}')" -gt 6000000 ] && echo /dev/shm)
SCRATCH := $(if $(IN_MEMORY),export TMPDIR=$$(mktemp -d -p $(IN_MEMORY) ev-XXXXXX); trap 'rm -rf "$$TMPDIR"' EXIT; chmod 1777 $$TMPDIR;)

JOBS ?= 2
MINUTES ?= 60
SEED ?= 1
PYTEST := $(SCRATCH) $(PY) -m pytest -q
# Tests of a file stay together, so that what a file sets up is set up once; a process that is done takes from others.
SPREAD := -n $(JOBS) --dist worksteal
# What the bounds-checked build runs again: everything that reaches compiled code. One that does not exist is an error.
DEBUG_TESTS ?= tests/codes tests/expr tests/language tests/oracle tests/graph tests/datalog tests/sql tests/store tests/once tests/optimiser \
               tests/system tests/why tests/io tests/server tests/misuse tests/soak tests/cli tests/demo tests/spark

# What `make wheel` compiles kernels for; by default the baseline of this machine's kind (kernels/build/cpus.py).
CPUS ?= $(shell $(PY) -c 'from everview.kernels.build import cpus; import platform; print(cpus.BASELINES[platform.machine()])' 2>/dev/null)
BUILT := build/kernels

.PHONY: help setup demo test lint format fast-test debug-test slow-sample spark-test wheel wheel-test soak bench docs site clean

help: ## show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-12s %s\n", $$1, $$2}'

setup: $(WARM) ## make .venv, install packages, compile kernels
	@echo "ready: $(PY)"

demo: $(WARM) ## where does the money go? a story of less than a minute, and a page to look at
	@$(PY) -m everview.cli demo

# Jobs of one core go side by side, two at a time, each with its output in one piece; the stages with $(JOBS) processes one
# after the other.
TOGETHER := -j2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
test: $(INSTALLED) ## lint, tests, a part of them in the debug build, a sample of the slow ones, Spark, the wheel
	@$(MAKE) --no-print-directory $(TOGETHER) $(WARM_DEBUG) lint $(WARM) wheel
	@$(MAKE) --no-print-directory fast-test
	@$(MAKE) --no-print-directory debug-test
	@$(MAKE) --no-print-directory slow-sample
	@$(MAKE) --no-print-directory $(TOGETHER) spark-test wheel-test

lint: $(INSTALLED) ## ruff and mypy
	@echo "== ruff: style, likely mistakes, formatting"
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check --quiet . || { echo "not formatted: run make format" >&2; exit 1; }
	@echo "== mypy: types"
	@$(PY) -m mypy

format: $(INSTALLED) ## format the code
	@$(PY) -m ruff format --quiet .

fast-test: $(WARM)
	@echo "== pytest: everything but slow tests, $(JOBS) processes"
	@$(PYTEST) $(SPREAD) -m "not slow and not spark" --durations=25 --durations-min=3

debug-test: $(WARM_DEBUG) ## tests of compiled code in the bounds-checked build
	@echo "== pytest: tests of compiled code in the bounds-checked build"
	@for d in $(DEBUG_TESTS); do [ -d $$d ] || { echo "DEBUG_TESTS: there is no directory $$d" >&2; exit 1; }; done
	@export EVERVIEW_DEBUG=1; $(PYTEST) $(SPREAD) -m "not slow and not spark" --per-file 3 $(DEBUG_TESTS)

slow-sample: $(WARM)
	@echo "== pytest: one slow test of each file"
	@$(PYTEST) $(SPREAD) -m "slow and not long and not spark" --per-file 1 tests || [ $$? -eq 5 ]

# One process: Spark itself uses the cores, and every process would start a JVM of its own.
spark-test: $(WARM) ## tests on a local Spark (not the slow ones)
	@echo "== pytest: on Spark, local[2]"
	@$(PYTEST) -m "spark and not slow" tests/spark tests/io
	@$(PYTEST) -m "spark and not slow" --per-file 4 tests/oracle/test_graphs.py tests/oracle/test_random_plans.py

# Kernels are compiled again only if their sources changed: `warm --into` looks.
wheel: $(INSTALLED) ## build dist/*.whl, with compiled kernels for this platform
	@echo "== compiling kernels for $(CPUS)"
	@for cpu in $(CPUS); do $(PY) -m everview.warm --into $(BUILT) --cpu $$cpu; done
	@echo "== building the wheel"
	@rm -f dist/everview-*.whl
	@EVERVIEW_KERNELS=$(abspath $(BUILT)) $(PY) -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@ls -l dist/everview-*.whl

wheel-test: wheel ## install the wheel with each extra alone into empty environments, and try it
	@echo "== pytest: the wheel in empty environments"
	@EVERVIEW_WHEEL=$$(ls dist/everview-*.whl) $(PY) -m pytest -q -m "wheel" tests/package

soak: $(WARM) ## a mixed load for MINUTES, compared with a model; memory and latency must stay flat
	@$(PY) -m tests.soak --minutes $(MINUTES) --seed $(SEED)

bench: $(WARM) ## benchmarks as JSON, next to recomputation
	@$(PY) -m pip install --quiet --editable '.[bench]'
	@$(PY) -m everview.cli bench

$(INSTALLED): pyproject.toml
	@python=; for p in "$${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11; do \
	  if "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$p; break; fi; done; \
	if [ -z "$$python" ]; then echo "Everview needs Python 3.11 or newer; set PYTHON=/path/to/python3" >&2; exit 1; fi; \
	if [ ! -x $(PY) ]; then echo "== making $(VENV) with $$("$$python" --version)"; \
	  "$$python" -m venv $(VENV) || { rm -rf $(VENV); echo "could not make $(VENV): is the venv module installed?" >&2; exit 1; }; fi
	@echo "== installing packages into $(VENV) (a minute or two the first time)"
	@$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(WARM): $(INSTALLED) $(KERNELS)
	@echo "== compiling kernels (a minute or two the first time, cached in .cache/)"
	@$(PY) -m everview.warm
	@touch $@

# By the variable, not by `--debug`: that would compile the normal build first, which another job is doing.
$(WARM_DEBUG): $(INSTALLED) $(KERNELS)
	@echo "== compiling the bounds-checked build of the kernels"
	@EVERVIEW_DEBUG=1 $(PY) -m everview.warm
	@touch $@

docs: $(WARM) ## write docs/reference.md and docs/errors.md from the sources, benchmarks/RESULTS.md from raw runs
	@$(PY) docs/make_reference.py
	@$(PY) docs/make_errors.py
	@$(PY) benchmarks/make_results.py

site: $(INSTALLED) ## the documentation as a web site in build/site, with search
	@$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@$(PY) docs/make_site.py

clean: ## remove caches, compiled kernels and built files (not .venv)
	@rm -rf .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist $(WARM) $(WARM_DEBUG)
	@find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
	@echo "removed caches; delete $(VENV) as well for a fresh start"
