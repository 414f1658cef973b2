"""From a protocol net to a regime."""

from itertools import permutations
from typing import Any

import pytest

from scpn_phase_orchestrator.binding.types import ProtocolNetSpec, ProtocolTransitionSpec
from scpn_phase_orchestrator.exceptions import PolicyError
from scpn_phase_orchestrator.supervisor.events import EventBus
from scpn_phase_orchestrator.supervisor.petri_adapter import PetriNetAdapter, petri_net_from_protocol
from scpn_phase_orchestrator.supervisor.petri_net import Arc, Guard, Marking, PetriNet, Place, Transition
from scpn_phase_orchestrator.supervisor.regimes import REGIME_RANK, Regime


def protocol(**changes: Any) -> ProtocolNetSpec:
    fields: dict[str, Any] = {
        "places": ["starting", "steady"],
        "initial": {"starting": 1},
        "place_regime": {"starting": "DEGRADED", "steady": "NOMINAL"},
        "transitions": [
            ProtocolTransitionSpec("settle", [{"place": "starting"}], [{"place": "steady"}], "R_0 > 0.7"),
        ],
    }
    return ProtocolNetSpec(**{**fields, **changes})


def with_transition(**changes: Any) -> ProtocolNetSpec:
    fields: dict[str, Any] = {"name": "t", "inputs": [{"place": "starting"}], "outputs": [{"place": "steady"}]}
    return protocol(transitions=[ProtocolTransitionSpec(**{**fields, **changes})])


def test_the_protocol_of_the_example_spec_moves_from_starting_to_steady():
    bus = EventBus()
    adapter = PetriNetAdapter.from_protocol(protocol(), bus)
    assert adapter.step({"R_0": 0.5}, step=0) is Regime.DEGRADED
    assert adapter.step({}, step=10) is Regime.DEGRADED
    assert adapter.step({"R_0": 0.8, "R": "not looked at"}, step=20) is Regime.NOMINAL  # type: ignore[dict-item]
    assert adapter.marking.tokens == {"steady": 1}
    assert [(event.kind, event.step, event.detail) for event in bus.history] == [("petri_transition", 20, "settle")]


def test_without_a_step_the_number_of_the_call_is_used():
    bus = EventBus()
    adapter = PetriNetAdapter.from_protocol(protocol(), bus)
    adapter.step({"R_0": 0.5})
    adapter.step({"R_0": 0.8})
    assert [event.step for event in bus.history] == [2]


@pytest.mark.parametrize("marked", [marked for count in range(1, 5) for marked in permutations(Regime, count)])
def test_the_most_severe_of_the_marked_places_decides(marked: tuple[Regime, ...]):
    net = PetriNet([Place(regime.name) for regime in Regime], [])
    marking = Marking({regime.name: 1 for regime in marked})
    adapter = PetriNetAdapter(net, marking, {regime.name: regime for regime in Regime})
    assert REGIME_RANK[adapter.step({})] == max(REGIME_RANK[regime] for regime in marked)


def test_the_ranks_are_the_documented_ones():
    assert sorted(Regime, key=REGIME_RANK.__getitem__) == [
        Regime.NOMINAL,
        Regime.DEGRADED,
        Regime.RECOVERY,
        Regime.CRITICAL,
    ]


def test_marked_places_without_a_regime_mean_nominal():
    net = PetriNet([Place("a"), Place("b")], [])
    assert PetriNetAdapter(net, Marking({"a": 1}), {"b": "critical"}).step({}) is Regime.NOMINAL
    assert PetriNetAdapter(net, Marking({}), {"b": "critical"}).step({}) is Regime.NOMINAL


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, "0.9", 0.9 + 0j])
def test_a_guard_metric_that_is_no_finite_number_is_refused_and_the_net_stands_still(value: Any):
    adapter = PetriNetAdapter.from_protocol(protocol())
    with pytest.raises(PolicyError, match="variable 'R_0' of a guard must be a finite number"):
        adapter.step({"R_0": value})
    assert adapter.marking.tokens == {"starting": 1}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"place_regime": {}}, "place_regime must give at least one place a regime"),
        ({"place_regime": {"nowhere": "NOMINAL"}}, "place_regime names places unknown to the net: nowhere"),
        ({"place_regime": {"steady": "FINE"}}, "regime of place 'steady' must be one of NOMINAL, .*, got 'FINE'"),
        ({"place_regime": {"steady": None}}, "regime of place 'steady' must be one of"),
        ({"initial": {"nowhere": 1}}, "initial marking names places unknown to the net: nowhere"),
        ({"initial": {"starting": -1}}, "tokens of place 'starting' must be an integer >= 0"),
        ({"places": ["starting", "starting", "steady"]}, "place 'starting' is declared twice"),
    ],
)
def test_a_malformed_protocol_is_refused(changes: dict[str, Any], message: str):
    with pytest.raises(PolicyError, match=message):
        PetriNetAdapter.from_protocol(protocol(**changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inputs": ["starting"]}, r"protocol_net.transitions\[0\].inputs\[0\] must be a mapping with 'place'"),
        ({"outputs": [{"weight": 2}]}, r"transitions\[0\].outputs\[0\] must be a mapping with 'place'"),
        (
            {"outputs": [{"place": "steady", "wieght": 2}]},
            r"outputs\[0\] must be a mapping with 'place' and optionally",
        ),
        ({"inputs": [{"place": "starting", "weight": 0}]}, r"inputs\[0\]: weight .* must be an integer >= 1"),
        ({"inputs": [{"place": "nowhere"}]}, "unknown place 'nowhere'"),
        ({"guard": "R_0 >"}, r"transitions\[0\].guard: guard must read"),
    ],
)
def test_a_malformed_transition_is_refused_with_its_place(changes: dict[str, Any], message: str):
    with pytest.raises(PolicyError, match=message):
        petri_net_from_protocol(with_transition(**changes))


@pytest.mark.parametrize("guard", [None, ""])
def test_no_guard_text_means_unguarded(guard: str | None):
    net, marking = petri_net_from_protocol(with_transition(guard=guard))
    assert net.transitions == (Transition("t", [Arc("starting")], [Arc("steady")]),)
    assert net.step(marking, {})[0].tokens == {"steady": 1}


def test_weights_and_guards_are_carried_over():
    net, marking = petri_net_from_protocol(
        with_transition(inputs=[{"place": "starting", "weight": 2}], guard="R < 0.5")
    )
    assert net.transitions[0] == Transition("t", [Arc("starting", 2)], [Arc("steady")], Guard("R", "<", 0.5))
    assert marking == Marking({"starting": 1})
