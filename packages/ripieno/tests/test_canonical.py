"""One value has one text, and a text that two readers could understand differently is refused."""

import dataclasses
import enum
import json
import math
import struct

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ripieno.canonical import (
    ASCII_FLOATS,
    CANONICAL,
    INDENTED_UNICODE_LINE,
    MAX_DEPTH,
    PROFILES,
    canonical_json,
    content_hash,
    parse_canonical,
    plain_json,
    strict_loads,
)
from ripieno.errors import InputError

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
any_float = st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack("<d", struct.pack("<Q", bits))[0])
FLOATS = st.one_of(st.floats(allow_nan=False, allow_infinity=False), any_float.filter(math.isfinite))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), FLOATS, TEXT),
    lambda inner: st.one_of(st.lists(inner), st.lists(inner).map(tuple), st.dictionaries(TEXT, inner)),
    max_leaves=25,
)


def standard_library(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


# Exact cases of the documents


def test_the_documented_text_and_hash_of_the_input_lab() -> None:
    value = {"b": "é", "a": [1, 2.0, True, None]}
    assert canonical_json(value).decode() == '{"a":[1,2.0,true,null],"b":"é"}'
    assert content_hash(value) == "0177cc367861df7c11009c4b54fdd9948ba35efe620a08517e5efca753bc8baf"


def test_the_documented_hash_of_an_empty_safety_report() -> None:
    report = {"schema_version": 3, "table_1": [], "table_2": [], "table_3": []}
    expected = "98e998613e8cd8f6091d95fafae68fc3bae4d2c3bb22c2201e6323313ae5c9c8"
    assert PROFILES["indented"].hash(report) == expected


@pytest.mark.parametrize(
    ("profile", "text"),
    [
        ("canonical", '{"a":[1,2.5],"é":true}'),
        ("ascii", '{"a":[1,2.5],"\\u00e9":true}'),
        ("ascii-floats", '{"a":[1.0,2.5],"\\u00e9":true}'),
        ("indented", '{\n  "a": [\n    1,\n    2.5\n  ],\n  "\\u00e9": true\n}'),
        ("indented-line", '{\n  "a": [\n    1,\n    2.5\n  ],\n  "\\u00e9": true\n}\n'),
        ("indented-unicode-line", '{\n  "a": [\n    1,\n    2.5\n  ],\n  "é": true\n}\n'),
        ("spaced", '{"a": [1, 2.5], "\\u00e9": true}'),
    ],
)
def test_every_profile_writes_its_documented_text(profile: str, text: str) -> None:
    assert PROFILES[profile].dumps({"é": True, "a": (1, 2.5)}).decode() == text


def test_the_list_of_profiles_in_this_file_is_whole() -> None:
    assert len(PROFILES) == 7
    assert all(name == profile.name for name, profile in PROFILES.items())


# Equal to the standard library


@given(VALUES)
@example({"\U00010000": 1, "\uffff": 2, "a": 3})  # UTF-8 and UTF-16 order these keys differently
@example(['\x00\x1f\x7f\x80\u2028\u2029"\\/\b\f\n\r\t'])
def test_canonical_text_is_that_of_the_standard_library(value: object) -> None:
    assert canonical_json(value) == standard_library(value)


@given(st.lists(FLOATS, min_size=20))
def test_floats_are_written_as_python_writes_them(numbers: list[float]) -> None:
    assert canonical_json(numbers) == standard_library(numbers)


@given(st.one_of(FLOATS, st.floats(1e-7, 1e-3), st.integers()))
@example(9.999e-5)
@example(1e-4)
@example(9999999999999998.0)
@example(1e16)
@example(-0.0)
@example(2**63 - 1)
@example(2**63)
@example(-(2**63) - 1)
def test_each_number_alone_is_written_as_python_writes_it(number: float) -> None:
    # Alone: one number that the fast path leaves to the slow one takes all its neighbours along.
    assert canonical_json([number]) == standard_library([number])


@given(VALUES)
def test_what_was_written_is_read_back(value: object) -> None:
    text = canonical_json(value)
    assert canonical_json(strict_loads(text)) == text
    assert canonical_json(parse_canonical(text)) == text


def test_subclasses_are_written_as_what_they_are() -> None:
    class Colour(enum.StrEnum):
        RED = "red"

    class Number(float):
        def __repr__(self) -> str:
            return "nonsense"

    assert canonical_json([Colour.RED, Number(1.5), enum.IntEnum("N", {"ONE": 1})(1)]) == b'["red",1.5,1]'


def test_keys_of_a_subclass_are_written_as_what_they_are() -> None:
    class Word(str):
        __slots__ = ()

    assert canonical_json({"b": [1], Word("a"): 2}) == b'{"a":2,"b":[1]}'
    assert canonical_json([{Word("a"): []}]) == b'[{"a":[]}]'
    assert plain_json({Word("a"): 2}) is None


@given(VALUES)
def test_what_is_plain_is_written_as_the_standard_library_does_in_every_part(value: object) -> None:
    text = plain_json(value)
    if text is None:
        return
    assert text == canonical_json(value)
    for part in value.values() if isinstance(value, dict) else value:  # type: ignore[union-attr]
        assert orjson.dumps(part, option=orjson.OPT_SORT_KEYS) == CANONICAL.dumps(part)


@pytest.mark.parametrize(
    "value",
    [1, "a", None, {"a": float("nan")}, [1e-5], [-1e-5], [1e16], {"a": [2**63]}, [b"x"], {1: 2}, ["\ud800"]],
    ids=repr,
)
def test_what_orjson_writes_otherwise_or_not_at_all_is_not_plain(value: object) -> None:
    assert plain_json(value) is None


@pytest.mark.parametrize("innermost", [[], {}, (), [1], {"a": 1}])
def test_depth_counts_empty_containers_too(innermost: object) -> None:
    deepest: object = innermost
    for _ in range(MAX_DEPTH - 1):
        deepest = [deepest]
    assert plain_json(deepest) == standard_library(deepest)
    assert plain_json([deepest]) is None
    with pytest.raises(InputError, match="nested more than"):
        canonical_json([deepest])


# What JSON cannot say


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": [0.0, float("nan")]}, r"\$\.a\[1\] is nan"),
        ([float("inf")], r"\$\[0\] is inf"),
        ({"a": {1: 2}}, r"\$\.a has the key 1"),
        ({"a": {1, 2}}, r"\$\.a is of type set"),
        ([b"x"], r"\$\[0\] is of type bytes"),
        (["\ud800"], r"\$\[0\] holds a lone surrogate"),
        ({"\udfff": 1}, r"a key of \$ holds a lone surrogate"),
    ],
)
def test_the_place_of_what_json_cannot_say_is_named(profile: str, value: object, place: str) -> None:
    with pytest.raises(InputError, match=place):
        PROFILES[profile].dumps(value)
    with pytest.raises(InputError, match=place):
        canonical_json(value)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("value", [{"text": "zq9-private \ud800"}, {"zq9-private \ud800": 1}])
