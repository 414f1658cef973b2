"""What the card of a release says it needs is what it asks of its context."""

import pytest

from agentinputlab.backends.llm import CallableBackend
from agentinputlab.contracts import AgentInputLabError, ContextBlock, FrozenAgentState, InterventionContext, Message
from agentinputlab.contracts.enums import ExecutionKind
from agentinputlab.contracts.errors import ExternalDependencyError
from agentinputlab.registry import AlgorithmRegistry
from agentinputlab.registry.cards import Needs

REGISTRY = AlgorithmRegistry.default()
STATE = FrozenAgentState(
    query="Who wrote Middlemarch?",
    task_id="t",
    context=(ContextBlock("Long. " * 400),),
    messages=(Message("user", "word " * 500), Message("tool", "seen " * 500), *[Message("user", "more")] * 4),
    tool_names=("look_up",),
)
RELEASES = [
    release
    for release in REGISTRY.list_releases()
    if release.runnable and release.execution_kind is not ExecutionKind.TRAINING_RECIPE
]


def asked_for(release, context):
    """The field of the context that a release wants and has not, or None."""
    try:
        REGISTRY.resolve_entrypoint(release.id)().propose(STATE, context)
    except ExternalDependencyError as error:
        return str(error).partition("InterventionContext(")[2].partition("=")[0]
    except AgentInputLabError:  # no cache, no artifact, or a reply that is not the one asked for
        return None
    return None


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.id)
def test_the_card_says_what_the_context_must_bring(release):
    model = CallableBackend(lambda _: "a word", model_id="m", revision="1", callable_id="c")
    without, beside_a_model = InterventionContext(), InterventionContext(backend=model)
    assert (asked_for(release, without) is None) == (release.needs is Needs.NOTHING)
    assert (asked_for(release, beside_a_model) is not None) == (release.needs is Needs.RETRIEVAL)
