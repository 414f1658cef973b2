"""``spo run`` and ``spo compare``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ripieno._printable import printable
from scpn_phase_orchestrator.exceptions import AuditError
from scpn_phase_orchestrator.runtime.cli._app import EXIT_REFUSED
from scpn_phase_orchestrator.runtime.cli._gate import OpenedSpec, open_rules, open_spec, refuse
from scpn_phase_orchestrator.runtime.cli._progress import StepProgress
from scpn_phase_orchestrator.runtime.cli._run_text import chart, final_line, table, what_runs
from scpn_phase_orchestrator.runtime.cli._startup import quick_start

if TYPE_CHECKING:
    from scpn_phase_orchestrator.runtime.audit_logger import AuditLogger
    from scpn_phase_orchestrator.runtime.compare import Comparison
    from scpn_phase_orchestrator.runtime.simulation import SimulationResult
    from scpn_phase_orchestrator.supervisor.policy_rules import PolicyRule

__all__ = ["EXIT_INTERRUPTED", "compare", "integration_options", "read_rules", "rule_options", "run", "tier_option"]

EXIT_INTERRUPTED = 130
"""Ended by Ctrl-C."""
LONG_ENOUGH = 1000
"""Steps below which a run that did not achieve its objective gets a hint."""

Command = Callable[..., Any]

_FILE = click.Path(dir_okay=False, path_type=Path)


def integration_options(command: Command) -> Command:
    """Add ``--method`` and ``--substeps``."""
    command = click.option(
        "--substeps",
        type=click.IntRange(min=1, max=1_000_000),
        help="Equal parts of a step. [default: as the spec says]",
    )(command)
    return click.option(
        "--method",
        type=click.Choice(["euler", "rk4", "rk45"]),
        help="Integration method. [default: as the spec says]",
    )(command)


def rule_options(command: Command) -> Command:
    """Add ``--policy`` and ``--no-policy``."""
    command = click.option("--no-policy", is_flag=True, help="Use no rule file.")(command)
    return click.option(
        "--policy",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Rule file. [default: the one beside the spec]",
    )(command)


def tier_option(command: Command) -> Command:
    """Add ``--acknowledge-tier``."""
    return click.option(
        "--acknowledge-tier",
        metavar="TIER",
        help="Simulate a spec of this safety tier, which is not 'research'; nothing is actuated.",
    )(command)


def read_rules(opened: OpenedSpec, policy: Path | None, *, no_policy: bool) -> list[PolicyRule]:
    """Give the rules that a run uses.

    Raises:
        click.UsageError: both options were given.
    """
    if policy is not None and no_policy:
        raise click.UsageError("--policy and --no-policy exclude each other")
    document = None if no_policy else open_rules(opened.spec, opened.path, policy)
    return [] if document is None else list(document.rules)


@click.command()
@click.argument("spec", metavar="PACK|FOLDER|FILE")
@click.option("--steps", type=click.IntRange(min=0), default=100, show_default=True, help="How many steps.")
@click.option("--seed", type=click.IntRange(min=0), default=42, show_default=True, help="Of the initial phases.")
@click.option("--audit", type=_FILE, help="Write an audit log here (JSONL); the file must not exist.")
@click.option("--audit-stream", type=_FILE, help="Also write the records as a protobuf event stream here.")
@rule_options
@click.option("--open-loop", is_flag=True, help="Run without supervisor and rules.")
@integration_options
@tier_option
@click.option("--plot", type=_FILE, help="Draw the run: .png, .svg, or .html for a page.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--verbose", "-v", is_flag=True, help="Print what the spec resolves to.")
@click.pass_context
def run(
    ctx: click.Context,
    spec: str,
    steps: int,
    seed: int,
    audit: Path | None,
    audit_stream: Path | None,
    policy: Path | None,
    no_policy: bool,
    open_loop: bool,
    method: str | None,
    substeps: int | None,
    acknowledge_tier: str | None,
    plot: Path | None,
    as_json: bool,
    verbose: bool,
) -> None:
    """Run a pack or a spec under its supervisor.

    Give the name of a pack ('spo packs' lists them), a folder with a binding_spec.yaml, or a spec file. Nothing is
    actuated: a run is a simulation.

    \b
    Examples:
      spo run power_grid
      spo run my_pack/ --steps 1000 --audit run.jsonl --plot run.html
      spo run spec.yaml --open-loop --json
    """
    is_quiet = bool(ctx.obj and ctx.obj.get("quiet"))
    _check_plot(plot, needs_steps=steps)
    opened = open_spec(spec, acknowledge_tier)
    if open_loop and policy is not None:
        raise click.UsageError("--open-loop and --policy exclude each other")
    with quick_start():
        from scpn_phase_orchestrator.runtime.simulation import simulate

        rules = [] if open_loop else read_rules(opened, policy, no_policy=no_policy)
        notes = _rehearse(opened, rules, is_supervised=not open_loop, seed=seed, method=method, substeps=substeps)
    if verbose:
        _print_configuration(opened, to_stderr=as_json)
    if not is_quiet:
        words = what_runs(
            opened.spec,
            steps,
            seed,
            is_supervised=not open_loop,
            n_rules=len(rules),
            is_dry=opened.is_dry,
        )
        click.echo(printable(words), err=True)
        _print_notes(notes)
    audit = _audit_path(audit, audit_stream, plot)
    progress = StepProgress(steps, is_quiet=is_quiet)
    try:
        with _open_log(audit, audit_stream) as log, progress:
            result = simulate(
                opened.spec,
                steps=steps,
                seed=seed,
                policy_enabled=not open_loop,
                audit_logger=log,
                rules=rules,
                method=method,
                substeps=substeps,
                on_step=progress,
            )
    except KeyboardInterrupt:
        where = "" if audit is None else f" {audit} holds them and verifies as interrupted."
        click.echo(f"Interrupted after {progress.done} of {steps} steps.{where}", err=True)
        ctx.exit(EXIT_INTERRUPTED)
    except ValueError as error:
        refuse(str(error))
    if plot is not None:
        _draw(result, opened, plot)
    _print_result(result, as_json=as_json, is_quiet=is_quiet)
    if not is_quiet:
        if not open_loop and steps < LONG_ENOUGH and result.verdict is not None and not result.verdict.is_achieved:
            click.echo(f"A short run leaves the supervisor little time; try --steps {LONG_ENOUGH}.", err=True)
        files = [str(path) for path in (audit, audit_stream, plot) if path is not None]
        wrote = f" Wrote {', '.join(files)}." if files else ""
        click.echo(f"{result.steps} steps in {progress.elapsed_s:.2f} s.{wrote}", err=True)


@click.command()
@click.argument("spec", metavar="PACK|FOLDER|FILE")
@click.option("--steps", type=click.IntRange(min=1), default=1000, show_default=True, help="Steps of every run.")
@click.option("--seed", type=click.IntRange(min=0), default=42, show_default=True, help="The first seed.")
@click.option("--seeds", type=click.IntRange(min=1), default=3, show_default=True, help="How many seeds.")
@rule_options
@integration_options
@tier_option
@click.option("--plot", type=_FILE, help="Draw the first seed: .png, .svg, or .html for a page.")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
@click.pass_context
def compare(
    ctx: click.Context,
    spec: str,
    steps: int,
    seed: int,
    seeds: int,
    policy: Path | None,
    no_policy: bool,
    method: str | None,
    substeps: int | None,
    acknowledge_tier: str | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Run open loop and supervised from one seed and say what supervision changed.

    Every seed gives two runs with the same initial phases. Exit code 0 when the supervised runs end with a better
    verdict or an equal one, 1 when they end with a worse one.

    \b
    Examples:
      spo compare power_grid
      spo compare my_pack/ --seeds 10 --json
      spo compare spec.yaml --plot comparison.html
    """
    is_quiet = bool(ctx.obj and ctx.obj.get("quiet"))
    _check_plot(plot, needs_steps=steps)
    opened = open_spec(spec, acknowledge_tier)
    with quick_start():
        from scpn_phase_orchestrator.runtime.compare import Effect
        from scpn_phase_orchestrator.runtime.compare import compare as compare_runs

        rules = read_rules(opened, policy, no_policy=no_policy)
        notes = _rehearse(opened, rules, is_supervised=True, seed=seed, method=method, substeps=substeps)
    if not is_quiet:
        _print_notes(notes)
    progress = StepProgress(2 * steps * seeds, is_quiet=is_quiet)
    try:
        with progress:
            comparison = compare_runs(
                opened.spec,
                steps=steps,
                seeds=range(seed, seed + seeds),
                rules=rules,
                method=method,
                substeps=substeps,
                on_step=progress,
            )
    except KeyboardInterrupt:
        click.echo(f"Interrupted after {progress.done} of {2 * steps * seeds} steps.", err=True)
        ctx.exit(EXIT_INTERRUPTED)
    except ValueError as error:
        refuse(str(error))
    if plot is not None:
        _draw_comparison(comparison, opened, plot)
    if as_json:
        click.echo(json.dumps(comparison.to_record(), indent=2, sort_keys=True, allow_nan=False))
    else:
        _print_comparison(comparison, is_quiet=is_quiet)
    if not is_quiet:
        click.echo(f"{2 * seeds} runs of {steps} steps in {progress.elapsed_s:.2f} s.", err=True)
    if comparison.effect is Effect.WORSE:
        ctx.exit(EXIT_REFUSED)


