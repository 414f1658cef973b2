"""The Python door: root exports, `Orchestrator`, `evaluate_binding_spec`."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import scpn_phase_orchestrator as phase
from scpn_phase_orchestrator.api import Orchestrator, evaluate_binding_spec
from scpn_phase_orchestrator.binding.loader import load_binding_spec
from scpn_phase_orchestrator.binding.types import AmplitudeSpec, HierarchyLayer, IntegrationSpec, ObjectivePartition
from scpn_phase_orchestrator.runtime.simulation import simulate

DOCUMENTED = [
    "AuditLogger",
    "BifurcationDiagram",
    "BindingSpec",
    "BoundaryObserver",
    "ControlAction",
    "CouplingBuilder",
    "PhaseExtractor",
    "PhaseState",
    "Orchestrator",
    "OrchestratorState",
    "QPUDataArtifact",
    "RegimeManager",
    "SPOError",
    "SparseUPDEEngine",
    "SheafUPDEEngine",
    "StuartLandauEngine",
    "SupervisorPolicy",
    "UPDEEngine",
    "compile_domain_to_qpu_artifact",
    "emit_qpu_data_artifact",
    "find_critical_coupling",
    "lyapunov_spectrum",
    "trace_sync_transition",
    "validate_qpu_data_artifact",
]


class TestRootExports:
    @pytest.mark.parametrize("name", DOCUMENTED)
    def test_every_documented_name_is_there(self, name: str) -> None:
        assert getattr(phase, name).__name__ == name
        assert name in phase.__all__
        assert name in dir(phase)

    def test_nothing_else_is_exported(self) -> None:
        assert sorted(phase.__all__) == sorted(DOCUMENTED)
        with pytest.raises(AttributeError, match="has no attribute 'Orchestra'"):
            phase.Orchestra  # noqa: B018

    def test_importing_the_package_loads_no_numbers(self) -> None:
        code = (
            "import sys, scpn_phase_orchestrator; print([m for m in ('numpy', 'numba', 'scipy') if m in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]"


class TestOrchestrator:
    @pytest.mark.parametrize("integration", [IntegrationSpec(), IntegrationSpec("rk4", 3)], ids=str)
    def test_a_run_is_the_open_loop_of_simulate(self, s1_path: Path, integration: IntegrationSpec) -> None:
        spec = replace(load_binding_spec(s1_path), integration=integration)
        state = Orchestrator(spec).run(steps=50)
        result = simulate(spec, steps=50, policy_enabled=False)
        np.testing.assert_array_equal(state.phases, result.final_phases)
        assert json.loads(json.dumps(state.to_record(), allow_nan=False)) == {
            "spec_name": "s1",
            "steps": 50,
            "oscillator_count": 5,
            "order_parameter": state.order_parameter,
            "mean_phase": state.mean_phase,
            "sample_period_s": 0.01,
        }

    def test_no_steps_give_the_initial_phases(self, s1_path: Path) -> None:
        state = Orchestrator.from_yaml(s1_path).run(steps=0)
        np.testing.assert_array_equal(state.phases, np.random.default_rng(42).uniform(0, 2 * np.pi, 5))

    def test_specs_that_it_cannot_run_are_refused(self, s1_path: Path) -> None:
        spec = load_binding_spec(s1_path)
        with pytest.raises(TypeError, match="must be a BindingSpec, got dict"):
            Orchestrator({})  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="safety_tier must be 'research'"):
            Orchestrator(replace(spec, safety_tier="production"))
        with pytest.raises(ValueError, match="amplitude"):
            Orchestrator(replace(spec, amplitude=AmplitudeSpec(1.0, 0.3)))
        with pytest.raises(ValueError, match="version"):
            Orchestrator(replace(spec, version="1"))
        with pytest.raises(ValueError, match="oscillator"):
            Orchestrator(replace(spec, layers=[HierarchyLayer("none", 0, [])], objectives=ObjectivePartition([0], [])))

    @pytest.mark.parametrize("name", ["steps", "seed"])
    @pytest.mark.parametrize("value", [-1, True, 2.0])
    def test_steps_and_seed_must_be_counts(self, s1_path: Path, name: str, value: object) -> None:
        with pytest.raises(ValueError, match=name):
            Orchestrator.from_yaml(s1_path).run(**{name: value})  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=name):
            evaluate_binding_spec(s1_path, **{name: value})  # type: ignore[arg-type]


class TestEvaluateBindingSpec:
    def test_a_path_and_its_spec_give_the_same_run(self, s1_path: Path) -> None:
        by_path = evaluate_binding_spec(s1_path, steps=30)
        by_text = evaluate_binding_spec(str(s1_path), steps=30)
        by_spec = evaluate_binding_spec(load_binding_spec(s1_path), steps=30)
        assert by_path.to_record() == by_text.to_record() == by_spec.to_record()

    def test_a_path_brings_its_rules(self, s1_path: Path, tmp_path: Path) -> None:
        spec_path = tmp_path / "binding_spec.yaml"
        spec_path.write_bytes(s1_path.read_bytes())
        (tmp_path / "policy.yaml").write_text(
            "rules:\n"
            "  - name: always\n"
            "    regime: [NOMINAL, DEGRADED, CRITICAL, RECOVERY]\n"
            "    condition: {metric: stability_proxy, op: '>=', threshold: 0.0}\n"
            "    action: {knob: K, scope: layer_1, value: -0.1, ttl_s: 1.0}\n"
        )
        assert evaluate_binding_spec(spec_path, steps=1).action_total == 2
        assert evaluate_binding_spec(spec_path, steps=1, policy_enabled=False).action_total == 0
        assert evaluate_binding_spec(tmp_path, steps=1).action_total == 2

    def test_an_invalid_spec_is_refused_with_all_its_faults(self, s1_path: Path) -> None:
        spec = replace(load_binding_spec(s1_path), version="1", control_period_s=0.001)
        with pytest.raises(ValueError, match=r"version.*; .*control"):
            evaluate_binding_spec(spec)

    def test_any_tier_may_be_simulated(self, s1_path: Path) -> None:
        spec = replace(load_binding_spec(s1_path), safety_tier="production")
        assert evaluate_binding_spec(spec, steps=1).steps == 1
