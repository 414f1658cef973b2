"""Small interventions to chain, and a recorded model."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from agentinputlab.algorithms._shared import InterventionBase, MethodRun
from agentinputlab.backends.llm import GenerationResponse, ReplayBackend, Usage
from agentinputlab.contracts import (
    ContextBlock,
    FrozenAgentState,
    InterventionContext,
    Message,
    PatchOp,
    PatchOperation,
    SemanticFamily,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit(InterventionBase):
    """Does one operation, or none."""

    method_id: ClassVar[str] = "test.edit"
    release_id: ClassVar[str] = "test.edit.one"
    family: ClassVar[SemanticFamily] = SemanticFamily.REFORMULATE

    op: str = "no_op"
    value: Any = None

    def propose(self, state, context):
        return MethodRun(self, state, context).patch(PatchOperation(PatchOp(self.op), self.value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask(InterventionBase):
    """Asks the model so many times and appends what it said to the query."""

    method_id: ClassVar[str] = "test.ask"
    release_id: ClassVar[str] = "test.ask.model"
    family: ClassVar[SemanticFamily] = SemanticFamily.REFORMULATE

    calls: int = 1

    def propose(self, state, context):
        run = MethodRun(self, state, context)
        run.decide("seen", model_calls_left=state.budget.max_model_calls, tokens_left=state.budget.max_output_tokens)
        said = [run.ask(f"n{n}", state.query, system="s").line() for n in range(self.calls)]
        return run.patch(PatchOperation(PatchOp.APPEND_QUERY, " ".join(said)))


def recorded(*texts, output_tokens=3):
    usage = Usage(20, output_tokens, cost_usd=0.0)
    return ReplayBackend(
        [GenerationResponse(text=text, model="recorded", finish_reason="stop", usage=usage) for text in texts]
    )


@pytest.fixture(scope="session")
def edit():
    return lambda op="no_op", value=None: Edit(op=op, value=value)


@pytest.fixture(scope="session")
def ask():
    return lambda calls=1: Ask(calls=calls)


@pytest.fixture(scope="session")
def model_context():
    return lambda *texts, **fields: InterventionContext(backend=recorded(*texts, **fields))


@pytest.fixture(scope="session")
def state():
    return FrozenAgentState(
        query="where is it",
        task_id="t1",
        instruction="Be brief.",
        context=(ContextBlock("known", block_id="k"),),
        messages=(Message("user", "hi"),),
        metadata={"a": 1},
    )
