"""``spo replay``, ``watch``, ``report`` and ``explain``, called as a user calls them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scpn_phase_orchestrator.binding.loader import load_binding_spec
from scpn_phase_orchestrator.runtime.audit_logger import AuditLogger
from scpn_phase_orchestrator.runtime.cli import main
from scpn_phase_orchestrator.runtime.simulation import simulate

Spo = Callable[..., Result]


@pytest.fixture
def spo(monkeypatch: pytest.MonkeyPatch) -> Spo:
    for name in ("SPO_AUDIT_KEY", "SPO_AUDIT_KEYRING", "SPO_AUDIT_ENV", "SPO_AUDIT_PROFILE", "SPO_ENV", "SPO_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    return lambda *arguments: CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def log(s1_path: Path, tmp_path: Path) -> Path:
    with AuditLogger(tmp_path / "run.jsonl", event_stream=tmp_path / "run.spoa") as logger:
        simulate(load_binding_spec(s1_path), steps=30, audit_logger=logger)
    return tmp_path / "run.jsonl"


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def test_replay_of_s1_prints_what_is_documented(spo: Spo, log: Path) -> None:
    result = spo("replay", log, "--verify")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "Steps logged: 30",
        "Events logged: 1",
        "Final regime: degraded",
        "Final stability: 0.8026",
        "Status: complete",
        "Agreement: bit for bit (phases within 0 rad, R within 0)",
        "Determinism verified: 29 transitions OK",
    ]
    assert "Determinism" not in spo("replay", log).stdout


def test_replay_writes_its_report(spo: Spo, log: Path, tmp_path: Path) -> None:
    result = spo("replay", log, "--verify", "--json", "--output", tmp_path / "out.json")
    assert result.exit_code == 0
    report = json.loads((tmp_path / "out.json").read_text())
    assert json.loads(result.stdout) == report
    assert (report["ok"], report["status"], report["transitions"], report["bit_identical"]) == (
        True, "complete", 29, True,
    )  # fmt: skip
    assert report["head"] == json.loads(lines_of(log)[-1])["_hash"]


@pytest.mark.parametrize("options", [[], ["--verify"]])
def test_replay_of_an_edited_log_names_the_line(options: list[str], spo: Spo, log: Path, tmp_path: Path) -> None:
    lines = lines_of(log)
    lines[12] = lines[12].replace(b'"step": 11', b'"step": 12')
    log.write_bytes(b"".join(lines))
    result = spo("replay", log, *options, "--output", tmp_path / "out.json")
    assert result.exit_code == 1
    assert "ERROR: audit integrity FAILED after 12 records" in result.stderr
    assert "line 13 " in result.stderr
    assert json.loads((tmp_path / "out.json").read_text())["status"] == "tampered"


def test_replay_of_a_cut_log_says_interrupted(spo: Spo, log: Path) -> None:
    log.write_bytes(b"".join(lines_of(log)[:-1]))
    result = spo("replay", log, "--verify")
    assert result.exit_code == 0
    assert "Status: interrupted" in result.stdout


def test_replay_without_a_header_is_an_error(spo: Spo, tmp_path: Path) -> None:
    with AuditLogger(tmp_path / "log") as logger:
        logger.log_event("note", {"step": 1})
    result = spo("replay", tmp_path / "log", "--verify")
    assert (result.exit_code, result.stderr) == (1, "ERROR: no header record in log\n")
    assert "Final regime" not in result.stdout


def test_replay_of_steps_that_do_not_follow_says_where(spo: Spo, s1_path: Path, tmp_path: Path) -> None:
    logs = []
    for seed in (1, 2):
        with AuditLogger(tmp_path / f"{seed}") as logger:
            simulate(load_binding_spec(s1_path), steps=5, seed=seed, audit_logger=logger)
        logs.append([json.loads(line) for line in lines_of(tmp_path / f"{seed}")])
    mixed = AuditLogger(tmp_path / "mixed")
    for record in [*logs[0][:4], *logs[1][4:6]]:  # steps of two runs in one chain: hashes fit, physics does not
        mixed._chain.append({key: value for key, value in record.items() if not key.startswith("_")})
    mixed.abandon()
    result = spo("replay", tmp_path / "mixed", "--verify")
    assert result.exit_code == 1
    assert "Determinism FAILED at transition 2" in result.stderr
    assert "step 2 does not lead to step 3" in result.stderr


def test_watch_prints_what_is_documented(spo: Spo, log: Path) -> None:
    result = spo("watch", log.with_suffix(".spoa"), "--from-start")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert len(lines) == 33
    assert lines[0].startswith("#1 header n_oscillators=5 dt=0.01 hash=")
    assert lines[1].startswith("#2 step step=0 regime=nominal stability=0.4088 hash=")
    assert lines[31].startswith("#32 regime_transition step=0 hash=")
    assert lines[-1] == "stream integrity: OK (32 events)"
    assert all(len(line.rpartition("hash=")[2]) == 12 for line in lines[:-1])


def test_watch_of_a_stream_with_a_flipped_byte_fails(spo: Spo, log: Path) -> None:
    stream = log.with_suffix(".spoa")
    data = stream.read_bytes()
    stream.write_bytes(data.replace(b'"degraded"', b'"degradec"', 1))
    result = spo("watch", stream, "--from-start")
    assert result.exit_code == 1
    assert "stream integrity: FAILED (1 events)" in result.stdout


def test_watch_ends_after_the_wanted_number(spo: Spo, log: Path) -> None:
    result = spo("watch", log.with_suffix(".spoa"), "--from-start", "--max-events", 3)
    assert result.stdout.splitlines()[-1] == "stream integrity: OK (3 events)"


def test_watch_follows_a_run_to_its_end(spo: Spo, tmp_path: Path) -> None:
    logger = AuditLogger(tmp_path / "log", event_stream=tmp_path / "stream")
    logger.log_event("before")
    found: list[Result] = []
    watcher = threading.Thread(
        target=lambda: found.append(
            spo("watch", tmp_path / "stream", "--from-start", "--max-events", 99, "--poll-interval", 0.001)
        )
    )
    watcher.start()
    for number in range(5):
        logger.log_event("tick", {"step": number})
    logger.close()
    watcher.join(60)
    assert found[0].exit_code == 0
    assert found[0].stdout.splitlines()[-1] == "stream integrity: OK (6 events)"


def test_watch_shows_hostile_text_as_text(spo: Spo, tmp_path: Path) -> None:
    from scpn_phase_orchestrator.runtime.audit_stream import EventStreamWriter

    with EventStreamWriter(tmp_path / "stream") as writer:
        writer.write({"header": True, "n_oscillators": "\x1b[2J", "dt": "x"})
        writer.write({"step": "\n#9 forged", "regime": None, "stability": None})
    result = spo("watch", tmp_path / "stream", "--from-start")
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    assert len(result.stdout.splitlines()) == 3


@pytest.mark.parametrize("options", [["--max-events", "0"], ["--poll-interval", "0"], ["--poll-interval", "nan"]])
def test_watch_refuses_what_makes_no_sense(options: list[str], spo: Spo, log: Path) -> None:
    assert spo("watch", log.with_suffix(".spoa"), "--from-start", *options).exit_code == 2


def test_watch_of_another_file_fails(spo: Spo, log: Path) -> None:
    result = spo("watch", log, "--from-start")
    assert result.exit_code == 1
    assert "not an SPO audit event stream" in result.stderr


def test_report_of_s1_is_the_documented_one(spo: Spo, log: Path) -> None:
    result = spo("report", log)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[-1] == "Hash chain: OK (32 records verified)"
    assert {"Steps: 30  Layers: 2", "  degraded: 29 (96.7%)", "  nominal: 1 (3.3%)", "  K: 6"} <= set(lines)
    summary = json.loads(spo("report", log, "--json-out").stdout)
    assert summary["regime_counts"] == {"degraded": 29, "nominal": 1}


def test_report_of_an_edited_log_fails(spo: Spo, log: Path) -> None:
    lines = lines_of(log)
    log.write_bytes(b"".join([*lines[:20], *lines[21:]]))
    result = spo("report", log)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1] == "Hash chain: FAILED (20 records verified)"
    assert "line 21 " in result.stderr


@pytest.mark.parametrize("command", ["report", "explain"])
def test_a_log_without_steps_is_an_error(command: str, spo: Spo, tmp_path: Path) -> None:
    AuditLogger(tmp_path / "log").close()
    result = spo(command, tmp_path / "log")
    assert (result.exit_code, result.stderr) == (1, "ERROR: no step records in log\n")


def test_explain_prints_or_writes(spo: Spo, log: Path, tmp_path: Path) -> None:
    printed = spo("explain", log)
    assert printed.exit_code == 0
    assert printed.stdout.startswith("# Why the supervisor acted\n")
    markdown, pdf = tmp_path / "why.md", tmp_path / "why.pdf"
    written = spo("explain", log, "--markdown-out", markdown, "--pdf-out", pdf)
    assert written.stdout.splitlines() == [f"Markdown report written: {markdown}", f"PDF report written: {pdf}"]
    assert markdown.read_text() == printed.stdout
    assert pdf.read_bytes().startswith(b"%PDF-1.4")


def test_explain_wants_at_least_one_action(spo: Spo, log: Path) -> None:
    result = spo("explain", log, "--max-actions", 0)
    assert result.exit_code == 2
    assert "--max-actions must be >= 1" in result.stderr


def test_explain_of_an_edited_log_fails(spo: Spo, log: Path) -> None:
    lines = lines_of(log)
    log.write_bytes(b"".join([*lines[:20], *lines[21:]]))
    result = spo("explain", log)
    assert result.exit_code == 1
    assert "tampered" in result.stdout
    assert "ERROR: audit integrity FAILED after 20 records" in result.stderr


@pytest.mark.parametrize("command", ["replay", "watch", "report", "explain"])
def test_a_missing_file_is_wrong_usage(command: str, spo: Spo, tmp_path: Path) -> None:
    assert spo(command, tmp_path / "none").exit_code == 2


@pytest.mark.parametrize("command", ["replay", "report", "explain"])
def test_an_unusable_keyring_is_said_in_one_line(
    command: str, spo: Spo, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPO_AUDIT_KEYRING", "{}")
    result = spo(command, log)
    assert result.exit_code == 1
    assert "SPO_AUDIT_KEYRING" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", ["replay", "report", "explain"])
def test_a_link_is_refused_in_one_line(command: str, spo: Spo, log: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(log)
    result = spo(command, tmp_path / "link")
    assert result.exit_code == 1
    assert "not a regular file" in result.stderr


@pytest.mark.parametrize("command", ["replay", "report", "explain"])
@pytest.mark.parametrize("content", [b"<!doctype html>\n<html></html>\n", b"time,fan\n0.1,0.2\n", b"\x89PNG\r\n\x1a\n"])
def test_a_file_that_never_was_a_log_is_not_called_a_damaged_one(
    command: str, content: bytes, spo: Spo, tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    file.write_bytes(content)
    result = spo(command, file)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith(f"ERROR: {file} is not an audit log: ")


def test_a_log_with_a_damaged_begin_stays_a_damaged_log(spo: Spo, log: Path) -> None:
    log.write_bytes(b"x" + log.read_bytes()[1:])
    result = spo("replay", log)
    assert result.exit_code == 1
    assert "Status: tampered" in result.stdout
    assert result.stderr.startswith("ERROR: audit integrity FAILED after 0 records")
