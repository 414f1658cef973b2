"""One text and one hash per value."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentinputlab.contracts import (
    ExecutionBudget,
    FrozenAgentState,
    InputPatch,
    PatchOp,
    canonical_json,
    content_hash,
    deep_freeze_jsonable,
    freeze_mapping,
    to_jsonable,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text('aé\n"{'),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abé", max_size=3), inner, max_size=4),
    max_leaves=20,
)


class Colour(Enum):
    RED = "red"


@dataclass
class Pair:
    left: object
    right: object


def test_the_pinned_hashes_of_the_defaults_reproduce():
    state = FrozenAgentState(query="capital france", task_id="tiny-q1")
    assert content_hash({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert content_hash(ExecutionBudget()) == "fe7f856cce8c7ca15e6ca8e16b9859d4de9f94574eacf0b63ff943169e9ca5d9"
    assert state.state_hash == "8189b53b726c198fd6b5f100a833987d525773707bd03184fad7277f11189817"
    assert InputPatch.no_op(state).patch_hash == "faf4a2c002ad65b64cd70a68e074b37b95b3ca2b6fd782a53d934e97f7be81b4"


def test_canonical_text_sorts_keys_keeps_unicode_and_number_text():
    value = {"b": "é", "a": [1, 2.0, True, None]}
    assert canonical_json(value) == '{"a":[1,2.0,true,null],"b":"é"}'
    assert content_hash(value) == "0177cc367861df7c11009c4b54fdd9948ba35efe620a08517e5efca753bc8baf"


def test_whole_numbers_and_floats_hash_differently():
    assert content_hash(1) != content_hash(1.0)


def test_sets_are_a_type_error_and_nan_is_a_value_error():
    with pytest.raises(TypeError, match="Unsupported canonical value: set"):
        content_hash({1})
    for number in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="finite"):
            content_hash(number)


@pytest.mark.parametrize("key", [1, None, 1.5, ("a",)])
def test_keys_that_are_no_strings_are_refused_because_they_could_collide(key):
    for function in (to_jsonable, content_hash, deep_freeze_jsonable):
        with pytest.raises(TypeError, match="keys are strings"):
            function({"outer": {key: "x"}})


def test_dataclasses_enumerations_and_paths_have_their_json_form():
    assert to_jsonable(Pair(Colour.RED, (Path("/a/b"), {"x": Pair(1, None)}))) == {
        "left": "red",
        "right": ["/a/b", {"x": {"left": 1, "right": None}}],
    }


def test_the_class_of_a_dataclass_is_no_value():
    with pytest.raises(TypeError, match="type"):
        to_jsonable(Pair)


def test_very_deep_values_are_refused_and_do_not_exhaust_the_stack():
    value: object = 1
    for _ in range(5000):
        value = [value]
    with pytest.raises(ValueError, match="nested"):
        content_hash(value)


def test_lone_surrogates_are_a_value_error():
    with pytest.raises(ValueError, match="surrogate"):
        content_hash({"a": "\ud800"})


@given(json_values)
def test_canonical_text_reads_back_as_the_value_and_is_stable(value):
    text = canonical_json(value)
    assert json.loads(text) == value
    assert canonical_json(json.loads(text)) == text


@given(json_values)
def test_freezing_changes_no_hash(value):
    assert content_hash(deep_freeze_jsonable(value)) == content_hash(value)


def test_frozen_values_are_detached_and_read_only():
    source = {"a": [1, {"b": 2}]}
    frozen = deep_freeze_jsonable(source)
    source["a"][1]["b"] = 3
    assert frozen["a"] == (1, {"b": 2})
    with pytest.raises(TypeError):
        frozen["a"][1]["b"] = 4
    with pytest.raises(TypeError):
        frozen["c"] = 1


def test_freeze_mapping_takes_a_mapping_or_none_only():
    assert dict(freeze_mapping(None)) == {}
    assert dict(freeze_mapping({"a": 1})) == {"a": 1}
    with pytest.raises(TypeError, match="mapping"):
        freeze_mapping([("a", 1)])


@dataclass(frozen=True)
class Odd:
    """A value whose parts are all of the less common kinds."""

    name: object
    parts: object


def by_the_book(value):
    """The JSON form of a value, one rule after the other."""
    if isinstance(value, Enum):
        return by_the_book(value.value)
    if isinstance(value, Odd):
        return {"name": by_the_book(value.name), "parts": by_the_book(value.parts)}
    if isinstance(value, Mapping):
        return {key.value if isinstance(key, Enum) else key: by_the_book(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [by_the_book(item) for item in value]
    return value


odd_values = st.recursive(
    json_values | st.sampled_from((*PatchOp, Colour.RED)),
    lambda inner: (
        st.builds(Odd, inner, inner)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text("ab", max_size=2) | st.sampled_from(PatchOp), inner, max_size=3).map(MappingProxyType)
    ),
    max_leaves=12,
)


@given(odd_values)
def test_every_kind_has_its_json_form_wherever_it_stands(value):
    expected = by_the_book(value)
    assert repr(to_jsonable(value)) == repr(expected)
    assert repr(to_jsonable(deep_freeze_jsonable(value))) == repr(expected)


@pytest.mark.parametrize("levels", range(97, 104))
def test_the_deepest_container_is_the_hundredth_whatever_it_is(levels):
    for wrap in (lambda inner: {"a": inner}, lambda inner: (inner,), lambda inner: Pair(1, inner)):
        value = "text"
        for _ in range(levels):
            value = wrap(value)
        if levels <= 100:
            to_jsonable(value)
        else:
            with pytest.raises(ValueError, match="nested more than 100 levels"):
                to_jsonable(value)
