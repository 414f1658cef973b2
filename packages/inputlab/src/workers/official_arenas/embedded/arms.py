"""One arm of a pair: what it was given, how it is played, and what it leaves."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentinputlab.backends.tokens import TOKEN_COUNTER
from workers.official_arenas._agent_allowance import AgentAllowance
from workers.official_arenas._first_capture import create_receipt
from workers.official_arenas.embedded.arena import load_arena
from workers.official_arenas.embedded.chat_models import EndpointModel, ScriptedAgent
from workers.official_arenas.embedded.config import SEED, environment_model_policy
from workers.official_arenas.embedded.customers import (
    Customer,
    EnvironmentUsage,
    ModelCustomer,
    ScriptedCustomer,
    user_prompt,
)
from workers.official_arenas.embedded.data_model import Database
from workers.official_arenas.embedded.guidance import render_system_message
from workers.official_arenas.embedded.judge import Judge, ModelJudge, PredicateJudge
from workers.official_arenas.embedded.orchestrator import Conversation, Limits
from workers.official_arenas.embedded.scorer import Score, score_conversation
from workers.official_arenas.embedded.task_model import Task
from workers.official_arenas.embedded.tools import RetailTools
from workers.official_arenas.protocol import (
    OfficialArenaError,
    ProviderArmResult,
    content_hash,
    merge_usage,
)

__all__ = ["Arm", "customer_of", "judge_of", "metrics_of_trace"]

_SCORE = "embedded_scorer"
_ZERO = "predeclared_terminal_zero_not_fabricated_official_reward"
_UNSCORED = frozenset(
    {
        "timeout",
        "max_steps",
        "too_many_errors",
        "agent_error",
        "user_error",
        "infrastructure_error",
        "context_window_exceeded",
        "unexpected_error",
    }
)


class Arm:
    """One arm while it is played."""

    def __init__(
        self,
        config: Mapping[str, Any],
        protected: Mapping[str, Any],
        state: Mapping[str, Any],
        allowance: AgentAllowance,
        work_dir: Path,
        durable: bool,
    ) -> None:
        self._config = config
        self._state = state
        self._work_dir = work_dir
        self._durable = durable
        self.allowance = allowance
        self.messages = [dict(row) for row in protected["initial_message_history"]]
        self._arena = load_arena(config["data_dir"])
        self._task = self._arena.tasks[protected["task_id"]]
        self._customer = customer_of(config, self._task)
        self._judge = judge_of(config)
        self._is_priced = config["agent"]["backend"] == "scripted"
        self._instance = secrets.token_hex(32)

    def write(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a private file that must not exist yet."""
        create_receipt(self._work_dir / name, value, durable=self._durable)

    def start(self, role: str) -> None:
        """Note the attempt before anything is spent."""
        self.write(
            "attempt-start.json",
            {
                "task_id": self._task.id,
                "role": role,
                "seed": SEED,
                "attempt": 1,
                "config_binding": content_hash(dict(self._config)),
                "runtime_instance_id": self._instance,
                "retry_permitted": False,
            },
        )

    def play(self) -> ProviderArmResult:
        """Play the conversation to its end and score it.

        Raises:
            MalformedGenerationError: agent or customer generated no usable message.
            EpisodeTimeoutError: the time of the config is over.
            OfficialArenaError: a model endpoint or a judge gave no usable answer.
        """
        clarification = self._clarification()
        calls = self.allowance.left["model_calls"] or 0
        agent = self._config["agent"]
        max_tokens = self._config["budget_override"]["max_output_tokens_per_call"]
        if agent["backend"] == "openai":
            max_tokens = min(max_tokens, agent["args"]["max_tokens"])
        limits = Limits(
            max_steps=min(self._config["max_steps"], 2 * (calls + (clarification is not None))),
            max_errors=self._config["max_errors"],
            max_tokens=max_tokens,
            deadline=time.monotonic() + self._config["timeout"],
        )
        conversation = Conversation(
            system=render_system_message(
                self._state["instruction"], tuple(block["text"] for block in self._state["context"])
            ),
            query=self._state["query"] or None,
            agent=ScriptedAgent() if self._is_priced else EndpointModel(agent["model"], agent["args"]),
            customer=self._customer,
            tools=RetailTools(Database(self._arena.data)),
            allowance=self.allowance,
            limits=limits,
            messages=self.messages,
        )
        termination = conversation.play(clarification=clarification)
        score = score_conversation(
            self._arena.data,
            self._task,
            self.messages,
            termination=termination,
            judge=self._judge,
            gold_hash=self._arena.gold_hash(self._task.id),
        )
        return self._scored(termination, score)

    def _clarification(self) -> str | None:
        question = self._state["metadata"].get("clarification_request")
        if question is None:
            return None
        if not isinstance(question, str) or not question.strip():
            raise OfficialArenaError("Retail clarification request must be non-blank text")
        return question

    def _scored(self, termination: str, score: Score) -> ProviderArmResult:
        metrics = _metrics(score.reward, termination, self.allowance.hard_stops)
        trace = self._trace(termination, _SCORE, self.allowance.hard_stops)
        trace["reward_info"] = score.as_dict()
        self.write("simulation.json", {**trace, **self._evidence(metrics)})
        return ProviderArmResult(metrics, trace, self._usage(), self._instance)

    def zero(self, reason: str) -> ProviderArmResult:
        """Give the result of an arm that ended in a way that was declared a zero beforehand."""
        metrics = _metrics(0.0, reason, 1)
        trace = self._trace(reason, _ZERO, 1)
        self.write("terminal-zero.json", {**trace, **self._evidence(metrics), "reason": reason})
        return ProviderArmResult(metrics, trace, self._usage(), self._instance)

    def _trace(self, termination: str, provenance: str, hard_stops: int) -> dict[str, Any]:
        """What was played and how it ended; the same whoever generated the same messages."""
        return {
            "messages": self.messages,
            "termination": termination,
            "hard_stops": hard_stops,
            "discarded_tool_calls": self.allowance.discarded_tool_calls,
            "score_provenance": provenance,
            "arena": self._arena.label,
        }

    def _evidence(self, metrics: Mapping[str, float]) -> dict[str, Any]:
        """What belongs to an arm beside its trace."""
        environment = EnvironmentUsage()
        for part in (self._customer.usage, self._judge.usage):
            environment.model_calls += part.model_calls
            environment.input_tokens += part.input_tokens
            environment.output_tokens += part.output_tokens
        return {
            "task_id": self._task.id,
            "metrics": dict(metrics),
            "usage": self._usage(),
            "environment_usage": environment.as_dict(),
            "environment_model_policy": environment_model_policy(self._config),
            "token_counter": TOKEN_COUNTER if self._is_priced else f"endpoint:{self._config['agent']['model']}",
            "pricing": "scripted_free" if self._is_priced else "local_unpriced_not_free",
        }

    def _usage(self) -> dict[str, Any]:
        calls = self.allowance.used["model_calls"]
        return merge_usage({**self.allowance.used, "unpriced_model_calls": 0 if self._is_priced else calls})


