"""A change of your own: texts that are added to, or put in the place of, what an agent sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from agentinputlab.algorithms._shared import InterventionBase, MethodRun
from agentinputlab.contracts.enums import PatchOp, SemanticFamily
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.contracts.patch import InputPatch, PatchOperation
from agentinputlab.contracts.state import ContextBlock, FrozenAgentState

__all__ = ["OwnText"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnText(InterventionBase):
    """Changes the instruction or the context by texts that you give, the same on every task.

    It belongs to no paper: it is how a prompt change of your own is measured. Needs nothing and uses no budget.

    Attributes:
        append_instruction: added to the instruction.
        replace_instruction: takes the place of the instruction.
        add_context: added as a block of context.
        replace_context: takes the place of all context.
    """

    method_id: ClassVar[str] = "own.text"
    release_id: ClassVar[str] = "own.text"
    family: ClassVar[SemanticFamily] = SemanticFamily.COMPOSITE

    append_instruction: str = ""
    replace_instruction: str = ""
    add_context: str = ""
    replace_context: str = ""

    def __post_init__(self) -> None:
        texts = self.parameters
        for name, text in texts.items():
            if not isinstance(text, str):
                raise ValidationError(f"{name} must be text, got {type(text).__name__}")
        if not any(text.strip() for text in texts.values()):
            raise ValidationError(f"own.text needs one of {', '.join(texts)}")

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that makes the changes which were given."""
        operations: list[PatchOperation] = []
        if self.replace_instruction.strip():
            operations.append(PatchOperation(PatchOp.REPLACE_INSTRUCTION, self.replace_instruction))
        if self.append_instruction.strip():
            operations.append(PatchOperation(PatchOp.APPEND_INSTRUCTION, self.append_instruction))
        if self.replace_context.strip():
            operations.append(PatchOperation(PatchOp.REPLACE_CONTEXT, [_block(self.replace_context)]))
        if self.add_context.strip():
            operations.append(PatchOperation(PatchOp.ADD_CONTEXT, _block(self.add_context)))
        return MethodRun(self, state, context).patch(*operations)


def _block(text: str) -> ContextBlock:
    return ContextBlock(text=text, block_id="own-text", source="own.text")