def _rehearse(
    opened: OpenedSpec,
    rules: Sequence[PolicyRule],
    *,
    is_supervised: bool,
    seed: int,
    method: str | None,
    substeps: int | None,
) -> tuple[str, ...]:
    """Take one step that is thrown away: what can refuse a run does so before a file is made, and kernels are loaded.

    Returns:
        The notes of the run.
    """
    from scpn_phase_orchestrator.runtime.step_core import StepCore

    try:
        core = StepCore(
            opened.spec, seed=seed, policy_enabled=is_supervised, rules=rules, method=method, substeps=substeps
        )
        core.step()
    except ValueError as error:
        refuse(str(error))
    return core.notes


def _print_notes(notes: Sequence[str]) -> None:
    for note in notes:
        click.echo(printable(f"Note: {note}"), err=True)


def _check_plot(plot: Path | None, *, needs_steps: int) -> None:
    if plot is None:
        return
    if plot.suffix.lower() not in (".png", ".svg", ".html"):
        raise click.BadParameter(f"must end with .png, .svg or .html, got {plot.name!r}", param_hint="'--plot'")
    if needs_steps == 0:
        raise click.UsageError("--plot needs at least one step")


def _audit_path(audit: Path | None, audit_stream: Path | None, plot: Path | None) -> Path | None:
    """Where the log goes: as given, else beside the event stream; no two outputs share a file."""
    path = audit_stream.with_suffix(".jsonl") if audit is None and audit_stream is not None else audit
    log, stream, picture = (None if one is None else one.resolve() for one in (path, audit_stream, plot))
    if stream is not None and log == stream:
        raise click.UsageError("the event stream and the audit log need two files; name the log with --audit")
    if picture is not None and picture in (log, stream):
        raise click.UsageError("--plot would replace what the run recorded; give it a file of its own")
    if audit_stream is not None and audit_stream.exists():
        raise AuditError(f"{audit_stream} exists already; two runs never share an event stream")
    return path


