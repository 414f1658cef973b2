"""The input checks that all numeric modules share."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from scpn_phase_orchestrator._arrays import (
    positive_number,
    real_array,
    real_scalar,
    scalar_or_vector,
    square_coupling,
    true_ranges,
    whole_number,
)


@given(arrays(np.float64, st.integers(0, 20), elements=st.floats(allow_nan=False, allow_infinity=False)))
def test_finite_arrays_pass_without_a_copy(values):
    assert real_array("x", values, (len(values),)) is values
    assert np.shares_memory(real_array("x", values, (None,)), values) or not len(values)


@given(
    arrays(np.float64, st.integers(1, 20), elements=st.floats(-1e308, 1e308)),
    st.sampled_from([np.nan, np.inf, -np.inf]),
    st.data(),
)
def test_one_value_that_is_not_finite_is_found_anywhere(values, bad, data):
    values[data.draw(st.integers(0, len(values) - 1))] = bad
    for shape in ((len(values),), (None,)):
        with pytest.raises(ValueError, match="x must contain only finite values"):
            real_array("x", values, shape)


def test_values_whose_squares_overflow_are_still_finite():
    huge = np.array([1e200, -1e300])
    assert (real_array("x", huge, (2,)) == huge).all()


@pytest.mark.parametrize(
    "value",
    [
        [1, 2, 3],
        (1.0, 2.0, 3.0),
        np.array([1, 2, 3], dtype=np.int8),
        np.array([1, 2, 3], dtype=np.float32),
        np.array([1, 2, 3], dtype=">f8"),
        np.array([1.0, 0.0, 2.0, 0.0, 3.0])[::2],
    ],
)
def test_numbers_of_any_kind_become_contiguous_native_float64(value):
    result = real_array("x", value, (3,))
    assert result.tolist() == [1.0, 2.0, 3.0]
    assert result.dtype == np.float64
    assert result.flags.carray


def test_read_only_arrays_are_copied():
    frozen = np.ones(2)
    frozen.flags.writeable = False
    assert real_array("x", frozen, (2,)).flags.writeable


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ([[1.0, True]], "got a bool"),
        (True, "got a bool"),
        ([np.bool_(1)], "got a bool"),
        (np.array([True]), "dtype bool"),
        ([1j], "dtype complex128"),
        (np.array([1.0], dtype=object), "dtype object"),
        (["1"], "dtype <U1"),
        ([[1.0], [1.0, 2.0]], r"array of real numbers of shape \(n,\)"),
        ([[1.0]], r"x must have shape \(n,\), got \(1, 1\)"),
        (None, "dtype object"),
        (np.array(["2026-01-01"], dtype="datetime64[D]"), "dtype datetime64"),
    ],
)
def test_what_is_no_vector_of_real_numbers_is_refused(value, named):
    with pytest.raises(ValueError, match=named):
        real_array("x", value, (None,))


@pytest.mark.parametrize("value", [1, 1.0, np.float32(1.0), np.int64(1), np.array(1.0)])
def test_real_scalars_become_floats(value):
    result = real_scalar("x", value)
    assert type(result) is float
    assert result == 1.0


@pytest.mark.parametrize("value", [True, np.True_, 1j, "1", None, [1.0], np.array([1.0]), float("nan"), float("inf")])
def test_what_is_no_real_scalar_is_refused(value):
    with pytest.raises(ValueError, match="x must be a finite real scalar"):
        real_scalar("x", value)


def test_ranges_are_inclusive_but_for_above():
    assert real_scalar("x", 0.0, minimum=0.0, maximum=0.0) == 0.0
    with pytest.raises(ValueError, match="x must be at least 0, got -1"):
        real_scalar("x", -1.0, minimum=0.0)
    with pytest.raises(ValueError, match="x must be between 0 and 1, got 2"):
        real_scalar("x", 2.0, minimum=0.0, maximum=1.0)
    with pytest.raises(ValueError, match="x must be greater than 0, got 0"):
        real_scalar("x", 0.0, above=0.0)


def test_whole_numbers_are_integers_from_the_minimum_on():
    assert whole_number("x", np.int32(3)) == 3
    for value in (True, np.True_, 3.0, "3", None):
        with pytest.raises(ValueError, match="x must be an integer"):
            whole_number("x", value)
    with pytest.raises(ValueError, match="x must be an integer >= 1, got 0"):
        whole_number("x", 0, minimum=1)


@pytest.mark.parametrize("value", [10**400, -(10**400), Fraction(10**400)])
def test_a_number_beyond_the_largest_double_is_refused_like_infinity(value):
    with pytest.raises(ValueError, match="x must be a finite real scalar"):
        real_scalar("x", value)
    with pytest.raises(ValueError, match="x must be a positive finite number"):
        positive_number("x", value)
    with pytest.raises(ValueError, match="x must hold real numbers, got dtype object"):
        real_array("x", [value], (1,))


@pytest.mark.parametrize("value", [0, -1.0, True, "1", 1j, float("nan"), float("inf"), None])
def test_what_is_no_positive_number_is_refused(value):
    with pytest.raises(ValueError, match="x must be a positive finite number"):
        positive_number("x", value)


def test_an_integer_may_have_a_largest_value():
    assert whole_number("x", 3, minimum=1, maximum=3) == 3
    with pytest.raises(ValueError, match="x must be an integer from 1 to 3, got 4"):
        whole_number("x", 4, minimum=1, maximum=3)


@pytest.mark.parametrize("value", [2.0, [[1.0], [2.0]], np.float32(3.0)])
def test_without_a_shape_any_is_kept(value):
    assert real_array("x", value).shape == np.shape(value)


def test_arrays_off_the_alignment_of_their_numbers_are_copied():
    bytes_ = np.zeros(17, np.uint8)
    assert real_array("x", bytes_[1:].view(np.float64), (2,)).flags.carray


def test_one_number_or_one_for_each():
    assert scalar_or_vector("x", np.array(1.5), 2) == 1.5
    assert scalar_or_vector("x", (1, 2), 2).tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match=r"x must have shape \(2,\), got \(3,\)"):
        scalar_or_vector("x", [1.0, 2.0, 3.0], 2)


def test_a_coupling_is_square_with_a_zero_diagonal():
    assert square_coupling("K", [[1e-15, 2.0], [-3.0, -1e-15]])[1, 0] == -3.0
    with pytest.raises(ValueError, match=r"K must have a zero diagonal, got -0.5 at \[1, 1\]"):
        square_coupling("K", [[1e-15, 2.0], [3.0, -0.5]])
    for matrix in ([[0.0, 1.0]], np.zeros((0, 0))):
        with pytest.raises(ValueError, match=r"K must have shape \(n, n\) with n >= 1"):
            square_coupling("K", matrix)
    with pytest.raises(ValueError, match=r"K must have shape \(3, 3\), got \(2, 2\)"):
        square_coupling("K", np.zeros((2, 2)), 3)


@given(arrays(np.bool_, st.integers(0, 30)))
def test_true_ranges_hold_exactly_the_true_places(mask):
    ranges = true_ranges(mask)
    assert [k for first, after in ranges for k in range(first, after)] == np.flatnonzero(mask).tolist()
    assert all(after < first for (_, after), (first, _) in pairwise(ranges))
