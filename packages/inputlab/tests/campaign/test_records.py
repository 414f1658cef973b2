"""What is lost or exchanged in a campaign before its end is found, and nothing is sealed over it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from campaign_lab import TREATMENT, calls, copy_of, lab_plan, run, statuses

from ripieno.canonical import INDENTED_UNICODE_LINE
from ripieno.errors import IntegrityError
from ripieno.verify import VerifyStatus, verify
from workers.official_arenas.campaign.folder import CampaignFolder
from workers.official_arenas.campaign.plan import CampaignPlan
from workers.official_arenas.campaign.steps import prepare_pairs
from workers.official_arenas.protocol import content_hash
from workers.official_arenas.retail_driver import cell_id

RUN = "workers.official_arenas.campaign.run"


class Stop(BaseException):
    """The end of a process, where a test wants it."""


def stop(*_: object, **__: object) -> None:
    raise Stop


def interrupted(plan: CampaignPlan, out: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> Path:
    """A campaign whose process ended before a step."""
    with monkeypatch.context() as patched:
        if step == "finish":
            patched.setattr(CampaignFolder, "finish", stop)
        else:
            patched.setattr(f"{RUN}.{step}", stop)
        with pytest.raises(Stop):
            run(plan, out)
    assert verify(out).status is VerifyStatus.INTERRUPTED
    return out


def change(path: Path, what: Callable[[Any], Any]) -> None:
    path.write_bytes(INDENTED_UNICODE_LINE.dumps(what(json.loads(path.read_text()))))


def assert_found(plan: CampaignPlan, out: Path, names: str) -> None:
    """Verification names it; the same command refuses to go on, asks nobody and seals nothing."""
    report = verify(out)
    assert report.status is VerifyStatus.TAMPERED
    assert names in report.first_problem
    asked = calls(out.parent)
    with pytest.raises(IntegrityError):
        run(plan, out)
    assert calls(out.parent) == asked
    assert json.loads((out / "events.jsonl").read_text().splitlines()[-1]).get("closing") is None


@pytest.mark.parametrize("lost", [["1.json"], ["1.json", "1-start.json"]])
@pytest.mark.parametrize("step", ["prepare_pairs", "run_pairs", "_seal"])
def test_a_request_that_is_lost_after_the_interventions_is_no_intervention_that_never_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, lost: list[str]
) -> None:
    plan = lab_plan(tmp_path, tasks=3)
    out = interrupted(plan, tmp_path / "out", monkeypatch, step)
    for name in lost:
        (out / "requests" / "lab" / TREATMENT / name).unlink()
    assert_found(plan, out, "requests" if step == "prepare_pairs" else "")


def test_a_pair_that_is_taken_out_of_the_index_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = lab_plan(tmp_path, tasks=3)
    out = interrupted(plan, tmp_path / "out", monkeypatch, "run_pairs")
    change(out / "requests" / "index.json", lambda rows: rows[1:])
    assert_found(plan, out, "requests/index.json lists other pairs than there are requests")


def test_a_pair_that_is_taken_out_with_the_ledger_of_ends_is_no_refused_pair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = lab_plan(tmp_path, tasks=3)
    out = interrupted(plan, tmp_path / "out", monkeypatch, "_seal")
    (out / "cells.jsonl").unlink()
    shutil.rmtree(next((out / "pairs" / "lab").iterdir()))
    assert_found(plan, out, "cells.jsonl is missing")


def other_source(scope: dict[str, Any]) -> dict[str, Any]:
    return {**scope, "provider_source_sha256": "0" * 64}


EXCHANGED: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "the code that played": ("scopes/execution-lab.json", other_source, "execution-lab.json is another one than pair"),
    "the pairs that were allowed": (
        "scopes/execution-lab.json",
        lambda scope: {**scope, "allowed_cell_ids": ["0" * 64]},
        "execution-lab.json allows other pairs",
    ),
    "the code that captured": (
        "scopes/capture-lab.json",
        lambda scope: {**scope, "source_sha256": {}},
        "capture-lab.json is another one than the captures were made under",
    ),
    "the thread of the command": (
        "scopes/execution-lab.json",
        lambda scope: {
            **scope,
            "authorizations": {
                name: {**reference, "thread_id": "another"} for name, reference in scope["authorizations"].items()
            },
        },
        "command.json is another command than scopes/execution-lab.json refers to",
    ),
    "the command": ("command.json", lambda _: {"argv": ["a harmless command"]}, "command.json is another command"),
}


@pytest.mark.parametrize("what", EXCHANGED)
def test_scopes_and_command_are_those_that_the_receipts_were_made_under(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    plan = lab_plan(tmp_path)
    out = interrupted(plan, tmp_path / "out", monkeypatch, "_seal")
    name, other, said = EXCHANGED[what]
    change(out / name, other)
    assert_found(plan, out, said)


@pytest.mark.parametrize("name", ["scopes/execution-lab.json", "scopes/capture-lab.json"])
def test_a_scope_that_is_lost_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    plan = lab_plan(tmp_path)
    out = interrupted(plan, tmp_path / "out", monkeypatch, "_seal")
    (out / name).unlink()
    assert_found(plan, out, f"{name} is missing")


@pytest.mark.parametrize("name", ["capture/other", "pairs/other", "requests/other", f"pairs/lab/{'0' * 64}"])
def test_a_folder_of_other_work_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    plan = lab_plan(tmp_path)
    out = interrupted(plan, tmp_path / "out", monkeypatch, "_seal")
    (out / name).mkdir(mode=0o700)
    assert_found(plan, out, f"{name} was added")


@pytest.mark.parametrize("name", ["results.json", "analysis.json"])
def test_numbers_that_lie_are_found_before_the_log_is_closed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    plan = lab_plan(tmp_path)
    out = interrupted(plan, tmp_path / "out", monkeypatch, "finish")
    (out / name).write_text((out / name).read_text().replace("0.0", "1.0"))
    (out / "campaign.json").unlink()
    assert_found(plan, out, f"{name}: does not follow from the receipts")


def test_a_log_without_its_end_does_not_unseal_a_folder(tmp_path: Path) -> None:
    whole = run(lab_plan(tmp_path), tmp_path / "out").folder
    for name in ("index.html", "results.json", "command.json", "scopes/capture-lab.draft.json"):
        cut = copy_of(whole, tmp_path / "cut")
        lines = (cut / "events.jsonl").read_bytes().splitlines(keepends=True)
        (cut / "events.jsonl").write_bytes(b"".join(lines[:-1]))
        assert verify(cut).status is VerifyStatus.INTERRUPTED
        (cut / name).write_text("{}")
        report = verify(cut)
        assert report.status is VerifyStatus.TAMPERED, name
        shutil.rmtree(cut)


def handicap(envelope: dict[str, Any]) -> dict[str, Any]:
    """The unchanged side has used up half of its budget before it begins."""
    baseline = next(arm for arm in envelope["atomic_request"]["arms"] if arm["role"] == "baseline")
    baseline["payload"]["intervention_execution"]["usage"]["model_calls"] = 4
    fields = {name: item for name, item in envelope.items() if name != "request_hash"}
    return {**fields, "request_hash": content_hash(fields)}


def help_the_treatment(envelope: dict[str, Any]) -> dict[str, Any]:
    """The treatment gets back what its intervention used."""
    treatment = next(arm for arm in envelope["atomic_request"]["arms"] if arm["role"] == "treatment")
    treatment["payload"]["intervention_execution"]["usage"]["cpu_seconds"] = 0.0
    fields = {name: item for name, item in envelope.items() if name != "request_hash"}
    return {**fields, "request_hash": content_hash(fields)}


@pytest.mark.parametrize("forge", [handicap, help_the_treatment])
@pytest.mark.parametrize("step", ["prepare_pairs", "run_pairs"])
def test_a_request_is_played_as_the_intervention_gave_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, forge: Callable[[Any], Any]
) -> None:
    plan = lab_plan(tmp_path)
    out = interrupted(plan, tmp_path / "out", monkeypatch, step)
    change(out / "requests" / "lab" / TREATMENT / "1.json", forge)
    assert_found(plan, out, "")
    assert any("hold another request than the log says was made" in row.detail for row in verify(out).checks)


def in_another_slot(envelope: dict[str, Any]) -> dict[str, Any]:
    """Both sides are of another model slot, so that the pair has another name."""
    for arm in envelope["atomic_request"]["arms"]:
        arm["payload"]["model_slot"] = "another"
    return envelope


@pytest.mark.parametrize("forge", [None, in_another_slot])
def test_the_index_names_the_requests_that_lie_in_the_folder_not_those_that_were_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forge: Callable[[Any], Any] | None
) -> None:
    plan = lab_plan(tmp_path)
    out = interrupted(plan, tmp_path / "out", monkeypatch, "prepare_pairs")
    place = out / "requests" / "lab" / TREATMENT
    if forge is not None:
        change(place / "1.json", forge)
    folder = CampaignFolder.open(out, plan, ["test"])
    try:
        index = prepare_pairs(folder)
    finally:
        folder.release()
    named = {row["task"]: row["cell_id"] for row in index}
    assert named == {task: cell_id(json.loads((place / f"{task}.json").read_text())) for task in named}
    assert len(named) == len(list(place.glob("*-start.json")))


@pytest.mark.parametrize("artifact", ["checkpoints.json", "replays.json"])
@pytest.mark.parametrize("step", ["run_interventions", "run_pairs"])
def test_a_snapshot_that_is_changed_for_a_while_stops_the_campaign_and_burns_no_slot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, artifact: str
) -> None:
    plan = lab_plan(tmp_path)
    out = interrupted(plan, tmp_path / "out", monkeypatch, step)
    file = next((out / "capture" / "lab").glob("inventory-*")) / artifact
    kept = file.read_bytes()
    file.write_bytes(kept.replace(b"visible_state_hash", b"visible_state_hush"))
    asked = calls(tmp_path)
    with pytest.raises(IntegrityError, match=f"inventory of slot lab was changed: {artifact}"):
        run(plan, out)
    assert calls(tmp_path) == asked
    file.write_bytes(kept)
    assert set(statuses(run(plan, out)).values()) == {"paired_scored"}
    assert verify(out).status is VerifyStatus.COMPLETE


def test_every_file_of_a_campaign_without_its_seal_is_bound_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change or loss of any single one is found before there is a seal over all of them."""
    out = interrupted(
        lab_plan(tmp_path, treatments=[TREATMENT, "own.text:add_context=x"]), tmp_path / "out", monkeypatch, "_seal"
    )
    missed: list[str] = []
    for path in sorted(path for path in out.rglob("*") if path.is_file()):
        data = path.read_bytes()
        for place in (0.0, 0.31, 0.5, 0.77, 1.0):
            changed = bytearray(data)
            changed[int(place * (len(data) - 1))] ^= 1
            path.write_bytes(bytes(changed))
            if verify(out).status is not VerifyStatus.TAMPERED:
                missed.append(f"{path.relative_to(out)} at {place}")
        path.unlink()
        if verify(out).status is not VerifyStatus.TAMPERED:
            missed.append(f"{path.relative_to(out)} deleted")
        path.write_bytes(data)
        path.chmod(0o600)
    assert missed == []
    assert verify(out).status is VerifyStatus.INTERRUPTED
