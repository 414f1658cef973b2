"""Future turns: ask only when the answers that asking would lead to are better than answering now."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from agentinputlab.algorithms._shared import InterventionBase, MethodRun, state_text
from agentinputlab.contracts._checks import finite, whole
from agentinputlab.contracts.enums import PatchOp, SemanticFamily
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.contracts.patch import InputPatch, PatchOperation
from agentinputlab.contracts.state import FrozenAgentState

__all__ = ["FutureTurns", "mean_gain"]

_ASSISTANT = "You are a careful assistant. Answer in a few sentences."
_QUESTION_PROMPT = (
    "Before answering the request below you may ask the user one question. Reply with the one question whose answer "
    "would change your answer most, and nothing else.\n\n{state}"
)
_SIMULATE = "You play users of an assistant. Reply with one JSON object only."
_SIMULATE_PROMPT = (
    "Different users made the request below and were asked the question under it. Give {count} plausible answers, each "
    "of a user who wants something else.\n\n{state}\n\nQuestion:\n{question}\n\n"
    'Reply: {{"answers": ["<text>"]}}'
)
_CLARIFIED_PROMPT = "{state}\n\nYou asked: {question}\nThe user said: {answer}"
_JUDGE = "You judge answers from the view of one particular user. Reply with one JSON object only."
_JUDGE_PROMPT = (
    "The user made the request below. What they really want is known from what they said about it: {answer}\n"
    "(asked: {question})\n\n{state}\n\n"
    "Score how well each reply serves this user, from 0 to 10. Length is no merit.\n\n"
    "Reply A:\n{first}\n\nReply B:\n{second}\n\n"
    'Reply: {{"a": <0..10>, "b": <0..10>}}'
)


def mean_gain(scores: Sequence[tuple[float, float]]) -> float:
    """Give by how much the second of each pair of scores exceeds the first, on average.

    Args:
        scores: for each simulated user, the score of answering now and of answering after the question.

    Raises:
        ValidationError: there are no scores.

    Examples:
        >>> mean_gain([(4, 8), (6, 6)])
        2.0
    """
    if not scores:
        raise ValidationError("scores must hold at least one pair")
    return math.fsum(clarified - direct for direct, clarified in scores) / len(scores)


@dataclass(frozen=True, slots=True, kw_only=True)
class FutureTurns(InterventionBase):
    """Asks the user back if simulated users are better served after the question than by an answer now.

    Paper: Zhang, Knox and Choi, *Modeling Future Conversation Turns to Teach LLMs to Ask Clarifying Questions*, ICLR
    2025, whose double-turn preference labels are computed here at run time instead of training on them. Needs a
    language model: ``3 + 2 * futures`` calls (question, answer now, simulated users; then one answer and one judgement
    per user). A judge does not see which answer is which, and their order alternates.

    Attributes:
        futures: simulated users.
        margin: by how many points of 10 asking must be better on average; it must always be better than nothing.
        max_tokens: longest reply of each call.
    """

    method_id: ClassVar[str] = "clarify.future_turns"
    release_id: ClassVar[str] = "clarify.future_turns.simulated"
    family: ClassVar[SemanticFamily] = SemanticFamily.CLARIFY
    prompts: ClassVar[tuple[str, ...]] = (
        _ASSISTANT,
        _QUESTION_PROMPT,
        _SIMULATE,
        _SIMULATE_PROMPT,
        _CLARIFIED_PROMPT,
        _JUDGE,
        _JUDGE_PROMPT,
    )

    futures: int = 2
    margin: float = 0.5
    max_tokens: int = 400

    def __post_init__(self) -> None:
        whole(self.futures, "futures", minimum=1)
        whole(self.max_tokens, "max_tokens", minimum=1)
        finite(self.margin, "margin", minimum=0)

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that asks the question, or changes nothing when asking would not pay.

        Raises:
            ExternalDependencyError: the context has no language model.
            BudgetExceededError: the budget has no call or token left.
            AlgorithmOutputError: a reply is not in the form asked for.
        """
        run = MethodRun(self, state, context)
        visible = state_text(state)
        limit = self.max_tokens
        question = run.ask(
            "question", _QUESTION_PROMPT.format(state=visible), system=_ASSISTANT, max_tokens=limit
        ).line()
        direct = run.ask("answer_now", visible, system=_ASSISTANT, max_tokens=limit).text()
        prompt = _SIMULATE_PROMPT.format(count=self.futures, state=visible, question=question)
        simulated = run.ask("users", prompt, system=_SIMULATE, max_tokens=limit).json_object().only("answers")
        answers = simulated.texts("answers", at_least=self.futures, at_most=self.futures)
        scores = [
            self._scores(run, visible, question=question, direct=direct, answer=answer, number=number)
            for number, answer in enumerate(answers, start=1)
        ]
        gain = mean_gain(scores)
        asks = gain > 0 and gain >= self.margin
        run.decide("ask_or_answer", asks=asks, mean_gain=gain, scores=[list(pair) for pair in scores])
        metadata = {"mean_gain": gain}
        if not asks:
            return run.no_op("simulated users are served as well by an answer now", metadata=metadata)
        return run.patch(
            PatchOperation(
                PatchOp.REQUEST_CLARIFICATION, question, rationale=f"simulated users gain {gain:.2f} points of 10"
            ),
            metadata=metadata,
        )

    def _scores(
        self, run: MethodRun, visible: str, *, question: str, direct: str, answer: str, number: int
    ) -> tuple[float, float]:
        """Give the scores of answering now and of answering after the question, for one simulated user."""
        prompt = _CLARIFIED_PROMPT.format(state=visible, question=question, answer=answer)
        clarified = run.ask(f"answer_{number}", prompt, system=_ASSISTANT, max_tokens=self.max_tokens).text()
        direct_is_first = number % 2 == 1
        first, second = (direct, clarified) if direct_is_first else (clarified, direct)
        prompt = _JUDGE_PROMPT.format(answer=answer, question=question, state=visible, first=first, second=second)
        verdict = run.ask(f"judge_{number}", prompt, system=_JUDGE, max_tokens=self.max_tokens)
        points = verdict.json_object().only("a", "b")
        a, b = points.number("a", low=0, high=10), points.number("b", low=0, high=10)
        return (a, b) if direct_is_first else (b, a)
