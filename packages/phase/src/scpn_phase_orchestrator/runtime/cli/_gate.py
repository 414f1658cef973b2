"""What stands before a spec is run by a command: find it, read it, validate it, look at its safety tier."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import click

from scpn_phase_orchestrator.binding.types import BindingSpec
from scpn_phase_orchestrator.domainpacks import packs_root, resolve_spec_path
from scpn_phase_orchestrator.exceptions import BindingError
from scpn_phase_orchestrator.runtime.cli._app import EXIT_REFUSED, one_line
from scpn_phase_orchestrator.runtime.cli._specs import load_valid_spec

__all__ = ["OpenedSpec", "open_spec", "refuse"]


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
    try:
        path = resolve_spec_path(name)
    except BindingError as error:
        raise click.BadParameter(one_line(str(error)), param_hint="'SPEC'") from error
    spec = load_valid_spec(path)
    if acknowledged_tier is not None and acknowledged_tier != spec.safety_tier:
        raise click.ClickException(
            f"--acknowledge-tier says {acknowledged_tier!r}, but the spec has safety_tier={spec.safety_tier!r}"
        )
    is_bundled = path.resolve().is_relative_to(packs_root().resolve())
    if spec.safety_tier != "research" and acknowledged_tier is None and not is_bundled:
        raise click.ClickException(
            f"safety_tier='{spec.safety_tier}' is not enforced by the local runtime; use the formal export and "
            "certified controller pipeline before executing non-research specs. What a run needs here is your word "
            f"that it stays a simulation: add --acknowledge-tier {spec.safety_tier} (nothing is actuated), or start "
            "with 'spo formal-export'."
        )
    return OpenedSpec(spec, path)


def refuse(*problems: str) -> NoReturn:
    """Print the problems, one a line, and end with the exit code of a refused input."""
    for problem in problems:
        click.echo(f"ERROR: {one_line(problem)}", err=True)
    sys.exit(EXIT_REFUSED)
