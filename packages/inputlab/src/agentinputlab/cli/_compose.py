"""``agentinputlab compose``: run several interventions in a row on one state and show what each did."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentinputlab.cli._release_text import parse_release, read_json_file

if TYPE_CHECKING:
    from agentinputlab.algorithms.composition import ComposedIntervention, MemberChange
    from agentinputlab.contracts.lifecycle import InterventionContext
    from agentinputlab.contracts.state import ExecutionBudget, FrozenAgentState
    from agentinputlab.observability.usage import ResourceUsage

__all__ = ["compose"]

REPORT_PROTOCOL = "agentinputlab.composition-report.v1"
_FILE_WIDTH = 120  # of tables that go to a file or a pipe


@click.command("compose")
@click.argument("releases", metavar="RELEASE[:KEY=VALUE,...]...", nargs=-1, required=True)
@click.option("--state", "state_path", type=click.Path(path_type=Path), help="JSON file of the state to change.")
@click.option("--query", help="Make a state of this query instead.")
@click.option("--instruction", help="Instruction of that state.")
@click.option("--backend-url", help="OpenAI-compatible endpoint, e.g. http://127.0.0.1:8000/v1.")
@click.option("--model", "model_name", help="Name of the model at --backend-url.")
@click.option("--api-key-env", metavar="NAME", help="Environment variable that holds the key of --backend-url.")
@click.option("--model-revision", default="unpinned", show_default=True, help="What exactly is deployed there.")
@click.option("--scripted", "rules_path", type=click.Path(path_type=Path), help="Rules of a scripted model instead.")
@click.option(
    "--documents", "documents_path", type=click.Path(path_type=Path), help="JSON file of documents to search by BM25."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of sampled answers.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole report, private texts too, as one JSON object.")
@click.option("--out", type=click.Path(path_type=Path), help="Write that report to a new file that only you can read.")
@click.pass_context
def compose(
    ctx: click.Context,
    releases: tuple[str, ...],
    state_path: Path | None,
    query: str | None,
    instruction: str | None,
    backend_url: str | None,
    model_name: str | None,
    api_key_env: str | None,
    model_revision: str,
    rules_path: Path | None,
    documents_path: Path | None,
    seed: int,
    as_json: bool,
    out: Path | None,
) -> None:
    """Chain interventions: one budget, one patch, one trace.

    The releases run in the order given, each on what the ones before it made of the state. What is shown has sizes and
    counts only; texts are in --out and --json. Values are JSON where they parse as JSON, else text; @FILE stands for
    the text of a file, @FILE.json for its value. --documents holds a list of {doc_id, text} objects.

    \b
    Examples:
      agentinputlab compose plan.plan_and_solve.ps_prompt recipe.skillopt.apply:skill=@skill.md --query "Return it"
      agentinputlab compose clarify.udcs.repo_native_prompt_route:ask_threshold=0.7 curate.acon.observation
          --state state.json --backend-url http://127.0.0.1:8000/v1 --model small --out report.json
    """
    if (state_path is None) == (query is None):
        raise click.UsageError("give either --state FILE or --query TEXT")
    if instruction is not None and query is None:
        raise click.UsageError("--instruction belongs to --query; a state file has its own")
    if backend_url is not None and rules_path is not None:
        raise click.UsageError("give either --backend-url or --scripted")
    if (backend_url is None) != (model_name is None):
        raise click.UsageError("--backend-url and --model belong together")
    if api_key_env is not None and backend_url is None:
        raise click.UsageError("--api-key-env belongs to --backend-url")
    if ctx.find_root().obj and ctx.find_root().obj.get("registry") is not None:
        raise click.UsageError("compose makes interventions of the packaged registry only; leave --registry out")
    _refuse_existing(out)

    from agentinputlab.algorithms.composition import ComposedIntervention
    from agentinputlab.contracts.lifecycle import InterventionContext

    chain = ComposedIntervention(tuple(_member(text) for text in releases))
    context = InterventionContext(
        backend=_backend(backend_url, model_name, model_revision, rules_path, key_env=api_key_env),
        retriever=None if documents_path is None else _retriever(documents_path),
        seed=seed,
    )
    report, changes = _run(chain, _state(state_path, query=query, instruction=instruction), context)
    text = json.dumps(report, ensure_ascii=False, allow_nan=False)
    if out is not None:
        from ripieno.files import create_only

        create_only(out, f"{text}\n".encode())
    if as_json:
        click.echo(text)
        return
    _show(report, changes, out=out)


# --- what is read -------------------------------------------------------------------------------------------


def _member(text: str) -> Any:
    """Make the intervention that ``RELEASE[:key=value,...]`` names."""
    from agentinputlab.algorithms.constructors import make_intervention

    return make_intervention(*parse_release(text))


def _state(path: Path | None, *, query: str | None, instruction: str | None) -> FrozenAgentState:
    from agentinputlab.contracts.state import FrozenAgentState

    if path is None:
        return FrozenAgentState(query=query or "", instruction=instruction or "")
    return FrozenAgentState.from_dict(read_json_file(path))


def _backend(url: str | None, model: str | None, revision: str, rules_path: Path | None, *, key_env: str | None) -> Any:
    """Give the language model that was asked for, or None; it is sent the key that was named, and no other."""
    if rules_path is not None:
        from agentinputlab.backends.llm import ScriptedBackend
        from agentinputlab.backends.scripted import load_rules

        return ScriptedBackend(load_rules(rules_path))
    if url is None or model is None:
        return None
    from agentinputlab.backends.llm import OpenAICompatibleBackend
    from agentinputlab.backends.llm._keys import named_key

    key = None if key_env is None else named_key(key_env, "--api-key-env")
    return OpenAICompatibleBackend(model, url, {"revision": revision}, api_key=key, api_key_env=None)


def _retriever(path: Path) -> Any:
    from agentinputlab.backends.retrieval import Document, InMemoryBM25Retriever
    from agentinputlab.contracts._checks import entries, load

    rows: tuple[object, ...] = entries(read_json_file(path), f"documents in {path}", object)
    return InMemoryBM25Retriever(
        [load(Document, row, f"documents[{index}] in {path}") for index, row in enumerate(rows)]
    )


def _refuse_existing(out: Path | None) -> None:
    """Say before any model is asked that the report could not be written."""
    if out is None:
        return
    from agentinputlab.cli._places import require_place_outside_runs

    if out.exists() or out.is_symlink():
        raise FileExistsError(f"--out {out} exists; a report is never overwritten")
    if not out.parent.is_dir():
        raise FileNotFoundError(f"--out {out}: there is no directory {out.parent}")
    require_place_outside_runs(out)


# --- what is done -------------------------------------------------------------------------------------------


def _run(
    chain: ComposedIntervention, state: FrozenAgentState, context: InterventionContext
) -> tuple[dict[str, Any], Sequence[MemberChange]]:
    """Run the chain once and give the report and what each member did."""
    from agentinputlab.algorithms.composition import member_changes
    from agentinputlab.contracts.errors import AgentInputLabError, ExternalDependencyError
    from agentinputlab.contracts.serialization import to_jsonable
    from agentinputlab.observability import RunMonitor
    from agentinputlab.runner import InterventionRunner

    monitor = RunMonitor()
    try:
        record = InterventionRunner(monitor=monitor).run(chain, state, context)
    except AgentInputLabError as error:
        used = monitor.list_snapshots()[-1].usage if monitor.list_snapshots() else None
        for note in getattr(error, "__notes__", ()):
            click.echo(f"compose: failed in {note}; nothing was changed", err=True)
        if isinstance(error, ExternalDependencyError) and None in (context.backend, context.retriever):
            click.echo("compose: --backend-url or --scripted gives a model, --documents something to search", err=True)
        if used is not None and used.model_calls:
            click.echo(f"compose: model calls made before: {used.model_calls}", err=True)
        raise
    changes = member_changes(record.patch, state)
    result = record.patch.apply(state)
    report = {
        "schema_version": 1,
        "protocol": REPORT_PROTOCOL,
        "release_id": chain.release_id,
        "implementation_identity": chain.implementation_identity,
        "parameters": chain.parameters,
        "status": str(record.status),
        "input_state_hash": state.state_hash,
        "output_state_hash": result.state_hash,
        "usage": _usage(record.usage, state.budget),
        "members": [
            {
                "release_id": change.release_id,
                "changed": _changed(change),
                "counters": to_jsonable(change.counters),
                "input_state_hash": change.before.state_hash,
                "output_state_hash": change.after.state_hash,
                "operations": to_jsonable(change.operations),
                "metadata": to_jsonable(change.metadata),
            }
            for change in changes
        ],
        "warnings": list(record.patch.trace.warnings),
        "patch_hash": record.patch.patch_hash,
        "patch": record.patch.as_dict(),
        "state": result.canonical_dict(),
    }
    return report, changes


def _usage(usage: ResourceUsage, budget: ExecutionBudget) -> dict[str, dict[str, Any]]:
    """Give what was used and what was allowed; None is an amount that nobody knows, or no limit."""
    cost = None if usage.unpriced_model_calls else usage.cost_usd
    rows = {
        "model_calls": (usage.model_calls, budget.max_model_calls),
        "retrieval_calls": (usage.retrieval_calls, budget.max_retrieval_calls),
        "tool_calls": (usage.tool_calls, budget.max_tool_calls),
        "input_tokens": (usage.input_tokens, budget.max_context_tokens),
        "output_tokens": (usage.output_tokens, budget.max_output_tokens),
        "cost_usd": (cost, budget.max_cost_usd),
    }
    return {name: {"used": used, "allowed": allowed} for name, (used, allowed) in rows.items()}


def _changed(change: MemberChange) -> list[str]:
    """Say what a member changed, in sizes and names, without any text of the state."""
    before, after = change.before, change.after
    said: list[str] = []
    for name in ("query", "instruction"):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            said.append(f"{name}: {len(old)} to {len(new)} characters")
    if before.context != after.context:
        old_size, new_size = (sum(len(block.text) for block in state.context) for state in (before, after))
        said.append(
            f"context: {len(before.context)} to {len(after.context)} blocks, {old_size} to {new_size} characters"
        )
    if before.messages != after.messages:
        old_size, new_size = (sum(len(message.content) for message in state.messages) for state in (before, after))
        said.append(f"messages: {len(before.messages)} to {len(after.messages)}, {old_size} to {new_size} characters")
    said += _changed_metadata(change)
    return said


def _changed_metadata(change: MemberChange) -> list[str]:
    from agentinputlab.contracts.patch import CLARIFICATION_KEY

    before, after = change.before.metadata, change.after.metadata
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    said: list[str] = []
    if CLARIFICATION_KEY in names:
        names.remove(CLARIFICATION_KEY)
        said.append(f"asks the user back: {len(str(after[CLARIFICATION_KEY]))} characters")
    if names:
        said.append(f"metadata: {len(names)} {'entry' if len(names) == 1 else 'entries'}")
    return said


# --- what is shown ------------------------------------------------------------------------------------------


def _show(report: dict[str, Any], changes: Sequence[MemberChange], *, out: Path | None) -> None:
    from rich.console import Console

    from ripieno.report import Table, print_table

    console = Console()
    if not console.is_terminal:
        console = Console(width=_FILE_WIDTH)
    click.echo(f"{report['release_id']}: {report['status']}")
    click.echo(f"state {report['input_state_hash'][:12]} -> {report['output_state_hash'][:12]}\n")
    rows = [
        (
            number,
            change.release_id,
            "; ".join(_changed(change)) or "nothing",
            sum(change.counters.get(name, 0) for name in ("model_calls", "retrieval_calls", "tool_calls")),
            change.counters.get("input_tokens", 0) + change.counters.get("output_tokens", 0),
        )
        for number, change in enumerate(changes, start=1)
    ]
    print_table(Table(("#", "Release", "Changed", "Calls", "Tokens"), rows, "Members, in order"), console)
    budget = [
        (name.replace("_", " "), *(_amount(usage[side], unknown) for side, unknown in _UNKNOWN.items()))
        for name, usage in report["usage"].items()
    ]
    print_table(Table(("What", "Used", "Allowed"), budget, "Usage against the one budget"), console)
    for warning in report["warnings"]:
        click.echo(f"warning: {warning}")
    operations = len(report["patch"]["operations"])
    click.echo(
        f"One patch of {operations} operation{'' if operations == 1 else 's'}, hash {report['patch_hash'][:12]}."
    )
    if out is None:
        click.echo("Texts are not shown: --out FILE writes patch, trace and resulting state, --json prints them.")
    else:
        click.echo(f"Patch, trace and resulting state are in {out}; they hold the texts of the state.")


_UNKNOWN = {"used": "unknown", "allowed": "no limit"}


def _amount(value: float | None, unknown: str) -> str:
    return unknown if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
