"""Commands that start from recorded data: extract, fit, auto-bind, auto-coupling-estimation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ripieno._printable import printable
from scpn_phase_orchestrator.runtime.cli._json_input import INPUT_FILE, OUTPUT_FILE, refuse_input, write_output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scpn_phase_orchestrator.autotune import Proposal
    from scpn_phase_orchestrator.coupling.regression import CouplingFit
    from scpn_phase_orchestrator.signals import Finding, PhaseSeries, SignalTable

__all__ = ["auto_bind", "auto_coupling_estimation", "extract", "fit"]

METHODS = ("hilbert", "wavelet", "zero-crossing", "event", "symbolic")
TIME_UNITS = ("us", "ms", "s", "min", "h", "day", "week", "year")
SHOWN_EDGES = 15
"""Couplings in the table of `fit`."""


class _Band(click.ParamType[tuple[float, float]]):
    """Two frequencies, ``LO:HI``."""

    name = "LO:HI"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, float]:
        if isinstance(value, tuple):
            return value
        try:
            low, high = (float(part) for part in str(value).split(":"))
        except ValueError:
            self.fail(f"{value!r} must be two numbers like 0.5:2.0", param, ctx)
        if not 0.0 < low < high < float("inf"):
            self.fail(f"{value!r} must rise from above zero", param, ctx)
        return low, high


@click.command()
@click.argument("file", type=INPUT_FILE)
@click.option("--column", "columns", multiple=True, metavar="NAME", help="A channel; repeat for more. Default: all.")
@click.option("--channels", metavar="A,B,...", help="Channels as one list; those of a WAV are ch1,ch2,...")
@click.option("--time-column", metavar="NAME", help="Column of time stamps: numbers or ISO dates.")
@click.option("--time-unit", type=click.Choice(TIME_UNITS), help="Unit of numeric time stamps and of the rate.")
@click.option("--sample-rate", type=float, metavar="HZ", help="Samples per time unit, where there are no stamps.")
@click.option("--method", type=click.Choice(METHODS), default="hilbert", show_default=True, help="How to read phases.")
@click.option("--band", type=_Band(), help="Pass band; default: around the peak.")
@click.option("--detrend", is_flag=True, help="Subtract a straight line first.")
@click.option("--out", type=OUTPUT_FILE, metavar="FILE", help="Write the series as .csv, .parquet or .json.")
@click.option("--plot", type=OUTPUT_FILE, metavar="FILE", help="Draw signal, envelope, phase (.png, .svg or .pdf).")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON summary instead of the table.")
@click.pass_context
def extract(
    ctx: click.Context,
    file: Path,
    columns: tuple[str, ...],
    channels: str | None,
    time_column: str | None,
    time_unit: str | None,
    sample_rate: float | None,
    method: str,
    band: tuple[float, float] | None,
    detrend: bool,
    out: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Turn recorded signals (CSV, Parquet, WAV) into phases.

    Every channel becomes a series of phase, frequency, amplitude and quality. Gaps, stuck and clipped samples and
    filter edges are reported with their sample ranges. Short gaps (a quarter of a period) are bridged, longer ones cut.
    Without --band, one channel is filtered from 0.5 to 1.5 times its dominant frequency; several channels from 0.25 to
    2.5 times (1.5 beside an overtone), because coupling lives in the sidebands of their beats.

    \b
    Examples:
      spo extract pulse.csv --sample-rate 100
      spo extract sunspots.csv --time-column YEAR --out phases.csv --plot phases.png
      spo extract sound.wav --channels ch1 --band 90:130
    """
    from scpn_phase_orchestrator.signals import extract_phase_series, read_signals

    wanted = [*columns, *(part.strip() for part in (channels or "").split(",") if part.strip())]
    _refuse_suffix(out, (".csv", ".parquet", ".json"), "--out")
    _refuse_suffix(plot, (".png", ".svg", ".pdf"), "--plot")
    if out is not None:
        refuse_input(out)
    table = read_signals(file, columns=wanted, time_column=time_column, sample_rate=sample_rate, time_unit=time_unit)
    series, refused = extract_phase_series(table, method=method, band=band, detrend=detrend)
    if out is not None:
        from scpn_phase_orchestrator.signals.export import write_series

        try:
            write_series(series, out)
        except OSError as error:
            raise click.ClickException(f"cannot write phase series {out}: {error.strerror}") from error
    if plot is not None:
        _plot(series, plot)
    if as_json:
        record = {
            "channels": [channel.summary() for channel in series],
            "notes": list(table.notes),
            "refused": [{"kind": finding.kind, "text": finding.text} for finding in refused],
            "source": table.source,
        }
        click.echo(json.dumps(record, indent=2, sort_keys=True))
        return
    _print_series(table, series, refused)
    if not _is_quiet(ctx):
        for path in (out, plot):
            if path is not None:
                click.echo(printable(f"Wrote {path}"))


