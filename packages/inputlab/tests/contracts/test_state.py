"""Visible states: checked, deeply frozen, named by their hash."""

import copy
import dataclasses
import pickle

import pytest

from agentinputlab.contracts import (
    ContextBlock,
    ExecutionBudget,
    FrozenAgentState,
    InterventionContext,
    Message,
    ValidationError,
)


def full_state() -> FrozenAgentState:
    return FrozenAgentState(
        query="q",
        task_id="t",
        instruction="i",
        context=[ContextBlock("text", "b1", "src", 0.5, {"k": [1, {"n": None}]})],
        messages=(Message("user", "hello"), Message("assistant", "", "bot")),
        tool_names=["search"],
        metadata={"a": {"b": [1, 2]}},
        budget=ExecutionBudget(max_model_calls=0, max_cost_usd=0.5),
    )


@pytest.mark.parametrize("query", ["", " ", "\n\t"])
def test_a_state_needs_a_query_or_an_instruction(query):
    with pytest.raises(ValidationError, match="query"):
        FrozenAgentState(query=query)
    assert FrozenAgentState(query=query, instruction="do").instruction == "do"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_model_calls", True),
        ("max_retrieval_calls", -1),
        ("max_tool_calls", 1.0),
        ("max_output_tokens", None),
        ("max_context_tokens", "8"),
        ("max_context_tokens", False),
        ("max_cost_usd", float("nan")),
        ("max_cost_usd", float("inf")),
        ("max_cost_usd", -0.1),
        ("max_cost_usd", 10**400),
        ("max_cost_usd", True),
    ],
)
def test_a_budget_refuses_what_is_no_cap_and_names_the_field(field, value):
    with pytest.raises(ValidationError, match=f"ExecutionBudget.{field}"):
        ExecutionBudget(**{field: value})


def test_a_cap_of_zero_is_legal():
    assert ExecutionBudget(0, 0, 0, 0, 0, 0).max_output_tokens == 0


def test_changing_the_callers_metadata_does_not_change_the_state():
    metadata = {"a": [1], "b": {"c": 1}}
    state = FrozenAgentState(query="q", metadata=metadata)
    before = state.state_hash
    metadata["a"].append(2)
    metadata["b"]["c"] = 2
    metadata["d"] = 1
    assert state.state_hash == before
    assert state.metadata == {"a": (1,), "b": {"c": 1}}


def test_nothing_inside_a_state_can_be_changed():
    state = full_state()
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.query = "other"
    with pytest.raises(TypeError):
        state.metadata["a"]["b"] = ()
    with pytest.raises(TypeError):
        state.context[0].metadata["k"] = 1
    assert isinstance(state.context, tuple)
    assert isinstance(state.tool_names, tuple)


def test_a_state_survives_json_pickle_and_copying():
    state = full_state()
    for other in (
        FrozenAgentState.from_dict(state.canonical_dict()),
        pickle.loads(pickle.dumps(state)),
        copy.deepcopy(state),
        dataclasses.replace(state),
    ):
        assert other == state
        assert other.state_hash == state.state_hash
    with pytest.raises(TypeError):
        pickle.loads(pickle.dumps(state)).metadata["x"] = 1


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(FrozenAgentState)])
def test_every_field_of_a_state_counts_in_its_hash(field):
    other = {
        "query": "q2",
        "task_id": "t2",
        "instruction": "i2",
        "context": (),
        "messages": (),
        "tool_names": (),
        "metadata": {},
        "budget": ExecutionBudget(),
    }
    state = full_state()
    assert dataclasses.replace(state, **{field: other[field]}).state_hash != state.state_hash


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Message(" ", "x"), "Message.role"),
        (lambda: Message("user", None), "Message.content"),
        (lambda: Message("user", "x", ""), "Message.name"),
        (lambda: ContextBlock(""), "ContextBlock.text"),
        (lambda: ContextBlock("x", score=float("nan")), "ContextBlock.score"),
        (lambda: ContextBlock("x", score=True), "ContextBlock.score"),
        (lambda: ContextBlock("x", metadata={1: 2}), "ContextBlock.metadata"),
        (lambda: ContextBlock("x", metadata={"a": {1}}), "ContextBlock.metadata"),
        (lambda: FrozenAgentState(query=1), "FrozenAgentState.query"),
        (lambda: FrozenAgentState("q", context="text"), "FrozenAgentState.context"),
        (lambda: FrozenAgentState("q", context=[{"text": "x"}]), r"FrozenAgentState.context\[0\]"),
        (lambda: FrozenAgentState("q", messages=[ContextBlock("x")]), r"FrozenAgentState.messages\[0\]"),
        (lambda: FrozenAgentState("q", tool_names=["a", " "]), r"FrozenAgentState.tool_names\[1\]"),
        (lambda: FrozenAgentState("q", metadata=[]), "FrozenAgentState.metadata"),
        (lambda: FrozenAgentState("q", budget={}), "FrozenAgentState.budget"),
        (lambda: InterventionContext(seed=True), "InterventionContext.seed"),
        (lambda: InterventionContext(run_config={"a": object()}), "InterventionContext.run_config"),
        (lambda: InterventionContext(intent_contract={}), "InterventionContext.intent_contract"),
        (lambda: InterventionContext(strict_intent=1), "InterventionContext.strict_intent"),
    ],
)
def test_wrong_values_are_refused_by_the_name_of_their_field(make, named):
    with pytest.raises(ValidationError, match=named):
        make()


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({"query": "q", "answer": 1}, "unknown field 'answer'"),
        ({"task_id": "t"}, "lacks the field 'query'"),
        ({"query": "q", "budget": {"max_calls": 1}}, "budget has the unknown field 'max_calls'"),
        ({"query": "q", "messages": [{"role": "user", "content": "x", "tool": 1}]}, "unknown field 'tool'"),
        ({"query": "q", "messages": [{"role": "user"}]}, "content"),
        ({"query": "q", "context": [{"text": "x", "gold": 1}]}, "unknown field 'gold'"),
        ({"query": "q", "context": {"text": "x"}}, "state.context"),
        ([], "state must be an object"),
    ],
)
def test_loading_is_strict_and_names_the_field(value, named):
    with pytest.raises(ValidationError, match=named):
        FrozenAgentState.from_dict(value)


def test_a_context_without_arguments_works():
    context = InterventionContext()
    assert (context.backend, context.seed, context.strict_intent) == (None, 0, True)
