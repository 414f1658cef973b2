"""Ranges of observed variables."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scpn_phase_orchestrator.binding.types import BoundaryDef
from scpn_phase_orchestrator.monitor.boundaries import BoundaryObserver, BoundaryState
from scpn_phase_orchestrator.supervisor.events import EventBus

FLOOR = BoundaryDef("floor", "R", 0.25, None, "hard")
CEILING = BoundaryDef("ceiling", "R_1", None, 0.8, "soft")
BAND = BoundaryDef("band", "pac_max", 0.1, 0.5, "soft")


def test_violations_are_told_in_words_and_sorted_by_severity():
    observer = BoundaryObserver([FLOOR, CEILING, BAND])
    state = observer.observe({"R": 0.123456, "R_1": 0.9, "pac_max": 0.05})
    assert state == BoundaryState(
        violations=[
            "floor: R=0.1235 outside [0.25, None]",
            "ceiling: R_1=0.9 outside [None, 0.8]",
            "band: pac_max=0.05 outside [0.1, 0.5]",
        ],
        soft_violations=["ceiling: R_1=0.9 outside [None, 0.8]", "band: pac_max=0.05 outside [0.1, 0.5]"],
        hard_violations=["floor: R=0.1235 outside [0.25, None]"],
    )


def test_a_variable_that_was_not_observed_is_not_judged():
    assert BoundaryObserver([FLOOR]).observe({"R_1": 0.0}) == BoundaryState()


@pytest.mark.parametrize("value", [0.1, 0.5, 0.3, np.float64(0.3), np.float32(0.25)])
def test_bounds_belong_to_the_range(value: float):
    assert BoundaryObserver([BAND]).observe({"pac_max": value}).violations == []


def test_integers_are_numbers():
    counted = BoundaryDef("count", "boundary_violation_count", None, 2, "hard")
    assert len(BoundaryObserver([counted]).observe({"boundary_violation_count": 3}).hard_violations) == 1


def test_an_unknown_severity_is_reported_and_counts_as_hard(caplog: pytest.LogCaptureFixture):
    observer = BoundaryObserver([BoundaryDef("odd", "R", 0.5, None, "medium")])
    assert "boundary 'odd' has the unknown severity 'medium'; it counts as hard" in caplog.text
    assert len(observer.observe({"R": 0.1}).hard_violations) == 1


def test_one_event_per_observation_with_all_messages_and_the_simulation_step():
    bus = EventBus()
    observer = BoundaryObserver([FLOOR, CEILING])
    observer.set_event_bus(bus)
    observer.observe({"R": 0.9, "R_1": 0.1}, step=3)
    observer.observe({"R": 0.1, "R_1": 0.9}, step=17)
    assert [(event.kind, event.step, event.detail) for event in bus.history] == [
        ("boundary_breach", 17, "floor: R=0.1 outside [0.25, None]; ceiling: R_1=0.9 outside [None, 0.8]")
    ]


def test_without_a_step_the_number_of_the_call_is_used_and_without_a_bus_nothing_is_posted():
    bus = EventBus()
    observer = BoundaryObserver([FLOOR])
    observer.observe({"R": 0.1})
    observer.set_event_bus(bus)
    observer.observe({"R": 0.1})
    observer.set_event_bus(None)
    observer.observe({"R": 0.1})
    assert [event.step for event in bus.history] == [2]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), np.float64("nan")])
def test_a_value_that_is_not_finite_never_passes_as_inside(value: float):
    with pytest.raises(ValueError, match="boundary variable 'R' must be finite"):
        BoundaryObserver([FLOOR]).observe({"R": value})


@pytest.mark.parametrize("value", [True, "0.5", 0.5 + 0j, [0.5]])
def test_a_value_that_is_no_real_number_is_refused(value: Any):
    with pytest.raises(ValueError, match="boundary variable 'R' must be a real number"):
        BoundaryObserver([FLOOR]).observe({"R": value})


def test_a_bad_value_without_a_boundary_is_nobodys_business():
    assert BoundaryObserver([FLOOR]).observe({"R": 0.5, "other": float("nan")}).violations == []


finite = st.floats(-1e6, 1e6)


@given(bounds=st.lists(finite, min_size=2, max_size=2, unique=True), value=finite, is_soft=st.booleans())
def test_a_value_is_violated_exactly_when_it_lies_outside(bounds: list[float], value: float, is_soft: bool):
    lower, upper = sorted(bounds)
    severity = "soft" if is_soft else "hard"
    state = BoundaryObserver([BoundaryDef("b", "x", lower, upper, severity)]).observe({"x": value})
    assert bool(state.violations) is (value < lower or value > upper)
    assert state.violations == (state.soft_violations if is_soft else state.hard_violations)
    assert not (state.hard_violations if is_soft else state.soft_violations)
