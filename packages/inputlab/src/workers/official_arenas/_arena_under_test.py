"""An arena, a config for it, and places to play in: what the checks of an arena handle."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from workers.official_arenas.capture_records import capture_rows
from workers.official_arenas.protocol import (
    OfficialArenaError,
    OfficialArenaProvider,
    ProviderArmResult,
    standard_shared_budget,
)

__all__ = ["ArenaUnderTest"]


@dataclass
class ArenaUnderTest:
    """An arena, a config for it, and places to play in.

    Attributes:
        factory: gives a new provider.
        root: private directory.
        split: which tasks.
        limit: how many of them, from the first.
        agent: the model under test, as a campaign's slot names it.
    """

    factory: Callable[[], OfficialArenaProvider]
    root: Path
    split: str
    limit: int | None
    agent: Mapping[str, Any]
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @cached_property
    def provider(self) -> OfficialArenaProvider:
        """One provider, used throughout."""
        return self.factory()

    def config(self, *, budget: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
        """Give a config for one model slot, with other values in some fields."""
        provider = cast("Any", self.provider)
        size = provider.split_sizes.get(self.split)
        limit = self.limit if size is None or self.limit is None else min(self.limit, size)
        made: dict[str, Any] = provider.campaign_config(
            split=self.split, limit=limit, agent=dict(self.agent), budget=budget or standard_shared_budget()
        )
        return {**made, **changes}

    def directory(self) -> Path:
        """Make a fresh private directory."""
        path = self.root / str(next(self._numbers))
        path.mkdir(mode=0o700)
        return path

    def captured(self, config: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Capture into a fresh directory and give checkpoint rows and replay records.

        Raises:
            OfficialArenaError: the arena cannot run or gives no valid record; what a first turn raises is raised.
        """
        try:
            visible, protected, _ = capture_rows(self.provider, config, split=self.split, output_root=self.directory())
        except OfficialArenaError:
            self.explain_capture(config)
            raise
        return visible, protected

    def explain_capture(self, config: Mapping[str, Any]) -> None:
        """Raise what stops a capture, which keeps only the hash of it: the doctor's words, or those of a first turn."""
        found = self.provider.doctor(config)
        if found:
            raise OfficialArenaError(f"doctor says: {found}")
        for task_id in self.provider.task_ids(config):
            self.provider._first_turn(config, task_id)

    def payload(
        self, checkpoint: Mapping[str, Any], *, spent: Mapping[str, int] | None = None, intervention: Any = None
    ) -> dict[str, Any]:
        """Give the payload of the input, unchanged by default, as if its intervention had spent something."""
        from agentinputlab.selectors import NoOpIntervention
        from workers.official_arenas._payloads import build_payload

        chosen: Any = NoOpIntervention() if intervention is None else intervention
        payload = build_payload(
            checkpoint, arm_id="checked", intervention=chosen, arm_parameters={}, model_slot="checked"
        )
        execution = payload["intervention_execution"]
        execution["usage"] = {**execution["usage"], **(spent or {})}
        return payload

    def play(
        self,
        config: Mapping[str, Any],
        captured: tuple[Mapping[str, Any], Mapping[str, Any]],
        *,
        role: str = "baseline",
        spent: Mapping[str, int] | None = None,
        work_dir: Path | None = None,
        durable: bool = False,
        intervention: Any = None,
    ) -> ProviderArmResult:
        """Play one arm of a checkpoint row and its replay record."""
        checkpoint, record = captured
        return self.provider.run_arm(
            config,
            replay_record=record,
            arm_payload=self.payload(checkpoint, spent=spent, intervention=intervention),
            seed=17,
            role=role,
            work_dir=work_dir or self.directory(),
            durable=durable,
        )

    def pairs(self, config: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """Give checkpoint row and replay record of every configured task."""
        return list(zip(*self.captured(config), strict=True))
