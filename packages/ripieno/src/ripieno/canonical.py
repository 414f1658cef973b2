"""One JSON text per value, its hash, and strict parsing.

Every hash of JSON in the project is taken here, over the bytes of one of the named `Profile`s. The default
profile, `CANONICAL`, is what new formats use. Its bytes equal those of RFC 8785 (JSON Canonicalization
Scheme) as long as a value stays in the subset that `ripieno.run` produces.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, cast

import orjson

from ripieno.errors import InputError

__all__ = [
    "ASCII",
    "ASCII_FLOATS",
    "CANONICAL",
    "INDENTED",
    "INDENTED_LINE",
    "INDENTED_UNICODE_LINE",
    "MAX_BYTES",
    "MAX_DEPTH",
    "PROFILES",
    "SPACED",
    "Profile",
    "canonical_json",
    "content_hash",
    "parse_canonical",
    "plain_json",
    "refuse_deep_nesting",
    "strict_loads",
]

MAX_DEPTH = 100
"""Deepest nesting of arrays and objects that is written or read."""
MAX_BYTES = 64 * 2**20
"""Longest JSON text that is read unless the caller says otherwise."""


@dataclass(frozen=True)
class Profile:
    """One way to write JSON, so that equal values give equal bytes. No profile writes NaN or Infinity.

    Attributes:
        name: how documents call it.
        item_separator: between members.
        key_separator: between a key and its value.
        ensure_ascii: escape everything above U+007F.
        indent: spaces per level; ``None`` writes one line.
        trailing_newline: end with a line feed, which the hash covers too.
        numbers_as_floats: write every number except booleans as a float (``10`` as ``10.0``).
    """

    name: str
    item_separator: str = ","
    key_separator: str = ":"
    ensure_ascii: bool = False
    indent: int | None = None
    trailing_newline: bool = False
    numbers_as_floats: bool = False

    def dumps(self, value: object) -> bytes:
        """Write a JSON value (dicts with string keys, lists, tuples, strings, numbers, booleans, None).

        Raises:
            InputError: the value holds something that JSON cannot say; the message names the place.
        """
        if self == INDENTED_UNICODE_LINE:  # orjson can write this one too
            text = _orjson_text(value, _INDENTED_UNICODE_LINE_OPTIONS)
            if text is not None:
                return text
        _refuse_what_json_cannot_say(value, "$", MAX_DEPTH)
        text = json.dumps(
            _with_float_numbers(value) if self.numbers_as_floats else value,
            sort_keys=True,
            separators=(self.item_separator, self.key_separator),
            ensure_ascii=self.ensure_ascii,
            indent=self.indent,
            allow_nan=False,
        )
        return text.encode() + (b"\n" if self.trailing_newline else b"")

    def hash(self, value: object) -> str:
        """Give the lowercase hex SHA-256 of `dumps`."""
        return hashlib.sha256(self.dumps(value)).hexdigest()


CANONICAL = Profile("canonical")
ASCII = Profile("ascii", ensure_ascii=True)
ASCII_FLOATS = Profile("ascii-floats", ensure_ascii=True, numbers_as_floats=True)
INDENTED = Profile("indented", key_separator=": ", ensure_ascii=True, indent=2)
INDENTED_LINE = Profile("indented-line", key_separator=": ", ensure_ascii=True, indent=2, trailing_newline=True)
INDENTED_UNICODE_LINE = Profile("indented-unicode-line", key_separator=": ", indent=2, trailing_newline=True)
SPACED = Profile("spaced", item_separator=", ", key_separator=": ", ensure_ascii=True)

_INDENTED_UNICODE_LINE_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE

PROFILES: Mapping[str, Profile] = {
    profile.name: profile
    for profile in (
        CANONICAL,  # new formats; input-lab records; phase rule `H_u`
        ASCII,  # phase rule `H`
        ASCII_FLOATS,  # phase rule `H_t`
        INDENTED,  # the three-table safety report
        INDENTED_LINE,  # partners.json, admission reports, meta-transfer packages
        INDENTED_UNICODE_LINE,  # input-lab provider receipts
        SPACED,  # partner parameters
    )
}


def canonical_json(value: object) -> bytes:
    """Write a JSON value as its one canonical text.

    Keys sorted by code point, separators ``,`` and ``:``, UTF-8 unescaped, numbers as Python writes them.

    Raises:
        InputError: the value holds something that JSON cannot say; the message names the place.

    Examples:
        >>> canonical_json({"b": "é", "a": [1, 2.0, True, None]}).decode()
        '{"a":[1,2.0,true,null],"b":"é"}'
    """
    text = _orjson_text(value, orjson.OPT_SORT_KEYS)
    return CANONICAL.dumps(value) if text is None else text


def plain_json(value: object) -> bytes | None:
    """Give the `canonical_json` of a plain container, or None for anything else.

    A container is plain when orjson writes all of it byte for byte as the standard library does. Then it does so for
    every part, and for every container that is made of its parts and not nested deeper than ``MAX_DEPTH``, and their
    bytes need no further look.

    Examples:
        >>> plain_json({"b": [1, 0.5], "a": None}), plain_json({"tiny": 1e-9})
        (b'{"a":null,"b":[1,0.5]}', None)
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS) if _orjson_is_exact(value) else None
    except orjson.JSONEncodeError:  # a key that is no exact string, a lone surrogate
        return None


