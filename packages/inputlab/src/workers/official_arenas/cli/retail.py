"""``agentinputlab retail``: one paired experiment in the retail arena, from a fresh folder to a verified page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from workers.official_arenas.campaign.plan import CampaignPlan

__all__ = ["retail"]


@click.group("retail")
def retail() -> None:
    """Measure a change of the input in the retail arena, pair by pair.

    \b
    Example:
      agentinputlab retail run --treatment plan.plan_and_solve.ps_prompt --out runs/plan
    """


@retail.command("run")
@click.option(
    "--arena", default="embedded", show_default=True, help="embedded, tau2, or the name of an installed arena."
)
@click.option(
    "--treatment",
    "treatments",
    multiple=True,
    help="Release to compare with the unchanged input: RELEASE, RELEASE:key=value, or A+B to chain. Repeatable.",
)
@click.option(
    "--append-instruction",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A change of your own: a text file that is added to the agent's instruction. Given together with the three "
    "options below, all of them are one treatment; each can be given once.",
)
@click.option(
    "--replace-instruction",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A change of your own: a text file that takes the place of the agent's instruction.",
)
@click.option(
    "--add-context",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A change of your own: a text file that is added to what the agent knows.",
)
@click.option(
    "--replace-context",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A change of your own: a text file that takes the place of all that the agent knows.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder to make. The same call again goes on with an interrupted run and checks a complete one.",
)
@click.option("--split", type=click.Choice(["train", "test"]), default="test", show_default=True, help="Which tasks.")
@click.option("--tasks", type=click.IntRange(min=1), help="Only the first so many tasks.  [default: all]")
@click.option("--model-url", help="OpenAI-compatible endpoint on this machine, e.g. http://127.0.0.1:8000/v1.")
@click.option("--model", "model_name", help="Name of the model at --model-url.")
@click.option("--max-tokens", type=click.IntRange(min=1), default=512, show_default=True, help="Per model call.")
@click.option("--api-key-env", help="Environment variable that holds the key of the endpoint.")
@click.option(
    "--rules",
    type=click.Path(path_type=Path),
    help="Scripted replies for interventions that ask a model.  [default: the arena's own, with a scripted agent]",
)
@click.option("--price-in", type=click.FloatRange(min=0), help="Money per million tokens read.")
@click.option("--price-out", type=click.FloatRange(min=0), help="Money per million tokens written.")
@click.option(
    "--budget", type=float, default=1.0, show_default=True, help="Multiplier of the standard budget of a side."
)
@click.option("--alpha", type=float, default=0.05, show_default=True, help="Level of the exact test.")
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Processes to play pairs on.")
@click.option(
    "--stop-after-failures",
    type=click.IntRange(min=1),
    metavar="N",
    help="Stop after N pairs in a row without a score; the same command goes on later.  [default: never]",
)
@click.option(
    "--execute", is_flag=True, help="Start even though models will be asked; without it, only the cost is shown."
)
@click.option(
    "--no-fsync", is_flag=True, help="Do not force receipts to disk: faster, and a power failure may lose some."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.pass_context
def run(
    ctx: click.Context,
    out: Path,
    workers: int,
    stop_after_failures: int | None,
    execute: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Run a whole paired experiment: record, change, play, verify, analyse.

    Every task is played twice from the same first customer message, once with the input as it is and once changed. A
    side is played once and never repeated; what fails stays in the count.

    \b
    Examples:
      agentinputlab retail run --treatment plan.plan_and_solve.ps_prompt --out runs/plan
      agentinputlab retail run --append-instruction my-prompt.txt --split train --out runs/mine
      agentinputlab retail run --treatment plan.plan_and_solve.ps_prompt --model-url http://127.0.0.1:8000/v1
          --model small --out runs/small            # shows the cost; add --execute to start
    """
    from ripieno.verify import verify
    from workers.official_arenas.campaign.endpoints import key_problems
    from workers.official_arenas.campaign.preflight import preflight
    from workers.official_arenas.campaign.run import run_campaign
    from workers.official_arenas.cli._errors import answered
    from workers.official_arenas.cli._show import (
        EXIT_FAILURES,
        EXIT_NOT_READY,
        print_preflight,
        print_result,
        typed_command,
    )

    with answered(ctx):
        plan = _plan(options)
        found = preflight(plan)
        print_preflight(plan, found, as_json=False, err=True, folder=out)
        if not found.is_ready or (found.spends and not execute):
            if as_json:
                print_preflight(plan, found, as_json=True, folder=out)
            if found.is_ready:
                for problem in key_problems(plan):
                    click.echo(f"Needed to start: {problem}", err=True)
                click.echo("Nothing was started. Add --execute to start.", err=True)
            ctx.exit(0 if found.is_ready else EXIT_NOT_READY)
        result = run_campaign(
            plan,
            out,
            command=typed_command(ctx),
            executor="serial" if workers == 1 else "processes",
            workers=None if workers == 1 else workers,
            note=lambda text: click.echo(f"{text} ...", err=True),
            stop_after_failures=stop_after_failures,
        )
        report = verify(result.folder, expect=result.digest)
        if not report.ok:
            raise click.ClickException(f"{result.folder} does not verify: {report.first_problem}")
        print_result(result, as_json=as_json, verified=True)
        if result.has_failures:
            ctx.exit(EXIT_FAILURES)


