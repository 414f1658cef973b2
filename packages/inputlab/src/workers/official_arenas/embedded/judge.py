"""Judges of assertions: predicates over what the agent said, or a model. Both answers pass the same coverage guard."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from ripieno.canonical import strict_loads
from ripieno.errors import InputError
from workers.official_arenas.embedded.chat_models import ChatModel
from workers.official_arenas.embedded.customers import EnvironmentUsage
from workers.official_arenas.embedded.errors import EpisodeTimeoutError, JudgeError, MalformedGenerationError
from workers.official_arenas.embedded.task_model import Predicate, Task

__all__ = [
    "COVERAGE_GUARD",
    "JUDGE_ID",
    "JUDGE_SIGNATURE",
    "Judge",
    "ModelJudge",
    "PredicateJudge",
    "answer_by_predicates",
    "covered_results",
    "judge_messages",
    "predicates_of_prompt",
]

JUDGE_ID = "predicate-judge.v1"
COVERAGE_GUARD = "exact-assertion-multiset-bool-v1"
JUDGE_SIGNATURE = "# Expected Outcomes"
"""How the system message of every judge begins."""

_MAX_ANSWER_BYTES = 2**20
_TASK = f"""{JUDGE_SIGNATURE}
Decide for each expected outcome below whether it holds in the conversation that you are given. Reply with one JSON
object that has exactly one entry for each outcome, in this form:
{{"results": [{{"expectedOutcome": "<word for word>", "reasoning": "<one sentence>", "metExpectation": true}}]}}"""
_PREDICATES = re.compile(r"<predicates>\n(.*)\n</predicates>", re.DOTALL)


class Judge(Protocol):
    """Whoever decides assertions."""

    usage: EnvironmentUsage

    def decide(self, task: Task, turns: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
        """Give one row ``{expectedOutcome, reasoning, metExpectation}`` for each assertion of the task."""
        ...


def covered_results(answer: object, assertions: Sequence[str]) -> list[dict[str, Any]]:
    """Give the rows of a judge's answer, which must decide exactly the assertions that were asked.

    Args:
        answer: JSON text, or the parsed value.
        assertions: what was asked; repetitions count.

    Raises:
        JudgeError: no JSON object with ``results``; another number of rows; a decision that is no boolean, a
            reasoning that is no text; or other assertions than those asked.
    """
    value = answer
    if isinstance(answer, str):
        try:
            value = strict_loads(answer, max_bytes=_MAX_ANSWER_BYTES)
        except InputError as error:
            raise JudgeError("Retail judge did not answer with JSON") from error
    rows = cast("Mapping[str, Any]", value).get("results") if isinstance(value, Mapping) else None
    if not isinstance(rows, list):
        raise JudgeError("Retail judge answer has no list of results")
    results = cast("list[object]", rows)
    if len(results) != len(assertions):
        raise JudgeError(f"Retail judge decided {len(results)} assertions of {len(assertions)}")
    checked: list[dict[str, Any]] = []
    for row in results:
        if not isinstance(row, Mapping):
            raise JudgeError("Retail judge result must be an object")
        found = cast("Mapping[str, Any]", row)
        if type(found.get("metExpectation")) is not bool or not isinstance(found.get("reasoning"), str):
            raise JudgeError("Retail judge result needs a boolean metExpectation and a text reasoning")
        checked.append({name: found.get(name) for name in ("expectedOutcome", "reasoning", "metExpectation")})
    if any(not isinstance(row["expectedOutcome"], str) for row in checked) or Counter(
        row["expectedOutcome"] for row in checked
    ) != Counter(assertions):
        raise JudgeError("Retail judge decided other assertions than those asked")
    return checked


def answer_by_predicates(predicates: Sequence[Predicate], said_by_agent: Sequence[str]) -> dict[str, Any]:
    """Give the answer of the predicate judge as a model judge would write it."""
    text = "\n".join(said_by_agent)

    def found(pattern: str) -> bool:
        return re.search(pattern, text, re.IGNORECASE) is not None

    rows: list[dict[str, Any]] = []
    for predicate in predicates:
        missing = sum(not found(pattern) for pattern in predicate.require)
        forbidden = sum(found(pattern) for pattern in predicate.forbid)
        rows.append(
            {
                "expectedOutcome": predicate.assertion,
                "reasoning": f"{missing} of {len(predicate.require)} required patterns missing, {forbidden} of "
                f"{len(predicate.forbid)} forbidden ones found.",
                "metExpectation": not missing and not forbidden,
            }
        )
    return {"results": rows}


@dataclass(slots=True)
class PredicateJudge:
    """Decides by the predicates of the task; uses no model."""

    usage: EnvironmentUsage

    def decide(self, task: Task, turns: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
        """Give the rows of the task's predicates.

        Raises:
            JudgeError: the task has assertions and no predicates for them.
        """
        predicates = task.embedded.predicates if task.embedded else []
        said = [text for role, text in turns if role == "assistant"]
        return covered_results(answer_by_predicates(predicates, said), task.assertions)


def judge_messages(task: Task, turns: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Give the chat messages for a judge; the predicates of an own task stand at the end of the first as JSON."""
    system = "\n".join([_TASK, *(f"- {assertion}" for assertion in task.assertions)])
    if task.embedded is not None:
        rows = [predicate.model_dump(mode="json") for predicate in task.embedded.predicates]
        system += f"\n<predicates>\n{json.dumps(rows, ensure_ascii=False, sort_keys=True)}\n</predicates>"
    conversation = json.dumps([[role, text] for role, text in turns], ensure_ascii=False)
    return [{"role": "system", "content": system}, {"role": "user", "content": conversation}]


def predicates_of_prompt(prompt: str) -> list[Predicate]:
    """Give the predicates in a judge's system message; none when it has none."""
    found = _PREDICATES.search(prompt)
    return [Predicate.model_validate(row) for row in json.loads(found[1])] if found else []


@dataclass(slots=True)
class ModelJudge:
    """Asks a model once per conversation.

    Attributes:
        model: who decides.
        max_tokens: longest answer.
        usage: what was used so far.
    """

    model: ChatModel
    max_tokens: int
    usage: EnvironmentUsage

    def decide(self, task: Task, turns: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
        """Give the model's rows.

        Raises:
            JudgeError: no answer in time, an empty one, or one that does not cover the assertions.
        """
        try:
            generation = self.model.generate(
                judge_messages(task, turns), offer_tools=False, max_tokens=self.max_tokens, seconds=math.inf
            )
        except (EpisodeTimeoutError, MalformedGenerationError) as error:  # of the judge, not of the conversation
            raise JudgeError("Retail judge gave no answer") from error
        self.usage.add(input_tokens=generation.input_tokens, output_tokens=generation.output_tokens)
        return covered_results(generation.text, task.assertions)
