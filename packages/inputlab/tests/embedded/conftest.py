"""Plays arms of the embedded arena without a ledger."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from workers.official_arenas.protocol import EXECUTABLE_PAYLOAD_PROTOCOL, ProviderArmResult, content_hash
from workers.official_arenas.providers.embedded_retail import EmbeddedRetailProvider, default_config

Change = Callable[[dict[str, Any]], None]


def payload_of(state: Mapping[str, Any], usage: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """An arm payload whose intervention gave a state."""
    digest = content_hash(dict(state))
    return {
        "schema_version": 1,
        "protocol": EXECUTABLE_PAYLOAD_PROTOCOL,
        "visible_state_hash": digest,
        "intervention_execution": {
            "input_state_hash": digest,
            "output_state_hash": digest,
            "materialized_state": dict(state),
            "usage": dict(usage or {}),
        },
    }


class Player:
    """Plays one arm of one task from a fresh capture."""

    payload_of = staticmethod(payload_of)

    def __init__(self, root: Path) -> None:
        self.provider = EmbeddedRetailProvider()
        self.root = root
        self.folders: list[Path] = []

    def __call__(
        self,
        task_id: str,
        change: Change | None = None,
        *,
        config: Mapping[str, Any] | None = None,
        usage: Mapping[str, Any] | None = None,
    ) -> ProviderArmResult:
        settings = dict(config or default_config("train"))
        record, _ = self.provider._first_turn(settings, task_id)
        state = copy.deepcopy(record["visible_state"])
        if change is not None:
            change(state)
        folder = self.root / f"arm-{len(self.folders)}"
        folder.mkdir(mode=0o700)
        self.folders.append(folder)
        return self.provider.run_arm(
            settings,
            replay_record=record,
            arm_payload=payload_of(state, usage),
            seed=17,
            role="baseline",
            work_dir=folder,
            durable=False,
        )


@pytest.fixture
def play(tmp_path: Path) -> Player:
    return Player(tmp_path)
