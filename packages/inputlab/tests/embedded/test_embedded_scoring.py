"""Judge, guard and scorer: gold conversations earn everything, and nothing else does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from workers.official_arenas.embedded.arena import package_arena
from workers.official_arenas.embedded.customers import EnvironmentUsage
from workers.official_arenas.embedded.data_model import Database
from workers.official_arenas.embedded.errors import JudgeError
from workers.official_arenas.embedded.judge import PredicateJudge, covered_results
from workers.official_arenas.embedded.orchestrator import trace_message
from workers.official_arenas.embedded.scorer import Score, score_conversation
from workers.official_arenas.embedded.task_model import Task
from workers.official_arenas.embedded.tools import RetailTools
from workers.official_arenas.protocol import OfficialArenaError

ARENA = package_arena()
TASKS = list(ARENA.tasks.values())


def gold_messages(task: Task, *, reply: str | None = None) -> list[dict[str, Any]]:
    """The conversation of an agent that knows the task: one gold call a turn, then its last message."""
    tools = RetailTools(Database(ARENA.data))
    messages = [trace_message("assistant", "Hi!", 0), trace_message("user", "Hello", 1)]
    for number, action in enumerate(task.actions):
        call = {"id": f"call_{number}", "name": action.name, "arguments": action.arguments}
        result = tools.call(action.name, action.arguments)
        assert not result.error, f"gold action {action.action_id} is refused: {result.content}"
        messages.append(trace_message("assistant", "", len(messages), tool_calls=[call]))
        messages.append(
            trace_message("tool", result.content, len(messages), tool_call_id=call["id"], error=result.error)
        )
    assert task.embedded is not None
    messages.append(trace_message("assistant", task.embedded.gold_reply if reply is None else reply, len(messages)))
    return messages


def score(task: Task, messages: list[dict[str, Any]], termination: str = "user_stop") -> Score:
    return score_conversation(
        ARENA.data,
        task,
        messages,
        termination=termination,
        judge=PredicateJudge(EnvironmentUsage()),
        gold_hash=ARENA.gold_hash(task.id),
    )


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_gold_actions_solve_the_task_within_the_budget(task: Task) -> None:
    messages = gold_messages(task)
    assert score(task, messages).reward == 1.0
    assert len(task.actions) <= 8
    assert sum(row["role"] == "assistant" for row in messages) - 1 <= 8


@pytest.mark.parametrize("task", [task for task in TASKS if task.assertions], ids=lambda task: task.id)
def test_doing_right_and_saying_nothing_is_not_enough(task: Task) -> None:
    silent = score(task, gold_messages(task, reply="Hm."))
    assert silent.parts["DB"] == 1.0
    assert silent.reward == 0.0


@pytest.mark.parametrize("termination", ["max_steps", "too_many_errors", "timeout", "episode_timeout"])
def test_a_conversation_that_was_cut_off_earns_nothing(termination: str) -> None:
    assert score(TASKS[0], gold_messages(TASKS[0]), termination).reward == 0.0
    assert score(TASKS[0], gold_messages(TASKS[0]), "agent_stop").reward == 1.0


def test_a_missing_write_and_a_surplus_write_are_seen() -> None:
    task = ARENA.tasks["0"]
    messages = gold_messages(task)
    without = [row for row in messages if not (row["tool_calls"] and row["tool_calls"][0]["name"].startswith("cancel"))]
    assert score(task, without).reward == 0.0
    assert score(ARENA.tasks["4"], gold_messages(task)).parts["DB"] == 0.0


def test_a_record_that_no_replay_gives_is_refused() -> None:
    messages = gold_messages(ARENA.tasks["0"])
    written = next(row for row in reversed(messages) if row["role"] == "tool")
    written["content"] = written["content"].replace("cancelled", "pending")
    with pytest.raises(OfficialArenaError, match="replay"):
        score(ARENA.tasks["0"], messages)


def test_refused_and_unknown_calls_in_a_record_change_nothing() -> None:
    task = ARENA.tasks["0"]
    messages = gold_messages(task)
    extra = {"id": "call_x", "name": "no_such_tool", "arguments": {}}
    messages.insert(2, trace_message("assistant", "", 2, tool_calls=[extra]))
    messages.insert(3, trace_message("tool", "Error: Tool not found", 3, tool_call_id="call_x", error=True))
    assert score(task, messages).reward == 1.0


def test_an_unknown_part_of_the_basis_is_refused() -> None:
    task = ARENA.tasks["0"]
    criteria = task.evaluation_criteria.model_copy(update={"reward_basis": ["DB", "STYLE"]})
    with pytest.raises(OfficialArenaError, match="basis"):
        score(task.model_copy(update={"evaluation_criteria": criteria}), gold_messages(task))


# --- the guard ----------------------------------------------------------------------------------------------

ROW = {"expectedOutcome": "a", "reasoning": "because", "metExpectation": True}


def test_a_covering_answer_passes_as_text_and_as_value() -> None:
    rows = [ROW, {**ROW, "expectedOutcome": "b", "metExpectation": False}]
    assert covered_results({"results": rows}, ["b", "a"]) == rows
    assert covered_results(json.dumps({"results": rows}), ["a", "b"]) == rows


@pytest.mark.parametrize(
    "answer",
    [
        "not JSON",
        "[]",
        {},
        {"results": []},
        {"results": [ROW, ROW]},
        {"results": ["a"]},
        {"results": [{**ROW, "metExpectation": "true"}]},
        {"results": [{**ROW, "metExpectation": 1}]},
        {"results": [{**ROW, "reasoning": None}]},
        {"results": [{**ROW, "expectedOutcome": "b"}]},
        {"results": [{**ROW, "expectedOutcome": ["a"]}]},
        '{"results": [], "results": []}',
    ],
)
def test_an_answer_that_does_not_cover_the_assertions_is_refused(answer: object) -> None:
    with pytest.raises(JudgeError):
        covered_results(answer, ["a"])


def test_a_task_without_predicates_cannot_be_judged_by_them() -> None:
    task = ARENA.tasks["4"].model_copy(update={"embedded": None})
    with pytest.raises(JudgeError):
        PredicateJudge(EnvironmentUsage()).decide(task, [("assistant", "I cannot.")])
