"""Limits on actions, and the actuators that take them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scpn_phase_orchestrator.actuation.constraints import ActionProjector
from scpn_phase_orchestrator.actuation.mapper import ActuationMapper, ControlAction
from scpn_phase_orchestrator.binding.types import ActuatorMapping


def wanted(value: float, knob: str = "K", scope: str = "global") -> ControlAction:
    return ControlAction(knob, scope, value, 10.0, "because")


@pytest.mark.parametrize(("value", "projected"), [(0.5, 0.1), (-0.5, -0.1), (0.05, 0.05)])
def test_acceptance_10_bounds_and_rate(value: float, projected: float):
    projector = ActionProjector({"K": 0.1}, {"K": (-0.2, 0.4)})
    assert projector.project(wanted(value), previous=0.0).value == projected


def test_acceptance_10_without_bounds_nothing_changes():
    assert ActionProjector({}, {}).project(wanted(1e9), previous=0.0) == wanted(1e9)


def test_the_projection_is_a_copy():
    action = wanted(0.5)
    projected = ActionProjector({}, {"K": (0.0, 0.1)}).project(action, 0.0)
    assert (action.value, projected.value) == (0.5, 0.1)
    assert (projected.scope, projected.ttl_s, projected.justification) == ("global", 10.0, "because")
    assert ActionProjector({}, {}).project(action, 0.0) is not action


def test_bounds_win_over_the_rate_when_the_previous_value_lies_outside():
    assert ActionProjector({"K": 0.1}, {"K": (-0.2, 0.4)}).project(wanted(0.4), previous=2.0).value == 0.4


def test_each_scope_has_its_own_limits_and_falls_back_to_the_global_ones():
    projector = ActionProjector.from_actuator_mappings(
        [
            ActuatorMapping("all", "K", "global", (-0.2, 0.4), 0.1),
            ActuatorMapping("one", "K", "layer_1", (-1.0, 1.0)),
        ]
    )
    assert projector.project(wanted(0.9), 0.0).value == 0.1
    assert projector.project(wanted(0.9, scope="layer_1"), 0.0).value == 0.9
    assert projector.project(wanted(0.9, scope="layer_0"), 0.0).value == 0.1
    assert projector.project(wanted(0.9, knob="zeta"), 0.0).value == 0.9


def test_a_global_action_is_not_bound_by_the_limits_of_a_layer():
    projector = ActionProjector({}, {("K", "layer_0"): (0.0, 0.1)})
    assert projector.project(wanted(0.9), 0.0).value == 0.9


def test_two_equal_actuators_are_no_conflict_and_different_ones_are():
    same = ActuatorMapping("a", "K", "global", (-0.2, 0.4), 0.1)
    ActionProjector.from_actuator_mappings([same, ActuatorMapping("b", "K", "global", (-0.2, 0.4), 0.1)])
    with pytest.raises(ValueError, match="conflicting value bounds for actuator knob 'K'"):
        ActionProjector.from_actuator_mappings([same, ActuatorMapping("b", "K", "global", (0.0, 3.0), 0.1)])
    with pytest.raises(ValueError, match="conflicting rate limits for actuator knob 'K'"):
        ActionProjector.from_actuator_mappings([same, ActuatorMapping("b", "K", "global", (-0.2, 0.4))])


@pytest.mark.parametrize(
    ("rates", "bounds", "message"),
    [
        ({"K": -0.1}, {}, r"rate limit of K \(global\) must be >= 0"),
        ({"K": float("nan")}, {}, r"rate limit of K \(global\) must be finite"),
        ({"K": True}, {}, r"rate limit of K \(global\) must be finite"),
        ({}, {"K": (1.0, 0.0)}, r"value bounds of K \(global\) must be ordered"),
        ({}, {("K", "layer_2"): (0.0, float("inf"))}, r"value bounds of K \(layer_2\) must be finite"),
        ({}, {"K": ("0", 1.0)}, r"value bounds of K \(global\) must be finite numbers"),
    ],
)
def test_limits_that_mean_nothing_are_refused(rates: Any, bounds: Any, message: str):
    with pytest.raises(ValueError, match=message):
        ActionProjector(rates, bounds)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_value_that_is_not_finite_is_refused(value: float):
    projector = ActionProjector({"K": 0.1}, {"K": (-0.2, 0.4)})
    with pytest.raises(ValueError, match=r"value of an action on K \(global\) must be finite"):
        projector.project(wanted(value), 0.0)
    with pytest.raises(ValueError, match=r"previous value of K \(global\) must be finite"):
        projector.project(wanted(0.0), value)


numbers = st.floats(-100.0, 100.0)


@given(value=numbers, previous=numbers, low=numbers, width=st.floats(0.0, 50.0), rate=st.floats(0.0, 50.0))
def test_the_projection_lies_within_bounds_and_rate_and_is_a_fixed_point(
    value: float, previous: float, low: float, width: float, rate: float
):
    projector = ActionProjector({"K": rate}, {"K": (low, low + width)})
    projected = projector.project(wanted(value), previous)
    assert low <= projected.value <= low + width
    if low <= previous <= low + width:
        assert previous - rate <= projected.value <= previous + rate
    assert projector.project(projected, previous).value == projected.value


@given(values=st.lists(numbers, max_size=30), rate=st.floats(0.01, 5.0))
def test_a_sequence_of_projections_never_moves_faster_than_the_rate(values: list[float], rate: float):
    projector = ActionProjector({"K": rate}, {"K": (-2.0, 3.0)})
    previous = 0.0
    for value in values:
        projected = projector.project(wanted(value), previous).value
        assert abs(projected - previous) <= rate * (1 + 1e-12)
        previous = projected


LINK = ActuatorMapping("link_gain", "K", "global", (-0.2, 0.4))
PUMP = ActuatorMapping("pump_gain", "K", "layer_0", (-0.1, 0.1))
DAMPER = ActuatorMapping("damper", "zeta", "global", (0.0, 0.5))


def test_an_action_is_mapped_to_the_actuators_of_its_scope_and_a_global_one_to_all():
    mapper = ActuationMapper([LINK, PUMP, DAMPER])
    assert mapper.map_actions([wanted(0.3), wanted(0.3, scope="layer_0"), wanted(9.0, knob="zeta")]) == [
        {"actuator": "link_gain", "knob": "K", "scope": "global", "value": 0.3, "ttl_s": 10.0},
        {"actuator": "pump_gain", "knob": "K", "scope": "layer_0", "value": 0.1, "ttl_s": 10.0},
        {"actuator": "pump_gain", "knob": "K", "scope": "layer_0", "value": 0.1, "ttl_s": 10.0},
        {"actuator": "damper", "knob": "zeta", "scope": "global", "value": 0.5, "ttl_s": 10.0},
    ]


def test_an_action_without_an_actuator_is_mapped_to_nothing():
    assert ActuationMapper([LINK]).map_actions([wanted(0.1, knob="Psi"), wanted(0.1, scope="layer_0")]) == []


@pytest.mark.parametrize(
    ("action", "fits"),
    [
        (wanted(0.05), True),
        (wanted(0.3), False),  # the pump takes global actions too, and not this one
        (wanted(0.05, scope="layer_0"), True),
        (wanted(0.05, scope="layer_5"), False),
        (wanted(0.05, knob="alpha"), False),
        (wanted(float("nan")), False),
    ],
)
def test_an_action_is_valid_when_every_actuator_that_takes_it_allows_its_value(action: ControlAction, fits: bool):
    assert ActuationMapper([LINK, PUMP, DAMPER]).validate_action(action) is fits


def test_an_action_can_be_judged_against_one_actuator():
    mapper = ActuationMapper([LINK, PUMP])
    assert mapper.validate_action(wanted(0.3), LINK)
    assert not mapper.validate_action(wanted(0.3), PUMP)
    assert not mapper.validate_action(wanted(0.3), DAMPER)
