# Each target sets up what it needs; `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DANUBE := $(VENV)/danube/.ready
SEED ?=
# Tests start hundreds of processes, each of which would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup run kafka test quick lint format bench soak lock docs clean

help:  ## Show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1|/' | awk -F'|' '{printf "  make %-8s %s\n", $$1, $$2}'

setup: $(READY)  ## Make .venv with the exact versions of requirements/dev.txt

$(READY): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "frazil needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Setting up $(VENV) (once; a minute or two)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

$(DANUBE): requirements/danube.txt $(READY)
	@$(PYTHON) -m venv $(VENV)/danube
	@$(VENV)/danube/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/danube.txt
	@touch $@

run: $(READY)  ## Start Frazil on this machine (data in ./data)
	@$(BIN)/frazil serve; code=$$?; [ $$code -eq 130 ] || exit $$code

test: $(READY) $(DANUBE)  ## Lint, strict types and all tests
	@$(MAKE) --no-print-directory lint
	@$(BIN)/python -m tests.servers.jars
	@FRAZIL_TEST_EXAMPLES=0.3 $(BIN)/python -m pytest -n 4 --dist loadgroup -m "not soak"

quick: $(READY)  ## Lint, strict types and all tests that need neither Spark nor a server, with few examples
	@$(MAKE) --no-print-directory lint
	@FRAZIL_TEST_EXAMPLES=0.05 $(BIN)/python -m pytest -n 2 -m "not soak and not server"

lint: $(READY)  ## ruff, mypy --strict, the rule of imports and the freshness of generated docs
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m frazil.config.reference --check docs/configuration.md

format: $(READY)  ## Format the code
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

kafka: $(READY)  ## A Kafka broker and a schema registry to try things with
	@$(BIN)/python -m tests.servers.playground

bench: $(READY)  ## Benchmarks, as ratios to what this machine can do
	@$(BIN)/python -m bench

soak: $(READY) $(DANUBE)  ## The fault runs in full and random tests with many examples (long); SEED=n repeats one
	@$(BIN)/python -m tests.servers.jars
	@FRAZIL_TEST_SEED=$(SEED) $(BIN)/python -m pytest -m soak -n 2 --dist loadgroup --timeout 3600
	@FRAZIL_TEST_SEED=$(SEED) FRAZIL_TEST_EXAMPLES=20 $(BIN)/python -m pytest -m "random and not soak" -n 2 --dist loadgroup --timeout 3600

docs: $(READY)  ## Write the generated parts of docs/
	@$(BIN)/python -m frazil.config.reference docs/configuration.md

lock:  ## Resolve requirements/ anew from pyproject.toml (needs uv)
	@uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-emit-find-links --quiet -o requirements/run.txt
	@uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-emit-find-links --quiet -c requirements/run.txt -o requirements/dev.txt
	@uv pip compile --group pyproject.toml:danube --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-emit-find-links --quiet -o requirements/danube.txt

clean:  ## Remove .venv and caches (never data/)
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
