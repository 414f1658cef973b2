"""Commands that read audit logs and event streams: replay, watch, report, explain."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import click

from ripieno._printable import printable
from ripieno.canonical import INDENTED, INDENTED_LINE
from ripieno.errors import RipienoError
from ripieno.files import write_atomic
from scpn_phase_orchestrator.runtime.cli._app import EXIT_REFUSED, one_line

__all__ = ["explain", "replay", "report", "watch"]

_EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path)
_OUTPUT = click.Path(dir_okay=False, path_type=Path)
_LOOKED_AT = 2**20
"""Bytes at the start of a file that tell whether it is a log."""


def _refuse(message: str) -> None:
    click.echo(f"ERROR: {one_line(message)}", err=True)
    raise click.exceptions.Exit(EXIT_REFUSED)


def _require_log(file: Path) -> None:
    """Refuse a file that was never an audit log; one that was, however damaged, is for the verifier to judge."""
    if not file.is_file():  # a pipe, say, which the verifier refuses without opening it
        return
    with file.open("rb") as stream:
        start = stream.read(_LOOKED_AT)
    if start and not start.lstrip().startswith(b"{") and b'"_previous_hash"' not in start:
        _refuse(f"{file} is not an audit log: no line of JSON at its start, and no hash chain behind it")


@click.command()
@click.argument("log", type=_EXISTING)
@click.option("--verify", is_flag=True, help="Execute every step again and compare.")
@click.option("--output", type=_OUTPUT, help="Write what was found to this file, as JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
def replay(log: Path, verify: bool, output: Path | None, as_json: bool) -> None:
    """Re-execute an audit log step by step.

    Without --verify only hashes and order of the lines are checked. A log without a closing record is reported as
    interrupted: what it holds is verified all the same.

    \b
    Example:
      spo replay run.jsonl --verify --output replay.json
    """
    from scpn_phase_orchestrator.runtime.replay import ReplayEngine

    _require_log(log)
    found = ReplayEngine(log).verify(reexecute=verify)
    record = found.to_record()
    if output is not None:
        write_atomic(output, INDENTED_LINE.dumps(record))
    if as_json:
        click.echo(INDENTED.dumps(record))
    else:
        for line in _described(record):
            click.echo(line)
    if found.check.problem:
        click.echo(f"ERROR: audit integrity FAILED after {found.check.records} records", err=True)
        click.echo(f"  {one_line(found.check.problem)}", err=True)
        raise click.exceptions.Exit(EXIT_REFUSED)
    if not verify:
        return
    if not found.determinism:
        _refuse(found.problem or "no header record in log")
    if found.problem:
        click.echo(f"Determinism FAILED at transition {found.transitions}", err=True)
        click.echo(f"  {one_line(found.problem)}", err=True)
        raise click.exceptions.Exit(EXIT_REFUSED)
    if not as_json:
        click.echo(f"Determinism verified: {found.transitions} transitions OK")


def _described(record: dict[str, Any]) -> Iterator[str]:
    yield f"Steps logged: {record['steps']}"
    yield f"Events logged: {record['events']}"
    if record["final_regime"] is not None:
        yield f"Final regime: {one_line(record['final_regime'])}"
        yield f"Final stability: {record['final_stability']:.4f}"
    yield f"Status: {record['status']}"
    reports = record["determinism"]
    if not reports or record["problem"]:
        return
    yield from _not_compared(reports)
    if not any(report["transitions"] or report["outputs"] for report in reports):
        yield "Agreement: nothing was compared"
        return
    exact = "bit for bit" if record["bit_identical"] else "not to the last bit"
    phase, r = (max(report[name] for report in reports) for name in ("max_phase_deviation", "max_r_deviation"))
    yield f"Agreement: {exact} (phases within {phase:.3g} rad, R within {r:.3g})"


def _not_compared(reports: list[dict[str, Any]]) -> Iterator[str]:
    overridden, unexecuted, resets = (
        sum(report[name] for report in reports) for name in ("overridden", "unexecuted", "knob_resets")
    )
    if overridden:
        yield f"Set by a hook, so not compared: {overridden} transitions"
    if unexecuted:
        yield f"Without inputs, so not executed: {unexecuted} steps"
    if resets:
        yield f"Gains set back, as by a hook, although actions would still hold: {resets} steps"
    for number, report in enumerate(reports):
        if report["first_step"]:
            yield f"Begins with step {report['first_step']}: what led there is not in the log"
        if number:
            yield "Begins anew after an interruption: nothing links the steps on both sides"


@click.command()
@click.argument("stream", type=_EXISTING)
@click.option(
    "--format",
    "stream_format",
    type=click.Choice(["protobuf"]),
    default="protobuf",
    show_default=True,
    help="How the events are stored.",
)
@click.option("--from-start", is_flag=True, help="Begin with the first event; without --max-events, read once and end.")
@click.option("--max-events", type=click.IntRange(min=1), help="End after so many events.")
@click.option(
    "--poll-interval", type=float, default=0.2, show_default=True, help="Seconds between two looks at the stream."
)
def watch(stream: Path, stream_format: str, from_start: bool, max_events: int | None, poll_interval: float) -> None:
    """Follow an audit event stream.

    Ends when the run ends, after --max-events, or with Ctrl-C; the last line says whether what was seen holds.

    \b
    Example:
      spo watch run.spoa --from-start
    """
    from scpn_phase_orchestrator.runtime.audit_stream import StreamChecker, iter_event_stream, scan_event_stream

    if not (math.isfinite(poll_interval) and poll_interval > 0):
        raise click.UsageError(f"--poll-interval must be > 0, got {poll_interval:g}")
    checker = StreamChecker(from_start=from_start)
    problem = ""
    try:
        if from_start and max_events is None:
            events = scan_event_stream(stream)
        else:
            followed = iter_event_stream(stream, from_start=from_start, poll_interval_s=poll_interval)
            events = islice(followed, max_events)
        for event in events:
            click.echo(one_line(_event_line(event)))
            problem = problem or checker.take(event)
    except (ValueError, RipienoError) as error:
        problem = problem or str(error)
    except KeyboardInterrupt:
        pass
    click.echo(f"stream integrity: {'FAILED' if problem else 'OK'} ({checker.verified} events)")
    if problem:
        click.echo(f"  {one_line(problem)}", err=True)
        raise click.exceptions.Exit(EXIT_REFUSED)


def _event_line(event: Any) -> str:
    payload = event.payload
    end = f"hash={event.event_hash[:12]}"
    if event.event_type == "header":
        n, dt = payload.get("n_oscillators"), _formatted(payload.get("dt"), ".6g")
        return f"#{event.sequence} header n_oscillators={n} dt={dt} {end}"
    if event.event_type == "step":
        stability = _formatted(payload.get("stability"), ".4f")
        middle = f"step={payload.get('step')} regime={payload.get('regime')} stability={stability}"
        return f"#{event.sequence} step {middle} {end}"
    step = f" step={payload['step']}" if "step" in payload else ""
    return f"#{event.sequence} {event.event_type}{step} {end}"


def _formatted(value: object, form: str) -> str:
    return format(value, form) if isinstance(value, int | float) else str(value)


@click.command()
@click.argument("log", type=_EXISTING)
@click.option("--json-out", "--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def report(log: Path, as_json: bool) -> None:
    """Summarise an audit log.

    \b
    Example:
      spo report run.jsonl
    """
    from scpn_phase_orchestrator.reporting.summary import build_audit_report_summary, format_audit_report

    _require_log(log)
    try:
        summary = build_audit_report_summary(log)
    except ValueError as error:
        _refuse(str(error))
        return
    if as_json:
        click.echo(INDENTED.dumps(summary))
    else:
        for line in format_audit_report(summary):
            click.echo(printable(line))
    if not summary["hash_chain_ok"]:
        click.echo(f"  {one_line(summary['problem'])}", err=True)
        raise click.exceptions.Exit(EXIT_REFUSED)


@click.command()
@click.argument("log", type=_EXISTING)
@click.option("--markdown-out", type=_OUTPUT, help="Write the report to this file, as Markdown.")
@click.option("--pdf-out", type=_OUTPUT, help="Write the report to this file, as PDF.")
@click.option("--max-actions", type=int, default=12, show_default=True, help="Actions to explain.")
def explain(log: Path, markdown_out: Path | None, pdf_out: Path | None, max_actions: int) -> None:
    """Say why the supervisor acted, as Markdown or PDF.

    \b
    Example:
      spo explain run.jsonl --pdf-out why.pdf
    """
    from scpn_phase_orchestrator.reporting.explainability import (
        build_explainability_report,
        render_markdown,
        write_markdown,
        write_pdf,
    )

    if max_actions < 1:
        raise click.UsageError("--max-actions must be >= 1")
    _require_log(log)
    try:
        found = build_explainability_report(log, max_actions=max_actions)
    except ValueError as error:
        _refuse(str(error))
        return
    if markdown_out is None and pdf_out is None:
        click.echo(render_markdown(found), nl=False)
    if markdown_out is not None:
        write_markdown(found, markdown_out)
        click.echo(f"Markdown report written: {markdown_out}")
    if pdf_out is not None:
        write_pdf(found, pdf_out)
        click.echo(f"PDF report written: {pdf_out}")
    if found.problem:
        click.echo(f"ERROR: audit integrity FAILED after {found.records} records", err=True)
        click.echo(f"  {one_line(found.problem)}", err=True)
        raise click.exceptions.Exit(EXIT_REFUSED)
