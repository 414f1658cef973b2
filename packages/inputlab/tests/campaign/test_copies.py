"""A campaign folder that was moved or copied in the middle is not gone on with, and nothing reaches the first one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from campaign_lab import calls, copy_of, files_of, lab_plan, run, statuses

from ripieno.errors import InputError
from ripieno.verify import VerifyStatus, verify
from workers.official_arenas import retail_capture, retail_driver


class Stop(BaseException):
    """The end of a process, where a test wants it."""


def stop(*_: object, **__: object) -> None:
    raise Stop


def stop_after(call: Callable[..., object], times: int) -> Callable[..., object]:
    left = [times]

    def counted(*arguments: object, **options: object) -> object:
        if not left[0]:
            raise Stop
        left[0] -= 1
        return call(*arguments, **options)

    return counted


@pytest.mark.parametrize("moment", ["before the first capture", "before the first pair", "after a pair"])
def test_a_copy_of_an_interrupted_campaign_writes_nothing_into_the_first_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    plan, first = lab_plan(tmp_path, tasks=2), tmp_path / "first"
    with monkeypatch.context() as patched:
        if moment == "before the first capture":
            patched.setattr(retail_capture, "run", stop)
        else:
            play = retail_driver.PairSession.run
            patched.setattr(retail_driver.PairSession, "run", stop_after(play, 1) if moment == "after a pair" else stop)
        with pytest.raises(Stop):
            run(plan, first)
    before, asked = files_of(first), calls(tmp_path)
    copy = copy_of(first, tmp_path / "copy")
    with pytest.raises(InputError, match=r"copy was begun as .*first, .* move it back to go on"):
        run(plan, copy)
    assert (files_of(first), calls(tmp_path)) == (before, asked)
    assert verify(copy).status is VerifyStatus.INTERRUPTED
    assert set(statuses(run(plan, first)).values()) <= {"paired_scored", "interrupted"}
    assert max(calls(tmp_path).values()) == 1
    assert verify(first).status is VerifyStatus.COMPLETE


def test_a_moved_campaign_goes_on_when_it_is_moved_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, first, elsewhere = lab_plan(tmp_path, tasks=2), tmp_path / "first", tmp_path / "elsewhere"
    with monkeypatch.context() as patched:
        patched.setattr(retail_driver.PairSession, "run", stop)
        with pytest.raises(Stop):
            run(plan, first)
    first.rename(elsewhere)
    with pytest.raises(InputError, match="was begun as"):
        run(plan, elsewhere)
    assert not first.exists()
    elsewhere.rename(first)
    assert set(statuses(run(plan, first)).values()) == {"paired_scored"}


def test_a_campaign_whose_pairs_are_all_played_is_sealed_wherever_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, first = lab_plan(tmp_path, tasks=2), tmp_path / "first"
    with monkeypatch.context() as patched:
        patched.setattr("workers.official_arenas.campaign.run._seal", stop)
        with pytest.raises(Stop):
            run(plan, first)
    first.rename(tmp_path / "moved")
    assert set(statuses(run(plan, tmp_path / "moved")).values()) == {"paired_scored"}
    assert verify(tmp_path / "moved").status is VerifyStatus.COMPLETE
