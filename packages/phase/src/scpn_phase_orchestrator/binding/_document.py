"""A YAML or JSON text as a tree of values that know their lines.

The reader is stricter than the languages: one document, text keys, no duplicate keys, finite numbers, standard tags,
bounded size, nesting and alias expansion, and no number that YAML 1.1 and 1.2 read differently.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

import yaml

from ripieno.canonical import refuse_deep_nesting, strict_loads
from ripieno.errors import InputError

__all__ = ["MAX_BYTES", "MAX_DEPTH", "MAX_NODES", "DocumentError", "Mapping", "Node", "Scalar", "Sequence"]
__all__ += ["parse_json", "parse_yaml", "plain", "wrap"]

MAX_BYTES = 10 * 2**20
"""Longest accepted text, in bytes."""
MAX_DEPTH = 40
"""Deepest accepted nesting."""
MAX_NODES = 1_000_000
"""Most values that a document may hold once its aliases are expanded."""

_LARGEST_INTEGER = 2**63 - 1


class DocumentError(ValueError):
    """The text is not a document that every reader would understand alike; `line` counts from 1 (0: unknown)."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


@dataclass(slots=True)
class Scalar:
    """A text, number, boolean or null."""

    value: str | int | float | bool | None
    line: int
    size: int = 1


@dataclass(slots=True)
class Sequence:
    """A list of nodes; `size` counts all nodes below and itself."""

    items: list[Node]
    line: int
    size: int = 1


@dataclass(slots=True)
class Mapping:
    """Nodes by key, with the line of each key."""

    items: dict[str, Node]
    key_lines: dict[str, int]
    line: int
    size: int = 1


Node = Scalar | Sequence | Mapping


def plain(node: Node) -> Any:
    """The tree as dicts, lists and scalars."""
    if isinstance(node, Mapping):
        return {key: plain(item) for key, item in node.items.items()}
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    return node.value


def wrap(value: Any, line: int = 0) -> Node:
    """The tree of values that came from no file; anything that JSON has no word for stays a scalar."""
    if isinstance(value, dict):
        items = {key: wrap(item, line) for key, item in value.items()}
        return Mapping(items, dict.fromkeys(items, line), line)
    if isinstance(value, list | tuple):
        return Sequence([wrap(item, line) for item in value], line)
    return Scalar(value, line)


def _duplicate_key(key: str, first_line: int, line: int) -> DocumentError:
    return DocumentError(f"duplicate key '{key}' (first given in line {first_line})", line)


_CONTROL = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _refuse_control_characters(text: str, before: str, line: int) -> None:
    """Refuse what a terminal would obey or UTF-8 cannot say; lines are counted in `before`, starting at `line`."""
    found = _CONTROL.search(text)
    if found is None:
        return
    place = line + before.count("\n", 0, found.start())
    raise DocumentError(f"character {found.group()!a} is not allowed in text", place)


# --- YAML -----------------------------------------------------------------------------------------------------------

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {
    variant: value
    for words, value in ((("true", "yes", "on"), True), (("false", "no", "off"), False))
    for word in words
    for variant in (word, word.capitalize(), word.upper())
}
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9_]*)\Z")
_HEXADECIMAL = re.compile(r"[-+]?0x[0-9a-fA-F_]+\Z")
_FLOAT = re.compile(r"[-+]?([0-9][0-9_]*(\.[0-9_]*)?|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?\Z")
_NOT_FINITE = re.compile(r"([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z")
_AMBIGUOUS = re.compile(r"[-+]?(0[0-9_]+|0b[01_]+|0o[0-7]+|[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?)\Z")
_NUMBER_STARTS = frozenset("0123456789+-.")
_TAG_PREFIX = "tag:yaml.org,2002:"
_TAG_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "null": (type(None),),
}


def parse_yaml(text: str) -> Node:
    """Read one YAML document.

    Raises:
        DocumentError: not YAML, or outside the subset that this module accepts; names the line.
    """
    _refuse_control_characters(text, text, 1)
    loader_class: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        loader = loader_class(text)
        try:
            return _Composer(loader).document()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        if mark and _is_indented_by_tab(text, mark.line):
            raise DocumentError("not YAML: a tab in the indentation; use spaces", mark.line + 1) from error
        raise DocumentError(f"not YAML: {error.problem or error.context}", mark.line + 1 if mark else 0) from error
    except yaml.YAMLError as error:
        raise DocumentError(f"not YAML: {error}") from error


