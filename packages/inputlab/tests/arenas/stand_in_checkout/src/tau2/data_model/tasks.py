"""Stand-in task types."""

from typing import Any

from pydantic import BaseModel

from tau2.data_model.message import AssistantMessage, UserMessage


class InitialState(BaseModel):
    message_history: list[AssistantMessage | UserMessage] | None = None


class EvaluationCriteria(BaseModel):
    actions: list[dict[str, Any]] = []
    communicate_info: list[str] = []
    nl_assertions: list[str] | None = None
    reward_basis: list[str]


class Task(BaseModel):
    id: str
    user_scenario: dict[str, Any] = {}
    initial_state: InitialState | None = None
    evaluation_criteria: EvaluationCriteria
