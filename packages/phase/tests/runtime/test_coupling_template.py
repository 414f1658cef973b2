"""A spec may name the matrix that couples its oscillators."""

from dataclasses import replace

import numpy as np
import pytest

from scpn_phase_orchestrator.binding import (
    binding_document,
    binding_warnings,
    load_binding_spec,
    parse_binding_spec,
    resolved_binding_config,
    validate_binding_spec,
)
from scpn_phase_orchestrator.runtime.audit_logger import AuditLogger
from scpn_phase_orchestrator.runtime.replay import ReplayEngine
from scpn_phase_orchestrator.runtime.simulation import simulate
from scpn_phase_orchestrator.runtime.step_core import StepCore

RING = [[0.3 if (i - j) % 5 == 1 else 0.0 for j in range(5)] for i in range(5)]


@pytest.fixture
def spec(s1_path):
    documented = load_binding_spec(s1_path)
    return replace(documented, coupling=replace(documented.coupling, templates={"ring": RING}, template="ring"))


def test_a_run_is_coupled_by_the_named_matrix_and_replays(spec, tmp_path):
    core = StepCore(spec)
    assert core.coupling.active_template == "ring"
    assert np.array_equal(core.coupling.knm, RING)
    with AuditLogger(tmp_path / "log.jsonl") as log:
        ring = simulate(spec, steps=50, audit_logger=log)
    assert not np.array_equal(
        ring.final_phases,
        simulate(replace(spec, coupling=replace(spec.coupling, template=None)), steps=50).final_phases,
    )
    assert ReplayEngine(tmp_path / "log.jsonl").verify().is_bit_identical


def test_amplitude_coupling_stays_the_declared_one(spec, s1_path):
    from scpn_phase_orchestrator.binding.types import AmplitudeSpec

    core = StepCore(replace(spec, amplitude=AmplitudeSpec(1.0, 0.3, 0.2, 0.3)))
    assert np.array_equal(core.coupling.knm, RING)
    assert core.coupling.knm_r is not None
    assert core.coupling.knm_r[0, 1] == pytest.approx(0.2 * np.exp(-0.3))


def test_it_survives_writing_and_reading(spec):
    import yaml

    again = parse_binding_spec(yaml.safe_dump(binding_document(spec)))
    assert again.coupling == spec.coupling
    assert resolved_binding_config(spec)["coupling"]["template"] == "ring"


def test_an_unknown_name_is_refused_and_an_unused_matrix_is_warned_of(spec):
    wrong = replace(spec, coupling=replace(spec.coupling, template="rnig"))
    (error,) = [message for message in validate_binding_spec(wrong) if "template" in message]
    assert "'rnig' is not among coupling.templates" in error
    assert "ring" in error
    unused = replace(spec, coupling=replace(spec.coupling, template=None))
    assert any("coupling.templates" in warning for warning in binding_warnings(unused))
    assert not any("coupling.templates" in warning for warning in binding_warnings(spec))


def test_the_stability_warning_looks_at_the_matrix_in_use(spec):
    strong = [[2_000.0 * value for value in row] for row in RING]
    unstable = replace(spec, coupling=replace(spec.coupling, templates={"ring": strong}))
    assert any("too long for a stable step" in warning for warning in binding_warnings(unstable))
