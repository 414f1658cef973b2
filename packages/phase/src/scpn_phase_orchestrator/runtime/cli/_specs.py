"""Commands about spec files: validate, inspect, schema; and how every command takes a spec."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ripieno._printable import printable
from scpn_phase_orchestrator.exceptions import BindingError
from scpn_phase_orchestrator.runtime.cli._json_input import emit, output_option

if TYPE_CHECKING:
    from scpn_phase_orchestrator.binding.types import BindingSpec

__all__ = ["inspect", "load_valid_spec", "print_warnings", "schema", "spec_argument", "validate"]


def spec_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument ``BINDING_SPEC`` (name of a pack, folder or file), passed on as the path of the file."""
    return click.argument("binding_spec", callback=_resolved)(command)


def _resolved(ctx: click.Context, param: click.Parameter, value: str) -> Path:
    from scpn_phase_orchestrator.domainpacks import resolve_spec_path

    try:
        return resolve_spec_path(value)
    except BindingError as error:
        raise click.BadParameter(printable(str(error)), ctx, param) from error


def load_valid_spec(path: Path) -> BindingSpec:
    """Read and validate a spec; what is wrong goes to stderr, one ``ERROR:`` line each, and the command ends with 1."""
    from scpn_phase_orchestrator.binding.loader import BindingLoadError, load_binding_spec
    from scpn_phase_orchestrator.binding.validator import validate_binding_spec

    try:
        spec = load_binding_spec(path)
    except BindingLoadError as error:
        _refuse([f"{error.source}: {violation}" for violation in error.violations])
    errors = validate_binding_spec(spec)
    if errors:
        _refuse(errors)
    return spec


def print_warnings(spec: BindingSpec) -> None:
    """Say on stderr what is unwise in a spec, one ``WARNING:`` line each, unless ``--quiet`` was given."""
    from scpn_phase_orchestrator.binding.validator import binding_warnings

    settings: dict[str, Any] = click.get_current_context().find_root().obj or {}
    if settings.get("quiet"):
        return
    for message in binding_warnings(spec):
        click.echo(printable(f"WARNING: {message}"), err=True)


@click.command()
@spec_argument
@click.option("--security", is_flag=True, help="Also refuse text that is meant for an interpreter.")
@click.option("--hard", is_flag=True, help="As --security, and scan the code and specs of the folder.")
def validate(binding_spec: Path, security: bool, hard: bool) -> None:
    """Say whether a spec is valid, and what is wrong with it.

    BINDING_SPEC is a file, a folder with a binding_spec.yaml, or the name of a pack. Errors and warnings go to stderr;
    warnings leave the spec valid.

    \b
    Examples:
      spo validate power_grid
      spo validate my_pack/binding_spec.yaml --hard
    """
    from scpn_phase_orchestrator.binding.validator import validate_binding_spec_security

    spec = load_valid_spec(binding_spec)
    if security or hard:
        findings = validate_binding_spec_security(spec)
        if findings:
            _refuse(findings)
    if hard:
        _scan(binding_spec.parent)
    print_warnings(spec)
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
        click.echo(json.dumps(resolved_binding_config(spec), indent=2, sort_keys=True, allow_nan=False))
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
        _refuse([f"hard scan: {one.path}:{one.line} [{one.category}] {one.snippet}" for one in findings])


def _print_resolved(spec: BindingSpec) -> None:
    from scpn_phase_orchestrator.binding.resolved import format_resolved_binding_config, resolved_binding_config

    for line in format_resolved_binding_config(resolved_binding_config(spec)):
        click.echo(printable(line))


def _refuse(messages: list[str]) -> NoReturn:
    for message in messages:
        click.echo(printable(f"ERROR: {message}"), err=True)
    click.get_current_context().exit(1)
