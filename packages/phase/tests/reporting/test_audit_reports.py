"""Summaries and explanations of audit logs: numbers as documented, and text from a log that stays text."""

from __future__ import annotations

import json
import re
import zlib
from pathlib import Path
from typing import Any

import pytest

from scpn_phase_orchestrator.binding.loader import load_binding_spec
from scpn_phase_orchestrator.reporting._pdf import LINES_PER_PAGE, WRAP_CHARACTERS, text_pdf
from scpn_phase_orchestrator.reporting.explainability import (
    build_explainability_report,
    render_markdown,
    write_markdown,
    write_pdf,
)
from scpn_phase_orchestrator.reporting.summary import build_audit_report_summary, format_audit_report
from scpn_phase_orchestrator.runtime.audit_logger import AuditLogger
from scpn_phase_orchestrator.runtime.simulation import SimulationResult, simulate
from scpn_phase_orchestrator.upde.metrics import LayerState, UPDEState

HOSTILE = "a](javascript:alert(1)) <img src=x> `rm` *b* |c| _d_ \\ & \n# heading \x1b[31m) Tj ET endstream ü ✓"


@pytest.fixture
def run(s1_path: Path, tmp_path: Path) -> tuple[Path, SimulationResult]:
    with AuditLogger(tmp_path / "run.jsonl") as log:
        result = simulate(load_binding_spec(s1_path), steps=30, audit_logger=log)
    return tmp_path / "run.jsonl", result


@pytest.fixture
def hostile_log(tmp_path: Path) -> Path:
    from scpn_phase_orchestrator.actuation.mapper import ControlAction

    state = UPDEState([LayerState(0.5, 1.0)], [], 0.5, HOSTILE)  # type: ignore[arg-type]
    with AuditLogger(tmp_path / "hostile.jsonl") as log:
        log.log_header(n_oscillators=1, dt=0.01, binding_config={"name": HOSTILE})
        log.log_step(0, state, [ControlAction(HOSTILE, HOSTILE, 1.0, 1.0, HOSTILE)])
        log.log_event("note", {"text": HOSTILE})
    return tmp_path / "hostile.jsonl"


def test_summary_of_s1_is_the_documented_one(run: tuple[Path, SimulationResult]) -> None:
    path, result = run
    summary = build_audit_report_summary(path)
    assert {
        "steps", "layers", "amplitude_mode", "final_regime", "final_stability", "layer_r_mean", "layer_r_final",
        "regime_counts", "action_counts", "events", "hash_chain_ok", "hash_chain_verified",
    } <= summary.keys()  # fmt: skip
    assert (summary["steps"], summary["layers"], summary["amplitude_mode"], summary["events"]) == (30, 2, False, 1)
    assert summary["regime_counts"] == {"degraded": 29, "nominal": 1}
    assert summary["action_counts"] == {"K": 6}
    assert (summary["hash_chain_ok"], summary["hash_chain_verified"]) == (True, 32)
    assert summary["final_regime"] == result.final_regime
    assert summary["layer_r_final"] == [round(result.r_good, 4), round(result.r_bad, 4)]
    assert result.history is not None
    assert summary["layer_r_mean"] == pytest.approx(result.history.layer_r.mean(axis=0), abs=5e-5)
    assert summary["binding_summary"]["name"] == "s1"
    assert summary["channel_algebra"]["channels"] == ["I", "P", "S"]
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_report_of_s1_reads_as_documented(run: tuple[Path, SimulationResult]) -> None:
    lines = format_audit_report(build_audit_report_summary(run[0]))
    assert lines[0] == "Steps: 30  Layers: 2"
    assert lines[1] == "Mode: Kuramoto"
    assert re.fullmatch(r"  L0: R_mean=0\.\d{4} R_final=0\.\d{4} \(feeders\)", lines[4])
    assert lines[5].startswith("  L1: R_mean=")
    assert lines[5].endswith(" (storms)")
    assert {"  degraded: 29 (96.7%)", "  nominal: 1 (3.3%)", "  K: 6", "Regime distribution:", "Actions fired:"} <= set(
        lines
    )
    assert lines[-1] == "Hash chain: OK (32 records verified)"


def test_a_changed_log_is_summarised_up_to_the_change(run: tuple[Path, SimulationResult]) -> None:
    path = run[0]
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:11], *lines[12:]]))
    summary = build_audit_report_summary(path)
    assert (summary["steps"], summary["hash_chain_ok"], summary["hash_chain_verified"]) == (10, False, 11)
    assert summary["problem"].startswith("line 12 ")
    assert format_audit_report(summary)[-1] == "Hash chain: FAILED (11 records verified)"


def test_a_log_without_steps_is_refused(tmp_path: Path) -> None:
    with AuditLogger(tmp_path / "log") as log:
        log.log_header(n_oscillators=2, dt=0.01)
        log.log_event("note", {"step": 1})
    with pytest.raises(ValueError, match="no step records in log"):
        build_audit_report_summary(tmp_path / "log")
    with pytest.raises(ValueError, match="no step records in log"):
        build_explainability_report(tmp_path / "log")


def test_explanation_of_s1_has_the_documented_sections(run: tuple[Path, SimulationResult]) -> None:
    path, result = run
    report = build_explainability_report(path, max_actions=4)
    text = render_markdown(report)
    assert re.findall("^## (.*)$", text, re.MULTILINE) == [
        "Summary", "Metric Evidence", "Regime Distribution", "Regime Transitions", "Control Action Explanations",
        "Events",
    ]  # fmt: skip
    assert [action.step for action in report.actions] == [0, 5, 10, 15]
    assert report.action_count == 6
    assert "and 2 more; --max-actions 6 explains all" in text
    assert "step 0: K=0.05, scope global, ttl 10 s, regime degraded; reason: degraded: boost global coupling" in text
    assert [(change.step, change.before, change.after) for change in report.transitions] == [(0, "nominal", "degraded")]
    assert result.history is not None
    r = result.history.layer_r[:, 1]
    metric = report.metrics[1]
    assert (metric.mean, metric.final, metric.minimum, metric.maximum) == pytest.approx(
        (r.mean(), r[-1], r.min(), r.max())
    )


