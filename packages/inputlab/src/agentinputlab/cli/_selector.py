"""``agentinputlab selector``: what a selector of interventions would see and choose."""

from __future__ import annotations

import json

import click

__all__ = ["selector"]


@click.group("selector")
def selector() -> None:
    """Look at what a selector of interventions would see.

    \b
    Examples:
      agentinputlab selector list
      agentinputlab selector features --query "Return both lamps"
    """


@selector.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def list_command(as_json: bool) -> None:
    """List the selectors, and why some have no artifact here.

    \b
    Example:
      agentinputlab selector list --json
    """
    from agentinputlab.selectors import list_selectors

    cards = list_selectors()
    if as_json:
        click.echo(json.dumps([card.as_dict() for card in cards]))
        return
    width = max(len(card.selector_id) for card in cards)
    for card in cards:
        click.echo(
            f"{card.selector_id.ljust(width)}  {'available' if card.available else 'none here'}  {card.description}"
        )


@selector.command("features")
@click.option("--query", default="", help="What the user asks.")
@click.option("--instruction", default="", help="What the agent is told to do.")
@click.option("--tool-name", "tool_names", multiple=True, help="Name of a tool the agent has. Repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def features(query: str, instruction: str, tool_names: tuple[str, ...], as_json: bool) -> None:
    """Measure a visible state and say what the shipped rules would choose.

    Example: agentinputlab selector features --query "Return both lamps and the rug" --tool-name get_order_details
    """
    from agentinputlab.contracts.state import FrozenAgentState
    from agentinputlab.selectors import load_selector, visible_features

    state = FrozenAgentState(query=query, instruction=instruction, tool_names=tool_names)
    measured = visible_features(state)
    choice = load_selector().select(state)
    if as_json:
        click.echo(json.dumps({"features": measured, "selection": choice.as_dict()}))
        return
    for name, value in measured.items():
        click.echo(f"{name} = {value}")
    click.echo(f"the shipped rules choose: {choice.release_id} (rule {choice.rule})")


@selector.command("inspect")
@click.argument("selector_id", metavar="ID")
@click.option("--revision", help="Revision that the artifact must have.")
@click.option("--sha256", help="Hash that the artifact's bytes must have.")
def inspect(selector_id: str, revision: str | None, sha256: str | None) -> None:
    """Show one selector's artifact, checked against a revision and a hash.

    \b
    Example:
      agentinputlab selector inspect rules.visible_state
    """
    from agentinputlab.selectors import inspect_selector

    click.echo(
        json.dumps(inspect_selector(selector_id, revision=revision, sha256=sha256), indent=2, ensure_ascii=False)
    )
