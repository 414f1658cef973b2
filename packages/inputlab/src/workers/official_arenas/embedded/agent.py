"""``scripted-agent.v1``: a rule policy that answers a chat request, deterministic in what it can see.

It works as many models do: by default it takes the first thing that fits, one wish at a time, and finds out what is
impossible by trying. Text in its input changes that (`guidance`): a request to plan, sub-questions, a playbook, a
clarified wish, a policy that lost its rules.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentinputlab.backends.chat import ChatReply, ToolCall
from workers.official_arenas.embedded.guidance import Guidance, read_guidance
from workers.official_arenas.embedded.steps import Answer, Ask, Deny, Desk, Lookup, Step, Write, next_step
from workers.official_arenas.embedded.transcript import Transcript, read_transcript
from workers.official_arenas.embedded.understanding import Wish, find_email, find_name_and_zip, find_wishes

__all__ = ["AGENT_ID", "TRANSFER_MESSAGE", "respond"]

AGENT_ID = "scripted-agent.v1"
TRANSFER_MESSAGE = "You are being transferred to a human agent. Please hold on."
CLOSING = "Is there anything else I can help you with?"
_IDENTITY_QUESTION = (
    "To find your account, please give me your email address, or your first and last name and your zip code."
)
_WISH_QUESTION = "What exactly would you like me to do?"
_MERGED_KINDS = frozenset({"change", "return"})
_Calls = Sequence[tuple[str, Mapping[str, Any]]]


def respond(messages: Sequence[Mapping[str, Any]]) -> ChatReply:
    """Give the agent's next message: a text, or tool calls.

    Args:
        messages: chat messages in OpenAI shape, the system message first.
    """
    seen = read_transcript(messages)
    guidance = read_guidance(seen.system)
    if any(not refused for refused, _ in seen.answers("transfer_to_human_agents")):
        return ChatReply(TRANSFER_MESSAGE)
    user_id, reply = _authenticate(seen)
    if reply is not None:
        return reply
    first_said, wishes = _wishes(seen, guidance)
    if not wishes:
        return _transfer(seen) if seen.times_said(_WISH_QUESTION) else ChatReply(_WISH_QUESTION)
    if any(wish.kind == "human" for wish in wishes):
        if guidance.knows_transfer:
            return _transfer(seen)
        return ChatReply(f"I am sorry, I cannot help with that. {CLOSING}")
    desk = Desk(seen, guidance, user_id, first_said)
    return _work(_groups(wishes, merges=guidance.merges_items), desk)


def _authenticate(seen: Transcript) -> tuple[str, ChatReply | None]:
    """Give the customer's id, or what has to be said or called to get it."""
    found = [*seen.answers("find_user_id_by_email"), *seen.answers("find_user_id_by_name_zip")]
    user_id = next((text for refused, text in found if not refused), None)
    if user_id is not None:
        return user_id, None
    for said in seen.said:
        email, person = find_email(said), find_name_and_zip(said)
        attempts: list[tuple[str, dict[str, Any]]] = []
        if email is not None:
            attempts.append(("find_user_id_by_email", {"email": email}))
        if person is not None:
            names = ("first_name", "last_name", "zip")
            attempts.append(("find_user_id_by_name_zip", dict(zip(names, person, strict=True))))
        for name, arguments in attempts:
            if seen.result(name, arguments) is None:
                return "", _calls(seen, [(name, arguments)])
    asked = seen.times_said(_IDENTITY_QUESTION)
    return "", ChatReply(_IDENTITY_QUESTION) if asked < 2 else _transfer(seen)


def _wishes(seen: Transcript, guidance: Guidance) -> tuple[str, tuple[Wish, ...]]:
    for said in seen.said:
        wishes = find_wishes(said, splits=guidance.splits)
        if wishes:
            return said, wishes
    return "", ()


def _groups(wishes: Sequence[Wish], *, merges: bool) -> list[list[Wish]]:
    """Put wishes together that change items of one order in one call, if the agent does that."""
    groups: dict[tuple[str, str | None] | int, list[Wish]] = {}
    for number, wish in enumerate(wishes):
        together = merges and wish.kind in _MERGED_KINDS and wish.order_id is not None
        groups.setdefault((wish.kind, wish.order_id) if together else number, []).append(wish)
    return list(groups.values())


def _work(groups: Sequence[Sequence[Wish]], desk: Desk) -> ChatReply:
    seen = desk.seen
    steps = [next_step(group, desk) for group in groups]
    if any(_was_refused(step, seen) for step in steps):
        return _transfer(seen)
    done = [isinstance(step, Deny | Answer) or _was_done(step, seen) for step in steps]
    open_steps = [step for step, is_done in zip(steps, done, strict=True) if not is_done]
    if not desk.guidance.splits:
        open_steps = open_steps[:1]
    lookups = [call for step in open_steps if isinstance(step, Lookup) for call in step.calls]
    if lookups:
        return _calls(seen, _once(lookups))
    questions = list(dict.fromkeys(step.text for step in open_steps if isinstance(step, Ask)))
    if questions:
        text = " ".join(questions)
        return _transfer(seen) if seen.times_said(text) > 1 else ChatReply(text)
    writes = [step for step in open_steps if isinstance(step, Write)]
    agreed = [step for step in writes if seen.confirmed(step.summary)]
    if agreed:
        return _calls(seen, [(step.name, step.arguments) for step in agreed])
    if writes:
        text = f"To confirm, I will {'; and '.join(step.summary for step in writes)}. Shall I proceed (yes/no)?"
        return _transfer(seen) if seen.times_said(text) > 1 else ChatReply(text)
    return ChatReply(f"{' '.join(_outcome(step) for step in steps)} {CLOSING}")


def _was_done(step: Step, seen: Transcript) -> bool:
    return isinstance(step, Write) and seen.result(step.name, step.arguments) is not None


def _was_refused(step: Step, seen: Transcript) -> bool:
    result = seen.result(step.name, step.arguments) if isinstance(step, Write) else None
    return result is not None and result[0]


def _outcome(step: Step) -> str:
    if isinstance(step, Write):
        return f"Done: {step.summary}."
    if isinstance(step, Deny):
        return f"I am sorry. {step.text}"
    return step.text if isinstance(step, Answer) else ""


def _once(calls: _Calls) -> _Calls:
    unique: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for name, arguments in calls:
        unique.setdefault(f"{name} {json.dumps(arguments, sort_keys=True)}", (name, arguments))
    return list(unique.values())


def _transfer(seen: Transcript) -> ChatReply:
    summary = "The customer needs something that the agent could not settle with its tools."
    return _calls(seen, [("transfer_to_human_agents", {"summary": summary})])


def _calls(seen: Transcript, calls: _Calls) -> ChatReply:
    numbered = enumerate(calls, start=seen.call_count + 1)
    return ChatReply(
        tool_calls=tuple(
            ToolCall(name, json.dumps(arguments, sort_keys=True), f"call_{number}")
            for number, (name, arguments) in numbered
        )
    )
