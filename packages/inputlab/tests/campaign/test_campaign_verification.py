"""`ripieno verify` on the folder of a campaign: every change of it is found and named."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from campaign_lab import copy_of, invoke, lab_plan, run

from ripieno.canonical import INDENTED_UNICODE_LINE
from ripieno.chain import ChainWriter, walk_chain
from ripieno.cli import main as ripieno_main
from ripieno.receipts import seal
from ripieno.verify import VerifyReport, VerifyStatus, verify
from workers.official_arenas.protocol import content_hash

CHAINS = ("events.jsonl", "cells.jsonl")
PUBLIC = {
    "analysis.json",
    "campaign.json",
    "cells.jsonl",
    "environment.json",
    "events.jsonl",
    "index.html",
    "results.json",
}
"""What holds identities, counts and scores only, and may be shown to anybody."""


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign with every kind of receipt: scored, failed arms, failed capture, failed intervention."""
    folder = tmp_path_factory.mktemp("sealed")
    plan = lab_plan(
        folder,
        tasks=3,
        treatments=["own.text:append_instruction=be brief", "plan.plan_and_solve.plan_call"],
        fail_capture=["0"],
        fail_treatment=["1"],
        solve_treatment=["2"],
    )
    return run(plan, folder / "out").folder


@pytest.fixture
def folder(sealed: Path, tmp_path: Path) -> Path:
    return copy_of(sealed, tmp_path / "copy")


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def said(report: VerifyReport) -> str:
    return " ".join(f"{row.name}: {row.detail}" for row in report.checks if not row.ok)


def unfound(root: Path, change: Callable[[Path], object], undo: Callable[[Path, bytes], None]) -> list[str]:
    """Change every file in turn; give those whose change is not found, or found without naming the file."""
    missed: list[str] = []
    for name in files(root):
        path = root / name
        data = path.read_bytes()
        change(path)
        report = verify(root)
        if report.ok or report.status is not VerifyStatus.TAMPERED or path.name not in said(report):
            missed.append(f"{name}: {report.status}: {said(report)[:160]}")
        undo(path, data)
    assert verify(root).status is VerifyStatus.COMPLETE
    return missed


