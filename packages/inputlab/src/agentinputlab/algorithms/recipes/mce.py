"""Meta context engineering: apply a context artifact that was evolved beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from agentinputlab.algorithms._shared import InterventionBase, MethodRun
from agentinputlab.algorithms.recipes._artifact_text import artifact_sha256, check_artifact, require_artifact
from agentinputlab.contracts._checks import text
from agentinputlab.contracts.enums import PatchOp, SemanticFamily
from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.contracts.patch import InputPatch, PatchOperation
from agentinputlab.contracts.state import ContextBlock, FrozenAgentState

__all__ = ["ContextArtifactApplication"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextArtifactApplication(InterventionBase):
    """Adds a finished context artifact in front of the context that is there.

    Needs no model. Changes the context only. The artifact is used as it is: it does not look at the task.

    Attributes:
        artifact: the text.
        sha256: SHA-256 of the text as UTF-8 that it must have; empty for any.
        block_id: name of the block.
    """

    method_id: ClassVar[str] = "recipe.mce"
    release_id: ClassVar[str] = "recipe.mce.apply"
    family: ClassVar[SemanticFamily] = SemanticFamily.CURATE

    artifact: str = ""
    sha256: str = ""
    block_id: str = "context_artifact"

    def __post_init__(self) -> None:
        check_artifact(self.artifact, self.sha256, name="artifact")
        text(self.block_id, "block_id")

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that puts the artifact first in the context.

        Raises:
            ArtifactError: there is no artifact.
        """
        run = MethodRun(self, state, context)
        content = require_artifact(self, self.artifact, name="artifact")
        block = ContextBlock(text=content, block_id=self.block_id, source=self.release_id)
        run.decide("artifact", sha256=artifact_sha256(self.artifact), characters=len(content))
        return run.patch(
            PatchOperation(PatchOp.REPLACE_CONTEXT, [block, *state.context], rationale="context artifact put first"),
            metadata={"artifact_sha256": artifact_sha256(self.artifact)},
        )
