"""What leaves a worker about a trajectory is structure: counts and positions, never text."""

import json

import pytest

import workers.official_arenas.driver as worker
from workers.official_arenas.protocol import OfficialArenaError


def call(name, identity="c1", **arguments):
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": identity, "name": name, "arguments": arguments}],
    }


def result(identity="c1", *, error=False):
    return {"role": "tool", "tool_call_id": identity, "content": "text", "error": error}


def measure(*messages, **outer):
    return worker._safe_trace_measurement({"messages": list(messages), **outer})


def test_protocol_and_rule_are_the_documented_ones():
    measured = measure({"role": "user", "content": "hi"})
    assert measured["protocol"] == "agentinputlab.safe-trajectory-structure.v2"
    assert measured["rule"] == "conservative-read-prefix-v1"


READS = (
    *("get_", "list_", "search_", "retrieve_", "find_", "lookup_"),
    *("read_", "check_", "inspect_", "view_", "calculate_", "compute_"),
)


@pytest.mark.parametrize("name", [f"{prefix}order" for prefix in READS])
def test_reading_calls_are_harmless(name):
    measured = measure(call(name), result())
    assert measured["first_potentially_irreversible_call"] is None
    assert measured["first_action"]["kind"] == "read_call"


@pytest.mark.parametrize("name", ["cancel_order", "calculate", "getorder", "", "transfer_to_human_agents"])
def test_every_other_call_might_be_irreversible(name):
    measured = measure(call(name), result())
    assert measured["first_action"]["kind"] == "potentially_irreversible_call"
    assert measured["first_potentially_irreversible_call"] == {
        "message_index": 0,
        "call_index": 0,
        "succeeded": True,
    }


def test_success_of_the_first_irreversible_call_is_that_of_its_result():
    messages = [{"role": "user", "content": "x"}, call("get_a", "c0"), result("c0"), call("cancel_a", "c1")]
    outcome = {"message_index": 3, "call_index": 0}
    for ending, succeeded in (([result("c1", error=True)], False), ([result("c1")], True), ([], None)):
        measured = measure(*messages, *ending)
        assert measured["first_potentially_irreversible_call"] == {**outcome, "succeeded": succeeded}


def test_calls_in_the_openai_shape_and_results_named_by_id_are_read_too():
    openai = {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "cancel_a", "arguments": "{}"}}]}
    measured = measure(openai, {"role": "tool", "id": "c1", "error": True})
    assert measured["first_potentially_irreversible_call"]["succeeded"] is False
    assert measured["failed_tool_call_count"] == 1


def test_counts_hard_stops_and_termination():
    measured = measure(
        {"role": "assistant", "content": "Hi"},
        {"role": "user", "content": "x"},
        {"role": "narrator"},
        termination="user_stop",
        hard_stops=1,
    )
    assert measured["message_counts"] == {"assistant": 1, "user": 1, "tool": 0, "system": 0, "other": 1}
    assert measured["first_action"] == {"kind": "message", "message_index": 0}
    assert (measured["hard_stops"], measured["termination"]) == (1, "user_stop")
    assert worker._safe_trace_measurement([{"role": "user"}])["termination"] == "unknown"


def test_no_text_of_a_trajectory_leaves():
    secret = "PLANTED"
    measured = measure(
        {"role": secret, "content": secret},
        call(f"get_{secret}", secret, key=secret),
        call(secret, secret),
        {"role": "tool", "tool_call_id": secret, "content": secret, "error": secret},
        termination=secret,
        hard_stops=secret,
    )
    assert secret not in json.dumps(measured)
    assert measured["termination"] == "other"


@pytest.mark.parametrize(
    "trace", ["text", 1, {"messages": "text"}, [1], {"messages": [{"role": "assistant", "tool_calls": 1}]}]
)
def test_trace_that_is_none_is_refused(trace):
    with pytest.raises(OfficialArenaError, match="Trace"):
        worker._safe_trace_measurement(trace)


# --- failed interventions -----------------------------------------------------------------------------------

FAILURE = {
    "scope": "algorithm",
    "category": "output",
    "exception_type": "AlgorithmOutputError",
    "message": "PLANTED",
    "monitor_run_id": "run-1",
}


def failed(**changes):
    execution = {"status": "failed", "input_state_hash": "a", "output_state_hash": "a", "failure": FAILURE, **changes}
    return {"intervention_execution": execution}


def test_failure_is_told_without_its_text():
    told = worker._intervention_failure(failed())
    assert told["exception_type"] == "AlgorithmOutputError"
    assert len(told["message_sha256"]) == 64
    assert "PLANTED" not in json.dumps(told)


def test_intervention_that_did_not_fail_has_none():
    assert worker._intervention_failure(failed(status="success", failure=None)) is None


@pytest.mark.parametrize(
    "change",
    [
        {"status": "success"},
        {"failure": None},
        {"output_state_hash": "b"},
        {"failure": {**FAILURE, "category": {"text": "PLANTED"}}},
    ],
)
def test_failure_that_contradicts_itself_is_refused(change):
    with pytest.raises(OfficialArenaError, match="Payload"):
        worker._intervention_failure(failed(**change))
