"""The console script ``chamber-analyze``: reads the logs of training runs, and changes nothing."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import click

from chamber.cli._groups import EXIT_NOT_LEARNING, OneLineGroup, warnings_in_one_line

__all__ = ["analyze", "main"]

_NAME = "chamber-analyze"
_COMPARED = "mean_reward_final,terminal_success_rate,lambda_steady_state"
_LISTED = {
    "run_id": ("run_id", "names the run in the other commands"),
    "sub_stage": ("sub_stage", "stage of the spike that the run belongs to"),
    "seed": ("seed", "of the training"),
    "n_steps": ("n_steps", "control steps that were trained"),
    "success": ("terminal_success_rate", "share of evaluation episodes that ended in success, by the spike's record"),
    "reward": ("mean_reward_final", "mean of the last evaluation's episodes, else of the last rollout"),
    "lambda_ss": ("lambda_steady_state", "where the conformal slack of the safety filter settled, m/s^2"),
}
"""Heading of a column of ``list-runs`` -> field of the summary, and what it means."""

_Command = TypeVar("_Command", bound=Callable[..., Any])
_PATH = click.Path(path_type=Path)


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``chamber-analyze``.

    Args:
        argv: arguments after the command's name; those of the process by default.

    Returns:
        The exit code: 0 done; 2 an unknown run, a missing file or other input that was refused; 3 the curve does not
        pass the learning-signal check, with ``--check-guarantee``; 130 stopped by Ctrl-C. ``audit-gate`` has codes of
        its own, see its help.
    """
    with warnings_in_one_line(_NAME):
        try:
            analyze.main(None if argv is None else list(argv), prog_name=_NAME)
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 0
    return 0


