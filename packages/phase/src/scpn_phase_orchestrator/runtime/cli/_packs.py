"""Commands for the first hour: packs, new, scaffold, generate, quickstart, demo."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ripieno._printable import printable
from scpn_phase_orchestrator.exceptions import BindingError
from scpn_phase_orchestrator.runtime.cli._app import EXIT_REFUSED, one_line
from scpn_phase_orchestrator.runtime.cli._json_input import print_json
from scpn_phase_orchestrator.runtime.cli._progress import StepProgress

if TYPE_CHECKING:
    from scpn_phase_orchestrator.scaffold.catalogue import Pack
    from scpn_phase_orchestrator.scaffold.quickstart import Stage

__all__ = ["demo", "generate", "new", "packs", "quickstart", "scaffold"]

_FILE = click.Path(dir_okay=False, path_type=Path)
_EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)

SUBJECT_WIDTH = 76
PROGRESS_LINES = 10
MAX_ANSWER_BYTES = 2**20


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def packs(name: str | None, as_json: bool) -> None:
    """List the domain packs, or show one.

    \b
    Examples:
      spo packs
      spo packs power_grid
      spo packs --json
    """
    from scpn_phase_orchestrator.scaffold.catalogue import all_packs, find_pack

    if name is None:
        found = all_packs()
        if as_json:
            print_json([_pack_record(pack) for pack in found])
        else:
            _print_packs(found)
        return
    pack = find_pack(name)
    if as_json:
        print_json({**_pack_record(pack), "layers": _layer_records(pack), "readme": pack.readme})
        return
    for line in (pack.readme or f"# {pack.name}\n\n(no README.md beside {pack.path})").rstrip().splitlines():
        click.echo(printable(line))
    click.echo("")
    _print_layers(pack)


@click.command()
@click.argument("name")
@click.option(
    "--dir", "folder", type=_FOLDER, default=Path(), show_default=True, help="Where the folder of the pack is made."
)
@click.option(
    "--layer",
    "layers",
    multiple=True,
    metavar="NAME:COUNT:good|bad",
    help="A layer and whether it should hold together (good) or stay apart (bad); repeat for more. "
    "[default: together:4:good apart:4:bad]",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def new(name: str, folder: Path, layers: tuple[str, ...], as_json: bool) -> None:
    """Write a pack of your own that runs and means something.

    Makes the folder NAME with a commented spec, a rule file and a README. The numbers are chosen so that the supervisor
    has something to do: without it, the verdict is worse. Nothing is overwritten.

    \b
    Examples:
      spo new my_pack
      spo new plant --layer pumps:3:good --layer valves:4:bad
    """
    from scpn_phase_orchestrator.scaffold.folder import create_folder
    from scpn_phase_orchestrator.scaffold.new_pack import DEFAULT_LAYERS, new_pack, parse_layer

    plan = [parse_layer(text) for text in layers] or list(DEFAULT_LAYERS)
    written = create_folder(folder / name, new_pack(name, plan))
    place = folder / name
    # A bare name would also mean a bundled pack, to a reader if not to the program.
    shown = str(place) if place.is_absolute() or len(place.parts) > 1 else f"./{place}"
    commands = [f"spo run {shown}", f"spo compare {shown}", f"spo run {shown} --audit run.jsonl --plot run.html"]
    if as_json:
        rows = [{"name": layer.name, "oscillators": layer.count, "objective": layer.objective} for layer in plan]
        print_json({"folder": str(place), "files": [str(path) for path in written], "layers": rows, "next": commands})
        return
    click.echo(f"Wrote {', '.join(str(path) for path in written)}")
    click.echo("Try next:")
    for command in commands:
        click.echo(f"  {command}")


@click.command()
@click.argument("name")
@click.option("--llm", is_flag=True, help="Ask a language model for the spec (SPO_LLM_ENDPOINT and SPO_LLM_MODEL).")
@click.option("--description", metavar="TEXT", help="What the model is asked for; needed with --llm.")
@click.option(
    "--llm-response-json", type=_EXISTING, metavar="F", help="Take the answer of the model from this file; no network."
)
def scaffold(name: str, llm: bool, description: str | None, llm_response_json: Path | None) -> None:
    """Write the smallest pack under domainpacks/NAME.

    One layer with one oscillator, to be filled in; files that exist stay as they are. With --llm the spec is the
    proposal of a language model instead, asked over the chat interface of OpenAI: it has to pass loader, validator and
    security scan, else nothing is written, and llm_scaffold_audit.json holds the hashes of prompt and answer. An
    endpoint that wants a key gets SPO_LLM_API_KEY.

    \b
    Examples:
      spo scaffold pump_station
      spo scaffold pump_station --llm --description "three pumps that beat, two valves that must not"
      spo scaffold pump_station --llm --description "three pumps" --llm-response-json answer.json
    """
    from scpn_phase_orchestrator.scaffold.minimal import fill_folder, minimal_pack

    if not llm and (description is not None or llm_response_json is not None):
        raise click.UsageError("--description and --llm-response-json need --llm")
    if llm:
        _scaffold_by_model(name, description, llm_response_json)
        return
    folder = Path("domainpacks") / name
    files = fill_folder(folder, minimal_pack(name))
    click.echo(f"Scaffolded domainpack at {folder}")
    if files.kept:
        click.echo(f"Kept as it was: {', '.join(files.kept)}")


def _scaffold_by_model(name: str, description: str | None, answer: Path | None) -> None:
    from scpn_phase_orchestrator.scaffold.folder import create_folder
    from scpn_phase_orchestrator.scaffold.llm import ChatEndpoint, messages_for, read_proposal

    if description is None:
        raise click.UsageError("--llm needs --description")
    messages = messages_for(name, description)
    folder = Path("domainpacks") / name
    if folder.exists():
        raise BindingError(f"{folder} exists already; nothing is overwritten")
    if answer is not None:
        response, origin = _read_answer(answer), {"kind": "file"}
    else:
        endpoint = ChatEndpoint.from_environment()
        click.echo(f"Asking {endpoint.model} at {endpoint.url}", err=True)
        response = endpoint.ask(messages)
        origin = {"kind": "endpoint", "url": endpoint.url, "model": endpoint.model}
    create_folder(folder, read_proposal(name, description, messages, response, origin).files())
    click.echo(f"Scaffolded domainpack at {folder}")
    click.echo(f"Proposed by a language model: review it, then run 'spo validate {folder}'")


def _read_answer(path: Path) -> str:
    from ripieno.files import open_regular

    with open_regular(path) as stream:
        data = stream.read(MAX_ANSWER_BYTES + 1)
    if len(data) > MAX_ANSWER_BYTES:
        raise BindingError(f"{path} has more than {MAX_ANSWER_BYTES} bytes, which is no answer of a model")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BindingError(f"{path} is not UTF-8 (byte {error.start})") from error


@click.command()
@click.argument("intent")
@click.option("--name", default="generated_domain", show_default=True, help="Name of the pack.")
@click.option("--output-dir", type=_FOLDER, help="Folder to make; it must not exist. [default: ./NAME]")
@click.option(
    "--oscillators-per-layer", type=click.IntRange(2, 200), default=8, show_default=True, help="In every layer."
)
@click.option(
    "--dry-run-steps", type=click.IntRange(1, 100_000), default=8, show_default=True, help="Steps of the dry run."
)
def generate(intent: str, name: str, output_dir: Path | None, oscillators_per_layer: int, dry_run_steps: int) -> None:
    """Turn one sentence of intent into a pack for review.

    The bundled pack whose README speaks most about the words of INTENT lends its structure; no language model takes
    part. The confidence is the share of the sentence that this pack knows. Writes binding_spec.yaml, policy.yaml,
    README.md, review_notebook.ipynb and audit.json.

    \b
    Examples:
      spo generate "retry storms in the queues of a web shop"
      spo generate "turbines that must not hunt" --name turbines --oscillators-per-layer 4
    """
    from scpn_phase_orchestrator.scaffold.folder import check_name, create_folder
    from scpn_phase_orchestrator.scaffold.intent import generate_pack

    folder = output_dir or Path(check_name(name))
    if folder.exists():
        raise BindingError(f"{folder} exists already; nothing is overwritten")
    draft = generate_pack(intent, name=name, oscillators_per_layer=oscillators_per_layer, dry_run_steps=dry_run_steps)
    create_folder(folder, draft.files)
    found = draft.retrieval
    matches = ", ".join(f"{match.pack} ({match.score:.2f})" for match in found.matches) or "none"
    click.echo("schema_valid: True")
    click.echo(f"confidence: {found.confidence:.2f} ({found.in_words})")
    click.echo(f"retrieval_matches: {matches}")
    click.echo(f"dry_run_R: {draft.dry_run_r:.4f}")
    click.echo(f"Wrote {folder} for review: start with {folder / 'README.md'}")
    for warning in draft.warnings:
        click.echo(printable(f"WARNING: {warning}"), err=True)


@click.command()
@click.argument("kind", type=click.Choice(["power", "eeg", "evidence", "auditor"]))
@click.option("--steps", type=click.IntRange(1, 1_000_000), default=250, show_default=True, help="Of power and eeg.")
@click.option("--seed", type=click.IntRange(min=0), default=42, show_default=True, help="Of power and eeg.")
@click.option("--output", type=_FILE, metavar="F", help="Write what was found here, as JSON.")
@click.pass_context
def quickstart(ctx: click.Context, kind: str, steps: int, seed: int, output: Path | None) -> None:
    """Validate, run, audit and report a bundled example in one go.

    power and eeg run the packs power_grid and neuroscience_eeg. evidence checks a signed audit log that comes with this
    program: hash chain, closing record, ML-DSA signature. auditor trusts even less: it executes every step of that log
    again and shows that a flipped bit is found. Exit code 1 when anything does not hold.

    \b
    Examples:
      spo quickstart power
      spo quickstart auditor --output audit.json
    """
    from scpn_phase_orchestrator.scaffold.quickstart import EVIDENCE, PACKS, RECORDS, check_record, run_pack

    if kind in RECORDS:
        for option in ("steps", "seed"):
            if ctx.get_parameter_source(option) is ParameterSource.COMMANDLINE:
                raise click.UsageError(f"--{option} has no effect on '{kind}': the record was made before")
        stages = check_record(EVIDENCE, reexecute=kind == "auditor")
    else:
        quiet = bool((ctx.find_root().obj or {}).get("quiet"))
        stages = run_pack(PACKS[kind], steps=steps, seed=seed, progress=StepProgress(steps, is_quiet=quiet))
    done: list[Stage] = []
    for number, stage in enumerate(stages, start=1):
        done.append(stage)
        mark = "" if stage.is_ok else "FAILED: "
        click.echo(one_line(f"[{number}/4] {stage.title}: {mark}{stage.detail}").rstrip(": "))
        for line in stage.lines:
            click.echo(printable(f"      {line}"))
    is_ok = all(stage.is_ok for stage in done)
    if output is not None:
        _write_stages(output, kind, done, is_ok=is_ok)
        click.echo(f"Wrote {output}")
    if not is_ok:
        raise click.exceptions.Exit(EXIT_REFUSED)


def _write_stages(output: Path, kind: str, stages: Sequence[Stage], *, is_ok: bool) -> None:
    from ripieno.canonical import INDENTED_LINE
    from ripieno.files import write_atomic

    rows = [
        {"title": stage.title, "ok": stage.is_ok, "detail": stage.detail, "record": stage.record} for stage in stages
    ]
    write_atomic(output, INDENTED_LINE.dumps({"quickstart": kind, "ok": is_ok, "stages": rows}))


@click.command()
@click.option("--domain", default="minimal_domain", show_default=True, help="Name of a pack, folder or spec file.")
@click.option("--steps", type=click.IntRange(1, 1_000_000), default=100, show_default=True, help="How many steps.")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=8000,
    show_default=True,
    help="Accepted and not used: this command opens no port.",
)
@click.option("--dataset", metavar="X", help="Propose a spec from this CSV: a path, an https URL, or heartbeat.csv.")
@click.option(
    "--target",
    type=click.Choice(["coherence"]),
    default="coherence",
    show_default=True,
    help="Objective of the proposed spec: all layers good.",
)
@click.pass_context
def demo(ctx: click.Context, domain: str, steps: int, port: int, dataset: str | None, target: str) -> None:
    """Step a pack and print its coherence ten times, or propose a spec from a CSV.

    A data set may have 512 kB. The proposal goes to standard output; heartbeat.csv is a synthetic recording that comes
    with this program.

    \b
    Examples:
      spo demo
      spo demo --domain power_grid --steps 500
      spo demo --dataset heartbeat.csv > heartbeat.yaml
    """
    if dataset is not None:
        _demo_dataset(ctx, dataset, target)
        return
    from scpn_phase_orchestrator.domainpacks import pack_names, resolve_spec_path
    from scpn_phase_orchestrator.runtime.cli._gate import open_spec

    try:
        resolve_spec_path(domain)
    except BindingError as error:
        names = textwrap.fill(", ".join(pack_names()), 100, initial_indent="  ", subsequent_indent="  ")
        raise click.ClickException(f"{one_line(str(error))}\nPacks:\n{names}") from error
    opened = open_spec(domain, None)
    from scpn_phase_orchestrator.runtime.simulation import load_rules_beside
    from scpn_phase_orchestrator.runtime.step_core import StepCore

    core = StepCore(opened.spec, rules=load_rules_beside(opened.spec, opened.path))
    count = len(core.phases)
    click.echo(printable(f"{opened.spec.name}: {count} oscillators in {len(opened.spec.layers)} layers, {steps} steps"))
    lines = min(PROGRESS_LINES, steps)
    due = {steps * (k + 1) // lines for k in range(lines)}
    for step in range(1, steps + 1):
        outcome = core.step()
        if step in due:
            click.echo(f"  Step {step}: R={outcome.state.stability_proxy:.3f} [{outcome.regime}]")


def _demo_dataset(ctx: click.Context, dataset: str, target: str) -> None:
    from scpn_phase_orchestrator.scaffold.dataset import propose_from_dataset

    for option in ("domain", "steps"):
        if ctx.get_parameter_source(option) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{option} and --dataset exclude each other: a proposal is not run")
    proposal = propose_from_dataset(dataset)
    click.echo(proposal.to_yaml().rstrip("\n"))
    settings: dict[str, Any] = ctx.find_root().obj or {}
    if not settings.get("quiet"):
        layers = proposal.spec.layers
        count = sum(len(layer.oscillator_ids) for layer in layers)
        click.echo(
            f"Proposed for {target}: {count} oscillators in {len(layers)} layers, all good. Review it before it runs.",
            err=True,
        )


def _pack_record(pack: Pack) -> dict[str, Any]:
    return {
        "name": pack.name,
        "layer_count": len(pack.spec.layers),
        "oscillator_count": pack.oscillators,
        "safety_tier": pack.spec.safety_tier,
        "subject": pack.subject,
        "path": str(pack.path),
    }


def _layer_records(pack: Pack) -> list[dict[str, Any]]:
    return [
        {
            "index": layer.index,
            "name": layer.name,
            "family": layer.family,
            "oscillator_ids": layer.oscillator_ids,
            "objective": pack.spec.objectives.side_of(layer.index) or None,
        }
        for layer in pack.spec.layers
    ]


def _print_packs(found: Sequence[Pack]) -> None:
    rows = [
        (pack.name, f"{len(pack.spec.layers)}/{pack.oscillators}", pack.spec.safety_tier, _shortened(pack.subject))
        for pack in found
    ]
    _print_columns(("pack", "L/n", "tier", "subject"), rows)
    click.echo(f"{len(found)} packs (L layers, n oscillators). 'spo packs NAME' shows one, 'spo run NAME' runs it.")


def _print_layers(pack: Pack) -> None:
    levers = {
        layer.index: ", ".join(
            sorted({actuator.knob for actuator in pack.spec.actuators if actuator.scope == f"layer_{layer.index}"})
        )
        for layer in pack.spec.layers
    }
    rows = [
        (
            layer.name,
            str(layer.index),
            str(len(layer.oscillator_ids)),
            layer.family or "",
            pack.spec.objectives.side_of(layer.index),
            levers[layer.index],
        )
        for layer in pack.spec.layers
    ]
    _print_columns(("layer", "index", "n", "family", "objective", "own knobs"), rows)


def _print_columns(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under headers, all columns to the left."""
    cells = [headers, *rows]
    widths = [max(len(row[k]) for row in cells) for k in range(len(headers))]
    for row in cells:
        line = "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True))
        click.echo(printable(line.rstrip()))


def _shortened(text: str) -> str:
    return textwrap.shorten(text, SUBJECT_WIDTH, placeholder=" ...")
