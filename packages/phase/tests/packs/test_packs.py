"""Every domain pack is valid, runs, records, replays, and is helped by its supervisor."""

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from scpn_phase_orchestrator.binding import (
    binding_warnings,
    load_binding_spec,
    validate_binding_spec,
    validate_binding_spec_security,
)
from scpn_phase_orchestrator.domainpacks import pack_names, packs_root, resolve_spec_path
from scpn_phase_orchestrator.runtime.audit_logger import AuditLogger
from scpn_phase_orchestrator.runtime.replay import ReplayEngine
from scpn_phase_orchestrator.runtime.simulation import SimulationResult, simulate
from scpn_phase_orchestrator.supervisor.policy_rules import load_policy_rules

STEPS = 1_000
SEEDS = (42, 43, 44)
SUBJECTS = {  # name: layers, oscillators
    "minimal_domain": (2, 4), "queuewaves": (3, 6), "geometry_walk": (2, 8), "bio_stub": (4, 16),
    "agent_coordination": (5, 16), "autonomous_vehicles": (3, 8), "brain_connectome": (4, 12),
    "cardiac_rhythm": (4, 10), "chemical_reactor": (4, 10), "circadian_biology": (4, 10),
    "digital_twin_nchannel": (3, 6), "edge_consensus_nchannel": (3, 6), "epidemic_sir": (3, 8),
    "financial_markets": (4, 8), "firefly_swarm": (2, 8), "fusion_equilibrium": (6, 12), "gene_oscillator": (3, 6),
    "identity_coherence": (6, 35), "laser_array": (3, 8), "manufacturing_spc": (3, 9), "metaphysics_demo": (3, 7),
    "musical_acoustics": (3, 9), "network_security": (3, 8), "neuroscience_eeg": (6, 14), "plasma_control": (8, 16),
    "pll_clock": (3, 8), "power_grid": (5, 12), "power_safety_nchannel": (3, 6), "quantum_simulation": (2, 8),
    "robotic_cpg": (4, 8), "rotating_machinery": (4, 10), "satellite_constellation": (3, 8),
    "sleep_architecture": (4, 8), "swarm_robotics": (5, 13), "traffic_flow": (6, 14), "vortex_shedding": (3, 9),
}  # fmt: skip
TIERS = {
    "cardiac_rhythm": "clinical", "chemical_reactor": "production", "manufacturing_spc": "consumer",
    "pll_clock": "production", "power_grid": "production", "robotic_cpg": "consumer",
    "rotating_machinery": "consumer", "swarm_robotics": "consumer", "traffic_flow": "consumer",
}  # fmt: skip
SECTIONS = [
    "What it models", "Layers and knobs", "Parameters and their sources", "What supervision achieves", "Limits",
    "Try it",
]  # fmt: skip
KNOBS_CANNOT_HELP: dict[str, str] = {}
"""Packs that no lever can improve, with the outcome that open loop and supervised share; their README says why."""

every_pack = pytest.mark.parametrize("name", sorted(SUBJECTS))


def test_the_packs_are_the_documented_ones():
    assert pack_names() == sorted(SUBJECTS)


@every_pack
def test_is_what_was_documented(name):
    spec = load_binding_spec(resolve_spec_path(name))
    layers = len(spec.layers), sum(len(layer.oscillator_ids) for layer in spec.layers)
    assert (spec.name, layers, spec.safety_tier) == (name, SUBJECTS[name], TIERS.get(name, "research"))
    assert spec.supervisor.strategy == "objectives"


@every_pack
def test_is_valid_and_wise(name):
    path = resolve_spec_path(name)
    spec = load_binding_spec(path)
    assert validate_binding_spec(spec) == []
    assert validate_binding_spec_security(spec) == []
    assert binding_warnings(spec) == []
    if (path.parent / "policy.yaml").exists():
        assert load_policy_rules(path.parent / "policy.yaml")


@every_pack
def test_readme_says_what_a_reader_needs(name):
    text = (packs_root() / name / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS
    assert f"spo run {name}" in text
    assert ("the knobs cannot help" in text.lower()) == (name in KNOBS_CANNOT_HELP)


@every_pack
def test_audited_run_replays_bit_for_bit(name, tmp_path: Path):
    path = resolve_spec_path(name)
    log = tmp_path / "run.jsonl"
    with AuditLogger(log) as logger:
        result = simulate(
            load_binding_spec(path), steps=STEPS, seed=SEEDS[0], audit_logger=logger, binding_spec_path=path
        )
    assert np.isfinite(result.final_phases).all()
    replay = ReplayEngine(log)
    entries = replay.load()
    assert replay.verify_integrity(entries) == (True, len(entries))
    assert replay.closing is not None
    header = replay.load_header(entries)
    engine = replay.build_engine(header)
    verify = replay.verify_determinism_sl_chained if result.amplitude_mode else replay.verify_determinism_chained
    assert verify(engine, entries, atol=0.0) == (True, STEPS - 1)


@cache
def runs(name: str, *, supervised: bool) -> list[SimulationResult]:
    path = resolve_spec_path(name)
    spec = load_binding_spec(path)
    return [simulate(spec, steps=STEPS, seed=seed, policy_enabled=supervised, binding_spec_path=path) for seed in SEEDS]


@every_pack
def test_supervision_ends_better_than_open_loop(name):
    spec = load_binding_spec(resolve_spec_path(name))
    for opened, supervised in zip(runs(name, supervised=False), runs(name, supervised=True), strict=True):
        assert opened.verdict is not None
        assert supervised.verdict is not None
        if name in KNOBS_CANNOT_HELP:
            assert opened.verdict.outcome == supervised.verdict.outcome == KNOBS_CANNOT_HELP[name]
        elif spec.objectives.bad_layers:
            assert supervised.verdict.better_than(opened.verdict), (opened.verdict, supervised.verdict)
        else:
            assert not opened.verdict.better_than(supervised.verdict), (opened.verdict, supervised.verdict)
        is_locked = any(not finding.holds for finding in supervised.verdict.layers if not finding.is_good)
        assert not (is_locked and supervised.final_regime == "nominal"), supervised.verdict


@every_pack
def test_the_table_of_the_readme_is_what_runs_give(name):
    text = (packs_root() / name / "README.md").read_text(encoding="utf-8")
    for side, supervised in ((1, False), (2, True)):
        verdicts = [result.verdict for result in runs(name, supervised=supervised)]
        for k, layer in enumerate(verdicts[0].layers):
            (row,) = re.findall(rf"^\| `{layer.name}`: .*$", text, re.MULTILINE)
            written = [float(value) for value in row.strip("| ").split(" | ")[side].split()]
            measured = [v.layers[k].mean_r if layer.is_good else v.layers[k].lock for v in verdicts]
            # Other processors round differently, and a long run amplifies that.
            assert written == pytest.approx(measured, abs=0.05)
