"""Ask or assume: a monitor beside the agent says whether something is missing that must be asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from agentinputlab.algorithms._shared import InterventionBase, MethodRun, state_text
from agentinputlab.contracts._checks import flag, whole
from agentinputlab.contracts.enums import PatchOp, SemanticFamily, StrEnum
from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.contracts.patch import InputPatch, PatchOperation
from agentinputlab.contracts.state import FrozenAgentState

__all__ = ["AskOrAssumeMonitor", "Verdict"]

_SYSTEM = (
    "You watch over an assistant and do not act yourself. You judge whether a task says enough to be started. Reply "
    "with one JSON object only."
)
_PROMPT = (
    "Does the task below say everything that carrying it out needs? Count as missing only what neither the task nor "
    "the tools can supply.\n"
    '- "clear": nothing is missing.\n'
    '- "assumable": something is missing, but one reading is so natural that acting on it does no harm. Give that '
    "assumption as one sentence.\n"
    '- "blocking": something is missing, and a wrong guess would do harm or waste. Give the one question to ask.\n'
    "Tools of the assistant: {tools}\n\n{state}\n\n"
    'Reply: {{"verdict": "clear" | "assumable" | "blocking", "text": "<assumption, question, or empty>"}}'
)
_ASSUMPTION = "The request leaves something open. Act on this assumption and say so in your answer: {assumption}"


class Verdict(StrEnum):
    """Whether a task can be started."""

    CLEAR = "clear"
    ASSUMABLE = "assumable"
    BLOCKING = "blocking"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskOrAssumeMonitor(InterventionBase):
    """Asks the user for what blocks a task, writes down a harmless assumption, or changes nothing.

    Needs a language model: one call. The monitor is a component: it looks once, before the agent acts, and knows
    nothing of what the agent does later.

    Attributes:
        may_assume: write assumptions down; without, an assumable gap changes nothing.
        max_tokens: longest reply.
    """

    method_id: ClassVar[str] = "clarify.ask_or_assume"
    release_id: ClassVar[str] = "clarify.ask_or_assume.monitor"
    family: ClassVar[SemanticFamily] = SemanticFamily.CLARIFY
    prompts: ClassVar[tuple[str, ...]] = (_SYSTEM, _PROMPT, _ASSUMPTION)

    may_assume: bool = True
    max_tokens: int = 256

    def __post_init__(self) -> None:
        flag(self.may_assume, "may_assume")
        whole(self.max_tokens, "max_tokens", minimum=1)

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that the monitor's verdict leads to.

        Raises:
            ExternalDependencyError: the context has no language model.
            BudgetExceededError: the budget has no call or token left.
            AlgorithmOutputError: no verdict, or one without the text that goes with it.
        """
        run = MethodRun(self, state, context)
        prompt = _PROMPT.format(tools=", ".join(state.tool_names) or "none", state=state_text(state))
        reply = run.ask("verdict", prompt, system=_SYSTEM, max_tokens=self.max_tokens)
        answer = reply.json_object().only("verdict", "text")
        verdict = Verdict(answer.choice("verdict", tuple(Verdict)))
        run.decide("verdict", verdict=verdict)
        metadata = {"verdict": verdict}
        if verdict is Verdict.CLEAR:
            return run.no_op("nothing is missing", metadata=metadata)
        wording = answer.text("text")
        if verdict is Verdict.BLOCKING:
            operation = PatchOperation(PatchOp.REQUEST_CLARIFICATION, wording, rationale="a wrong guess would do harm")
            return run.patch(operation, metadata=metadata)
        if not self.may_assume:
            return run.no_op("what is missing can be assumed", metadata=metadata)
        operation = PatchOperation(
            PatchOp.APPEND_INSTRUCTION,
            _ASSUMPTION.format(assumption=wording),
            rationale="one reading is natural and harmless",
        )
        return run.patch(operation, metadata=metadata)
