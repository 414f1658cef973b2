"""Config of the embedded arena: exact fields, model endpoints on this machine only, everything bound by locks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from workers.official_arenas._config_checks import is_loopback, require_positive, require_whole
from workers.official_arenas.embedded.agent import AGENT_ID
from workers.official_arenas.embedded.arena import Arena, load_arena
from workers.official_arenas.embedded.judge import JUDGE_ID
from workers.official_arenas.embedded.user import USER_ID
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
    "MODEL_POLICY",
    "REQUIRED_LOCKS",
    "SCRIPTED_POLICY",
    "SEED",
    "build_config",
    "environment_model_policy",
    "expected_locks",
    "validate_config",
]

BENCHMARK_ID = "embedded.retail"
SEED = 17
SCRIPTED_POLICY = "scripted-user-and-predicate-judge.v1"
MODEL_POLICY = "configured-model-user-or-judge.v1"
REQUIRED_LOCKS = frozenset(
    {"agent_model", "user_simulator", "nl_assertion_judge", "official_runtime", "scorer", "retail_data"}
)
_FIELDS = frozenset(
    {
        "task_set_name",
        "task_split_name",
        "limit",
        "capture_seed",
        "agent",
        "user",
        "judge",
        "max_steps",
        "max_errors",
        "timeout",
        "data_dir",
        "locked_dependency_hashes",
        "budget_override",
    }
)
_ARGS = frozenset({"api_base", "temperature", "seed", "num_retries", "max_tokens", "timeout"})
_MAX_STEPS = 10000
_WHERE = "Embedded retail config"
_Json = Mapping[str, Any]


def validate_config(config: _Json) -> dict[str, Any]:
    """Give a checked copy of the config with the operator's shared budget resolved.

    Raises:
        OfficialArenaError: a field is missing, unknown or wrong, or the data directory cannot be used; the message
            names the field.
    """
    resolved = resolve_shared_budget_config(config)
    _exact(resolved, _FIELDS, _WHERE)
    if resolved["task_set_name"] != "embedded_retail":
        raise OfficialArenaError(f"{_WHERE} task_set_name must be embedded_retail")
    if resolved["task_split_name"] not in {"train", "test"}:
        raise OfficialArenaError(f"{_WHERE} task_split_name must be train or test")
    require_whole(resolved, "capture_seed", SEED, SEED, _WHERE)
    require_whole(resolved, "max_steps", 1, _MAX_STEPS, _WHERE)
    require_whole(resolved, "max_errors", 1, _MAX_STEPS, _WHERE)
    require_positive(resolved, "timeout", _WHERE)
    budget = shared_budget(resolved)
    if budget is None:
        raise OfficialArenaError(f"{_WHERE} budget_override must be a shared budget")
    _agent(resolved["agent"], budget["max_output_tokens_per_call"])
    _other(resolved["user"], "user", "scripted")
    _other(resolved["judge"], "judge", "predicate")
    locks = validate_dependency_hashes(resolved["locked_dependency_hashes"])
    if not locks.keys() >= REQUIRED_LOCKS:
        raise OfficialArenaError(f"{_WHERE} locks must include {sorted(REQUIRED_LOCKS - locks.keys())}")
    data_dir = resolved["data_dir"]
    if data_dir is not None and not (isinstance(data_dir, str) and Path(data_dir).is_absolute()):
        raise OfficialArenaError(f"{_WHERE} data_dir must be null or an absolute path")
    arena = load_arena(data_dir)
    require_whole(resolved, "limit", 1, len(arena.splits[resolved["task_split_name"]]), _WHERE)
    if data_dir is not None:
        _needs_models(resolved, arena)
    return resolved


def _exact(value: _Json, fields: frozenset[str], where: str, *, optional: frozenset[str] = frozenset()) -> None:
    missing, unknown = sorted(fields - set(value)), len(set(value) - fields - optional)
    if missing or unknown:
        raise OfficialArenaError(f"{where} fields differ: missing {missing}, {unknown} unknown")


def _part(value: object, where: str) -> _Json:
    if not isinstance(value, Mapping):
        raise OfficialArenaError(f"{where} must be an object")
    return cast("_Json", value)


def _agent(value: object, per_call: int) -> None:
    where = f"{_WHERE} agent"
    agent = _part(value, where)
    _exact(agent, frozenset({"backend", "model", "args"}), where)
    if agent["backend"] == "scripted":
        if agent["model"] != AGENT_ID or agent["args"] != {}:
            raise OfficialArenaError(f"{where} with backend scripted must have model {AGENT_ID} and args {{}}")
        return
    if agent["backend"] != "openai":
        raise OfficialArenaError(f"{where} backend must be scripted or openai")
    _model(agent, where)
    if agent["args"]["max_tokens"] > per_call:
        raise OfficialArenaError(f"{where} args max_tokens must be at most {per_call}")


def _other(value: object, role: str, own_kind: str) -> None:
    where = f"{_WHERE} {role}"
    part = _part(value, where)
    if part.get("kind") == own_kind:
        _exact(part, frozenset({"kind"}), where)
        return
    if part.get("kind") != "openai":
        raise OfficialArenaError(f"{where} kind must be {own_kind} or openai")
    _exact(part, frozenset({"kind", "model", "args"}), where)
    _model(part, where)


def _model(part: _Json, where: str) -> None:
    if not isinstance(part["model"], str) or not part["model"].strip():
        raise OfficialArenaError(f"{where} model must be non-blank text")
    args = _part(part["args"], f"{where} args")
    where = f"{where} args"
    _exact(args, _ARGS, where, optional=frozenset({"api_key_env"}))
    if not is_loopback(args["api_base"]):
        raise OfficialArenaError(f"{where} api_base must be an http address on this machine")
    if type(args["temperature"]) not in {int, float} or args["temperature"] != 0:
        raise OfficialArenaError(f"{where} temperature must be 0")
    require_whole(args, "seed", SEED, SEED, where)
    require_whole(args, "num_retries", 0, 0, where)
    require_whole(args, "max_tokens", 1, 2**31, where)
    require_positive(args, "timeout", where)
    key_env = args.get("api_key_env")
    if key_env is not None and not (isinstance(key_env, str) and key_env.strip()):
        raise OfficialArenaError(f"{where} api_key_env must be the name of an environment variable")


def _needs_models(config: _Json, arena: Arena) -> None:
    """Tasks of others have no script and no predicates."""
    tasks = [arena.tasks[task_id] for task_id in arena.splits[config["task_split_name"]][: config["limit"]]]
    if config["user"]["kind"] != "openai" and any(task.embedded is None for task in tasks):
        raise OfficialArenaError(f"{_WHERE} user must be of kind openai for the tasks in data_dir")
    if config["judge"]["kind"] != "openai" and any(task.embedded is None and task.assertions for task in tasks):
        raise OfficialArenaError(f"{_WHERE} judge must be of kind openai for the tasks with assertions in data_dir")


def environment_model_policy(config: _Json) -> str:
    """Give the name of who plays the customer and judges."""
    is_scripted = config["user"]["kind"] == "scripted" and config["judge"]["kind"] == "predicate"
    return SCRIPTED_POLICY if is_scripted else MODEL_POLICY


def expected_locks(config: _Json, *, source_revision: str, scorer: Mapping[str, str]) -> dict[str, str]:
    """Give the locks that follow from a config and from what is installed here.

    Args:
        config: config with checked ``agent``, ``user``, ``judge`` and ``data_dir``.
        source_revision: revision of the package data.
        scorer: ``scorer_id`` and ``scorer_revision``.
    """
    return {
        "agent_model": content_hash(_identity(config["agent"])),
        "user_simulator": content_hash({"id": USER_ID, **_identity(config["user"])}),
        "nl_assertion_judge": content_hash({"id": JUDGE_ID, **_identity(config["judge"])}),
        "official_runtime": content_hash({"benchmark_id": BENCHMARK_ID, "source_revision": source_revision}),
        "scorer": content_hash(dict(scorer)),
        "retail_data": load_arena(config["data_dir"]).content_sha256,
    }


def _identity(part: _Json) -> dict[str, Any]:
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in part.items()}


def build_config(
    *,
    split: str,
    limit: int | None,
    agent: _Json | None,
    budget: _Json | None,
    source_revision: str,
    scorer: Mapping[str, str],
    user: _Json | None = None,
    judge: _Json | None = None,
    data_dir: str | None = None,
) -> dict[str, Any]:
    """Give a complete checked config.

    Args:
        split: ``train`` or ``test``.
        limit: first so many tasks; None takes the whole split.
        agent: ``{backend, model, args}``; arguments that are left out have their defaults. None is the scripted one.
        budget: shared budget; the standard one by default.
        source_revision: of the package data.
        scorer: ``scorer_id`` and ``scorer_revision``.
        user: customer; scripted by default.
        judge: judge; by predicates by default.
        data_dir: tau2's data directory, or None for our own content.

    Raises:
        OfficialArenaError: as `validate_config`.
    """
    caps = dict(budget) if budget is not None else standard_shared_budget()
    config: dict[str, Any] = {
        "task_set_name": "embedded_retail",
        "task_split_name": split,
        "limit": len(load_arena(data_dir).splits.get(split, ())) if limit is None else limit,
        "capture_seed": SEED,
        "agent": _complete(agent or {"backend": "scripted", "model": AGENT_ID, "args": {}}, caps),
        "user": _complete(user or {"kind": "scripted"}, caps),
        "judge": _complete(judge or {"kind": "predicate"}, caps),
        "max_steps": 200,
        "max_errors": 10,
        "timeout": 600.0,
        "data_dir": data_dir,
        "budget_override": caps,
    }
    config["locked_dependency_hashes"] = expected_locks(config, source_revision=source_revision, scorer=scorer)
    return validate_config(config)


def _complete(part: _Json, caps: _Json) -> dict[str, Any]:
    if part.get("backend") != "openai" and part.get("kind") != "openai":
        return dict(part)
    longest = min(512, int(caps.get("max_output_tokens_per_call", 512)))
    defaults = {"temperature": 0, "seed": SEED, "num_retries": 0, "max_tokens": longest, "timeout": 120.0}
    return {**part, "args": {**defaults, **_part(part.get("args") or {}, f"{_WHERE} args")}}
