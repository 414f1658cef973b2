"""Small descriptions of values, from which reading, checking and JSON Schema all follow.

A descriptor has three uses: `read` turns a node of a document into a value and reports every violation with its dotted
path and line; `json_schema` says the same in JSON Schema (draft 2020-12); `expected` names the type in messages.
"""

from __future__ import annotations

import math
import operator
import re
from collections import abc
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any, Final, Protocol, cast

from scpn_phase_orchestrator.binding._document import Mapping, Node, Scalar, Sequence, plain

__all__ = ["INVALID", "REQUIRED", "Boolean", "Descriptor", "Field", "Free", "Integer", "Listing", "Nullable", "Number"]
__all__ += ["Record", "Report", "Table", "Text", "Violation", "nearest"]

_Path = tuple[str | int, ...]

_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")


class _Sentinel:
    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


INVALID: Final[Any] = _Sentinel("INVALID")
"""What `read` returns after it has reported a violation."""
REQUIRED: Final[Any] = _Sentinel("REQUIRED")
"""The default of a key that has none."""


@dataclass(frozen=True)
class Violation:
    """One thing that is wrong: where (dotted path and line, 0 when unknown) and what."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.message} (line {self.line})" if self.line else self.message


class Report:
    """Collects violations, and the line of each path that was read.

    Args:
        layer_indices: index of each layer by name, where it is known: for who names a layer instead.
    """

    def __init__(self, layer_indices: abc.Mapping[str, int] | None = None) -> None:
        self.layer_indices = layer_indices or {}
        self.violations: list[Violation] = []
        self.lines: dict[str, int] = {}
        self.has_wrong_types = False
        """Whether a value or key is missing or of another type than expected."""

    def add(self, path: _Path, line: int, message: str) -> Any:
        """Note a violation and return `INVALID`."""
        concrete = dotted(path)
        if any(isinstance(part, int) for part in path):
            message = f"{message} [{concrete}]"
        self.violations.append(Violation(concrete, line, message))
        return INVALID

    def wrong_type(self, expected: str, node: Node, path: _Path, hint: str = "") -> Any:
        """Note a value of another type than expected."""
        self.has_wrong_types = True
        return self.add(path, node.line, f"expected {expected} in {_general(path)}, got {_found(node)}{hint}")

    def missing(self, key: str, node: Node, path: _Path) -> Any:
        """Note a required key that is not there."""
        self.has_wrong_types = True
        return self.add(path, node.line, f"missing required key '{key}' in {_general(path)}")

    def wrong_value(self, expectation: str, node: Node, path: _Path, hint: str = "") -> Any:
        """Note a value of the right type that breaks a rule."""
        return self.add(path, node.line, f"{_general(path)} {expectation}, got {_shown(plain(node))}{hint}")


def dotted(path: _Path) -> str:
    """A path such as ``layers[1].name``; ``spec`` for the root."""
    return _joined(path, "[{}]")


def _general(path: _Path) -> str:
    """A path with empty brackets, such as ``layers[].name``: one text for all elements of a list."""
    return _joined(path, "[]")


def _joined(path: _Path, brackets: str) -> str:
    text = ""
    for part in path:
        text += brackets.format(part) if isinstance(part, int) else f".{part}" if text else part
    return text or "spec"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like another one, in spite of case; None when none is near."""
    by_folded = {candidate.casefold(): candidate for candidate in sorted(known, reverse=True)}
    near = get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[near[0]] if near else None


def _suggestion(name: object, known: Iterable[str]) -> str:
    near = nearest(name, known) if isinstance(name, str) and len(name) <= 100 else None
    return f"; did you mean '{near}'?" if near else ""


def _found(node: Node) -> str:
    if isinstance(node, Mapping):
        return "mapping"
    if isinstance(node, Sequence):
        return "list"
    if node.value is None:
        return "null"
    return f"{type(node.value).__name__} ({_shown(node.value)})"


