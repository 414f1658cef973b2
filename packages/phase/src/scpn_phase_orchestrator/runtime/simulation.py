"""Run a spec from its first step to its last: `simulate` and what it returns."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from scpn_phase_orchestrator._arrays import FloatArray, whole_number
from scpn_phase_orchestrator.binding.resolved import resolved_binding_config
from scpn_phase_orchestrator.binding.types import BindingSpec
from scpn_phase_orchestrator.exceptions import AuditError, PolicyError
from scpn_phase_orchestrator.runtime.contexts import (
    ScenarioCallback,
    SimulationScenarioContext,
    SimulationTwinConfidenceContext,
    TwinConfidenceSource,
)
from scpn_phase_orchestrator.runtime.history import HistoryRecorder, RunHistory
from scpn_phase_orchestrator.runtime.step_core import StepCore, StepOutcome
from scpn_phase_orchestrator.supervisor.petri_adapter import petri_net_from_protocol
from scpn_phase_orchestrator.supervisor.policy_rules import PolicyRule, load_policy_rules
from scpn_phase_orchestrator.supervisor.verdict import Verdict, judge
from scpn_phase_orchestrator.upde.engine import ACTIVE_BACKEND

if TYPE_CHECKING:
    from scpn_phase_orchestrator.monitor.twin_conformal_gate import ConformalDecision, TwinConformalGate
    from scpn_phase_orchestrator.runtime.audit_logger import AuditLogger, AuditStreamIntegrityResult

__all__ = [
    "SimulationControlMode",
    "SimulationResult",
    "SimulationScenarioContext",
    "SimulationTwinConfidenceContext",
    "TwinConfidenceSource",
    "load_rules_beside",
    "log_header",
    "log_step",
    "petri_net_from_protocol",
    "simulate",
]

_LOGGER = logging.getLogger(__name__)

SimulationControlMode = Literal["supervisor_policy"]


@dataclass(frozen=True)
class SimulationResult:
    """What a run came to.

    Attributes:
        spec_name: name of the spec.
        steps: number of steps.
        policy_enabled: whether the loop was closed.
        control_mode: ``supervisor_policy``.
        amplitude_mode: whether oscillators have amplitudes.
        final_phases: shape ``(n,)``.
        final_amplitudes: shape ``(n,)``, empty without a step; ``None`` without amplitudes.
        r_good: order parameter of the good layers together after the last step; 0 without a step.
        r_bad: the same of the bad layers.
        separation: ``r_good - r_bad``.
        final_regime: regime after the last decision.
        mean_amplitude: mean over the oscillators after the last step; ``None`` without amplitudes or steps.
        r_good_history: ``r_good`` of every step.
        r_bad_history: ``r_bad`` of every step.
        boundary_violation_total: violations of all steps.
        action_total: actions applied.
        conformal_admission_total: control ticks that the conformal gate judged.
        conformal_admission_rejections: how many of them it rejected.
        last_conformal_admission: its last decision.
        audit_event_stream_integrity: check of the event stream at the end; ``None`` without a stream.
        verdict: what was achieved; ``None`` without a step.
        history: the run over time.
        notes: what of the spec had no effect, and whether the time step may be too long.
    """

    spec_name: str
    steps: int
    policy_enabled: bool
    control_mode: str
    amplitude_mode: bool
    final_phases: FloatArray
    final_amplitudes: FloatArray | None
    r_good: float
    r_bad: float
    separation: float
    final_regime: str
    mean_amplitude: float | None
    r_good_history: tuple[float, ...]
    r_bad_history: tuple[float, ...]
    boundary_violation_total: int
    action_total: int
    conformal_admission_total: int = 0
    conformal_admission_rejections: int = 0
    last_conformal_admission: ConformalDecision | None = None
    audit_event_stream_integrity: AuditStreamIntegrityResult | None = None
    verdict: Verdict | None = None
    history: RunHistory | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()

    def to_record(self) -> dict[str, Any]:
        """Give the documented 16 fields as JSON-safe values."""
        admission, integrity = self.last_conformal_admission, self.audit_event_stream_integrity
        return {
            "spec_name": self.spec_name,
            "steps": self.steps,
            "policy_enabled": self.policy_enabled,
            "control_mode": self.control_mode,
            "amplitude_mode": self.amplitude_mode,
            "r_good": self.r_good,
            "r_bad": self.r_bad,
            "separation": self.separation,
            "final_regime": self.final_regime,
            "mean_amplitude": self.mean_amplitude,
            "boundary_violation_total": self.boundary_violation_total,
            "action_total": self.action_total,
            "conformal_admission_total": self.conformal_admission_total,
            "conformal_admission_rejections": self.conformal_admission_rejections,
            "last_conformal_admission": None if admission is None else admission.to_audit_record(),
            "audit_event_stream_integrity": None if integrity is None else integrity.to_audit_record(),
        }


def simulate(
    spec: BindingSpec,
    *,
    steps: int = 100,
    seed: int = 42,
    policy_enabled: bool = True,
    control_mode: SimulationControlMode = "supervisor_policy",
    audit_logger: AuditLogger | None = None,
    strict_audit_integrity: bool = True,
    binding_spec_path: Path | None = None,
    scenario_hook: ScenarioCallback | None = None,
    conformal_gate: TwinConformalGate | None = None,
    twin_confidence_source: TwinConfidenceSource | None = None,
    rules: Sequence[PolicyRule] | None = None,
    method: str | None = None,
    substeps: int | None = None,
    on_step: Callable[[StepOutcome], None] | None = None,
) -> SimulationResult:
    """Advance a spec.

    Args:
        spec: a valid spec.
        steps: how many steps, an integer >= 0.
        seed: of the initial phases, an integer >= 0.
        policy_enabled: ``True`` closes the loop: supervisor and rules act. ``False`` gives the baseline from the same
            initial phases, with the same drivers and imprint and without actions.
        control_mode: only ``supervisor_policy``.
        audit_logger: gets header, steps and events; the caller closes it.
        strict_audit_integrity: raise when the event stream does not verify at the end.
        binding_spec_path: where the spec came from; rules are read beside it, as `load_rules_beside` says.
        scenario_hook: perturbs the state before each step.
        conformal_gate: drops the actions of a tick whose twin confidence does not conform.
        twin_confidence_source: gives the confidence that the gate judges.
        rules: rules in place of those beside the spec.
        method: integration method in place of the spec's.
        substeps: parts of a step in place of the spec's.
        on_step: told of every step that is done and recorded; for progress.

    Raises:
        ValueError: an argument does not fit, the spec has no oscillator, or a hook or source gave something unusable.
        EngineError: the integration diverged, or the time step is too long for a natural frequency.
        PolicyError: a rule, net or actuator does not fit the spec.
        AuditError: the event stream does not verify and `strict_audit_integrity` is set.
    """
    if control_mode != "supervisor_policy":
        raise ValueError(
            "simulate control_mode must be 'supervisor_policy'; Koopman MPC is offline/review-only via "
            "runtime.dvoc_oscillation_damping"
        )
    if (conformal_gate is None) != (twin_confidence_source is None):
        raise ValueError("conformal_gate and twin_confidence_source must be supplied together")
    steps = whole_number("steps", steps)
    if rules is None and policy_enabled and binding_spec_path is not None:
        rules = load_rules_beside(spec, binding_spec_path)
    core = StepCore(
        spec,
        seed=seed,
        policy_enabled=policy_enabled,
        rules=rules,
        conformal_gate=conformal_gate,
        twin_confidence_source=twin_confidence_source,
        method=method,
        substeps=substeps,
    )
    for note in core.notes:
        _LOGGER.info("%s: %s", spec.name, note)
    if audit_logger is not None:
        log_header(audit_logger, core, control_mode)
    run = _Run(core)
    for _ in range(steps):
        outcome = core.step(scenario_hook)
        if audit_logger is not None:
            log_step(audit_logger, core, outcome)
        run.add(outcome)
        if on_step is not None:
            on_step(outcome)
    integrity = None if audit_logger is None else _finish_log(audit_logger, core, run, strict_audit_integrity)
    return run.result(control_mode, integrity)


def load_rules_beside(spec: BindingSpec, binding_spec_path: Path) -> list[PolicyRule]:
    """Read the rule file of a spec: the one it names under ``policy``, else ``policy.yaml`` beside it if that exists.

    Raises:
        PolicyError: the spec names a file that does not exist, or the rules are malformed.
    """
    path = Path(binding_spec_path).parent / (spec.policy or "policy.yaml")
    if path.is_file():
        return load_policy_rules(path)
    if spec.policy is not None:
        raise PolicyError(f"policy names {spec.policy!r}, but there is no such file beside {binding_spec_path}")
    return []


class _Run:
    """Adds up what the steps of a run gave."""

    def __init__(self, core: StepCore) -> None:
        self._core = core
        self._recorder = HistoryRecorder(core.spec, is_supervised=core.policy_enabled)
        self._violations = 0
        self._actions = 0
        self.decisions: list[tuple[int, ConformalDecision]] = []

    def add(self, outcome: StepOutcome) -> None:
        self._violations += len(outcome.boundary.violations)
        self._actions += len(outcome.actions)
        if outcome.decision is not None:
            self.decisions.append((outcome.step, outcome.decision))
        self._recorder.add(
            layer_r=outcome.layer_r,
            r_good=outcome.r_good,
            r_bad=outcome.r_bad,
            regime=outcome.regime,
            zeta=outcome.zeta,
            k_global=outcome.modulation.global_gain,
            k_layers=outcome.modulation.layer_gains,
            alpha_layers=outcome.modulation.layer_lags,
            actions=outcome.actions,
        )

    def result(self, control_mode: str, integrity: AuditStreamIntegrityResult | None) -> SimulationResult:
        core = self._core
        done = core.step_index
        history = self._recorder.finish(core.phases, core.effective_coupling.knm)
        r_good, r_bad = history.r_good.tolist(), history.r_bad.tolist()
        amplitudes = core.amplitudes
        if amplitudes is not None and done == 0:
            amplitudes = np.empty(0)
        last_good, last_bad = (r_good[-1], r_bad[-1]) if done else (0.0, 0.0)
        return SimulationResult(
            spec_name=core.spec.name,
            steps=done,
            policy_enabled=core.policy_enabled,
            control_mode=control_mode,
            amplitude_mode=amplitudes is not None,
            final_phases=core.phases,
            final_amplitudes=amplitudes,
            r_good=last_good,
            r_bad=last_bad,
            separation=last_good - last_bad,
            final_regime=core.regime,
            mean_amplitude=float(amplitudes.mean()) if amplitudes is not None and done else None,
            r_good_history=tuple(r_good),
            r_bad_history=tuple(r_bad),
            boundary_violation_total=self._violations,
            action_total=self._actions,
            conformal_admission_total=len(self.decisions),
            conformal_admission_rejections=sum(not decision.admitted for _, decision in self.decisions),
            last_conformal_admission=self.decisions[-1][1] if self.decisions else None,
            audit_event_stream_integrity=integrity,
            verdict=judge(core.spec, history.layer_r) if done else None,
            history=history,
            notes=core.notes,
        )


def log_header(logger: AuditLogger, core: StepCore, control_mode: str = "supervisor_policy") -> None:
    """Write what the steps of a core are made with; whoever steps a core by hand calls it once."""
    logger.log_header(
        n_oscillators=len(core.phases),
        dt=core.spec.sample_period_s,
        seed=core.seed,
        method=core.method,
        substeps=core.substeps,
        amplitude_mode=core.amplitudes is not None,
        binding_config=resolved_binding_config(core.spec),
        control_mode=control_mode,
        backend=ACTIVE_BACKEND,
        layer_sizes=[len(layer.oscillator_ids) for layer in core.spec.layers],
    )


def log_step(logger: AuditLogger, core: StepCore, outcome: StepOutcome) -> None:
    """Write what repeating the step needs: the inputs after the hook, base matrices and what modulates them."""
    logger.log_step(
        outcome.step,
        outcome.state,
        outcome.actions,
        phases=outcome.inputs,
        omegas=outcome.omegas,
        knm=outcome.coupling.knm,
        alpha=outcome.coupling.alpha,
        zeta=outcome.zeta,
        psi_drive=outcome.psi,
        channel_runtime=None if outcome.execution.is_raw else outcome.execution.to_audit_record(),
        amplitudes=outcome.input_amplitudes,
        mu=core.mu,
        knm_r=outcome.coupling.knm_r,
        epsilon=core.epsilon,
        modulation=None if outcome.modulation.is_identity else outcome.modulation,
        regime_decided=outcome.regime,
        phases_overridden=outcome.is_overridden,
    )


def _finish_log(logger: AuditLogger, core: StepCore, run: _Run, strict: bool) -> AuditStreamIntegrityResult | None:
    """Write admissions and events, and check the event stream."""
    for step, decision in run.decisions:
        logger.log_event("conformal_admission", {"step": step, "decision": decision.to_audit_record()})
    for event in core.events.history:
        logger.log_event(event.kind, {"step": event.step, "detail": event.detail})
    integrity = logger.verify_event_stream_integrity()
    if strict and integrity is not None and not integrity.ok:
        raise AuditError(
            f"audit event-stream integrity verification failed for '{integrity.event_stream_path}' after "
            f"{integrity.verified_events} verified event(s); the recorded run cannot be trusted. Pass "
            "strict_audit_integrity=False to attach the failed result instead of failing closed."
        )
    return integrity
