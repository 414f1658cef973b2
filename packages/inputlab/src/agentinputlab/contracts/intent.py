"""What a patch must keep of the user's intent, and the check that it did."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import cast

from agentinputlab.contracts._checks import Record, flag, load, put, texts
from agentinputlab.contracts.enums import PatchOp
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.patch import CLARIFICATION_KEY, InputPatch
from agentinputlab.contracts.state import FrozenAgentState

__all__ = ["CLARIFICATION_NOT_PERMITTED", "IntentCheck", "IntentContract", "check_intent_contract"]

CLARIFICATION_NOT_PERMITTED = "<clarification-not-permitted>"
"""Listed among the introduced assumptions when a patch asks back although it may not."""

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class IntentContract(Record):
    """Phrases that the input must keep or must not gain.

    Attributes:
        required_entities: phrases that must stay, such as names.
        required_constraints: phrases that must stay, such as limits.
        forbidden_assumptions: phrases that must not be introduced.
        may_request_clarification: whether the patch may ask the user back.
    """

    required_entities: tuple[str, ...] = ()
    required_constraints: tuple[str, ...] = ()
    forbidden_assumptions: tuple[str, ...] = ()
    may_request_clarification: bool = True

    def __post_init__(self) -> None:
        for name in ("required_entities", "required_constraints", "forbidden_assumptions"):
            field = f"IntentContract.{name}"
            phrases = texts(getattr(self, name), field)
            seen: set[tuple[str, ...]] = set()
            for phrase in phrases:
                words = _words(phrase)
                if not words:
                    raise ValidationError(f"{field} has {phrase!r:.80}, which holds no word")
                if words in seen:
                    raise ValidationError(f"{field} has {phrase!r:.80} twice")
                seen.add(words)
            put(self, **{name: phrases})
        flag(self.may_request_clarification, "IntentContract.may_request_clarification")

    @classmethod
    def from_dict(cls, value: object) -> IntentContract:
        """Give the contract that a mapping describes.

        Raises:
            ValidationError: an unknown or wrong field, which is named.
        """
        return load(cls, value, "intent contract")


@dataclass(frozen=True, slots=True)
class IntentCheck(Record):
    """Whether the intent was kept, and what is missing or new."""

    preserved: bool
    missing_entities: tuple[str, ...] = ()
    missing_constraints: tuple[str, ...] = ()
    introduced_assumptions: tuple[str, ...] = ()


def check_intent_contract(
    contract: IntentContract, state: FrozenAgentState, patch: InputPatch, output: FrozenAgentState
) -> IntentCheck:
    """Check that a patched state still says what the contract requires and nothing that it forbids.

    A phrase is found when its words follow each other, whatever their case and whatever stands between them, in the
    query, the instruction, a context block or a message. An assumption counts as introduced when the output has it
    and the input had it not.

    Args:
        contract: the phrases.
        state: the input of the patch.
        patch: what was applied.
        output: the result of applying it.
    """
    before, after = _texts(state), _texts(output)
    entities = tuple(phrase for phrase in contract.required_entities if not _found(phrase, after))
    constraints = tuple(phrase for phrase in contract.required_constraints if not _found(phrase, after))
    introduced = [
        phrase for phrase in contract.forbidden_assumptions if _found(phrase, after) and not _found(phrase, before)
    ]
    if not contract.may_request_clarification and _asks_back(state, patch, output):
        introduced.append(CLARIFICATION_NOT_PERMITTED)
    return IntentCheck(
        preserved=not (entities or constraints or introduced),
        missing_entities=entities,
        missing_constraints=constraints,
        introduced_assumptions=tuple(introduced),
    )


def _asks_back(state: FrozenAgentState, patch: InputPatch, output: FrozenAgentState) -> bool:
    if any(operation.op is PatchOp.REQUEST_CLARIFICATION for operation in patch.operations):
        return True
    return output.metadata.get(CLARIFICATION_KEY) != state.metadata.get(CLARIFICATION_KEY)


def _words(phrase: str) -> tuple[str, ...]:
    return tuple(cast("list[str]", _WORD.findall(phrase.casefold())))


def _texts(state: FrozenAgentState) -> list[str]:
    parts = [state.query, state.instruction, *(block.text for block in state.context)]
    parts += [message.content for message in state.messages]
    return [_line(_words(part)) for part in parts]


def _line(words: tuple[str, ...]) -> str:
    return f" {' '.join(words)} "


def _found(phrase: str, lines: list[str]) -> bool:
    wanted = _line(_words(phrase))
    return any(wanted in line for line in lines)