@click.group(cls=OneLineGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.version_option(version("ripieno-concerto"), prog_name=_NAME)
def analyze(debug: bool) -> None:
    """Look at the logs of training runs.

    \b
    Examples:
      chamber-analyze list-runs --archive-root logs
      chamber-analyze curve 79e4461c7a0750c7 --archive-root logs --out curve.svg
      chamber-analyze plot 79e4461c7a0750c7 --archive-root logs --metric policy_loss --out loss.png

    Exit codes: 0 done; 2 an unknown run, a missing file or other input that was refused; 3 the curve does not pass the
    learning-signal check, with --check-guarantee; 130 stopped by Ctrl-C.
    """


def _archive_root(command: _Command) -> _Command:
    return click.option(
        "--archive-root",
        "root",
        required=True,
        type=_PATH,
        metavar="DIR",
        help="Folder of the logs; without a log in it, everything below it is looked through.",
    )(command)


def _output(command: _Command) -> _Command:
    return click.option(
        "--output", type=_PATH, metavar="FILE", help="Write to this file instead of the terminal; it is replaced."
    )(command)


def _as_json(command: _Command) -> _Command:
    return click.option("--json", "as_json", is_flag=True, help="JSON for machines.")(command)


_run_id = click.argument("run_id", metavar="RUN_ID")
_namespace = click.option("--namespace", metavar="NAME", help="Only values of this namespace, such as train or eval.")


@analyze.command("list-runs")
@_archive_root
@_as_json
@_output
def list_runs(root: Path, as_json: bool, output: Path | None) -> None:
    """List the runs of an archive, a row each; what the columns mean is said below the table, on stderr.

    \b
    Example:
      chamber-analyze list-runs --archive-root logs
    """
    from chamber.cli._analyze_archive import Archive

    summaries = Archive(root).summaries()
    if not summaries:
        click.echo(f"{_NAME}: there is no log of a run in or below {root}", err=True)
    if as_json:
        _write(_json(summaries), output)
        return
    rows = [[_cell(summary[field]) for field, _ in _LISTED.values()] for summary in summaries]
    _write(_table([list(_LISTED), *rows]), output)
    if rows:
        sys.stdout.flush()
        click.echo(f"\n{_legend()}", nl=False, err=True)


@analyze.command("summary")
@_run_id
@_archive_root
@_as_json
@_output
def summary(run_id: str, root: Path, as_json: bool, output: Path | None) -> None:
    """Say in a few lines what a run was and how it ended.

    \b
    Example:
      chamber-analyze summary 79e4461c7a0750c7 --archive-root logs
    """
    from chamber.cli._analyze_archive import Archive

    archive = Archive(root)
    found = archive.run(run_id).summary(archive.envelope)
    if as_json:
        _write(_json(found), output)
        return
    from ripieno._printable import printable

    _write("".join(f"  {key}: {printable(_cell(value))}\n" for key, value in found.items()), output)


@analyze.command("metrics")
@_run_id
@_archive_root
@click.option("--metric", required=True, metavar="NAME", help="Field of the log, such as mean_reward or policy_loss.")
@_namespace
@click.option("--fmt", type=click.Choice(["json", "csv"]), default="json", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="The same as --fmt json.")
@_output
def metrics(
    run_id: str, root: Path, metric: str, namespace: str | None, fmt: str, as_json: bool, output: Path | None
) -> None:
    """Write the values of a metric: step, time, value.

    \b
    Example:
      chamber-analyze metrics 79e4461c7a0750c7 --archive-root logs --metric mean_reward --fmt csv
    """
    from dataclasses import asdict

    from chamber.cli._analyze_archive import Archive

    rows = [asdict(reading) for reading in Archive(root).run(run_id).readings(metric, namespace=namespace)]
    if as_json or fmt == "json":
        _write(_json(rows), output)
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, ["step", "wall_time", "value"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    _write(text.getvalue(), output)


@analyze.command("compare")
@click.argument("run_ids", nargs=-1, required=True, metavar="RUN_ID...")
@_archive_root
@click.option("--metrics", "names", default=_COMPARED, show_default=True, help="Fields of the summary, by commas.")
@_as_json
@_output
def compare(run_ids: tuple[str, ...], root: Path, names: str, as_json: bool, output: Path | None) -> None:
    """Put runs side by side.

    A run that is not there becomes a row that says so.

    \b
    Example:
      chamber-analyze compare 79e4461c7a0750c7 99ddf980c2a944ed --archive-root logs --metrics seed,mean_reward_final
    """
    from chamber.cli._analyze_archive import SUMMARY_FIELDS, Archive
    from ripieno.errors import InputError

    fields = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in fields if name not in SUMMARY_FIELDS]
    if unknown or not fields:
        given = unknown[0] if unknown else names
        raise InputError(f"--metrics takes fields of a summary ({', '.join(SUMMARY_FIELDS)}), got {given!r}")
    archive = Archive(root)
    known = {run.run_id for run in archive.runs}
    rows: list[dict[str, Any]] = []
    for run_id in run_ids:
        if run_id not in known:
            rows.append({"run_id": run_id, "error": "not_found"})
            continue
        found = archive.run(run_id).summary(archive.envelope)
        rows.append({"run_id": run_id} | {name: found[name] for name in fields})
    if as_json:
        _write(_json(rows), output)
        return
    headings = ["run_id", *(name for name in fields if name != "run_id")]
    cells = [
        [row["run_id"], "error: not_found"] if "error" in row else [_cell(row[name]) for name in headings]
        for row in rows
    ]
    _write(_table([headings, *cells]), output)


@analyze.command("plot")
@click.argument("run_ids", nargs=-1, required=True, metavar="RUN_ID...")
@_archive_root
@click.option("--metric", required=True, metavar="NAME", help="Field of the log, such as mean_reward or policy_loss.")
@click.option("--out", required=True, type=_PATH, metavar="FILE", help="The figure, .png or .svg; it is replaced.")
@_namespace
@click.option(
    "--window",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Values per mean: rewards of single episodes scatter, means of 50 of them show the course.",
)
@click.option("--title", help="Above the axes.")
@click.option("--ymin", type=float, help="Lowest value shown.")
@click.option("--ymax", type=float, help="Highest value shown.")
@click.option("--logy", is_flag=True, help="Logarithmic vertical axis.")
@_as_json
def plot(
    run_ids: tuple[str, ...],
    root: Path,
    metric: str,
    out: Path,
    namespace: str | None,
    window: int,
    title: str | None,
    ymin: float | None,
    ymax: float | None,
    logy: bool,
    as_json: bool,
) -> None:
    """Draw a metric over frames, one line per run.

    \b
    Examples:
      chamber-analyze plot 79e4461c7a0750c7 --archive-root logs --metric value_loss --logy --out loss.svg
      chamber-analyze plot 79e4461c7a0750c7 --archive-root logs --metric reward --out episodes.png
      chamber-analyze plot 79e4461c7a0750c7 99ddf980c2a944ed --archive-root runs --metric reward --window 50 --out a.png
    """
    from chamber.cli._analyze_archive import Archive
    from chamber.cli._analyze_figures import metric_figure
    from concerto.training._curve_figures import require_figure_path, write_figure

    require_figure_path(out)
    archive = Archive(root)
    readings = {run_id: archive.run(run_id).readings(metric, namespace=namespace) for run_id in run_ids}
    figure = metric_figure(
        readings,
        metric=metric,
        names={run_id: f"{run_id}, seed {archive.run(run_id).identity.get('seed', '-')}" for run_id in run_ids},
        title=title,
        window=window,
        y_limits=(ymin, ymax),
        is_logarithmic=logy,
    )
    path = write_figure(figure, out)
    click.echo(_json({"out": str(path), "runs": list(readings), "metric": metric}).rstrip() if as_json else str(path))


@analyze.command("curve")
@_run_id
@_archive_root
@click.option("--out", type=_PATH, metavar="FILE", help="Draw it, as .png or .svg; the file is replaced.")
@click.option(
    "--overlay",
    type=click.Choice(["slope", "mean"]),
    default="slope",
    show_default=True,
    help="What is drawn over the rewards: the line of the check, or a moving mean.",
)
@click.option(
    "--window", type=click.IntRange(min=1), default=50, show_default=True, help="Episodes per mean, for --overlay mean."
)
@click.option("--check-guarantee", is_flag=True, help="Exit with 3 unless the check passes.")
@_as_json
@click.pass_context
def curve(
    ctx: click.Context,
    run_id: str,
    root: Path,
    out: Path | None,
    overlay: str,
    window: int,
    check_guarantee: bool,
    as_json: bool,
) -> None:
    """Judge and draw the learning curve.

    Does the ego learn? The check fits a line to the rewards of the finished episodes; it passes when the line rises
    and chance does not explain it. A run that still goes on can be looked at, too.

    \b
    Examples:
      chamber-analyze curve 79e4461c7a0750c7 --archive-root logs
      chamber-analyze curve 79e4461c7a0750c7 --archive-root logs --out curve.png --overlay mean
    """
    from chamber.cli._analyze_archive import Archive
    from concerto.training._curve_figures import mean_figure, require_figure_path, slope_figure, write_figure
    from concerto.training.learning_signal_check import (
        CheckStatus,
        check_positive_learning_slope,
        slope_report_line,
        slope_report_values,
    )

    if out is not None:
        require_figure_path(out)
    rewards = Archive(root).run(run_id).episode_rewards()
    report = check_positive_learning_slope(rewards)
    values = slope_report_values(report)
    if out is not None:
        is_mean = overlay == "mean"
        figure = mean_figure(rewards, window=window) if is_mean else slope_figure(rewards, report)
        out = write_figure(figure, out)
    if as_json:
        click.echo(_json({"run_id": run_id, "out": None if out is None else str(out), "report": values}).rstrip())
    else:
        click.echo(slope_report_line(report))
        if out is not None:
            click.echo(str(out))
    if check_guarantee and report.status is not CheckStatus.PASSED:
        ctx.exit(EXIT_NOT_LEARNING)


@analyze.command("audit-gate")
@_run_id
@_archive_root
@_as_json
@click.pass_context
def audit_gate(ctx: click.Context, run_id: str, root: Path, as_json: bool) -> None:
    """Judge the safety layer of a finished run by its last record.

    Exit codes: 0 it passes, or there was no safety layer; 2 no such run; 3 the run has no final record; 8 the slack is
    saturated; 9 the slack never moved.

    \b
    Example:
      chamber-analyze audit-gate 79e4461c7a0750c7 --archive-root logs
    """
    from chamber.cli._analyze_archive import Archive
    from concerto.training.safety_telemetry import audit_gate as judge

    verdict = judge(Archive(root).run(run_id).path)
    click.echo(_json({"exit_code": int(verdict.exit_code), "reason": verdict.reason}) if as_json else verdict.reason)
    ctx.exit(int(verdict.exit_code))


@analyze.command("rollout-frames")
@_run_id
@_archive_root
@click.option("--episode", type=click.IntRange(min=0), metavar="STEP", help="Only what was recorded at this frame.")
@click.option("--field", metavar="KEY", help="Only this field of every step, such as reward or obs_summary.")
@click.option("--out", "--output", "output", type=_PATH, metavar="FILE", help="Write to this file; it is replaced.")
@click.option("--json", "as_json", is_flag=True, help="JSON, which it is anyway.")
def rollout_frames(
    run_id: str, root: Path, episode: int | None, field: str | None, output: Path | None, as_json: bool
) -> None:
    """Write the steps of recorded episodes as a JSON list.

    \b
    Example:
      chamber-analyze rollout-frames 79e4461c7a0750c7 --archive-root logs --episode 25000 --field reward
    """
    from chamber.cli._analyze_archive import Archive, read_lines
    from ripieno.errors import InputError

    archive = Archive(root)
    paths = archive.recordings(archive.run(run_id))
    if episode is not None:
        known = sorted({path.stem for path in paths})
        paths = [path for path in paths if path.stem == f"step_{episode:06d}"]
        if not paths:
            raise InputError(f"nothing was recorded at frame {episode}; there are {', '.join(known) or 'none'}")
    steps = [step for path in paths for step in read_lines(path)]
    if field is not None and steps and not any(field in step for step in steps):
        raise InputError(f"no step has a field {field!r}; there are {', '.join(sorted(steps[0]))}")
    _write(_json(steps if field is None else [step.get(field) for step in steps]), output)


def _json(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _legend() -> str:
    """What the columns of ``list-runs`` mean."""
    width = max(map(len, _LISTED))
    words = [(heading, meaning) for heading, (_, meaning) in _LISTED.items()]
    return "".join(f"{heading:<{width}}  {meaning}\n" for heading, meaning in [*words, ("-", "not in the log")])


def _table(rows: list[list[str]]) -> str:
    """Rows with aligned columns; the first row is the heading."""
    from ripieno._printable import printable

    shown = [[printable(cell) for cell in row] for row in rows]
    n_columns = max(map(len, shown))
    widths = [max((len(row[column]) for row in shown if column < len(row)), default=0) for column in range(n_columns)]
    return "".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)).rstrip() + "\n" for row in shown
    )


def _write(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
        return
    from ripieno.errors import StorageError
    from ripieno.files import write_atomic

    try:
        output.absolute().parent.mkdir(parents=True, exist_ok=True)
        write_atomic(output, text.encode("utf-8"))
    except OSError as error:
        raise StorageError(f"cannot write {output}: {error.strerror}") from error


if __name__ == "__main__":
    raise SystemExit(main())
