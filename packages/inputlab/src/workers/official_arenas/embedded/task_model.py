"""Tasks: what a customer wants, how the scripted customer talks, and what a perfect conversation leaves behind.

The fields are those of tau2-bench's retail tasks of version 1.0.1, so its ``tasks.json`` loads unchanged; ``embedded``
is ours. What decides a score must be as in that version: other versions leave ``reward_basis`` out, or score by parts
that are not known here, and their files are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from workers.official_arenas.embedded.data_model import describe_validation_error
from workers.official_arenas.protocol import OfficialArenaError

__all__ = ["Action", "Approval", "Predicate", "Task", "UserScript", "load_splits", "load_tasks"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Foreign(BaseModel):
    """Parts whose further fields belong to tau2 and are kept as they are."""

    model_config = ConfigDict(extra="allow", frozen=True)


class Action(_Foreign):
    """One call of the gold trajectory."""

    action_id: str
    name: str
    arguments: dict[str, Any]
    requestor: Literal["assistant"] = "assistant"
    info: str | None = None
    compare_args: list[str] | None = None


class Criteria(_Part):
    """What decides the reward; ``reward_basis`` names the parts that are multiplied. Nothing unknown may decide it."""

    actions: list[Action] | None = None
    communicate_info: list[str] | None = None
    nl_assertions: list[str] | None = None
    reward_basis: list[Annotated[str, Field(pattern="^(DB|NL_ASSERTION|COMMUNICATE)$")]] = Field(min_length=1)


class Instructions(_Foreign):
    """What the customer knows and wants, in prose."""

    domain: str
    reason_for_call: str
    known_info: str | None = None
    unknown_info: str | None = None
    task_instructions: str


class Scenario(_Foreign):
    """The customer."""

    persona: str | None = None
    instructions: Instructions | str


class Approval(_Part):
    """A proposal that the customer agrees to: all of ``require`` and none of ``forbid`` occur (regular expressions)."""

    require: list[str] = Field(min_length=1)
    forbid: list[str] = Field(default_factory=list)


class Predicate(_Part):
    """When an assertion is met: regular expressions over everything that the agent said."""

    assertion: str
    require: list[str] = Field(default_factory=list)
    forbid: list[str] = Field(default_factory=list)


class UserScript(_Part):
    """What the scripted customer says.

    Attributes:
        opening: the first message.
        identify_by: what is given when both are asked for.
        answers: text by slot (``email``, ``name_zip``, ``order_id``, ``item``, ``option``, ``payment``, ``reason``,
            ``address``), said only when asked for.
        approvals: proposals that are agreed to.
        correction: said to any other proposal.
    """

    opening: str
    identify_by: Literal["email", "name_zip"]
    answers: dict[str, str]
    approvals: list[Approval]
    correction: str


class Embedded(_Part):
    """What tau2's tasks do not have.

    Attributes:
        user: script of the customer.
        predicates: one per assertion.
        gold_reply: last message of a perfect agent.
    """

    user: UserScript
    predicates: list[Predicate]
    gold_reply: str


class Description(_Foreign):
    """What a task is for, in its author's words."""

    purpose: str | None = None


class Task(_Foreign):
    """One conversation to be had."""

    id: str
    description: Description | None = None
    user_scenario: Scenario
    evaluation_criteria: Criteria
    initial_state: None = None
    embedded: Embedded | None = None

    @property
    def purpose(self) -> str:
        """What the task is for, in its author's words; empty when nothing is said."""
        return (self.description.purpose or "") if self.description else ""

    @property
    def actions(self) -> list[Action]:
        """The gold actions."""
        return self.evaluation_criteria.actions or []

    @property
    def assertions(self) -> list[str]:
        """The assertions that a judge has to decide."""
        return self.evaluation_criteria.nl_assertions or []


_TASKS = TypeAdapter(list[Task])
_SPLITS = TypeAdapter(dict[str, list[str]])


def load_tasks(value: object) -> dict[str, Task]:
    """Give the tasks of a parsed ``tasks.json`` by id, in order.

    Raises:
        OfficialArenaError: a field is missing or wrong (the message names it), an id comes twice, or the predicates
            are not one for each assertion.
    """
    try:
        tasks = _TASKS.validate_python(value)
    except ValidationError as error:
        text = f"Retail tasks are invalid at {describe_validation_error(error)}"
        if "evaluation_criteria" in error.errors(include_input=False, include_url=False)[0]["loc"]:
            text += "; what decides a score must be as in tau2 1.0.1, where every task names its reward_basis"
        raise OfficialArenaError(text) from error
    by_id = {task.id: task for task in tasks}
    if len(by_id) != len(tasks):
        raise OfficialArenaError("Retail tasks have an id twice")
    for task in tasks:
        if task.embedded and sorted(row.assertion for row in task.embedded.predicates) != sorted(task.assertions):
            raise OfficialArenaError(f"Retail task {task.id} must have one predicate for each assertion")
    return by_id


def load_splits(value: object, tasks: Mapping[str, Task]) -> dict[str, tuple[str, ...]]:
    """Give the task ids per split.

    Raises:
        OfficialArenaError: not an object of lists, no ``train`` or ``test``, they overlap, or an id has no task.
    """
    try:
        splits = _SPLITS.validate_python(value)
    except ValidationError as error:
        raise OfficialArenaError(f"Retail splits are invalid at {describe_validation_error(error)}") from error
    if not {"train", "test"} <= splits.keys():
        raise OfficialArenaError("Retail splits must have train and test")
    if set(splits["train"]) & set(splits["test"]):
        raise OfficialArenaError("Retail splits train and test must be disjoint")
    if any(task_id not in tasks for ids in splits.values() for task_id in ids):
        raise OfficialArenaError("Retail splits name a task that does not exist")
    return {name: tuple(ids) for name, ids in splits.items()}
