"""What an agent may still spend while it plays, and what happens when it would spend more."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workers.official_arenas.protocol import OfficialArenaError

__all__ = ["STOP_MESSAGE", "AgentAllowance", "remaining_budget"]

STOP_MESSAGE = "I have to stop here: the budget of this conversation is used up. ###STOP###"
"""What the agent says in place of a generation that would exceed its budget."""

# Cap of the materialized budget -> field of a usage row.
_CAPS: Mapping[str, str] = {
    "max_model_calls": "model_calls",
    "max_tool_calls": "tool_calls",
    "max_output_tokens": "output_tokens",
    "max_context_tokens": "input_tokens",
}


def remaining_budget(budget: Mapping[str, Any], spent: Mapping[str, Any]) -> dict[str, int | None]:
    """Give what is left for the agent after its intervention, by field of a usage row; None means no cap.

    Raises:
        OfficialArenaError: a cap is no non-negative integer.
    """
    left: dict[str, int | None] = {}
    for cap_name, field in _CAPS.items():
        cap = budget.get(cap_name)
        if cap is None and cap_name == "max_context_tokens":
            left[field] = None
            continue
        if type(cap) is not int or cap < 0:
            raise OfficialArenaError(f"Arm budget {cap_name} must be a non-negative integer")
        left[field] = max(0, cap - spent[field])
    return left


@dataclass(slots=True)
class AgentAllowance:
    """Counts the spending of one playing agent.

    Attributes:
        left: caps by field of a usage row; None means no cap.
        used: spent so far.
        hard_stops: 1 once something was refused or cut off.
        discarded_tool_calls: tool calls that were cut off before execution.
        incomplete_usage: whether a generation came without token counts, so that own counts stand in.
        server_tokens_per_own: the most tokens that the server has counted per token of our counter, at least 1.
    """

    left: Mapping[str, int | None]
    used: dict[str, int]
    hard_stops: int = 0
    discarded_tool_calls: int = 0
    incomplete_usage: bool = False
    server_tokens_per_own: float = 1.0

    @classmethod
    def of(cls, left: Mapping[str, int | None]) -> AgentAllowance:
        """Give an untouched allowance."""
        return cls(dict(left), dict.fromkeys(_CAPS.values(), 0))

    def rest(self, field: str) -> int | None:
        """Give what is left of one cap."""
        cap = self.left[field]
        return None if cap is None else max(0, cap - self.used[field])

    def can_start(self) -> bool:
        """Tell whether one generation is possible at all."""
        return all(self.rest(field) != 0 for field in ("model_calls", "output_tokens", "input_tokens"))

    def expected_input(self, counted: int) -> int:
        """Give how many input tokens the server will count, judged by what it has counted so far."""
        return math.ceil(counted * self.server_tokens_per_own)

    def learn_counter(self, counted: int, given: int) -> None:
        """Compare the server's count of an input with ours, so that the cap is met before it is exceeded."""
        if counted > 0:
            self.server_tokens_per_own = max(self.server_tokens_per_own, given / counted)

    def admit(self, input_tokens: int, configured_max_tokens: int) -> int | None:
        """Give the output limit of the next generation, or None, which is a hard stop, when it may not happen."""
        context, output = self.rest("input_tokens"), self.rest("output_tokens")
        fits = context is None or input_tokens <= context
        if self.rest("model_calls") == 0 or output == 0 or not fits:
            self.hard_stops = 1
            return None
        return configured_max_tokens if output is None else min(configured_max_tokens, output)

    def charge(self, *, input_tokens: int, output_tokens: int, model_calls: int = 1) -> None:
        """Record what a generation used; what it used beyond the caps is recorded too."""
        self.used["model_calls"] += model_calls
        self.used["input_tokens"] += input_tokens
        self.used["output_tokens"] += output_tokens

    def take_tool_calls(self, wanted: int) -> int:
        """Give how many of the wanted tool calls may be executed; the rest is cut off, which is a hard stop."""
        rest = self.rest("tool_calls")
        taken = wanted if rest is None else min(wanted, rest)
        self.used["tool_calls"] += taken
        if taken < wanted:
            self.hard_stops = 1
            self.discarded_tool_calls += wanted - taken
        return taken
