"""User values survive the subset of JSON that every language reads and writes alike."""

import math
import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ripieno._portable import from_portable, to_portable
from ripieno.canonical import canonical_json, strict_loads
from ripieno.errors import InputError

KEYS = st.text(st.characters(exclude_categories=["Cs"], max_codepoint=0xFFFF))
any_float = st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack("<d", struct.pack("<Q", bits))[0])
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), any_float, st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(KEYS, inner)),
    max_leaves=25,
)


def same(a: object, b: object) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or struct.pack("<d", a) == struct.pack("<d", b)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return type(a) is type(b) and a == b


def ecmascript_number(number: float) -> str:
    """Write a double as RFC 8785 wants it (ECMAScript 7.1.12.1), from its shortest digits."""
    if number == 0:
        return "0"
    sign, text = ("-", repr(-number)) if number < 0 else ("", repr(number))
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    n = len(whole) + int(exponent or 0) if whole.strip("0") else int(exponent or 0) - len(fraction) + len(digits)
    digits = digits.rstrip("0")
    k = len(digits)
    if k <= n <= 21:
        return sign + digits + "0" * (n - k)
    if 0 < n <= 21:
        return f"{sign}{digits[:n]}.{digits[n:]}"
    if -6 < n <= 0:
        return f"{sign}0.{'0' * -n}{digits}"
    rest = f".{digits[1:]}" if k > 1 else ""
    return f"{sign}{digits[0]}{rest}e{n - 1:+d}"


def leaves(value: object) -> list[object]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, list):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1"),
        (0.5, "0.5"),
        (1e21, "1e+21"),
        (1e-7, "1e-7"),
        (1.5e-6, "0.0000015"),
        (-123.456, "-123.456"),
        (1e20, "100000000000000000000"),
    ],
)
def test_the_reference_for_rfc_8785_is_right(number: float, text: str) -> None:
    assert ecmascript_number(number) == text


@given(VALUES)
@example([1.0, -0.0, 0.0, math.nan, math.inf, -math.inf, 1e-5, 5e-324, 1e300, 2**53, 2**53 + 1, -(2**60), 10**400])
@example({"$float": "1.0"})
@example({"$float": 1.5, "$$": {"$int": "x"}})
def test_every_value_comes_back_exactly(value: object) -> None:
    stored = canonical_json(to_portable(value))
    assert same(from_portable(strict_loads(stored)), value)


@given(VALUES)
def test_what_is_stored_has_the_same_bytes_under_rfc_8785(value: object) -> None:
    for leaf in leaves(to_portable(value)):
        if isinstance(leaf, float):
            assert repr(leaf) == ecmascript_number(leaf)
        elif isinstance(leaf, int) and not isinstance(leaf, bool):
            assert abs(leaf) <= 2**53


def test_numpy_values_become_plain_numbers() -> None:
    value = {"a": np.float64(0.5), "b": np.arange(3), "c": np.int8(-4), "d": np.bool_(True), "e": np.float32(2)}
    assert from_portable(to_portable(value)) == {"a": 0.5, "b": [0, 1, 2], "c": -4, "d": True, "e": 2.0}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"a": object()}, "type object cannot be recorded"),
        ({"a": {1, 2}}, "type set cannot be recorded"),
        ({1: 2}, "keys must be strings, got 1"),
        ({"\U0001f600": 1}, "above U\\+FFFF"),
        ({"a": b"x"}, "type bytes cannot be recorded"),
    ],
)
def test_what_cannot_be_recorded_is_refused(value: object, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        to_portable(value)


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: dict[str, object] = {}
    loop["loop"] = loop
    with pytest.raises(InputError, match="nested more than"):
        to_portable(loop)


@pytest.mark.parametrize("value", [{"$float": "x"}, {"$int": "1.5"}, {"$other": "1"}, {"$float": "1.0", "b": 1}])
def test_an_unknown_or_malformed_tag_is_refused(value: object) -> None:
    with pytest.raises(InputError):
        from_portable(value)
