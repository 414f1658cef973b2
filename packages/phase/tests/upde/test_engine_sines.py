"""The compiled sines, the wrapping and the other pieces that work element by element."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scpn_phase_orchestrator.upde._kernels_elementary import LARGEST_PHASE, error_ratio, largest_magnitude, sines, wrap


def both(angles):
    sine, cosine = np.empty_like(angles), np.empty_like(angles)
    sines(angles, sine, cosine)
    return sine, cosine


@pytest.mark.parametrize("size", [1.0, 7.0, 1e3, 1e6, LARGEST_PHASE])
def test_sines_are_within_two_units_in_the_last_place_of_numpy(size):
    angles = np.random.default_rng(0).uniform(-size, size, 200_001)
    for own, reference in zip(both(angles), (np.sin(angles), np.cos(angles)), strict=True):
        assert (np.abs(own - reference) <= np.maximum(2 * np.spacing(np.abs(reference)), 3e-16)).all()


def test_sines_stay_accurate_beside_multiples_of_a_quarter_turn():
    quarters = np.arange(-2000, 2001) * (math.pi / 2)
    angles = np.concatenate([quarters, np.nextafter(quarters, np.inf), np.nextafter(quarters, -np.inf)])
    for own, reference in zip(both(angles), (np.sin(angles), np.cos(angles)), strict=True):
        # Relative accuracy also where the result is tiny: the reduction keeps more than a hundred bits of pi.
        assert (np.abs(own - reference) <= 2 * np.spacing(np.abs(reference))).all()


@given(st.floats(-LARGEST_PHASE, LARGEST_PHASE))
def test_sine_is_odd_cosine_even_and_both_lie_on_the_circle(angle):
    (sine, mirrored), (cosine, same) = both(np.array([angle, -angle]))
    assert (mirrored, same) == (-sine, cosine)
    assert math.hypot(sine, cosine) == pytest.approx(1.0, abs=1e-15)


def test_sines_do_not_depend_on_the_place_in_the_array():
    angles = np.random.default_rng(1).uniform(-10, 10, 37)
    sine, cosine = both(angles)
    for i in range(angles.size):
        assert (both(angles[i : i + 1])[0][0], both(angles[i : i + 1])[1][0]) == (sine[i], cosine[i])


def test_wrap_has_the_bits_of_numpy_and_stays_below_a_whole_turn():
    rng = np.random.default_rng(2)
    turns = np.arange(-300, 300) * math.tau
    phases = np.concatenate(
        [rng.uniform(-2000, 2000, 100_000), turns, np.nextafter(turns, np.inf), np.nextafter(turns, -np.inf)]
    )
    wrapped = np.concatenate([phases, [-1e-20, -0.0]])
    wrap(wrapped)
    assert (wrapped >= 0).all()
    assert (wrapped < math.tau).all()
    expected = np.mod(np.concatenate([phases, [-1e-20, -0.0]]), math.tau)
    expected[expected >= math.tau] = 0.0  # numpy rounds a tiny negative phase up to a whole turn
    np.testing.assert_array_equal(wrapped, expected)


def test_largest_magnitude_reports_what_is_not_a_number():
    assert largest_magnitude(np.array([1.0, -3.0, 2.0])) == 3.0
    assert math.isnan(largest_magnitude(np.array([1.0, np.nan, 2.0])))


def test_error_ratio_is_relative_to_both_ends_of_the_step():
    slopes = np.array([[1.0, 4.0], [3.0, 2.0]])
    ratio = error_ratio(
        np.array([1.0, -8.0]), np.array([2.0, 1.0]), 0.5, slopes, np.array([1.0, -1.0]), np.empty(2), 0.1, 0.2
    )
    assert ratio == pytest.approx(max(0.5 * 2 / (0.1 + 0.2 * 2), 0.5 * 2 / (0.1 + 0.2 * 8)))