def test_a_text_that_utf8_cannot_say_is_not_quoted(profile: str, value: object) -> None:
    with pytest.raises(InputError, match="at character 12") as refusal:
        PROFILES[profile].dumps(value)
    assert "zq9" not in str(refusal.value)
    assert refusal.value.__cause__ is None


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def test_depth_is_limited_when_writing_and_when_reading() -> None:
    text = canonical_json(nested(MAX_DEPTH))
    assert strict_loads(text) == nested(MAX_DEPTH) == parse_canonical(text)
    with pytest.raises(InputError, match="nested more than"):
        canonical_json(nested(MAX_DEPTH + 1))
    for read in (strict_loads, parse_canonical):
        with pytest.raises(InputError, match="nested more than"):
            read(b"[" + text + b"]")
        with pytest.raises(InputError, match="nested more than"):
            read(b"[" * 10**6)


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(InputError, match="nested more than"):
        canonical_json(loop)


def test_brackets_inside_strings_are_no_nesting() -> None:
    assert strict_loads(json.dumps(["[{" * 200 + '\\"'])) == ["[{" * 200 + '\\"']


def test_numbers_become_floats_but_booleans_stay() -> None:
    assert ASCII_FLOATS.dumps({"a": [10, True, None, "x"]}) == b'{"a":[10.0,true,null,"x"]}'


