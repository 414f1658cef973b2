"""A chain of somebody's own classes: what it is made of decides its name, and what a member says is heard."""

import pytest

from agentinputlab.algorithms.composition import ComposedIntervention
from agentinputlab.contracts import (
    ExecutionTrace,
    FrozenAgentState,
    InputPatch,
    InterventionContext,
    PatchOp,
    PatchOperation,
    ProfileKind,
    SemanticFamily,
    ValidationError,
)
from agentinputlab.runner import InterventionRunner, run_cache_key

STATE = FrozenAgentState(query="q")


class Appends:
    """An intervention as people write it: a plain class with attributes."""

    method_id = "own.appends"
    release_id = "own.appends.one"
    family = SemanticFamily.REFORMULATE

    def __init__(self, text, **metadata):
        self.text = text
        self.metadata = metadata

    def propose(self, state, context):
        return InputPatch(
            self.method_id,
            self.release_id,
            state.state_hash,
            (PatchOperation(PatchOp.APPEND_QUERY, self.text),),
            ExecutionTrace(self.method_id, self.release_id),
            "own@1",
            ProfileKind.CONTROLLED_ADAPTER,
            self.metadata,
        )


def test_attributes_of_a_plain_member_are_part_of_the_name_and_of_the_cache_key():
    one, other, again = (ComposedIntervention((Appends(text),)) for text in ("a", "b", "a"))
    assert one.release_id == again.release_id != other.release_id
    assert one.implementation_identity != other.implementation_identity
    keys = [run_cache_key(chain, STATE, InterventionContext()) for chain in (one, other, again)]
    assert keys[0] == keys[2] != keys[1]


@pytest.mark.parametrize("metadata", [{"status": "fallback"}, {"fallback": True}, {"status": "budget_exhausted"}])
def test_a_chain_came_to_what_its_member_came_to(metadata):
    runner, member = InterventionRunner(), Appends("a", **metadata)
    alone = runner.run(member, STATE, InterventionContext()).status
    assert runner.run(ComposedIntervention((member,)), STATE, InterventionContext()).status == alone


def test_something_executable_in_a_member_is_named_by_its_place():
    chain = ComposedIntervention((Appends(lambda: "a"),))
    with pytest.raises(ValidationError, match=r"members\[0\]\.text of ComposedIntervention holds the local function"):
        InterventionRunner().run(chain, STATE, InterventionContext())
