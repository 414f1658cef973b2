"""The smallest arena: one checkpoint, no model, the score is the length of the query.

It is for tests of workers, ledgers and hosts, and for measuring their speed. It says nothing about agents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from workers.official_arenas._source_files import package_files, worker_base_files
from workers.official_arenas.protocol import (
    OfficialArenaError,
    ProviderArmResult,
    content_hash,
    materialized_state,
    resolve_shared_budget_config,
    shared_budget,
    validate_dependency_hashes,
    visible_shared_budget,
)

__all__ = ["FixtureProvider", "factory"]

_CHECKPOINT = "fixture-1"
_SPLIT_SIZES: Mapping[str, int] = MappingProxyType({"train": 1000, "test": 1000})
_OPTIONAL_FIELDS = frozenset({"task_split_name", "limit", "budget_override"})
_LOCKS: Mapping[str, str] = MappingProxyType({"official_runtime": "1" * 64})
_BUDGET: Mapping[str, int] = MappingProxyType(
    {"max_model_calls": 4, "max_retrieval_calls": 4, "max_tool_calls": 4, "max_output_tokens": 128}
)
_SOURCE = "workers/official_arenas/providers/fixture.py"


class FixtureProvider:
    """Arena without a model. Its one documented checkpoint is ``fixture-1``.

    With ``task_split_name`` and ``limit`` in its config it has numbered tasks, so that a ledger or a campaign can be
    run over many of them.
    """

    benchmark_id = "fixture.common_support"
    source_revision = "0" * 40
    scorer_id = "fixture.official_scorer"
    scorer_revision = "b" * 64
    seed = 17
    split_sizes = _SPLIT_SIZES

    def source_files(self) -> Mapping[str, Path]:
        """Give everything that decides an arm's outcome."""
        return {**worker_base_files(), **self.helper_files()}

    def helper_files(self) -> Mapping[str, Path]:
        """Give this module's file."""
        return package_files(_SOURCE)

    def campaign_config(
        self, *, split: str, limit: int | None, agent: Mapping[str, Any], budget: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Give a config for one model slot; the agent plays no part here.

        Raises:
            OfficialArenaError: no such split, or a limit outside it.
        """
        size = _SPLIT_SIZES.get(split, 0)
        config: dict[str, Any] = {
            "fixture": True,
            "locked_dependency_hashes": dict(_LOCKS),
            "task_split_name": split,
            "limit": size if limit is None else limit,
        }
        if budget is not None:
            config["budget_override"] = dict(budget)
        return self._validate_config(config)

    def environment_calls_bound(self, config: Mapping[str, Any]) -> tuple[int, int]:
        """Give the model calls of user and judge per conversation: none."""
        return (0, 0)

    def _validate_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        resolved = resolve_shared_budget_config(config)
        required = {"fixture", "locked_dependency_hashes"}
        if set(resolved) - _OPTIONAL_FIELDS != required:
            raise OfficialArenaError("Fixture config must have exactly fixture and locked_dependency_hashes")
        if resolved["fixture"] is not True:
            raise OfficialArenaError("Fixture config fixture must be true")
        locks = validate_dependency_hashes(resolved["locked_dependency_hashes"])
        if locks != dict(_LOCKS):
            raise OfficialArenaError("Fixture config locked_dependency_hashes differ from the fixture's")
        if ("limit" in resolved) != ("task_split_name" in resolved):
            raise OfficialArenaError("Fixture config needs task_split_name and limit together")
        if "limit" in resolved:
            size = _SPLIT_SIZES.get(str(resolved["task_split_name"]), 0)
            if type(resolved["limit"]) is not int or not 1 <= resolved["limit"] <= size:
                raise OfficialArenaError("Fixture config limit must be 1..1000 of the split train or test")
        return resolved

    def task_ids(self, config: Mapping[str, Any]) -> list[str]:
        """Give the numbered tasks of the split, or the documented checkpoint."""
        if "limit" not in config:
            return [_CHECKPOINT]
        first = 0 if config["task_split_name"] == "train" else _SPLIT_SIZES["train"]
        return [str(first + index) for index in range(config["limit"])]

    def doctor(self, config: Mapping[str, Any]) -> tuple[str, ...]:
        """Give what is wrong with the config; nothing else can stop this arena."""
        try:
            self._validate_config(config)
        except OfficialArenaError as error:
            return (f"{type(error).__name__}: {error}",)
        return ()

    def _first_turn(self, config: Mapping[str, Any], task_id: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
        return self._record(config, task_id), {"input_tokens": 0, "output_tokens": 0}

    def _record(self, config: Mapping[str, Any], task_id: str) -> dict[str, Any]:
        numbered = task_id != _CHECKPOINT
        protected: dict[str, Any] = {"fixture": True, "locked_dependency_hashes": dict(_LOCKS)}
        if numbered:
            protected["task_id"] = task_id
        budget = shared_budget(config)
        visible = {
            "query": "fixture query",
            "task_id": task_id,
            "instruction": "fixture instruction",
            "budget": dict(_BUDGET) if budget is None else visible_shared_budget(budget),
        }
        return {
            "checkpoint_id": task_id,
            "group_key": task_id if numbered else "fixture-group-1",
            "visible_state": visible,
            "eligible_families": ["reformulate", "decompose", "acquire", "clarify", "curate"],
            "protected": protected,
        }

    def capture(self, config: Mapping[str, Any], *, output_root: Path) -> list[dict[str, Any]]:
        """Give one record per task."""
        checked = self._validate_config(config)
        return [self._record(checked, task_id) for task_id in self.task_ids(checked)]

    def capture_batch(
        self,
        config: Mapping[str, Any],
        *,
        output_root: Path,
        durable: bool = True,
        on_task: Callable[[str, str], None] | None = None,
    ) -> dict[str, Any]:
        """Capture the numbered tasks into a ledger, each once."""
        from workers.official_arenas._first_capture import capture_batch

        return capture_batch(self, config, output_root=output_root, durable=durable, on_task=on_task)

    def run_arm(
        self,
        config: Mapping[str, Any],
        *,
        replay_record: Mapping[str, Any],
        arm_payload: Mapping[str, Any],
        seed: int,
        role: str,
        work_dir: Path,
        durable: bool = True,
    ) -> ProviderArmResult:
        """Give the length of the materialized query as ``official_success``; one tool call is made.

        Raises:
            OfficialArenaError: an unknown role, or the payload is malformed.
        """
        if role not in {"baseline", "treatment"}:
            raise OfficialArenaError("Fixture role must be baseline or treatment")
        query = str(materialized_state(arm_payload)["query"])
        call = {"id": "call-1", "name": "get_length", "arguments": {}}
        messages = [
            {"role": "user", "content": query},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call-1", "content": str(len(query)), "error": False},
        ]
        return ProviderArmResult(
            metrics={"official_success": float(len(query))},
            trace={"messages": messages, "termination": "agent_stop", "hard_stops": 0},
            usage={"tool_calls": 1},
            runtime_instance_id=content_hash(
                {
                    "provider": "fixture",
                    "checkpoint_id": replay_record["checkpoint_id"],
                    "role": role,
                    "seed": seed,
                }
            ),
        )


def factory() -> FixtureProvider:
    """Give the fixture arena."""
    return FixtureProvider()