@click.command()
@click.argument("file", type=INPUT_FILE, metavar="PHASES|SIGNAL")
@click.option(
    "--input",
    "origin",
    type=click.Choice(["auto", "phases", "signals"]),
    default="auto",
    show_default=True,
    help="What the columns are; auto goes by their names.",
)
@click.option("--column", "columns", multiple=True, metavar="NAME", help="A channel; repeat for more. Default: all.")
@click.option("--time-column", metavar="NAME", help="Column of time stamps.")
@click.option("--time-unit", type=click.Choice(TIME_UNITS), help="Unit of numeric time stamps and of the rate.")
@click.option("--sample-rate", type=float, metavar="HZ", help="Samples per time unit, where there are no stamps.")
@click.option(
    "--max-lag",
    type=click.FloatRange(0.0, 1.5707963267948966),
    default=0.0,
    show_default=True,
    help="Fit phase lags too, expected up to this many rad.",
)
@click.option(
    "--bootstrap", type=click.IntRange(100, 100_000), default=500, show_default=True, help="Replicates per interval."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the bootstrap.")
@click.option("--spec-out", type=OUTPUT_FILE, metavar="FILE", help="Write a binding spec with what was found.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.pass_context
def fit(
    ctx: click.Context,
    file: Path,
    origin: str,
    columns: tuple[str, ...],
    time_column: str | None,
    time_unit: str | None,
    sample_rate: float | None,
    max_lag: float,
    bootstrap: int,
    seed: int,
    spec_out: Path | None,
    as_json: bool,
) -> None:
    """Estimate natural frequencies and coupling from phases, with intervals.

    Reads what `spo extract --out` wrote, a table of phases, or signals. Both sides of the phase equation are
    averaged over short windows, fitted by least squares, and bootstrapped over blocks; couplings are tested all
    together. The intervals do not include the error of an extraction; phases of --method wavelet are too smooth.

    \b
    Examples:
      spo extract machines.csv --sample-rate 50 --out phases.csv
      spo fit phases.csv --spec-out machines.yaml
      spo fit phases.csv --max-lag 1.0 --json
    """
    from scpn_phase_orchestrator.coupling.regression import fit_phase_coupling
    from scpn_phase_orchestrator.signals import read_signals
    from scpn_phase_orchestrator.signals.export import phase_matrix

    _refuse_suffix(spec_out, (".yaml", ".yml"), "--spec-out")
    table = read_signals(file, columns=columns, time_column=time_column, sample_rate=sample_rate, time_unit=time_unit)
    phases = phase_matrix(table, origin=origin)
    found = fit_phase_coupling(
        phases.phases,
        phases.sample_period_s,
        names=phases.names,
        max_lag=max_lag,
        n_bootstrap=bootstrap,
        seed=seed,
    )
    if spec_out is not None:
        from scpn_phase_orchestrator.autotune.fitted import propose_from_fit

        write_output(spec_out, propose_from_fit(found, file, name=spec_out.stem).to_yaml().encode(), artifact="spec")
    if as_json:
        record = {"fit": found.to_record(), "input": phases.origin, "notes": list(phases.notes), "source": file.name}
        click.echo(json.dumps(record, indent=2, sort_keys=True))
        return
    origin_text = "phases as read" if phases.origin == "phases" else "phases extracted from signals"
    click.echo(printable(f"{file.name}: {len(phases.names)} oscillators, {origin_text}"))
    _print_fit(found, phases.notes)
    if spec_out is not None and not _is_quiet(ctx):
        click.echo(printable(f"Wrote {spec_out} (for review: spo validate {spec_out})"))


@click.command()
@click.argument("kind", type=click.Choice(["time-series-csv", "event-log-json", "graph-json"]))
@click.argument("path", type=INPUT_FILE)
@click.option("--project-name", required=True, metavar="N", help="Name of the proposed spec.")
@click.option("--sample-rate-hz", type=float, metavar="HZ", help="Sample rate of a time series without time column.")
@click.option(
    "--sindy-threshold", type=float, default=0.05, show_default=True, help="Smallest kept coefficient, rad/s."
)
@click.option("--sindy-min-r-squared", type=float, default=0.9, show_default=True, help="R² of an accepted equation.")
@click.option(
    "--sindy-min-samples-per-parameter",
    type=float,
    default=5.0,
    show_default=True,
    help="Fewest samples per library term of an accepted equation.",
)
@click.option("--emit-equations", is_flag=True, help="Print the discovered phase equations instead.")
@click.option("--json-out", is_flag=True, help="Print the audit record as JSON instead.")
def auto_bind(
    kind: str,
    path: Path,
    project_name: str,
    sample_rate_hz: float | None,
    sindy_threshold: float,
    sindy_min_r_squared: float,
    sindy_min_samples_per_parameter: float,
    emit_equations: bool,
    json_out: bool,
) -> None:
    """Propose a spec from a time series, an event log or a graph.

    The proposal is a valid spec for review; nothing runs it. Its comments say what every part rests on.

    \b
    Examples:
      spo auto-bind time-series-csv pumps.csv --project-name pumps --sample-rate-hz 50 > pumps.yaml
      spo auto-bind event-log-json calls.json --project-name calls
      spo auto-bind graph-json grid.json --project-name grid --json-out
    """
    from scpn_phase_orchestrator.autotune import bind_event_log, bind_graph, bind_time_series

    if emit_equations and json_out:
        raise click.UsageError("--emit-equations and --json-out exclude each other")
    if emit_equations and kind != "time-series-csv":
        raise click.UsageError("--emit-equations needs a time series: other data give no equations")
    if kind == "event-log-json":
        proposal = bind_event_log(path, project_name)
    elif kind == "graph-json":
        proposal = bind_graph(path, project_name)
    else:
        proposal = bind_time_series(
            path,
            project_name,
            sample_rate=sample_rate_hz,
            threshold=sindy_threshold,
            min_r_squared=sindy_min_r_squared,
            min_samples_per_parameter=sindy_min_samples_per_parameter,
        )
    click.echo(_proposal_text(proposal, emit_equations=emit_equations, json_out=json_out))


@click.command()
@click.argument("path", type=INPUT_FILE)
@click.option(
    "--orientation",
    type=click.Choice(["oscillator-by-time", "time-by-oscillator"]),
    default="oscillator-by-time",
    show_default=True,
    help="What a row of the file is.",
)
@click.option("--n-bins", type=click.IntRange(2, 64), default=8, show_default=True, help="Bins of the circle.")
@click.option(
    "--threshold-quantile",
    type=click.FloatRange(0.0, 1.0),
    default=0.75,
    show_default=True,
    help="Scores below this quantile of the positive ones become 0.",
)
@click.option("--threshold-absolute", type=click.FloatRange(min=0.0), help="Scores below this many nats become 0.")
@click.option(
    "--normalisation", type=click.Choice(["max", "none"]), default="max", show_default=True, help="Scale of the result."
)
@click.option("--json-out", is_flag=True, help="Print scores, threshold and coupling as JSON.")
def auto_coupling_estimation(
    path: Path,
    orientation: str,
    n_bins: int,
    threshold_quantile: float,
    threshold_absolute: float | None,
    normalisation: str,
    json_out: bool,
) -> None:
    """Estimate who drives whom by phase transfer entropy.

    PATH holds phases in rad (.csv or .npy), or is what `spo extract --out x.csv` wrote: then one row per sample, time
    skipped, incomplete rows dropped. Row i, column j of the result is the influence of i on j.

    \b
    Examples:
      spo auto-coupling-estimation phases.npy
      spo extract machines.csv --out phases.csv && spo auto-coupling-estimation phases.csv
      spo auto-coupling-estimation phases.csv --orientation time-by-oscillator --n-bins 6 --json-out
    """
    from scpn_phase_orchestrator.coupling.inference import estimate_coupling
    from scpn_phase_orchestrator.signals.matrix_file import read_phase_matrix

    matrix, notes = read_phase_matrix(path, rows_are_times=orientation == "time-by-oscillator")
    estimate = estimate_coupling(
        matrix,
        n_bins=n_bins,
        threshold_quantile=threshold_quantile,
        threshold_absolute=threshold_absolute,
        normalisation="max" if normalisation == "max" else "none",
    )
    if json_out:
        click.echo(json.dumps({**estimate.to_record(), "notes": list(notes)}, indent=2, sort_keys=True))
        return
    click.echo(
        f"# phase transfer entropy, row drives column: {estimate.scores.shape[0]} oscillators, {n_bins} bins, "
        f"threshold {estimate.threshold:.6g} nats, normalisation {normalisation}"
    )
    for note in notes:
        click.echo(printable(f"# Note: {note}"))
    for warning in estimate.warnings:
        click.echo(f"# Warning: {warning}")
    for row in estimate.coupling:
        click.echo(",".join(f"{value:.17g}" for value in row))


def _is_quiet(ctx: click.Context) -> bool:
    settings: dict[str, Any] = ctx.find_root().obj or {}
    return bool(settings.get("quiet"))


def _refuse_suffix(path: Path | None, allowed: Sequence[str], option: str) -> None:
    if path is not None and path.suffix.lower() not in allowed:
        raise click.BadParameter(f"'{path.name}' must end in {', '.join(allowed)}", param_hint=option)


def _plot(series: Sequence[PhaseSeries], path: Path) -> None:
    import io

    import matplotlib as mpl

    from scpn_phase_orchestrator.signals.drawing import draw_phase_series

    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "ripieno", "text.parse_math": False}):
        kind = path.suffix.lower().removeprefix(".")
        metadata = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
        draw_phase_series(series).savefig(buffer, format=kind, dpi=150, metadata=metadata)
    write_output(path, buffer.getvalue(), artifact="figure")