def content_hash(value: object) -> str:
    """Give the lowercase hex SHA-256 of `canonical_json`.

    Examples:
        >>> content_hash({"b": "é", "a": [1, 2.0, True, None]})
        '0177cc367861df7c11009c4b54fdd9948ba35efe620a08517e5efca753bc8baf'
    """
    text = plain_json(value)
    return hashlib.sha256(canonical_json(value) if text is None else text).hexdigest()


def _orjson_text(value: object, options: int) -> bytes | None:
    """Give the text of a container by orjson, or None where it cannot be relied on."""
    if type(value) not in _CONTAINERS:
        return None
    try:
        exact = value if _orjson_is_exact(value) else _with_odd_floats_as_text(value, MAX_DEPTH)
        return orjson.dumps(exact, option=options)
    except (_NotExactError, orjson.JSONEncodeError):  # NaN, lone surrogates: the slow path names the place
        return None


def _orjson_is_exact(value: Any, depth: int = MAX_DEPTH) -> bool:
    """Tell whether a container is one for which orjson writes the same bytes as the standard library, or refuses.

    Both write the shortest digits that read back as the same float; between 1e-4 and 1e16 both write them
    without an exponent. Both sort keys by code point (UTF-8 keeps that order). Everything else, such as NaN
    (which orjson writes as null), subclasses and huge integers, is left to the standard library. Keys are not looked
    at: orjson refuses every key whose type is not exactly ``str``.
    """
    kind = type(value)
    if kind is dict:
        items = value.values()
    elif kind is list or kind is tuple:
        items = value
    else:
        return False
    for item in items:  # scalars and empty containers are judged here, not in a call of their own: this is a hot path
        kind = type(item)
        if kind is str or kind is bool or item is None:
            continue
        if kind is int:
            if -(2**63) <= item < 2**63:
                continue
        elif kind is float:
            if 1e-4 <= item < 1e16 or item == 0.0 or -1e16 < item <= -1e-4:
                continue
        elif depth > 1 and (
            ((kind is dict or kind is list or kind is tuple) and not item) or _orjson_is_exact(item, depth - 1)
        ):
            continue
        return False
    return True


_CONTAINERS = frozenset({dict, list, tuple})


class _NotExactError(Exception):
    """Something that only the standard library writes as it should be."""


