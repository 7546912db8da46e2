# The words of a developer and of continuous integration. Every target makes its own environment in .venv first.

VENV := .venv
BIN := $(VENV)/bin
SUPPORTED = import sys; sys.exit(not sys.version_info >= (3, 11))

# The first Python on the PATH that is new enough; name another one with make PYTHON=/path/to/python.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11 python3.14 python; do \
	"$$python" -c '$(SUPPORTED)' >/dev/null 2>&1 && { echo "$$python"; break; }; done)

# Hundreds of processes of the tests import the same files, so their bytecode is kept whatever the caller prefers.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow check types code docs format clean

help:
	@echo "make demo    optimise two real models on this machine, without a key or a GPU (four minutes on two cores)"
	@echo "make test    run the tests but the slow ones (12 minutes on two cores)"
	@echo "make test-slow   run the slow ones: examples, whole runs, compiled recipes, the zoo under the judge"
	@echo "make check   format, lint, types, import floors and the documentation site"
	@echo "make docs    build the documentation site into build/site"
	@echo "make format  rewrite the files in the project's format, the table of the house too"
	@echo "make setup   only make the environment in $(VENV)"
	@echo "make clean   remove the environment, caches and build outputs; runs/ stays"

# Where judges are tested. What is marked `timed` has the machine to itself, all other verdicts allow for company.
# A neighbour on the host can still spoil a timed test once, so it may be run again; failing twice in a row fails.
JUDGED := tests/adversarial tests/judge

setup: $(VENV)/.pike-runtime

demo: $(VENV)/.pike-runtime
	$(BIN)/pike demo

test: $(VENV)/.pike-test
	$(BIN)/python -m pytest -n 3 --dist loadscope --no-loadscope-reorder -m "not timed and not slow" $(addprefix --ignore=,$(JUDGED) tests/test_floors.py)
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not timed and not slow" $(JUDGED)
	$(BIN)/python -m pytest -m "timed and not slow" --reruns 1 $(JUDGED)

test-slow: $(VENV)/.pike-test
	$(BIN)/python -m pytest -n 2 -m "slow and not timed"
	$(BIN)/python -m pytest -m "slow and timed" --reruns 1 $(JUDGED)

# The types take as long as all the rest, and one core.
check: $(VENV)/.pike-docs
	@$(MAKE) --no-print-directory -j 2 types docs code

types: $(VENV)/.pike-docs
	$(BIN)/mypy

code: $(VENV)/.pike-docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m pytest tests/test_floors.py
	$(BIN)/python tools/measure_house.py --check

docs: $(VENV)/.pike-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

format: $(VENV)/.pike-test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/python tools/measure_house.py --write

$(VENV)/.pike-%: pyproject.toml tools/setup.py
	$(if $(PYTHON),,$(error PIKE needs Python 3.11 or newer and none is on the PATH; install one or name it: make PYTHON=/path/to/python))
	@$(PYTHON) tools/setup.py $*

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests tools benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
