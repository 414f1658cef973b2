"""Whether the scores of a pair follow from its traces, where an arena of ours can derive them again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workers.official_arenas._errors import OfficialArenaError
from workers.official_arenas._evidence import parse_json, parse_object
from workers.official_arenas._pair_ledger import OUTCOME, REQUEST, ROLES, SCORED_TERMINAL, TRACE

__all__ = ["score_problem"]


def score_problem(contents: Mapping[str, bytes]) -> tuple[str, str] | None:
    """Give the file and what is wrong with its score; None when all hold, or nothing could be derived.

    Only arenas of our own table are asked: verifying a folder runs nobody else's code. An arena derives scores only
    with the data and the scorer that it was played with.

    Args:
        contents: relative path -> bytes of a cell whose files agree with each other.
    """
    if REQUEST not in contents:
        return None
    envelope = parse_object(contents[REQUEST])
    parameters, request = envelope["worker_parameters"], envelope["atomic_request"]
    arena = _arena(parameters, request)
    if arena is None:
        return None
    for role in ROLES:
        path = f"{role}/{OUTCOME}"
        outcome = parse_object(contents[path]) if path in contents else {}
        if outcome.get("status") != SCORED_TERMINAL:
            continue
        try:
            metrics = arena.metrics_of_trace(
                parameters["provider_config"],
                task_id=request["checkpoint_id"],
                trace=parse_json(contents[f"{role}/{TRACE}"]),
            )
        except (OfficialArenaError, LookupError, TypeError, AttributeError, ValueError):
            return f"{role}/{TRACE}", "does not support the score that it holds"
        if metrics is not None and metrics != outcome["result"]["metrics"]:
            return path, "has another score than its trace gives"
    return None


def _arena(parameters: Mapping[str, Any], request: Mapping[str, Any]) -> Any:
    """Give the arena that played, if it is one of ours, can derive scores, and is the same here."""
    from workers.official_arenas.providers import PROVIDERS, resolve_provider

    entrypoint = parameters["provider_entrypoint"]
    if entrypoint not in PROVIDERS.values():
        return None
    try:
        arena: Any = resolve_provider(entrypoint)
    except OfficialArenaError:
        return None
    if not hasattr(arena, "metrics_of_trace"):
        return None
    played = (request["source_revision"], parameters["scorer_id"], parameters["scorer_revision"])
    return arena if played == (arena.source_revision, arena.scorer_id, arena.scorer_revision) else None
