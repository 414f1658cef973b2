"""The other side of the conversation: the scripted customer, or a model that plays one from the same prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from agentinputlab.backends.tokens import count_tokens
from workers.official_arenas.embedded import user
from workers.official_arenas.embedded.chat_models import ChatModel
from workers.official_arenas.embedded.errors import MalformedGenerationError
from workers.official_arenas.embedded.task_model import Task, UserScript

__all__ = [
    "USER_SIGNATURE",
    "Customer",
    "EnvironmentUsage",
    "ModelCustomer",
    "ScriptedCustomer",
    "script_of_prompt",
    "user_prompt",
]

USER_SIGNATURE = "# User Simulation Guidelines"
"""How the system message of every simulated customer begins."""

_GUIDELINES = f"""{USER_SIGNATURE}
You play a customer who writes to the service of a shop. Write one short message at a time, in your own words.
Follow the scenario below. Do not invent anything that it does not say, and do not tell everything at once: wait until
you are asked. When your wish is settled or refused, write {user.STOP}. When you are handed over to a human, write
{user.TRANSFER}. When the scenario does not say how to go on, write {user.OUT_OF_SCOPE}."""
_SCRIPT = re.compile(r"<script>\n(.*)\n</script>", re.DOTALL)


@dataclass(slots=True)
class EnvironmentUsage:
    """What customer and judge used; it is outside of the agent's budget.

    Attributes:
        model_calls: generations.
        input_tokens: tokens read.
        output_tokens: tokens written.
    """

    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def add(self, *, input_tokens: int, output_tokens: int) -> None:
        """Record one generation."""
        self.model_calls += 1
        self.input_tokens += input_tokens
        self.output_tokens += output_tokens

    def as_dict(self) -> dict[str, Any]:
        """Give it as JSON values."""
        return {
            "model_calls": self.model_calls,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "token_usage_incomplete": False,
            "outside_agent_budget": True,
        }


class Customer(Protocol):
    """Whoever wants something from the agent."""

    usage: EnvironmentUsage

    def reply(self, turns: Sequence[tuple[str, str]], *, seconds: float) -> str:
        """Give the customer's next message after ``(role, text)`` turns; never an empty one."""
        ...


def user_prompt(task: Task) -> str:
    """Give the system message of a customer; the script of an own task stands at its end as JSON."""
    scenario = task.user_scenario
    instructions = scenario.instructions
    parts = [_GUIDELINES, "<scenario>"]
    if scenario.persona:
        parts.append(f"Persona: {scenario.persona}")
    if isinstance(instructions, str):
        parts.append(instructions)
    else:
        rows = {
            "Why you write": instructions.reason_for_call,
            "What you know": instructions.known_info,
            "What you do not know": instructions.unknown_info,
            "How you behave": instructions.task_instructions,
        }
        parts += [f"{name}: {text}" for name, text in rows.items() if text]
    parts.append("</scenario>")
    if task.embedded is not None:
        script = json.dumps(task.embedded.user.model_dump(mode="json"), ensure_ascii=False, sort_keys=True)
        parts += ["<script>", script, "</script>"]
    return "\n".join(parts)


def script_of_prompt(prompt: str) -> UserScript | None:
    """Give the script in a customer's system message, or None when it has none."""
    found = _SCRIPT.search(prompt)
    return UserScript.model_validate_json(found[1]) if found else None


@dataclass(slots=True)
class ScriptedCustomer:
    """`user.reply` in this process; every message counts as one generation."""

    script: UserScript
    usage: EnvironmentUsage = field(default_factory=EnvironmentUsage)

    def reply(self, turns: Sequence[tuple[str, str]], *, seconds: float) -> str:
        """Give the next message of the script."""
        text = user.reply(self.script, turns)
        heard = sum(count_tokens(said) for _, said in turns)
        self.usage.add(input_tokens=heard, output_tokens=count_tokens(text))
        return text


@dataclass(slots=True)
class ModelCustomer:
    """A model that plays the customer.

    Attributes:
        model: who generates.
        prompt: its system message.
        max_tokens: longest message.
        usage: what was used so far.
    """

    model: ChatModel
    prompt: str
    max_tokens: int
    usage: EnvironmentUsage = field(default_factory=EnvironmentUsage)

    def reply(self, turns: Sequence[tuple[str, str]], *, seconds: float) -> str:
        """Give the model's next message.

        Raises:
            MalformedGenerationError: the message is empty.
        """
        own_view = {"assistant": "user", "user": "assistant"}
        messages: list[Mapping[str, Any]] = [{"role": "system", "content": self.prompt}]
        messages += [{"role": own_view[role], "content": text} for role, text in turns]
        generation = self.model.generate(messages, offer_tools=False, max_tokens=self.max_tokens, seconds=seconds)
        self.usage.add(input_tokens=generation.input_tokens, output_tokens=generation.output_tokens)
        if not generation.text.strip():
            raise MalformedGenerationError("Retail customer generated an empty message")
        return generation.text
