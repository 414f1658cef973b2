"""The attack list: what somebody could do to a log afterwards, and the line that gives it away."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from audit_runs import compact, drive, judged, lines_of, rechain, records_of, replayed, sha256, stored

from ripieno.errors import IntegrityError
from ripieno.verify import VerifyReport, VerifyStatus
from scpn_phase_orchestrator.runtime.audit_logger import AuditLogger
from scpn_phase_orchestrator.runtime.replay import ReplayEngine

NEWLINE = b"\n"


def tampered(path: Path, line: int) -> VerifyReport:
    report = judged(path)
    assert report.status is VerifyStatus.TAMPERED, report
    assert report.first_problem.startswith(f"line {line} ") or report.first_problem.startswith(f"line {line}:"), report
    return report


def write_lines(path: Path, lines: list[bytes]) -> None:
    path.write_bytes(b"".join(lines))


def edit_line(path: Path, number: int, change: Callable[[dict[str, Any]], None]) -> None:
    """Change one record in place, its hashes left as they are."""
    lines, record = lines_of(path), records_of(path)[number - 1]
    change(record)
    write_lines(path, [*lines[: number - 1], stored(record), *lines[number:]])


def places(record: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(record, dict | list) and record:
        keys = record if isinstance(record, dict) else range(len(record))
        return [place for key in keys for place in places(record[key], (*at, key))]
    return [at]


def flipped(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return value + 1e-9 if value != value + 1e-9 else value * 2 + 1.0
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return ("1" if value[:1] != "1" else "2") + value[1:]
    return "other"


def test_flipped_value_in_every_field(closed_log: Path) -> None:
    whole = closed_log.read_bytes()
    for number, record in enumerate(records_of(closed_log), start=1):
        for place in places(record):

            def change(record: dict[str, Any], place: tuple[Any, ...] = place) -> None:
                target: Any = record
                for key in place[:-1]:
                    target = target[key]
                target[place[-1]] = flipped(target[place[-1]])

            edit_line(closed_log, number, change)
            tampered(closed_log, number)
            closed_log.write_bytes(whole)


def test_flipped_bit_anywhere(closed_log: Path) -> None:
    whole = closed_log.read_bytes()
    choose = random.Random(1)
    for _ in range(400):
        place = choose.randrange(len(whole))
        closed_log.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << choose.randrange(8)]) + whole[place + 1 :])
        assert judged(closed_log).status is VerifyStatus.TAMPERED, place


def test_flipped_bit_in_the_last_whole_line_of_an_open_log(open_log: Path) -> None:
    whole = open_log.read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    for place in range(start, len(whole)):
        open_log.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert judged(open_log).status is VerifyStatus.TAMPERED, place


def test_swapped_lines(closed_log: Path) -> None:
    lines = lines_of(closed_log)
    lines[3], lines[4] = lines[4], lines[3]
    write_lines(closed_log, lines)
    tampered(closed_log, 4)


def test_deleted_line(closed_log: Path) -> None:
    lines = lines_of(closed_log)
    for number in range(len(lines) - 1):
        write_lines(closed_log, lines[:number] + lines[number + 1 :])
        tampered(closed_log, number + 1)


def test_duplicated_line(closed_log: Path) -> None:
    lines = lines_of(closed_log)
    for number in range(len(lines) - 1):
        write_lines(closed_log, lines[: number + 1] + lines[number:])
        tampered(closed_log, number + 2)


def test_truncated_at_every_byte_of_the_last_lines(closed_log: Path) -> None:
    whole, lines = closed_log.read_bytes(), lines_of(closed_log)
    for length in range(len(whole) - len(lines[-1]) - len(lines[-2]), len(whole)):
        closed_log.write_bytes(whole[:length])
        report = judged(closed_log)
        assert report.status is VerifyStatus.INTERRUPTED, length
        assert f"{whole.count(NEWLINE, 0, length)} records" in report.checks[0].detail


def test_removed_closing_record(closed_log: Path) -> None:
    write_lines(closed_log, lines_of(closed_log)[:-1])
    assert judged(closed_log).status is VerifyStatus.INTERRUPTED
    assert ReplayEngine(closed_log).verify().to_record()["status"] == "interrupted"


def test_appended_record_after_closing(closed_log: Path) -> None:
    records = records_of(closed_log)
    closed_log.write_bytes(rechain([*records, records[-2]]))
    assert "closing" in tampered(closed_log, 11).first_problem


def test_appended_half_line_after_closing(closed_log: Path) -> None:
    write_lines(closed_log, [*lines_of(closed_log), b'{"_audit_mo'])
    tampered(closed_log, 11)


def test_closing_record_moved_forward(closed_log: Path) -> None:
    records = records_of(closed_log)
    closed_log.write_bytes(rechain([*records[:5], records[-1]]))
    assert "counts 9 records" in tampered(closed_log, 6).first_problem


def test_closing_record_that_claims_another_outcome(closed_log: Path) -> None:
    records = records_of(closed_log)
    records[-1]["closing"]["status"] = "perfect"
    closed_log.write_bytes(rechain(records))
    tampered(closed_log, 10)


def test_removed_hash(closed_log: Path) -> None:
    edit_line(closed_log, 4, lambda record: record.pop("_hash"))
    assert "_hash" in tampered(closed_log, 4).first_problem
    replay = replayed(closed_log)
    assert replay.verify_integrity(replay.load()) == (False, 3)


def test_removed_hashes_of_all_records(closed_log: Path) -> None:
    records = [{key: record[key] for key in record if not key.startswith("_")} for record in records_of(closed_log)]
    write_lines(closed_log, [stored(record) for record in records])
    replay = replayed(closed_log)
    assert replay.verify_integrity(replay.load()) == (False, 0)
    tampered(closed_log, 1)


def test_rewritten_chain_without_key_keeps_its_digest_from_being_pinned(closed_log: Path) -> None:
    before = judged(closed_log).digest
    records = records_of(closed_log)
    records[3]["zeta"] = 0.2
    closed_log.write_bytes(rechain(records))
    assert judged(closed_log).status is VerifyStatus.COMPLETE
    assert judged(closed_log).digest != before


def test_rewritten_chain_does_not_survive_execution(closed_log: Path) -> None:
    records = records_of(closed_log)
    records[3]["zeta"] = 0.2
    closed_log.write_bytes(rechain(records))
    report = judged(closed_log, reexecute=True)
    assert report.status is VerifyStatus.TAMPERED
    assert report.first_problem.startswith("line 4: step 2 claims order parameters")


def test_rewritten_order_parameter_does_not_survive_execution(closed_log: Path) -> None:
    records = records_of(closed_log)
    records[6]["layers"][1]["R"] += 1e-9
    closed_log.write_bytes(rechain(records))
    assert judged(closed_log, reexecute=True).status is VerifyStatus.TAMPERED


@pytest.fixture
def signed_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPO_AUDIT_KEY", "secret")
    with AuditLogger(tmp_path / "signed") as log:
        drive(log)
    return tmp_path / "signed"


def test_rechained_under_a_key(signed_log: Path) -> None:
    records = records_of(signed_log)
    records[3]["zeta"] = 0.2
    signed_log.write_bytes(rechain(records))
    assert "signature" in tampered(signed_log, 4).first_problem


def test_rechained_with_the_wrong_key(signed_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPO_AUDIT_KEY", "other")
    assert "not configured" in tampered(signed_log, 1).first_problem
    assert replayed(signed_log).verify_integrity(replayed(signed_log).load()) == (False, 0)
    with AuditLogger(tmp_path / "forged") as log:
        drive(log)
    monkeypatch.setenv("SPO_AUDIT_KEY", "secret")
    tampered(tmp_path / "forged", 1)


def test_signature_stripped(signed_log: Path) -> None:
    records = records_of(signed_log)
    for record in records:
        for name in [name for name in record if name.startswith("_audit") or name == "_signature"]:
            del record[name]
        record["_audit_mode"] = "unsigned-development"
    signed_log.write_bytes(rechain(records))
    assert "not signed" in tampered(signed_log, 1).first_problem


def test_signature_of_another_record(signed_log: Path) -> None:
    records = records_of(signed_log)
    records[3]["_signature"] = records[4]["_signature"]
    signed_log.write_bytes(rechain(records))
    tampered(signed_log, 4)


def test_other_time_under_the_signature(signed_log: Path) -> None:
    records = records_of(signed_log)
    records[3]["_audit_timestamp_unix_ns"] += 1
    signed_log.write_bytes(rechain(records))
    tampered(signed_log, 4)


def test_extra_metadata_that_no_hash_of_the_payload_covers(closed_log: Path) -> None:
    records = records_of(closed_log)
    records[3]["_audit_note"] = "trust me"
    closed_log.write_bytes(rechain(records))
    assert "_audit_note" in tampered(closed_log, 4).first_problem


def test_duplicate_json_keys(closed_log: Path) -> None:
    lines = lines_of(closed_log)
    lines[3] = lines[3].replace(b'"zeta": 0.1', b'"zeta": 0.1, "zeta": 0.1')
    write_lines(closed_log, lines)
    tampered(closed_log, 4)
    with pytest.raises(ValueError, match="line 4: JSON object has the key 'zeta' twice"):
        ReplayEngine(closed_log).load()


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
def test_nan(number: bytes, closed_log: Path) -> None:
    lines = lines_of(closed_log)
    lines[3] = lines[3].replace(b'"zeta": 0.1', b'"zeta": ' + number)
    write_lines(closed_log, lines)
    tampered(closed_log, 4)
    with pytest.raises(ValueError, match="line 4"):
        ReplayEngine(closed_log).load()


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("another spelling of a number", b'"zeta": 0.1}', b'"zeta": 0.10}'),
        ("a space more", b'"zeta": 0.1', b'"zeta":  0.1'),
        ("an escape for a plain character", b'"nominal"', b'"\\u006eominal"'),
        ("carriage return", b"}\n", b"}\r\n"),
        ("bytes after the record", b"}\n", b"} x\n"),
        ("keys in another order", b'"ts": ', b'"tt": '),
        ("raw UTF-8 in place of an escape", b'"zeta": 0.1', b'"zet\xc3\xa4": 0.1'),
    ],
)
def test_same_record_written_otherwise(name: str, old: bytes, new: bytes, closed_log: Path) -> None:
    lines = lines_of(closed_log)
    changed = lines[3].replace(old, new)
    assert changed != lines[3], name
    write_lines(closed_log, [*lines[:3], changed, *lines[4:]])
    tampered(closed_log, 4)


def test_line_of_20_megabytes(closed_log: Path) -> None:
    lines = lines_of(closed_log)
    write_lines(closed_log, [*lines[:3], b'{"a": "' + b"x" * 20_000_000 + b'"}\n', *lines[3:]])
    tampered(closed_log, 4)


def test_line_of_70_megabytes(closed_log: Path) -> None:
    lines = lines_of(closed_log)
    write_lines(closed_log, [*lines[:3], b"x" * 70_000_000, b"\n", *lines[3:]])
    assert "longer than" in tampered(closed_log, 4).first_problem
    with pytest.raises(ValueError, match="line 4"):
        ReplayEngine(closed_log).load()


def test_deep_nesting(closed_log: Path) -> None:
    lines = lines_of(closed_log)
    write_lines(closed_log, [*lines[:3], b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n", *lines[3:]])
    tampered(closed_log, 4)
    with pytest.raises(ValueError, match="line 4"):
        ReplayEngine(closed_log).load()


def test_bytes_that_are_not_utf_8(closed_log: Path) -> None:
    lines = lines_of(closed_log)
    lines[3] = lines[3].replace(b"nominal", b"nomin\xff\xfe", 1)
    write_lines(closed_log, lines)
    tampered(closed_log, 4)
    with pytest.raises(ValueError, match=r"line 4.*UTF-8"):
        ReplayEngine(closed_log).load()


@pytest.mark.parametrize("text", [b"[1]", b"3", b'"text"', b"null", b"", b"\0"])
def test_line_that_is_no_object(text: bytes, closed_log: Path) -> None:
    lines = lines_of(closed_log)
    write_lines(closed_log, [*lines[:3], text + b"\n", *lines[3:]])
    tampered(closed_log, 4)
    with pytest.raises(ValueError, match="line 4"):
        ReplayEngine(closed_log).load()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("no layers", lambda record: record.pop("layers")),
        ("layers of text", lambda record: record.update(layers="x")),
        ("layer without R", lambda record: record["layers"][0].pop("R")),
        ("boolean R", lambda record: record["layers"][0].update(R=True)),
        ("no actions", lambda record: record.pop("actions")),
        ("action without a reason", lambda record: record.update(actions=[{"knob": "K"}])),
        ("regime of another type", lambda record: record.update(regime=3)),
        ("decided regime of another type", lambda record: record.update(regime_decided=None)),
        ("step of another type", lambda record: record.update(step="3")),
        ("no stability", lambda record: record.pop("stability")),
    ],
)
def test_step_record_that_is_none(name: str, change: Callable[[dict[str, Any]], None], closed_log: Path) -> None:
    records = records_of(closed_log)
    change(records[3])
    closed_log.write_bytes(rechain(records))
    assert "a step record must have" in tampered(closed_log, 4).first_problem


@pytest.mark.parametrize("r", [1.5e308, 1.1, -0.1])
def test_an_order_parameter_that_is_none(r: float, closed_log: Path) -> None:
    records = records_of(closed_log)
    records[3]["layers"][0]["R"] = r
    closed_log.write_bytes(rechain(records))
    assert "R of a layer must be between 0 and 1" in tampered(closed_log, 4).first_problem


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("phases of text", lambda record: record.update(phases="x")),
        ("too few phases", lambda record: record.update(phases=[1.0])),
        ("ragged phases", lambda record: record.update(phases=[[1.0], [1.0, 2.0]])),
        ("unknown reference", lambda record: record.update(knm_ref="0" * 64)),
        ("no reference", lambda record: record.pop("knm_ref")),
        ("no zeta", lambda record: record.pop("zeta")),
        ("modulation of another type", lambda record: record.update(modulation=[1])),
        ("unknown modulation", lambda record: record.update(modulation={"gain": 1.0})),
    ],
)
def test_step_record_that_cannot_be_executed(
    name: str, change: Callable[[dict[str, Any]], None], closed_log: Path
) -> None:
    records = records_of(closed_log)
    change(records[3])
    closed_log.write_bytes(rechain(records))
    report = judged(closed_log, reexecute=True)
    assert report.status is VerifyStatus.TAMPERED
    assert report.first_problem.startswith("line 4")


def test_symlink(closed_log: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(closed_log)
    with pytest.raises(IntegrityError, match="not a regular file"):
        ReplayEngine(link).load()


def test_fifo_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(IntegrityError, match="not a regular file"):
        ReplayEngine(tmp_path / "fifo").verify()


def test_empty_file_is_no_complete_run(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    assert judged(tmp_path / "log").status is VerifyStatus.INTERRUPTED
    assert ReplayEngine(tmp_path / "log").load() == []


def test_hash_over_another_text_with_the_same_record(closed_log: Path) -> None:
    """The hashes fit the record, but the line was hashed with the stored separators."""
    records = records_of(closed_log)
    first = {key: value for key, value in records[0].items() if key != "_hash"}
    records[0]["_hash"] = sha256("0" * 64 + json.dumps(first, sort_keys=True))
    assert records[0]["_hash"] != sha256("0" * 64 + compact(first))
    write_lines(closed_log, [stored(record) for record in records])
    tampered(closed_log, 1)
