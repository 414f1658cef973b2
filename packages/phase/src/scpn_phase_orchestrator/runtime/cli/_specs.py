"""Commands about spec files: validate, inspect, schema."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ripieno._printable import printable
from scpn_phase_orchestrator.runtime.cli._gate import load_valid_spec, open_rules, refuse, spec_argument, warn
from scpn_phase_orchestrator.runtime.cli._json_input import emit, output_option, print_json

if TYPE_CHECKING:
    from scpn_phase_orchestrator.binding.types import BindingSpec

__all__ = ["inspect", "schema", "validate"]


@click.command()
@spec_argument
@click.option("--security", is_flag=True, help="Also refuse text that is meant for an interpreter.")
@click.option("--hard", is_flag=True, help="As --security, and scan the code and specs of the folder.")
def validate(binding_spec: Path, security: bool, hard: bool) -> None:
    """Say whether a spec is valid, and what is wrong with it.

    BINDING_SPEC is a file, a folder with a binding_spec.yaml, or the name of a pack. Its rule file is checked too.
    Errors and warnings go to stderr; warnings leave the spec valid.

    \b
    Examples:
      spo validate power_grid
      spo validate my_pack/binding_spec.yaml --hard
    """
    from scpn_phase_orchestrator.binding.validator import binding_warnings, validate_binding_spec_security

    spec = load_valid_spec(binding_spec)
    if security or hard:
        findings = validate_binding_spec_security(spec)
        if findings:
            refuse(*findings)
    if hard:
        _scan(binding_spec.parent)
    open_rules(spec, binding_spec)
    warn(*binding_warnings(spec))
    click.echo("Valid")
    if security or hard:
        click.echo("Security checks passed")
    if hard:
        click.echo("Hard scan: no dangerous patterns found")
    _print_resolved(spec)


@click.command()
@spec_argument
@click.option("--json-out", "--json", "json_out", is_flag=True, help="Print JSON.")
def inspect(binding_spec: Path, json_out: bool) -> None:
    """Show what a spec resolves to.

    \b
    Examples:
      spo inspect power_grid
      spo inspect my_pack/ --json
    """
    from scpn_phase_orchestrator.binding.resolved import resolved_binding_config

    spec = load_valid_spec(binding_spec)
    if json_out:
        print_json(resolved_binding_config(spec))
    else:
        _print_resolved(spec)


@click.command()
@output_option
def schema(output: Path | None) -> None:
    """Print the JSON Schema of binding specs.

    Editors check and complete spec files by it.

    \b
    Examples:
      spo schema --output binding_spec.schema.json
      # then, as the first line of a spec:  # yaml-language-server: $schema=binding_spec.schema.json
    """
    from scpn_phase_orchestrator.binding.schema import binding_schema

    emit(binding_schema(), output, artifact="schema")


def _scan(folder: Path) -> None:
    from scpn_phase_orchestrator.binding.security_scan import scan_unsafe_patterns

    findings = scan_unsafe_patterns(folder)
    if findings:
        refuse(*(f"hard scan: {one.path}:{one.line} [{one.category}] {one.snippet}" for one in findings))


def _print_resolved(spec: BindingSpec) -> None:
    from scpn_phase_orchestrator.binding.resolved import format_resolved_binding_config, resolved_binding_config

    for line in format_resolved_binding_config(resolved_binding_config(spec)):
        click.echo(printable(line))