# Strict reading


@pytest.mark.timeout(20)  # a scan that starts again at every quote would take hours
@pytest.mark.parametrize("text", ['\\"' * 10**6, '"' + "\\" * 10**6, '"a' * (10**6 + 1)])
def test_quotes_in_hostile_text_do_not_slow_the_reader_down(text: str) -> None:
    with pytest.raises(InputError):
        strict_loads("[" * (MAX_DEPTH + 1) + text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a":1,"b":2,"a":3}', "the key 'a' twice"),
        ('{"x":{"a":1,"\\u0061":1}}', "the key 'a' twice"),
        ("NaN", "JSON has no NaN"),
        ("[Infinity]", "JSON has no Infinity"),
        ("[-Infinity]", "JSON has no -Infinity"),
        ("1e999", "too large for a double"),
        ("[1] x", "Extra data"),
        ("1 2", "Extra data"),
        ("", "not JSON"),
        ("{'a':1}", "not JSON"),
        ("[1,]", "not JSON"),
        ('"\t"', "not JSON"),
        ("\ufeff1", "not JSON"),
        (b'"\xff"', "byte 1 is wrong"),
        (b'"\xed\xa0\x80"', "not UTF-8"),
        ('"\\ud800"', "lone surrogate"),
        ('{"\\uDFFF":1}', "lone surrogate"),
        ('"\ud800"', "lone surrogate at character 1"),
        ("9" * 5000, "not JSON"),
    ],
)
def test_ambiguous_or_broken_text_is_refused(text: str | bytes, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        strict_loads(text)


def test_escaped_surrogate_pairs_are_one_character() -> None:
    assert strict_loads('"\\ud83d\\ude00"') == "\U0001f600"


def test_length_is_limited() -> None:
    assert strict_loads('"é"', max_bytes=4) == "é"
    with pytest.raises(InputError, match="4 bytes long, at most 3"):
        strict_loads('"é"', max_bytes=3)
    with pytest.raises(InputError, match="at most 3"):
        parse_canonical('"é"'.encode(), max_bytes=3)


@pytest.mark.parametrize(
    ("text", "byte"),
    [
        (b'{"a": 1}', 5),
        (b'{"b":1,"a":2}', 2),
        (b"[1.50]", 4),
        (b"[1e5]", 2),
        (b'["\\u00e9"]', 2),
        (b" 1", 0),
        (b"1\n", 1),
        (b"-0", 0),
        (b"[1E400]", None),
    ],
)
def test_another_spelling_of_the_same_value_is_not_canonical(text: bytes, byte: int | None) -> None:
    with pytest.raises(InputError, match="too large" if byte is None else f"byte {byte} differs"):
        parse_canonical(text)


@given(VALUES, st.data())
def test_no_changed_text_passes_as_the_canonical_text_of_the_same_value(value: object, data) -> None:
    text = canonical_json(value)
    place = data.draw(st.integers(0, len(text) - 1))
    changed = text[:place] + bytes([data.draw(st.integers(0, 255))]) + text[place + 1 :]
    try:
        read = parse_canonical(changed)
    except InputError:
        return
    assert canonical_json(read) == changed


@given(VALUES)
def test_the_fast_way_to_indent_gives_the_bytes_of_the_standard_library(value):
    expected = json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False).encode() + b"\n"
    assert PROFILES["indented-unicode-line"].dumps(value) == expected


def test_a_profile_of_somebody_elses_with_a_known_name_is_written_as_it_says():
    value = {"b": [1], "a": "é"}
    wider = dataclasses.replace(INDENTED_UNICODE_LINE, indent=4)
    assert wider.dumps(value).decode() == json.dumps(value, sort_keys=True, ensure_ascii=False, indent=4) + "\n"
