#!/usr/bin/env bash
# Builds the wheels, installs each with nothing but its dependencies in a fresh venv, and imports it there.
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
  .venv/bin/python -m venv "$work/$name"
  # The wheels are named as files: a package of the same name on an index is never considered for them.
  "$work/$name/bin/python" -m pip install --quiet --constraint "$root/constraints.txt" $wheels
  (cd "$work" && "$work/$name/bin/python" -W error -c "$code")
  echo "  $name: installs and imports alone"
}

wheel() { echo "$work/dist/$1"-*.whl; }
ripieno=$(wheel ripieno)
smoke ripieno "$ripieno" 'import ripieno.cli, ripieno.run, ripieno.verify, ripieno.statistics, ripieno.parallel, ripieno.report, ripieno.doctor'
smoke concerto "$ripieno $(wheel ripieno_concerto)" '
import concerto.safety, concerto.safety.stack, concerto.testing, chamber, chamber.partners, chamber.agents, chamber.sim
import concerto.training, concerto.training.config, chamber.configs, chamber.learning, chamber.benchmarks
assert "mpe_cooperative_push" in chamber.configs.shipped_config_names()
from click.testing import CliRunner
from chamber.cli._app import chamber
assert CliRunner().invoke(chamber, ["list"]).exit_code == 0
done = CliRunner().invoke(chamber, ["run", "cocarry", "--no-pictures"])
assert (done.exit_code, "pip install" in done.output) == (2, True), done.output
'
smoke chamber "$ripieno $(wheel ripieno_concerto)[chamber]" '
from click.testing import CliRunner
from chamber.cli._app import chamber
from ripieno.verify import verify
for words in ("list", "run cocarry --no-pictures --out bar", "run coinsert --no-pictures --out peg", "replay bar", "check cocarry"):
    done = CliRunner().invoke(chamber, words.split())
    assert done.exit_code == 0, done.output
assert verify("bar").ok and verify("peg").ok
'
smoke phase "$ripieno $(wheel ripieno_phase)" '
from click.testing import CliRunner
from ripieno.verify import verify
from scpn_phase_orchestrator.domainpacks import pack_names
from scpn_phase_orchestrator.runtime.cli import main, meta_transfer_manifest
assert len(pack_names()) == 36, pack_names()
for words in ("run power_grid --audit a.jsonl --plot a.html", "replay a.jsonl --verify", "quickstart auditor", "demo"):
    done = CliRunner().invoke(main, words.split())
    assert done.exit_code == 0, done.output
assert verify("a.jsonl").ok
'
smoke inputlab "$ripieno $(wheel ripieno_inputlab)" '
from click.testing import CliRunner
from agentinputlab.cli._app import agentinputlab
from agentinputlab.registry import AlgorithmRegistry
from ripieno.cli import cli as ripieno
from ripieno.verify import verify
assert len(AlgorithmRegistry.default().list_methods()) == 27
for words in ("smoke", "doctor --offline", "datasets list", "selector list", "campaign smoke --out small",
              "retail run --treatment plan.plan_and_solve.ps_prompt --tasks 2 --out pairs"):
    done = CliRunner().invoke(agentinputlab, words.split())
    assert done.exit_code == 0, done.output
done = CliRunner().invoke(ripieno, ["demo", "retail", "--out", "demo"])
assert done.exit_code == 0, done.output
assert all(verify(name).ok for name in ("small", "pairs", "demo"))
'