def restore(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    path.chmod(0o600)


def flip(place: float) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[int(place * (len(data) - 1))] ^= 1
        path.write_bytes(bytes(data))

    return change


def test_an_untouched_campaign_is_complete_wherever_it_lies(sealed: Path, folder: Path) -> None:
    first, second = verify(sealed), verify(folder)
    assert (first.status, first.first_problem) == (VerifyStatus.COMPLETE, "")
    assert first.digest == second.digest == json.loads((folder / "campaign.json").read_text())["receipt_sha256"]
    kinds = {name.split("/")[0] for name in files(folder)}
    assert {"capture", "pairs", "requests", "scopes", "plan.json", "index.html"} <= kinds


@pytest.mark.parametrize("place", [0.0, 0.37, 0.5, 0.81, 1.0])
def test_a_flipped_bit_anywhere_in_any_file_is_found_and_the_file_is_named(folder: Path, place: float) -> None:
    assert unfound(folder, flip(place), restore) == []


def test_a_flipped_bit_in_a_chain_is_found_at_its_line(folder: Path) -> None:
    for name in CHAINS:
        path = folder / name
        lines = path.read_bytes().splitlines(keepends=True)
        for number in range(1, len(lines) + 1):
            changed = bytearray(lines[number - 1])
            changed[len(changed) // 2] ^= 1
            path.write_bytes(b"".join([*lines[: number - 1], bytes(changed), *lines[number:]]))
            report = verify(folder)
            assert report.status is VerifyStatus.TAMPERED
            wanted = f"events.jsonl: line {number} " if name == "events.jsonl" else "cells.jsonl"
            assert wanted in said(report), said(report)
        path.write_bytes(b"".join(lines))


def test_every_deleted_file_is_found_and_named(folder: Path) -> None:
    missed = unfound(folder, Path.unlink, restore)
    assert missed == []


def test_every_emptied_file_is_found_and_named(folder: Path) -> None:
    assert unfound(folder, lambda path: path.write_bytes(b""), restore) == []


def test_a_file_that_is_a_link_is_found_and_named_although_its_bytes_are_the_same(folder: Path, tmp_path: Path) -> None:
    def swap(path: Path) -> None:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.unlink(missing_ok=True)
        path.rename(elsewhere)
        path.symlink_to(elsewhere)

    assert unfound(folder, swap, restore) == []


def warned(report: VerifyReport) -> str:
    """What a report says of modes; they spoil nothing."""
    assert (report.status, report.first_problem) == (VerifyStatus.COMPLETE, "")
    (row,) = [row for row in report.checks if row.name == "modes"]
    return row.detail if row.detail.startswith("warning: ") else ""


def test_a_file_that_is_open_to_others_is_found_and_named(folder: Path) -> None:
    unnamed: set[str] = set()
    for name in files(folder):
        (folder / name).chmod(0o644)
        if f"{name} has mode 644, not 600" not in warned(verify(folder)):
            unnamed.add(name)
        (folder / name).chmod(0o600)
    assert unnamed == PUBLIC
    assert warned(verify(folder)) == ""


def test_a_folder_that_is_open_to_others_is_found(folder: Path) -> None:
    for path in [path for path in folder.rglob("*") if path.is_dir()]:
        path.chmod(0o755)
        assert f"{path.relative_to(folder)} has mode 755, not 700" in warned(verify(folder)), path
        path.chmod(0o700)


def through_git(source: Path, target: Path) -> None:
    origin = target.parent / "origin"
    shutil.copytree(source, origin / "run")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "a run"]):
        subprocess.run([*git, *words], cwd=origin, check=True)
    subprocess.run([*git, "clone", "-q", str(origin), str(target.parent / "clone")], check=True)
    (target.parent / "clone" / "run").rename(target)


def through_an_archive(source: Path, target: Path) -> None:
    shutil.unpack_archive(shutil.make_archive(str(target.parent / "packed"), "zip", source), target)


