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
_Call = tuple[int, int, Mapping[str, Any]]
"""Position of the message, position in the message, call."""
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
    outer = cast("Mapping[str, Any]", trace) if _is_object(trace) else {}
    counts = dict.fromkeys(_ROLES, 0)
    failed: dict[str, bool] = {}
    n_failed = 0
    first_assistant = None
    calls: list[_Call] = []
    for index, message in enumerate(messages):
        role = message.get("role")
        if not isinstance(role, str) or role not in counts:
            continue
        counts[role] += 1
        if role == "assistant":
            first_assistant = index if first_assistant is None else first_assistant
            calls += [(index, position, call) for position, call in enumerate(_calls(message))]
        elif role == "tool":
            failed[_call_id(message)] = has_failed = bool(message.get("error"))
            n_failed += has_failed
    irreversible = None
    for row in calls:
        if not _tool_name(row[2]).startswith(READ_PREFIXES):
            irreversible = row
            break
    return {
        "protocol": TRACE_MEASUREMENT_PROTOCOL,
        "rule": TRACE_MEASUREMENT_RULE,
        "message_count": len(messages),
        "message_counts": {**counts, "other": len(messages) - sum(counts.values())},
        "tool_call_count": len(calls),
        "failed_tool_call_count": n_failed,
        "first_action": _first_action(first_assistant, calls, irreversible),
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


def _is_object(value: object) -> bool:
    return type(value) is dict or isinstance(value, Mapping)


def _messages(trace: object) -> list[Mapping[str, Any]]:
    found = cast("Mapping[str, Any]", trace).get("messages", ()) if _is_object(trace) else trace
    if not isinstance(found, list | tuple):
        raise OfficialArenaError("Trace must be a list of messages, or an object with one")
    messages = list(cast("Sequence[Mapping[str, Any]]", found))
    if not all(map(_is_object, messages)):
        raise OfficialArenaError("Trace messages must be objects")
    return messages


def _calls(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    calls = message.get("tool_calls") or ()
    if not isinstance(calls, list | tuple):
        raise OfficialArenaError("Trace tool_calls must be a list")
    return [cast("Mapping[str, Any]", call) if _is_object(call) else {} for call in cast("Sequence[object]", calls)]


def _tool_name(call: Mapping[str, Any]) -> str:
    function = call.get("function")
    named = cast("Mapping[str, Any]", function) if function is not None and _is_object(function) else call
    name = named.get("name")
    return name if isinstance(name, str) else ""


def _call_id(message: Mapping[str, Any]) -> str:
    identity = message.get("tool_call_id", message.get("id"))
    return identity if isinstance(identity, str) else ""


def _succeeded(call: Mapping[str, Any], failed: Mapping[str, bool]) -> bool | None:
    identity = call.get("id")
    if not isinstance(identity, str) or identity not in failed:
        return None
    return not failed[identity]


def _first_action(index: int | None, calls: Sequence[_Call], irreversible: _Call | None) -> dict[str, Any]:
    if index is None:
        return {"kind": "none", "message_index": None}
    if not calls or calls[0][0] != index:
        return {"kind": "message", "message_index": index}
    reads = irreversible is not calls[0]
    return {"kind": "read_call" if reads else "potentially_irreversible_call", "message_index": index}


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
    if not _is_object(execution):
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
