"""A typed change to a visible state, bound to the state it was made for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from agentinputlab.contracts._checks import Hashed, Record, digest, entries, exact_fields, frozen, member, put, text
from agentinputlab.contracts.enums import PatchOp, ProfileKind
from agentinputlab.contracts.errors import StateConflictError, ValidationError
from agentinputlab.contracts.serialization import deep_freeze_jsonable, to_jsonable
from agentinputlab.contracts.state import ContextBlock, FrozenAgentState, Message
from agentinputlab.contracts.trace import ExecutionTrace

__all__ = ["CLARIFICATION_KEY", "InputPatch", "PatchOperation"]

CLARIFICATION_KEY = "clarification_request"
"""Key of a state's metadata under which a requested clarification waits."""


@dataclass(frozen=True, slots=True)
class PatchOperation(Record):
    """One change.

    Attributes:
        op: kind of change.
        value: what the change needs: text for queries, instructions and clarifications; a context block, a string, a
            mapping or a list of them for context; messages or mappings for messages; a mapping for metadata;
            nothing for ``no_op``. It is kept as read-only JSON values.
        target: what the change is about, for the reader.
        rationale: why, for the reader.
    """

    op: PatchOp
    value: Any = None
    target: str = ""
    rationale: str = ""

    def __post_init__(self) -> None:
        put(self, op=member(self.op, PatchOp))
        text(self.target, "PatchOperation.target", blank=True)
        text(self.rationale, "PatchOperation.rationale", blank=True)
        try:
            put(self, value=deep_freeze_jsonable(self.value))
        except (TypeError, ValueError) as error:
            raise ValidationError(f"PatchOperation.value of {self.op} must hold JSON values only: {error}") from error
        _CHECKS[self.op](self.value, f"PatchOperation.value of {self.op}")

    @classmethod
    def from_dict(cls, value: object) -> PatchOperation:
        """Give the operation that a mapping describes.

        Raises:
            ValidationError: an unknown, missing or wrong field, which is named.
        """
        names = ("op", "value", "target", "rationale")
        return cls(**exact_fields(value, "patch operation", allowed=names, required=names[:1]))


