#!/usr/bin/env bash
# Everything a change must pass besides the tests. Called by `make check`, which makes .venv first.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=.venv/bin

step() { printf '== %s\n' "$*"; }

step "ruff: lint";            $bin/ruff check --quiet .
step "ruff: format";          $bin/ruff format --quiet --check .
step "pyright: strict types"; $bin/pyright --warnings
step "import contracts";      contracts=$($bin/lint-imports --no-cache 2>&1) || { echo "$contracts"; exit 1; }
step "doctests";              $bin/python -m pytest -q --doctest-modules packages/*/src -p no:cacheprovider
step "docs: warnings are errors"; $bin/mkdocs build --strict --quiet
step "wheels";                bash scripts/check-wheels.sh
step "all checks passed"
