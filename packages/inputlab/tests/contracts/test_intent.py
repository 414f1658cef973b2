"""Intent contracts: phrases that must stay, phrases that must not come."""

import pytest

from agentinputlab.contracts import (
    ContextBlock,
    FrozenAgentState,
    InputPatch,
    IntentContract,
    Message,
    PatchOp,
    PatchOperation,
    ValidationError,
    check_intent_contract,
)


def check(contract: IntentContract, before: FrozenAgentState, *operations: PatchOperation):
    template = InputPatch.no_op(before)
    patch = InputPatch.from_dict(
        {**template.as_dict(), "operations": [{"op": o.op, "value": o.value} for o in operations]}
    )
    return check_intent_contract(contract, before, patch, patch.apply(before))


def rewritten(contract: IntentContract, query: str, before: str = "x"):
    return check(contract, FrozenAgentState(query=before), PatchOperation(PatchOp.REPLACE_QUERY, query))


def test_a_phrase_is_found_whatever_its_case_and_spacing_but_as_whole_words():
    contract = IntentContract(required_entities=("New York",))
    assert rewritten(contract, "trip to new  york,").preserved
    result = rewritten(contract, "in new yorker")
    assert not result.preserved
    assert result.missing_entities == ("New York",)


def test_words_that_do_not_follow_each_other_are_not_the_phrase():
    assert not rewritten(IntentContract(required_constraints=("under 50 euros",)), "under 60 euros, 50").preserved


@pytest.mark.parametrize(
    "operation",
    [
        PatchOperation(PatchOp.REPLACE_INSTRUCTION, "go to Oslo"),
        PatchOperation(PatchOp.ADD_CONTEXT, ContextBlock("Oslo is cold")),
        PatchOperation(PatchOp.ADD_MESSAGE, Message("user", "to oslo!")),
    ],
)
def test_query_instruction_context_and_messages_are_searched(operation):
    contract = IntentContract(required_entities=("Oslo",))
    assert check(contract, FrozenAgentState(query="x"), operation).preserved


def test_a_phrase_does_not_reach_across_two_texts():
    contract = IntentContract(required_entities=("New York",))
    state = FrozenAgentState(query="x new", instruction="york")
    assert not check(contract, state, PatchOperation(PatchOp.NO_OP)).preserved


def test_an_assumption_is_introduced_only_when_it_was_not_there_before():
    contract = IntentContract(forbidden_assumptions=("by train",))
    assert rewritten(contract, "to Oslo by train").introduced_assumptions == ("by train",)
    assert rewritten(contract, "to Oslo by train", before="go by train").preserved


@pytest.mark.parametrize(
    "operation",
    [
        PatchOperation(PatchOp.REQUEST_CLARIFICATION, "Which?"),
        PatchOperation(PatchOp.SET_METADATA, {"clarification_request": "Which?"}),
    ],
)
def test_a_forbidden_question_is_reported_however_it_is_asked(operation):
    result = check(IntentContract(may_request_clarification=False), FrozenAgentState(query="x"), operation)
    assert result.introduced_assumptions == ("<clarification-not-permitted>",)
    assert check(IntentContract(), FrozenAgentState(query="x"), operation).preserved


@pytest.mark.parametrize(
    ("field", "phrases"),
    [
        ("required_entities", ("",)),
        ("required_entities", ("  ",)),
        ("required_constraints", ("!!!",)),
        ("forbidden_assumptions", ("New York", "new york")),
        ("required_entities", "Oslo"),
    ],
)
def test_blank_wordless_and_repeated_phrases_are_refused(field, phrases):
    with pytest.raises(ValidationError, match=field):
        IntentContract(**{field: phrases})
