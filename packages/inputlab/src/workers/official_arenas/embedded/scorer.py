"""The score of a conversation: the database it left, what it told, and the assertions; the parts are multiplied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workers.official_arenas.embedded.data_model import Database, RetailData
from workers.official_arenas.embedded.judge import Judge
from workers.official_arenas.embedded.task_model import Task
from workers.official_arenas.embedded.tools import TOOL_NAMES, WRITE_TOOLS, RetailTools
from workers.official_arenas.protocol import OfficialArenaError

__all__ = ["SCORED_TERMINATIONS", "SCORER_ID", "Score", "gold_database_hash", "score_conversation", "spoken_turns"]

SCORER_ID = "embedded.retail.scorer.v1"
SCORED_TERMINATIONS = frozenset({"user_stop", "agent_stop"})
"""A conversation that ended in another way has reward 0."""

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Score:
    """What a conversation earned.

    Attributes:
        reward: product of the parts.
        parts: reward by part of the task's basis; empty when the conversation did not end by itself.
        database_hash: hash of the database after the conversation's writes, or None.
        gold_database_hash: hash after the gold actions, or None.
        assertions: rows of the judge.
    """

    reward: float
    parts: Mapping[str, float]
    database_hash: str | None = None
    gold_database_hash: str | None = None
    assertions: Sequence[Mapping[str, Any]] = ()

    def as_dict(self) -> dict[str, Any]:
        """Give it as JSON values."""
        return {
            "reward": self.reward,
            "parts": dict(self.parts),
            "database_hash": self.database_hash,
            "gold_database_hash": self.gold_database_hash,
            "assertions": [dict(row) for row in self.assertions],
        }


def spoken_turns(messages: Messages) -> list[tuple[str, str]]:
    """Give role and text of everything that customer and agent said to each other."""
    return [
        (row["role"], row["content"])
        for row in messages
        if row["role"] in {"assistant", "user"} and row["content"] and not row["tool_calls"]
    ]


def gold_database_hash(data: RetailData, task: Task) -> str:
    """Give the hash of the database after the gold actions; refused calls change nothing."""
    database = Database(data)
    tools = RetailTools(database)
    for action in task.actions:
        tools.call(action.name, action.arguments)
    return database.content_hash()


def _database_hash(data: RetailData, messages: Messages) -> str:
    """Replay the writes of a conversation on a fresh database; every answer must be the recorded one."""
    database = Database(data)
    tools = RetailTools(database)
    recorded = {row["tool_call_id"]: row for row in messages if row["role"] == "tool"}
    for row in messages:
        for call in row["tool_calls"] or ():
            if call["name"] not in WRITE_TOOLS or call["name"] not in TOOL_NAMES or call["id"] not in recorded:
                continue
            result = tools.call(call["name"], call["arguments"])
            if result.content != recorded[call["id"]]["content"]:
                raise OfficialArenaError("Retail replay of a write call gave another answer than the conversation")
    return database.content_hash()


def score_conversation(
    data: RetailData,
    task: Task,
    messages: Messages,
    *,
    termination: str,
    judge: Judge,
    gold_hash: str,
) -> Score:
    """Score one conversation.

    Args:
        data: the shop it started from.
        task: its task.
        messages: its trace messages.
        termination: how it ended.
        judge: who decides assertions; asked once, if there are any.
        gold_hash: `gold_database_hash` of the task.

    Raises:
        JudgeError: the judge's answer does not cover the assertions.
        OfficialArenaError: the basis has an unknown part, or the replay differs from the record.
    """
    if termination not in SCORED_TERMINATIONS:
        return Score(0.0, {})
    turns = spoken_turns(messages)
    database_hash = _database_hash(data, messages)
    parts: dict[str, float] = {}
    rows: list[dict[str, Any]] = []
    for part in task.evaluation_criteria.reward_basis:
        if part == "DB":
            parts[part] = float(database_hash == gold_hash)
        elif part == "NL_ASSERTION":
            rows = judge.decide(task, turns) if task.assertions else []
            parts[part] = float(all(row["metExpectation"] for row in rows))
        elif part == "COMMUNICATE":
            parts[part] = float(_communicated(task.evaluation_criteria.communicate_info or [], turns))
        else:
            raise OfficialArenaError("Retail reward basis must consist of DB, NL_ASSERTION and COMMUNICATE")
    reward = 1.0
    for value in parts.values():
        reward *= value
    return Score(reward, parts, database_hash, gold_hash, rows)


def _communicated(info: Sequence[str], turns: Sequence[tuple[str, str]]) -> bool:
    said = "\n".join(text for role, text in turns if role == "assistant").casefold().replace(",", "")
    return all(piece.casefold().replace(",", "") in said for piece in info)
