"""``ripieno demo retail``: a paired experiment in the embedded retail arena, verified, with its page."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

__all__ = ["run_demo"]

TREATMENT = "plan.plan_and_solve.ps_prompt"


@click.command("retail")
@click.option("--treatment", default=TREATMENT, show_default=True, help="Release to compare with the unchanged input.")
@click.option("--split", type=click.Choice(["train", "test"]), default="test", show_default=True, help="Which tasks.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder to make; it must not exist. Default: runs/retail-<UTC timestamp>.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
def run_demo(treatment: str, split: str, out: Path | None, as_json: bool) -> None:
    """Compare an agent with and without a changed input, pair by pair.

    Every retail task is played twice from the same first customer message. Agent and user follow written rules, so it
    needs no model and no network.

    Example: ripieno demo retail --split train --out runs/retail
    """
    # Everything is imported late: `ripieno --help` loads this module.
    from agentinputlab.contracts.errors import AgentInputLabError
    from ripieno.errors import InputError, IntegrityError
    from ripieno.verify import verify
    from workers.official_arenas.campaign.plan import parse_plan
    from workers.official_arenas.campaign.run import run_campaign
    from workers.official_arenas.cli._show import print_result, typed_command
    from workers.official_arenas.protocol import OfficialArenaError

    folder = out if out is not None else Path("runs") / f"retail-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    if folder.exists():
        raise InputError(f"{folder} exists; name a folder that does not")
    try:
        slot = {"name": "scripted", "intervention_model": {"kind": "arena"}}
        plan = parse_plan({"arena": "embedded", "split": split, "treatments": [treatment], "slots": [slot]})
        result = run_campaign(plan, folder, command=typed_command(click.get_current_context()))
    except (AgentInputLabError, OfficialArenaError) as error:
        raise InputError(str(error)) from error
    report = verify(result.folder, expect=result.digest)
    if not report.ok:
        raise IntegrityError(f"the campaign that was just written does not verify: {report.first_problem}")
    print_result(result, as_json=as_json, verified=True)
