"""What the author of an arena handles: a task, the model under test with its budget, and how an arm ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentinputlab.backends.tokens import count_prompt_tokens
from agentinputlab.contracts.serialization import to_jsonable
from agentinputlab.contracts.state import ContextBlock
from workers.official_arenas._agent_allowance import AgentAllowance
from workers.official_arenas._first_capture import SEED
from workers.official_arenas.protocol import OfficialArenaError

if TYPE_CHECKING:
    from agentinputlab.backends.llm import GenerationResponse, LLMBackend

__all__ = ["BudgetUsedUpError", "BudgetedAgent", "Played", "Task"]


class BudgetUsedUpError(OfficialArenaError):
    """The arm wants more than its budget has left; let it pass, it ends the arm with a score of 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task: what everybody may see of it, and what only the scorer may.

    Attributes:
        task_id: ASCII digits, unique over both splits.
        split: ``train`` (for engineering) or ``test`` (for the figures that are reported).
        query: first message of the user.
        instruction: what the agent is told to do.
        context: further texts that the agent sees.
        tool_names: names of the tools that it may call.
        gold: JSON values that the scorer needs; they stay in the protected record.
    """

    task_id: str
    split: str
    query: str
    instruction: str = ""
    context: tuple[ContextBlock, ...] = ()
    tool_names: tuple[str, ...] = ()
    gold: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Played:
    """How an arm ended.

    Attributes:
        success: whether the task was solved; counts as failure all the same once a limit cut the agent off.
        messages: the trajectory, see `workers.official_arenas._trace_measurement`; private, without times.
        metrics: further numbers of the scorer: exactly those that the arena names in ``extra_metrics``.
        reward: the scorer's own score; 1.0 or 0.0 after ``success`` by default.
        termination: how it ended, in a word (``agent_stop``, ``user_stop``, ``max_steps``).
    """

    success: bool
    messages: Sequence[Mapping[str, Any]]
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    reward: float | None = None
    termination: str = "agent_stop"


class BudgetedAgent:
    """The model under test, with what the arm may still spend.

    Attributes:
        allowance: what is left and what was used; an agent that does its own calls asks it before and tells it after.
        transcript: messages of the last call and its answer; the trace of an arm that a limit ended.
    """

    def __init__(self, model: LLMBackend, allowance: AgentAllowance, *, max_tokens: int, first: str) -> None:
        self.allowance = allowance
        self.transcript: list[Any] = [{"role": "user", "content": first}]
        self._model = model
        self._max_tokens = max_tokens

    def ask(
        self, messages: Sequence[Any], *, system: str | None = None, tools: Sequence[Mapping[str, Any]] = ()
    ) -> GenerationResponse:
        """Ask the model once: temperature 0, seed 17, no longer answer than the budget allows.

        Args:
            messages: the conversation, OpenAI-style mappings or `agentinputlab.contracts.Message`.
            system: the system message.
            tools: OpenAI-style schemas of the tools that are offered.

        Raises:
            BudgetUsedUpError: no call, no output token or not enough input tokens are left; nothing was asked.
        """
        from agentinputlab.backends.llm import GenerationRequest

        seed = SEED if "seed" in self._model.capabilities else None
        asked = GenerationRequest(messages=tuple(messages), system=system, tools=tuple(tools), seed=seed)
        sent = asked.chat_body(self._model.model_id)["messages"]
        self.transcript = list(sent)
        counted = count_prompt_tokens(sent, tools)
        limit = self.allowance.admit(self.allowance.expected_input(counted), self._max_tokens)
        if limit is None:
            raise BudgetUsedUpError("The agent's budget of model calls or tokens is used up")
        self.allowance.charge(input_tokens=0, output_tokens=0)  # a call that fails has been made, too
        answer = self._model.generate(
            GenerationRequest(messages=asked.messages, system=system, tools=asked.tools, seed=seed, max_tokens=limit)
        )
        used = answer.usage
        self.allowance.charge(input_tokens=used.input_tokens, output_tokens=used.output_tokens, model_calls=0)
        self.allowance.learn_counter(counted, used.input_tokens)
        self.transcript.append(to_jsonable(answer.message))
        return answer

    def use_tool(self) -> None:
        """Count one tool call; call it before the tool runs.

        Raises:
            BudgetUsedUpError: no tool call is left; the tool must not run.
        """
        if not self.allowance.take_tool_calls(1):
            raise BudgetUsedUpError("The agent's budget of tool calls is used up")
