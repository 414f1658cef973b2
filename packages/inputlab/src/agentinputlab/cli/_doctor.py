"""``agentinputlab doctor``: what works on this machine, and for every release whether it can run here."""

from __future__ import annotations

import json
from pathlib import Path

import click

__all__ = ["doctor"]

_SHOWN = 12


@click.command("doctor")
@click.option(
    "--source",
    type=click.Path(path_type=Path),
    help="Registry document to compare with the packaged one.  [default: the one of the repository around you, if any]",
)
@click.option("--offline", is_flag=True, help="Ask no endpoint.")
@click.option("--endpoint", "endpoints", multiple=True, help="OpenAI-compatible base URL to look at. Repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON object.")
@click.pass_context
def doctor(ctx: click.Context, source: Path | None, offline: bool, endpoints: tuple[str, ...], as_json: bool) -> None:
    """Say what works on this machine, release by release.

    The exit code is 1 when the registry, an arena that needs nothing, or a named endpoint does not work.

    \b
    Examples:
      agentinputlab doctor --offline
      agentinputlab doctor --endpoint http://127.0.0.1:8000/v1
    """
    from agentinputlab.cli._registry import chosen_registry
    from agentinputlab.diagnosis import diagnose

    report = diagnose(chosen_registry(ctx), source=source, endpoints=() if offline else endpoints, offline=offline)
    if as_json:
        click.echo(json.dumps(report.as_dict()))
        ctx.exit(0 if report.ok else 1)
    registry = report.registry
    click.echo(
        f"registry: {registry.method_count} methods ({registry.core_count} core, {registry.optional_count} optional), "
        f"{registry.release_count} releases, {registry.must_ship_count} must ship"
    )
    for check in report.checks:
        click.echo(f"  {'ok ' if check.ok else 'NO ' if check.required else '-  '} {check.name}: {check.detail}")
    for word, meaning in (
        ("ready", "run here as they are"),
        ("needs_model", "run here beside a model (a local server, or agentinputlab serve-model)"),
        ("needs_retrieval", "run here beside documents to search, most of them beside a model too"),
        ("blocked", "do not run here"),
    ):
        names = [row.release_id for row in report.releases if row.state == word]
        shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
        click.echo(f"{len(names)} releases {meaning}{': ' + shown if names else ''}")
    for text in (*registry.errors, *report.errors):
        click.echo(f"error: {text}", err=True)
    click.echo("OK" if report.ok else "Something is wrong; see above.")
    ctx.exit(0 if report.ok else 1)
