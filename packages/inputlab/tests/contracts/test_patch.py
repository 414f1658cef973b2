"""Patches: typed, bound to one state, applied in order."""

import pickle

import pytest

from agentinputlab.contracts import (
    ContextBlock,
    ExecutionTrace,
    FrozenAgentState,
    InputPatch,
    Message,
    PatchOp,
    PatchOperation,
    ProfileKind,
    StateConflictError,
    TraceEvent,
    TracePhase,
    ValidationError,
    content_hash,
)

STATE = FrozenAgentState(query="q", instruction="i", messages=(Message("user", "m"),), metadata={"a": 1, "b": 2})


def patch(*operations: PatchOperation, state: FrozenAgentState = STATE) -> InputPatch:
    return InputPatch(
        method_id="m",
        release_id="m.r",
        source_state_hash=state.state_hash,
        operations=operations,
        trace=ExecutionTrace("m", "m.r"),
        implementation_identity="test",
        profile_kind=ProfileKind.CONTROLLED_ADAPTER,
    )


def applied(op: str, value: object, state: FrozenAgentState = STATE) -> FrozenAgentState:
    return patch(PatchOperation(PatchOp(op), value), state=state).apply(state)


def test_a_patch_fits_only_the_state_it_was_made_for():
    with pytest.raises(StateConflictError):
        patch(PatchOperation(PatchOp.REPLACE_QUERY, "x")).apply(FrozenAgentState(query="other"))


def test_appending_adds_a_blank_line_only_after_an_old_text():
    assert applied("append_instruction", "more").instruction == "i\n\nmore"
    assert applied("append_instruction", "more", FrozenAgentState(query="q")).instruction == "more"
    assert applied("append_query", "more").query == "q\n\nmore"


def test_replacing_replaces():
    assert applied("replace_query", "x").query == "x"
    assert applied("replace_instruction", "x").instruction == "x"
    assert applied("replace_messages", []).messages == ()
    assert applied("replace_context", "x").context == (ContextBlock("x"),)


@pytest.mark.parametrize(
    "value",
    [
        ContextBlock("x", "id"),
        {"text": "x", "block_id": "id"},
        [ContextBlock("x", "id")],
        [{"text": "x", "block_id": "id"}],
    ],
)
def test_context_can_be_a_block_a_mapping_or_a_list_of_them(value):
    assert applied("add_context", value).context == (ContextBlock("x", "id"),)


def test_context_can_be_a_string_and_keeps_its_order():
    state = applied("add_context", ["x", ContextBlock("y")])
    assert [block.text for block in applied("add_context", "z", state).context] == ["x", "y", "z"]


def test_messages_are_added_behind_the_old_ones():
    for value in (Message("assistant", "n"), {"role": "assistant", "content": "n"}, [Message("assistant", "n")]):
        assert applied("add_message", value).messages == (Message("user", "m"), Message("assistant", "n"))


def test_metadata_is_merged():
    assert applied("set_metadata", {"b": [3], "c": 4}).metadata == {"a": 1, "b": (3,), "c": 4}


def test_a_clarification_waits_in_the_metadata():
    assert applied("request_clarification", "Which one?").metadata["clarification_request"] == "Which one?"


def test_operations_are_applied_in_order():
    operations = (PatchOperation(PatchOp.REPLACE_QUERY, "a"), PatchOperation(PatchOp.APPEND_QUERY, "b"))
    assert patch(*operations).apply(STATE).query == "a\n\nb"
    assert patch(*reversed(operations)).apply(STATE).query == "a"


def test_no_op_changes_nothing():
    no_op = InputPatch.no_op(STATE)
    assert no_op.apply(STATE) == STATE
    assert no_op.changes_nothing
    assert not patch(PatchOperation(PatchOp.REPLACE_QUERY, "q")).changes_nothing


def test_a_result_that_is_no_state_is_refused():
    state = FrozenAgentState(query="q")
    with pytest.raises(ValidationError, match="blank"):
        applied("replace_query", " ", state)


@pytest.mark.parametrize(
    ("op", "value"),
    [
        ("no_op", ""),
        ("replace_query", None),
        ("replace_query", 1),
        ("append_instruction", ["x"]),
        ("add_context", 1),
        ("add_context", [1]),
        ("add_context", {"text": ""}),
        ("add_context", {"txt": "x"}),
        ("add_message", "hello"),
        ("add_message", {"role": "user"}),
        ("replace_messages", None),
        ("set_metadata", "x"),
        ("set_metadata", {"a": {1}}),
        ("set_metadata", {1: 2}),
        ("request_clarification", " "),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_before_it_can_be_applied(op, value):
    with pytest.raises(ValidationError):
        PatchOperation(PatchOp(op), value)


def test_an_unknown_operation_is_refused_with_the_known_ones():
    with pytest.raises(ValidationError, match="replace_query"):
        PatchOperation("delete_everything")


def test_a_patch_needs_an_operation_and_a_trace_of_its_own():
    with pytest.raises(ValidationError, match="at least one"):
        patch()
    with pytest.raises(ValidationError, match=r"trace is of other/m\.r"):
        InputPatch(
            "m",
            "m.r",
            STATE.state_hash,
            (PatchOperation(PatchOp.NO_OP),),
            ExecutionTrace("other", "m.r"),
            "test",
            ProfileKind.CONTROLLED_ADAPTER,
        )


def test_values_of_operations_are_frozen_copies():
    value = {"a": [1]}
    operation = PatchOperation(PatchOp.SET_METADATA, value)
    value["a"].append(2)
    assert operation.value == {"a": (1,)}


def test_a_patch_survives_json_and_pickle():
    original = patch(
        PatchOperation(PatchOp.ADD_CONTEXT, [ContextBlock("x", metadata={"k": [1]})], "target", "why"),
        PatchOperation(PatchOp.SET_METADATA, {"a": {"b": 1}}),
    )
    for other in (InputPatch.from_dict(original.as_dict()), pickle.loads(pickle.dumps(original))):
        assert other == original
        assert other.patch_hash == original.patch_hash


@pytest.mark.parametrize("field", ["method_id", "operations", "trace", "profile_kind"])
def test_loading_a_patch_names_what_is_missing(field):
    value = InputPatch.no_op(STATE).as_dict()
    del value[field]
    with pytest.raises(ValidationError, match=field):
        InputPatch.from_dict(value)


def test_a_trace_grows_by_copies():
    trace = ExecutionTrace("m", "m.r", counters={"model_calls": 1})
    longer = trace.append(TraceEvent(TracePhase.PROPOSE, "asked", {"n": 1}))
    assert trace.events == ()
    assert longer.events[0].name == "asked"
    assert longer.trace_hash != trace.trace_hash
    assert ExecutionTrace.from_dict(longer.as_dict()) == longer


@pytest.mark.parametrize("counters", [{"a": -1}, {"a": True}, {"a": "1"}, {"a": float("nan")}])
def test_counters_are_finite_and_not_negative(counters):
    with pytest.raises(ValidationError, match="counters"):
        ExecutionTrace("m", "m.r", counters=counters)


def test_json_and_hash_are_those_that_each_alone_gives():
    fresh, asked = patch(PatchOperation(PatchOp.REPLACE_QUERY, "x")), patch(PatchOperation(PatchOp.REPLACE_QUERY, "x"))
    assert asked.patch_hash == content_hash(asked.as_dict())
    assert fresh.json_and_hash() == asked.json_and_hash() == (asked.as_dict(), asked.patch_hash)