def without_modes(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-r", "--no-preserve=mode", str(source), str(target)], check=True)


@pytest.mark.parametrize("carry", [through_git, through_an_archive, without_modes])
def test_a_folder_whose_modes_were_lost_on_the_way_verifies_and_says_how_to_close_it(
    sealed: Path, tmp_path: Path, carry: Callable[[Path, Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    arrived = tmp_path / "arrived"
    carry(sealed, arrived)
    assert files(arrived) == files(sealed)
    report = verify(arrived)
    assert f"To close it to others: chmod -R go= {arrived}" in warned(report)
    assert report.digest == verify(sealed).digest
    done = invoke("campaign", "verify", arrived)
    assert (done.exit_code, done.stdout.splitlines()[0].split(":")[0]) == (0, "complete")
    assert f"chmod -R go= {arrived}" in done.stderr
    with pytest.raises(SystemExit) as end:
        ripieno_main(["verify", str(arrived)])
    assert end.value.code == 0
    assert f"chmod -R go= {arrived}" in capsys.readouterr().out
    subprocess.run(["chmod", "-R", "go=", str(arrived)], check=True)
    assert warned(verify(arrived)) == ""


def test_a_link_among_the_receipts_of_a_campaign_that_has_no_seal_yet_is_found(folder: Path) -> None:
    (folder / "campaign.json").unlink()
    events = (folder / "events.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "events.jsonl").write_bytes(b"".join(events[:-1]))
    assert verify(folder).status is VerifyStatus.INTERRUPTED
    (folder / "requests" / "aside").symlink_to(folder / "plan.json")
    assert "requests/aside is a link" in said(verify(folder))


def test_a_file_that_was_added_is_found_and_named(folder: Path) -> None:
    for place in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
        path = place / "added.json"
        path.write_text("{}")
        path.chmod(0o600)
        report = verify(folder)
        assert report.status is VerifyStatus.TAMPERED
        assert "added.json" in said(report)
        path.unlink()


def test_two_receipts_that_change_places_are_found(folder: Path) -> None:
    names = [name for name in files(folder) if name.endswith("arm-outcome.json")]
    first, second = (folder / name for name in names[:2])
    aside = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(aside)
    report = verify(folder)
    assert report.status is VerifyStatus.TAMPERED
    assert "arm-outcome.json" in said(report)


def reseal(folder: Path) -> None:
    """What somebody with the code would do after a change: list the files again, seal, and write the log again."""
    from ripieno.files import inventory

    old = json.loads((folder / "campaign.json").read_text())
    fields = {name: item for name, item in old.items() if name != "receipt_sha256"}
    fields["files"] = {
        record.path: record.sha256
        for record in inventory(folder)
        if record.path not in ("campaign.json", "events.jsonl")
    }
    for name in ("results", "analysis"):
        fields[f"{name}_sha256"] = content_hash(json.loads((folder / f"{name}.json").read_text()))
    again = seal(fields)
    (folder / "campaign.json").write_bytes(INDENTED_UNICODE_LINE.dumps(again))
    payloads = [dict(entry.payload) for entry in walk_chain(folder / "events.jsonl") if not entry.closing]
    (folder / "events.jsonl").unlink()
    chain = ChainWriter(folder / "events.jsonl")
    for payload in payloads:
        chain.append(payload)
    chain.close({"event": "complete", "receipt_sha256": again["receipt_sha256"]})


def test_resealing_an_unchanged_campaign_verifies(folder: Path) -> None:
    """Otherwise the two tests below would find the sealing and not the lie."""
    reseal(folder)
    assert verify(folder).status is VerifyStatus.COMPLETE


def test_results_and_analysis_that_agree_with_each_other_but_not_with_the_receipts_are_found(folder: Path) -> None:
    from workers.official_arenas.campaign.collect import collect_rows
    from workers.official_arenas.campaign.folder import read_json
    from workers.official_arenas.campaign.plan import parse_plan
    from workers.official_arenas.campaign.results import ArmResult, PairResult, PairStatus, analyse

    plan = parse_plan(read_json(folder / "plan.json"))
    solved = ArmResult("terminal_success", 1.0, 1.0, 0.0, {}, "f" * 64)
    lost = ArmResult("terminal_success", 0.0, 0.0, 0.0, {}, "f" * 64)
    rows = [
        PairResult(row.slot, row.treatment, row.task_id, PairStatus.PAIRED, row.cell_id, "success", lost, solved)
        for row in collect_rows(folder, plan)
    ]
    (folder / "results.json").write_bytes(INDENTED_UNICODE_LINE.dumps([row.as_dict() for row in rows]))
    (folder / "analysis.json").write_bytes(INDENTED_UNICODE_LINE.dumps(analyse(plan, rows)))
    reseal(folder)
    report = verify(folder)
    assert report.status is VerifyStatus.TAMPERED
    assert "results.json: does not follow from the receipts" in said(report)
    assert "analysis.json: does not follow from the receipts" in said(report)


def test_results_of_verified_ledgers_are_those_that_reading_the_receipts_again_gives(folder: Path) -> None:
    from workers.official_arenas.campaign.collect import collect_rows
    from workers.official_arenas.campaign.folder import read_events, read_json
    from workers.official_arenas.campaign.plan import parse_plan
    from workers.official_arenas.campaign.results import PairStatus
    from workers.official_arenas.campaign.verification import _check_receipts

    plan, events = parse_plan(read_json(folder / "plan.json")), read_events(folder / "events.jsonl")
    rows = collect_rows(folder, plan)
    ended = {
        (row.slot, row.treatment, row.task_id): row
        for row in rows
        if row.status in (PairStatus.PAIRED, PairStatus.ARM_FAILED)
    }
    assert ended
    assert _check_receipts(folder, plan, events, []) == ended
    assert collect_rows(folder, plan, ended) == rows


def test_a_result_of_another_ledger_is_not_taken_for_that_of_the_indexed_one(folder: Path) -> None:
    from dataclasses import replace

    from workers.official_arenas.campaign.collect import collect_rows
    from workers.official_arenas.campaign.folder import read_json
    from workers.official_arenas.campaign.plan import parse_plan

    plan = parse_plan(read_json(folder / "plan.json"))
    rows = collect_rows(folder, plan)
    foreign = {
        (row.slot, row.treatment, row.task_id): replace(row, cell_id="0" * 64, intervention_status="no_op")
        for row in rows
    }
    assert collect_rows(folder, plan, foreign) == rows


def test_a_page_has_the_figures_that_laying_them_out_while_they_are_written_gives(folder: Path) -> None:
    from ripieno.report import figure_to_svg
    from workers.official_arenas.campaign.collect import collect_rows
    from workers.official_arenas.campaign.figures import difference_figure, laid_out_for_page, task_figure
    from workers.official_arenas.campaign.folder import read_json
    from workers.official_arenas.campaign.plan import parse_plan

    plan = parse_plan(read_json(folder / "plan.json"))
    rows, comparisons = collect_rows(folder, plan), read_json(folder / "analysis.json")["comparisons"]
    for draw in (lambda: task_figure(plan, rows), lambda: difference_figure(comparisons)):
        assert figure_to_svg(laid_out_for_page(draw())) == figure_to_svg(draw())


def test_a_pair_that_was_taken_out_everywhere_but_in_the_plan_is_found(folder: Path) -> None:
    index = json.loads((folder / "requests" / "index.json").read_text())
    row = index[0]
    shutil.rmtree(folder / "pairs" / row["slot"] / row["cell_id"])
    reseal(folder)
    report = verify(folder)
    assert report.status is VerifyStatus.TAMPERED
    assert "its ledger is missing" in said(report)


def test_a_digest_that_was_noted_elsewhere_tells_a_resealed_folder_apart(sealed: Path, folder: Path) -> None:
    noted = verify(sealed).digest
    plan = folder / "command.json"
    plan.write_bytes(INDENTED_UNICODE_LINE.dumps({"argv": ["another command"]}))
    reseal(folder)
    assert not verify(folder, expect=noted).ok
    assert verify(sealed, expect=noted).ok


@pytest.mark.parametrize("name", ["campaign.json", "plan.json", "events.jsonl", "results.json"])
def test_both_verifying_commands_say_the_same_and_exit_1(
    folder: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flip(0.5)(folder / name)
    for result in (
        invoke("campaign", "verify", folder),
        invoke("campaign", "verify", folder, "--json"),
    ):
        assert result.exit_code == 1
        assert name in result.output
    with pytest.raises(SystemExit) as end:
        ripieno_main(["verify", str(folder)])
    assert end.value.code == 1
    assert name in capsys.readouterr().out


def test_analyze_derives_the_same_again_and_writes_nothing(folder: Path) -> None:
    before = {name: (folder / name).stat().st_mtime_ns for name in files(folder)}
    done = invoke("campaign", "analyze", folder, "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout) == json.loads((folder / "analysis.json").read_text())
    assert {name: (folder / name).stat().st_mtime_ns for name in files(folder)} == before


@pytest.mark.parametrize("command", ["analyze", "export"])
def test_nothing_is_said_about_receipts_that_were_changed(folder: Path, command: str) -> None:
    path = next(folder.glob("pairs/*/*/response.json"))
    path.write_bytes(path.read_bytes().replace(b'"terminal_success": 0.0', b'"terminal_success": 1.0'))
    done = invoke("campaign", command, folder)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "does not verify: " in done.stderr
    assert "response.json" in done.stderr
