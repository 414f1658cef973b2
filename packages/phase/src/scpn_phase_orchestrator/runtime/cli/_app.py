"""The command tree. Its table is all that ``spo --help`` has to load."""

from __future__ import annotations

import logging
from importlib import import_module
from importlib.metadata import version
from typing import Any, NoReturn

import click

from ripieno._printable import printable
from ripieno.errors import RipienoError
from scpn_phase_orchestrator.exceptions import SPOError

__all__ = ["COMMANDS", "EXIT_INTERNAL", "EXIT_REFUSED", "main", "one_line"]

EXIT_REFUSED = 1
"""The input was refused, or the verdict is negative."""
EXIT_INTERNAL = 3
"""A defect of ours; ``--debug`` shows where."""

_CLI = "scpn_phase_orchestrator.runtime.cli"

COMMANDS: dict[str, tuple[str, str, str]] = {
    "run": ("_run", "run", "Run a pack or a spec under its supervisor."),
    "compare": ("_run", "compare", "Run open loop and supervised from one seed and say what supervision changed."),
    "sweep": ("_sweep", "sweep", "Run a grid of couplings, knobs or seeds, on one machine or a cluster."),
    "packs": ("_packs", "packs", "List the domain packs, or show one."),
    "new": ("_packs", "new", "Write a pack of your own that runs and means something."),
    "scaffold": ("_packs", "scaffold", "Write the smallest pack under domainpacks/NAME."),
    "generate": ("_packs", "generate", "Turn one sentence of intent into a pack for review."),
    "quickstart": ("_packs", "quickstart", "Validate, run, audit and report a bundled example in one go."),
    "demo": ("_packs", "demo", "Step a pack and print its coherence ten times, or propose a spec from a CSV."),
    "validate": ("_specs", "validate", "Say whether a spec is valid, and what is wrong with it."),
    "inspect": ("_specs", "inspect", "Show what a spec resolves to."),
    "schema": ("_specs", "schema", "Print the JSON Schema of binding specs."),
    "replay": ("_audit", "replay", "Re-execute an audit log step by step."),
    "watch": ("_audit", "watch", "Follow an audit event stream."),
    "report": ("_audit", "report", "Summarise an audit log."),
    "explain": ("_audit", "explain", "Say why the supervisor acted, as Markdown or PDF."),
    "twin-confidence": ("_twin", "twin_confidence", "Score how far a model has drifted from what it models."),
    "extract": ("_signals", "extract", "Turn recorded signals (CSV, Parquet, WAV) into phases."),
    "fit": ("_signals", "fit", "Estimate natural frequencies and coupling from phases, with intervals."),
    "auto-bind": ("_signals", "auto_bind", "Propose a spec from a time series, an event log or a graph."),
    "auto-coupling-estimation": (
        "_signals",
        "auto_coupling_estimation",
        "Estimate who drives whom by phase transfer entropy.",
    ),
    "formal-export": ("_formal", "formal_export", "Export nets, rules and monitors as PRISM, TLA+ or SMT-LIB."),
    "policy-dry-run": ("_formal", "policy_dry_run", "Replay rules over a log without acting."),
    "audit-detector": ("_formal", "audit_detector", "Measure a detector against its false-alarm budget."),
    "meta-transfer-manifest": (
        "_transfer",
        "meta_transfer_manifest",
        "Describe, for review, what audit histories could teach another domain.",
    ),
    "evolutionary-policy-dsl-search": (
        "_grammars",
        "evolutionary_policy_dsl_search",
        "List bounded mutations of policy rules for review.",
    ),
    "evolutionary-petri-mutation": (
        "_grammars",
        "evolutionary_petri_mutation",
        "List bounded mutations of a Petri net for review.",
    ),
    "evolutionary-topology-mutation": (
        "_grammars",
        "evolutionary_topology_mutation",
        "List bounded mutations of a coupling topology for review.",
    ),
    "federated-dp-noise-service-preflight": (
        "_federated",
        "federated_dp_noise_service_preflight",
        "Check a differential-privacy noise service before it is deployed.",
    ),
    "federated-secure-aggregation-preflight": (
        "_federated",
        "federated_secure_aggregation_preflight",
        "Check a secure aggregation before it is deployed.",
    ),
    "federated-transport-preflight": (
        "_federated",
        "federated_transport_preflight",
        "Check the transport of node updates before it is deployed.",
    ),
}
"""Name of a command -> module, attribute, one line of help (which must equal the command's own first line)."""


class _LazyGroup(click.Group):
    """A group that loads the module of a command when the command is called, and answers errors in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(f"{_CLI}.{module}"), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(name, COMMANDS, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            ctx.fail(f"No such command '{name}'.{hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit, BrokenPipeError):
            raise  # Click answers them; a reader that has gone, as in `spo packs | head`, silently
        except Exception as error:
            if ctx.params.get("debug"):
                raise
            _end(ctx, error)


def _end(ctx: click.Context, error: Exception) -> NoReturn:
    """Say in one line what went wrong, and with which code the command ends."""
    if isinstance(error, (SPOError, RipienoError, OSError, ValueError, ImportError)):
        raise click.ClickException(one_line(str(error)) or type(error).__name__) from error
    click.echo(
        f"Internal error: {type(error).__name__}: {one_line(str(error))} (spo --debug ... shows where)", err=True
    )
    ctx.exit(EXIT_INTERNAL)


def one_line(text: str) -> str:
    """Join the lines of a message and spell out what a terminal would obey."""
    return printable(" ".join(text.split()))


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--quiet", "-q", is_flag=True, help="Print results only: no progress, no notes.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
    help="What the libraries may say on stderr.",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.version_option(version("ripieno-phase"), prog_name="spo")
@click.pass_context
def main(ctx: click.Context, quiet: bool, log_level: str, debug: bool) -> None:
    """Simulate, supervise, audit and replay networks of phase oscillators.

    \b
    Examples:
      spo run power_grid
      spo compare power_grid
      spo run my_pack/ --audit run.jsonl && spo replay run.jsonl --verify

    Exit codes: 0 done; 1 input refused or verdict negative; 2 wrong usage; 3 a defect of this program.
    """
    logging.basicConfig(level=log_level.upper(), format="%(levelname)s %(name)s: %(message)s")
    ctx.obj = {"quiet": quiet}
