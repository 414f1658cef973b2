"""``spo sweep``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from scpn_phase_orchestrator.runtime.cli._app import EXIT_REFUSED, one_line
from scpn_phase_orchestrator.runtime.cli._gate import open_rules, open_spec
from scpn_phase_orchestrator.runtime.cli._run import EXIT_INTERRUPTED, integration_options, rule_options, tier_option
from scpn_phase_orchestrator.runtime.cli._run_text import table
from scpn_phase_orchestrator.runtime.cli._startup import quick_start

__all__ = ["sweep"]

MAX_SHOWN = 30
MAX_FAILURES_SHOWN = 5


@click.command()
@click.argument("spec", metavar="PACK|FOLDER|FILE")
@click.option(
    "--vary",
    "varied",
    multiple=True,
    required=True,
    metavar="PATH=VALUES",
    help="A number of the spec and its values: START:STOP:COUNT or V1,V2,...; several options make a grid.",
)
@click.option("--seeds", type=click.IntRange(min=1), default=5, show_default=True, help="How many seeds.")
@click.option("--seed", type=click.IntRange(min=0), default=42, show_default=True, help="The first seed.")
@click.option("--steps", type=click.IntRange(min=1), default=1000, show_default=True, help="Steps of every run.")
@click.option("--open-loop", is_flag=True, help="Run without supervisor and rules.")
@rule_options
@integration_options
@tier_option
@click.option(
    "--executor",
    type=click.Choice(["serial", "processes", "ray"]),
    default="serial",
    show_default=True,
    help="Where cells run; ray uses the cluster of RAY_ADDRESS, else this machine.",
)
@click.option("--workers", type=click.IntRange(min=1), help="Cells at a time. [default: all cores]")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder for the ledger and the results; the same command on it goes on where it was stopped.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")
@click.pass_context
def sweep(
    ctx: click.Context,
    spec: str,
    varied: tuple[str, ...],
    seeds: int,
    seed: int,
    steps: int,
    open_loop: bool,
    policy: Path | None,
    no_policy: bool,
    method: str | None,
    substeps: int | None,
    acknowledge_tier: str | None,
    executor: Any,
    workers: int | None,
    out: Path,
    as_json: bool,
) -> None:
    """Run a grid of couplings, knobs or seeds, on one machine or a cluster.

    A PATH is the dotted path of a number in the spec, such as coupling.base_strength, drivers.physical.zeta or
    layers.storms.omegas.0. OUT/run is a run folder with a table, a figure and a page, which 'ripieno verify' checks.

    \b
    Examples:
      spo sweep power_grid --vary coupling.base_strength=0:2:21 --out sweep
      spo sweep spec.yaml --vary drivers.physical.zeta=0,0.1,0.3 --seeds 10 --executor processes --out sweep
    """
    is_quiet = bool(ctx.obj and ctx.obj.get("quiet"))
    if policy is not None and (no_policy or open_loop):
        raise click.UsageError("--policy excludes --no-policy and --open-loop")
    with quick_start():
        from scpn_phase_orchestrator.runtime.sweep import Variation
        from scpn_phase_orchestrator.runtime.sweep import sweep as run_sweep

    try:
        variations = [Variation.parse(text) for text in varied]
    except ValueError as error:
        raise click.BadParameter(one_line(str(error)), param_hint="'--vary'") from error
    opened = open_spec(spec, acknowledge_tier)
    if not (no_policy or open_loop):
        open_rules(opened.spec, opened.path, policy)
    try:
        result = run_sweep(
            opened.path,
            variations,
            out=out,
            seeds=range(seed, seed + seeds),
            steps=steps,
            policy_enabled=not open_loop,
            policy_path=policy,
            with_rules=not no_policy,
            method=method,
            substeps=substeps,
            executor=executor,
            workers=workers,
            progress=False if is_quiet else None,
        )
    except KeyboardInterrupt:
        click.echo(f"Interrupted; the same command goes on with what {out} holds.", err=True)
        ctx.exit(EXIT_INTERRUPTED)
    if as_json:
        record = {
            "rows": list(result.rows),
            "failures": [{"cell": label, "error": error} for label, error in result.failures],
            "folder": None if result.folder is None else str(result.folder),
            "resumed": result.resumed,
        }
        click.echo(json.dumps(record, indent=2, sort_keys=True, allow_nan=False))
    else:
        for line in _means([variation.path for variation in variations], result.rows):
            click.echo(line)
    if result.failures:
        for label, error in result.failures[:MAX_FAILURES_SHOWN]:
            click.echo(f"ERROR: {one_line(f'{label}: {error}')}", err=True)
        click.echo(f"{len(result.failures)} cells failed; the same command tries them again.", err=True)
        ctx.exit(EXIT_REFUSED)
    if not is_quiet:
        resumed = f", {result.resumed} of them from an earlier call" if result.resumed else ""
        click.echo(f"{len(result.rows)} cells{resumed}. Wrote {result.folder}; look at index.html there.", err=True)


def _means(paths: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Give a table of the means over the seeds, one row per combination of values."""
    groups: dict[tuple[float, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[path] for path in paths), []).append(row)
    lines: list[list[str]] = []
    for values, members in groups.items():
        means = [_mean([row[name] for row in members]) for name in ("r_good", "r_bad", "lock_bad", "score")]
        achieved = sum(row["outcome"] == "achieved" for row in members)
        lines.append([*(f"{value:g}" for value in values), *means, f"{achieved}/{len(members)}"])
    shown = table([*paths, "R_good", "R_bad", "lock_bad", "score", "achieved"], lines[:MAX_SHOWN])
    if len(lines) > MAX_SHOWN:
        shown.append(f"... and {len(lines) - MAX_SHOWN} more; results.csv has them all")
    return shown


def _mean(values: Sequence[float | None]) -> str:
    """Give the mean as text; a dash where a spec has no bad layer."""
    known = [value for value in values if value is not None]
    return f"{sum(known) / len(known):.4f}" if known else "-"
