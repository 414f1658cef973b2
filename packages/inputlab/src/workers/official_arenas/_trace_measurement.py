"""What may be said of a trajectory in public: counts and structure, never text."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

from agentinputlab.contracts.protocols import TRACE_MEASUREMENT_PROTOCOL, TRACE_MEASUREMENT_RULE
from workers.official_arenas.protocol import OfficialArenaError

__all__ = ["READ_PREFIXES", "intervention_failure", "safe_trace_measurement"]

READ_PREFIXES = (
    "get_",
    "list_",
    "search_",
    "retrieve_",
    "find_",
    "lookup_",
    "read_",
    "check_",
    "inspect_",
    "view_",
    "calculate_",
    "compute_",
)
"""A call whose tool name starts with one of these is taken for harmless; every other might be irreversible."""

_TERMINATIONS = frozenset(
    {
        "user_stop",
        "agent_stop",
        "max_steps",
        "max_errors",
        "timeout",
        "too_many_errors",
        "agent_error",
        "user_error",
        "infrastructure_error",
        "context_window_exceeded",
        "unexpected_error",
        "episode_timeout",
        "malformed_generated_trajectory",
        "shared_budget_exhausted_before_agent",
        "completed",
    }
)
_ROLES = ("assistant", "user", "tool", "system")
_FAILURE_FIELDS = ("scope", "category", "exception_type", "monitor_run_id")


def safe_trace_measurement(trace: object) -> dict[str, Any]:
    """Give the public structure of a trace.

    A trace is a list of messages, or an object with ``messages`` and, if known, ``termination`` (or
    ``termination_reason``) and ``hard_stops`` (or ``adapter_hard_stops``). A message has ``role``; an assistant
    message may have ``tool_calls`` of ``{id, name, arguments}`` (or the OpenAI shape with ``function``); a tool
    message names its call by ``tool_call_id`` or ``id`` and says ``error: true`` when the call failed.

    Returns:
        ``protocol``, ``rule``, counts of messages by role, of tool calls and of failed ones; ``first_action`` of the
        assistant (``none``, ``message``, ``read_call``, ``potentially_irreversible_call``);
        ``first_potentially_irreversible_call`` (None, or its positions and whether it ``succeeded``, None when no
        result was seen); ``hard_stops`` and ``termination`` (``other`` for a word that is not known,
        ``unknown`` when none was given).

    Raises:
        OfficialArenaError: the trace is no list of messages.
    """
    messages = _messages(trace)
    outer = cast("Mapping[str, Any]", trace) if isinstance(trace, Mapping) else {}
    results = [message for message in messages if message.get("role") == "tool"]
    failed = {_call_id(message): bool(message.get("error")) for message in results}
    calls = [
        (message_index, call_index, call)
        for message_index, message in enumerate(messages)
        if message.get("role") == "assistant"
        for call_index, call in enumerate(_calls(message))
    ]
    irreversible = next((row for row in calls if not _tool_name(row[2]).startswith(READ_PREFIXES)), None)
    roles = [message.get("role") for message in messages]
    counts = {role: roles.count(role) for role in _ROLES}
    return {
        "protocol": TRACE_MEASUREMENT_PROTOCOL,
        "rule": TRACE_MEASUREMENT_RULE,
        "message_count": len(messages),
        "message_counts": {**counts, "other": len(messages) - sum(counts.values())},
        "tool_call_count": len(calls),
        "failed_tool_call_count": sum(bool(message.get("error")) for message in results),
        "first_action": _first_action(messages),
        "first_potentially_irreversible_call": None
        if irreversible is None
        else {
            "message_index": irreversible[0],
            "call_index": irreversible[1],
            "succeeded": _succeeded(irreversible[2], failed),
        },
        "hard_stops": _hard_stops(outer),
        "termination": _termination(outer),
    }


def _messages(trace: object) -> list[Mapping[str, Any]]:
    found = cast("Mapping[str, Any]", trace).get("messages", ()) if isinstance(trace, Mapping) else trace
    if not isinstance(found, list | tuple):
        raise OfficialArenaError("Trace must be a list of messages, or an object with one")
    messages = cast("Sequence[object]", found)
    if not all(type(message) is dict or isinstance(message, Mapping) for message in messages):
        raise OfficialArenaError("Trace messages must be objects")
    return cast("list[Mapping[str, Any]]", list(messages))


def _calls(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    calls = message.get("tool_calls") or ()
    if not isinstance(calls, list | tuple):
        raise OfficialArenaError("Trace tool_calls must be a list")
    return [
        cast("Mapping[str, Any]", call) if isinstance(call, Mapping) else {} for call in cast("Sequence[object]", calls)
    ]


def _tool_name(call: Mapping[str, Any]) -> str:
    function = call.get("function")
    name = cast("Mapping[str, Any]", function).get("name") if isinstance(function, Mapping) else call.get("name")
    return name if isinstance(name, str) else ""


def _call_id(message: Mapping[str, Any]) -> str:
    identity = message.get("tool_call_id", message.get("id"))
    return identity if isinstance(identity, str) else ""


def _succeeded(call: Mapping[str, Any], failed: Mapping[str, bool]) -> bool | None:
    identity = call.get("id")
    if not isinstance(identity, str) or identity not in failed:
        return None
    return not failed[identity]


def _first_action(messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    for index, message in enumerate(messages):
        if message.get("role") != "assistant":
            continue
        calls = _calls(message)
        if not calls:
            return {"kind": "message", "message_index": index}
        reads = _tool_name(calls[0]).startswith(READ_PREFIXES)
        return {"kind": "read_call" if reads else "potentially_irreversible_call", "message_index": index}
    return {"kind": "none", "message_index": None}


def _hard_stops(outer: Mapping[str, Any]) -> int:
    value = outer.get("hard_stops", outer.get("adapter_hard_stops", 0))
    return int(value) if isinstance(value, int | float) and 0 <= value < 2**31 else 0


def _termination(outer: Mapping[str, Any]) -> str:
    value = outer.get("termination", outer.get("termination_reason"))
    if not isinstance(value, str):
        return "unknown"
    return value if value in _TERMINATIONS else "other"


def intervention_failure(payload: Mapping[str, Any]) -> dict[str, Any] | None:
    """Give what may be said in public of a failed intervention, or None when it did not fail.

    Returns:
        ``scope``, ``category``, ``exception_type``, ``monitor_run_id`` and ``message_sha256``; the text of the
        message stays private.

    Raises:
        OfficialArenaError: status and failure contradict each other, or a failed intervention changed the state.
    """
    execution = payload.get("intervention_execution")
    if not isinstance(execution, Mapping):
        raise OfficialArenaError("Payload intervention_execution must be an object")
    row = cast("Mapping[str, Any]", execution)
    failure = row.get("failure")
    if row.get("status") != "failed":
        if failure is not None:
            raise OfficialArenaError("Payload has a failure although its intervention did not fail")
        return None
    if not isinstance(failure, Mapping):
        raise OfficialArenaError("Payload of a failed intervention must say its failure")
    if row.get("input_state_hash") != row.get("output_state_hash"):
        raise OfficialArenaError("Payload of a failed intervention must keep the unchanged state")
    details = cast("Mapping[str, Any]", failure)
    safe: dict[str, Any] = {name: details.get(name) for name in _FAILURE_FIELDS}
    if any(item is not None and not isinstance(item, str) for item in safe.values()):
        raise OfficialArenaError(f"Payload failure {', '.join(_FAILURE_FIELDS)} must be text")
    message = details.get("message")
    safe["message_sha256"] = (
        hashlib.sha256(message.encode("utf-8", "surrogatepass")).hexdigest() if isinstance(message, str) else None
    )
    return safe