def _short(value: float, digits: int) -> str:
    """A number with so many significant digits, and an exponent only where it is shorter."""
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:.0f}" if 10.0 ** (digits - 1) <= abs(rounded) < 1e6 else f"{rounded:g}"


def _print_series(table: SignalTable, series: Sequence[PhaseSeries], refused: Sequence[Finding]) -> None:
    from ripieno.report import Table, print_table
    from scpn_phase_orchestrator.signals.drawing import frequency_chart
    from scpn_phase_orchestrator.signals.phase_series import SampleState

    unit = series[0].time_unit
    rows: list[tuple[object, ...]] = []
    for channel in series:
        counts = [int((channel.state == state).sum()) for state in (SampleState.GAP, SampleState.BRIDGED)]
        rows.append(
            (
                channel.name,
                _short(channel.dominant_frequency, 4),
                _short(channel.mean_frequency, 4),
                "" if channel.band is None else ":".join(_short(edge, 3) for edge in channel.band),
                round(channel.mean_quality, 2),
                counts[0],
                counts[1],
            )
        )
    headers = ("channel", "peak", "mean", "band", "quality", "gap", "bridged")
    print_table(
        Table(
            headers,
            rows,
            f"{table.source}: {series[0].state.size} samples, {_short(series[0].sample_rate, 4)} per {unit}; "
            f"frequencies per {unit}, {series[0].method}",
        )
    )
    click.echo("Frequency over the record (5th to 95th percentile):")
    width = max(len(printable(channel.name)) for channel in series)
    for channel in series:
        click.echo(f"  {printable(channel.name):<{width}}  {frequency_chart(channel)}")
    remarks = [*table.notes, *(finding.text for finding in refused)]
    remarks += [f"{channel.name}: {finding.text}" for channel in series for finding in channel.findings]
    for remark in remarks:
        click.echo(printable(f"- {remark}"))


