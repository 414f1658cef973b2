"""One test per attack on a ledger, through the verifier that ``ripieno verify`` finds by its entry point."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ledger_lab import Lab, write

from ripieno.canonical import INDENTED_UNICODE_LINE, content_hash
from ripieno.receipts import seal
from ripieno.verify import VerifyReport, VerifyStatus, verify
from workers.official_arenas import retail_driver
from workers.official_arenas.retail_driver import PairSession, RetailAttemptUnavailable
from workers.official_arenas.verification import (
    verify_capture_root,
    verify_cell,
    verify_ledger_root,
    verify_snapshot,
)

Edit = Callable[[Path], None]


def change(name: str, old: bytes, new: bytes) -> Edit:
    def edit(folder: Path) -> None:
        data = (folder / name).read_bytes()
        assert old in data
        (folder / name).write_bytes(data.replace(old, new, 1))

    return edit


def remove(name: str) -> Edit:
    return lambda folder: (folder / name).unlink()


def add(name: str, data: bytes = b"{}\n") -> Edit:
    return lambda folder: void(write(folder / name, data))


def mode(name: str, bits: int) -> Edit:
    return lambda folder: (folder / name).chmod(bits)


def link(name: str) -> Edit:
    def edit(folder: Path) -> None:
        path = folder / name
        path.rename(folder.parent / "aside")
        path.symlink_to(folder.parent / "aside")

    return edit


def rewritten(name: str, edit: Callable[[dict[str, Any]], None], *, sealed: bool = False) -> Edit:
    """An attacker who knows the format and seals again."""

    def rewrite(folder: Path) -> None:
        value = json.loads((folder / name).read_bytes())
        edit(value)
        if sealed:
            del value["receipt_sha256"]
            value = seal(value)
        write(folder / name, value)

    return rewrite


def void(_: object) -> None:
    pass


@pytest.fixture
def cell(paired: Lab) -> Path:
    envelope = paired.envelope(behaviour={"files": True})
    retail_driver.run(envelope, environment=paired.execution_scope(envelope), durable=False)
    return paired.cell(envelope)


def test_each_kind_of_folder_is_recognised_and_complete(paired: Lab, cell: Path) -> None:
    snapshot = next(paired.captures.glob("inventory-*"))
    for path, form, check in (
        (cell, "input-lab pair", verify_cell),
        (cell.parent, "input-lab pair ledger", verify_ledger_root),
        (snapshot, "input-lab inventory", verify_snapshot),
        (paired.captures, "input-lab capture", verify_capture_root),
    ):
        report = verify(path)
        assert (report.format, report.status, report.first_problem) == (form, VerifyStatus.COMPLETE, "")
        assert verify(path, expect=report.digest).ok
        assert verify(path, expect="0" * 64).status is VerifyStatus.TAMPERED
        assert check(path).digest == report.digest
    assert verify(snapshot).digest == snapshot.name.removeprefix("inventory-")


def test_a_copied_folder_verifies_with_the_same_digest(paired: Lab, cell: Path, tmp_path: Path) -> None:
    for source in (cell, cell.parent, paired.captures):
        copy = tmp_path / "copies" / source.name
        shutil.copytree(source, copy, copy_function=shutil.copy2)
        assert (verify(copy).status, verify(copy).digest) == (VerifyStatus.COMPLETE, verify(source).digest)


def problem_after(folder: Path, edit: Edit, check: Callable[[Path], VerifyReport]) -> str:
    edit(folder)
    report = check(folder)
    assert report.status is VerifyStatus.TAMPERED
    assert report.digest == ""
    assert verify(folder).status is VerifyStatus.TAMPERED
    return report.first_problem


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (change("baseline/trace.json", b"parrot", b"Parrot"), "baseline/trace.json: was changed"),
        (change("request.json", b"slot-a", b"slot-b"), "request.json: was changed"),
        (change("response.json", b'"official_reward": 1.0', b'"official_reward": 0.0'), "response.json: was changed"),
        (change("terminal.json", b"paired_scored", b"failed_score."), "terminal.json: was changed"),
        (change("terminal.json", b"{", b"{ "), "terminal.json: was changed"),
        (change("pair-start.json", b'"uid"', b'"uib"'), "pair-start.json: was changed"),
        (remove("pair-start.json"), "pair-start.json: is missing"),
        (remove("request.json"), "request.json: is missing"),
        (remove("response.json"), "response.json: is missing"),
        (remove("treatment/trace.json"), "treatment/trace.json: is missing"),
        (remove("treatment/arm-outcome.json"), "treatment/arm-outcome.json: is missing"),
        (remove("baseline/attempt-start.json"), "baseline/attempt-start.json: is missing"),
        (add("notes.json"), "notes.json: was added"),
        (add("baseline/.trace.json.0123456789abcdef.partial"), "partial: was added"),
        (add(".terminal.json.0123456789abcdef.partial"), "partial: was added"),
        (link("baseline/trace.json"), "baseline/trace.json is a link or a special file"),
        (link("treatment"), "treatment is a link or a special file"),
        (
            rewritten("terminal.json", lambda v: v.update(status="failed_unscored"), sealed=True),
            "terminal.json: does not say what the outcomes of the arms say",
        ),
        (
            rewritten("terminal.json", lambda v: v.update(response_sha256="0" * 64), sealed=True),
            "terminal.json: is of another response.json",
        ),
        (
            rewritten("terminal.json", lambda v: v.update(request_hash="0" * 64), sealed=True),
            "terminal.json: has another request_hash",
        ),
        (
            rewritten("terminal.json", lambda v: v.update(protocol="x"), sealed=True),
            "terminal.json: is of another protocol",
        ),
    ],
)
def test_an_attack_on_a_cell_is_found_and_named(cell: Path, edit: Edit, named: str) -> None:
    assert named in problem_after(cell, edit, verify_cell)


def warning_after(folder: Path, edit: Edit, check: Callable[[Path], VerifyReport]) -> str:
    """What is said of a folder whose bytes are as they were."""
    before = check(folder)
    edit(folder)
    report = check(folder)
    assert (report.status, report.digest) == (before.status, before.digest)
    assert verify(folder).status is VerifyStatus.COMPLETE
    (detail,) = [row.detail for row in report.checks if row.name == "modes"]
    return detail


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (mode("baseline/trace.json", 0o644), "baseline/trace.json has mode 644, not 600"),
        (mode("baseline", 0o755), "baseline has mode 755, not 700"),
        (mode(".", 0o711), "has mode 711, not 700"),
    ],
)
def test_a_mode_that_lets_others_in_is_named_and_spoils_no_evidence(cell: Path, edit: Edit, named: str) -> None:
    detail = warning_after(cell, edit, verify_cell)
    assert detail.startswith("warning: ")
    assert named in detail
    assert f"chmod -R go= {cell}" in detail
    below = [row.detail for row in verify_ledger_root(cell.parent).checks if row.name == "modes"]
    assert len(below) == 1
    assert named in below[0]


def resealed_files(cell: Path) -> None:
    """The attacker lists the changed files again in a terminal with a right seal."""
    terminal = json.loads((cell / "terminal.json").read_bytes())
    terminal["files"] = retail_driver._files(cell)
    if (cell / "response.json").exists():
        terminal["response_sha256"] = content_hash(json.loads((cell / "response.json").read_bytes()))
    del terminal["receipt_sha256"]
    write(cell / "terminal.json", seal(terminal))


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (
            change("response.json", b'"official_reward": 1.0', b'"official_reward": 0.0'),
            "response.json: does not say what the outcomes of the arms say",
        ),
        (change("treatment/trace.json", b"Think", b"Drink"), "treatment/arm-outcome.json: is of another trace"),
        (
            change("baseline/arm-outcome.json", b'"model_calls": 1', b'"model_calls": 0'),
            "arm-outcome.json: was changed",
        ),
        (change("request.json", b"Think", b"Drink"), "request.json: was changed: it does not have its request_hash"),
        (change("pair-start.json", b"release.treatment", b"release.something"), "pair-start.json: is of another pair"),
        (
            remove("treatment/arm-outcome.json"),
            "response.json: does not say what the outcomes of the arms say",
        ),
        (remove("response.json"), "terminal.json: is of another response.json"),
        (
            lambda cell: (cell / "baseline" / "arm-outcome.json").write_bytes(
                (cell / "treatment" / "arm-outcome.json").read_bytes()
            ),
            "baseline/arm-outcome.json: is of another trace",
        ),
    ],
)
def test_sealing_again_does_not_hide_a_contradiction(cell: Path, edit: Edit, named: str) -> None:
    def attack(folder: Path) -> None:
        edit(folder)
        resealed_files(folder)

    assert named in problem_after(cell, attack, verify_cell)


def test_evidence_under_the_name_of_another_pair_is_found(cell: Path) -> None:
    other = cell.with_name("e" * 64)
    cell.rename(other)
    assert "is of another pair than" in verify_cell(other).first_problem


def test_a_copied_pair_in_a_ledger_is_found(paired: Lab, cell: Path) -> None:
    shutil.copytree(cell, cell.with_name("e" * 64))
    assert f"pair {'e' * 64}" in verify_ledger_root(paired.ledger).first_problem


@pytest.mark.parametrize("name", ["notes.txt", "a" * 63])
def test_a_file_added_to_a_ledger_is_named(paired: Lab, cell: Path, name: str) -> None:
    write(paired.ledger / name, b"")
    report = verify(paired.ledger)
    assert (report.status, report.first_problem) == (VerifyStatus.TAMPERED, f"ledger: {name} was added")


def test_interrupted_and_failed_pairs_are_told_apart(paired: Lab) -> None:
    fails = paired.envelope("0", behaviour={"treatment": "boom"})
    with pytest.raises(RetailAttemptUnavailable):
        retail_driver.run(fails, environment=paired.execution_scope(fails), durable=False)
    assert verify(paired.cell(fails)).status is VerifyStatus.FAILED
    assert verify(paired.ledger).status is VerifyStatus.FAILED
    scored = paired.envelope("1")
    with PairSession(paired.execution_scope(scored), durable=False) as session:
        session.run(scored)
    assert verify(paired.ledger).status is VerifyStatus.FAILED
    empty = paired.ledger / ("0" * 64)
    empty.mkdir(mode=0o700)
    for path in (empty, paired.ledger):
        assert verify(path).status is VerifyStatus.INTERRUPTED
    (paired.cell(scored) / "terminal.json").unlink()
    assert verify(paired.cell(scored)).status is VerifyStatus.INTERRUPTED
    write(empty / "request.json", b"{}\n")
    assert "pair-start.json: is missing" in verify(paired.ledger).first_problem


# --- captures -----------------------------------------------------------------------------------------------


def in_snapshot(edit: Callable[[str], Edit]) -> Edit:
    def apply(folder: Path) -> None:
        edit(next(folder.glob("inventory-*")).name)(folder)

    return apply


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (change("first-capture-1.json", b"parrot", b"Parrot"), "first-capture-1.json: was changed"),
        (change("first-capture-1.json", b"{", b"{ "), "first-capture-1.json: was changed"),
        (
            change("first-capture-1-start.json", b'"attempt": 1', b'"attempt": 2'),
            "first-capture-1-start.json: was chang",
        ),
        (remove("first-capture-1.json"), "first-capture-1.json: is missing"),
        (remove("first-capture-1-start.json"), "first-capture-1-start.json: is missing"),
        (add("first-capture-9.json"), "first-capture-9.json: was changed"),
        (add("first-capture-x.json"), "first-capture-x.json was added"),
        (link("first-capture-1.json"), "first-capture-1.json is a link or a special file"),
        (in_snapshot(lambda name: remove(f"{name}/replays.json")), "replays.json: is missing"),
        (in_snapshot(lambda name: remove(f"{name}/dispositions.json")), "dispositions.json: is missing"),
        (in_snapshot(lambda name: add(f"{name}/more.json")), "more.json: was added"),
        (in_snapshot(lambda name: change(f"{name}/replays.json", b"parrot", b"Parrot")), "replays.json: was changed"),
        (in_snapshot(lambda name: change(f"{name}/units.json", b'"0"', b'"5"')), "units.json: was changed"),
        (in_snapshot(link), "is a link or a special file"),
    ],
)
def test_an_attack_on_a_capture_root_is_found_and_named(lab: Lab, edit: Edit, named: str) -> None:
    lab.capture()
    assert named in problem_after(lab.captures, edit, verify_capture_root)


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (mode("first-capture-1.json", 0o640), "first-capture-1.json has mode 640, not 600"),
        (in_snapshot(lambda name: mode(name, 0o750)), "has mode 750, not 700"),
    ],
)
def test_a_mode_in_a_capture_root_is_named_and_spoils_no_evidence(lab: Lab, edit: Edit, named: str) -> None:
    lab.capture()
    assert named in warning_after(lab.captures, edit, verify_capture_root)


def test_a_snapshot_that_others_can_change_is_refused_where_it_is_to_be_used(lab: Lab) -> None:
    lab.capture()
    snapshot = next(lab.captures.glob("inventory-*"))
    assert verify_snapshot(snapshot, require_private=True).status is VerifyStatus.COMPLETE
    (snapshot / "units.json").chmod(0o644)
    report = verify_snapshot(snapshot, require_private=True)
    assert (report.status, report.first_problem) == (
        VerifyStatus.TAMPERED,
        "modes: units.json has mode 644, not 600",
    )
    assert verify_snapshot(snapshot).status is VerifyStatus.COMPLETE


def renamed_snapshot(snapshot: Path, edit: Callable[[dict[str, Any], dict[str, Any]], None]) -> Path:
    """The attacker computes every hash again, the name of the folder too."""
    document = json.loads((snapshot / "dispositions.json").read_bytes())
    artifacts = {path.name: json.loads(path.read_bytes()) for path in snapshot.iterdir() if path.name[0] != "d"}
    edit(document, artifacts)
    document["inventory_content_sha256"] = {name: content_hash(value) for name, value in artifacts.items()}
    other = snapshot.with_name(f"inventory-{content_hash(document)}")
    snapshot.rename(other)
    for path in list(other.iterdir()):
        path.unlink()
    for name, value in {**artifacts, "dispositions.json": document}.items():
        write(other / name, INDENTED_UNICODE_LINE.dumps(value))
    return other


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (lambda d, _: d["expected_task_ids"].pop(), "dispositions.json: counts other tasks than it lists"),
        (lambda d, _: d.update(expected_denominator=2), "dispositions.json: counts other tasks than it lists"),
        (lambda d, _: d["receipt_files"].popitem(), "dispositions.json: counts other tasks than it lists"),
        (lambda d, _: d["dispositions"][0].pop("status"), "dispositions.json: is malformed: KeyError"),
        (lambda _, a: a["units.json"].reverse(), "checkpoints.json: holds other checkpoints than were captured"),
        (
            lambda _, a: a["checkpoints.json"]["checkpoints"][0]["visible_state"].update(query="x"),
            "checkpoints.json: the visible state of 0 has another hash",
        ),
        (
            lambda _, a: a["replays.json"]["records"][0]["protected"].update(history=[]),
            "replays.json: Replay inventory origin_state_hash differs from the protected content",
        ),
        (lambda _, a: a.pop("units.json"), "dispositions.json: lists other artifacts"),
    ],
)
def test_naming_a_snapshot_again_does_not_hide_a_contradiction(lab: Lab, edit: Any, named: str) -> None:
    snapshot = renamed_snapshot(lab.capture()["snapshot"], edit)
    assert named in verify(snapshot).first_problem
    assert verify(lab.captures).status is VerifyStatus.TAMPERED


def test_a_snapshot_of_receipts_that_say_something_else_is_found(lab: Lab) -> None:
    snapshot = lab.capture()["snapshot"]
    renamed_snapshot(snapshot, lambda d, _: d["dispositions"][0].update(receipt_sha256="0" * 64))
    assert "says of task 0 what its receipt does not" in verify(lab.captures).first_problem


def test_failed_and_unresolved_captures_are_told_apart(lab: Lab) -> None:
    lab.behaviour["fail"] = ["1"]
    snapshot = lab.capture()["snapshot"]
    assert verify(lab.captures).status is verify(snapshot).status is VerifyStatus.FAILED
    shutil.rmtree(snapshot)
    assert verify(lab.captures).status is VerifyStatus.INTERRUPTED
    (lab.captures / "first-capture-2.json").unlink()
    again = lab.capture()["snapshot"]
    assert verify(lab.captures).status is verify(again).status is VerifyStatus.INTERRUPTED


def test_what_an_interrupted_write_leaves_is_no_evidence_and_no_attack(lab: Lab) -> None:
    lab.capture()
    digest = verify(lab.captures).digest
    write(lab.captures / ".first-capture-3.json.0123456789abcdef.partial", b'{"half')
    hidden = lab.captures / f".inventory-{'a' * 64}.0123456789abcdef.partial"
    hidden.mkdir(mode=0o700)
    write(hidden / "units.json", b"[")
    assert (verify(lab.captures).status, verify(lab.captures).digest) == (VerifyStatus.COMPLETE, digest)


def test_other_folders_are_left_to_other_verifiers(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    write(tmp_path / "plain" / "file.json", b"{}")
    (tmp_path / "hashes" / ("a" * 64)).mkdir(parents=True)
    write(tmp_path / "hashes" / ("a" * 64) / "blob", b"")
    for name in ("plain", "hashes", "plain/file.json"):
        assert verify(tmp_path / name).status is VerifyStatus.NOT_A_RUN