def _is_indented_by_tab(text: str, line: int) -> bool:
    lines = text.split("\n", line + 1)
    return line < len(lines) and "\t" in lines[line][: len(lines[line]) - len(lines[line].lstrip(" \t"))]


class _Composer:
    """Builds nodes from parser events without recursion in the library, so that depth and size stay bounded."""

    def __init__(self, loader: Any) -> None:
        self._next = loader.get_event
        self._anchors: dict[str, Node | None] = {}
        self._count = 0

    def document(self) -> Node:
        self._next()  # stream start
        event = self._next()
        if isinstance(event, yaml.StreamEndEvent):
            raise DocumentError("the file is empty", 1)
        root = self._node(self._next(), 1)
        self._next()  # document end
        event = self._next()
        if not isinstance(event, yaml.StreamEndEvent):
            raise DocumentError("more than one YAML document in the file; keep one", _line(event))
        return root

    def _node(self, event: Any, depth: int) -> Node:
        line = _line(event)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event.anchor, line)
        self._grow(1, line)
        anchor = event.anchor
        if anchor is not None:
            self._anchors[anchor] = None
        node: Node
        if isinstance(event, yaml.ScalarEvent):
            node = Scalar(_scalar(event, line), line)
        elif depth > MAX_DEPTH:
            raise DocumentError(f"nested more than {MAX_DEPTH} levels deep", line)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._sequence(event, line, depth)
        else:
            node = self._mapping(event, line, depth)
        if anchor is not None:
            self._anchors[anchor] = node
        return node

    def _grow(self, size: int, line: int) -> None:
        self._count += size
        if self._count > MAX_NODES:
            raise DocumentError(f"more than {MAX_NODES} values (aliases expanded)", line)

    def _alias(self, anchor: str, line: int) -> Node:
        if anchor not in self._anchors:
            raise DocumentError(f"alias *{anchor} names no anchor above it", line)
        node = self._anchors[anchor]
        if node is None:
            raise DocumentError(f"alias *{anchor} contains itself", line)
        self._grow(node.size, line)
        return node

    def _sequence(self, event: Any, line: int, depth: int) -> Sequence:
        _refuse_tag(event, "seq", line)
        items: list[Node] = []
        size = 1
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            item = self._node(event, depth + 1)
            items.append(item)
            size += item.size
        return Sequence(items, line, size)

    def _mapping(self, event: Any, line: int, depth: int) -> Mapping:
        _refuse_tag(event, "map", line)
        mapping = Mapping({}, {}, line)
        merged: list[Mapping] = []
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key_line = _line(event)
            is_merge = isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]
            key_node = None if is_merge else self._node(event, depth + 1)
            item = self._node(self._next(), depth + 1)
            mapping.size += item.size + 1
            if key_node is None:
                merged.extend(_merge_sources(item, key_line))
                continue
            key = _key(key_node, key_line)
            if key in mapping.items:
                raise _duplicate_key(key, mapping.key_lines[key], key_line)
            mapping.items[key] = item
            mapping.key_lines[key] = key_line
        for source in merged:
            for key, item in source.items.items():
                if key not in mapping.items:
                    mapping.items[key] = item
                    mapping.key_lines[key] = source.key_lines[key]
        return mapping


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _key(node: Node, line: int) -> str:
    if isinstance(node, Scalar) and isinstance(node.value, str):
        return node.value
    if isinstance(node, Scalar):
        comma = " (or write a decimal point, if it follows a decimal comma)" if isinstance(node.value, int) else ""
        raise DocumentError(f"key {node.value!r} is not text; quote it{comma}", line)
    raise DocumentError("a key must be text, got a list or mapping (unhashable key)", line)


def _merge_sources(item: Node, line: int) -> list[Mapping]:
    sources = item.items if isinstance(item, Sequence) else [item]
    mappings = [source for source in sources if isinstance(source, Mapping)]
    if len(mappings) != len(sources):
        raise DocumentError("the merge key << takes a mapping or a list of mappings", line)
    return mappings


def _refuse_tag(event: Any, expected: str, line: int) -> None:
    if event.tag not in {None, "!", _TAG_PREFIX + expected}:
        raise DocumentError(f"tag {_short_tag(event.tag)} is not allowed; only standard tags are", line)


def _short_tag(tag: str) -> str:
    return "!!" + tag.removeprefix(_TAG_PREFIX) if tag.startswith(_TAG_PREFIX) else tag


