"""The command that scores recorded ticks of a digital twin."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from ripieno.canonical import MAX_BYTES, strict_loads
from ripieno.errors import InputError
from scpn_phase_orchestrator.runtime.cli._json_input import INPUT_FILE

if TYPE_CHECKING:
    from scpn_phase_orchestrator.monitor.twin_confidence import TwinDivergence

__all__ = ["EXIT_CRITICAL", "twin_confidence"]

EXIT_CRITICAL = 2
"""A tick was critical and ``--fail-on-critical`` was given."""

_TICK_FIELDS = ("model_phases", "observed_phases", "model_order", "observed_order")
_SHARE = click.FloatRange(0.0, 1.0)


@click.command()
@click.option("--calibration", type=INPUT_FILE, required=True, help="Ticks that are known to be good, as JSONL.")
@click.option("--observations", type=INPUT_FILE, required=True, help="Ticks to score, as JSONL, in order of time.")
@click.option("--n-bins", type=click.IntRange(min=1), default=36, show_default=True, help="Bins of phase histograms.")
@click.option(
    "--sensitivity",
    type=click.FloatRange(min=0.0, min_open=True),
    default=3.0,
    show_default=True,
    help="Standard deviations over which the confidence falls to 1/e.",
)
@click.option("--warning-confidence", type=_SHARE, default=0.6, show_default=True, help="Below it a tick is a warning.")
@click.option("--critical-confidence", type=_SHARE, default=0.3, show_default=True, help="Below it it is critical.")
@click.option(
    "--band-z",
    type=click.FloatRange(min=0.0),
    default=3.0,
    show_default=True,
    help="Width of the band that counts as usual, in standard deviations.",
)
@click.option("--json-out", "--json", "json_out", is_flag=True, help="Print summary, baseline and all scores as JSON.")
@click.option("--prometheus", is_flag=True, help="Print the summary in the text format of Prometheus.")
@click.option("--fail-on-critical", is_flag=True, help="End with exit code 2 when a tick is critical.")
@click.pass_context
def twin_confidence(
    ctx: click.Context,
    calibration: Path,
    observations: Path,
    n_bins: int,
    sensitivity: float,
    warning_confidence: float,
    critical_confidence: float,
    band_z: float,
    json_out: bool,
    prometheus: bool,
    fail_on_critical: bool,
) -> None:
    """Score how far a model has drifted from what it models.

    A tick is one line of JSON with the arrays model_phases and observed_phases (rad), model_order and observed_order
    (order parameters of a window, 0 to 1).

    \b
    Example:
      spo twin-confidence --calibration good.jsonl --observations today.jsonl --fail-on-critical
    """
    from scpn_phase_orchestrator.monitor.twin_confidence import (
        TwinConfidenceCalibrator,
        score_twin_confidence,
        summarise_twin_confidence,
        twin_confidence_prometheus_text,
    )

    if json_out and prometheus:
        raise click.UsageError("--json-out and --prometheus are mutually exclusive")
    calibrator = TwinConfidenceCalibrator(band_z=band_z)
    for divergence in _divergences(calibration, n_bins):
        calibrator.observe(divergence)
    baseline = calibrator.baseline()
    scores = [
        score_twin_confidence(
            divergence,
            baseline,
            sensitivity=sensitivity,
            warning_confidence=warning_confidence,
            critical_confidence=critical_confidence,
        )
        for divergence in _divergences(observations, n_bins)
    ]
    summary = summarise_twin_confidence(scores)
    if json_out:
        from dataclasses import asdict

        record = {
            **summary.to_audit_record(),
            "baseline": asdict(baseline),
            "scores": [score.to_audit_record() for score in scores],
        }
        click.echo(json.dumps(record, indent=2, sort_keys=True, allow_nan=False))
    elif prometheus:
        click.echo(twin_confidence_prometheus_text(summary), nl=False)
    else:
        click.echo(f"Ticks scored: {summary.tick_count}")
        click.echo(f"Status: worst={summary.worst_status} latest={summary.latest_status}")
        click.echo(
            f"Confidence: mean={summary.mean_confidence:.4f} min={summary.min_confidence:.4f} "
            f"latest={summary.latest_confidence:.4f}"
        )
        click.echo(
            f"Counts: healthy={summary.healthy_count} warning={summary.warning_count} critical={summary.critical_count}"
        )
    if fail_on_critical and summary.critical_count:
        ctx.exit(EXIT_CRITICAL)


def _divergences(path: Path, n_bins: int) -> Iterator[TwinDivergence]:
    """Compare model and observation of every tick of a file, reading line by line.

    Raises:
        ClickException: a line is no tick, or there is none; names file and line.
    """
    from scpn_phase_orchestrator.monitor.twin_confidence import phase_order_divergence

    is_empty = True
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(iter(lambda: stream.readline(MAX_BYTES + 1), b""), start=1):
                if not line.strip():
                    continue
                is_empty = False
                tick = _tick(line, f"{path}:{number}")
                try:
                    yield phase_order_divergence(*tick, n_bins=n_bins)
                except ValueError as error:
                    raise click.ClickException(f"{path}:{number}: {error}") from error
    except OSError as error:
        raise click.ClickException(f"{path}: cannot read: {error.strerror}") from error
    if is_empty:
        raise click.ClickException(f"{path}: no ticks found")


def _tick(line: bytes, place: str) -> tuple[list[float], list[float], list[float], list[float]]:
    try:
        value = strict_loads(line)
    except InputError as error:
        raise click.ClickException(f"{place}: malformed JSON: {error}") from error
    if not isinstance(value, dict):
        raise click.ClickException(f"{place}: tick must be a JSON object")
    tick = cast("dict[str, Any]", value)
    for name in _TICK_FIELDS:
        if name not in tick:
            raise click.ClickException(f"{place}: missing field '{name}'")
        if not _is_array_of_numbers(tick[name]):
            raise click.ClickException(f"{place}: non-numeric tick field '{name}': it must be an array of numbers")
    return tick["model_phases"], tick["observed_phases"], tick["model_order"], tick["observed_order"]


def _is_array_of_numbers(value: object) -> bool:
    if not isinstance(value, list):
        return False
    return all(isinstance(item, int | float) and not isinstance(item, bool) for item in cast("list[object]", value))
