"""Several interventions in a row as one: one budget, one patch, one trace.

The members run in order, each on the state that the ones before it made and with what they left of the budget. Their
operations, one after the other, are the patch of the composition: applied to the original state it gives the final
state, and applied in parts (`member_changes`) it shows what each member did. A member that fails ends the composition
with its own error, and as nothing is applied before the end, nothing is left half done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from agentinputlab.contracts._checks import Record, put
from agentinputlab.contracts.enums import PatchOp, ProfileKind, SemanticFamily, TracePhase
from agentinputlab.contracts.errors import (
    AgentInputLabError,
    AlgorithmOutputError,
    BudgetExceededError,
    ValidationError,
)
from agentinputlab.contracts.lifecycle import Intervention, InterventionContext, is_intervention
from agentinputlab.contracts.patch import CLARIFICATION_KEY, InputPatch, PatchOperation
from agentinputlab.contracts.serialization import content_hash
from agentinputlab.contracts.state import ExecutionBudget, FrozenAgentState
from agentinputlab.contracts.trace import ExecutionTrace, TraceEvent
from agentinputlab.runner.cache import intervention_parameters
from agentinputlab.runner.records import InterventionStatus

__all__ = ["MEMBER_APPLIED", "MEMBER_STARTED", "ComposedIntervention", "MemberChange", "member_changes"]

MEMBER_STARTED = "member_started"
"""Name of the event before the first event of a member."""
MEMBER_APPLIED = "member_applied"
"""Name of the event after the last event of a member."""
_METHOD_ID = "composite"
_COUNTED = ("model_calls", "retrieval_calls", "tool_calls", "output_tokens")


@dataclass(frozen=True, slots=True)
class ComposedIntervention(Record):
    """Members in order, as one intervention.

    A composition of compositions is the composition of all their members: how a chain is bracketed changes neither its
    identity nor what it does.

    Attributes:
        members: interventions, at least one.

    Examples:
        >>> from agentinputlab.algorithms.plan.plan_and_solve import PlanAndSolvePrompt
        >>> from agentinputlab.algorithms.recipes.skillopt import SkillApplication
        >>> chain = ComposedIntervention((SkillApplication(skill="Count twice."), PlanAndSolvePrompt()))
        >>> chain.release_id[:10]
        'composite.'
    """

    members: tuple[Intervention, ...]

    def __post_init__(self) -> None:
        members = cast("object", self.members)
        if not isinstance(members, list | tuple):
            raise ValidationError(f"members must be a list or tuple, got {type(members).__name__}")
        flat: list[Intervention] = []
        for index, member in enumerate(cast("Sequence[object]", members)):
            if isinstance(member, ComposedIntervention):
                flat += member.members
            elif is_intervention(member) and not isinstance(member, type):
                flat.append(member)
            else:
                raise ValidationError(f"members[{index}] must be an intervention, got {type(member).__name__}")
        if not flat:
            raise ValidationError("members must hold at least one intervention")
        put(self, members=tuple(flat))

    @property
    def method_id(self) -> str:
        """The method of every composition."""
        return _METHOD_ID

    @property
    def family(self) -> SemanticFamily:
        """What a composition is."""
        return SemanticFamily.COMPOSITE

    @property
    def profile_kind(self) -> ProfileKind:
        """A chain is our own arrangement, whatever its members are."""
        return ProfileKind.CONTROLLED_ADAPTER

    @property
    def parameters(self) -> dict[str, Any]:
        """The release and the parameters of every member, in order."""
        return {
            "members": [
                {"release_id": member.release_id, "parameters": intervention_parameters(member)}
                for member in self.members
            ]
        }

    @property
    def release_id(self) -> str:
        """``composite.`` and the first 12 digits of the content hash of `parameters`."""
        return f"{_METHOD_ID}.{content_hash(self.parameters)[:12]}"

    @property
    def implementation_identity(self) -> str:
        """The release and the content hash of the members' own identities and parameters."""
        digest = content_hash([[_identity(member), intervention_parameters(member)] for member in self.members])
        return f"{self.release_id}@1:{digest}"

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the one patch that does what all members do in order.

        The trace holds every event of every member under its own name and phase, with the member's place and release
        in the payload, between a `MEMBER_STARTED` and a `MEMBER_APPLIED` event. Counters are sums over the members.

        Raises:
            AgentInputLabError: a member failed; its own error, with a note that names the member.
            AlgorithmOutputError: a member did not give a patch of its own for the state it was given.
            BudgetExceededError: the members together counted more than the budget.
        """
        events: list[TraceEvent] = []
        counters: dict[str, int | float] = {}
        warnings: list[str] = []
        operations: list[PatchOperation] = []
        rows: list[dict[str, Any]] = []
        current = state
        for index, member in enumerate(self.members):
            mark = {"member": index, "release_id": member.release_id}
            events.append(
                TraceEvent(TracePhase.PREPARE, MEMBER_STARTED, {**mark, "input_state_hash": current.state_hash})
            )
            offered = replace(current, budget=_left(state.budget, counters))
            try:
                patch = _proposed(member, offered, context)
                after = replace(patch.apply(offered), budget=state.budget)
                _add(counters, patch.trace.counters)
                _left(state.budget, counters)
            except AgentInputLabError as error:
                error.add_note(f"member {index + 1} of {len(self.members)} of {self.release_id}: {member.release_id}")
                raise
            own = tuple(operation for operation in patch.operations if operation.op is not PatchOp.NO_OP)
            events += [replace(event, payload={**mark, "event": event.payload}) for event in patch.trace.events]
            events.append(
                TraceEvent(
                    TracePhase.FINALIZE,
                    MEMBER_APPLIED,
                    {
                        **mark,
                        "operations": [operation.op for operation in own],
                        "output_state_hash": after.state_hash,
                        "patch_hash": patch.patch_hash,
                        "counters": patch.trace.counters,
                    },
                )
            )
            warnings += [f"member {index + 1} ({member.release_id}): {text}" for text in patch.trace.warnings]
            question = current.metadata.get(CLARIFICATION_KEY)
            if question is not None and after.metadata.get(CLARIFICATION_KEY) != question:
                warnings.append(
                    f"member {index + 1} ({member.release_id}) replaced a clarification request made before"
                )
            operations += own
            rows.append(
                {
                    "release_id": member.release_id,
                    "implementation_identity": patch.implementation_identity,
                    "operations": len(own),
                    "counters": patch.trace.counters,
                    "metadata": patch.metadata,
                }
            )
            current = after
        return InputPatch(
            method_id=self.method_id,
            release_id=self.release_id,
            source_state_hash=state.state_hash,
            operations=tuple(operations) or (PatchOperation(PatchOp.NO_OP),),
            trace=ExecutionTrace(self.method_id, self.release_id, tuple(events), counters, tuple(warnings)),
            implementation_identity=self.implementation_identity,
            profile_kind=self.profile_kind,
            metadata={"members": rows, **_flags(rows)},
        )


@dataclass(frozen=True, slots=True)
class MemberChange(Record):
    """What one member of a composition did.

    Attributes:
        release_id: the release of the member.
        operations: its part of the patch; empty when it changed nothing.
        before: the state it was given, with the budget of the whole.
        after: the state it left.
        counters: what it counted itself (``model_calls``, ``output_tokens``, ...).
        metadata: of its own patch.
    """

    release_id: str
    operations: tuple[PatchOperation, ...]
    before: FrozenAgentState
    after: FrozenAgentState
    counters: Mapping[str, Any]
    metadata: Mapping[str, Any]


def member_changes(patch: InputPatch, state: FrozenAgentState) -> tuple[MemberChange, ...]:
    """Give what each member of a composition did, by applying its patch in parts.

    Args:
        patch: patch of a `ComposedIntervention`.
        state: the state it was made for.

    Raises:
        ValidationError: the patch is not one of a composition.
        StateConflictError: the patch was made for another state.
    """
    rows = patch.metadata.get("members")
    if patch.method_id != _METHOD_ID or not isinstance(rows, tuple):
        raise ValidationError(f"the patch of {patch.release_id} is not one of a composition")
    changes: list[MemberChange] = []
    start, current = 0, state
    for row in cast("tuple[Mapping[str, Any], ...]", rows):
        operations = patch.operations[start : start + row["operations"]]
        start += len(operations)
        after = current
        if operations:
            after = replace(patch, source_state_hash=current.state_hash, operations=operations).apply(current)
        changes.append(MemberChange(row["release_id"], operations, current, after, row["counters"], row["metadata"]))
        current = after
    if current != patch.apply(state):
        raise ValidationError(f"the members of the patch of {patch.release_id} do not add up to its operations")
    return tuple(changes)


def _proposed(member: Intervention, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
    patch = cast("object", member.propose(state, context))
    if not isinstance(patch, InputPatch):
        raise AlgorithmOutputError(f"{member.release_id} must propose an InputPatch, got {type(patch).__name__}")
    if (patch.method_id, patch.release_id) != (member.method_id, member.release_id):
        raise AlgorithmOutputError(
            f"{member.release_id} of {member.method_id} gave a patch of {patch.release_id} of {patch.method_id}"
        )
    if patch.source_state_hash != state.state_hash:
        raise AlgorithmOutputError(f"{member.release_id} gave a patch for another state than the one it was given")
    return patch


def _left(budget: ExecutionBudget, counters: Mapping[str, int | float]) -> ExecutionBudget:
    """Give what is left of a budget; money is left to the ledger of the runner, which knows the prices."""
    caps: dict[str, int | None] = {f"max_{name}": getattr(budget, f"max_{name}") for name in _COUNTED}
    caps["max_context_tokens"] = budget.max_context_tokens
    used = {f"max_{name}": int(counters.get(name, 0)) for name in _COUNTED}
    used["max_context_tokens"] = int(counters.get("input_tokens", 0))
    for name, cap in caps.items():
        if cap is not None and used[name] > cap:
            raise BudgetExceededError(f"the composition used {used[name]} where {name} is {cap}")
    return replace(budget, **{name: None if cap is None else cap - used[name] for name, cap in caps.items()})


def _flags(rows: Sequence[Mapping[str, Any]]) -> dict[str, bool]:
    """Give what a runner reads in the metadata of a patch, true when it is so for one member."""
    declared = (InterventionStatus.declared(row["metadata"]) for row in rows)
    return {status.value: True for status in declared if status is not None}


def _add(counters: dict[str, int | float], more: Mapping[str, Any]) -> None:
    for name, count in more.items():
        counters[name] = counters.get(name, 0) + count


def _identity(member: Intervention) -> str:
    return str(getattr(member, "implementation_identity", member.release_id))