def _scalar(event: Any, line: int) -> str | float | bool | None:
    text: str = event.value
    if event.style == '"':
        _refuse_control_characters(text, "", line)
    tag: str | None = event.tag
    if tag is None or tag == "!":
        return _plain_scalar(text, line) if event.implicit[0] and tag is None else text
    name = tag.removeprefix(_TAG_PREFIX)
    if name not in _TAG_TYPES or name == tag:
        raise DocumentError(f"tag {_short_tag(tag)} is not allowed; only standard tags are", line)
    if name == "str":
        return text
    value = _plain_scalar(text, line)
    fits = isinstance(value, _TAG_TYPES[name]) and (name == "bool" or not isinstance(value, bool))
    if not fits:
        raise DocumentError(f"{text!r} is not what its tag !!{name} says", line)
    return float(value) if name == "float" and isinstance(value, int) else value


def _plain_scalar(text: str, line: int) -> str | float | bool | None:
    """The value of an unquoted scalar: null, boolean, integer, float, or else its text."""
    if text in _NULL:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    return _plain_number(text, line) if text[0] in _NUMBER_STARTS else text


def _plain_number(text: str, line: int) -> str | float:
    if _INTEGER.match(text):
        return _integer(text.replace("_", ""), 10, line)
    if _AMBIGUOUS.match(text):
        raise DocumentError(f"{text} is read differently by YAML 1.1 and 1.2; write it in decimal, or quote it", line)
    if _FLOAT.match(text):
        return _finite(text.replace("_", ""), line)
    if _HEXADECIMAL.match(text):
        return _integer(text.replace("_", ""), 16, line)
    if _NOT_FINITE.match(text):
        raise DocumentError(f"numbers must be finite, got {text}", line)
    return text


def _integer(digits: str, base: int, line: int) -> int:
    if len(digits) <= 40:
        value = int(digits, base)
        if abs(value) <= _LARGEST_INTEGER:
            return value
    raise DocumentError(f"integer {digits[:20]}... does not fit into 64 bits", line)


def _finite(digits: str, line: int) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise DocumentError(f"numbers must be finite, got {digits}", line)
    return value


# --- JSON -----------------------------------------------------------------------------------------------------------

_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+|\n')


def parse_json(text: str) -> Node:
    """Read one JSON value, with lines.

    Raises:
        DocumentError: as `ripieno.canonical.strict_loads` refuses, or too many values or too large integers.
    """
    try:
        refuse_deep_nesting(text, MAX_DEPTH)
    except InputError as error:
        raise DocumentError(str(error)) from error
    try:
        strict_loads(text, max_bytes=MAX_BYTES, max_depth=MAX_DEPTH)
    except InputError as error:
        if isinstance(error.__cause__, json.JSONDecodeError):
            raise DocumentError(str(error), error.__cause__.lineno) from error
        _JsonReader(text).value()  # which may know the line
        raise DocumentError(str(error)) from error
    return _JsonReader(text).value()


class _JsonReader:
    """Builds nodes of a text that is JSON, at least up to its first violation of what this module accepts."""

    def __init__(self, text: str) -> None:
        self._tokens = _JSON_TOKEN.finditer(text)
        self._line = 1
        self._count = 0

    def _next(self) -> str:
        """The next token but colons and commas, which a text known to be JSON has in the right places."""
        while (lexeme := next(self._tokens).group()) in "\n:,":
            self._line += lexeme == "\n"
        return lexeme

    def value(self) -> Node:
        return self._value(self._next())

    def _value(self, lexeme: str) -> Node:
        line = self._line
        self._count += 1
        if self._count > MAX_NODES:
            raise DocumentError(f"more than {MAX_NODES} values", line)
        if lexeme == "[":
            items: list[Node] = []
            while (lexeme := self._next()) != "]":
                items.append(self._value(lexeme))
            return Sequence(items, line)
        if lexeme == "{":
            mapping = Mapping({}, {}, line)
            while (lexeme := self._next()) != "}":
                key = str(_json_scalar(lexeme, self._line))
                if key in mapping.items:
                    raise _duplicate_key(key, mapping.key_lines[key], self._line)
                mapping.key_lines[key] = self._line
                mapping.items[key] = self.value()
            return mapping
        return Scalar(_json_scalar(lexeme, line), line)


def _json_scalar(token: str, line: int) -> Any:
    value = json.loads(token)
    if isinstance(value, str):
        _refuse_control_characters(value, "", line)
    if isinstance(value, float) and not math.isfinite(value):
        raise DocumentError(f"numbers must be finite, got {token}", line)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _LARGEST_INTEGER:
        raise DocumentError(f"integer {token[:20]}... does not fit into 64 bits", line)
    return value
