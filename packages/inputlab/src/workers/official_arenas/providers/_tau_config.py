"""Config of the tau2 retail arena: exact fields, loopback endpoints, one model for agent, user and judge."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

from workers.official_arenas._config_checks import is_loopback, require_positive, require_whole
from workers.official_arenas.protocol import (
    OfficialArenaError,
    content_hash,
    resolve_shared_budget_config,
    shared_budget,
    standard_shared_budget,
    validate_dependency_hashes,
)

__all__ = [
    "BENCHMARK_ID",
    "ENVIRONMENT_MODEL_POLICY",
    "JUDGE_COVERAGE_GUARD",
    "REQUIRED_LOCKS",
    "SCORER_ID",
    "SCORER_REVISION",
    "SEED",
    "SOURCE_REVISION",
    "SPLIT_SIZES",
    "build_config",
    "validate_config",
]

BENCHMARK_ID = "tau3.retail"
SOURCE_REVISION = "cf71a8070269883e38a365ffa85f78f46844c1f4"
"""Commit of tau2-bench."""
SCORER_ID = "tau3.retail.official_v1.0.1.backbone_conditioned_judge"
SCORER_REVISION = "fc899764d2be25961f7df60b88597f225660889f227a278bdbed42c61d4efaa8"
"""Hash over the two evaluator files of that commit and the two policies below."""
JUDGE_COVERAGE_GUARD = "exact-assertion-multiset-bool-v1"
ENVIRONMENT_MODEL_POLICY = "evaluated-backbone-user-and-judge-v1"
SEED = 17
SPLIT_SIZES: Mapping[str, int] = MappingProxyType({"train": 74, "test": 40})
REQUIRED_LOCKS = frozenset({"agent_model", "user_simulator", "nl_assertion_judge", "official_runtime", "scorer"})

_FIELDS = frozenset(
    {
        "task_set_name",
        "task_split_name",
        "limit",
        "capture_seed",
        "llm_agent",
        "llm_user",
        "llm_judge",
        "llm_args_agent",
        "llm_args_user",
        "llm_args_judge",
        "max_steps",
        "max_errors",
        "timeout",
        "locked_dependency_hashes",
        "budget_override",
    }
)
_ROLES = ("agent", "user", "judge")
_MAX_STEPS = 10000


def validate_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Give a checked copy of the config with the operator's shared budget resolved.

    Raises:
        OfficialArenaError: a field is missing, unknown or wrong; the message names it.
    """
    resolved = resolve_shared_budget_config(config)
    missing, unknown = sorted(_FIELDS - set(resolved)), len(set(resolved) - _FIELDS)
    if missing or unknown:
        raise OfficialArenaError(f"Retail config fields differ: missing {missing}, {unknown} unknown")
    if resolved["task_set_name"] != "retail":
        raise OfficialArenaError("Retail config task_set_name must be retail")
    size = SPLIT_SIZES.get(str(resolved["task_split_name"]))
    if size is None:
        raise OfficialArenaError("Retail config task_split_name must be train or test")
    require_whole(resolved, "limit", 1, size)
    require_whole(resolved, "capture_seed", SEED, SEED)
    require_whole(resolved, "max_steps", 1, _MAX_STEPS)
    require_whole(resolved, "max_errors", 1, _MAX_STEPS)
    require_positive(resolved, "timeout")
    budget = shared_budget(resolved)
    if budget is None:
        raise OfficialArenaError("Retail config budget_override must be a shared budget")
    for role in _ROLES:
        _model(resolved, role)
    per_call = budget["max_output_tokens_per_call"]
    if resolved["llm_args_agent"]["max_tokens"] > per_call:
        raise OfficialArenaError(f"Retail config llm_args_agent max_tokens must be at most {per_call}")
    if resolved["llm_args_judge"].get("response_format") != {"type": "json_object"}:
        raise OfficialArenaError("Retail config llm_args_judge response_format must be a JSON object format")
    for role in ("user", "judge"):
        same = resolved[f"llm_{role}"] == resolved["llm_agent"]
        if not same or resolved[f"llm_args_{role}"]["api_base"] != resolved["llm_args_agent"]["api_base"]:
            raise OfficialArenaError(f"Retail config llm_{role} must be the agent's model at the agent's endpoint")
    locks = validate_dependency_hashes(resolved["locked_dependency_hashes"])
    if not locks.keys() >= REQUIRED_LOCKS:
        raise OfficialArenaError(f"Retail config locks must include {sorted(REQUIRED_LOCKS - locks.keys())}")
    return resolved


def _model(config: Mapping[str, Any], role: str) -> None:
    model = config[f"llm_{role}"]
    if not isinstance(model, str) or not model.strip():
        raise OfficialArenaError(f"Retail config llm_{role} must be non-blank text")
    where = f"Retail config llm_args_{role}"
    if not isinstance(config[f"llm_args_{role}"], Mapping):
        raise OfficialArenaError(f"{where} must be an object")
    arguments = cast("Mapping[str, Any]", config[f"llm_args_{role}"])
    if not is_loopback(arguments.get("api_base")):
        raise OfficialArenaError(f"{where} api_base must be an http address on this machine")
    temperature = arguments.get("temperature")
    if type(temperature) not in {int, float} or temperature != 0:
        raise OfficialArenaError(f"{where} temperature must be 0")
    require_whole(arguments, "seed", SEED, SEED, where)
    require_whole(arguments, "num_retries", 0, 0, where)
    require_whole(arguments, "max_tokens", 1, 2**31, where)
    require_positive(arguments, "timeout", where)


def build_config(
    *, split: str, limit: int | None, agent: Mapping[str, Any], budget: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Give a complete config for one model slot.

    Args:
        split: ``train`` or ``test``.
        limit: first so many tasks; None takes the whole split.
        agent: ``{"model": ..., "args": {"api_base": ..., ...}}``; the arguments also serve user and judge.
        budget: shared budget; the standard one by default.

    Raises:
        OfficialArenaError: as `validate_config`.
    """
    caps = dict(budget) if budget is not None else standard_shared_budget()
    given = cast("Mapping[str, Any]", agent.get("args") or {})
    defaults = {"temperature": 0, "seed": SEED, "num_retries": 0, "max_tokens": 512, "timeout": 120.0}
    arguments = {**defaults, "max_tokens": min(512, caps.get("max_output_tokens_per_call", 512)), **given}
    judge = {**arguments, "max_tokens": 1024, "response_format": {"type": "json_object"}}
    model = agent.get("model")
    locks = {
        "agent_model": content_hash({"model": model, "args": arguments}),
        "user_simulator": content_hash({"model": model, "args": arguments}),
        "nl_assertion_judge": content_hash({"model": model, "args": judge}),
        "official_runtime": content_hash({"benchmark_id": BENCHMARK_ID, "source_revision": SOURCE_REVISION}),
        "scorer": content_hash({"scorer_id": SCORER_ID, "scorer_revision": SCORER_REVISION}),
    }
    return validate_config(
        {
            "task_set_name": "retail",
            "task_split_name": split,
            "limit": SPLIT_SIZES.get(split, 0) if limit is None else limit,
            "capture_seed": SEED,
            **{f"llm_{role}": model for role in _ROLES},
            "llm_args_agent": arguments,
            "llm_args_user": dict(arguments),
            "llm_args_judge": judge,
            "max_steps": 200,
            "max_errors": 10,
            "timeout": 1800.0,
            "locked_dependency_hashes": locks,
            "budget_override": caps,
        }
    )
