#!/usr/bin/env bash
# Every benchmark in turn; each writes its own files under benchmarks/results/.
set -euo pipefail
cd "$(dirname "$0")/.."
for script in benchmarks/*.py; do
  case $script in */_*) continue ;; esac
  echo "== $script"
  .venv/bin/python "$script"
done
