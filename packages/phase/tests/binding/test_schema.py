"""Loader, validator and JSON Schema are one: they accept and refuse the same documents."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from scpn_phase_orchestrator.binding import (
    BindingLoadError,
    BindingSpec,
    binding_document,
    binding_schema,
    load_binding_spec,
    parse_binding_spec,
    validate_binding_spec,
)
from scpn_phase_orchestrator.binding._descriptors import REQUIRED, Listing, Nullable, Record, Table
from scpn_phase_orchestrator.binding.schema import SPEC

FULL: dict[str, Any] = binding_document(load_binding_spec(Path(__file__).parent / "full_spec.yaml"))
SCHEMA = Draft202012Validator(binding_schema())

# What only the loader can say: JSON Schema has no words for the order of two values.
_ORDER = ("must be below upper", "limits must be ordered")

_WORDS = st.sampled_from(
    ["", "P", "K", "layer_0", "layer_x", "global", "hard", "euler", "objectives", "value", "research", "hilbert", "R_0"]
) | st.text(st.characters(codec="utf-8", categories=("L", "N", "P")), max_size=5)
_NUMBERS = st.integers(-3, 3) | st.sampled_from([0.0, -0.5, 0.5, 1.0, 2.0, 1.5, -1e300, 1e-300])
_VALUES = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=3),
    max_leaves=5,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in items for place in _places(item, (*path, key)))]


@st.composite
def _documents(draw: st.DrawFn) -> Any:
    """The full spec after up to three changes anywhere in it."""
    document: Any = deepcopy(FULL)
    for _ in range(draw(st.integers(0, 3))):
        path = draw(st.sampled_from(_places(document)))
        if not path:
            continue
        holder = document
        for key in path[:-1]:
            holder = holder[key]
        change = draw(st.sampled_from(["replace", "replace", "remove", "add", "move"]))
        if change == "remove":
            del holder[path[-1]]
        elif change == "replace":
            holder[path[-1]] = draw(_VALUES)
        elif change == "add" and isinstance(holder, dict):
            holder[draw(_WORDS)] = draw(_VALUES)
        else:
            source: Any = document
            for key in draw(st.sampled_from(_places(document))):
                source = source[key]
            holder[path[-1]] = deepcopy(source)
    return document


def _loader_accepts(document: Any) -> bool:
    try:
        parse_binding_spec(json.dumps(document), is_json=True)
    except BindingLoadError as error:
        return all(any(order in one.message for order in _ORDER) for one in error.violations)
    return True


@settings(max_examples=250, deadline=None)
@given(_documents())
def test_loader_and_json_schema_accept_and_refuse_the_same_documents(document: Any) -> None:
    assert _loader_accepts(document) == SCHEMA.is_valid(document)


@pytest.mark.parametrize("value", [None, True, -1, 0.5, "word", {}], ids=str)
def test_one_wrong_value_anywhere_is_judged_alike(value: Any) -> None:
    for path in _places(FULL)[1:]:
        document, holder = _copy_with_holder(path)
        holder[path[-1]] = value
        assert _loader_accepts(document) == SCHEMA.is_valid(document), path


def test_one_missing_value_anywhere_is_judged_alike() -> None:
    for path in _places(FULL)[1:]:
        document, holder = _copy_with_holder(path)
        del holder[path[-1]]
        assert _loader_accepts(document) == SCHEMA.is_valid(document), path


def _copy_with_holder(path: tuple[Any, ...]) -> tuple[Any, Any]:
    """A copy of the full document, and the part of it that holds a place."""
    document = deepcopy(FULL)
    holder: Any = document
    for key in path[:-1]:
        holder = holder[key]
    return document, holder


def test_the_schema_is_itself_valid_and_requires_what_the_loader_requires() -> None:
    schema = binding_schema()
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"].endswith("2020-12/schema")
    assert "drivers" in schema["required"]
    assert schema["properties"]["coupling"]["properties"]["base_strength"]["minimum"] == 0.0
    assert schema["properties"]["imprint"]["description"] == "Another name of imprint_model."
    json.dumps(schema, allow_nan=False)


def test_every_key_has_a_sentence_of_help_and_the_default_of_its_dataclass() -> None:
    seen: set[str] = set()
    for record in _records(SPEC):
        defaults: dict[str, Any] = {}
        if is_dataclass(record.build):
            for entry in fields(record.build):
                made = entry.default_factory() if entry.default_factory is not MISSING else entry.default
                defaults[entry.name] = made
        for entry in record.fields:
            seen.add(entry.key)
            assert entry.help.endswith("."), entry.key
            if entry.key in defaults and entry.default is not REQUIRED and not is_dataclass(defaults[entry.key]):
                assert entry.default == defaults[entry.key], entry.key
            if entry.key in defaults and entry.default is REQUIRED:
                assert defaults[entry.key] is MISSING, entry.key
    assert {entry.name for entry in fields(BindingSpec) if entry.init} <= seen


def _records(kind: Any) -> list[Record]:
    if isinstance(kind, Record):
        below = [record for entry in kind.fields for record in _records(entry.kind)]
        return [kind, *below, *(_records(kind.others) if kind.others else [])]
    if isinstance(kind, Nullable):
        return _records(kind.inner)
    if isinstance(kind, Listing):
        return _records(kind.item)
    return _records(kind.value) if isinstance(kind, Table) else []


def test_the_validator_refuses_by_the_same_table_what_code_put_into_a_spec() -> None:
    spec = parse_binding_spec(json.dumps(FULL), is_json=True)
    assert validate_binding_spec(spec) == []
    spec.safety_tier = "reserch"
    spec.sample_period_s = float("nan")
    spec.layers = None  # type: ignore[assignment]
    messages = validate_binding_spec(spec)
    assert [message.split(" (line")[0] for message in messages] == [
        "safety_tier must be one of clinical, consumer, production, research, got 'reserch'; did you mean 'research'?",
        "sample_period_s must be finite, got nan",
        "expected list in layers, got null",
    ]
