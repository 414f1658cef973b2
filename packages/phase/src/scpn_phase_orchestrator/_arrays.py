"""Input checks at the door of the numeric modules: real, finite numbers of the expected shape, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real
from typing import cast

import numpy as np
from numpy.typing import NDArray

__all__ = ["FloatArray", "real_array", "real_scalar", "whole_number"]

FloatArray = NDArray[np.float64]
"""An array of float64."""

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
    number = float(value) if isinstance(value, Real) and not isinstance(value, (bool, np.bool_)) else math.nan
    if not math.isfinite(number):
        raise ValueError(f"{name} must be a finite real scalar, got {value!r}")
    if number <= above:
        raise ValueError(f"{name} must be greater than {above:g}, got {number:g}")
    if not minimum <= number <= maximum:
        expected = f"at least {minimum:g}" if maximum == math.inf else f"between {minimum:g} and {maximum:g}"
        raise ValueError(f"{name} must be {expected}, got {number:g}")
    return number


def whole_number(name: str, value: object, *, minimum: int = 0) -> int:
    """Give the value as an int; bools, floats and smaller values are refused.

    Raises:
        ValueError: the value is no integer, or below the minimum.
    """
    number = int(value) if isinstance(value, (int, np.integer)) and not isinstance(value, bool) else None
    if number is None:
        raise ValueError(f"{name} must be an integer, got {value!r}")
    if number < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {number}")
    return number


def real_array(name: str, value: object, shape: tuple[int | None, ...]) -> FloatArray:
    """Give the value as a writeable C-contiguous float64 array, without a copy when it already is one.

    Compiled functions take read-only arrays for another type and would be compiled once more for them.

    Args:
        name: the argument, for the message.
        value: an array or nested sequence of real numbers.
        shape: expected length per axis; ``None`` allows any length.

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
        raise ValueError(f"{name} must be an array of real numbers of shape {_as_text(shape)}") from error
    if array.dtype.kind not in "iuf" and array.size:
        raise ValueError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if not _fits(array.shape, shape):
        raise ValueError(f"{name} must have shape {_as_text(shape)}, got {array.shape}")
    result = np.ascontiguousarray(array, dtype=np.float64)
    if not np.isfinite(result).all():
        raise ValueError(f"{name} must contain only finite values")
    return result if result.flags.writeable else result.copy()


def _fits(lengths: tuple[int, ...], shape: tuple[int | None, ...]) -> bool:
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
