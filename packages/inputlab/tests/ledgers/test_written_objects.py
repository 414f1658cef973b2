"""What is read once and used for everything is what reading it again for every use would give."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.canonical import INDENTED_UNICODE_LINE, content_hash
from workers.official_arenas import retail_driver
from workers.official_arenas._errors import OfficialArenaError
from workers.official_arenas._evidence import evidence_bytes, parse_object
from workers.official_arenas._written import read_request, written_object
from workers.official_arenas.protocol import EXECUTABLE_PAYLOAD_PROTOCOL

NUMBERS = st.integers() | st.sampled_from([1e-5, 0.00001234, 1e16, -1e-7, 1e22, 0.5, -0.0, 2**63, 2**64, -(2**70)])
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
OBJECTS = st.dictionaries(st.text(max_size=3) | st.sampled_from(["", "hash"]), JSON, max_size=5)


@given(OBJECTS, st.sampled_from([None, "hash"]))
def test_what_was_written_is_read_with_its_hash(value: dict[str, Any], without: str | None) -> None:
    written = written_object(evidence_bytes(value), without=without)
    assert written.value == value
    assert written.content_hash == content_hash({name: item for name, item in value.items() if name != without})


@given(OBJECTS, st.sampled_from([1, None]), st.booleans(), st.booleans(), st.sampled_from(["", "\n", "\n\n"]))
def test_a_text_is_accepted_just_when_it_is_what_its_value_is_written_as(
    value: dict[str, Any], indent: int | None, escaped: bool, unsorted: bool, end: str
) -> None:
    data = json.dumps(value, indent=indent, ensure_ascii=escaped, sort_keys=not unsorted).encode() + end.encode()
    if data == evidence_bytes(value):
        assert written_object(data).value == value
    else:
        with pytest.raises(OfficialArenaError):
            written_object(data)


@given(JSON)
def test_numbers_that_orjson_writes_otherwise_are_judged_by_what_receipts_say(value: Any) -> None:
    try:
        data = orjson.dumps({"x": value}, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    except orjson.JSONEncodeError:  # an integer that it does not know
        return
    if data == evidence_bytes(parse_object(data)):
        written_object(data)
    else:
        with pytest.raises(OfficialArenaError):
            written_object(data)


@pytest.mark.parametrize(
    "data", [b"", b"null\n", b"[]\n", b"[\n  1\n]\n", b'{\n  "a": 1,\n  "a": 1\n}\n', b"\xff", b"{}"]
)
def test_what_is_no_object_of_ours_is_refused(data: bytes) -> None:
    with pytest.raises(OfficialArenaError):
        written_object(data)


def state(cost: float) -> dict[str, Any]:
    return {"query": "q", "budget": {"max_cost_usd": cost, "max_model_calls": 2}}


def request(cost: float, **changed: Any) -> dict[str, Any]:
    arms = [
        {
            "role": role,
            "arm_id": role,
            "payload": {
                "schema_version": 1,
                "protocol": EXECUTABLE_PAYLOAD_PROTOCOL,
                "visible_state_hash": content_hash(state(cost)),
                "release_id": "r",
                "profile_kind": "k",
                "model_slot": "m",
                "arm_parameters": {},
                "intervention_execution": {
                    "materialized_state": state(cost),
                    "input_state_hash": content_hash(state(cost)),
                    "output_state_hash": content_hash(state(cost)),
                },
            },
        }
        for role in ("treatment", "baseline")
    ]
    names = ("benchmark_id", "checkpoint_id", "source_revision", "origin_state_hash", "replay_identity", "seed")
    atomic = {**dict.fromkeys(names, "x"), "locked_dependency_hashes": {}, "arms": arms, **changed}
    envelope = {"atomic_request": atomic}
    return {**envelope, "request_hash": content_hash(envelope)}


@pytest.mark.parametrize("cost", [0.5, 1e-5, 1e20])
def test_a_request_has_the_identity_that_the_driver_gives_it(cost: float) -> None:
    envelope = request(cost)
    reading = read_request(evidence_bytes(envelope))
    assert reading.written is not None
    assert reading.written.content_hash == envelope["request_hash"]
    assert reading.envelope == envelope
    assert reading.identity == retail_driver.cell_identity(envelope)
    assert reading.cell_id == retail_driver.cell_id(envelope)


@pytest.mark.parametrize("cost", [0.5, 1e-5])
def test_a_request_whose_state_has_another_hash_has_no_identity(cost: float) -> None:
    envelope = request(cost)
    envelope["atomic_request"]["arms"][0]["payload"]["intervention_execution"]["materialized_state"]["query"] = "other"
    with pytest.raises(OfficialArenaError, match="output_state_hash"):
        _ = read_request(evidence_bytes(envelope)).identity


def test_a_request_in_other_bytes_is_read_and_known_not_to_be_as_it_was_written() -> None:
    envelope = request(0.5)
    reading = read_request(json.dumps(envelope).encode())
    assert (reading.envelope, reading.written) == (envelope, None)
    assert reading.cell_id == retail_driver.cell_id(envelope)
    assert INDENTED_UNICODE_LINE.dumps(reading.envelope) == evidence_bytes(envelope)
