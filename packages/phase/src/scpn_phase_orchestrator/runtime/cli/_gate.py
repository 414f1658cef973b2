"""How commands take a spec: find it, read it, validate it and, before it is run, look at its safety tier."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from scpn_phase_orchestrator.binding.loader import BindingLoadError, load_binding_spec
from scpn_phase_orchestrator.binding.types import BindingSpec
from scpn_phase_orchestrator.binding.validator import validate_binding_spec
from scpn_phase_orchestrator.domainpacks import packs_root, resolve_spec_path
from scpn_phase_orchestrator.exceptions import BindingError
from scpn_phase_orchestrator.runtime.cli._app import EXIT_REFUSED, one_line

if TYPE_CHECKING:
    from scpn_phase_orchestrator.supervisor.policy_rules import PolicyDocument

__all__ = [
    "OpenedSpec",
    "load_valid_spec",
    "needs_acknowledgement",
    "open_rules",
    "open_spec",
    "refuse",
    "spec_argument",
    "warn",
]


def spec_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument ``BINDING_SPEC`` (name of a pack, folder or file), passed on as the path of the file."""
    return click.argument("binding_spec", callback=_resolved)(command)


def _resolved(ctx: click.Context, param: click.Parameter, value: str) -> Path:
    return _spec_file(value, "'BINDING_SPEC'")


def _spec_file(name: str, argument: str) -> Path:
    try:
        return resolve_spec_path(name)
    except BindingError as error:
        raise click.BadParameter(one_line(str(error)), param_hint=argument) from error


def load_valid_spec(path: Path) -> BindingSpec:
    """Read and validate a spec; what is wrong goes to stderr, one ``ERROR:`` line each, and the command ends with 1."""
    try:
        spec = load_binding_spec(path)
    except BindingLoadError as error:
        refuse(*(f"{error.source}: {violation}" for violation in error.violations))
    errors = validate_binding_spec(spec)
    if errors:
        refuse(*errors)
    return spec


@dataclass(frozen=True)
class OpenedSpec:
    """A valid spec that may run here, and the file it came from."""

    spec: BindingSpec
    path: Path

    @property
    def is_dry(self) -> bool:
        """Whether its safety tier asks for more than this program gives, so that a run is a simulation only."""
        return self.spec.safety_tier != "research"


def open_spec(name: str, acknowledged_tier: str | None) -> OpenedSpec:
    """Open a spec by pack name, folder or file.

    A name that leads nowhere ends the command with exit code 2, a fault of the spec or its tier with 1.

    Args:
        name: what the user typed.
        acknowledged_tier: the tier that the user knows the spec to have and wants simulated all the same. The packs
            of this package need no such word: they are known to be nothing but simulations.
    """
    path = _spec_file(name, "'SPEC'")
    spec = load_valid_spec(path)
    if acknowledged_tier is not None and acknowledged_tier != spec.safety_tier:
        raise click.ClickException(
            f"--acknowledge-tier says {acknowledged_tier!r}, but the spec has safety_tier={spec.safety_tier!r}"
        )
    if acknowledged_tier is None and needs_acknowledgement(spec, path):
        raise click.ClickException(
            f"safety_tier='{spec.safety_tier}' is not enforced by the local runtime; use the formal export and "
            "certified controller pipeline before executing non-research specs. What a run needs here is your word "
            f"that it stays a simulation: add --acknowledge-tier {spec.safety_tier} (nothing is actuated), or start "
            "with 'spo formal-export'."
        )
    return OpenedSpec(spec, path)


def needs_acknowledgement(spec: BindingSpec, path: Path) -> bool:
    """Whether the tier of a spec asks for more than a simulation, and it is no pack of this package."""
    return spec.safety_tier != "research" and not path.resolve().is_relative_to(packs_root().resolve())


def open_rules(spec: BindingSpec, spec_path: Path, policy: Path | None = None) -> PolicyDocument | None:
    """Read the rule file that was named, that the spec names, or that lies beside it; there may be none.

    A fault of it ends the command with 1, one ``ERROR:`` line each. What can never come true in it is a warning.
    """
    path = policy or spec.rule_file(spec_path)
    if policy is None and spec.policy is None and not path.is_file():
        return None
    from scpn_phase_orchestrator.supervisor.policy_rules import (
        PolicyFileError,
        dead_conditions,
        load_policy_document,
        unknown_scopes,
    )

    try:
        document = load_policy_document(path, layer_indices={layer.name: layer.index for layer in spec.layers})
    except PolicyFileError as error:
        refuse(*(f"invalid policy rules: {error.source}: {fault}" for fault in error.faults))
    unknown = unknown_scopes(document, spec)
    if unknown:
        refuse(*unknown)
    warn(*dead_conditions(document, spec))
    return document


def warn(*messages: str) -> None:
    """Print what is unwise on stderr, one ``WARNING:`` line each, unless ``--quiet`` was given."""
    settings: dict[str, Any] = click.get_current_context().find_root().obj or {}
    if settings.get("quiet"):
        return
    for message in messages:
        click.echo(f"WARNING: {one_line(message)}", err=True)


def refuse(*problems: str) -> NoReturn:
    """Print the problems, one a line, and end with the exit code of a refused input."""
    for problem in problems:
        click.echo(f"ERROR: {one_line(problem)}", err=True)
    sys.exit(EXIT_REFUSED)
