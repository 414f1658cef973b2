"""A row of results is the row's fields, as plain JSON values."""

from __future__ import annotations

from dataclasses import asdict

import orjson

from workers.official_arenas.campaign.results import ArmResult, PairResult, PairStatus


def test_a_row_holds_every_field_as_a_plain_value() -> None:
    arm = ArmResult("terminal_success", 1.0, 0.5, 0.0, {"tool_calls": 2}, "a" * 64, "agent_stop")
    for row in (
        PairResult("s", "t", "1", PairStatus.PAIRED, "c", "success", arm, arm),
        PairResult("s", "t", "1", PairStatus.REFUSED),
    ):
        assert row.as_dict() == asdict(row)
        assert orjson.loads(orjson.dumps(row.as_dict())) == row.as_dict()
        assert type(row.as_dict()["status"]) is str


def test_a_row_is_no_door_into_the_result() -> None:
    arm = ArmResult("m", 1.0, 1.0, 0.0, {"tool_calls": 2}, "a" * 64)
    arm.as_dict()["usage"]["tool_calls"] = 3
    assert arm.usage == {"tool_calls": 2}
