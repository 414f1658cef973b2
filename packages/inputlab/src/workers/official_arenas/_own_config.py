"""The config of an arena of one's own: exact fields, one agent, locks that fit, a shared budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, cast

from workers.official_arenas._config_checks import is_loopback
from workers.official_arenas._first_capture import SEED
from workers.official_arenas.protocol import OfficialArenaError, resolve_shared_budget_config, shared_budget

__all__ = ["check_agent", "check_config"]

_FIELDS = frozenset(
    {"task_split_name", "limit", "capture_seed", "agent", "locked_dependency_hashes", "budget_override"}
)
_AGENT_FIELDS = frozenset({"backend", "model", "args"})
_ARGUMENTS = frozenset(
    {"api_base", "api_key_env", "max_tokens", "num_retries", "revision", "seed", "temperature", "timeout"}
)
_FIXED = {"temperature": 0, "seed": SEED, "num_retries": 0}


def check_config(
    config: Mapping[str, Any], *, split_sizes: Mapping[str, int], locks: Callable[[object], Mapping[str, str]]
) -> dict[str, Any]:
    """Give a checked copy of the config with the operator's shared budget resolved.

    Args:
        config: what was given.
        split_sizes: number of tasks per split.
        locks: gives the locks that an agent of this arena has.

    Raises:
        OfficialArenaError: a field is missing, unknown or wrong; the message names it.
    """
    resolved = resolve_shared_budget_config(config)
    missing, unknown = sorted(_FIELDS - set(resolved)), len(set(resolved) - _FIELDS)
    if missing or unknown:
        raise OfficialArenaError(f"Arena config fields differ: missing {missing}, {unknown} unknown")
    size = split_sizes.get(str(resolved["task_split_name"]), 0)
    if not size:
        splits = ", ".join(split_sizes) or "none"
        raise OfficialArenaError(f"Arena config task_split_name must be a split with tasks: {splits}")
    if type(resolved["limit"]) is not int or not 1 <= resolved["limit"] <= size:
        raise OfficialArenaError(f"Arena config limit must be the integer 1..{size}")
    if type(resolved["capture_seed"]) is not int or resolved["capture_seed"] != SEED:
        raise OfficialArenaError(f"Arena config capture_seed must be the integer {SEED}")
    if shared_budget(resolved) is None:
        raise OfficialArenaError("Arena config budget_override must be a shared budget")
    agent = resolved["agent"]
    check_agent(agent)
    if resolved["locked_dependency_hashes"] != locks(agent):
        raise OfficialArenaError("Arena config locked_dependency_hashes differ from this agent, arena or scorer")
    return resolved


def check_agent(agent: object) -> None:
    """Check the model under test: exact fields, nothing for a scripted one, a loopback endpoint for any other.

    Raises:
        OfficialArenaError: a field is missing, unknown or wrong; the message names it.
    """
    if not isinstance(agent, Mapping) or frozenset(cast("Mapping[str, Any]", agent)) != _AGENT_FIELDS:
        raise OfficialArenaError(f"Arena config agent must have exactly the fields {sorted(_AGENT_FIELDS)}")
    fields = cast("Mapping[str, Any]", agent)
    if fields["backend"] not in {"scripted", "openai"}:
        raise OfficialArenaError("Arena config agent backend must be scripted or openai")
    if not isinstance(fields["model"], str) or not fields["model"].strip():
        raise OfficialArenaError("Arena config agent model must be non-blank text")
    if not isinstance(fields["args"], Mapping):
        raise OfficialArenaError("Arena config agent args must be an object")
    args = cast("Mapping[str, Any]", fields["args"])
    if fields["backend"] == "scripted":
        if args:
            raise OfficialArenaError("Arena config agent args of a scripted agent must be empty")
        return
    _check_arguments(args)


def _check_arguments(args: Mapping[str, Any]) -> None:
    where = "Arena config agent args"
    if not frozenset(args) <= _ARGUMENTS:
        raise OfficialArenaError(f"{where} must be out of {sorted(_ARGUMENTS)}")
    if not is_loopback(args.get("api_base")):
        raise OfficialArenaError(f"{where} api_base must be an http address on this machine")
    for name, expected in _FIXED.items():
        value = args.get(name, expected)
        if type(value) not in {int, float} or value != expected:
            raise OfficialArenaError(f"{where} {name} must be {expected}")
    max_tokens, timeout = args.get("max_tokens", 1), args.get("timeout", 1.0)
    if type(max_tokens) is not int or max_tokens < 1:
        raise OfficialArenaError(f"{where} max_tokens must be an integer of at least 1")
    if type(timeout) not in {int, float} or not (math.isfinite(timeout) and timeout > 0):
        raise OfficialArenaError(f"{where} timeout must be a positive finite number")
    for name in ("api_key_env", "revision"):
        value = args.get(name, "unstated")
        if not isinstance(value, str) or not value.strip():
            raise OfficialArenaError(f"{where} {name} must be non-blank text")