def test_breaches_of_one_boundary_in_a_row_are_one_line(tmp_path: Path) -> None:
    state = UPDEState([LayerState(0.5, 1.0)], [], 0.5, "nominal")  # type: ignore[arg-type]
    with AuditLogger(tmp_path / "run.jsonl") as log:
        log.log_header(n_oscillators=1, dt=0.01)
        log.log_step(0, state, [])
        for step in (*range(3, 43), *range(50, 60)):
            log.log_event("boundary_breach", {"step": step, "detail": f"storm: R_2=0.97{step} outside [None, 0.97]"})
            if step % 2:
                log.log_event("boundary_breach", {"step": step, "detail": "calm: R_0=0.1 outside [0.4, None]"})
    report = build_explainability_report(tmp_path / "run.jsonl")
    lines = render_markdown(report).replace("\\", "").partition("## Events\n\n")[2].splitlines()
    assert lines[0] == (
        "- boundary_breach at each step from 3 to 42, at first: detail=storm: R_2=0.973 outside [None, 0.97]"
    )
    assert lines[1:3] == [
        f"- boundary_breach at step {step}: detail=calm: R_0=0.1 outside [0.4, None]" for step in (3, 5)
    ]
    shown = sum(event.count for event in report.events)
    assert (report.event_count, len(report.events), shown) == (75, 12, 51)
    assert lines[12:] == [f"- and {75 - shown} more"]


@pytest.mark.parametrize("max_actions", [0, -1, True, 1.5])
def test_at_least_one_action_must_be_explained(max_actions: Any, run: tuple[Path, SimulationResult]) -> None:
    with pytest.raises(ValueError, match="max_actions must be >= 1"):
        build_explainability_report(run[0], max_actions=max_actions)


def test_text_from_a_log_stays_text_in_markdown(hostile_log: Path, tmp_path: Path) -> None:
    report = build_explainability_report(hostile_log)
    text = render_markdown(report)
    assert "\x1b" not in text
    assert len(re.findall("^#", text, re.MULTILINE)) == 7
    assert "<img" not in text
    assert "](" not in text.replace("\\](", "")
    assert not re.search(r"(?<!\\)[`*_|]", text)
    write_markdown(report, tmp_path / "out.md")
    assert (tmp_path / "out.md").read_text() == text


def parsed_pdf(data: bytes) -> list[bytes]:
    """Read the objects through the cross-reference table, as a viewer does; gives the content streams."""
    assert data.startswith(b"%PDF-1.4\n")
    start = int(re.search(rb"startxref\n(\d+)\n%%EOF\n$", data)[1])  # type: ignore[index]
    table = data[start:].split(b"\n")
    assert table[0] == b"xref"
    count = int(table[1].split()[1])
    objects = []
    for number in range(1, count):
        offset = int(table[2 + number].split()[0])
        assert data[offset:].startswith(b"%d 0 obj\n" % number)
        objects.append(data[offset:])
    contents = []
    for body in objects:
        match = re.match(rb"\d+ 0 obj\n<< /Length (\d+) >>\nstream\n", body)
        if match:
            content = body[match.end() : match.end() + int(match[1])]
            assert body[match.end() + int(match[1]) :].startswith(b"\nendstream\nendobj\n")
            contents.append(content)
    return contents


def shown(content: bytes) -> list[str]:
    """Read the strings of a content stream as a viewer does."""
    assert content.startswith(b"BT\n/F1 10 Tf ")
    assert content.endswith(b"\nET")
    found = re.findall(rb"\(((?:[^()\\]|\\.)*)\) Tj T\*(?=\n)", content)
    assert content == content.split(b"\n(")[0] + b"".join(b"\n(%b) Tj T*" % text for text in found) + b"\nET"
    return [re.sub(rb"\\(.)", rb"\1", text).decode("cp1252") for text in found]


def test_pdf_has_pages_of_52_lines_wrapped_at_92_characters() -> None:
    contents = parsed_pdf(text_pdf(["word " * 60, *[f"line {number}" for number in range(100)]]))
    pages = [shown(content) for content in contents]
    assert [len(page) for page in pages] == [LINES_PER_PAGE, LINES_PER_PAGE] == [52, 52]
    assert max(len(line) for page in pages for line in page) <= WRAP_CHARACTERS == 92
    assert pages[1][-1] == "line 99"
    assert parsed_pdf(text_pdf([]))


def test_text_from_a_log_stays_text_in_a_pdf(hostile_log: Path, tmp_path: Path) -> None:
    write_pdf(build_explainability_report(hostile_log), tmp_path / "out.pdf")
    data = (tmp_path / "out.pdf").read_bytes()
    text = " ".join(line for content in parsed_pdf(data) for line in shown(content))
    assert ") Tj ET endstream ü ?" in text
    assert "\\x1b[31m" in text
    assert "Control Action Explanations" in text


def test_reports_are_the_same_every_time(run: tuple[Path, SimulationResult], tmp_path: Path) -> None:
    checksums = set()
    for name in ("a.pdf", "b.pdf"):
        write_pdf(build_explainability_report(run[0]), tmp_path / name)
        checksums.add(zlib.crc32((tmp_path / name).read_bytes()))
    assert len(checksums) == 1
