"""Write what supervision achieves into the README of every domain pack: `.venv/bin/python scripts/pack_findings.py`.

Names of packs as arguments limit it to these. A test compares the tables with fresh runs.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from scpn_phase_orchestrator.binding import BindingSpec, load_binding_spec
from scpn_phase_orchestrator.domainpacks import pack_names, packs_root, resolve_spec_path
from scpn_phase_orchestrator.runtime.simulation import simulate
from scpn_phase_orchestrator.supervisor.verdict import Verdict

STEPS = 1_000
SEEDS = (42, 43, 44)
_BLOCK = re.compile(r"<!-- measured -->\n(.*?<!-- end -->\n)?", re.DOTALL)


def verdicts(name: str, *, supervised: bool) -> list[Verdict]:
    """Run a pack from every seed and give the verdicts."""
    path = resolve_spec_path(name)
    spec = load_binding_spec(path)
    found: list[Verdict] = []
    for seed in SEEDS:
        result = simulate(spec, steps=STEPS, seed=seed, policy_enabled=supervised, binding_spec_path=path)
        assert result.verdict is not None
        found.append(result.verdict)
    return found


def render(name: str) -> str:
    """Give the block for the README of a pack."""
    spec = load_binding_spec(resolve_spec_path(name))
    before, after = verdicts(name, supervised=False), verdicts(name, supervised=True)
    lines = [
        "<!-- measured -->",
        f"{STEPS:,} steps of {spec.sample_period_s:g} s, seeds {', '.join(map(str, SEEDS))}, the last quarter judged:",
        "",
        "| | open loop | supervised |",
        "|---|---|---|",
        f"| outcome | {_outcomes(before)} | {_outcomes(after)} |",
    ]
    for k, layer in enumerate(after[0].layers):
        label = _wanted(spec, layer.name, is_good=layer.is_good)
        columns = [
            " ".join(f"{verdict.layers[k].mean_r if layer.is_good else verdict.layers[k].lock:.2f}" for verdict in side)
            for side in (before, after)
        ]
        lines.append(f"| {label} | {columns[0]} | {columns[1]} |")
    return "\n".join([*lines, "<!-- end -->", ""])


def _wanted(spec: BindingSpec, name: str, *, is_good: bool) -> str:
    if is_good:
        return f"`{name}`: R, wanted {spec.supervisor.good_target:g} or more"
    return f"`{name}`: lock, wanted {spec.supervisor.bad_ceiling:g} or less"


def _outcomes(side: list[Verdict]) -> str:
    words = [verdict.outcome.value.replace("_", " ") for verdict in side]
    return words[0] if len(set(words)) == 1 else ", ".join(words)


def main(names: list[str]) -> None:
    """Replace the block in the READMEs."""
    for name in names or pack_names():
        page: Path = packs_root() / name / "README.md"
        text = page.read_text(encoding="utf-8")
        if not _BLOCK.search(text):
            sys.exit(f"{page}: no line '<!-- measured -->' to write behind")
        block = render(name)
        page.write_text(_BLOCK.sub(lambda _, block=block: block, text, count=1), encoding="utf-8")
        print(name)


if __name__ == "__main__":
    main(sys.argv[1:])
