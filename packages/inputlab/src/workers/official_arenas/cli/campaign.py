"""``agentinputlab campaign``: many treatments and models at once, from a plan file."""

from __future__ import annotations

import json
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from workers.official_arenas.campaign.plan import CampaignPlan

__all__ = ["campaign"]

_PLAN = click.argument("plan_file", metavar="PLAN", type=click.Path(path_type=Path))
_OUT = click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of the campaign.")
_EXECUTE = click.option(
    "--execute", is_flag=True, help="Start; without it, only what is needed and the cost are shown."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
_EXECUTOR = click.option(
    "--executor",
    type=click.Choice(["serial", "processes", "ray"]),
    default="serial",
    show_default=True,
    help="Where interventions and pairs run.",
)
_WORKERS = click.option("--workers", type=click.IntRange(min=1), help="How many at a time.  [default: all cores]")
_STOP = click.option(
    "--stop-after-failures",
    type=click.IntRange(min=1),
    metavar="N",
    help="Stop after N pairs in a row without a score; the same command goes on later.  [default: as the plan says]",
)

_EXAMPLE_PLAN = """\
# What this campaign measures. `agentinputlab campaign doctor PLAN` says what it needs and can cost at most.
arena: embedded          # or tau2, or the name of an installed arena
split: test              # train (16 tasks of the embedded arena) or test (8)
# tasks: 4               # only the first so many
treatments:              # each is compared with the unchanged input
  - plan.plan_and_solve.ps_prompt
  - plan.plan_and_solve.ps_plus_prompt
slots:                   # the models under test
  - name: scripted       # the arena's rule policy: free, offline, repeatable
    intervention_model: {kind: arena}  # interventions that ask a model get the arena's scripted replies
  # - name: small
  #   agent:
  #     backend: openai
  #     model: small
  #     args: {api_base: "http://127.0.0.1:8000/v1", max_tokens: 256, timeout: 120.0,
  #            temperature: 0, seed: 17, num_retries: 0}
  #   intervention_model: {kind: agent}
  #   prices: {input_per_million: 0.5, output_per_million: 1.5}
alpha: 0.05
# stop_after_failures: 5  # stop after 5 pairs in a row without a score; the same command goes on with the others
"""


@click.group("campaign")
def campaign() -> None:
    """Run tasks x treatments x models from a plan file, resumable, first attempts only.

    \b
    Examples:
      agentinputlab campaign prepare plan.yaml
      agentinputlab campaign doctor plan.yaml
      agentinputlab campaign run plan.yaml --out runs/campaign --execute
    """


@campaign.command("prepare")
@click.argument("plan_file", metavar="PLAN", type=click.Path(path_type=Path))
def prepare(plan_file: Path) -> None:
    """Write a plan file to start from; it must not exist.

    \b
    Example:
      agentinputlab campaign prepare plan.yaml
    """
    from agentinputlab.cli._places import require_place_outside_runs
    from ripieno.errors import InputError
    from ripieno.files import create_only

    require_place_outside_runs(plan_file)
    try:
        create_only(plan_file, _EXAMPLE_PLAN.encode())
    except FileExistsError as error:
        raise InputError(f"{plan_file} exists; name another file") from error
    click.echo(f"Wrote {plan_file}. Next: agentinputlab campaign doctor {plan_file}")


@campaign.command("doctor")
@_PLAN
@_JSON
@click.pass_context
def doctor(ctx: click.Context, plan_file: Path, as_json: bool) -> None:
    """Say whether a plan can start here, and what it can cost at most.

    \b
    Example:
      agentinputlab campaign doctor plan.yaml
    """
    from workers.official_arenas.campaign.endpoints import key_problems
    from workers.official_arenas.campaign.preflight import preflight
    from workers.official_arenas.cli._errors import answered
    from workers.official_arenas.cli._show import EXIT_NOT_READY, print_preflight

    with answered(ctx):
        plan = _load(plan_file)
        found = preflight(plan)
        print_preflight(plan, found, as_json=as_json)
        if found.is_ready:
            for problem in key_problems(plan):
                click.echo(f"Needed to start: {problem}", err=True)
            when = "Ready, once the model server answers: it was not asked." if found.spends else "Ready."
            click.echo(f"{when} Start it with: agentinputlab campaign run {plan_file} --out FOLDER --execute", err=True)
        ctx.exit(0 if found.is_ready else EXIT_NOT_READY)


@campaign.command("bootstrap")
@_PLAN
@_OUT
@click.pass_context
def bootstrap(ctx: click.Context, plan_file: Path, out: Path) -> None:
    """Make the folder of a campaign with its plan and drafts of its scopes; nothing is enabled or started.

    \b
    Example:
      agentinputlab campaign bootstrap plan.yaml --out drafts
    """
    from agentinputlab.cli._places import require_place_outside_runs
    from ripieno.canonical import INDENTED_UNICODE_LINE
    from ripieno.errors import InputError
    from ripieno.files import create_only
    from workers.official_arenas import retail_capture
    from workers.official_arenas.campaign.preflight import resolve_arena, slot_config
    from workers.official_arenas.cli._errors import answered

    with answered(ctx):
        plan = _load(plan_file)
        configs = {slot.name: slot_config(plan, slot) for slot in plan.slots}  # refused before anything is written
        require_place_outside_runs(out)
        if out.exists():
            raise InputError(f"{out} exists; name a folder that does not")
        root = out.parent.resolve() / out.name
        root.mkdir(mode=0o700, parents=True)
        for slot in plan.slots:
            capture = root / f"capture-{slot.name}"
            capture.mkdir(mode=0o700)
            draft = retail_capture.draft_scope(
                resolve_arena(plan.arena),
                configs[slot.name],
                output_root=capture,
                phase=plan.phase,
                model_slot=slot.name,
            )
            path = root / f"capture-{slot.name}.draft.json"
            create_only(path, INDENTED_UNICODE_LINE.dumps(draft))
            click.echo(f"{path}: execution_enabled is false; a person enables it")


@campaign.command("methods")
@_JSON
def methods(as_json: bool) -> None:
    """List the releases that can be a treatment in an arena.

    \b
    Example:
      agentinputlab campaign methods --json
    """
    from agentinputlab.contracts.enums import ExecutionKind
    from agentinputlab.registry import AlgorithmRegistry
    from agentinputlab.registry.cards import Needs

    registry = AlgorithmRegistry.default()
    families = {method.method_id: str(method.semantic_family) for method in registry.list_methods()}
    usable = [
        {"release": release.id, "family": families[release.method_id]}
        for release in registry.list_releases()
        if release.runnable
        and release.needs is not Needs.RETRIEVAL  # a campaign has nothing to search
        and release.execution_kind is not ExecutionKind.TRAINING_RECIPE
    ]
    if as_json:
        click.echo(json.dumps(usable))
        return
    for row in usable:
        click.echo(f"{row['family']:<12} {row['release']}")


@campaign.command("smoke")
@_OUT
@_JSON
@click.pass_context
def smoke(ctx: click.Context, out: Path, as_json: bool) -> None:
    """Run the smallest campaign: one scripted task, one treatment.

    \b
    Example:
      agentinputlab campaign smoke --out runs/smoke
    """
    from workers.official_arenas.campaign.plan import parse_plan
    from workers.official_arenas.cli._errors import answered

    with answered(ctx):
        plan = parse_plan({"tasks": 1, "split": "train", "treatments": ["plan.plan_and_solve.ps_prompt"]})
        _run(ctx, plan, out, execute=True, executor="serial", workers=None, as_json=as_json)


@campaign.command("run")
@_PLAN
@_OUT
@_EXECUTE
@_EXECUTOR
@_WORKERS
@_STOP
@_JSON
@click.pass_context
def run(
    ctx: click.Context,
    plan_file: Path,
    out: Path,
    execute: bool,
    executor: str,
    workers: int | None,
    stop_after_failures: int | None,
    as_json: bool,
) -> None:
    """Run a plan, or go on with it; without --execute only say what it needs.

    \b
    Examples:
      agentinputlab campaign run plan.yaml --out runs/campaign              # what it needs, what it costs
      agentinputlab campaign run plan.yaml --out runs/campaign --execute
    """
    from workers.official_arenas.cli._errors import answered

    with answered(ctx):
        _run(
            ctx,
            _load(plan_file),
            out,
            execute=execute,
            executor=executor,
            workers=workers,
            stop_after_failures=stop_after_failures,
            as_json=as_json,
        )


@campaign.command("verify")
@click.argument("folder", type=click.Path(path_type=Path))
@_JSON
@click.pass_context
def verify_command(ctx: click.Context, folder: Path, as_json: bool) -> None:
    """Read every byte of a campaign again and derive its results again.

    \b
    Example:
      agentinputlab campaign verify runs/campaign
    """
    from ripieno.verify import verify
    from workers.official_arenas._modes import mode_warnings

    report = verify(folder)
    if as_json:
        click.echo(json.dumps(report.to_json()))
    else:
        click.echo(f"{report.status.value}: {report.first_problem or report.status.meaning}")
        for warning in mode_warnings(report.checks):
            click.echo(warning, err=True)
    ctx.exit(0 if report.ok else 1)


@campaign.command("analyze")
@click.argument("folder", type=click.Path(path_type=Path))
@_JSON
@click.pass_context
def analyze(ctx: click.Context, folder: Path, as_json: bool) -> None:
    """Derive results and analysis from the receipts of a folder again, without writing anything.

    \b
    Example:
      agentinputlab campaign analyze runs/campaign --json
    """
    from workers.official_arenas.campaign.collect import played_rows
    from workers.official_arenas.campaign.page import headline
    from workers.official_arenas.campaign.results import analyse
    from workers.official_arenas.cli._errors import answered

    with answered(ctx):
        analysis = analyse(*played_rows(folder))
        click.echo(json.dumps(analysis) if as_json else headline(analysis))


@campaign.command("export")
@click.argument("folder", type=click.Path(path_type=Path))
@click.pass_context
def export(ctx: click.Context, folder: Path) -> None:
    """Derive the results of a folder from its receipts again and print them as CSV, one line per expected pair.

    \b
    Example:
      agentinputlab campaign export runs/campaign > pairs.csv
    """
    from workers.official_arenas.campaign.collect import played_rows
    from workers.official_arenas.campaign.results import csv_text
    from workers.official_arenas.cli._errors import answered

    with answered(ctx):
        _, rows = played_rows(folder)
        click.echo(csv_text(rows), nl=False)


@campaign.command("compare")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option("--alpha", type=float, default=0.05, show_default=True, help="Level of the exact test.")
@_JSON
@click.pass_context
def compare(ctx: click.Context, a: Path, b: Path, alpha: float, as_json: bool) -> None:
    """Say where the treatments of two complete campaigns over the same tasks did more, or less: B against A.

    Both folders are verified first. Refused are folders that differ in arena, scorer, split or tasks; a task that has
    no score in one of them stays in the count. Nothing is written.

    \b
    Example:
      agentinputlab campaign compare runs/small runs/large
    """
    from workers.official_arenas.campaign.compare import compare_campaigns, comparison_text
    from workers.official_arenas.cli._errors import answered

    with answered(ctx):
        compared = compare_campaigns(a, b, alpha=alpha)
        click.echo(json.dumps(compared) if as_json else comparison_text(compared))


run_all = copy(run)
run_all.help = """The other name of `campaign run`.

\b
Example:
  agentinputlab campaign run-all plan.yaml --out runs/campaign --execute
"""
campaign.add_command(run_all, "run-all")


@campaign.command("run-production")
@_PLAN
@_OUT
@_EXECUTE
@_EXECUTOR
@_WORKERS
@_STOP
@_JSON
@click.pass_context
def run_production(
    ctx: click.Context,
    plan_file: Path,
    out: Path,
    execute: bool,
    executor: str,
    workers: int | None,
    stop_after_failures: int | None,
    as_json: bool,
) -> None:
    """Run a plan whose figures are to be reported: test split, durable receipts, all tasks.

    \b
    Example:
      agentinputlab campaign run-production plan.yaml --out runs/report --execute
    """
    from agentinputlab.contracts.errors import ValidationError
    from workers.official_arenas.cli._errors import answered

    with answered(ctx):
        plan = _load(plan_file)
        for field, wanted in (("split", "test"), ("durable", True), ("tasks", None)):
            if getattr(plan, field) != wanted:
                raise ValidationError(f"{field} must be {wanted!r} in a run for report, got {getattr(plan, field)!r}")
        _run(
            ctx,
            plan,
            out,
            execute=execute,
            executor=executor,
            workers=workers,
            stop_after_failures=stop_after_failures,
            as_json=as_json,
        )


def _load(path: Path) -> CampaignPlan:
    """Read a plan and pin the rules files that it names."""
    from workers.official_arenas.campaign.plan import load_plan
    from workers.official_arenas.campaign.preflight import pin_rules

    return pin_rules(load_plan(path))


def _run(
    ctx: click.Context,
    plan: CampaignPlan,
    out: Path,
    *,
    execute: bool,
    executor: str,
    workers: int | None,
    as_json: bool,
    stop_after_failures: int | None = None,
) -> None:
    from ripieno.verify import verify
    from workers.official_arenas.campaign.preflight import preflight
    from workers.official_arenas.campaign.run import run_campaign
    from workers.official_arenas.cli._show import (
        EXIT_FAILURES,
        EXIT_NOT_READY,
        print_preflight,
        print_result,
        typed_command,
    )

    found = preflight(plan)
    if not execute or not found.is_ready:
        print_preflight(plan, found, as_json=as_json, folder=out)
        if found.is_ready:
            click.echo("Nothing was started. Add --execute to start.", err=True)
        ctx.exit(0 if found.is_ready else EXIT_NOT_READY)
    print_preflight(plan, found, as_json=False, err=True, folder=out)
    result = run_campaign(
        plan,
        out,
        command=typed_command(ctx),
        executor=executor,  # type: ignore[arg-type]
        workers=workers,
        note=lambda text: click.echo(f"{text} ...", err=True),
        stop_after_failures=stop_after_failures,
    )
    report = verify(result.folder, expect=result.digest)
    if not report.ok:
        raise click.ClickException(f"{result.folder} does not verify: {report.first_problem}")
    print_result(result, as_json=as_json, verified=True)
    if result.has_failures:
        ctx.exit(EXIT_FAILURES)
