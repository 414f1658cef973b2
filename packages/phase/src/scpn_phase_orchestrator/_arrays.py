"""Input checks at the door of the numeric modules: real, finite numbers of the expected shape, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real
from typing import cast

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "LARGEST_DIAGONAL",
    "FloatArray",
    "positive_number",
    "real_array",
    "real_scalar",
    "scalar_or_vector",
    "square_coupling",
    "true_ranges",
    "whole_number",
]

FloatArray = NDArray[np.float64]
"""An array of float64."""

LARGEST_DIAGONAL = 1e-15
"""Largest magnitude on the diagonal of a coupling matrix that still counts as zero."""

_FLOAT64 = np.dtype(np.float64)


def real_scalar(
    name: str,
    value: object,
    *,
    minimum: float = -math.inf,
    above: float = -math.inf,
    maximum: float = math.inf,
) -> float:
    """Give the value as a float.

    Args:
        name: the argument, for the message.
        value: a real number; bool, NaN and infinities are refused.
        minimum: smallest value allowed.
        above: the value must be strictly greater than this.
        maximum: largest value allowed.

    Raises:
        ValueError: the value is no finite real number, or out of range.
    """
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    number = _as_float(value)
    if not math.isfinite(number):
        raise ValueError(f"{name} must be a finite real scalar, got {value!r:.80}")
    if number <= above:
        raise ValueError(f"{name} must be greater than {above:g}, got {number:g}")
    if not minimum <= number <= maximum:
        expected = f"at least {minimum:g}" if maximum == math.inf else f"between {minimum:g} and {maximum:g}"
        raise ValueError(f"{name} must be {expected}, got {number:g}")
    return number


def positive_number(name: str, value: object) -> float:
    """Give a positive finite real number as a float.

    Raises:
        ValueError: it is none; booleans are no numbers.
    """
    number = _as_float(value)
    if not 0.0 < number < math.inf:
        raise ValueError(f"{name} must be a positive finite number, got {value!r:.80}")
    return number


def whole_number(name: str, value: object, *, minimum: int = 0, maximum: int | None = None) -> int:
    """Give the value as an int.

    Args:
        name: the argument, for the message.
        value: an integer; booleans and floats are refused.
        minimum: smallest value allowed.
        maximum: largest value allowed; ``None`` allows any.

    Raises:
        ValueError: the value is no integer, or out of range.
    """
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        number = int(value)
        if number >= minimum and (maximum is None or number <= maximum):
            return number
    expected = f">= {minimum}" if maximum is None else f"from {minimum} to {maximum}"
    raise ValueError(f"{name} must be an integer {expected}, got {value!r:.80}")


def real_array(name: str, value: object, shape: tuple[int | None, ...] | None = None) -> FloatArray:
    """Give the value as a writeable C-contiguous float64 array, without a copy when it already is one.

    Compiled functions take read-only arrays for another type and would be compiled once more for them.

    Args:
        name: the argument, for the message.
        value: an array or nested sequence of real numbers, or one number.
        shape: expected length per axis, where ``None`` allows any length; ``None`` instead of a tuple allows any shape.

    Raises:
        ValueError: booleans, complex numbers, NaN, infinities, or another shape.
    """
    if type(value) is np.ndarray and value.dtype is _FLOAT64 and value.flags.carray and _fits(value.shape, shape):
        if math.isfinite(np.vdot(value, value)):  # unless a value is not, or one is huge: then look at each
            return value
    elif not isinstance(value, np.ndarray) and _holds_a_bool(value):
        raise ValueError(f"{name} must hold real numbers, got a bool")
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        expected = "" if shape is None else f" of shape {_as_text(shape)}"
        raise ValueError(f"{name} must be an array of real numbers{expected}") from error
    if array.dtype.kind not in "iuf" and array.size:
        raise ValueError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if not _fits(array.shape, shape):
        raise ValueError(f"{name} must have shape {_as_text(shape or ())}, got {array.shape}")
    result = np.require(array, np.float64, ["C", "A", "W"])
    if not np.isfinite(result).all():
        raise ValueError(f"{name} must contain only finite values")
    return result


def scalar_or_vector(name: str, value: object, n: int) -> float | FloatArray:
    """Give one real number as a float, or one per oscillator as an array ``(n,)``.

    Raises:
        ValueError: another shape, or values that are not real and finite.
    """
    if isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim):
        return real_array(name, value, (n,))
    return real_scalar(name, value)


def square_coupling(name: str, value: object, n: int | None = None) -> FloatArray:
    """Give a coupling matrix ``(n, n)`` with zero diagonal; ``n`` of ``None`` allows any size from 1 on.

    Raises:
        ValueError: another shape, values that are not real and finite, or a diagonal entry above 1e-15.
    """
    matrix = real_array(name, value, (n, n))
    if not 0 < matrix.shape[0] == matrix.shape[1]:
        raise ValueError(f"{name} must have shape (n, n) with n >= 1, got {matrix.shape}")
    diagonal = np.abs(matrix.diagonal())
    worst = int(diagonal.argmax())
    if diagonal[worst] > LARGEST_DIAGONAL:
        raise ValueError(f"{name} must have a zero diagonal, got {matrix[worst, worst]:g} at [{worst}, {worst}]")
    return matrix


def true_ranges(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Give the half-open ranges ``(first, after_last)`` in which a mask ``(n,)`` is true."""
    edges = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0))
    return [(int(first), int(after)) for first, after in edges.reshape(-1, 2)]


def _as_float(value: object) -> float:
    """Give the float of a real number, NaN of anything else."""
    if not isinstance(value, Real) or isinstance(value, (bool, np.bool_)):
        return math.nan
    try:
        return float(value)
    except OverflowError:  # an integer or a fraction beyond the largest double
        return math.nan


def _fits(lengths: tuple[int, ...], shape: tuple[int | None, ...] | None) -> bool:
    if shape is None:
        return True
    if len(lengths) != len(shape):
        return False
    for length, expected in zip(lengths, shape, strict=True):  # a generator would cost as much as the rest
        if expected is not None and length != expected:
            return False
    return True


def _holds_a_bool(value: object) -> bool:
    if isinstance(value, (bool, np.bool_)):
        return True
    return isinstance(value, (list, tuple)) and any(_holds_a_bool(item) for item in cast("Iterable[object]", value))


def _as_text(shape: tuple[int | None, ...]) -> str:
    lengths = ["n" if length is None else str(length) for length in shape]
    return f"({lengths[0]},)" if len(lengths) == 1 else f"({', '.join(lengths)})"
