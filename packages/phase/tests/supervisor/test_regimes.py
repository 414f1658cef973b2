"""The regime automaton: its table, its hysteresis and its gates."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scpn_phase_orchestrator.monitor.boundaries import BoundaryState
from scpn_phase_orchestrator.supervisor.events import EventBus
from scpn_phase_orchestrator.supervisor.regimes import REGIME_RANK, Regime, RegimeManager, RegimeTransition
from scpn_phase_orchestrator.upde.metrics import UPDEState

StateOf = Callable[..., UPDEState]
N, D, C, R = Regime.NOMINAL, Regime.DEGRADED, Regime.CRITICAL, Regime.RECOVERY
CALM = BoundaryState()
HARD = BoundaryState(["floor broken"], [], ["floor broken"])
SOFT = BoundaryState(["ceiling broken"], ["ceiling broken"], [])


def manager_in(regime: Regime, **settings: Any) -> RegimeManager:
    manager = RegimeManager(**settings)
    manager.force_transition(regime)
    return manager


@pytest.mark.parametrize(
    ("current", "average", "boundary", "proposal"),
    [
        # any hard violation, or avg < 0.3
        *[(current, 0.9, HARD, C) for current in Regime],
        *[(current, 0.29, CALM, C) for current in Regime],
        # avg < 0.6
        (N, 0.3, CALM, D),
        (D, 0.59, CALM, D),
        (C, 0.3, CALM, R),
        (R, 0.59, CALM, R),
        # below 0.6 + hysteresis
        (D, 0.62, CALM, D),
        (C, 0.64, CALM, R),
        (R, 0.64, CALM, R),
        # current CRITICAL
        (C, 0.65, CALM, R),
        (C, 1.0, CALM, R),
        # otherwise
        (N, 0.6, CALM, N),
        (N, 0.62, CALM, N),
        (D, 0.66, CALM, N),
        (R, 0.65, CALM, N),
        # soft violations do not count
        (N, 0.9, SOFT, N),
    ],
)
def test_every_row_of_the_table(
    current: Regime, average: float, boundary: BoundaryState, proposal: Regime, state_of: StateOf
):
    assert manager_in(current).evaluate(state_of(average), boundary) is proposal


def test_the_average_is_the_mean_over_layers_and_zero_without_layers(state_of: StateOf):
    assert RegimeManager().evaluate(state_of(0.9, 0.2), CALM) is D
    assert RegimeManager().evaluate(state_of(), CALM) is C


def test_a_given_coherence_replaces_the_average(state_of: StateOf):
    manager = RegimeManager()
    assert manager.evaluate(state_of(0.1), CALM, coherence=0.9) is N
    assert manager.evaluate(None, CALM, coherence=0.5) is D
    assert manager.evaluate(None, HARD, coherence=0.9) is C


@pytest.mark.parametrize("coherence", [float("nan"), float("inf"), -float("inf")])
def test_a_coherence_that_is_not_finite_is_refused_instead_of_passing_as_nominal(coherence: float, state_of: StateOf):
    with pytest.raises(ValueError, match="coherence must be a finite number"):
        RegimeManager().evaluate(state_of(coherence), CALM)
    with pytest.raises(ValueError, match="coherence must be a finite number"):
        RegimeManager().evaluate(None, CALM, coherence=coherence)


def test_neither_state_nor_coherence_is_refused():
    with pytest.raises(ValueError, match="needs a state or a coherence"):
        RegimeManager().evaluate(None, CALM)


def test_acceptance_8_critical_at_once_recovery_only_after_the_cooldown_hard_violation_through_it(state_of: StateOf):
    manager = RegimeManager()
    assert manager.transition(manager.evaluate(state_of(0.2), CALM)) is C
    for _ in range(9):
        proposal = manager.evaluate(state_of(0.7), CALM)
        assert proposal is R
        assert manager.transition(proposal) is C
    assert manager.transition(manager.evaluate(state_of(0.7), CALM)) is R
    assert manager.transition(manager.evaluate(state_of(0.7), HARD)) is C


def test_acceptance_9_degraded_is_left_above_the_hysteresis_only(state_of: StateOf):
    manager = manager_in(D, cooldown_steps=0)
    assert manager.transition(manager.evaluate(state_of(0.62), CALM)) is D
    assert manager.transition(manager.evaluate(state_of(0.66), CALM)) is N


def test_the_first_change_needs_no_cooldown():
    assert RegimeManager(cooldown_steps=50).transition(D) is D


def test_a_worsening_move_waits_for_the_hold_and_an_interruption_starts_it_anew():
    manager = RegimeManager(hysteresis_hold_steps=3, cooldown_steps=0)
    assert [manager.transition(one) for one in (D, D, N, D, D, D)] == [N, N, N, N, N, D]


def test_a_change_starts_the_hold_anew():
    manager = RegimeManager(hysteresis_hold_steps=2, cooldown_steps=0)
    assert [manager.transition(one) for one in (D, D, R, R)] == [N, D, D, R]


def test_an_improving_proposal_starts_the_hold_anew_even_when_the_cooldown_blocks_it():
    manager = manager_in(D, hysteresis_hold_steps=2, cooldown_steps=4)
    assert [manager.transition(one) for one in (R, N, N, R, R)] == [D, D, D, D, R]


def test_critical_needs_no_hold_and_improving_needs_none_either():
    manager = RegimeManager(hysteresis_hold_steps=5, cooldown_steps=0)
    assert manager.transition(C) is C
    assert manager.transition(R) is R
    assert manager.transition(N) is N


def test_a_forced_transition_passes_all_gates_and_starts_the_cooldown():
    bus = EventBus()
    manager = RegimeManager(event_bus=bus, hysteresis_hold_steps=9)
    manager.transition(C, step=0)
    assert manager.force_transition(N, step=1) is N
    assert manager.force_transition(N, step=2) is N
    assert manager.transition(D, step=3) is N
    assert [(event.kind, event.step, event.detail) for event in bus.history] == [
        ("regime_transition", 0, "nominal->critical"),
        ("manual", 1, "critical->nominal"),
    ]


def test_events_and_history_carry_the_simulation_step():
    bus = EventBus()
    manager = RegimeManager(event_bus=bus)
    manager.transition(N, step=5)
    manager.transition(D, step=10)
    assert manager.transition_history == [RegimeTransition(10, N, D)]
    assert (bus.history[0].kind, bus.history[0].step, bus.history[0].detail) == (
        "regime_transition",
        10,
        "nominal->degraded",
    )


def test_without_a_step_the_call_counter_is_used():
    manager = RegimeManager(event_bus=EventBus())
    manager.transition(N)
    manager.transition(D)
    assert manager.transition_history == [(2, N, D)]


def test_the_history_of_transitions_keeps_the_newest_hundred():
    manager = RegimeManager(cooldown_steps=0)
    for step in range(101):
        manager.transition(C if step % 2 == 0 else R, step=step)
    assert len(manager.transition_history) == 100
    assert manager.transition_history[0].step == 1


@pytest.mark.parametrize("hysteresis", [-0.1, float("nan"), float("inf"), True, "0.1", None])
def test_a_hysteresis_that_is_no_margin_is_refused(hysteresis: Any):
    with pytest.raises(ValueError, match="hysteresis must be a finite number >= 0"):
        RegimeManager(hysteresis=hysteresis)


@pytest.mark.parametrize("name", ["cooldown_steps", "hysteresis_hold_steps"])
@pytest.mark.parametrize("count", [-1, 1.0, True, None])
def test_a_count_that_is_none_is_refused(name: str, count: Any):
    with pytest.raises(ValueError, match=f"{name} must be an integer >= 0"):
        RegimeManager(**{name: count})


@pytest.mark.parametrize("proposal", ["nominal", None, 3])
def test_a_proposal_that_is_no_regime_is_refused_and_changes_nothing(proposal: Any):
    manager = RegimeManager()
    with pytest.raises(ValueError, match="regime must be a Regime"):
        manager.transition(proposal)
    with pytest.raises(ValueError, match="regime must be a Regime"):
        manager.force_transition(proposal)
    assert manager.current_regime is N


averages = st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), min_size=1, max_size=60)


@given(ticks=averages, hysteresis=st.floats(0.0, 0.3), cooldown=st.integers(0, 12), hold=st.integers(0, 4))
def test_the_manager_never_leaves_the_documented_automaton(
    ticks: list[tuple[float, bool]], hysteresis: float, cooldown: int, hold: int
):
    manager = RegimeManager(hysteresis, cooldown, None, hold)
    since_change = cooldown
    worsening_in_a_row = 0
    for average, is_hard in ticks:
        before = manager.current_regime
        proposal = manager.evaluate(None, HARD if is_hard else CALM, coherence=average)
        after = manager.transition(proposal)
        since_change += 1
        worsens = REGIME_RANK[proposal] > REGIME_RANK[before]
        worsening_in_a_row = worsening_in_a_row + 1 if worsens else 0
        assert after in (before, proposal)
        # What may follow what, whatever happens: nothing is ever nominal right after critical.
        assert (before, after) not in {(C, N), (C, D), (N, R), (D, R), (R, D)}
        if is_hard or average < 0.3:
            assert after is C
        elif after is not before:
            assert since_change >= cooldown
            assert not worsens or worsening_in_a_row >= hold
            if after is N:
                assert average >= 0.6 + hysteresis
        elif proposal is not before:
            assert since_change < cooldown or (worsens and worsening_in_a_row < hold)
        if after is not before:
            since_change = 0
            worsening_in_a_row = 0


@given(centre=st.floats(0.6, 0.649), wobble=st.lists(st.floats(-0.3, 0.0), max_size=40))
def test_below_the_hysteresis_band_a_degraded_system_never_flips_back(centre: float, wobble: list[float]):
    manager = manager_in(D, cooldown_steps=0)
    for shift in wobble:
        average = max(0.3, centre + shift)
        assert manager.transition(manager.evaluate(None, CALM, coherence=average)) is D


@given(steps=st.lists(st.sampled_from(list(Regime)), max_size=80), cooldown=st.integers(1, 10))
def test_changes_other_than_to_critical_are_at_least_a_cooldown_apart(steps: list[Regime], cooldown: int):
    manager = RegimeManager(cooldown_steps=cooldown)
    for step, proposal in enumerate(steps):
        manager.transition(proposal, step=step)
    history = manager.transition_history
    for earlier, later in pairwise(history):
        assert later.previous is earlier.current
        assert later.current is C or later.step - earlier.step >= cooldown
