"""Unit conversions: ten tasks, one tool, a scorer, a scripted agent, and an intervention that helps it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import ClassVar

from agentinputlab.backends.llm import GenerationRequest
from agentinputlab.contracts import (
    ExecutionTrace,
    FrozenAgentState,
    InputPatch,
    InterventionContext,
    PatchOp,
    PatchOperation,
    ProfileKind,
    SemanticFamily,
)
from workers.official_arenas.own_arena import BudgetedAgent, OwnArena, Played, Task

INSTRUCTION = (
    "Convert the amount. To learn how many of a smaller unit make one of the next larger, write LOOK UP and the larger "
    "unit, nothing else. When you know the result, write it as the last number of your answer."
)
FACTORS_FIRST = "First name every factor on the way from unit to unit, then multiply."
FACTORS = {
    "weeks": (7, "days"),
    "days": (24, "hours"),
    "hours": (60, "minutes"),
    "minutes": (60, "seconds"),
    "miles": (1760, "yards"),
    "yards": (3, "feet"),
    "feet": (12, "inches"),
}
MOST_TURNS = 8


class UnitArena(OwnArena):
    """Ten conversions; solved when the last number of the answer is the amount in the wanted unit."""

    benchmark_id = "example.units"
    scorer_id = "example.units.last_number.v1"
    other_files = ("tasks.json",)
    extra_metrics = ("look_ups",)

    def tasks(self) -> list[Task]:
        """Give the tasks of the file, in its order."""
        rows = json.loads(Path(__file__).with_name("tasks.json").read_text(encoding="utf-8"))
        return [
            Task(
                task_id=row["id"],
                split=row["split"],
                query=f"How many {row['to']} are {row['amount']} {row['from']}?",
                instruction=INSTRUCTION,
                gold={"answer": row["answer"]},
            )
            for row in rows
        ]

    def play(self, task: Task, state: FrozenAgentState, agent: BudgetedAgent) -> Played:
        """Ask the agent, look up for it what it wants to know, and read its answer."""
        system = "\n\n".join([state.instruction, *(block.text for block in state.context)])
        messages = [{"role": "user", "content": state.query}]
        look_ups = 0
        for _ in range(MOST_TURNS):
            text = agent.ask(messages, system=system).text
            messages.append({"role": "assistant", "content": text})
            wanted = re.fullmatch(r"LOOK UP (\w+)", text.strip())
            if wanted is None:
                return Played(last_number(text) == task.gold["answer"], messages, {"look_ups": float(look_ups)})
            agent.use_tool()
            look_ups += 1
            messages.append({"role": "user", "content": look_up(wanted[1])})
        return Played(False, messages, {"look_ups": float(look_ups)}, termination="max_steps")

    def scripted_agent(self, request: GenerationRequest) -> str:
        """Look up one factor and multiply; every factor on the way only when the instruction asks for care."""
        system, messages = request.system or "", request.messages
        question = re.search(r"How many (\w+) are (\d+) (\w+)\?", messages[0]["content"])
        if question is None:
            return "I do not understand the question."
        target, amount, unit = question[1], int(question[2]), question[3]
        known = [found for message in messages[1:] if (found := _factor(message["content"]))]
        for factor, smaller in known:
            amount, unit = amount * factor, smaller
        is_careful = re.search(r"\bmake a plan\b|\bevery factor\b", system, re.IGNORECASE) is not None
        if not known or (is_careful and unit != target):
            return f"LOOK UP {unit}"
        return f"That is {amount}."


def look_up(unit: str) -> str:
    """Answer the agent's question for a factor."""
    if unit not in FACTORS:
        return f"There is nothing smaller in the table than {unit}."
    factor, smaller = FACTORS[unit]
    return f"1 of {unit} is {factor} {smaller}."


def last_number(text: str) -> float | None:
    """Give the last number in a text."""
    numbers = re.findall(r"\d[\d,]*(?:\.\d+)?", text)
    return float(numbers[-1].replace(",", "")) if numbers else None


def _factor(text: str) -> tuple[int, str] | None:
    found = re.fullmatch(r"1 of \w+ is (\d+) (\w+)\.", text)
    return (int(found[1]), found[2]) if found else None


class FactorsFirst:
    """Asks for all factors before the multiplication."""

    method_id: ClassVar[str] = "example.factors_first"
    release_id: ClassVar[str] = "example.factors_first"
    family: ClassVar[SemanticFamily] = SemanticFamily.DECOMPOSE
    profile_kind: ClassVar[ProfileKind] = ProfileKind.CONTROLLED_ADAPTER
    implementation_identity: ClassVar[str] = "example.factors_first@1"

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that appends the request."""
        return InputPatch(
            method_id=self.method_id,
            release_id=self.release_id,
            source_state_hash=state.state_hash,
            operations=(PatchOperation(PatchOp.APPEND_INSTRUCTION, FACTORS_FIRST),),
            trace=ExecutionTrace(method_id=self.method_id, release_id=self.release_id),
            implementation_identity=self.implementation_identity,
            profile_kind=self.profile_kind,
        )


def factory() -> UnitArena:
    """Give the arena."""
    return UnitArena()
