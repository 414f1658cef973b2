"""The imprint: its update, its steady state, and what it changes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scpn_phase_orchestrator.imprint.state import ImprintState
from scpn_phase_orchestrator.imprint.update import MAX_LAG_OFFSET, ImprintModel


def test_update_gives_the_documented_values():
    state = ImprintModel(0.1, 2.0).update(ImprintState(np.array([1.0, 2.0]), 3.0), [0.8, 0.4], 0.5)
    assert state.m_k.tolist() == [1.3512294245007141, 2.0]
    assert state.last_update == 3.5


@given(st.floats(0, 5), st.floats(0.01, 5), st.lists(st.floats(-3, 3), min_size=3, max_size=3), st.floats(0, 2))
def test_imprint_stays_between_zero_and_saturation(decay, saturation, exposure, dt):
    model = ImprintModel(decay, saturation)
    state = ImprintState(np.zeros(3), 0.0)
    for _ in range(5):
        state = model.update(state, exposure, dt)
        assert (state.m_k >= 0).all()
        assert (state.m_k <= saturation).all()


@pytest.mark.parametrize(("exposure", "expected"), [(0.5, 0.25), (10.0, 3.0)])
def test_constant_exposure_settles_at_its_ratio_to_the_decay_or_at_saturation(exposure, expected):
    model = ImprintModel(2.0, 3.0)
    state = ImprintState(np.zeros(1), 0.0)
    for _ in range(10_000):
        state = model.update(state, [exposure], 1e-3)
    assert state.m_k[0] == pytest.approx(expected, rel=2e-3)


def test_modulations_follow_the_receiver():
    model = ImprintModel(0.1, 2.0)
    state = ImprintState(np.array([1.0, 0.5]), 0.0)
    ones = np.ones((2, 2))
    assert model.modulate_coupling(ones, state).tolist() == [[2.0, 2.0], [1.5, 1.5]]
    assert model.modulate_lag(ones, state).tolist() == [[1.0, 1.5], [0.5, 1.0]]
    assert model.modulate_mu(np.array([1.0, -2.0]), state).tolist() == [2.0, -3.0]


def test_lag_offset_never_turns_attraction_into_repulsion():
    state = ImprintState(np.array([5.0, 0.0]), 0.0)
    lag = ImprintModel(0.1, 5.0).modulate_lag(np.zeros((2, 2)), state)
    assert lag.tolist() == [[0.0, MAX_LAG_OFFSET], [-MAX_LAG_OFFSET, 0.0]]
    assert np.cos(lag).min() >= 0.0


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: ImprintModel(-1.0, 1.0), "decay_rate"),
        (lambda: ImprintModel(1.0, 0.0), "saturation must be greater than 0"),
        (lambda: ImprintModel(1.0, 1.0).update(ImprintState(np.zeros(2), 0.0), [1.0], 0.1), "exposure must have shape"),
        (lambda: ImprintModel(1.0, 1.0).update(ImprintState(np.zeros(1), 0.0), [np.nan], 0.1), "exposure must contain"),
        (lambda: ImprintModel(1.0, 1.0).update(ImprintState(np.zeros(1), 0.0), [1.0], -0.1), "dt must be at least 0"),
    ],
)
def test_bad_arguments_are_named(call, named):
    with pytest.raises(ValueError, match=named):
        call()
