"""The shared budget: one set of caps for every arm, from the config or from an operator's override file."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ripieno.canonical import strict_loads
from ripieno.errors import InputError, IntegrityError
from workers.official_arenas._errors import OfficialArenaError
from workers.official_arenas._reading import read_bound_bytes

__all__ = [
    "BUDGET_OVERRIDE_PATH_ENV",
    "BUDGET_OVERRIDE_SHA256_ENV",
    "SHARED_BUDGET_FIELDS",
    "resolve_shared_budget_config",
    "shared_budget",
    "standard_shared_budget",
    "validate_shared_budget",
    "visible_shared_budget",
]

BUDGET_OVERRIDE_PATH_ENV = "AILAB_SHARED_BUDGET_OVERRIDE_PATH"
"""Environment variable: the file with the shared budget of this process."""
BUDGET_OVERRIDE_SHA256_ENV = "AILAB_SHARED_BUDGET_OVERRIDE_SHA256"
"""Environment variable: the SHA-256 of that file."""

_STANDARD: Mapping[str, int] = {
    "max_model_calls": 8,
    "max_retrieval_calls": 8,
    "max_tool_calls": 8,
    "max_output_tokens": 4096,
    "max_context_tokens": 262144,
    "max_output_tokens_per_call": 512,
}
SHARED_BUDGET_FIELDS = frozenset({"profile_id", *_STANDARD})
"""The exact fields of a shared budget."""
_MAX_OVERRIDE_BYTES = 2**16


def standard_shared_budget(multiplier: float = 1.0) -> dict[str, Any]:
    """Give the standard caps times a factor, rounded, at least 1 each.

    Args:
        multiplier: finite and positive.

    Raises:
        OfficialArenaError: the multiplier is not a positive finite number.

    Examples:
        >>> standard_shared_budget(0.5)["max_model_calls"]
        4
    """
    if isinstance(multiplier, bool) or not (math.isfinite(multiplier) and multiplier > 0):
        raise OfficialArenaError(f"Shared budget multiplier must be positive and finite, got {multiplier!r}")
    caps = {name: max(1, round(cap * multiplier)) for name, cap in _STANDARD.items()}
    return {"profile_id": f"paper-shared-budget-x{multiplier:g}", **caps}


def validate_shared_budget(value: object) -> dict[str, Any]:
    """Give a checked copy of a shared budget. A cap of 0 means that none is allowed.

    Raises:
        OfficialArenaError: the fields are not exactly `SHARED_BUDGET_FIELDS`, the profile id is blank, a cap is
            not a non-negative integer, or the cap per call is above the total.
    """
    if type(value) is not dict and not isinstance(value, Mapping):
        raise OfficialArenaError("Shared budget must be an object")
    budget = cast("Mapping[str, Any]", value)
    if frozenset(budget) != SHARED_BUDGET_FIELDS:
        raise OfficialArenaError(f"Shared budget must have exactly the fields {sorted(SHARED_BUDGET_FIELDS)}")
    profile = budget["profile_id"]
    if not isinstance(profile, str) or not profile.strip():
        raise OfficialArenaError("Shared budget profile_id must be non-blank text")
    for name in _STANDARD:
        cap = budget[name]
        if type(cap) is not int or cap < 0:
            raise OfficialArenaError(f"Shared budget {name} must be a non-negative integer, got {cap!r:.40}")
    if budget["max_output_tokens_per_call"] > budget["max_output_tokens"]:
        raise OfficialArenaError("Shared budget max_output_tokens_per_call must not exceed max_output_tokens")
    return dict(budget)


def shared_budget(config: Mapping[str, Any]) -> dict[str, Any] | None:
    """Give the checked shared budget of a resolved provider config, or None when it has none.

    Raises:
        OfficialArenaError: ``budget_override`` is not a shared budget.
    """
    value = config.get("budget_override")
    return None if value is None else validate_shared_budget(value)


def resolve_shared_budget_config(
    config: Mapping[str, Any], *, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Give a copy of a provider config with the operator's shared budget as ``budget_override``.

    Args:
        config: provider config; its own ``budget_override``, if any, must equal the operator's.
        environment: where the two variables are looked up; ``os.environ`` by default.

    Raises:
        OfficialArenaError: one variable without the other, a missing, linked or changed file, a bad budget, or
            a different explicit override.
    """
    names = os.environ if environment is None else environment
    path, checksum = names.get(BUDGET_OVERRIDE_PATH_ENV), names.get(BUDGET_OVERRIDE_SHA256_ENV)
    resolved = dict(config)
    explicit = shared_budget(resolved)
    if path is None and checksum is None:
        return resolved
    if not path or not checksum:
        raise OfficialArenaError(
            f"Shared budget override needs both {BUDGET_OVERRIDE_PATH_ENV} and {BUDGET_OVERRIDE_SHA256_ENV}"
        )
    try:
        data = read_bound_bytes(Path(path), max_bytes=_MAX_OVERRIDE_BYTES)
        if hashlib.sha256(data).hexdigest() != checksum:
            raise OfficialArenaError("Shared budget override file differs from its checksum")
        override = validate_shared_budget(strict_loads(data))
    except (OSError, IntegrityError, InputError) as error:
        raise OfficialArenaError("Shared budget override must be a readable regular JSON file") from error
    if explicit is not None and explicit != override:
        raise OfficialArenaError("Shared budget override differs from the budget_override of the config")
    return {**resolved, "budget_override": override}


def visible_shared_budget(budget: Mapping[str, Any]) -> dict[str, Any]:
    """Give the budget as an agent's visible state carries it (the fields of an execution budget, no cost cap).

    Raises:
        OfficialArenaError: the value is not a shared budget.
    """
    checked = validate_shared_budget(budget)
    return {
        "max_model_calls": checked["max_model_calls"],
        "max_retrieval_calls": checked["max_retrieval_calls"],
        "max_tool_calls": checked["max_tool_calls"],
        "max_output_tokens": checked["max_output_tokens"],
        "max_context_tokens": checked["max_context_tokens"],
        "max_cost_usd": None,
    }
