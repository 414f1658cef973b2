"""The scripted agent, customer and judge behind the chat API: ``python -m workers.official_arenas.scripted_server``.

Which of the three answers is told from the system message: an agent's begins with ``<instructions>``, a simulated
customer's with ``# User Simulation Guidelines``, a judge's lists expected outcomes. So the same endpoint can stand for
all models of a run, and a conversation over HTTP comes out exactly as one in this process.
"""

from __future__ import annotations

import ast
import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import click

from agentinputlab.backends.chat import ChatRefusalError, ChatReply
from agentinputlab.model_server import ChatServer
from workers.official_arenas.embedded import agent, user
from workers.official_arenas.embedded.chat_models import limited, prompt_tokens, reply_tokens
from workers.official_arenas.embedded.customers import USER_SIGNATURE, script_of_prompt
from workers.official_arenas.embedded.judge import answer_by_predicates, predicates_of_prompt

__all__ = ["main", "respond", "serve"]

MODEL_NAME = "scripted-retail"
_AGENT_SIGNATURE = "<instructions>"
_JUDGE_SIGNATURE = re.compile(r"expected\s?outcomes?", re.IGNORECASE)
_REASON = re.compile(r"(?:Reason for call|Why you write)\W+(.+)", re.IGNORECASE)
_OUTCOME = re.compile(r"^\s*- (.+)$", re.MULTILINE)
_NATIVE_OUTCOMES = "expectedOutcomes:"
"""After the last of these tau2's judge is shown the assertions, as Python writes a list."""
_DEFAULT_MAX_TOKENS = 512


def respond(body: Mapping[str, Any]) -> ChatReply:
    """Answer a chat request as agent, customer or judge.

    Raises:
        ChatRefusalError: the system message is of none of the three.
    """
    messages: Sequence[Mapping[str, Any]] = body["messages"]
    system = "\n".join(row.get("content") or "" for row in messages if row["role"] == "system").lstrip()
    if system.startswith(USER_SIGNATURE):
        reply = _customer(system, messages)
    elif system.startswith(_AGENT_SIGNATURE):
        reply = agent.respond(messages)
    elif _JUDGE_SIGNATURE.search(system):
        reply = _judge(system, messages)
    else:
        raise ChatRefusalError(
            "the system message is neither an agent's, nor a customer's, nor a judge's",
            code="unknown_role",
            param="messages[0].content",
        )
    reply = limited(reply, body.get("max_tokens") or _DEFAULT_MAX_TOKENS)
    return replace(
        reply,
        input_tokens=prompt_tokens(messages, offer_tools=bool(body.get("tools"))),
        output_tokens=reply_tokens(reply),
    )


def _customer(system: str, messages: Sequence[Mapping[str, Any]]) -> ChatReply:
    script = script_of_prompt(system)
    own_view = {"user": "assistant", "assistant": "user"}  # whoever plays the customer reads the agent as its user
    turns = [(own_view[row["role"]], row.get("content") or "") for row in messages if row["role"] in own_view]
    if script is not None:
        return ChatReply(user.reply(script, turns))
    if any(role == "user" for role, _ in turns):
        return ChatReply(f"That is all, thank you. {user.STOP}")
    reason = _REASON.search(system)
    return ChatReply(reason[1].strip() if reason else "Hello, I need help with an order.")


def _judge(system: str, messages: Sequence[Mapping[str, Any]]) -> ChatReply:
    predicates = predicates_of_prompt(system)
    if predicates:
        turns: list[list[str]] = json.loads(messages[-1].get("content") or "[]")
        said = [text for role, text in turns if role == "assistant"]
        return ChatReply(json.dumps(answer_by_predicates(predicates, said), ensure_ascii=False))
    text = "\n".join(row.get("content") or "" for row in messages)
    outcomes = _native_outcomes(messages[-1].get("content") or "")
    rows = [
        {"expectedOutcome": outcome, "reasoning": "No predicate is known.", "metExpectation": False}
        for outcome in (_OUTCOME.findall(text) if outcomes is None else outcomes)
    ]
    return ChatReply(json.dumps({"results": rows}, ensure_ascii=False))


def _native_outcomes(request: str) -> list[str] | None:
    """Give the assertions at the end of a request of tau2's judge; None when there are none."""
    _, mark, listed = request.rpartition(_NATIVE_OUTCOMES)
    if not mark:
        return None
    try:
        value: object = ast.literal_eval(listed.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    found = cast("list[object]", value) if isinstance(value, list) else []
    outcomes = [item for item in found if isinstance(item, str)]
    return outcomes if outcomes and len(outcomes) == len(found) else None


def serve(*, port: int = 0) -> ChatServer:
    """Give a server of the three; it runs while its ``with`` block does."""
    return ChatServer(respond, port=port, models=(MODEL_NAME,))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default=True, help="Port; 0 takes a free one.")
def main(port: int) -> None:
    """Serve the scripted agent, customer and judge of the retail arena on this machine until Ctrl-C."""
    with serve(port=port) as server:
        click.echo(server.base_url)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            click.echo("stopped", err=True)


if __name__ == "__main__":
    main()
