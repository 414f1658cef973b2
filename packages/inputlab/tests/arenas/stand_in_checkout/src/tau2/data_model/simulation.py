"""Stand-in result types."""

from typing import Any

from pydantic import BaseModel


class SimulationRun(BaseModel):
    id: str
    task_id: str
    start_time: str = "2026-01-01T00:00:00"
    termination_reason: str
    reward_info: dict[str, Any] | None = None
    messages: list[Any]
    seed: int | None = None
