r"""Plan-and-Solve: ask for a plan before the work, or write one.

An agent that reacts to planning can recognise every request of this package to plan by one rule: the case-folded
instruction or context matches `PLAN_REQUEST_PATTERN`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from agentinputlab.algorithms._shared import InterventionBase, MethodRun, state_text
from agentinputlab.contracts._checks import whole
from agentinputlab.contracts.enums import PatchOp, SemanticFamily
from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.contracts.patch import InputPatch, PatchOperation
from agentinputlab.contracts.state import ContextBlock, FrozenAgentState

__all__ = [
    "PLAN_HEADING",
    "PLAN_REQUEST_PATTERN",
    "PS_INSTRUCTION",
    "PS_PLUS_INSTRUCTION",
    "PlanAndSolvePlusPrompt",
    "PlanAndSolvePrompt",
    "PlanCall",
]

PLAN_REQUEST_PATTERN: Final = (
    r"\b(make|write|devise|draw up|work out|follow)\s+(a|the|this|your)\s+(step-by-step\s+)?plan\b"
)
"""Regular expression that finds a request to plan in a case-folded text."""

PS_INSTRUCTION: Final = (
    "Before you act, make a plan. First understand the whole request and list everything it asks for. "
    "Then gather every detail you need, check for each part that it is possible and allowed, and only then carry out "
    "the plan step by step, all parts together."
)
PS_PLUS_INSTRUCTION: Final = (
    "Before you act, make a plan. First understand the whole request and list everything it asks for, with every name, "
    "number, option and condition that matters. Then gather every detail you need, check for each part that it is "
    "possible and allowed, work out intermediate results such as totals and price differences with care, and only then "
    "carry out the plan step by step, all parts together, and compare the outcome with the list."
)
PLAN_HEADING: Final = "Follow this plan:"
"""First line of every block of context that is a plan."""

_SYSTEM = "You plan work for somebody else, who will carry it out. Reply with the plan only, one step a line."
_PROMPT = (
    "Write a plan for the request below: at most {max_steps} short steps, in the order in which they have to be done. "
    "Put looking things up and checking before changing anything. Do not carry anything out and do not invent "
    "facts.\n\n{state}{tools}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAndSolvePrompt(InterventionBase):
    """Appends an instruction to plan first: understand, list, gather, check, then act.

    Paper: Wang et al., *Plan-and-Solve Prompting: Improving Zero-Shot Chain-of-Thought Reasoning by Large Language
    Models*, ACL 2023 (PS). Needs nothing and uses no budget. Changes the instruction only.
    """

    method_id: ClassVar[str] = "plan.plan_and_solve"
    release_id: ClassVar[str] = "plan.plan_and_solve.ps_prompt"
    family: ClassVar[SemanticFamily] = SemanticFamily.DECOMPOSE
    prompts: ClassVar[tuple[str, ...]] = (PS_INSTRUCTION,)

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that appends `PS_INSTRUCTION` to the instruction."""
        return _appended(MethodRun(self, state, context), PS_INSTRUCTION)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAndSolvePlusPrompt(InterventionBase):
    """Appends the longer instruction, which also asks for relevant values and careful intermediate results.

    Paper: as `PlanAndSolvePrompt` (PS+). Needs nothing and uses no budget. Changes the instruction only.
    """

    method_id: ClassVar[str] = "plan.plan_and_solve"
    release_id: ClassVar[str] = "plan.plan_and_solve.ps_plus_prompt"
    family: ClassVar[SemanticFamily] = SemanticFamily.DECOMPOSE
    prompts: ClassVar[tuple[str, ...]] = (PS_PLUS_INSTRUCTION,)

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that appends `PS_PLUS_INSTRUCTION` to the instruction."""
        return _appended(MethodRun(self, state, context), PS_PLUS_INSTRUCTION)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCall(InterventionBase):
    """Lets a model write the plan beforehand and adds it to the context.

    Paper: as `PlanAndSolvePrompt`; here planning is a call of its own, so that its cost and its text can be seen.
    Needs a language model; one call. Changes the context only.

    Attributes:
        max_steps: most steps.
        max_tokens: longest plan.
    """

    method_id: ClassVar[str] = "plan.plan_and_solve"
    release_id: ClassVar[str] = "plan.plan_and_solve.plan_call"
    family: ClassVar[SemanticFamily] = SemanticFamily.DECOMPOSE
    prompts: ClassVar[tuple[str, ...]] = (_SYSTEM, _PROMPT, PLAN_HEADING)

    max_steps: int = 8
    max_tokens: int = 384

    def __post_init__(self) -> None:
        whole(self.max_steps, "max_steps", minimum=1)
        whole(self.max_tokens, "max_tokens", minimum=1)

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that adds the plan as a block of context.

        Raises:
            ExternalDependencyError: the context has no language model.
            BudgetExceededError: the budget has no call or token left.
            AlgorithmOutputError: the model did not list one to ``max_steps`` steps.
        """
        run = MethodRun(self, state, context)
        tools = f"\n\nTools that can be used: {', '.join(state.tool_names)}" if state.tool_names else ""
        prompt = _PROMPT.format(max_steps=self.max_steps, state=state_text(state), tools=tools)
        steps = run.ask("plan", prompt, system=_SYSTEM, max_tokens=self.max_tokens).lines(at_most=self.max_steps)
        run.decide("plan", steps=len(steps))
        numbered = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, start=1))
        block = ContextBlock(f"{PLAN_HEADING}\n{numbered}", block_id="plan", source=self.release_id)
        return run.patch(PatchOperation(PatchOp.ADD_CONTEXT, block, rationale="plan written before acting"))


def _appended(run: MethodRun, instruction: str) -> InputPatch:
    return run.patch(PatchOperation(PatchOp.APPEND_INSTRUCTION, instruction, rationale="ask for a plan before acting"))
