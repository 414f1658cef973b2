"""``chamber list``: what there is to play with."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click

from chamber.cli._options import importing

__all__ = ["list_command"]

KINDS = ("tasks", "partners", "robots")


@click.command("list")
@importing
@click.argument("kind", type=click.Choice(KINDS), required=False)
@click.option("--json", "as_json", is_flag=True, help="Write JSON for machines.")
def list_command(kind: str | None, as_json: bool) -> None:
    """List tasks, conditions, partners and robots.

    'chamber list partners' also says what each partner does, and its parameters with their defaults and units.

    \b
    Examples:
      chamber list
      chamber list partners
      chamber list --import lazy partners
      chamber list --json
    """
    from chamber import tasks
    from chamber.partners.registry import describe_partner, list_registered, partner_parameters
    from chamber.rollout.references import reference, reference_tasks
    from chamber.sim.robots import robot_model, robot_names

    found: dict[str, Any] = {}
    if kind in {None, "tasks"}:
        found["tasks"] = [
            {
                **row,
                "slug": f"{row['task_id']}@v{row['version']}",
                "conditions": dict(reference(row["task_id"]).conditions) if row["task_id"] in reference_tasks() else {},
            }
            for row in tasks.manifest()["tasks"]
        ]
    if kind in {None, "partners"}:
        found["partners"] = list_registered()
    if kind == "partners":  # they have to be imported for this, which takes a second
        found["partner_details"] = {
            name: {
                "description": describe_partner(name),
                "parameters": [asdict(parameter) for parameter in partner_parameters(name)],
            }
            for name in found["partners"]
        }
    if kind in {None, "robots"}:
        found["robots"] = [
            {"name": name, "joints": robot_model(name).n_joints, "actions": robot_model(name).action_dim}
            for name in robot_names()
        ]
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    _print(found)


def _print(found: dict[str, Any]) -> None:
    """Print names unbroken, so that they can be copied whatever the width of the terminal."""
    for row in found.get("tasks", ()):
        click.echo(f"{row['slug']}  ({row['admission_status'].lower()}, {_runs_on(row['sim_backend'])})")
        click.echo(f"    {row['title']}")
        width = max(map(len, row["conditions"]), default=0)
        for name, words in row["conditions"].items():
            click.echo(f"      {name:{width}}  {words}")
    if "robots" in found:
        click.echo("\nRobots")
        for row in found["robots"]:
            click.echo(f"    {row['name']:<18}  {row['joints']:>2} joints, {row['actions']:>2} action components")
    if "partners" in found:
        click.echo("\nPartners (chamber run TASK --partner NAME)")
        for name in found["partners"]:
            click.echo(f"    {name}")
            if "partner_details" in found:
                _print_details(found["partner_details"][name])
        if "partner_details" not in found:
            click.echo("    'chamber list partners' says what they do, and their parameters.")
    if "tasks" in found:
        click.echo(
            "\nA diagnostic checks the machinery, a control can be done alone, and a candidate has yet to show that it "
            "takes both robots."
        )
        click.echo(
            "The first condition of a task is its default. Try: chamber run cocarry --episodes 5 --video out.mp4"
        )


def _print_details(details: dict[str, Any]) -> None:
    click.echo(f"        {details['description']}")
    for parameter in details["parameters"]:
        value = "(must be given)" if parameter["default"] is None else parameter["default"] or "(empty)"
        click.echo(f"          {parameter['name']:<20}  {value:<16}  {parameter['unit']}".rstrip())


def _runs_on(backend: str) -> str:
    """Say what a task needs."""
    return {"mujoco": "runs on MuJoCo", "pure_python": "needs no simulator"}.get(backend, "described only")
