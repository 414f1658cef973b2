"""``agentinputlab list``, ``show`` and ``validate-registry``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentinputlab.contracts.enums import ReleaseTier, SemanticFamily, StrEnum, SupportStatus
from agentinputlab.registry.cards import DeliveryTier

if TYPE_CHECKING:
    from agentinputlab.registry import AlgorithmRegistry, MethodCard, ReleaseCard

__all__ = ["chosen_registry", "list_methods", "show", "validate_registry"]


def chosen_registry(ctx: click.Context) -> AlgorithmRegistry:
    """Give the packaged registry, or the one that ``--registry`` names."""
    from agentinputlab.registry import AlgorithmRegistry, load_registry_file

    path: Path | None = (ctx.find_root().obj or {}).get("registry")
    return AlgorithmRegistry.default() if path is None else AlgorithmRegistry(load_registry_file(path))


def _choice(values: type[StrEnum]) -> click.Choice[str]:
    return click.Choice([str(value) for value in values])


@click.command("list")
@click.option("--search", help="Only what has this text in its id, name, tags or paper.")
@click.option("--family", type=_choice(SemanticFamily), help="What it changes about the input.")
@click.option("--tier", type=_choice(ReleaseTier), help="Core roster or optional.")
@click.option("--status", type=_choice(SupportStatus), help="How far its support has come.")
@click.option("--delivery-tier", type=_choice(DeliveryTier), help="How firmly a release is promised (with --releases).")
@click.option("--releases", is_flag=True, help="One row per release instead of per method.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@click.pass_context
def list_methods(
    ctx: click.Context,
    search: str | None,
    family: str | None,
    tier: str | None,
    status: str | None,
    delivery_tier: str | None,
    releases: bool,
    as_json: bool,
) -> None:
    """List the registered methods, or their releases.

    \b
    Examples:
      agentinputlab list --family clarify
      agentinputlab list --releases --search plan
    """
    registry = chosen_registry(ctx)
    if releases or delivery_tier is not None:
        found = registry.list_releases(family, tier, status, delivery_tier=delivery_tier)
        rows = [
            _release_row(registry, card)
            for card in found
            if _mentions(registry.get_method(card.method_id), search, card)
        ]
    else:
        rows = [_method_row(card) for card in registry.list_methods(family, tier, status) if _mentions(card, search)]
    click.echo(json.dumps(rows) if as_json else _table(rows))


@click.command("show")
@click.argument("identifier", metavar="ID")
@click.option(
    "--parameters", is_flag=True, help="Show the constructor's parameters of a release instead; runs nothing."
)
@click.pass_context
def show(ctx: click.Context, identifier: str, parameters: bool) -> None:
    """Show the card of a method or of a release.

    \b
    Examples:
      agentinputlab show plan.plan_and_solve
      agentinputlab show plan.plan_and_solve.ps_prompt --parameters
    """
    from agentinputlab.registry import MethodCard

    registry = chosen_registry(ctx)
    if parameters:
        from agentinputlab.api import describe_intervention

        record = describe_intervention(identifier, registry=registry)
    else:
        card = registry.get(identifier)
        record = (
            card.as_dict()
            if isinstance(card, MethodCard)
            else {"method": registry.get_method(card.method_id).as_dict(), "release": card.as_dict()}
        )
    click.echo(json.dumps(record, indent=2, ensure_ascii=False))


@click.command("validate-registry")
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("--check-snapshot", is_flag=True, help="Also compare it with the packaged registry.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.pass_context
def validate_registry(ctx: click.Context, path: Path | None, check_snapshot: bool, as_json: bool) -> None:
    """Check a registry document.

    Without PATH it is the packaged one. The exit code is 1 when something is wrong.

    Example: agentinputlab validate-registry my-registry.json --check-snapshot
    """
    from agentinputlab.contracts.errors import AgentInputLabError
    from agentinputlab.registry import AlgorithmRegistry, load_registry_file, validate_snapshot_sync

    problems: list[str] = []
    methods = 0
    try:
        registry = chosen_registry(ctx) if path is None else AlgorithmRegistry(load_registry_file(path))
        methods = len(registry.list_methods())
        registry.validate_roster()
        if check_snapshot:
            validate_snapshot_sync(dict(registry.document))
    except AgentInputLabError as error:
        problems.append(str(error))
    if as_json:
        click.echo(json.dumps({"ok": not problems, "method_count": methods, "errors": problems}))
    elif problems:
        click.echo(f"registry: {problems[0]}", err=True)
    else:
        click.echo(f"registry: OK, {methods} methods")
    ctx.exit(1 if problems else 0)


def _mentions(method: MethodCard, search: str | None, release: ReleaseCard | None = None) -> bool:
    if search is None:
        return True
    texts = [method.method_id, method.display_name, method.paper_title or "", *method.semantic_tags]
    texts += [card.id for card in ([release] if release else method.releases)]
    return any(search.casefold() in text.casefold() for text in texts)


def _method_row(card: MethodCard) -> dict[str, Any]:
    return {
        "METHOD": card.method_id,
        "NAME": card.display_name,
        "FAMILY": str(card.semantic_family),
        "TIER": str(card.release_tier),
        "STATUS": str(card.status),
        "RELEASES": len(card.releases),
    }


def _release_row(registry: AlgorithmRegistry, card: ReleaseCard) -> dict[str, Any]:
    return {
        "RELEASE": card.id,
        "METHOD": card.method_id,
        "FAMILY": str(registry.get_method(card.method_id).semantic_family),
        "STATUS": str(card.status),
        "DELIVERY": str(card.delivery_tier),
        "ENTRYPOINT": card.entrypoint or "",
        "RUNNABLE": "yes" if card.runnable else "no",
        "AVAILABILITY": str(card.availability),
        "BLOCKER": card.blocker,
    }


def _table(rows: Sequence[dict[str, Any]]) -> str:
    """Columns as wide as their widest cell, so that `cut`, `grep` and people can read them."""
    if not rows:
        return "nothing matches"
    headers = list(rows[0])
    widths = [max(len(header), *(len(str(row[header])) for row in rows)) for header in headers]
    lines = [headers, *([str(row[header]) for header in headers] for row in rows)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