def _shown(value: object) -> str:
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


class Descriptor(Protocol):
    """What every description of a value can do."""

    @property
    def expected(self) -> str:
        """The type in the words of a message."""
        ...

    def read(self, node: Node, path: _Path, report: Report) -> Any:
        """The value of a node, or `INVALID` after reporting why not."""
        ...

    def json_schema(self) -> dict[str, Any]:
        """The same as JSON Schema."""
        ...


@dataclass(frozen=True)
class Text:
    """Text; optionally one of some words, or of a pattern (anchored, in the common part of Python and ECMA syntax)."""

    choices: frozenset[str] = frozenset()
    pattern: str | None = None
    pattern_help: str = ""
    expected: str = "string"
    is_scope: bool = False

    def read(self, node: Node, path: _Path, report: Report) -> Any:
        value = node.value if isinstance(node, Scalar) else None
        if not isinstance(value, str):
            is_unquoted = isinstance(node, Scalar) and node.value is not None
            return report.wrong_type(self.expected, node, path, "; quote it" if is_unquoted else "")
        if self.choices and value not in self.choices:
            known = ", ".join(sorted(self.choices))
            return report.wrong_value(f"must be one of {known}", node, path, _suggestion(value, self.choices))
        if self.pattern and not (re.search(self.pattern, value) and not value.endswith("\n")):
            hint = _layer_hint(value, report, "layer_") if self.is_scope else ""
            return report.wrong_value(f"must be {self.pattern_help}", node, path, hint)
        return value

    def json_schema(self) -> dict[str, Any]:
        if self.choices:
            return {"type": "string", "enum": sorted(self.choices)}
        if self.pattern:
            return {"type": "string", "pattern": self.pattern}
        return {"type": "string"}


@dataclass(frozen=True)
class Number:
    """A finite number, optionally within bounds."""

    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    below: float | None = None
    expected: str = "number"

    def read(self, node: Node, path: _Path, report: Report) -> Any:
        value: object = node.value if isinstance(node, Scalar) else None
        if isinstance(value, bool) or not isinstance(value, Real):
            return report.wrong_type(self.expected, node, path, _number_hint(value))
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            return report.wrong_value("must be finite", node, path)
        for bound, sign, is_broken in (
            (self.minimum, ">=", operator.lt),
            (self.above, ">", operator.le),
            (self.maximum, "<=", operator.gt),
            (self.below, "<", operator.ge),
        ):
            if bound is not None and is_broken(number, bound):
                return report.wrong_value(f"must be {sign} {bound:g}", node, path)
        return number

    def json_schema(self) -> dict[str, Any]:
        bounds = {
            "minimum": self.minimum,
            "exclusiveMinimum": self.above,
            "maximum": self.maximum,
            "exclusiveMaximum": self.below,
        }
        return {"type": "number", **{key: bound for key, bound in bounds.items() if bound is not None}}


def _layer_hint(value: object, report: Report, prefix: str = "") -> str:
    """What to write for the name of a layer where its index is wanted."""
    index = report.layer_indices.get(value) if isinstance(value, str) else None
    return "" if index is None else f"; {_shown(value)} is layer {index}: write {prefix}{index}"


def _number_hint(value: object) -> str:
    if not isinstance(value, str):
        return ""
    if _DECIMAL_COMMA.fullmatch(value):
        return f"; a decimal comma is no part of a number: write {value.replace(',', '.')}"
    try:
        is_number = math.isfinite(float(value))
    except ValueError:
        return ""
    return "; remove the quotes" if is_number else ""