def _metrics(reward: float, termination: str, hard_stops: int) -> dict[str, float]:
    stopped = hard_stops > 0 or termination in _UNSCORED
    return {
        "official_reward": reward,
        "terminal_success": 0.0 if stopped else reward,
        "cost": 0.0,
        "adapter_hard_stops": float(hard_stops),
    }


def metrics_of_trace(config: Mapping[str, Any], task_id: str, trace: Mapping[str, Any]) -> dict[str, float] | None:
    """Give the metrics that follow from the trace of an arm, or None when a model or other data had a part in them.

    Raises:
        OfficialArenaError: the trace does not support the score that it holds.
    """
    if config["data_dir"] is not None or config["judge"]["kind"] == "openai":
        return None
    termination, hard_stops = trace["termination"], trace["hard_stops"]
    if trace["score_provenance"] == _ZERO:
        return _metrics(0.0, termination, hard_stops)
    arena = load_arena(None)
    score = score_conversation(
        arena.data,
        arena.tasks[task_id],
        trace["messages"],
        termination=termination,
        judge=judge_of(config),
        gold_hash=arena.gold_hash(task_id),
    )
    if trace["reward_info"] != score.as_dict():
        raise OfficialArenaError("Retail trace does not support the score that it holds")
    return _metrics(score.reward, termination, hard_stops)


def customer_of(config: Mapping[str, Any], task: Task) -> Customer:
    """Give the customer of a task, scripted or a model, as the config says.

    Raises:
        OfficialArenaError: the task has no script for a scripted one.
    """
    part = config["user"]
    if part["kind"] == "openai":
        model = EndpointModel(part["model"], part["args"])
        return ModelCustomer(model, user_prompt(task), part["args"]["max_tokens"])
    if task.embedded is None:
        raise OfficialArenaError("Retail task has no script; it needs a user of kind openai")
    return ScriptedCustomer(task.embedded.user)


def judge_of(config: Mapping[str, Any]) -> Judge:
    """Give the judge that the config names."""
    part = config["judge"]
    if part["kind"] == "openai":
        model = EndpointModel(part["model"], part["args"], response_format={"type": "json_object"})
        return ModelJudge(model, part["args"]["max_tokens"], EnvironmentUsage())
    return PredicateJudge(EnvironmentUsage())
