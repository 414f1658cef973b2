"""Who decides at a control tick: the supervisor of the spec's strategy, then the rules of the pack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scpn_phase_orchestrator._arrays import FloatArray
from scpn_phase_orchestrator.actuation.knobs import KnobLedger
from scpn_phase_orchestrator.actuation.mapper import ControlAction
from scpn_phase_orchestrator.binding.types import BindingSpec
from scpn_phase_orchestrator.exceptions import PolicyError
from scpn_phase_orchestrator.monitor.boundaries import BoundaryState
from scpn_phase_orchestrator.supervisor.events import EventBus
from scpn_phase_orchestrator.supervisor.objectives import ObjectiveSupervisor
from scpn_phase_orchestrator.supervisor.petri_adapter import PetriNetAdapter
from scpn_phase_orchestrator.supervisor.policy import SupervisorPolicy
from scpn_phase_orchestrator.supervisor.policy_rules import PolicyEngine, PolicyRule
from scpn_phase_orchestrator.supervisor.regimes import RegimeManager
from scpn_phase_orchestrator.upde.metrics import UPDEState

__all__ = ["Decider"]


class Decider:
    """Proposes the actions of a control tick."""

    def __init__(
        self,
        spec: BindingSpec,
        regime_manager: RegimeManager,
        events: EventBus,
        knobs: KnobLedger,
        rules: Sequence[PolicyRule] | None,
    ) -> None:
        """Make the supervisor of the spec's strategy.

        Raises:
            PolicyError: a net, rule or actuator does not fit the spec.
        """
        self._regimes = regime_manager
        self._knobs = knobs
        adapter = None if spec.protocol_net is None else PetriNetAdapter.from_protocol(spec.protocol_net, events)
        self._objectives: ObjectiveSupervisor | None = None
        self._coherence: SupervisorPolicy | None = None
        if spec.supervisor.strategy == "objectives":
            self._objectives = ObjectiveSupervisor(spec, regime_manager, petri_adapter=adapter)
        else:
            indices = [layer.index for layer in spec.layers]
            self._coherence = SupervisorPolicy(regime_manager, petri_adapter=adapter, layer_indices=indices)
        for rule in rules or ():
            for action in rule.actions:
                try:
                    knobs.limits(action.knob, action.scope)
                except PolicyError as error:
                    raise PolicyError(f"rule {rule.name!r}: {error}") from error
        self._rules = PolicyEngine(rules, layer_indices=[layer.index for layer in spec.layers]) if rules else None
        self._period_s = max(1, round(spec.control_period_s / spec.sample_period_s)) * spec.sample_period_s
        self._partition = spec.objectives

    def observe(self, layer_r: FloatArray) -> None:
        """Take the raw order parameters of a step, shape ``(L,)``."""
        if self._objectives is not None:
            self._objectives.observe(layer_r)

    def decide(
        self, state: UPDEState, boundary: BoundaryState, observation: Mapping[str, float], step: int
    ) -> list[ControlAction]:
        """Move the regime and propose actions; the clock of the rules then moves on by the control period."""
        if self._objectives is not None:
            actions = self._objectives.decide(boundary, self._knobs, observation, step=step)
        elif self._coherence is not None:
            actions = self._coherence.decide(state, boundary, observation, step=step)
        else:
            actions = []
        if self._rules is not None:
            regime, good, bad = self._regimes.current_regime, self._partition.good_layers, self._partition.bad_layers
            actions = [*actions, *self._rules.evaluate(regime, state, good, bad)]
            self._rules.advance_clock(self._period_s)
        return actions
