"""A row of results is the row's fields, as plain JSON values."""

from __future__ import annotations

from dataclasses import asdict

import orjson

from workers.official_arenas.campaign.plan import parse_plan
from workers.official_arenas.campaign.results import ArmResult, PairResult, PairStatus, analyse


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


def test_a_p_value_too_small_for_a_float_still_gives_a_verdict() -> None:
    plan = parse_plan({"arena": "fixture", "tasks": 1, "treatments": ["baseline.no_op"]})
    slot, treatment = plan.slots[0].name, plan.treatments[0].name
    solved, missed = (ArmResult("terminal_success", score, score, 0.0, {}, "a" * 64) for score in (1.0, 0.0))
    rows = [PairResult(slot, treatment, str(k), PairStatus.PAIRED, "c", "s", missed, solved) for k in range(1100)]
    (compared,) = analyse(plan, rows)["comparisons"]
    assert (compared["p_value"], compared["wins"], compared["verdict"]) == (0.0, 1100, "helps")
