"""The simulation loop: the acceptance numbers of spec S1, gates, hooks, records."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scpn_phase_orchestrator.binding.loader import load_binding_spec
from scpn_phase_orchestrator.binding.types import (
    ActuatorMapping,
    AmplitudeSpec,
    BindingSpec,
    CouplingSpec,
    CrossChannelCouplingSpec,
    DriverSpec,
    GeometrySpec,
    HierarchyLayer,
    ImprintSpec,
    IntegrationSpec,
    ObjectivePartition,
    SupervisorSpec,
)
from scpn_phase_orchestrator.coupling.knm import CouplingState
from scpn_phase_orchestrator.exceptions import (
    AuditError,
    BindingError,
    EngineError,
    PolicyError,
    SPOError,
    ValidationError,
)
from scpn_phase_orchestrator.monitor.twin_confidence import TwinConfidenceScore
from scpn_phase_orchestrator.monitor.twin_conformal_gate import ConformalGateConfig, TwinConformalGate
from scpn_phase_orchestrator.runtime.audit_logger import AuditLogger
from scpn_phase_orchestrator.runtime.replay import ReplayEngine
from scpn_phase_orchestrator.runtime.simulation import (
    SimulationScenarioContext,
    SimulationTwinConfidenceContext,
    load_rules_beside,
    simulate,
)

RECORD_KEYS = [
    "spec_name",
    "steps",
    "policy_enabled",
    "control_mode",
    "amplitude_mode",
    "r_good",
    "r_bad",
    "separation",
    "final_regime",
    "mean_amplitude",
    "boundary_violation_total",
    "action_total",
    "conformal_admission_total",
    "conformal_admission_rejections",
    "last_conformal_admission",
    "audit_event_stream_integrity",
]


@pytest.fixture
def s1(s1_path: Path) -> BindingSpec:
    return load_binding_spec(s1_path)


def with_amplitudes(spec: BindingSpec, **more: Any) -> BindingSpec:
    return replace(spec, amplitude=AmplitudeSpec(mu=1.0, epsilon=0.3, amp_coupling_strength=0.2), **more)


class TestDocumentedNumbers:
    def test_exceptions_derive_from_builtins(self) -> None:
        assert issubclass(BindingError, ValueError)
        assert issubclass(EngineError, RuntimeError)
        assert issubclass(AuditError, SPOError)

    def test_initial_phases_are_those_of_the_seeded_generator(self, s1: BindingSpec) -> None:
        four = replace(
            s1,
            layers=[HierarchyLayer("all", 0, ["a", "b", "c", "d"])],
            objectives=ObjectivePartition([0], []),
        )
        assert simulate(four, steps=0).final_phases.tolist() == [
            4.862909272689599,
            2.757554564287996,
            5.3947298351621535,
            4.381692553882582,
        ]

    def test_one_step(self, s1: BindingSpec) -> None:
        result = simulate(s1, steps=1)
        assert (round(result.r_good, 6), round(result.r_bad, 6)) == (0.470103, 0.347446)
        assert (result.final_regime, result.action_total) == ("degraded", 1)
        assert result.final_phases.round(6).tolist() == [4.872357, 2.776347, 5.399269, 4.416831, 0.565547]

    def test_one_step_open_loop(self, s1: BindingSpec) -> None:
        result = simulate(s1, steps=1, policy_enabled=False)
        assert result.final_phases.tolist() == simulate(s1, steps=1).final_phases.tolist()
        assert (result.final_regime, result.action_total) == ("nominal", 0)

    @pytest.mark.parametrize(
        ("steps", "supervised", "actions", "open_loop"),
        [
            (10, (0.512705, 0.598942), 2, (0.510016, 0.595630)),
            (100, (0.994587, 0.735958), 10, (0.955255, 0.555726)),
            (300, (0.999193, 0.893594), 21, (0.997227, 0.062418)),
        ],
    )
    def test_order_after_many_steps(
        self,
        s1: BindingSpec,
        steps: int,
        supervised: tuple[float, float],
        actions: int,
        open_loop: tuple[float, float],
    ) -> None:
        closed = simulate(s1, steps=steps)
        assert (round(closed.r_good, 6), round(closed.r_bad, 6)) == supervised
        assert closed.action_total == actions
        opened = simulate(s1, steps=steps, policy_enabled=False)
        assert (round(opened.r_good, 6), round(opened.r_bad, 6)) == open_loop

    def test_a_hundred_steps_end_nominal(self, s1: BindingSpec) -> None:
        assert simulate(s1, steps=100).final_regime == "nominal"

    def test_the_record_has_the_documented_keys_and_is_json(self, s1: BindingSpec) -> None:
        record = simulate(s1, steps=20).to_record()
        assert list(record) == RECORD_KEYS
        assert json.loads(json.dumps(record, allow_nan=False)) == record

    def test_equal_arguments_give_equal_bits(self, s1: BindingSpec) -> None:
        for spec in (s1, with_amplitudes(s1, imprint_model=ImprintSpec(0.1, 2.0, ["K", "mu"]))):
            first, second = simulate(spec, steps=60, seed=7), simulate(spec, steps=60, seed=7)
            assert first.final_phases.tobytes() == second.final_phases.tobytes()
            assert first.r_good_history == second.r_good_history
            assert first.r_bad_history == second.r_bad_history
            assert first.to_record() == second.to_record()

    def test_no_step_gives_the_initial_phases_and_zeros(self, s1: BindingSpec) -> None:
        result = simulate(with_amplitudes(s1), steps=0)
        np.testing.assert_array_equal(result.final_phases, np.random.default_rng(42).uniform(0, 2 * np.pi, 5))
        assert (result.r_good, result.r_bad, result.mean_amplitude, result.verdict) == (0.0, 0.0, None, None)
        assert result.final_amplitudes is not None
        assert result.final_amplitudes.size == 0


class TestRefusals:
    def test_another_control_mode(self, s1: BindingSpec) -> None:
        with pytest.raises(ValueError, match="control_mode must be 'supervisor_policy'"):
            simulate(s1, control_mode="koopman")  # type: ignore[arg-type]

    def test_a_gate_without_its_source(self, s1: BindingSpec) -> None:
        with pytest.raises(ValueError, match=r"^conformal_gate and twin_confidence_source must be supplied together$"):
            simulate(s1, conformal_gate=TwinConformalGate(ConformalGateConfig()))

    def test_layers_without_oscillators(self, s1: BindingSpec) -> None:
        with pytest.raises(ValueError, match=r"^no oscillators defined in layers$"):
            simulate(replace(s1, layers=[HierarchyLayer("empty", 0, [])]))

    @pytest.mark.parametrize("name", ["steps", "seed"])
    @pytest.mark.parametrize("value", [-1, True, 1.5, "3", None])
    def test_steps_and_seed_must_be_counts(self, s1: BindingSpec, name: str, value: object) -> None:
        with pytest.raises(ValueError, match=name):
            simulate(s1, **{"steps": 1, name: value})  # type: ignore[arg-type]

    def test_a_step_in_which_a_frequency_turns_half_a_circle(self, s1: BindingSpec) -> None:
        slow = replace(s1, sample_period_s=2.0, control_period_s=2.0)
        with pytest.raises(EngineError, match=r"too long for a natural frequency of 3 rad/s.*at least 2 substeps"):
            simulate(slow, steps=1)
        assert simulate(slow, steps=1, substeps=2).steps == 1

    def test_a_diverging_run_names_step_and_size(self, s1: BindingSpec) -> None:
        def explode(context: SimulationScenarioContext) -> None:
            if context.step == 3:
                context.omegas = np.full(5, 1e300)

        with pytest.raises(EngineError, match=r"step 3 .*1e\+298 rad"):
            simulate(s1, steps=10, scenario_hook=explode)

    def test_an_unknown_imprint_target_or_constraint(self, s1: BindingSpec) -> None:
        with pytest.raises(ValidationError, match=r"imprint_model\.modulates"):
            simulate(replace(s1, imprint_model=ImprintSpec(0.1, 1.0, ["omega"])), steps=1)
        with pytest.raises(ValidationError, match="constraint_type"):
            simulate(replace(s1, geometry_prior=GeometrySpec("hyperbolic", {})), steps=1)


class TestHooks:
    def test_a_hook_cannot_change_the_shape_of_the_phases(self, s1: BindingSpec) -> None:
        def shrink(context: SimulationScenarioContext) -> None:
            context.phases = np.zeros(3)

        with pytest.raises(ValueError, match=r"^scenario phases must have shape \(5,\)$"):
            simulate(s1, steps=1, scenario_hook=shrink)

    @pytest.mark.parametrize(
        ("field", "value", "words"),
        [
            ("zeta", True, "scenario zeta must be a finite real scalar"),
            ("zeta", float("nan"), "scenario zeta must be a finite real scalar"),
            ("psi_target", "0", "scenario psi_target must be a finite real scalar"),
            ("phases", np.array([0.0, 1.0, np.inf, 0.0, 0.0]), "scenario phases must contain only finite values"),
            ("phases", np.zeros(5, dtype=complex), "scenario phases must hold real numbers"),
            ("omegas", np.zeros((5, 1)), r"scenario omegas must have shape \(5,\)"),
            ("coupling", np.zeros((5, 5)), "scenario coupling must be a CouplingState"),
            ("coupling", CouplingState(np.ones((5, 5)), np.zeros((5, 5)), "x"), "zero diagonal"),
            ("coupling", CouplingState(np.zeros((4, 4)), np.zeros((5, 5)), "x"), r"coupling.knm must have shape"),
        ],
    )
    def test_what_a_hook_leaves_is_checked(self, s1: BindingSpec, field: str, value: object, words: str) -> None:
        def change(context: SimulationScenarioContext) -> None:
            setattr(context, field, value)

        with pytest.raises(ValueError, match=words):
            simulate(s1, steps=1, scenario_hook=change)

    def test_a_hook_is_called_before_every_step_with_the_generator_of_the_run(self, s1: BindingSpec) -> None:
        seen: list[tuple[int, float]] = []
        simulate(s1, steps=3, scenario_hook=lambda context: seen.append((context.step, context.rng.random())))
        generator = np.random.default_rng(42)
        generator.uniform(0, 2 * np.pi, 5)
        assert seen == [(step, generator.random()) for step in range(3)]

    def test_phases_of_a_hook_are_wrapped(self, s1: BindingSpec, tmp_path: Path) -> None:
        def turn(context: SimulationScenarioContext) -> None:
            context.phases = context.phases + 2 * np.pi

        plain, turned = simulate(s1, steps=5), simulate(s1, steps=5, scenario_hook=turn)
        np.testing.assert_allclose(turned.final_phases, plain.final_phases, atol=1e-12)

    def test_changed_frequencies_and_coupling_last(self, s1: BindingSpec) -> None:
        def stop(context: SimulationScenarioContext) -> None:
            if context.step == 0:
                context.omegas = np.zeros(5)
                context.coupling = replace(context.coupling, knm=np.zeros((5, 5)))
                context.zeta = 0.0

        result = simulate(s1, steps=20, policy_enabled=False, scenario_hook=stop)
        np.testing.assert_array_equal(result.final_phases, np.random.default_rng(42).uniform(0, 2 * np.pi, 5))

    def test_a_hook_that_writes_into_the_matrix_changes_it(self, s1: BindingSpec) -> None:
        def cut(context: SimulationScenarioContext) -> None:
            context.coupling.knm[:] = 0.0

        result = simulate(s1, steps=2, scenario_hook=cut)
        assert result.history is not None
        np.testing.assert_array_equal(result.history.final_knm, 0.0)

    def test_a_hook_cannot_reach_the_coupling_through_a_matrix_it_kept(self, s1: BindingSpec, tmp_path: Path) -> None:
        kept: list[np.ndarray] = []

        def keep(context: SimulationScenarioContext) -> None:
            if not kept:
                kept.append(2.0 * context.coupling.knm)
                context.coupling = replace(context.coupling, knm=kept[0])
            kept[0][0, 1] += 0.1 * context.step

        log = tmp_path / "run.jsonl"
        with AuditLogger(log) as logger:
            simulate(s1, steps=10, audit_logger=logger, scenario_hook=keep)
        assert ReplayEngine(log).verify().ok

    def test_actions_go_on_from_the_coupling_that_a_hook_set(self, s1: BindingSpec) -> None:
        reference: list[np.ndarray[Any, Any]] = []

        def drop(context: SimulationScenarioContext) -> None:
            if context.step == 0:
                reference.append(context.coupling.knm.copy())
            if 5 <= context.step < 10:
                context.coupling = replace(context.coupling, knm=0.2 * reference[0])

        result = simulate(s1, steps=12, scenario_hook=drop)
        assert result.history is not None
        # The action of step 5 was taken back by the hook of step 6; the one of step 10 stands.
        np.testing.assert_allclose(result.history.final_knm, 1.05 * 0.2 * reference[0], rtol=1e-12)

    def test_a_coupling_drop_with_noise_gives_the_documented_resilience(self, s1: BindingSpec) -> None:
        """The numbers of the documented fault experiment: coupling drop at 20 for 30 steps, noise at 25 for 5."""
        reference: list[np.ndarray[Any, Any]] = []

        def disturb(context: SimulationScenarioContext) -> None:
            if context.step == 0:
                reference.append(context.coupling.knm.copy())
            if 20 <= context.step < 50:
                context.coupling = replace(context.coupling, knm=reference[0] * (1 - 0.8))
            if 25 <= context.step < 30:
                context.phases = context.phases + context.rng.normal(0.0, 0.2, 5)

        nominal, perturbed = simulate(s1, steps=200), simulate(s1, steps=200, scenario_hook=disturb)
        drop = np.array(nominal.r_good_history) - np.array(perturbed.r_good_history)
        assert round(drop.max(), 4) == 0.2088
        assert round(np.abs(drop[20:]).mean(), 4) == 0.1292
        assert round(abs(drop[-1]), 4) == 0.0615
        assert (round(nominal.r_good, 4), round(perturbed.r_good, 4)) == (0.9987, 0.9371)

    def test_a_hook_that_changes_nothing_changes_nothing(self, s1: BindingSpec) -> None:
        def look(context: SimulationScenarioContext) -> None:
            assert context.layer_osc_ranges == {0: [0, 1, 2], 1: [3, 4]}

        for spec in (s1, with_amplitudes(s1)):
            plain, hooked = simulate(spec, steps=50), simulate(spec, steps=50, scenario_hook=look)
            assert plain.final_phases.tobytes() == hooked.final_phases.tobytes()


def score(z: float) -> TwinConfidenceScore:
    return TwinConfidenceScore(
        confidence=float(np.exp(-z / 3)),
        status="healthy",
        phase_js_divergence=0.0,
        order_wasserstein=0.0,
        phase_js_z=z,
        order_w1_z=0.0,
        composite_z=z,
        phase_js_within_band=True,
        order_w1_within_band=True,
        backend="numpy",
        score_hash="",
    )


def _no_score(_: SimulationTwinConfidenceContext) -> float:
    return 0.5


class TestConformalGate:
    @staticmethod
    def gate() -> TwinConformalGate:
        gate = TwinConformalGate(ConformalGateConfig(adaptation_rate=1e-9))  # does not learn to admit
        gate.calibrate([float(k) for k in range(1, 20)])
        return gate

    def test_a_gate_that_always_rejects_lets_nothing_act(self, s1: BindingSpec) -> None:
        result = simulate(s1, steps=52, conformal_gate=self.gate(), twin_confidence_source=lambda _: score(1e6))
        assert result.action_total == 0
        assert result.conformal_admission_rejections == result.conformal_admission_total == 11
        assert result.last_conformal_admission is not None
        assert result.to_record()["last_conformal_admission"]["admitted"] is False
        opened = simulate(s1, steps=52, policy_enabled=False)
        assert result.final_phases.tobytes() == opened.final_phases.tobytes()

    def test_a_gate_that_always_admits_changes_nothing(self, s1: BindingSpec) -> None:
        result = simulate(s1, steps=52, conformal_gate=self.gate(), twin_confidence_source=lambda _: score(0.0))
        assert result.final_phases.tobytes() == simulate(s1, steps=52).final_phases.tobytes()
        assert result.conformal_admission_rejections == 0

    def test_the_source_sees_the_tick(self, s1: BindingSpec) -> None:
        seen: list[SimulationTwinConfidenceContext] = []

        def watch(context: SimulationTwinConfidenceContext) -> TwinConfidenceScore:
            seen.append(context)
            return score(0.0)

        result = simulate(s1, steps=6, conformal_gate=self.gate(), twin_confidence_source=watch)
        assert [context.step for context in seen] == [0, 5]
        assert (seen[0].regime, seen[0].proposed_action_count) == ("degraded", 1)
        assert seen[-1].r_good == result.r_good
        assert len(seen[0].layer_order_parameters) == 2
        np.testing.assert_array_equal(seen[-1].model_phases, result.final_phases)

    def test_a_source_that_gives_something_else_is_refused(self, s1: BindingSpec) -> None:
        with pytest.raises(ValueError, match=r"^twin_confidence_source must return TwinConfidenceScore$"):
            simulate(s1, steps=1, conformal_gate=self.gate(), twin_confidence_source=_no_score)  # type: ignore[arg-type]


class TestControl:
    @pytest.mark.parametrize(("control_period_s", "ticks"), [(0.05, [0, 5, 10]), (0.025, list(range(0, 12, 2)))])
    def test_decisions_come_at_the_control_period(
        self, s1: BindingSpec, control_period_s: float, ticks: list[int]
    ) -> None:
        result = simulate(replace(s1, control_period_s=control_period_s), steps=12)
        assert result.history is not None
        steps = [step for step, _ in result.history.actions]
        assert set(steps) <= set(ticks)
        assert steps[0] == 0

    def test_the_clock_of_rules_runs(self, s1: BindingSpec, tmp_path: Path, s1_path: Path) -> None:
        """A rule with a cooldown of 0.1 s fires at 0, 0.1, 0.2 s and so on, not once a run."""
        spec_path = tmp_path / "binding_spec.yaml"
        spec_path.write_bytes(s1_path.read_bytes())
        (tmp_path / "policy.yaml").write_text(
            "rules:\n"
            "  - name: nudge\n"
            "    regime: [NOMINAL, DEGRADED, CRITICAL, RECOVERY]\n"
            "    condition: {metric: stability_proxy, op: '>', threshold: 0.0}\n"
            "    action: {knob: alpha, scope: layer_1, value: 0.01, ttl_s: 1.0}\n"
            "    cooldown_s: 0.1\n"
        )
        result = simulate(s1, steps=50, binding_spec_path=spec_path)
        assert result.history is not None
        fired = [step for step, action in result.history.actions if action.justification == "policy rule: nudge"]
        assert fired == [0, 10, 20, 30, 40]

    def test_a_rule_on_a_layer_that_does_not_exist_is_refused_at_the_start(
        self, s1: BindingSpec, tmp_path: Path
    ) -> None:
        (tmp_path / "policy.yaml").write_text(
            "rules:\n"
            "  - name: lost\n"
            "    regime: [NOMINAL]\n"
            "    condition: {metric: stability_proxy, op: '>', threshold: 0.0}\n"
            "    action: {knob: K, scope: layer_9, value: 0.01, ttl_s: 1.0}\n"
        )
        with pytest.raises(PolicyError, match=r"rule 'lost'.*layer_9"):
            simulate(s1, steps=1, binding_spec_path=tmp_path / "binding_spec.yaml")

    def test_a_spec_that_names_a_rule_file_needs_it(self, s1: BindingSpec, tmp_path: Path) -> None:
        with pytest.raises(PolicyError, match=r"'mine.yaml', but there is no such file"):
            load_rules_beside(replace(s1, policy="mine.yaml"), tmp_path / "binding_spec.yaml")
        assert load_rules_beside(s1, tmp_path / "binding_spec.yaml") == []

    def test_an_open_loop_never_depends_on_supervisor_actuators_or_rules(self, s1: BindingSpec, tmp_path: Path) -> None:
        plain = simulate(s1, steps=80, policy_enabled=False)
        (tmp_path / "policy.yaml").write_text("rules: not a list\n")
        other = replace(
            s1,
            supervisor=SupervisorSpec(strategy="objectives"),
            actuators=[ActuatorMapping("k", "K", "layer_1", (0.0, 9.0))],
        )
        changed = simulate(other, steps=80, policy_enabled=False, binding_spec_path=tmp_path / "binding_spec.yaml")
        assert changed.final_phases.tobytes() == plain.final_phases.tobytes()
        assert changed.action_total == 0

    def test_the_objectives_strategy_keeps_a_bad_layer_apart_that_the_default_locks(self, s1: BindingSpec) -> None:
        aware = replace(
            s1,
            supervisor=SupervisorSpec(strategy="objectives"),
            actuators=[
                ActuatorMapping("together", "K", "layer_0", (0.5, 3.0), 0.5),
                ActuatorMapping("apart", "K", "layer_1", (0.0, 1.5), 0.5),
            ],
        )
        blind, seeing = simulate(s1, steps=1000).verdict, simulate(aware, steps=1000).verdict
        assert blind is not None
        assert seeing is not None
        assert seeing.better_than(blind)
        assert seeing.outcome.value == "achieved"

    def test_notes_name_what_a_run_does_not_use(self, s1: BindingSpec) -> None:
        (strategy,) = simulate(s1, steps=1).notes
        assert "mean_coherence strengthens bad layers too" in strategy
        unused = replace(
            s1,
            coupling=CouplingSpec(0.6, 0.25, {"other": [[0.0] * 5 for _ in range(5)]}),
            cross_channel_couplings=[CrossChannelCouplingSpec("P", "I", 0.5)],
            value_alignment={"goal": 1.0},
            geometry_prior=GeometrySpec("symmetric", {"radius": 2.0}),
        )
        notes = simulate(unused, steps=1).notes
        for name in ("coupling.templates", "cross_channel_couplings", "value_alignment", "geometry_prior.params"):
            assert any(note.startswith(name) for note in notes)

    def test_a_time_step_that_may_be_too_long_is_noted(self, s1: BindingSpec) -> None:
        strong = replace(s1, coupling=CouplingSpec(200.0, 0.0))
        assert any("the time step may be too long" in note for note in simulate(strong, steps=1).notes)
        assert not any("time step" in note for note in simulate(strong, steps=1, method="rk45").notes)


class TestDrives:
    def test_a_drive_returns_to_the_configured_strength_when_its_time_is_over(self, s1: BindingSpec) -> None:
        """A hard violation at step 0 raises the drive for 5 s; afterwards it is 0.1 again, not 0."""
        spec = replace(s1, control_period_s=7.0, coupling=CouplingSpec(0.0, 0.0))
        boundaries = [replace(s1.boundaries[0], lower=0.95)]
        result = simulate(replace(spec, boundaries=boundaries), steps=520)
        assert result.history is not None
        zeta = result.history.zeta
        assert zeta[0] == 0.1
        np.testing.assert_allclose(zeta[1:500], 0.2)
        np.testing.assert_array_equal(zeta[500:], 0.1)

    def test_drivers_move_the_drive_phase(self, s1: BindingSpec) -> None:
        psi: list[float] = []
        drivers = DriverSpec(physical={"zeta": 0.1}, symbolic={"sequence": [0.5, 1.5]})
        simulate(replace(s1, drivers=drivers), steps=4, scenario_hook=lambda context: psi.append(context.psi_target))
        assert psi == [0.5, 1.5, 0.5, 1.5]


class TestIntegration:
    def test_method_and_substeps_come_from_the_spec_or_the_argument(self, s1: BindingSpec) -> None:
        fine = replace(s1, integration=IntegrationSpec(method="rk4", substeps=4))
        assert (
            simulate(fine, steps=30).final_phases.tobytes()
            == simulate(s1, steps=30, method="rk4", substeps=4).final_phases.tobytes()
        )
        assert simulate(fine, steps=30).final_phases.tobytes() != simulate(s1, steps=30).final_phases.tobytes()

    def test_methods_agree_on_a_short_step(self, s1: BindingSpec) -> None:
        ends = [
            simulate(s1, steps=50, policy_enabled=False, method=method, substeps=substeps).final_phases
            for method, substeps in (("euler", 400), ("rk4", 1), ("rk45", 1))
        ]
        np.testing.assert_allclose(ends[0], ends[1], atol=1e-4)
        np.testing.assert_allclose(ends[2], ends[1], atol=1e-4)


class TestAmplitudes:
    def test_amplitude_metrics_reach_the_result(self, s1: BindingSpec) -> None:
        result = simulate(with_amplitudes(s1), steps=60)
        assert result.amplitude_mode
        assert result.final_amplitudes is not None
        assert result.mean_amplitude == pytest.approx(float(result.final_amplitudes.mean()))
        assert 0.5 < result.mean_amplitude < 2.0

    def test_an_imprint_on_mu_raises_the_amplitudes(self, s1: BindingSpec) -> None:
        plain = simulate(with_amplitudes(s1), steps=200, policy_enabled=False)
        imprinted = simulate(
            with_amplitudes(s1, imprint_model=ImprintSpec(0.0, 2.0, ["mu"])), steps=200, policy_enabled=False
        )
        assert plain.mean_amplitude is not None
        assert imprinted.mean_amplitude is not None
        assert imprinted.mean_amplitude > plain.mean_amplitude + 0.1


def _replayed(path: Path) -> tuple[bool, int]:
    replay = ReplayEngine(path)
    report = replay.verify()
    assert report.ok, report
    assert report.is_bit_identical
    return report.ok, report.transitions


class TestAudit:
    def test_thirty_steps_of_s1_have_32_records_and_replay(self, s1: BindingSpec, tmp_path: Path) -> None:
        path = tmp_path / "run.jsonl"
        with AuditLogger(path) as log:
            result = simulate(s1, steps=30, audit_logger=log)
        replay = ReplayEngine(path)
        entries = replay.load()
        assert len(entries) == 32
        assert replay.verify_integrity(entries)[0]
        assert _replayed(path) == (True, 29)
        steps = [entry for entry in entries if "phases" in entry]
        assert [entry["regime"] for entry in steps[:2]] == ["nominal", "degraded"]
        assert steps[0]["regime_decided"] == "degraded"
        assert sum(len(entry["actions"]) for entry in steps) == result.action_total

    def test_events_carry_the_simulation_step(self, s1: BindingSpec, tmp_path: Path) -> None:
        path = tmp_path / "run.jsonl"
        with AuditLogger(path) as log:
            simulate(s1, steps=100, audit_logger=log)
        events = [entry for entry in ReplayEngine(path).load() if "event" in entry]
        moves = [(entry["step"], entry["detail"]) for entry in events if entry["event"] == "regime_transition"]
        assert moves[0] == (0, "nominal->degraded")
        assert all(step % 5 == 0 for step, _ in moves)

    @pytest.mark.parametrize(
        "change",
        [
            with_amplitudes,
            lambda spec: with_amplitudes(spec, imprint_model=ImprintSpec(0.1, 2.0, ["K", "alpha", "mu"])),
            lambda spec: replace(spec, geometry_prior=GeometrySpec("symmetric_non_negative", {})),
            lambda spec: replace(spec, integration=IntegrationSpec("rk4", 2)),
            lambda spec: replace(
                spec,
                supervisor=SupervisorSpec(strategy="objectives"),
                actuators=[
                    ActuatorMapping(f"{knob} {scope}", knob, scope, (0.0, 3.0))
                    for knob in ("K", "zeta", "alpha")
                    for scope in ("global", "layer_0", "layer_1")
                ],
            ),
        ],
        ids=["amplitudes", "imprint", "geometry", "rk4", "objectives"],
    )
    def test_every_kind_of_run_replays_bit_for_bit(
        self, s1: BindingSpec, tmp_path: Path, change: Callable[[BindingSpec], BindingSpec]
    ) -> None:
        path = tmp_path / "run.jsonl"
        with AuditLogger(path) as log:
            simulate(change(s1), steps=60, audit_logger=log)
        assert _replayed(path) == (True, 59)

    def test_a_run_with_a_hook_replays(self, s1: BindingSpec, tmp_path: Path) -> None:
        def disturb(context: SimulationScenarioContext) -> None:
            if context.step % 7 == 3:
                context.phases = context.phases + context.rng.normal(0.0, 0.2, 5)
                context.coupling = replace(context.coupling, knm=context.coupling.knm * 0.9)
                context.omegas = context.omegas + 0.01
                context.zeta = 0.3

        path = tmp_path / "run.jsonl"
        with AuditLogger(path) as log:
            simulate(s1, steps=40, audit_logger=log, scenario_hook=disturb)
        report = ReplayEngine(path).verify()
        assert report.ok, report

    def test_admissions_are_events(self, s1: BindingSpec, tmp_path: Path) -> None:
        path = tmp_path / "run.jsonl"
        with AuditLogger(path) as log:
            simulate(
                s1,
                steps=10,
                audit_logger=log,
                conformal_gate=TestConformalGate.gate(),
                twin_confidence_source=lambda _: score(1e6),
            )
        events = [entry for entry in ReplayEngine(path).load() if entry.get("event") == "conformal_admission"]
        assert [event["step"] for event in events] == [0, 5]

    def test_a_damaged_event_stream_fails_the_run_unless_told_otherwise(self, s1: BindingSpec, tmp_path: Path) -> None:
        def run(name: str, *, strict: bool) -> Any:
            stream = tmp_path / f"{name}.stream"

            def damage(context: SimulationScenarioContext) -> None:
                if context.step == 4:
                    data = bytearray(stream.read_bytes())
                    data[len(data) // 2] ^= 0x01
                    stream.write_bytes(bytes(data))

            with AuditLogger(tmp_path / f"{name}.jsonl", event_stream=stream) as log:
                return simulate(s1, steps=6, audit_logger=log, strict_audit_integrity=strict, scenario_hook=damage)

        with pytest.raises(AuditError, match=r"integrity verification failed for .*strict_audit_integrity=False"):
            run("strict", strict=True)
        result = run("lenient", strict=False)
        assert result.audit_event_stream_integrity is not None
        assert not result.audit_event_stream_integrity.ok

    def test_a_sound_event_stream_is_reported(self, s1: BindingSpec, tmp_path: Path) -> None:
        with AuditLogger(tmp_path / "run.jsonl", event_stream=tmp_path / "run.stream") as log:
            result = simulate(s1, steps=6, audit_logger=log)
        record = result.to_record()["audit_event_stream_integrity"]
        assert record["ok"] is True
        assert record["verified_events"] == 8
