"""The default supervisor: which actions belong to which regime."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from scpn_phase_orchestrator.actuation.mapper import ControlAction
from scpn_phase_orchestrator.monitor.boundaries import BoundaryState
from scpn_phase_orchestrator.supervisor.events import EventBus
from scpn_phase_orchestrator.supervisor.petri_adapter import PetriNetAdapter
from scpn_phase_orchestrator.supervisor.petri_net import Arc, Marking, PetriNet, Place, Transition, parse_guard
from scpn_phase_orchestrator.supervisor.policy import SupervisorPolicy, SupervisorPolicyGains
from scpn_phase_orchestrator.supervisor.regimes import Regime, RegimeManager
from scpn_phase_orchestrator.upde.metrics import UPDEState

StateOf = Callable[..., UPDEState]
CALM = BoundaryState()


def adapter_for(bus: EventBus | None = None) -> PetriNetAdapter:
    settle = Transition("settle", [Arc("starting")], [Arc("steady")], parse_guard("R_0 > 0.7"))
    net = PetriNet([Place("starting"), Place("steady")], [settle])
    return PetriNetAdapter(net, Marking({"starting": 1}), {"starting": "DEGRADED", "steady": "NOMINAL"}, bus)


def test_nominal_proposes_nothing(state_of: StateOf):
    assert SupervisorPolicy(RegimeManager()).decide(state_of(0.8, 0.9), CALM) == []


def test_degraded_raises_global_coupling(state_of: StateOf):
    assert SupervisorPolicy(RegimeManager()).decide(state_of(0.5, 0.5), CALM) == [
        ControlAction("K", "global", 0.05, 10.0, "degraded: boost global coupling")
    ]


def test_critical_drives_and_loosens_the_least_coherent_layer(state_of: StateOf):
    assert SupervisorPolicy(RegimeManager()).decide(state_of(0.3, 0.1, 0.2), CALM) == [
        ControlAction("zeta", "global", 0.1, 5.0, "critical: increase damping"),
        ControlAction("K", "layer_1", -0.03, 5.0, "critical: reduce coupling on layer 1"),
    ]


def test_recovery_restores_half_of_the_coupling_step(state_of: StateOf):
    manager = RegimeManager(cooldown_steps=0)
    policy = SupervisorPolicy(manager)
    policy.decide(state_of(0.1), CALM)
    assert policy.decide(state_of(0.9), CALM) == [
        ControlAction("K", "global", 0.025, 15.0, "recovery: gradual coupling restore")
    ]


def test_critical_without_layers_only_drives(state_of: StateOf):
    actions = SupervisorPolicy(RegimeManager()).decide(state_of(), CALM)
    assert [action.knob for action in actions] == ["zeta"]


def test_a_layer_is_named_by_its_declared_index_when_that_is_known(state_of: StateOf):
    policy = SupervisorPolicy(RegimeManager(), layer_indices=[4, 7])
    assert policy.decide(state_of(0.2, 0.1), CALM)[1].scope == "layer_7"
    with pytest.raises(ValueError, match="layer_indices must differ"):
        SupervisorPolicy(RegimeManager(), layer_indices=[4, 4])


def test_of_equally_incoherent_layers_the_first_is_loosened(state_of: StateOf):
    assert SupervisorPolicy(RegimeManager()).decide(state_of(0.2, 0.1, 0.1), CALM)[1].scope == "layer_1"


def test_a_hard_violation_is_critical_whatever_the_coherence(state_of: StateOf):
    boundary = BoundaryState(["broken"], [], ["broken"])
    assert SupervisorPolicy(RegimeManager()).decide(state_of(0.9), boundary)[0].knob == "zeta"


def test_gains_change_the_values(state_of: StateOf):
    gains = SupervisorPolicyGains(k_bump=0.2, zeta_bump=0.3, k_reduce=-0.1, restore_fraction=1.0)
    manager = RegimeManager(cooldown_steps=0)
    policy = SupervisorPolicy(manager, gains=gains)
    assert [action.value for action in policy.decide(state_of(0.1), CALM)] == [0.3, -0.1]
    assert [action.value for action in policy.decide(state_of(0.5), CALM)] == [0.2]


@pytest.mark.parametrize(
    ("gains", "message"),
    [
        ({"k_bump": 0.0}, "k_bump must be above 0"),
        ({"zeta_bump": -0.1}, "zeta_bump must be above 0"),
        ({"k_reduce": 0.0}, "k_reduce must be below 0"),
        ({"restore_fraction": 0.0}, r"restore_fraction must be in \(0, 1\]"),
        ({"restore_fraction": 1.1}, r"restore_fraction must be in \(0, 1\]"),
        ({"k_bump": float("nan")}, "k_bump must be a finite number"),
        ({"k_reduce": float("-inf")}, "k_reduce must be a finite number"),
        ({"zeta_bump": True}, "zeta_bump must be a finite number"),
        ({"k_bump": "0.1"}, "k_bump must be a finite number"),
    ],
)
def test_a_gain_outside_its_range_is_refused(gains: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        SupervisorPolicyGains(**gains)


def test_gains_do_not_change_once_made():
    with pytest.raises(FrozenInstanceError):
        SupervisorPolicyGains().k_bump = 1.0  # type: ignore[misc]


def test_a_protocol_net_proposes_the_regime_when_there_is_a_context(state_of: StateOf):
    policy = SupervisorPolicy(RegimeManager(), adapter_for())
    actions = policy.decide(state_of(0.95), CALM, petri_ctx={"R_0": 0.5})
    assert policy.regime_manager.current_regime is Regime.DEGRADED
    assert actions[0].justification == "degraded: boost global coupling"


def test_without_a_context_the_coherence_proposes_and_the_net_stands_still(state_of: StateOf):
    adapter = adapter_for()
    policy = SupervisorPolicy(RegimeManager(), adapter)
    assert policy.decide(state_of(0.95), CALM) == []
    assert adapter.marking.tokens == {"starting": 1}


def test_a_failing_net_is_logged_and_counted_and_the_coherence_decides(
    state_of: StateOf, caplog: pytest.LogCaptureFixture
):
    adapter = adapter_for()
    policy = SupervisorPolicy(RegimeManager(), adapter)
    for failures in (1, 2):
        assert policy.decide(state_of(0.9), CALM, petri_ctx={"R_0": float("nan")}) == []
        assert adapter.failures == failures
    assert policy.regime_manager.current_regime is Regime.NOMINAL
    assert "protocol net failed (failure 2)" in caplog.text
    assert "variable 'R_0' of a guard must be a finite number" in caplog.text


def test_any_kind_of_failure_of_a_net_is_survived(state_of: StateOf):
    class Broken(PetriNetAdapter):
        def step(self, ctx: Mapping[str, float], *, step: int | None = None) -> Regime:
            raise RuntimeError("wire cut")

    net = PetriNet([Place("only")], [])
    broken = Broken(net, Marking({"only": 1}), {"only": "NOMINAL"})
    assert SupervisorPolicy(RegimeManager(), broken).decide(state_of(0.5), CALM, petri_ctx={})[0].knob == "K"
    assert broken.failures == 1


def test_events_of_a_decision_carry_the_simulation_step(state_of: StateOf):
    bus = EventBus()
    policy = SupervisorPolicy(RegimeManager(event_bus=bus, cooldown_steps=0), adapter_for(bus))
    policy.decide(state_of(0.5), CALM, {"R_0": 0.5}, step=40)
    policy.decide(state_of(0.5), CALM, {"R_0": 0.8}, step=45)
    assert [(event.kind, event.step, event.detail) for event in bus.history] == [
        ("regime_transition", 40, "nominal->degraded"),
        ("petri_transition", 45, "settle"),
        ("regime_transition", 45, "degraded->nominal"),
    ]


def test_an_admission_gate_sees_proposals_and_may_change_them(state_of: StateOf):
    seen: list[int] = []

    def halve(actions: list[ControlAction], state: UPDEState) -> list[ControlAction]:
        seen.append(len(actions))
        for action in actions:
            action.value /= 2.0
        return actions

    policy = SupervisorPolicy(RegimeManager(cooldown_steps=0), admission_gate=halve)
    assert [action.value for action in policy.decide(state_of(0.1), CALM)] == [0.05, -0.015]
    policy.regime_manager.force_transition(Regime.NOMINAL)
    assert policy.decide(state_of(0.9), CALM) == []
    assert seen == [2]


def test_a_decision_is_logged(state_of: StateOf, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG, "scpn_phase_orchestrator"):
        SupervisorPolicy(RegimeManager()).decide(state_of(0.1), CALM)
    assert "supervisor decide: regime=critical actions=2" in caplog.messages