def _with_odd_floats_as_text(value: Any, depth: int) -> Any:
    """Give a copy whose very small and very large floats are their own text, as the standard library writes it."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if kind is float and math.isfinite(value):
        return value if 1e-4 <= abs(value) < 1e16 or value == 0.0 else orjson.Fragment(repr(value))
    if kind is int and -(2**63) <= value < 2**63:
        return value
    if depth > 0 and kind is dict and all([type(key) is str for key in value]):  # noqa: C419 - as above
        return {key: _with_odd_floats_as_text(item, depth - 1) for key, item in value.items()}
    if depth > 0 and (kind is list or kind is tuple):
        return [_with_odd_floats_as_text(item, depth - 1) for item in value]
    raise _NotExactError


def _refuse_what_json_cannot_say(value: object, place: str, depth: int) -> None:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            # Place and character find it; the text itself may be private.
            raise InputError(
                f"{place} holds a lone surrogate at character {error.start}, which UTF-8 cannot say"
            ) from None
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(f"{place} is {value!r}; JSON has finite numbers only")
    elif isinstance(value, dict | list | tuple):
        if depth == 0:
            raise InputError(f"{place[:60]}... is nested more than {MAX_DEPTH} levels deep")
        if isinstance(value, dict):
            for key, item in cast("dict[object, object]", value).items():
                if not isinstance(key, str):
                    raise InputError(f"{place} has the key {key!r}; JSON keys are strings")
                _refuse_what_json_cannot_say(key, f"a key of {place}", 0)
                _refuse_what_json_cannot_say(item, f"{place}.{key}", depth - 1)
        else:
            for index, item in enumerate(cast("Sequence[object]", value)):
                _refuse_what_json_cannot_say(item, f"{place}[{index}]", depth - 1)
    elif not (value is None or isinstance(value, int)):
        raise InputError(f"{place} is of type {type(value).__name__}, which JSON cannot say")


def _with_float_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_float_numbers(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_with_float_numbers(item) for item in cast("Sequence[Any]", value)]
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


# --- strict parsing -----------------------------------------------------------------------------------------

_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\Z|\\\Z)', re.DOTALL)  # an open one reaches to the end: linear time
_BRACKET = re.compile(r"[\[\]{}]")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def strict_loads(data: bytes | str, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> Any:
    """Read one JSON value and refuse everything that two readers could understand differently.

    Args:
        data: UTF-8 bytes or text.
        max_bytes: longest accepted text, in bytes of UTF-8.
        max_depth: deepest accepted nesting of arrays and objects.

    Returns:
        Dicts, lists, strings, integers, floats, booleans and None.

    Raises:
        InputError: not JSON, bad UTF-8, duplicate keys, NaN or Infinity (also as an overflowing number),
            lone surrogates, bytes after the value, too long or too deep.
    """
    raw = data if isinstance(data, bytes) else _encoded(data)
    if len(raw) > max_bytes:
        raise InputError(f"JSON text is {len(raw)} bytes long, at most {max_bytes} are read")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"JSON text is not UTF-8: byte {error.start} is wrong") from error
    refuse_deep_nesting(text, max_depth)
    try:
        value = json.loads(
            text, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant, parse_float=_finite_float
        )
    except InputError:
        raise
    except ValueError as error:  # JSONDecodeError, or an integer with more digits than Python reads
        raise InputError(f"not JSON: {error}") from error
    if _SURROGATE_ESCAPE.search(text):
        _refuse_what_json_cannot_say(value, "$", max_depth)
    return value


def parse_canonical(data: bytes, *, max_bytes: int = MAX_BYTES) -> Any:
    """Read a value whose text must be exactly its `canonical_json`.

    Raises:
        InputError: as `strict_loads`, or the text is not the canonical one; names the first differing byte.
    """
    if len(data) <= max_bytes:
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError:
            pass  # the strict parser says what is wrong
        else:
            # Equal bytes mean that nothing was lost on the way: no duplicate key, no other spelling.
            if _orjson_is_exact(value) and orjson.dumps(value, option=orjson.OPT_SORT_KEYS) == data:
                return value
    value = strict_loads(data, max_bytes=max_bytes)
    expected = canonical_json(value)
    if expected != data:
        pairs = enumerate(zip(expected, data, strict=False))
        byte = next((i for i, (a, b) in pairs if a != b), min(len(expected), len(data)))
        raise InputError(f"not in canonical form: byte {byte} differs")
    return value


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"JSON text holds a lone surrogate at character {error.start}") from error


def refuse_deep_nesting(text: str, max_depth: int = MAX_DEPTH) -> None:
    """Refuse text, JSON or the beginning of it, that would exhaust the stack of a recursive parser.

    Raises:
        InputError: it is nested deeper than allowed.
    """
    if text.count("[") + text.count("{") <= max_depth:
        return
    depth = 0
    for bracket in _BRACKET.finditer(_STRING.sub("", text)):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > max_depth:
            raise InputError(f"JSON text is nested more than {max_depth} levels deep")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        duplicate = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise InputError(f"JSON object has the key {duplicate!r} twice")
    return result


def _refuse_constant(name: str) -> NoReturn:
    raise InputError(f"JSON has no {name}")


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise InputError(f"JSON number {text[:40]} is too large for a double")
    return number
