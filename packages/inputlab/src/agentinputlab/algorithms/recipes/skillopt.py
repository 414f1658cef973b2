"""Skill optimisation: apply a skill text that was optimised beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from agentinputlab.algorithms._shared import InterventionBase, MethodRun
from agentinputlab.algorithms.recipes._artifact_text import artifact_sha256, check_artifact, require_artifact
from agentinputlab.contracts.enums import PatchOp, SemanticFamily
from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.contracts.patch import InputPatch, PatchOperation
from agentinputlab.contracts.state import FrozenAgentState

__all__ = ["SKILL_INSTRUCTION", "SkillApplication"]

SKILL_INSTRUCTION = (
    "Use the following skill wherever it fits the task. Where it contradicts another instruction, the other one "
    "counts.\n\n{skill}"
)
"""How a skill is introduced to the agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillApplication(InterventionBase):
    """Appends a finished skill text to the instruction.

    Needs no model. Changes the instruction only. The skill is used as it is: it does not look at the task.

    Attributes:
        skill: the text.
        sha256: SHA-256 of the text as UTF-8 that it must have; empty for any.
    """

    method_id: ClassVar[str] = "recipe.skillopt"
    release_id: ClassVar[str] = "recipe.skillopt.apply"
    family: ClassVar[SemanticFamily] = SemanticFamily.CURATE
    prompts: ClassVar[tuple[str, ...]] = (SKILL_INSTRUCTION,)

    skill: str = ""
    sha256: str = ""

    def __post_init__(self) -> None:
        check_artifact(self.skill, self.sha256, name="skill")

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that appends the skill to the instruction.

        Raises:
            ArtifactError: there is no skill.
        """
        run = MethodRun(self, state, context)
        skill = require_artifact(self, self.skill, name="skill")
        run.decide("artifact", sha256=artifact_sha256(self.skill), characters=len(skill))
        operation = PatchOperation(
            PatchOp.APPEND_INSTRUCTION, SKILL_INSTRUCTION.format(skill=skill), rationale="skill made beforehand"
        )
        return run.patch(operation, metadata={"artifact_sha256": artifact_sha256(self.skill)})
