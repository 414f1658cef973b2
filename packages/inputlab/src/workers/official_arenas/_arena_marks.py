"""Does a change of the input reach the agent? Each part of a state is marked and looked for in what is asked."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from agentinputlab.contracts import (
    ContextBlock,
    ExecutionTrace,
    FrozenAgentState,
    InputPatch,
    InterventionContext,
    PatchOp,
    PatchOperation,
    ProfileKind,
    SemanticFamily,
)
from workers.official_arenas._screening import GOLD_TEXT_MIN_LENGTH
from workers.official_arenas.own_arena import OwnArena
from workers.official_arenas.protocol import OfficialArenaProvider

__all__ = ["PARTS", "Marked", "Reach", "reach_of", "requests_noted"]

PARTS = ("instruction", "query", "context")
"""What a treatment can change of a state."""
_MARKS: Mapping[str, str] = {part: f"qx{part}markxq" for part in PARTS}


class Marked:
    """An intervention that appends a mark to instruction, query and context."""

    method_id: ClassVar[str] = "check.marked"
    release_id: ClassVar[str] = "check.marked"
    family: ClassVar[SemanticFamily] = SemanticFamily.COMPOSITE
    profile_kind: ClassVar[ProfileKind] = ProfileKind.CONTROLLED_ADAPTER
    implementation_identity: ClassVar[str] = "check.marked@1"

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that appends the marks."""
        block = ContextBlock(_MARKS["context"], block_id="check-marked", source=self.method_id)
        return InputPatch(
            method_id=self.method_id,
            release_id=self.release_id,
            source_state_hash=state.state_hash,
            operations=(
                PatchOperation(PatchOp.APPEND_INSTRUCTION, _MARKS["instruction"]),
                PatchOperation(PatchOp.APPEND_QUERY, _MARKS["query"]),
                PatchOperation(PatchOp.ADD_CONTEXT, block),
            ),
            trace=ExecutionTrace(method_id=self.method_id, release_id=self.release_id),
            implementation_identity=self.implementation_identity,
            profile_kind=self.profile_kind,
        )


@dataclass(frozen=True, slots=True)
class Reach:
    """Which parts of a marked state were seen.

    Attributes:
        missing: parts whose mark is nowhere in what was asked.
        from_task: those of them whose text without the mark is there: it was taken from the task.
    """

    missing: tuple[str, ...]
    from_task: tuple[str, ...]


def reach_of(visible_state: Mapping[str, Any], asked: object) -> Reach:
    """Tell which marks are in what was asked.

    Args:
        visible_state: the state before it was marked.
        asked: JSON values; their texts are searched.
    """
    seen = "\n".join(_texts(asked)).casefold()
    missing = tuple(part for part in PARTS if _MARKS[part] not in seen)
    before = {part: [text.strip().casefold() for text in _texts_of(part, visible_state)] for part in PARTS}

    def is_taken(part: str) -> bool:
        others = [text for other in PARTS if other != part for text in before[other]]
        telling = [text for text in before[part] if len(text) >= GOLD_TEXT_MIN_LENGTH]
        return any(text in seen and not any(text in other for other in others) for text in telling)

    return Reach(missing, tuple(part for part in missing if is_taken(part)))


@contextmanager
def requests_noted(provider: OfficialArenaProvider) -> Generator[list[Any]]:
    """Give the messages of every request that the agent of an `OwnArena` is asked meanwhile; of others nothing."""
    asked: list[Any] = []
    if not isinstance(provider, OwnArena):
        yield asked
        return
    arena: Any = provider
    make = provider._model  # pyright: ignore[reportPrivateUsage] - where every request of `BudgetedAgent` goes through

    def noting(config: Mapping[str, Any]) -> _Noting:
        return _Noting(make(config), asked)

    arena._model = noting  # of this one object; the class keeps its own
    try:
        yield asked
    finally:
        del arena._model


class _Noting:
    """A model that notes what it is asked and hands it on."""

    def __init__(self, model: Any, asked: list[Any]) -> None:
        self._model = model
        self._asked = asked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def generate(self, request: Any) -> Any:
        body: Any = request.chat_body(self._model.model_id)
        self._asked.append({"messages": body["messages"], "tools": body.get("tools", [])})
        return self._model.generate(request)


def _texts_of(part: str, visible_state: Mapping[str, Any]) -> list[str]:
    value = visible_state.get(part) or ""
    return [str(block["text"]) for block in value] if part == "context" and value else [str(value)]


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in cast("Mapping[str, object]", value).values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in cast("list[object]", value):
            yield from _texts(item)
