"""The one loop body: everything that advances a spec by a step calls `StepCore.step`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scpn_phase_orchestrator._arrays import FloatArray, whole_number
from scpn_phase_orchestrator._compat import TWO_PI
from scpn_phase_orchestrator.actuation.knobs import GLOBAL_SCOPE, KnobLedger
from scpn_phase_orchestrator.actuation.mapper import ControlAction
from scpn_phase_orchestrator.binding.channel_runtime import ChannelExecution, ChannelRuntimeExecutor
from scpn_phase_orchestrator.binding.types import BindingSpec
from scpn_phase_orchestrator.coupling.knm import CouplingState
from scpn_phase_orchestrator.coupling.modulation import Modulation
from scpn_phase_orchestrator.imprint.state import ImprintState
from scpn_phase_orchestrator.imprint.update import ImprintModel
from scpn_phase_orchestrator.monitor.boundaries import BoundaryObserver, BoundaryState
from scpn_phase_orchestrator.runtime import _model
from scpn_phase_orchestrator.runtime._decider import Decider
from scpn_phase_orchestrator.runtime.contexts import (
    ScenarioCallback,
    SimulationScenarioContext,
    SimulationTwinConfidenceContext,
    TwinConfidenceSource,
    check_scenario,
)
from scpn_phase_orchestrator.supervisor.events import EventBus
from scpn_phase_orchestrator.supervisor.policy_rules import PolicyRule
from scpn_phase_orchestrator.supervisor.regimes import RegimeManager
from scpn_phase_orchestrator.upde.metrics import LayerState, UPDEState
from scpn_phase_orchestrator.upde.order_params import (
    LayerIndex,
    cross_layer_plv,
    layer_amplitudes,
    layer_order_parameters,
    objective_order_parameter,
)
from scpn_phase_orchestrator.upde.pac import modulation_indices

if TYPE_CHECKING:
    from scpn_phase_orchestrator.monitor.twin_conformal_gate import ConformalDecision, TwinConformalGate

__all__ = ["StepCore", "StepOutcome"]

PAC_WINDOW = 20
"""Steps over which the modulation index of phase and amplitude is taken."""
SUBCRITICAL_AMPLITUDE = 0.1


class StepOutcome(NamedTuple):
    """One step: what went into it, what came out, what was decided.

    Attributes:
        step: number of the step, from 0.
        inputs: phases before the integration, shape ``(n,)``.
        is_overridden: whether a hook set these phases.
        phases: phases after it.
        omegas: natural frequencies that were used.
        coupling: base matrices that were used.
        modulation: what changed the base into the effective coupling.
        zeta: drive strength, one number or one per oscillator.
        psi: drive phase, likewise.
        input_amplitudes: amplitudes before the integration; ``None`` without amplitudes.
        amplitudes: amplitudes after it; ``None`` without amplitudes.
        layer_r: raw order parameter of every layer, shape ``(L,)``.
        r_good: order parameter of the good layers together.
        r_bad: order parameter of the bad layers together.
        state: what the supervisor saw; its regime is the one before the decision.
        execution: evidence for delayed and uncertain channels.
        boundary: violations.
        regime: regime after the decision.
        is_control_tick: whether a decision was due.
        actions: what was applied.
        decision: verdict of the conformal gate; ``None`` when it was not asked.
    """

    step: int
    inputs: FloatArray
    is_overridden: bool
    phases: FloatArray
    omegas: FloatArray
    coupling: CouplingState
    modulation: Modulation
    zeta: float | FloatArray
    psi: float | FloatArray
    input_amplitudes: FloatArray | None
    amplitudes: FloatArray | None
    layer_r: FloatArray
    r_good: float
    r_bad: float
    state: UPDEState
    execution: ChannelExecution
    boundary: BoundaryState
    regime: str
    is_control_tick: bool
    actions: tuple[ControlAction, ...]
    decision: ConformalDecision | None


class StepCore:
    """Holds a spec in motion: phases, knobs, engine, monitors and supervisor.

    Equal arguments give equal bits. Nothing is shared between two cores.
    """

    def __init__(
        self,
        spec: BindingSpec,
        *,
        seed: int = 42,
        policy_enabled: bool = True,
        rules: Sequence[PolicyRule] | None = None,
        conformal_gate: TwinConformalGate | None = None,
        twin_confidence_source: TwinConfidenceSource | None = None,
        method: str | None = None,
        substeps: int | None = None,
    ) -> None:
        """Prepare the first step.

        Args:
            spec: a valid spec.
            seed: of the initial phases, ``default_rng(seed).uniform(0, 2π, n)``; a hook gets the same generator.
            policy_enabled: whether decisions are made and applied; without, the run is open loop.
            rules: rules of the pack, evaluated after the supervisor.
            conformal_gate: drops the actions of a tick whose twin confidence does not conform.
            twin_confidence_source: gives the confidence that the gate judges; needed with it.
            method: integration method in place of the spec's.
            substeps: parts of a step in place of the spec's.

        Raises:
            ValueError: no oscillator, a seed that is no integer >= 0, or a gate without a source (or the reverse).
            EngineError: the time step is too long for a natural frequency.
            PolicyError: an actuator, rule or net does not fit the spec.
        """
        if (conformal_gate is None) != (twin_confidence_source is None):
            raise ValueError("conformal_gate and twin_confidence_source must be supplied together")
        sizes = [len(layer.oscillator_ids) for layer in spec.layers]
        n = sum(sizes)
        if n == 0:
            raise ValueError("no oscillators defined in layers")
        self.spec = spec
        self.seed = whole_number("seed", seed)
        self.policy_enabled = policy_enabled
        self.method = spec.integration.method if method is None else method
        self.substeps = spec.integration.substeps if substeps is None else substeps
        self.rng = np.random.default_rng(self.seed)
        self.phases: FloatArray = self.rng.uniform(0.0, TWO_PI, n)
        self.omegas: FloatArray = np.array(spec.get_omegas(), dtype=np.float64)
        self.coupling = _model.base_coupling(spec, n)
        self._model = _model.make_model(spec, self.coupling, self.method, self.substeps)
        self._drive = _model.DrivePhase(spec)
        zeta = _model.base_drive(spec)
        self.notes = _model.notes_on(spec, self.omegas, self.coupling, zeta, self.method, self.substeps)
        """What of the spec has no effect, and whether the time step may be too long."""
        self.knobs = KnobLedger.from_spec(spec, base_zeta=zeta, base_psi=self._drive.constant)
        self.events = EventBus()
        self.regime_manager = RegimeManager(event_bus=self.events)
        self._boundaries = BoundaryObserver(spec.boundaries)
        self._boundaries.set_event_bus(self.events)
        self._channels = ChannelRuntimeExecutor.from_spec(spec)
        self._decider = Decider(spec, self.regime_manager, self.events, self.knobs, rules) if policy_enabled else None
        self._gate = conformal_gate
        self._source = twin_confidence_source
        self.control_interval = max(1, round(spec.control_period_s / spec.sample_period_s))
        self._index = 0
        self._prepare_layers(sizes)
        self._prepare_modulation(n)

    def _prepare_layers(self, sizes: list[int]) -> None:
        self._layer_index = LayerIndex.from_sizes(sizes)
        self.layer_of = self._layer_index.layer_of()
        starts = self._layer_index.starts
        self.layer_osc_ranges: dict[int, list[int]] = {
            layer.index: list(range(int(starts[k]), int(starts[k + 1]))) for k, layer in enumerate(self.spec.layers)
        }
        position = {layer.index: k for k, layer in enumerate(self.spec.layers)}
        objectives = self.spec.objectives
        self._good, self._bad = (
            np.array([position[index] for index in indices if index in position], dtype=np.int64)
            for indices in (objectives.good_layers, objectives.bad_layers)
        )
        self._r_names = [f"R_{k}" for k in range(len(self.spec.layers))]

    def _prepare_modulation(self, n: int) -> None:
        spec = self.spec
        self._constraints = _model.constraint_names(spec)
        self._imprint_targets = _model.imprint_targets(spec)
        self._imprint: ImprintState | None = None
        self._imprint_model: ImprintModel | None = None
        if spec.imprint_model is not None:
            self._imprint_model = ImprintModel(spec.imprint_model.decay_rate, spec.imprint_model.saturation)
            self._imprint = ImprintState(m_k=np.zeros(n), last_update=0.0)
        self._modulated_for: tuple[CouplingState, Modulation] | None = None
        self._modulation = Modulation()
        self._effective = self.coupling
        self._past = np.zeros((2, PAC_WINDOW, n if spec.amplitude is not None else 0))

    @property
    def step_index(self) -> int:
        """Number of the step that comes next; as many are done."""
        return self._index

    @property
    def amplitudes(self) -> FloatArray | None:
        """Amplitudes now, shape ``(n,)``; ``None`` without amplitudes."""
        return self._model.amplitudes

    @property
    def mu(self) -> FloatArray | None:
        """Declared growth, shape ``(n,)``; ``None`` without amplitudes."""
        return self._model.mu

    @property
    def epsilon(self) -> float | None:
        """Scale of the amplitude coupling; ``None`` without amplitudes."""
        return self._model.epsilon

    @property
    def effective_coupling(self) -> CouplingState:
        """Coupling with which the last step was integrated; the base before the first one."""
        return self._effective

    @property
    def regime(self) -> str:
        """Name of the regime in force."""
        return self.regime_manager.current_regime.value

    def step(self, hook: ScenarioCallback | None = None) -> StepOutcome:
        """Advance by one step: expire knobs, call the hook, integrate, measure, decide, act.

        Args:
            hook: may change phases, frequencies, coupling and drive before the step is integrated.

        Raises:
            EngineError: the integration diverged; names step and size.
            ValueError: the hook left something unusable, or the source of twin confidence gave no score.
        """
        step = self._index
        knobs, model = self.knobs, self._model
        knobs.begin_step()
        if not self._drive.is_constant:
            knobs.base_psi = self._drive.at(step)
        is_overridden = hook is not None and self._call(hook, step)
        self._modulate()
        zeta, psi = knobs.zeta(), knobs.psi()
        inputs, input_amplitudes = self.phases, model.amplitudes
        self.phases = model.advance(inputs, self.omegas, zeta, psi)
        self._index = step + 1
        layer_r, layers, amplitude_metrics = self._measure(step)
        execution = self._channels.execute(layers)
        r_good = objective_order_parameter(self.phases, self._layer_index, self._good)
        r_bad = objective_order_parameter(self.phases, self._layer_index, self._bad)
        observation, state, boundary = self._observe(step, execution, amplitude_metrics)
        is_tick = self._decider is not None and step % self.control_interval == 0
        actions: tuple[ControlAction, ...] = ()
        decision = None
        if self._decider is not None:
            self._decider.observe(layer_r)
            if is_tick:
                proposed = self._decider.decide(state, boundary, observation, step)
                actions, decision = self._act(proposed, step, boundary, execution, r_good, r_bad)
        self._remember(layer_r)
        return StepOutcome(
            step=step,
            inputs=inputs,
            is_overridden=is_overridden,
            phases=self.phases,
            omegas=self.omegas,
            coupling=self.coupling,
            modulation=self._modulation,
            zeta=zeta,
            psi=psi,
            input_amplitudes=input_amplitudes,
            amplitudes=model.amplitudes,
            layer_r=layer_r,
            r_good=r_good,
            r_bad=r_bad,
            state=state,
            execution=execution,
            boundary=boundary,
            regime=self.regime,
            is_control_tick=is_tick,
            actions=actions,
            decision=decision,
        )

    def _call(self, hook: ScenarioCallback, step: int) -> bool:
        """Let the hook see and change the state; what it changed is the new base. Tell whether it set the phases."""
        knobs = self.knobs
        shown = knobs.modulation().apply(self.coupling, self.layer_of)
        zeta = max(0.0, knobs.value("zeta", GLOBAL_SCOPE))
        psi = knobs.value("Psi", GLOBAL_SCOPE)
        context = SimulationScenarioContext(
            spec_name=self.spec.name,
            step=step,
            sample_period_s=self.spec.sample_period_s,
            phases=self.phases.copy(),
            omegas=self.omegas.copy(),
            coupling=_copied(shown),
            zeta=zeta,
            psi_target=psi,
            layer_osc_ranges=self.layer_osc_ranges,
            rng=self.rng,
        )
        hook(context)
        check_scenario(context, len(self.phases))
        is_overridden = not np.array_equal(context.phases, self.phases)
        self.phases = context.phases
        if not np.array_equal(context.omegas, self.omegas):
            self.omegas = context.omegas
        if not _same_coupling(context.coupling, shown):
            self.coupling = context.coupling
            knobs.rebase_coupling()
        if context.zeta != zeta:
            knobs.rebase_zeta(context.zeta)
        if context.psi_target != psi:
            knobs.rebase_psi(context.psi_target)
        return is_overridden

    def _modulate(self) -> None:
        """Bring the effective coupling up to date, where anything changed it."""
        knobs = self.knobs.modulation()
        done = self._modulated_for
        if self._imprint is None and done is not None and done[0] is self.coupling and done[1] is knobs:
            return
        self._modulated_for = (self.coupling, knobs)
        self._modulation = knobs
        if self._imprint is not None or self._constraints:
            self._modulation = Modulation(
                global_gain=knobs.global_gain,
                layer_gains=knobs.layer_gains,
                layer_lags=knobs.layer_lags,
                imprint=None if self._imprint is None else self._imprint_record(self._imprint.m_k),
                imprint_targets=self._imprint_targets,
                constraints=self._constraints,
            )
        self._effective = self._modulation.apply(self.coupling, self.layer_of)
        mu = self._model.mu
        self._model.prepare(self._effective, None if mu is None else self._modulation.apply_mu(mu, self.layer_of))

    def _imprint_record(self, memory: FloatArray) -> tuple[float, ...]:
        """Give the imprint per layer: exposure is that of the layer, so that it is uniform inside."""
        starts = self._layer_index.starts
        if len(starts) - 1 >= len(memory):  # as many layers as oscillators: say it of each oscillator
            return tuple(memory.tolist())
        return tuple(np.append(memory, 0.0)[starts[:-1]].tolist())

    def _measure(self, step: int) -> tuple[FloatArray, list[LayerState], tuple[float, float, float] | None]:
        """Give raw R and state of every layer; mean amplitude, largest modulation index and subcritical share."""
        phases, amplitudes = self.phases, self._model.amplitudes
        layer_r, psi = layer_order_parameters(phases, self._layer_index)
        if amplitudes is None:
            return layer_r, [LayerState(r, p) for r, p in zip(layer_r.tolist(), psi.tolist(), strict=True)], None
        mean, spread = layer_amplitudes(amplitudes, self._layer_index)
        layers = [
            LayerState(r, p, mean_amplitude=m, amplitude_spread=s)
            for r, p, m, s in zip(layer_r.tolist(), psi.tolist(), mean.tolist(), spread.tolist(), strict=True)
        ]
        row = step % PAC_WINDOW
        self._past[0, row] = phases
        self._past[1, row] = amplitudes
        pac_max = 0.0
        if step + 1 >= PAC_WINDOW:
            pac_max = float(modulation_indices(self._past[0], self._past[1], start=(step + 1) % PAC_WINDOW).max())
        subcritical = float(np.count_nonzero(amplitudes < SUBCRITICAL_AMPLITUDE)) / len(amplitudes)
        return layer_r, layers, (float(amplitudes.sum()) / len(amplitudes), pac_max, subcritical)

    def _observe(
        self, step: int, execution: ChannelExecution, amplitude_metrics: tuple[float, float, float] | None
    ) -> tuple[dict[str, float], UPDEState, BoundaryState]:
        """Give the observed variables by name, the state for the supervisor, and the violations."""
        coherences = [layer.R for layer in execution.layers]
        stability = sum(coherences) / len(coherences)
        observation = {"R": stability}
        mean_amplitude = pac_max = subcritical = 0.0
        if amplitude_metrics is not None:
            mean_amplitude, pac_max, subcritical = amplitude_metrics
            observation["mean_amplitude"] = mean_amplitude
            observation["pac_max"] = pac_max
            observation["subcritical_fraction"] = subcritical
        observation.update(zip(self._r_names, coherences, strict=True))
        boundary = self._boundaries.observe(observation, step=step)
        state = UPDEState(
            layers=execution.layers,
            cross_layer_alignment=cross_layer_plv(self.phases, self._layer_index),
            stability_proxy=stability,
            regime_id=self.regime,
            mean_amplitude=mean_amplitude,
            pac_max=pac_max,
            subcritical_fraction=subcritical,
            boundary_violation_count=len(boundary.violations),
            imprint_mean=0.0 if self._imprint is None else float(self._imprint.m_k.sum()) / len(self.phases),
        )
        return observation, state, boundary

    def _act(
        self,
        proposed: Sequence[ControlAction],
        step: int,
        boundary: BoundaryState,
        execution: ChannelExecution,
        r_good: float,
        r_bad: float,
    ) -> tuple[tuple[ControlAction, ...], ConformalDecision | None]:
        """Ask the gate, if there is one, and apply what is admitted."""
        decision = None
        if self._gate is not None and self._source is not None:
            context = SimulationTwinConfidenceContext(
                spec_name=self.spec.name,
                step=step,
                sample_period_s=self.spec.sample_period_s,
                model_phases=self.phases.copy(),
                r_good=r_good,
                r_bad=r_bad,
                regime=self.regime,
                boundary_violation_count=len(boundary.violations),
                proposed_action_count=len(proposed),
                layer_order_parameters=tuple(layer.R for layer in execution.layers),
            )
            decision = self._gate.update(_nonconformity(self._source(context)), regime=context.regime)
            if not decision.admitted:
                return (), decision
        return tuple(self.knobs.apply(action, step) for action in proposed), decision

    def _remember(self, layer_r: FloatArray) -> None:
        """Let the coherence of the step leave its imprint."""
        if self._imprint is not None and self._imprint_model is not None:
            exposure = layer_r[self.layer_of]
            self._imprint = self._imprint_model.update(self._imprint, exposure, self.spec.sample_period_s)


def _nonconformity(score: object) -> float:
    # Not at the top: few runs have a gate, and starting is quick without.
    from scpn_phase_orchestrator.monitor.twin_confidence import TwinConfidenceScore
    from scpn_phase_orchestrator.monitor.twin_conformal_gate import confidence_nonconformity

    if not isinstance(score, TwinConfidenceScore):
        raise ValueError("twin_confidence_source must return TwinConfidenceScore")  # noqa: TRY004 - documented
    return confidence_nonconformity(score)


def _copied(coupling: CouplingState) -> CouplingState:
    """Give a state whose arrays may be written to."""
    return replace(
        coupling,
        knm=coupling.knm.copy(),
        alpha=coupling.alpha.copy(),
        knm_r=None if coupling.knm_r is None else coupling.knm_r.copy(),
    )


def _same_coupling(first: CouplingState, second: CouplingState) -> bool:
    if (first.knm_r is None) != (second.knm_r is None) or first.active_template != second.active_template:
        return False
    pairs = [(first.knm, second.knm), (first.alpha, second.alpha)]
    if first.knm_r is not None and second.knm_r is not None:
        pairs.append((first.knm_r, second.knm_r))
    return all(np.array_equal(one, other) for one, other in pairs)
