"""Active task disambiguation: ask the question whose answer would tell most about what is meant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from agentinputlab.algorithms._shared import InterventionBase, MethodRun, state_text
from agentinputlab.algorithms.clarify._information_gain import expected_information_gain, normalized
from agentinputlab.contracts._checks import finite, whole
from agentinputlab.contracts.enums import PatchOp, SemanticFamily
from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.contracts.patch import InputPatch, PatchOperation
from agentinputlab.contracts.state import FrozenAgentState

__all__ = ["ActiveTaskDisambiguation"]

_SYSTEM = "You find out what an ambiguous request may mean. Reply with one JSON object only."
_HYPOTHESES_PROMPT = (
    "Give up to {most} different readings of the task below: what, precisely, may the user want? Readings that would "
    "lead to the same actions are one. Give each a weight above 0, larger for the likelier ones. A task that can be "
    "read in one way has one reading.\n\n{state}\n\n"
    'Reply: {{"readings": [{{"reading": "<text>", "weight": <number>}}]}}'
)
_QUESTIONS_PROMPT = (
    "A user made the request below, and it may mean any of the numbered readings. Give up to {most} different "
    "questions to the user whose answers would tell the readings apart. For each question, give in a few words what "
    "the user would answer under reading 1, under reading 2, and so on; use the same words where the answer is the "
    "same.\n\n{state}\n\nReadings:\n{readings}\n\n"
    'Reply: {{"questions": [{{"question": "<text>", "answers": ["<under reading 1>", "<under reading 2>"]}}]}}'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveTaskDisambiguation(InterventionBase):
    """Asks the user the question with the highest expected information gain, if one is worth asking.

    Paper: Kobalczyk et al., *Active Task Disambiguation with LLMs*, ICLR 2025. Needs a language model: one call for the
    readings of the task, and a second for questions when there are several readings. The gain of each question is
    computed, not judged (`expected_information_gain`).

    Attributes:
        hypotheses: most readings.
        questions: most candidate questions.
        min_gain_bits: least gain that is worth a question.
        max_tokens: longest reply.
    """

    method_id: ClassVar[str] = "clarify.active_task_disambiguation"
    release_id: ClassVar[str] = "clarify.active_task_disambiguation.information_gain"
    family: ClassVar[SemanticFamily] = SemanticFamily.CLARIFY
    prompts: ClassVar[tuple[str, ...]] = (_SYSTEM, _HYPOTHESES_PROMPT, _QUESTIONS_PROMPT)

    hypotheses: int = 6
    questions: int = 4
    min_gain_bits: float = 0.5
    max_tokens: int = 1024

    def __post_init__(self) -> None:
        whole(self.hypotheses, "hypotheses", minimum=2)
        whole(self.questions, "questions", minimum=1)
        whole(self.max_tokens, "max_tokens", minimum=1)
        finite(self.min_gain_bits, "min_gain_bits", minimum=0)

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that asks the best question, or changes nothing when none is worth it.

        Of questions with the same gain the first is asked.

        Raises:
            ExternalDependencyError: the context has no language model.
            BudgetExceededError: the budget has no call or token left.
            AlgorithmOutputError: no readings or questions in the form asked for.
        """
        run = MethodRun(self, state, context)
        readings, weights = self._readings(run)
        run.decide("readings", count=len(readings), probabilities=list(normalized(weights)))
        if len(readings) == 1:
            return run.no_op("the task has one reading", metadata={"readings": 1})
        candidates = self._questions(run, readings)
        gains = [expected_information_gain(weights, answers) for _, answers in candidates]
        best = max(range(len(gains)), key=gains.__getitem__)
        run.decide("question", gains_bits=gains, chosen=best)
        metadata = {"readings": len(readings), "gain_bits": gains[best]}
        if gains[best] <= 0 or gains[best] < self.min_gain_bits:
            return run.no_op("no question tells the readings sufficiently apart", metadata=metadata)
        return run.patch(
            PatchOperation(
                PatchOp.REQUEST_CLARIFICATION,
                candidates[best][0],
                rationale=f"expected information gain {gains[best]:.3f} bits",
            ),
            metadata=metadata,
        )

    def _readings(self, run: MethodRun) -> tuple[tuple[str, ...], tuple[float, ...]]:
        prompt = _HYPOTHESES_PROMPT.format(most=self.hypotheses, state=state_text(run.state))
        reply = run.ask("readings", prompt, system=_SYSTEM, max_tokens=self.max_tokens)
        weights: dict[str, float] = {}
        for row in reply.json_object().only("readings").objects("readings", at_most=self.hypotheses):
            weight = row.only("reading", "weight").number("weight", low=0, high=1e9)
            if weight == 0:
                reply.fail("must give every reading a weight above 0")
            reading = row.text("reading")
            weights[reading] = weights.get(reading, 0.0) + weight
        return tuple(weights), tuple(weights.values())

    def _questions(self, run: MethodRun, readings: tuple[str, ...]) -> list[tuple[str, tuple[str, ...]]]:
        numbered = "\n".join(f"{number}. {reading}" for number, reading in enumerate(readings, start=1))
        prompt = _QUESTIONS_PROMPT.format(most=self.questions, state=state_text(run.state), readings=numbered)
        reply = run.ask("questions", prompt, system=_SYSTEM, max_tokens=self.max_tokens)
        rows = reply.json_object().only("questions").objects("questions", at_most=self.questions)
        count = len(readings)
        return [
            (
                row.only("question", "answers").text("question"),
                row.texts("answers", at_least=count, at_most=count, max_characters=400),
            )
            for row in rows
        ]