def _print_fit(found: CouplingFit, notes: Sequence[str]) -> None:
    from ripieno.report import Table, print_table
    from scpn_phase_orchestrator.signals.export import EXTRACTION_NOTE, LOOKS_LIKE_PHASES

    percent = f"{100 * found.confidence:g} %"
    rows: list[tuple[object, ...]] = [
        (frequency.name, frequency.omega, f"{frequency.low:.4g} to {frequency.high:.4g}", round(share, 3))
        for frequency, share in zip(found.frequencies, found.explained, strict=True)
    ]
    print_table(Table(("oscillator", "omega", percent, "explained"), rows, "Natural frequencies (rad/s)"))
    edges = sorted(found.edges, key=lambda edge: (not edge.distinguishable, edge.p_value, -abs(edge.strength)))
    shown = [edge for edge in edges if edge.distinguishable] or edges[:3]
    with_lags = any(edge.lag is not None for edge in edges)
    lines: list[tuple[object, ...]] = []
    for edge in shown[:SHOWN_EDGES]:
        lag = () if edge.lag is None else (f"{edge.lag:.2f}", f"{edge.lag_low:.2f} to {edge.lag_high:.2f}")
        verdict = "yes" if edge.distinguishable else ("no" if edge.identifiable else "unknowable")
        interval = f"{edge.low:.3g} to {edge.high:.3g}"
        lines.append((f"{edge.source} -> {edge.receiver}", f"{edge.strength:.3g}", interval, *lag, verdict))
    count = sum(edge.distinguishable for edge in edges)
    caption = f"Coupling K (rad/s): {count} of {len(edges)} differ from zero, all tested together"
    headers = ("from -> to", "K", percent, *(("lag (rad)", percent) if with_lags else ()), "not 0")
    print_table(Table(headers, lines, caption))
    if len(shown) > SHOWN_EDGES:
        click.echo(f"  and {len(shown) - SHOWN_EDGES} more (--json shows all)")
    click.echo(
        f"{found.n_samples} shared samples, {found.n_windows} windows of {found.window_samples}, "
        f"{found.n_blocks} blocks, {found.n_bootstrap} replicates, seed {found.seed}"
    )
    for warning in found.warnings:
        click.echo(printable(f"WARNING: {warning}"))
    for note in notes:
        click.echo(printable(f"Note: {note}" if note in (EXTRACTION_NOTE, LOOKS_LIKE_PHASES) else f"- {note}"))


def _proposal_text(proposal: Proposal, *, emit_equations: bool, json_out: bool) -> str:
    if json_out:
        return json.dumps(proposal.to_record(), indent=2, sort_keys=True)
    if emit_equations:
        return "\n".join(equation.text() for equation in proposal.equations)
    return proposal.to_yaml().rstrip("\n")
