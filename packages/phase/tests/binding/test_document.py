"""The text of a spec: what YAML and JSON may say, and what is refused before anything is built from it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from scpn_phase_orchestrator.binding._document import (
    MAX_DEPTH,
    DocumentError,
    Mapping,
    Sequence,
    parse_json,
    parse_yaml,
    plain,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-12", -12),
        ("1_000", 1000),
        ("0x1F", 31),
        ("0", 0),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1.", 1.0),
        ("1e-3", 0.001),
        ("1.0E+3", 1000.0),
        ("-0.0", -0.0),
        ("true", True),
        ("No", False),
        ("ON", True),
        ("null", None),
        ("~", None),
        ("''", ""),
        ("'1'", "1"),
        ('"true"', "true"),
        ("2024-01-01", "2024-01-01"),
        ("1.2.3", "1.2.3"),
        ("+", "+"),
        ("-.x", "-.x"),
        ("!!str 12", "12"),
        ("!!int 12", 12),
        ("!!float 12", 12.0),
        ("!!bool yes", True),
        ("!!null ''", None),
        ("! 12", "12"),
        ("|\n  a\n  b\n", "a\nb\n"),
        ("!!map {a: 1}", {"a": 1}),
        ("!!seq [1]", [1]),
        ("\ufeff# comment\na: 1", {"a": 1}),
        ("a: é", {"a": "é"}),
    ],
    ids=ascii,
)
def test_scalars_are_read_as_people_write_them(text: str, value: Any) -> None:
    result = plain(parse_yaml(text.removeprefix("\ufeff")))
    assert result == value
    assert type(result) is type(value)


def test_anchors_aliases_and_merge_keys_are_expanded_and_own_keys_win() -> None:
    text = "base: &b {x: 1, y: 2}\none: {<<: *b, y: 3}\ntwo:\n  <<: [{z: 0}, *b]\nlist: &l [1]\nagain: *l\n"
    assert plain(parse_yaml(text)) == yaml.safe_load(text)


def test_a_quoted_merge_key_is_a_key() -> None:
    assert plain(parse_yaml('{"<<": 3}')) == {"<<": 3}


def test_every_node_knows_its_line() -> None:
    root = parse_yaml("a: 1\nb:\n  - x\n  -\n    c: 2\n")
    assert isinstance(root, Mapping)
    items = root.items["b"]
    assert isinstance(items, Sequence)
    assert [item.line for item in items.items] == [3, 5]
    assert root.key_lines == {"a": 1, "b": 2}


def test_an_alias_bomb_is_refused_quickly() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 10)}]" for k in range(1, 10)]
    with pytest.raises(DocumentError, match="more than 1000000 values") as caught:
        parse_yaml("\n".join(lines))
    assert caught.value.line <= 7


def test_a_bomb_of_merge_keys_is_refused() -> None:
    lines = ["m0: &m0 {k0: 0}"]
    lines += [f"m{k}: &m{k} {{<<: [{', '.join([f'*m{k - 1}'] * 10)}]}}" for k in range(1, 10)]
    with pytest.raises(DocumentError, match="more than 1000000 values"):
        parse_yaml("\n".join(lines))


@pytest.mark.parametrize("count", [MAX_DEPTH + 1, 100_000])
def test_deep_nesting_is_refused_without_recursion(count: int) -> None:
    with pytest.raises(DocumentError, match=r"levels deep|maximum nesting depth"):
        parse_yaml("[" * count + "]" * count)
    with pytest.raises(DocumentError, match="levels deep"):
        parse_json("[" * count + "]" * count)


def test_the_deepest_accepted_nesting_is_the_same_in_both_languages() -> None:
    for parse in (parse_yaml, parse_json):
        value = plain(parse("[" * MAX_DEPTH + "1" + "]" * MAX_DEPTH))
        assert json.dumps(value).count("[") == MAX_DEPTH


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("", "the file is empty", 1),
        ("# nothing\n", "the file is empty", 1),
        ("a: 1\n--- \nb: 2", "more than one YAML document", 2),
        ("a: b: c", "not YAML", 1),
        ("x: 1\n'y", "not YAML", 2),
        ("%YAML 9.9\n---\na: 1", "not YAML", 1),
        ("a: @b", "not YAML", 1),
        ("a: !!timestamp 2024-01-01", "tag !!timestamp is not allowed", 1),
        ("a: !!binary aGk=", "tag !!binary is not allowed", 1),
        ("a: !!set {b}", "tag !!set is not allowed", 1),
        ("a: !!omap [b: 1]", "tag !!omap is not allowed", 1),
        ("a: !!bool 1", "is not what its tag !!bool says", 1),
        ("a: !!int true", "is not what its tag !!int says", 1),
        ("a: 0b101", "0b101 is read differently", 1),
        ("a: 0o17", "0o17 is read differently", 1),
        ("a: \x7f", "character '\\x7f' is not allowed", 1),
        ("a:\n  ? {b: 1}\n  : 2", "unhashable key", 2),
        ("a: 1\nnull: 2", "key None is not text; quote it", 2),
    ],
    ids=ascii,
)
def test_what_is_no_plain_yaml_is_refused_with_its_line(text: str, message: str, line: int) -> None:
    with pytest.raises(DocumentError) as caught:
        parse_yaml(text)
    assert message in str(caught.value)
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("", "not JSON", 1),
        ('{"a": 1,\n "b": }', "not JSON", 2),
        ('{"a": 1, "a": 2}', "duplicate key 'a' (first given in line 1)", 1),
        ('{"a":\n NaN}', "numbers must be finite, got NaN", 2),
        ('{"a": 1e999}', "numbers must be finite, got 1e999", 1),
        ('{"a": 1}\nx', "not JSON", 2),
        ('{"a":\n "\\u0000"}', "is not allowed in text", 2),
        ('{"\\u001b": 1}', "is not allowed in text", 1),
        ('{"a":\n\n 99999999999999999999}', "64 bits", 3),
        ('"\\ud800"', "is not allowed in text", 1),
        ('{"a": 1, "a": 2', "not JSON", 1),
        ('{"b": {"a": 1, "a": 2}, !', "duplicate key 'a'", 1),
    ],
    ids=ascii,
)
def test_what_is_no_plain_json_is_refused(text: str, message: str, line: int) -> None:
    with pytest.raises(DocumentError) as caught:
        parse_json(text)
    assert message in str(caught.value)
    assert caught.value.line == line


def test_json_nodes_carry_values_and_lines() -> None:
    text = (
        '{\n "a": [1, -2.5e0,\n  "x,:{}[]\\"\\u00e9\\ud83d\\ude00"],\n "b": {"c": null, "d": true}, "e": [], "f": {}\n}'
    )
    root = parse_json(text)
    assert plain(root) == json.loads(text)
    assert isinstance(root, Mapping)
    assert root.key_lines == {"a": 2, "b": 4, "e": 4, "f": 4}
    assert isinstance(root.items["a"], Sequence)
    assert [item.line for item in root.items["a"].items] == [2, 2, 3]


def test_yaml_reads_json_text_to_the_same_values() -> None:
    text = '{"a": [1, 2.5, "x", true, null, -3e2], "b": {"c": "\\u00e9"}}'
    assert plain(parse_yaml(text)) == plain(parse_json(text)) == json.loads(text)