@dataclass(frozen=True)
class Integer:
    """A whole number (``2.0`` counts, as in JSON Schema), optionally with a least value."""

    minimum: int | None = None
    expected: str = "integer"
    is_layer: bool = False

    def read(self, node: Node, path: _Path, report: Report) -> Any:
        value = node.value if isinstance(node, Scalar) else None
        is_whole = isinstance(value, Integral) or (isinstance(value, float) and value.is_integer())
        if not is_whole or isinstance(value, bool):
            hint = _layer_hint(value, report) if self.is_layer else ""
            return report.wrong_type(self.expected, node, path, hint)
        number = int(cast("float", value))
        if self.minimum is not None and number < self.minimum:
            return report.wrong_value(f"must be >= {self.minimum}", node, path)
        return number

    def json_schema(self) -> dict[str, Any]:
        return {"type": "integer"} if self.minimum is None else {"type": "integer", "minimum": self.minimum}


@dataclass(frozen=True)
class Boolean:
    """True or false."""

    expected: str = "boolean"

    def read(self, node: Node, path: _Path, report: Report) -> Any:
        value = node.value if isinstance(node, Scalar) else None
        return value if isinstance(value, bool) else report.wrong_type(self.expected, node, path)

    def json_schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True)
class Nullable:
    """Another description, or null."""

    inner: Descriptor

    @property
    def expected(self) -> str:
        return f"{self.inner.expected} or null"

    def read(self, node: Node, path: _Path, report: Report) -> Any:
        if isinstance(node, Scalar) and node.value is None:
            return None
        return self.inner.read(node, path, report)

    def json_schema(self) -> dict[str, Any]:
        return {"anyOf": [self.inner.json_schema(), {"type": "null"}]}


@dataclass(frozen=True)
class Listing:
    """A list of equal things, optionally of a given least or exact length."""

    item: Descriptor
    min_items: int = 0
    max_items: int | None = None
    expected: str = "list"

    def read(self, node: Node, path: _Path, report: Report) -> Any:
        if not isinstance(node, Sequence):
            return report.wrong_type(self.expected, node, path)
        count = len(node.items)
        if count < self.min_items or (self.max_items is not None and count > self.max_items):
            exact = self.min_items == self.max_items
            wanted = f"exactly {self.min_items}" if exact else f"at least {self.min_items}"
            return report.wrong_value(f"must have {wanted} element(s)", node, path)
        values: list[Any] = []
        for index, item in enumerate(node.items):
            place = (*path, index)
            if not isinstance(item, Scalar):
                report.lines[dotted(place)] = item.line
            values.append(self.item.read(item, place, report))
        return INVALID if any(value is INVALID for value in values) else values

    def json_schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "array", "items": self.item.json_schema()}
        if self.min_items:
            schema["minItems"] = self.min_items
        if self.max_items is not None:
            schema["maxItems"] = self.max_items
        return schema


@dataclass(frozen=True)
class Free:
    """A mapping whose content belongs to somebody else."""

    expected: str = "mapping"

    def read(self, node: Node, path: _Path, report: Report) -> Any:
        return plain(node) if isinstance(node, Mapping) else report.wrong_type(self.expected, node, path)

    def json_schema(self) -> dict[str, Any]:
        return {"type": "object"}


@dataclass(frozen=True)
class Table:
    """A mapping from chosen names to equal things."""

    value: Descriptor
    key: Text = field(default_factory=Text)
    expected: str = "mapping"

    def read(self, node: Node, path: _Path, report: Report) -> Any:
        if not isinstance(node, Mapping):
            return report.wrong_type(self.expected, node, path)
        values: dict[str, Any] = {}
        for name, item in node.items.items():
            place = (*path, str(name))
            line = node.key_lines[name]
            report.lines[dotted(place)] = line
            key = self.key.read(Scalar(name, line), place, report)
            value = self.value.read(item, place, report)
            values[name] = INVALID if key is INVALID else value
        return INVALID if any(value is INVALID for value in values.values()) else values

    def json_schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object", "additionalProperties": self.value.json_schema()}
        if self.key.pattern or self.key.choices:
            schema["propertyNames"] = self.key.json_schema()
        return schema


