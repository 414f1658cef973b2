"""Campaigns in a process that outlives their folders, and pairs that could not be started."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from campaign_lab import TREATMENT, calls, lab_plan, run, statuses

from ripieno.verify import verify
from workers.official_arenas.campaign.run import run_campaign
from workers.official_arenas.protocol import OfficialArenaError


@pytest.mark.parametrize(
    "second", [{"tasks": 3}, {"solve_treatment": ["0"]}, {"treatments": ["own.text:add_context=x"]}]
)
def test_a_campaign_in_the_place_of_a_removed_one_is_not_played_from_what_was_read_before(
    tmp_path: Path, second: dict[str, object]
) -> None:
    run(lab_plan(tmp_path), tmp_path / "out")
    shutil.rmtree(tmp_path / "out")
    plan = lab_plan(tmp_path, **second)  # type: ignore[arg-type]
    again = run_campaign(plan, tmp_path / "out", command=["another command"])
    assert set(statuses(again).values()) == {"paired_scored"}
    assert verify(tmp_path / "out", expect=again.digest).ok


def test_a_pair_that_could_not_be_started_is_started_by_the_next_call(tmp_path: Path) -> None:
    plan, out = lab_plan(tmp_path, tasks=3), tmp_path / "out"
    request = out / "requests" / "lab" / TREATMENT / "1.json"
    kept: list[bytes] = []

    def spoil(said: str) -> None:
        if said.startswith("Playing"):
            kept.append(request.read_bytes())
            request.write_bytes(b"{")

    with pytest.raises(OfficialArenaError, match=r"1 of 3 pairs could not be started; first: .* task 1: .*InputError$"):
        run(plan, out, note=spoil)
    assert not (out / "campaign.json").exists()
    request.write_bytes(kept[0])
    result = run(plan, out)
    assert statuses(result) == dict.fromkeys("012", "paired_scored")
    assert max(calls(tmp_path).values()) == 1
    assert verify(out, expect=result.digest).ok
