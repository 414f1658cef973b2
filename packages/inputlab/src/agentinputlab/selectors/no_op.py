"""The baseline: leave the input alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from agentinputlab.contracts.enums import ProfileKind, SemanticFamily
from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.contracts.patch import InputPatch
from agentinputlab.contracts.state import FrozenAgentState

__all__ = ["NoOpIntervention"]


@dataclass(frozen=True, slots=True)
class NoOpIntervention:
    """An intervention that changes nothing; the other side of a comparison.

    Examples:
        >>> from agentinputlab import FrozenAgentState, InterventionContext
        >>> state = FrozenAgentState(query="capital france")
        >>> NoOpIntervention().propose(state, InterventionContext()).apply(state) == state
        True
    """

    method_id: ClassVar[str] = "no_op"
    release_id: ClassVar[str] = "baseline.no_op"
    family: ClassVar[SemanticFamily] = SemanticFamily.NO_OP
    implementation_identity: ClassVar[str] = "builtin"
    profile_kind: ClassVar[ProfileKind] = ProfileKind.CONTROLLED_ADAPTER

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that changes nothing."""
        return InputPatch.no_op(state)
