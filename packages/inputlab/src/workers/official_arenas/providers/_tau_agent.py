"""The native agent of tau2 under a budget, with the materialized input in its prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentinputlab.backends.answered import note_answer
from agentinputlab.backends.tokens import count_tokens
from workers.official_arenas._agent_allowance import STOP_MESSAGE, AgentAllowance
from workers.official_arenas.protocol import canonical_json, content_hash
from workers.official_arenas.providers import tau3
from workers.official_arenas.providers._live_history import LiveHistoryTransform, transform_history
from workers.official_arenas.providers.tau3 import MalformedTrajectoryError, Tau2

__all__ = ["ArmPlay", "budgeted_agent", "guarded_user", "visible_input_section"]


def _count(value: object) -> int:
    """Tokens of a JSON value's text, by the counter that judges an input before it is sent."""
    return count_tokens(canonical_json(value))


def visible_input_section(state: Mapping[str, Any]) -> str:
    """Give what is added to the native system prompt: the materialized instruction and all context texts."""
    texts = [str(state.get("instruction") or ""), *(str(block["text"]) for block in state.get("context") or ())]
    body = "\n\n".join(text for text in texts if text.strip())
    return f"<optimizer_visible_input>\n{body}\n</optimizer_visible_input>"


class ArmPlay:
    """What one arm has to say and may spend, and what happened meanwhile."""

    def __init__(
        self, state: Mapping[str, Any], allowance: AgentAllowance, *, hook: LiveHistoryTransform | None = None
    ) -> None:
        self.state = state
        self.allowance = allowance
        self.hook = hook
        request = (state.get("metadata") or {}).get("clarification_request")
        self.clarification: str | None = _question(request)
        self.pending_clarification = self.clarification is not None
        self.replace_first_user = self.clarification is None
        self.hook_receipts: list[dict[str, Any]] = []
        self.environment_usage: list[Mapping[str, Any] | None] = []
        self.trajectory: list[dict[str, Any]] = []


def _question(request: object) -> str | None:
    if request is None:
        return None
    if isinstance(request, str):
        return request
    if isinstance(request, Mapping) and isinstance(request.get("question"), str):
        return str(request["question"])
    return json.dumps(request, sort_keys=True, ensure_ascii=False)


def _tokens(usage: object, name: str) -> int | None:
    value = usage.get(name) if isinstance(usage, Mapping) else None
    return value if type(value) is int and value >= 0 else None