def _open_log(audit: Path | None, audit_stream: Path | None) -> AuditLogger | nullcontext[None]:
    if audit is None:
        return nullcontext()
    from scpn_phase_orchestrator.runtime.audit_logger import AuditLogger

    return AuditLogger(audit, event_stream=audit_stream, create_only=True)


def _print_configuration(opened: OpenedSpec, *, to_stderr: bool) -> None:
    from scpn_phase_orchestrator.binding.resolved import format_resolved_binding_config, resolved_binding_config

    for line in format_resolved_binding_config(resolved_binding_config(opened.spec)):
        click.echo(line, err=to_stderr)


def _print_result(result: SimulationResult, *, as_json: bool, is_quiet: bool) -> None:
    if as_json:
        verdict = None if result.verdict is None else result.verdict.to_record()
        click.echo(json.dumps({**result.to_record(), "verdict": verdict}, indent=2, sort_keys=True, allow_nan=False))
        return
    if result.history is not None and result.verdict is not None:
        if not is_quiet:
            for line in chart(result.history):
                click.echo(line)
        click.echo(printable(result.verdict.sentence))
    # Nobody judges the regime of an open loop: saying the one it began with would read like a finding.
    regime = result.final_regime if result.policy_enabled else "unsupervised"
    click.echo(final_line(result.r_good, result.r_bad, regime, result.mean_amplitude))


def _print_comparison(comparison: Comparison, *, is_quiet: bool) -> None:
    rows: list[list[str]] = []
    for pair in comparison.pairs:
        for name, result, verdict in zip(
            ("open loop", "supervised"), (pair.open_loop, pair.supervised), pair.verdicts, strict=True
        ):
            uplift = f"{pair.uplift:+.3f} {pair.effect.value}" if result is pair.supervised else ""
            rows.append(
                [
                    f"{pair.seed} {name}",
                    _number(verdict.good_r),
                    _number(verdict.bad_lock),
                    result.final_regime if result is pair.supervised else "-",
                    f"{verdict.score:.3f}",
                    verdict.outcome.value,
                    uplift,
                ]
            )
    for line in table(["seed", "lowest R", "highest lock", "regime", "score", "verdict", "uplift"], rows):
        click.echo(line)
    if not is_quiet:
        before, after = comparison.pairs[0].verdicts
        seed = comparison.pairs[0].seed
        click.echo(printable(f"Seed {seed}, open loop:  {before.sentence}"))
        click.echo(printable(f"Seed {seed}, supervised: {after.sentence}"))
    click.echo(comparison.sentence)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _draw(result: SimulationResult, opened: OpenedSpec, plot: Path) -> None:
    if plot.suffix.lower() == ".html":
        from scpn_phase_orchestrator.reporting.run_page import write_run_page

        write_run_page(result, opened.spec, plot)
        return
    from scpn_phase_orchestrator.reporting.figures import write_run_figure

    if result.history is not None:
        write_run_figure(result.history, plot)


def _draw_comparison(comparison: Comparison, opened: OpenedSpec, plot: Path) -> None:
    pair = comparison.pairs[0]
    if plot.suffix.lower() == ".html":
        from ripieno.files import write_atomic
        from scpn_phase_orchestrator.reporting.run_page import render_comparison_page

        page = render_comparison_page(pair.open_loop, pair.supervised, opened.spec)
        plot.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(plot, page.encode("utf-8"))
        return
    from scpn_phase_orchestrator.reporting.figures import write_comparison_figure

    if pair.open_loop.history is not None and pair.supervised.history is not None:
        write_comparison_figure(pair.open_loop.history, pair.supervised.history, plot)