def _plan(options: dict[str, Any]) -> CampaignPlan:
    """Give the plan that the options describe."""
    from agentinputlab.contracts.errors import ValidationError
    from workers.official_arenas.campaign.plan import ARENA_NAMES, parse_plan
    from workers.official_arenas.campaign.preflight import pin_rules

    url, model = options["model_url"], options["model_name"]
    if (url is None) != (model is None):
        raise ValidationError("--model-url and --model belong together: give both, or neither")
    if url is None and options["arena"] in ("tau2", ARENA_NAMES["tau2"]):
        raise ValidationError("arena tau2 has no scripted agent: give --model-url and --model")
    slot: dict[str, Any] = {"name": "scripted", "intervention_model": {"kind": _own_replies(options["arena"])}}
    if url is not None:
        args: dict[str, Any] = {"api_base": url, "max_tokens": options["max_tokens"], "temperature": 0, "seed": 17}
        args |= {"num_retries": 0, "timeout": 120.0}
        if options["api_key_env"]:
            args["api_key_env"] = options["api_key_env"]
        slot = {"name": _slot_name(model), "agent": {"backend": "openai", "model": model, "args": args}}
        slot["intervention_model"] = {"kind": "agent"}
    if options["rules"] is not None:
        slot["intervention_model"] = {"kind": "rules", "rules": str(options["rules"].resolve())}
    if (options["price_in"] is None) != (options["price_out"] is None):
        raise ValidationError("--price-in and --price-out belong together: give both, or neither")
    if options["price_in"] is not None:
        slot["prices"] = {"input_per_million": options["price_in"], "output_per_million": options["price_out"]}
    plan = parse_plan(
        {
            "arena": options["arena"],
            "split": options["split"],
            "tasks": options["tasks"],
            "treatments": _treatments(options),
            "slots": [slot],
            "alpha": options["alpha"],
            "budget_multiplier": options["budget"],
            "durable": not options["no_fsync"],
        }
    )
    return pin_rules(plan)


def _own_replies(arena: str) -> str:
    """Say whether an arena brings scripted replies for interventions that ask a model."""
    from workers.official_arenas.campaign.plan import ARENA_NAMES
    from workers.official_arenas.campaign.preflight import resolve_arena

    return "arena" if hasattr(resolve_arena(ARENA_NAMES.get(arena, arena)), "intervention_rules") else "none"


def _treatments(options: dict[str, Any]) -> list[Any]:
    from agentinputlab.cli._release_text import read_text_file
    from agentinputlab.contracts.errors import ValidationError
    from workers.official_arenas.campaign.plan import own_text_treatment

    names = ("append_instruction", "replace_instruction", "add_context", "replace_context")
    for name in names:
        if len(options[name]) > 1:
            option = f"--{name.replace('_', '-')}"
            raise ValidationError(f"{option} can be given once: write one file, or make a run of its own for each text")
    own = {name: read_text_file(path) for name in names for path in options[name]}
    treatments: list[Any] = list(options["treatments"])
    if own:
        treatments.append(own_text_treatment("own-text", own).model_dump(mode="json"))
    if not treatments:
        raise ValidationError("nothing to compare: give --treatment, --append-instruction or another change")
    return treatments


def _slot_name(model: str) -> str:
    import re

    return re.sub(r"[^a-z0-9_.+-]+", "-", model.lower()).strip("-.+_")[:60] or "model"