@dataclass(frozen=True, slots=True)
class InputPatch(Hashed):
    """What an intervention proposes: one or more operations on one state, and how it came to them.

    Attributes:
        method_id: the method.
        release_id: the release of it.
        source_state_hash: hash of the state it was made for.
        operations: the changes, in order; at least one.
        trace: what the intervention did; of the same method and release.
        implementation_identity: which code made it.
        profile_kind: how close to its origin that code is.
        metadata: JSON values.
    """

    method_id: str
    release_id: str
    source_state_hash: str
    operations: tuple[PatchOperation, ...]
    trace: ExecutionTrace
    implementation_identity: str
    profile_kind: ProfileKind
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        text(self.method_id, "InputPatch.method_id")
        text(self.release_id, "InputPatch.release_id")
        text(self.implementation_identity, "InputPatch.implementation_identity")
        digest(self.source_state_hash, "InputPatch.source_state_hash")
        operations = entries(self.operations, "InputPatch.operations", PatchOperation)
        if not operations:
            raise ValidationError("InputPatch.operations must hold at least one operation")
        if not isinstance(cast("object", self.trace), ExecutionTrace):
            raise ValidationError(f"InputPatch.trace must be an ExecutionTrace, got {type(self.trace).__name__}")
        if (self.trace.method_id, self.trace.release_id) != (self.method_id, self.release_id):
            raise ValidationError(
                f"InputPatch.trace is of {self.trace.method_id}/{self.trace.release_id}, "
                f"the patch of {self.method_id}/{self.release_id}"
            )
        put(
            self,
            operations=operations,
            profile_kind=member(self.profile_kind, ProfileKind),
            metadata=frozen(self.metadata, "InputPatch.metadata"),
        )

    @classmethod
    def no_op(
        cls,
        state: FrozenAgentState,
        *,
        method_id: str = "no_op",
        release_id: str = "baseline.no_op",
        implementation_identity: str = "builtin",
        profile_kind: ProfileKind = ProfileKind.CONTROLLED_ADAPTER,
        rationale: str = "",
        trace: ExecutionTrace | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> InputPatch:
        """Give the patch that leaves a state as it is."""
        return cls(
            method_id=method_id,
            release_id=release_id,
            source_state_hash=state.state_hash,
            operations=(PatchOperation(PatchOp.NO_OP, rationale=rationale),),
            trace=trace or ExecutionTrace(method_id, release_id),
            implementation_identity=implementation_identity,
            profile_kind=profile_kind,
            metadata=metadata or {},
        )

    @classmethod
    def from_dict(cls, value: object) -> InputPatch:
        """Give the patch that a mapping, such as `as_dict`, describes.

        Raises:
            ValidationError: an unknown, missing or wrong field, which is named.
        """
        names = ("method_id", "release_id", "source_state_hash", "operations", "trace")
        names += ("implementation_identity", "profile_kind", "metadata")
        mapping = dict(exact_fields(value, "patch", allowed=names, required=names[:-1]))
        rows: tuple[object, ...] = entries(mapping["operations"], "patch.operations", object)
        mapping["operations"] = tuple(PatchOperation.from_dict(row) for row in rows)
        mapping["trace"] = ExecutionTrace.from_dict(mapping["trace"])
        return cls(**mapping)

    def as_dict(self) -> dict[str, Any]:
        """Give the patch as JSON values."""
        return to_jsonable(self)

    @property
    def patch_hash(self) -> str:
        """The content hash of `as_dict`."""
        return self.remembered_hash()

    @property
    def changes_nothing(self) -> bool:
        """Whether every operation is ``no_op``."""
        return all(operation.op is PatchOp.NO_OP for operation in self.operations)

    def apply(self, state: FrozenAgentState) -> FrozenAgentState:
        """Give the state after all operations, in order.

        An appended text is joined with a blank line when there is an old text.

        Raises:
            StateConflictError: the patch was made for another state.
            ValidationError: the result is no valid state.
        """
        if state.state_hash != self.source_state_hash:
            raise StateConflictError(
                f"patch of {self.release_id} was made for state {self.source_state_hash}, not for {state.state_hash}"
            )
        for operation in self.operations:
            state = _EFFECTS[operation.op](state, operation.value)
        return state


# --- what a value has to be ---------------------------------------------------------------------------------


def _nothing(value: Any, name: str) -> None:
    if value is not None:
        raise ValidationError(f"{name} must be None, got {type(value).__name__}")


def _text(value: Any, name: str) -> None:
    text(value, name, blank=True)


def _some_text(value: Any, name: str) -> None:
    text(value, name)


def _mapping(value: Any, name: str) -> None:
    frozen(value, name)


def _context(value: Any, name: str) -> None:
    _blocks(value, name)


def _conversation(value: Any, name: str) -> None:
    _messages(value, name)


def _blocks(value: Any, name: str) -> tuple[ContextBlock, ...]:
    rows: tuple[Any, ...] = value if isinstance(value, tuple) else (value,)
    blocks: list[ContextBlock] = []
    for row in rows:
        if not isinstance(row, str | Mapping):
            raise ValidationError(f"{name} must be context blocks, strings or mappings, got {type(row).__name__}")
        blocks.append(ContextBlock(row) if isinstance(row, str) else ContextBlock.from_dict(row))
    return tuple(blocks)


def _messages(value: Any, name: str) -> tuple[Message, ...]:
    rows: tuple[Any, ...] = value if isinstance(value, tuple) else (value,)
    for row in rows:
        if not isinstance(row, Mapping):
            raise ValidationError(f"{name} must be messages or mappings, got {type(row).__name__}")
    return tuple(Message.from_dict(row) for row in rows)


_CHECKS: dict[PatchOp, Callable[[Any, str], None]] = {
    PatchOp.REPLACE_QUERY: _text,
    PatchOp.APPEND_QUERY: _text,
    PatchOp.REPLACE_INSTRUCTION: _text,
    PatchOp.APPEND_INSTRUCTION: _text,
    PatchOp.ADD_CONTEXT: _context,
    PatchOp.REPLACE_CONTEXT: _context,
    PatchOp.ADD_MESSAGE: _conversation,
    PatchOp.REPLACE_MESSAGES: _conversation,
    PatchOp.SET_METADATA: _mapping,
    PatchOp.REQUEST_CLARIFICATION: _some_text,
    PatchOp.NO_OP: _nothing,
}


# --- what it does -------------------------------------------------------------------------------------------


def _joined(old: str, new: str) -> str:
    return f"{old}\n\n{new}" if old else new


_EFFECTS: dict[PatchOp, Callable[[FrozenAgentState, Any], FrozenAgentState]] = {
    PatchOp.REPLACE_QUERY: lambda state, value: replace(state, query=value),
    PatchOp.APPEND_QUERY: lambda state, value: replace(state, query=_joined(state.query, value)),
    PatchOp.REPLACE_INSTRUCTION: lambda state, value: replace(state, instruction=value),
    PatchOp.APPEND_INSTRUCTION: lambda state, value: replace(state, instruction=_joined(state.instruction, value)),
    PatchOp.ADD_CONTEXT: lambda state, value: replace(state, context=(*state.context, *_blocks(value, "context"))),
    PatchOp.REPLACE_CONTEXT: lambda state, value: replace(state, context=_blocks(value, "context")),
    PatchOp.ADD_MESSAGE: lambda state, value: replace(state, messages=(*state.messages, *_messages(value, "messages"))),
    PatchOp.REPLACE_MESSAGES: lambda state, value: replace(state, messages=_messages(value, "messages")),
    PatchOp.SET_METADATA: lambda state, value: replace(state, metadata={**state.metadata, **value}),
    PatchOp.REQUEST_CLARIFICATION: lambda state, value: replace(
        state, metadata={**state.metadata, CLARIFICATION_KEY: value}
    ),
    PatchOp.NO_OP: lambda state, _: state,
}
