"""Coherence beyond chance."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scpn_phase_orchestrator.monitor.coherence import CoherenceWindow, lock_level, longest_beat_s


@pytest.mark.parametrize("size", [2, 3, 5, 20])
def test_unrelated_phases_show_no_lock_though_their_mean_r_is_far_from_zero(size):
    phases = np.random.default_rng(7).uniform(0, 2 * np.pi, (200_000, size))
    r = np.abs(np.exp(1j * phases).mean(axis=1))
    lock = lock_level(np.array([(r * r).mean()]), np.array([size]))
    assert r.mean() > 0.18
    assert lock[0] < 0.1


def test_one_phase_is_fully_locked_and_opposite_phases_are_not_at_all():
    sizes = np.array([2, 2, 1])
    assert lock_level(np.array([1.0, 0.0, 1.0]), sizes).tolist() == [1.0, 0.0, 1.0]


def test_frequencies_that_all_but_agree_never_finish_a_beat():
    assert longest_beat_s([5e-324, 0.0]) == float("inf")


@given(st.integers(2, 50), st.floats(0, 1))
def test_lock_is_a_share_and_grows_with_order(size, square):
    low, high = lock_level(np.array([square * 0.9, square]), np.array([size, size]))
    assert 0.0 <= low <= high <= 1.0


def test_the_first_readings_are_averaged_plainly():
    window = CoherenceWindow([2], memory_steps=100)
    for r in (1.0, 0.0, 0.5):
        window.update(np.array([r]))
    assert window.mean_r[0] == pytest.approx(0.5)


def test_old_readings_fade_with_the_memory():
    window = CoherenceWindow([2], memory_steps=10)
    for r in [1.0] * 50 + [0.0] * 10:
        window.update(np.array([r]))
    assert window.mean_r[0] == pytest.approx(0.9**10)


def test_the_plain_mean_covers_exactly_its_last_readings():
    window = CoherenceWindow([3], memory_steps=4)
    readings = np.random.default_rng(1).uniform(0, 1, 37)
    for k, r in enumerate(readings, start=1):
        window.update(np.array([r]))
        expected = lock_level(np.array([(readings[max(0, k - 10) : k] ** 2).mean()]), np.array([3]))
        assert window.plain_lock[0] == pytest.approx(expected[0], abs=1e-7)


def test_a_reading_stays_as_it_was_read():
    window = CoherenceWindow([2], memory_steps=10)
    window.update(np.array([1.0]))
    before = window.mean_r
    window.update(np.array([0.0]))
    assert (before[0], window.mean_r[0]) == (1.0, 0.5)


def test_a_difference_of_rounding_is_no_beat():
    assert longest_beat_s([0.1 + 0.2, 0.3, 1.3]) == pytest.approx(2 * np.pi)
    assert longest_beat_s([2.0, 2.0]) == longest_beat_s([0.0]) == longest_beat_s([]) == 0.0
