"""An arena of another package that does what a plan tells it to, and counts its model calls outside of any ledger."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from workers.official_arenas._first_capture import capture_batch
from workers.official_arenas.protocol import (
    OfficialArenaError,
    ProviderArmResult,
    materialized_state,
    resolve_shared_budget_config,
    shared_budget,
    visible_shared_budget,
)

LOCKS = {"official_runtime": "1" * 64}
FIELDS = {"task_split_name", "limit", "locked_dependency_hashes", "agent", "budget_override"}
_open, _write, _close = os.open, os.write, os.close  # as they were before any test counted file operations


class LabArena:
    benchmark_id = "lab.retail"
    source_revision = "d" * 40
    scorer_id = "lab.scorer"
    scorer_revision = "d" * 64
    seed = 17
    split_sizes = MappingProxyType({"train": 20, "test": 20})

    def source_files(self) -> Mapping[str, Path]:
        return {"lab_arena.py": Path(__file__).resolve()}

    def helper_files(self) -> Mapping[str, Path]:
        return self.source_files()

    def campaign_config(
        self, *, split: str, limit: int | None, agent: Mapping[str, Any] | None, budget: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        config: dict[str, Any] = {
            "task_split_name": split,
            "limit": self.split_sizes[split] if limit is None else limit,
            "locked_dependency_hashes": LOCKS,
            "agent": dict((agent or {}).get("args", {})),
        }
        return config if budget is None else {**config, "budget_override": dict(budget)}

    def environment_calls_bound(self, config: Mapping[str, Any]) -> tuple[int, int]:
        user, judge = config["agent"].get("environment_calls", (0, 0))
        return user, judge

    def _validate_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        resolved = resolve_shared_budget_config(config)
        if set(resolved) - FIELDS:
            raise OfficialArenaError("Lab config differs")
        return resolved

    def task_ids(self, config: Mapping[str, Any]) -> list[str]:
        return [str(number) for number in range(config["limit"])]

    def doctor(self, config: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(config["agent"].get("blockers", ()))

    def capture_batch(
        self, config: Mapping[str, Any], *, output_root: Path, durable: bool = True, **options: Any
    ) -> dict[str, Any]:
        return capture_batch(self, config, output_root=output_root, durable=durable, **options)

    def capture(self, config: Mapping[str, Any], *, output_root: Path) -> list[Any]:
        return self.capture_batch(config, output_root=output_root)["records"]

    def _first_turn(self, config: Mapping[str, Any], task_id: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
        agent = config["agent"]
        self._call(agent, f"capture {task_id}")
        self._emit(agent)
        if task_id in agent.get("fail_capture", ()):
            raise RuntimeError(f"no turn: {agent.get('user_text', '')}")
        if task_id in agent.get("wait_capture", ()):
            time.sleep(60)
        return {
            "checkpoint_id": task_id,
            "group_key": task_id,
            "visible_state": {
                "query": f"{agent.get('user_text', 'hello')} {task_id}",
                "instruction": agent.get("instruction", "be kind"),
                "task_id": task_id,
                "budget": visible_shared_budget(shared_budget(config) or {}),
            },
            "eligible_families": ["reformulate"],
            "protected": {
                "task_id": task_id,
                "locked_dependency_hashes": LOCKS,
                "history": [agent.get("protected", "quiet")],
            },
        }, {"input_tokens": 3, "output_tokens": 2}

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
        agent, task = config["agent"], replay_record["checkpoint_id"]
        self._call(agent, f"arm {role} {task}")
        self._emit(agent)
        if task in agent.get(f"fail_{role}", ()):
            raise ValueError(f"boom: {agent.get('reply', '')}")
        if task in agent.get(f"wait_{role}", ()):
            time.sleep(60)
        state = materialized_state(arm_payload)
        success = float(task in agent.get(f"solve_{role}", ()))
        return ProviderArmResult(
            metrics={"official_reward": success, "terminal_success": success},
            trace={
                "messages": [
                    {"role": "user", "content": state["query"]},
                    {"role": "assistant", "content": agent.get("reply", "done")},
                ],
                "termination": "agent_stop",
                "hard_stops": 0,
            },
            usage={"model_calls": 1, "input_tokens": 1000, "output_tokens": 100},
            runtime_instance_id=secrets.token_hex(32),
        )

    @staticmethod
    def _emit(agent: Mapping[str, Any]) -> None:
        """Say things on the console, as third-party code does."""
        for text in agent.get("prints", ()):
            print(text)
            print(text, file=sys.stderr)
            _write(2, text.encode())

    @staticmethod
    def _call(agent: Mapping[str, Any], what: str) -> None:
        """One model call: a line in a file that no ledger knows."""
        if "calls" in agent:
            descriptor = _open(agent["calls"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            _write(descriptor, f"{what}\n".encode())
            _close(descriptor)


def factory() -> LabArena:
    return LabArena()
