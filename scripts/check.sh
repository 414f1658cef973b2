#!/usr/bin/env bash
# Everything a change must pass besides the tests. Called by `make check`, which makes .venv first.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=.venv/bin

step() { printf '== %s\n' "$*"; }

step "ruff: lint";            $bin/ruff check --quiet .
step "ruff: format";          $bin/ruff format --quiet --check .
step "pyright: strict types"; $bin/pyright --warnings
step "import contracts";      $bin/lint-imports --no-cache >/tmp/lint-imports.$$ 2>&1 || { cat /tmp/lint-imports.$$; rm -f /tmp/lint-imports.$$; exit 1; }; rm -f /tmp/lint-imports.$$
step "doctests";              $bin/python -m pytest -q --doctest-modules packages/*/src -p no:cacheprovider
step "docs: warnings are errors"; $bin/mkdocs build --strict --quiet
step "wheels";                bash scripts/check-wheels.sh
step "all checks passed"
