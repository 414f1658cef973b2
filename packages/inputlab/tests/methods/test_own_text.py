"""A change of one's own is a treatment like any other."""

import pytest

from agentinputlab.algorithms.constructors import make_intervention
from agentinputlab.api import create_intervention
from agentinputlab.contracts import ContextBlock, FrozenAgentState, InterventionContext
from agentinputlab.contracts.errors import RegistryError, ValidationError
from agentinputlab.runner import InterventionRunner

STATE = FrozenAgentState(query="q", instruction="old", context=(ContextBlock(text="policy"),))


@pytest.mark.parametrize(
    ("parameters", "instruction", "context"),
    [
        ({"append_instruction": "new"}, "old\n\nnew", ["policy"]),
        ({"replace_instruction": "new"}, "new", ["policy"]),
        ({"replace_instruction": "new", "append_instruction": "more"}, "new\n\nmore", ["policy"]),
        ({"add_context": "fact"}, "old", ["policy", "fact"]),
        ({"replace_context": "fact"}, "old", ["fact"]),
    ],
)
def test_the_texts_do_what_their_names_say(parameters, instruction, context):
    record = InterventionRunner().run(make_intervention("own.text", parameters), STATE, InterventionContext())
    changed = record.patch.apply(STATE)
    assert changed.instruction == instruction
    assert [block.text for block in changed.context] == context
    assert record.usage.model_calls == 0


@pytest.mark.parametrize("parameters", [{}, {"append_instruction": " "}, {"add_context": 3}, {"prompt": "x"}])
def test_a_change_that_changes_nothing_is_refused(parameters):
    with pytest.raises(ValidationError):
        make_intervention("own.text", parameters)


def test_two_texts_have_two_identities():
    first, second = (make_intervention("own.text", {"add_context": text}) for text in ("a", "b"))
    assert first.implementation_identity != second.implementation_identity


def test_what_nobody_knows_is_refused_with_near_names():
    with pytest.raises(RegistryError, match=r"plan\.plan_and_solve\.ps_prompt"):
        make_intervention("plan.plan_and_solve.ps_promt", {})


def test_the_api_makes_it_too_and_names_the_parameters_it_has():
    made = create_intervention("own.text", add_context="x")
    assert made == make_intervention("own.text", {"add_context": "x"})
    with pytest.raises(ValidationError, match=r"it has: append_instruction, .*replace_context$"):
        create_intervention("own.text", text="x")
    with pytest.raises(ValidationError, match=r"show plan\.plan_and_solve\.ps_prompt --parameters"):
        create_intervention("plan.plan_and_solve.ps_prompt", text="x")
