# What people run. `make help` lists it. Only Python 3.11 or newer is needed: the rest is installed into .venv.
# Another interpreter: make test PYTHON=/path/to/python3.13

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))

# The first of these that is new enough; python3 when none is, so that the message below can say how old it is.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c '$(NEW_ENOUGH)' >/dev/null 2>&1 && { echo $$p; exit; }; done; echo python3)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test check lint types layers format bench requirements figures docs clean

help: ## List the targets
	@sed -n 's/^\([a-z]*\):.*## /  \1	/p' Makefile | expand -t 18

setup: $(VENV)/.dev ## Install holdfast and its development tools into .venv

demo: $(VENV)/.package ## Watch a plan be killed and go on, and a mistake be found and taken back
	@$(BIN)/holdfast demo

# One process per core. A process that is done takes over tests from one that is not: some tests take a hundred times as
# long as others. What was skipped, and why, stands at the end.
test: $(VENV)/.dev ## Run the whole test suite
	$(BIN)/pytest --numprocesses logical --maxprocesses 8 --dist worksteal --durations 12

check: lint types layers ## Everything that is checked besides the tests
	$(BIN)/python tools/cli_doc.py --check
	$(BIN)/python tools/rpc_doc.py --check
	$(BIN)/python tools/errors_doc.py --check
	$(BIN)/python tools/json_schemas.py --check
	$(BIN)/python tools/api_doc.py --check
	$(BIN)/python tools/env_example.py --check
	$(BIN)/python tools/requirements.py --check
	$(BIN)/python tools/tour.py --check

lint: $(VENV)/.dev ## Check style and formatting
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(VENV)/.dev ## Check types
	$(BIN)/mypy

layers: $(VENV)/.dev ## Check that dependencies point down
	$(BIN)/lint-imports

format: $(VENV)/.dev ## Format the code and fix what can be fixed
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(VENV)/.dev ## Run the benchmarks against the peers (docs/benchmarks.md)
	$(BIN)/python -m pip install -qq --disable-pip-version-check --group bench
	$(BIN)/python -m bench

requirements: $(VENV)/.dev ## List the requirements and the tests that show them
	@$(BIN)/python tools/requirements.py

figures: ## Print lines of code and modules for each part of src, and lines of tests and docs
	@$(PYTHON) tools/house.py

docs: $(VENV)/.dev ## Write the generated pages again
	$(BIN)/python tools/cli_doc.py
	$(BIN)/python tools/rpc_doc.py
	$(BIN)/python tools/errors_doc.py
	$(BIN)/python tools/json_schemas.py
	$(BIN)/python tools/api_doc.py
	$(BIN)/python tools/async_stub.py
	$(BIN)/python tools/env_example.py
	$(BIN)/python tools/tour.py

clean: ## Remove what can be made again, .venv included
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

# A set-up that did not end leaves .unfinished behind, and the next one starts from nothing: a package that was half
# copied can look installed. `pip install --group` needs pip 25.1, newer than the one that comes with Python 3.11.
$(VENV)/.package: pyproject.toml
	@$(PYTHON) -c '$(NEW_ENOUGH)' 2>/dev/null || { echo "holdfast needs Python 3.11 or newer, and $(PYTHON) is" \
		"`$(PYTHON) --version 2>/dev/null || echo missing`. Name another one: make setup PYTHON=/path/to/python3.12"; exit 1; }
	@if [ -e $(VENV)/.unfinished ] || ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
		echo "Making $(VENV) with $(PYTHON)"; rm -rf $(VENV); mkdir $(VENV); touch $(VENV)/.unfinished; \
		$(PYTHON) -m venv $(VENV); fi
	@echo "Installing holdfast into $(VENV)"
	@touch $(VENV)/.unfinished
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable .
	@rm $(VENV)/.unfinished && touch $@

$(VENV)/.dev: $(VENV)/.package
	@echo "Installing the development tools into $(VENV)"
	@touch $(VENV)/.unfinished
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable . --group dev
	@rm $(VENV)/.unfinished && touch $@
