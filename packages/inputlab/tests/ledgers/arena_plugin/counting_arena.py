"""An arena of another package, as its author would write it: it counts its model calls outside of any ledger."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from workers.official_arenas._first_capture import _create_only, capture_batch
from workers.official_arenas.protocol import (
    OfficialArenaError,
    ProviderArmResult,
    materialized_state,
    resolve_shared_budget_config,
)

LOCKS = {"official_runtime": "1" * 64}
FIELDS = {"task_split_name", "limit", "locked_dependency_hashes", "calls", "behaviour", "budget_override"}
CHANGES: Mapping[str, Callable[[dict[str, Any]], object]] = {
    "other query": lambda execution: execution["materialized_state"].update(query="another"),
    "wider cap": lambda execution: execution["materialized_state"]["budget"].update(max_tool_calls=10**6),
    "cap as float": lambda execution: execution["materialized_state"]["budget"].update(max_tool_calls=8.0),
    "NaN for null": lambda execution: execution["materialized_state"]["budget"].update(max_cost_usd=float("nan")),
    "no usage": lambda execution: execution.pop("usage"),
    "less usage": lambda execution: execution["usage"].update(model_calls=-1),
    "failed": lambda execution: execution.update(status="failed"),
}
"""What an arena may do to the payload that it was given."""
SECRET = "my parrot is called Vasco"
_open, _write, _close = os.open, os.write, os.close  # as they were before any test counted file operations


class CountingArena:
    benchmark_id = "counting.retail"
    source_revision = "c" * 40
    scorer_id = "counting.scorer"
    scorer_revision = "d" * 64
    seed = 17
    split_sizes = MappingProxyType({"train": 20, "test": 20})

    def source_files(self) -> Mapping[str, Path]:
        return {"counting_arena.py": Path(__file__).resolve()}

    def helper_files(self) -> Mapping[str, Path]:
        return self.source_files()

    def _validate_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        resolved = resolve_shared_budget_config(config)
        if set(resolved) - FIELDS or resolved["task_split_name"] not in self.split_sizes:
            raise OfficialArenaError("Counting config differs")
        return resolved

    def task_ids(self, config: Mapping[str, Any]) -> list[str]:
        ids: list[str] = config["behaviour"].get("task_ids") or [str(number) for number in range(config["limit"])]
        return ids

    def doctor(self, config: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(config["behaviour"].get("blockers", ()))

    def capture_batch(
        self, config: Mapping[str, Any], *, output_root: Path, durable: bool = True, **options: Any
    ) -> dict[str, Any]:
        return capture_batch(self, config, output_root=output_root, durable=durable, **options)

    def capture(self, config: Mapping[str, Any], *, output_root: Path) -> list[Any]:
        return self.capture_batch(config, output_root=output_root)["records"]

    def _first_turn(self, config: Mapping[str, Any], task_id: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
        self._call(config, f"capture {task_id}")
        if task_id in config["behaviour"].get("fail", ()):
            raise RuntimeError(f"no turn: {SECRET}")
        record = {
            "checkpoint_id": task_id,
            "group_key": task_id,
            "visible_state": {"query": f"{SECRET} {task_id} – é", "task_id": task_id},
            "eligible_families": ["reformulate"],
            "protected": {"task_id": task_id, "locked_dependency_hashes": LOCKS, "history": [SECRET]},
        }
        record.update(config["behaviour"].get("record", {}))
        return record, {"input_tokens": 3}

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
        behaviour = config["behaviour"]
        if behaviour.get("files"):
            _create_only(work_dir / "attempt-start.json", {"role": role, "seed": seed}, durable=durable)
        self._call(config, f"arm {role}")
        act = behaviour.get(role, "score")
        if act == "boom":
            raise ValueError("boom")
        if act == "move":
            root = work_dir.parents[1]
            root.rename(root.with_name("moved"))
            root.mkdir(mode=0o700)
        if act == "print":
            print(SECRET)
            print(SECRET, file=sys.stderr)
            os.write(2, SECRET.encode())
        query = materialized_state(arm_payload)["query"]
        if act in CHANGES:
            CHANGES[act](arm_payload["intervention_execution"])
        return ProviderArmResult(
            metrics={"official_reward": 1.0, "terminal_success": 1.0} | behaviour.get("metrics", {}).get(role, {}),
            trace={"messages": [{"role": "user", "content": query, "timestamp": secrets.token_hex(4)}]},
            usage={"model_calls": 9 if act == "overuse" else 1, "output_tokens": 5},
            runtime_instance_id="5" * 64 if act == "same runtime" else secrets.token_hex(32),
        )

    @staticmethod
    def _call(config: Mapping[str, Any], what: str) -> None:
        """One model call: a line in a file that no ledger knows."""
        descriptor = _open(config["calls"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        _write(descriptor, f"{what}\n".encode())
        _close(descriptor)


def factory() -> CountingArena:
    return CountingArena()