@dataclass(frozen=True)
class Field:
    """One key of a mapping: its description, one sentence of help, its default, and other names for it."""

    key: str
    kind: Descriptor
    help: str
    default: Any = REQUIRED
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Record:
    """A mapping with known keys.

    `build` makes the value from keyword arguments; what it raises as `ValueError` or `TypeError` is a violation too.
    `others` describes the keys that are not known, which are then passed on as one dict named `others_name`;
    without it they are violations, unless the record `is_open`: then they are passed on as they are. `reserved` maps
    refused keys to the key to write instead.
    """

    fields: tuple[Field, ...]
    build: Callable[..., Any] = dict
    others: Table | None = None
    is_open: bool = False
    others_name: str = ""
    reserved: tuple[tuple[str, str], ...] = ()
    text_hint: str = ""
    expected: str = "mapping"

    def read(self, node: Node, path: _Path, report: Report) -> Any:
        if not isinstance(node, Mapping):
            is_text = isinstance(node, Scalar) and isinstance(node.value, str)
            return report.wrong_type(self.expected, node, path, self.text_hint if is_text else "")
        values: dict[str, Any] = {}
        unread = dict(node.items)
        for entry in self.fields:
            given = [name for name in (entry.key, *entry.aliases) if name in unread]
            if not given and entry.default is REQUIRED:
                values[entry.key] = report.missing(entry.key, node, path)
            if len(given) > 1:
                values[entry.key] = report.add(
                    path, node.key_lines[given[1]], f"'{given[0]}' and '{given[1]}' are one key; give one of them"
                )
            for name in given:
                place = (*path, name)
                report.lines[dotted(place)] = node.key_lines[name]
                value = entry.kind.read(unread.pop(name), place, report)
                values.setdefault(entry.key, value)
        others = self._read_others(unread, node, path, report)
        if others is INVALID or any(value is INVALID for value in values.values()):
            return INVALID
        if self.others_name:
            values[self.others_name] = others or None
        else:
            values.update(others)
        try:
            return self.build(**values)
        except (ValueError, TypeError) as error:
            return report.add(path, node.line, str(error))

    def _read_others(self, unread: dict[str, Node], node: Mapping, path: _Path, report: Report) -> Any:
        if self.is_open:
            return {name: plain(item) for name, item in unread.items()}
        reserved = dict(self.reserved)
        known = [entry.key for entry in self.fields]
        result: Any = {}
        for name in list(unread):
            if name in reserved or self.others is None:
                hint = f"; write '{reserved[name]}'" if name in reserved else _suggestion(name, known)
                hint = hint or f"; known keys: {', '.join(known)}"
                message = f"unknown key {_shown(name)} in {_general(path)}{hint}"
                result = report.add((*path, str(name)), node.key_lines[name], message)
                del unread[name]
        if self.others is None or result is INVALID:
            return result
        return self.others.read(Mapping(unread, node.key_lines, node.line), path, report)

    def json_schema(self) -> dict[str, Any]:
        properties: dict[str, Any] = {}
        exclusive: list[dict[str, Any]] = []
        for entry in self.fields:
            described = {**entry.kind.json_schema(), "description": entry.help}
            if entry.default is not REQUIRED and entry.default is not None:
                described["default"] = entry.default
            properties[entry.key] = described
            for alias in entry.aliases:
                properties[alias] = {**described, "description": f"Another name of {entry.key}."}
                exclusive.append({"not": {"required": [entry.key, alias]}})
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        required = [entry.key for entry in self.fields if entry.default is REQUIRED]
        if required:
            schema["required"] = required
        if exclusive:
            schema["allOf"] = exclusive
        if self.reserved:
            schema["propertyNames"] = {"not": {"enum": [name for name, _ in self.reserved]}}
        if self.others is not None:
            schema["additionalProperties"] = self.others.value.json_schema()
            if self.others.key.pattern:
                schema["propertyNames"] = {**schema.get("propertyNames", {}), "pattern": self.others.key.pattern}
        elif not self.is_open:
            schema["additionalProperties"] = False
        return schema
