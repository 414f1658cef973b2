"""``chamber check``: judge a task."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click

from chamber.cli._options import importing

__all__ = ["check_command"]


@click.command("check")
@importing
@click.argument("task", metavar="TASK")
@click.option("--condition", metavar="NAME", help="Condition of the task. Default: its first, see 'chamber list'.")
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")
@click.pass_context
def check_command(ctx: click.Context, task: str, condition: str | None, as_json: bool) -> None:
    """Judge a task by the checks that every task must pass.

    Spaces, seeds, determinism, independence of earlier episodes, refusals, and whether the reference team reaches
    success. A task of your own is judged by the same code: see chamber.testing.check_task.

    \b
    Examples:
      chamber check cocarry
      chamber check --import mine mine

    Exit code 0: all hold; 1: one does not, and the row says how to mend it.
    """
    from chamber.cli._groups import EXIT_NEGATIVE
    from chamber.rollout.config import SessionConfig, make_environment, make_team
    from chamber.rollout.references import reference
    from chamber.testing import run_all, task_checks

    config = SessionConfig.of(task, condition=condition)
    is_solvable = config.condition in reference(config.task_id).solvable

    def make() -> Any:
        return make_environment(config)

    checks = task_checks(make, reference=(lambda env: make_team(config, env)) if is_solvable else None)
    rows = run_all(checks)
    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        for row in rows:
            mark = "ok " if row.passed else "BAD"
            click.echo(f"{mark}  {row.check.replace('_', ' ')}")
            if not row.passed:
                click.echo(f"     {row.problem}\n     How to mend it: {row.remedy}")
        if not is_solvable:
            click.echo("--   success was not tried: no reference team is known to reach it here")
    if not all(row.passed for row in rows):
        ctx.exit(EXIT_NEGATIVE)
