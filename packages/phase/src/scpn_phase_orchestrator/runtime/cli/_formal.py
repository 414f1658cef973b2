"""The commands for formal review: exports for checkers, rules over a log, audits of detectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from ripieno._printable import printable
from scpn_phase_orchestrator.exceptions import PolicyError, ValidationError
from scpn_phase_orchestrator.runtime.cli._gate import load_valid_spec, open_rules, refuse, spec_argument
from scpn_phase_orchestrator.runtime.cli._json_input import (
    INPUT_FILE,
    OUTPUT_FILE,
    emit,
    load_json_object,
    output_option,
    print_json,
    write_output,
)

if TYPE_CHECKING:
    from scpn_phase_orchestrator.supervisor.formal_export import CheckerReadiness
    from scpn_phase_orchestrator.supervisor.policy_diagnostics import PolicyDryRunReport

__all__ = ["audit_detector", "formal_export", "policy_dry_run"]

_POLICY_OPTION = click.option(
    "--policy",
    type=INPUT_FILE,
    default=None,
    help="Rule file; by default the one of the spec, or policy.yaml beside it.",
)
_SHARE = click.FloatRange(0.0, 1.0, min_open=True, max_open=True)


# --- formal export --------------------------------------------------------------------------------------------


def _checker_paths(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    from scpn_phase_orchestrator.supervisor.formal_export import CHECKERS

    paths: dict[str, str] = {}
    for value in values:
        executable, separator, path = value.partition("=")
        if not separator or not path:
            raise click.BadParameter(f"{value!r} must be <executable>=<path>", ctx, param)
        if executable not in CHECKERS:
            raise click.BadParameter(f"{executable!r} must be one of {', '.join(CHECKERS)}", ctx, param)
        if executable in paths:
            raise click.BadParameter(f"{executable!r} is given twice", ctx, param)
        paths[executable] = path
    return paths


def _print_readiness(readiness: tuple[CheckerReadiness, ...]) -> None:
    for checker in readiness:
        found = f"found at {checker.path}" if checker.available else "not found"
        click.echo(printable(f"checker {checker.executable} ({checker.language}): {found}"), err=True)


@click.command("formal-export")
@spec_argument
@click.option(
    "--export",
    "kind",
    type=click.Choice(["protocol", "protocol-tla", "policy", "policy-tla", "policy-smt", "stl", "package"]),
    default="protocol",
    show_default=True,
    help="What to export: the net (PRISM, TLA+), the rules (PRISM, TLA+, SMT-LIB), the monitors (SMT-LIB), or all.",
)
@_POLICY_OPTION
@click.option("--module-name", default="spo_petri", show_default=True, help="Name of the PRISM or TLA+ module.")
@click.option(
    "--max-tokens",
    type=click.IntRange(min=1),
    default=None,
    help="Most tokens of a place in the model.  [default: tokens at the start, or the largest arc weight]",
)
@click.option("--output", "-o", type=OUTPUT_FILE, default=None, help="Write the export here as well.")
@click.option("--include-checker-readiness", is_flag=True, help="Say which checkers this machine has; runs none.")
@click.option(
    "--checker-path",
    "checker_paths",
    multiple=True,
    metavar="EXE=PATH",
    callback=_checker_paths,
    help="Where a checker lies (prism, storm, tlc, apalache-mc, z3, cvc5); repeatable.",
)
def formal_export(
    binding_spec: Path,
    kind: Any,
    policy: Path | None,
    module_name: str,
    max_tokens: int | None,
    output: Path | None,
    include_checker_readiness: bool,
    checker_paths: dict[str, str],
) -> None:
    """Export nets, rules and monitors as PRISM, TLA+ or SMT-LIB.

    Readings are abstracted exactly to the regions between the constants that guards and rules compare them with, so
    that a checker of finite models can enumerate every behaviour. Nothing is checked by this command.

    \b
    Examples:
      spo formal-export agent_coordination --export protocol-tla -o spo_petri.tla
      spo formal-export power_grid --export policy-smt | z3 -in
      spo formal-export power_grid --export package --include-checker-readiness -o package.json
    """
    from scpn_phase_orchestrator.supervisor.formal_export import (
        checker_readiness,
        export_formal,
        formal_export_package,
    )

    if checker_paths and not include_checker_readiness:
        raise click.UsageError("--checker-path needs --include-checker-readiness")
    spec = load_valid_spec(binding_spec)
    readiness = checker_readiness(checker_paths) if include_checker_readiness else None
    try:
        document = open_rules(spec, binding_spec, policy)
        if kind == "package":
            package = formal_export_package(
                spec, document, module_name=module_name, max_tokens=max_tokens, readiness=readiness
            )
            emit(package, output, artifact="formal export package")
            return
        text = export_formal(kind, spec, document, module_name=module_name, max_tokens=max_tokens).text
    except PolicyError as error:
        refuse(str(error))
    if output is not None:
        write_output(output, text.encode(), artifact="formal export")
    click.echo(text, nl=False)
    if readiness is not None:
        _print_readiness(readiness)


# --- rules over a log -----------------------------------------------------------------------------------------


def _dry_run_lines(report: PolicyDryRunReport) -> list[str]:
    lines = [f"Steps: {report.steps}", "Rule fires:"]
    lines += [f"  {name}: {count}" for name, count in report.fire_counts.items()]
    lines.append("Actions proposed:" if report.action_counts else "Actions proposed: none")
    lines += [f"  {target}: {count}" for target, count in report.action_counts.items()]
    lines.append(f"Unreachable rules: {', '.join(report.unreachable_rules) or 'none'}")
    lines.append(f"Steps with several rules: {len(report.overlapping_steps)}")
    lines += [f"  step {one.step}: {', '.join(one.rules)}" for one in report.overlapping_steps[:10]]
    lines.append(f"Steps with colliding actions: {len(report.colliding_steps)}")
    for one in report.colliding_steps[:10]:
        values = ", ".join(f"{rule} {value:+g}" for rule, value in zip(one.rules, one.values, strict=True))
        lines.append(f"  step {one.step}: {one.knob}/{one.scope}: {values}")
    if report.unavailable_metrics:
        lines.append(f"Metrics without a value in the log: {', '.join(report.unavailable_metrics)}")
    return lines


def _layer_names(records: Sequence[Mapping[str, Any]]) -> list[str] | None:
    """Names of the layers by the header of a log; None without any."""
    config = records[0].get("binding_config") if records else None
    layers = cast("Mapping[str, Any]", config).get("layers") if isinstance(config, Mapping) else None
    if not isinstance(layers, list):
        return None
    entries = [cast("Mapping[str, Any]", entry) for entry in cast("list[Any]", layers) if isinstance(entry, Mapping)]
    return [str(entry.get("name")) for entry in entries]


@click.command("policy-dry-run")
@spec_argument
@click.argument("log", type=INPUT_FILE)
@_POLICY_OPTION
@click.option("--json-out", "--json", "json_out", is_flag=True, help="Print the whole report as JSON.")
def policy_dry_run(binding_spec: Path, log: Path, policy: Path | None, json_out: bool) -> None:
    """Replay rules over a log without acting.

    LOG is an audit log of `spo run --audit`. Every step counts as one control tick, and as one second for cooldowns.
    Says how often each rule fires, which never do, and where several rules, or actions on the same knob, meet.

    \b
    Examples:
      spo policy-dry-run power_grid run.jsonl
      spo policy-dry-run power_grid run.jsonl --policy new_rules.yaml --json
    """
    from scpn_phase_orchestrator.runtime.replay import ReplayEngine
    from scpn_phase_orchestrator.supervisor.policy_diagnostics import dry_run_policy_rules

    spec = load_valid_spec(binding_spec)
    document = open_rules(spec, binding_spec, policy)
    if document is None or not document.rules:
        refuse(f"spec '{spec.name}' has no rules; name a rule file with --policy")
    loaded = ReplayEngine(log).load()
    records = [record for record in loaded if "layers" in record]
    if not records:
        refuse(f"no step records in {log}")
    n_layers = {len(record["layers"]) for record in records if isinstance(record["layers"], list)}
    if n_layers != {len(spec.layers)}:
        found = ", ".join(str(count) for count in sorted(n_layers)) or "no"
        refuse(f"the log has {found} layers, spec '{spec.name}' has {len(spec.layers)}: is it a log of this spec?")
    names = _layer_names(loaded)
    if names is not None and names != [layer.name for layer in spec.layers]:
        click.echo(
            printable(f"Warning: the layers of the log ({', '.join(names)}) are not those of spec '{spec.name}'"),
            err=True,
        )
    report = dry_run_policy_rules(
        document.rules,
        records,
        spec.objectives.good_layers,
        spec.objectives.bad_layers,
        layer_indices=[layer.index for layer in spec.layers],
    )
    if json_out:
        print_json(report.to_record())
        return
    for line in _dry_run_lines(report):
        click.echo(printable(line))


# --- detectors ------------------------------------------------------------------------------------------------


def _signature(record: dict[str, Any], key: Path) -> dict[str, Any]:
    from ripieno.canonical import strict_loads
    from ripieno.receipts import SEAL
    from ripieno.signing import detached_signature, load_private_key

    return strict_loads(detached_signature(load_private_key(key), record[SEAL]))


@click.command("audit-detector")
@click.argument("scores_json", type=INPUT_FILE)
@click.option(
    "--target-false-alarm", type=_SHARE, default=0.1, show_default=True, help="Share of null scores that may alarm."
)
@click.option(
    "--n-permutations", type=click.IntRange(min=1), default=10_000, show_default=True, help="Random relabellings."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Root seed of the relabellings.")
@click.option("--alpha", type=_SHARE, default=0.05, show_default=True, help="Level of significance.")
@click.option("--corpus-id", default=None, help="Name of the recordings; with --captured-at, adds a sealed record.")
@click.option("--captured-at", default=None, help="When they were taken, e.g. 2024-05-01T12:00:00Z.")
@click.option(
    "--sign", "sign_key", type=INPUT_FILE, default=None, help="Private key of `ripieno keygen`; signs the seal."
)
@output_option
def audit_detector(
    scores_json: Path,
    target_false_alarm: float,
    n_permutations: int,
    seed: int,
    alpha: float,
    corpus_id: str | None,
    captured_at: str | None,
    sign_key: Path | None,
    output: Path | None,
) -> None:
    """Measure a detector against its false-alarm budget.

    SCORES_JSON is {"event_scores": [...], "null_scores": [...]}, higher meaning more alarming. The threshold lies just
    above a null score, so that at most floor(target * n) of them alarm. The p-value comes from random relabellings,
    each with its own threshold: p = (1 + those that detect at least as many) / (n + 1).

    \b
    Examples:
      spo audit-detector scores.json
      spo audit-detector scores.json --corpus-id ward-7 --captured-at 2024-05-01 --sign me.key -o audit.json
    """
    from scpn_phase_orchestrator.evaluation import audit_detector_scores, detector_audit_record

    if (corpus_id is None) != (captured_at is None):
        raise click.UsageError("--corpus-id and --captured-at belong together")
    if sign_key is not None and corpus_id is None:
        raise click.UsageError("--sign needs --corpus-id and --captured-at")
    payload = load_json_object(scores_json, artifact="detector scores")
    for field in ("event_scores", "null_scores"):
        if not isinstance(payload.get(field), list):
            raise click.ClickException(f"{field} must be a JSON array")
    event_scores, null_scores = payload["event_scores"], payload["null_scores"]
    try:
        audit = audit_detector_scores(
            event_scores,
            null_scores,
            target_false_alarm=target_false_alarm,
            n_permutations=n_permutations,
            seed=seed,
            alpha=alpha,
        )
        result: dict[str, Any] = audit.to_audit_record()
        if corpus_id is not None and captured_at is not None:
            record = detector_audit_record(
                audit, event_scores, null_scores, corpus_id=corpus_id, captured_at=captured_at
            )
            result = {"record": record}
            if sign_key is not None:
                result["signature"] = _signature(record, sign_key)
    except ValidationError as error:
        raise click.ClickException(str(error)) from error
    emit(result, output, artifact="detector audit")
