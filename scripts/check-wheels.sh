#!/usr/bin/env bash
# Builds the four wheels, installs each with nothing but its dependencies in a fresh venv, and imports it there.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for package in packages/*/; do
  .venv/bin/python -m build --wheel --no-isolation --outdir "$work/dist" "$package" >"$work/build.log" 2>&1 || { cat "$work/build.log"; exit 1; }
done

smoke() { # name, wheels to install, statements
  local name=$1 wheels=$2 code=$3
  python3=${PYTHON:-python3}
  "$python3" -m venv "$work/$name"
  # The wheels are named as files: a package of the same name on an index is never considered for them.
  "$work/$name/bin/python" -m pip install --quiet --constraint "$root/constraints.txt" $wheels
  (cd "$work" && "$work/$name/bin/python" -W error -c "$code")
  echo "  $name: installs and imports alone"
}

ripieno=$work/dist/ripieno-0.1.0-py3-none-any.whl
smoke ripieno "$ripieno" 'import ripieno, ripieno.cli, ripieno.run, ripieno.verify, ripieno.statistics, ripieno.parallel, ripieno.report, ripieno.doctor; assert ripieno.__version__ == "0.1.0"'
smoke concerto "$ripieno $work/dist/ripieno_concerto-0.1.0-py3-none-any.whl" 'import concerto.safety, concerto.safety.stack, concerto.testing, chamber, chamber.partners; assert concerto.__version__ == "0.1.0"'
smoke phase "$ripieno $work/dist/ripieno_phase-0.1.0-py3-none-any.whl" 'import scpn_phase_orchestrator as p; assert p.__version__ == "0.1.0"'
smoke inputlab "$ripieno $work/dist/ripieno_inputlab-0.1.0-py3-none-any.whl" 'import agentinputlab, workers; assert agentinputlab.__version__ == "0.1.0"'