def budgeted_agent(tau2: Tau2, environment: Any, config: Mapping[str, Any], play: ArmPlay) -> Any:
    """Give a native agent that keeps to the allowance of ``play``.

    Before each generation the input is counted; one beyond the caps becomes `STOP_MESSAGE`. Tool calls beyond the cap
    are cut off before they reach the environment.
    """
    base = tau2.agent_class
    allowance = play.allowance

    class BudgetedAgent(base):
        @property
        def system_prompt(self) -> str:
            return f"{super().system_prompt}\n\n{visible_input_section(play.state)}"

        @classmethod
        def is_stop(cls, message: Any) -> bool:
            return getattr(message, "content", None) == STOP_MESSAGE or bool(super().is_stop(message))

        def generate_next_message(self, message: Any, state: Any) -> tuple[Any, Any]:
            if play.replace_first_user and getattr(message, "role", None) == "user":
                play.replace_first_user = False
                message = message.model_copy(update={"content": play.state["query"]})
            if play.pending_clarification:
                play.pending_clarification = False
                return self._say(play.clarification or "", message, state)
            shown = self._shown(message, state)
            counted = _count([_hook_message(item) for item in shown]) + tools_tokens
            limit = allowance.admit(allowance.expected_input(counted), configured)
            if limit is None:
                return self._say(STOP_MESSAGE, message, state)
            self.llm_args = {**arguments, "max_tokens": limit}
            try:
                answer = self._generate(shown)
            except Exception:
                # The call was made; what it used is unknown and must not look like nothing.
                allowance.incomplete_usage = True
                allowance.charge(input_tokens=counted, output_tokens=0)
                raise
            note_answer(config["llm_agent"], getattr(answer, "raw_data", None))
            given, produced = (_tokens(answer.usage, name) for name in ("prompt_tokens", "completion_tokens"))
            allowance.incomplete_usage = allowance.incomplete_usage or given is None or produced is None
            if given is not None:
                allowance.learn_counter(counted, given)
            allowance.charge(
                input_tokens=counted if given is None else given,
                output_tokens=_count(_hook_message(answer)) if produced is None else produced,
            )
            calls = list(answer.tool_calls or ())
            kept = calls[: allowance.take_tool_calls(len(calls))]
            if len(kept) < len(calls):
                answer.tool_calls = kept or None
                if not kept:
                    answer.content = STOP_MESSAGE
            self._remember(message, state)
            state.messages.append(answer)
            return answer, state

        def _remember(self, message: Any, state: Any) -> None:
            state.messages.extend(getattr(message, "tool_messages", None) or [message])

        def _say(self, text: str, message: Any, state: Any) -> tuple[Any, Any]:
            self._remember(message, state)
            answer = tau2.assistant_message(role="assistant", content=text, cost=0.0)
            state.messages.append(answer)
            return answer, state

        def _shown(self, message: Any, state: Any) -> list[Any]:
            incoming = getattr(message, "tool_messages", None) or [message]
            full = [*state.system_messages, *state.messages, *incoming]
            if play.hook is None:
                return full
            return _transformed(full, play)

        def _generate(self, shown: Sequence[Any]) -> Any:
            """One native generation over the shown messages, without touching the real history."""
            system = [item for item in shown if item.role == "system"]
            rest = [item for item in shown if item.role != "system"]
            scratch = self.get_init_state([])
            scratch.system_messages[:] = system
            scratch.messages[:] = rest[:-1]
            try:
                answer, _ = super().generate_next_message(rest[-1], scratch)
            except json.JSONDecodeError as error:
                raise MalformedTrajectoryError("Retail agent gave unreadable tool arguments") from error
            return answer

    arguments = dict(config["llm_args_agent"])
    configured = arguments["max_tokens"]
    tools = environment.get_tools()
    tools_tokens = _count([tool.openai_schema for tool in tools])
    return BudgetedAgent(
        tools=tools, domain_policy=environment.get_policy(), llm=config["llm_agent"], llm_args=dict(arguments)
    )


def _transformed(messages: Sequence[Any], play: ArmPlay) -> list[Any]:
    hook, allowance = play.hook, play.allowance
    if hook is None:
        return list(messages)
    left = {name: allowance.rest(name) for name in ("model_calls", "input_tokens", "output_tokens")}
    plain = [_hook_message(message) for message in messages]
    result = transform_history(hook, plain, state=play.state, remaining_budget=left)
    allowance.charge(
        input_tokens=result.usage["input_tokens"],
        output_tokens=result.usage["output_tokens"],
        model_calls=result.usage["model_calls"],
    )
    play.hook_receipts.append(
        {
            "before_sha256": content_hash(plain),
            "after_sha256": content_hash(list(result.messages)),
            "kept": list(result.kept),
            "usage": dict(result.usage),
        }
    )
    shown: list[Any] = []
    for index, message in zip(result.kept, result.messages, strict=True):
        original = messages[index]
        same = original.content == message.get("content")
        shown.append(original if same else original.model_copy(update={"content": message["content"]}))
    return shown


def _hook_message(message: Any) -> dict[str, Any]:
    """The part of a message that a hook sees: no usage, no clock."""
    plain = tau3.plain_message(message)
    shown: dict[str, Any] = {"role": plain["role"], "content": plain.get("content")}
    if plain["role"] == "tool":
        shown["tool_call_id"] = plain.get("id")
    if plain.get("tool_calls"):
        names = ("id", "name", "arguments")
        shown["tool_calls"] = [{name: call.get(name) for name in names} for call in plain["tool_calls"]]
    return shown


def guarded_user(user: Any, usages: list[Mapping[str, Any] | None]) -> Any:
    """Give the native user, whose every generation is counted and must say something."""
    native = user.generate_next_message

    def generate_next_message(message: Any, state: Any) -> tuple[Any, Any]:
        answer, next_state = native(message, state)
        usages.append(getattr(answer, "usage", None))
        note_answer(str(getattr(user, "llm", "user")), getattr(answer, "raw_data", None))
        if not (answer.content or "").strip():
            raise MalformedTrajectoryError("Retail user gave an empty message")
        return answer, next_state

    user.generate_next_message = generate_next_message
    return user
