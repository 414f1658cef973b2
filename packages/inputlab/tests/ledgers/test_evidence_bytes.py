"""The short ways to read and write evidence give what the long ways give, or leave it to them."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum, IntEnum, StrEnum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.canonical import INDENTED_UNICODE_LINE, canonical_json, plain_json, strict_loads
from ripieno.errors import InputError
from ripieno.receipts import seal
from workers.official_arenas import _evidence as evidence
from workers.official_arenas._reading import written_value
from workers.official_arenas.protocol import content_hash, normalized_trace_hash, trace_hashes

Word = StrEnum("Word", {"A": "é"})
Number = IntEnum("Number", {"ONE": 1})
Foreign = Enum("Foreign", {"A": "a"})

ODD_NUMBERS = [1e-5, 1e16, 5e-324, 1.7e308, 0.00001234, -1e-7, 1e22, 2**63, 2**64, -(2**70), 10**400, -0.0]
VALUES: list[Any] = [
    {},
    [],
    {"": {"": [[], {}]}},
    {"b": 1, "a": [1.0, True, None, "é\u2028\n\x7f"], "\U0001f600": 0.1, "\uffff": -3},
    *({"value": number, "list": [number]} for number in ODD_NUMBERS),
    {"word": Word.A, "number": Number.ONE, "tuple": (1, (2,)), "ordered": OrderedDict(b=1, a=2)},
]
REFUSED: list[Any] = [
    {"x": float("nan")},
    [float("inf")],
    {"x": "\ud800"},
    {1: "x"},
    {"x": Foreign.A},
    {"x": UUID(int=1)},
    {"x": {1, 2}},
    {"x": b"bytes"},
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def nested(depth: int, innermost: Any = 1) -> Any:
    value = innermost
    for level in range(depth):
        value = [value] if level % 2 else {"k": value}
    return value


@pytest.mark.parametrize("value", [*VALUES, nested(100)], ids=lambda value: repr(value)[:40])
def test_bytes_are_those_of_the_standard_library(value: Any) -> None:
    plain = json.loads(json.dumps(value))  # enumerations and tuples are what they are written as
    compact = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    indented = json.dumps(plain, sort_keys=True, indent=2, ensure_ascii=False).encode() + b"\n"
    assert evidence.canonical_and_evidence_bytes(value) == (compact, indented)
    assert plain_json(value) in (compact, None)
    if evidence.is_plain(value, compact):
        assert evidence.plain_evidence_bytes(value) == indented
        assert evidence.plain_hash(value) == content_hash(value)
    assert written_value(indented, max_bytes=2**20) in (plain, None)
    assert evidence.parse_json(indented) == plain
    if isinstance(value, dict):
        assert evidence.sealed_evidence_bytes(value) == INDENTED_UNICODE_LINE.dumps(seal(value))


@given(value=JSON)
def test_any_value_is_written_and_read_as_the_strict_functions_do(value: Any) -> None:
    written = INDENTED_UNICODE_LINE.dumps(value)
    assert evidence.canonical_and_evidence_bytes(value) == (canonical_json(value), written)
    assert repr(evidence.parse_json(written)) == repr(strict_loads(written))  # types too: 1 is not 1.0, -0.0 not 0.0
    found = written_value(written, max_bytes=2**20)
    assert found is None or repr(found) == repr(strict_loads(written))
    assert trace_hashes(value) == (content_hash(value), normalized_trace_hash(value))


@pytest.mark.parametrize("number", [1e-5, -1e-7, 0.00001234, 2**64, 10**400])
def test_a_number_that_orjson_spells_otherwise_is_not_plain(number: float) -> None:
    value = {"x": [number]}
    assert not evidence.is_plain(value, canonical_json(value))
    assert plain_json(value) is None


@pytest.mark.parametrize("write", [evidence.canonical_and_evidence_bytes, evidence.sealed_evidence_bytes])
@pytest.mark.parametrize("value", [*REFUSED, {"x": nested(100)}], ids=lambda value: repr(value)[:40])
def test_what_json_cannot_say_is_refused_with_the_same_words(value: Any, write: Callable[[Any], Any]) -> None:
    if write is evidence.sealed_evidence_bytes and isinstance(value, list):
        value = {"x": value}
    with pytest.raises(InputError) as expected:
        evidence.evidence_bytes(value)
    with pytest.raises(InputError) as found:
        write(value)
    assert str(found.value) == str(expected.value)


def test_a_sealed_value_is_not_sealed_again() -> None:
    with pytest.raises(InputError, match="already has the key"):
        evidence.sealed_evidence_bytes({"receipt_sha256": "x"})


@pytest.mark.parametrize(
    "text",
    [
        b'{\n  "a": 1,\n  "a": 1\n}\n',
        b'{\n  "b": 1,\n  "a": 1\n}\n',
        b'{"a": 1}\n',
        b'{\n  "a": 1\n}',
        b'{\n  "a": 1\n}\n\n',
        b'{\n  "a": 1.00\n}\n',
        b'{\n  "a": 1e-05\n}\n',
        b'{\n  "a": -0\n}\n',
        b'{\n  "a": NaN\n}\n',
        b'{\n  "a": 18446744073709551616\n}\n',
        b'{\n  "a": "\\u00e9"\n}\n',
        b'{\n  "a": "\\ud800"\n}\n',
        b'{\n  "a": "\xff"\n}\n',
        b"\xef\xbb\xbf{}\n",
        b"",
        b"\n",
        b"null\n",
        b"[" * 100_000 + b"\n",
        b"[" * 300 + b"]" * 300 + b"\n",
        json.dumps(nested(101), indent=2).encode() + b"\n",
        json.dumps(nested(101, []), indent=2).encode() + b"\n",
        json.dumps(nested(300), indent=2).encode() + b"\n",
    ],
    ids=lambda text: repr(text[:30]),
)
def test_a_text_that_may_say_something_else_is_left_to_the_strict_parser(text: bytes) -> None:
    assert written_value(text, max_bytes=2**20) is None


@pytest.mark.parametrize(
    ("trace", "has_clock"),
    [
        ([{"role": "user", "content": '"timestamp":'}], False),
        ([{"role": "user", "content": '{"created":1}'}], False),
        ([{"my_timestamp": 1, "timestamps": 2, "raw": {"data": 3}}], False),
        ({"messages": [{"role": "user", "deep": [{"timestamp": 5}]}]}, True),
        ({"raw_data": {}, "messages": [{}]}, True),
    ],
)
def test_only_a_wall_clock_field_makes_the_normalized_hash_another_one(trace: Any, *, has_clock: bool) -> None:
    plain, normalized = trace_hashes(trace)
    assert (plain, normalized) == (content_hash(trace), normalized_trace_hash(trace))
    assert (plain != normalized) is has_clock
