"""Self-ask: the model asks itself follow-up questions and answers them before it concludes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from agentinputlab.algorithms._shared import InterventionBase, MethodRun, document_block, state_text
from agentinputlab.contracts._checks import whole
from agentinputlab.contracts.enums import PatchOp, SemanticFamily
from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.contracts.patch import InputPatch, PatchOperation
from agentinputlab.contracts.state import ContextBlock, FrozenAgentState

if TYPE_CHECKING:
    from agentinputlab.backends.retrieval import RetrievalResult

__all__ = ["SELF_ASK_INSTRUCTION", "SelfAskLoop", "SelfAskPrompt"]

SELF_ASK_INSTRUCTION: Final = (
    "Check first whether follow-up questions are needed to handle the request. If so, write each one as "
    '"Follow up: <question>" and its answer as "Intermediate answer: <answer>", one after the other, until nothing is '
    'open. Then conclude with "Final answer: <answer>".'
)

_SYSTEM = "You settle requests by asking follow-up questions, one at a time. Reply with exactly one line."
_STEP_PROMPT = (
    "{state}\n\nAsked and answered so far:\n{transcript}\n\nIf something is still open, reply "
    '"Follow up: <one question that can be looked up>". If nothing is open, reply "Final answer: <answer>".'
)
_ANSWER_SYSTEM = "You answer one question from given passages. Reply with the answer only, on one line."
_ANSWER_PROMPT = (
    "Passages:\n\n{passages}\n\nQuestion: {question}\n\nAnswer in a few words; say unknown if the passages do not tell."
)
_STEP = re.compile(r"(?P<kind>follow[ -]?up|final answer)\s*:\s*(?P<text>\S.*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfAskPrompt(InterventionBase):
    """Appends the instruction to ask and answer follow-up questions before concluding.

    Paper: Press et al., *Measuring and Narrowing the Compositionality Gap in Language Models*, Findings of EMNLP 2023;
    zero-shot, without the paper's examples. Needs nothing and uses no budget. Changes the instruction only.
    """

    method_id: ClassVar[str] = "plan.self_ask"
    release_id: ClassVar[str] = "plan.self_ask.prompt"
    family: ClassVar[SemanticFamily] = SemanticFamily.DECOMPOSE
    prompts: ClassVar[tuple[str, ...]] = (SELF_ASK_INSTRUCTION,)

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that appends `SELF_ASK_INSTRUCTION` to the instruction."""
        run = MethodRun(self, state, context)
        return run.patch(
            PatchOperation(PatchOp.APPEND_INSTRUCTION, SELF_ASK_INSTRUCTION, rationale="ask for follow-up questions")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfAskLoop(InterventionBase):
    """Runs the loop beforehand: follow-up, look-up, intermediate answer, until the model concludes.

    Paper: as `SelfAskPrompt`, with the search engine. Needs a language model (two calls a follow-up and one to
    conclude) and a retriever (one call a follow-up). Adds to the context what was asked and answered, and the
    documents behind it. A loop that reaches ``max_follow_ups`` without a conclusion says so in the metadata.

    Attributes:
        max_follow_ups: most follow-up questions.
        top_k: documents per follow-up.
        max_tokens: longest reply of the model.
    """

    method_id: ClassVar[str] = "plan.self_ask"
    release_id: ClassVar[str] = "plan.self_ask.full_loop"
    family: ClassVar[SemanticFamily] = SemanticFamily.DECOMPOSE
    prompts: ClassVar[tuple[str, ...]] = (_SYSTEM, _STEP_PROMPT, _ANSWER_SYSTEM, _ANSWER_PROMPT)

    max_follow_ups: int = 3
    top_k: int = 3
    max_tokens: int = 128

    def __post_init__(self) -> None:
        for name in ("max_follow_ups", "top_k", "max_tokens"):
            whole(getattr(self, name), name, minimum=1)

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that adds questions, answers and documents.

        Raises:
            ExternalDependencyError: the context has no language model or no retriever.
            BudgetExceededError: the budget has no call or token left.
            AlgorithmOutputError: a reply is neither a follow-up nor a final answer, or no single line.
        """
        run = MethodRun(self, state, context)
        run.require(backend="a language model", retriever="a retriever")
        transcript: list[str] = []
        found: dict[str, RetrievalResult] = {}
        for number in range(1, self.max_follow_ups + 2):
            kind, text = self._next_step(run, number, transcript)
            if kind == "final":
                transcript.append(f"Final answer: {text}")
                break
            if number > self.max_follow_ups:
                break
            results = run.retrieve(f"follow_up_{number}", text, top_k=self.top_k)
            for result in results:
                found.setdefault(result.document.doc_id, result)
            transcript += [f"Follow up: {text}", f"Intermediate answer: {self._answer(run, number, text, results)}"]
        concluded = bool(transcript) and transcript[-1].startswith("Final answer:")
        if not concluded:
            run.warn(f"no conclusion after {self.max_follow_ups} follow-up questions")
        run.decide("self_ask", follow_ups=len(transcript) // 2, concluded=concluded)
        known = {block.block_id for block in state.context}
        blocks = [document_block(result) for doc_id, result in found.items() if doc_id not in known]
        notes = ContextBlock(
            "Asked and answered beforehand:\n" + "\n".join(transcript), block_id="self_ask", source=self.release_id
        )
        return run.patch(
            PatchOperation(PatchOp.ADD_CONTEXT, [notes, *blocks], rationale="follow-up questions and their documents"),
            metadata={"concluded": concluded},
        )

    def _next_step(self, run: MethodRun, number: int, transcript: list[str]) -> tuple[str, str]:
        prompt = _STEP_PROMPT.format(state=state_text(run.state), transcript="\n".join(transcript) or "(nothing)")
        reply = run.ask(f"step_{number}", prompt, system=_SYSTEM, max_tokens=self.max_tokens)
        step = _STEP.fullmatch(reply.line())
        if step is None:
            reply.fail('must be "Follow up: ..." or "Final answer: ..."')
        return ("final" if step["kind"].casefold().startswith("final") else "follow_up"), step["text"]

    def _answer(self, run: MethodRun, number: int, question: str, results: tuple[RetrievalResult, ...]) -> str:
        passages = "\n\n".join(result.document.text for result in results) or "(nothing was found)"
        prompt = _ANSWER_PROMPT.format(passages=passages, question=question)
        return run.ask(f"answer_{number}", prompt, system=_ANSWER_SYSTEM, max_tokens=self.max_tokens).line()
