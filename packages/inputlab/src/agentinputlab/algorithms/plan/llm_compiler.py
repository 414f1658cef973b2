"""LLM Compiler: plan the tool calls as a graph, so that those which do not need each other are seen as such."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, ClassVar, cast

from agentinputlab.algorithms._shared import InterventionBase, MethodRun, Reply, state_text
from agentinputlab.contracts._checks import whole
from agentinputlab.contracts.enums import PatchOp, SemanticFamily
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.contracts.patch import InputPatch, PatchOperation
from agentinputlab.contracts.serialization import canonical_json
from agentinputlab.contracts.state import ContextBlock, FrozenAgentState

__all__ = ["PlannedCall", "ToolCallPlanner"]

_HEADING = "Follow this plan of tool calls:"
_SYSTEM = "You plan tool calls for somebody else, who will make them. Reply in exactly the form asked for."
_PROMPT = (
    "Plan the tool calls that handle the request below: at most {max_calls}. Number them from 1. An argument may use "
    "the result of an earlier call as $1, $2, ...; every call used that way, and every call that has to come first for "
    "another reason, belongs in depends_on. Calls that do not need each other stay independent.\n\n{state}\n\n"
    'Tools: {tools}\n\nReply with a JSON object {{"calls": [{{"id": 1, "tool": "...", "arguments": {{}}, '
    '"depends_on": []}}]}}.'
)
_REFERENCE = re.compile(r"\$(\d{1,3})\b")


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One node of the plan.

    Attributes:
        id: its number, from 1.
        tool: name of a tool of the state.
        arguments: JSON values; ``$k`` stands for the result of call k; larger numbers are plain text.
        depends_on: numbers of the calls that come before it.
    """

    id: int
    tool: str
    arguments: Mapping[str, Any]
    depends_on: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallPlanner(InterventionBase):
    """Adds a checked plan of tool calls, grouped into rounds of calls that do not need each other.

    Paper: Kim et al., *An LLM Compiler for Parallel Function Calling*, ICML 2024; the planner alone. Nothing is called:
    an intervention does not act, the agent does. Needs a language model (one call) and a state with tools. Changes
    the context only.

    Attributes:
        max_calls: most tool calls.
        max_tokens: longest reply.
    """

    method_id: ClassVar[str] = "plan.llm_compiler"
    release_id: ClassVar[str] = "plan.llm_compiler.planner"
    family: ClassVar[SemanticFamily] = SemanticFamily.DECOMPOSE
    prompts: ClassVar[tuple[str, ...]] = (_SYSTEM, _PROMPT, _HEADING)

    max_calls: int = 8
    max_tokens: int = 512

    def __post_init__(self) -> None:
        whole(self.max_calls, "max_calls", minimum=1)
        whole(self.max_tokens, "max_tokens", minimum=1)

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that adds the plan as a block of context.

        Raises:
            ValidationError: the state has no tools.
            ExternalDependencyError: the context has no language model.
            BudgetExceededError: the budget has no call or token left.
            AlgorithmOutputError: the plan is not as asked for: unknown tool, missing or circular dependency, ...
        """
        if not state.tool_names:
            raise ValidationError(f"{self.release_id} plans tool calls, and the state has no tool_names")
        run = MethodRun(self, state, context)
        prompt = _PROMPT.format(max_calls=self.max_calls, state=state_text(state), tools=", ".join(state.tool_names))
        reply = run.ask("plan", prompt, system=_SYSTEM, max_tokens=self.max_tokens)
        calls = _read_calls(reply, state.tool_names, self.max_calls)
        rounds = _rounds(reply, calls)
        run.decide("plan", calls=len(calls), rounds=[len(group) for group in rounds])
        block = ContextBlock(
            _HEADING + "\n" + "\n".join(_describe(number, group) for number, group in enumerate(rounds, start=1)),
            block_id="tool_plan",
            source=self.release_id,
            metadata={"rounds": [[call.id for call in group] for group in rounds]},
        )
        return run.patch(PatchOperation(PatchOp.ADD_CONTEXT, block, rationale="tool calls in order of dependency"))


def _read_calls(reply: Reply, tools: Sequence[str], max_calls: int) -> tuple[PlannedCall, ...]:
    rows = reply.json_object().only("calls").objects("calls", at_most=max_calls)
    calls: list[PlannedCall] = []
    for number, row in enumerate(rows, start=1):
        row.only("id", "tool", "arguments", "depends_on")
        if row.integer("id", low=1, high=len(rows)) != number:
            reply.fail(f"must number its calls 1, 2, ... in order; call {number} has another number")
        call = PlannedCall(
            id=number,
            tool=row.choice("tool", tools),
            arguments=row.mapping("arguments"),
            depends_on=row.integers("depends_on", low=1, high=len(rows), at_most=len(rows)),
        )
        used = {reference for reference in _references(call.arguments) if 1 <= reference <= len(rows)}
        if not used <= set(call.depends_on):
            reply.fail(f"uses in call {number} a result that depends_on does not name")
        calls.append(call)
    return tuple(calls)


def _references(value: object) -> Iterator[int]:
    if isinstance(value, str):
        yield from (int(number) for number in _REFERENCE.findall(value))
    elif isinstance(value, Mapping):
        for item in cast("Mapping[str, object]", value).values():
            yield from _references(item)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _references(item)


def _rounds(reply: Reply, calls: Sequence[PlannedCall]) -> list[list[PlannedCall]]:
    graph = TopologicalSorter({call.id: call.depends_on for call in calls})
    try:
        graph.prepare()
    except CycleError:
        reply.fail("has calls that wait for each other")
    rounds: list[list[PlannedCall]] = []
    while graph.is_active():
        ready = sorted(graph.get_ready())
        graph.done(*ready)
        rounds.append([calls[number - 1] for number in ready])
    return rounds


def _describe(number: int, calls: Sequence[PlannedCall]) -> str:
    lines = [f"  ${call.id} = {call.tool}({canonical_json(call.arguments)})" for call in calls]
    return "\n".join([f"Round {number}:", *lines])
