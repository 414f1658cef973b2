"""The command tree. Its table is all that ``agentinputlab --help`` has to load."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any, NoReturn

import click

__all__ = ["COMMANDS", "EXIT_REFUSED", "PLUGIN_GROUP", "agentinputlab"]

EXIT_REFUSED = 2
"""The input was refused."""
PLUGIN_GROUP = "agentinputlab.commands"
"""Entry points of this group add commands: each names a Click command or group that loads nothing heavy."""

COMMANDS: dict[str, tuple[str, str, str]] = {
    "list": ("_registry", "list_methods", "List the registered methods, or their releases."),
    "show": ("_registry", "show", "Show the card of a method or of a release."),
    "doctor": ("_doctor", "doctor", "Say what works on this machine, release by release."),
    "smoke": ("_smoke", "smoke", "Run one tiny experiment without a network and say what happened."),
    "validate-registry": ("_registry", "validate_registry", "Check a registry document."),
    "datasets": ("_datasets", "datasets", "Find benchmark data; download only what you accept."),
    "selector": ("_selector", "selector", "Look at what a selector of interventions would see."),
    "compose": ("_compose", "compose", "Chain interventions: one budget, one patch, one trace."),
    "serve-model": ("_serve_model", "serve_model", "Serve a model over the OpenAI chat API on this machine."),
    "power": ("_power", "power", "Plan how many paired tasks an experiment needs."),
}
"""Name of a command -> module, attribute, one line of help (which equals the command's own first line)."""


class _LazyGroup(click.Group):
    """A group that loads the module of a command when it is called, and answers errors in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_plugins(), *COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            module, attribute, _ = COMMANDS[cmd_name]
            command: click.Command = getattr(import_module(f"agentinputlab.cli.{module}"), attribute)
            return command
        plugin = _plugins().get(cmd_name)
        return None if plugin is None else _load(plugin)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Experiments"):
            formatter.write_dl([(name, _first_line(plugin)) for name, plugin in _plugins().items()])
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        names = self.list_commands(ctx)
        if name not in names and not name.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(name, names, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            ctx.fail(f"No such command '{name}'.{hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit, BrokenPipeError):
            raise  # Click answers them; a reader that has gone, as in `agentinputlab list | head`, silently
        except Exception as error:
            if ctx.params.get("debug"):
                raise
            _end(ctx, error)


def _plugins() -> dict[str, Any]:
    """Commands of packages that stand on this one, by name; a name of our own cannot be taken."""
    found = {entry.name: entry for entry in entry_points(group=PLUGIN_GROUP)}
    return {name: found[name] for name in sorted(found, reverse=True) if name not in COMMANDS}


def _load(plugin: Any) -> click.Command:
    """Load a command of another package.

    Raises:
        AgentInputLabError: it cannot be loaded, or is no command.
    """
    from agentinputlab.contracts.errors import AgentInputLabError

    try:
        command = plugin.load()
    except (Exception, SystemExit) as error:  # anybody's code
        reason = str(error) if isinstance(error, (ImportError, AttributeError)) else type(error).__name__
        raise AgentInputLabError(f"the command {plugin.name!r} ({plugin.value}) does not load: {reason}") from error
    if not isinstance(command, click.Command):
        raise AgentInputLabError(f"the command {plugin.name!r} ({plugin.value}) is no Click command")
    return command


def _first_line(plugin: Any) -> str:
    from agentinputlab.contracts.errors import AgentInputLabError

    try:
        return _load(plugin).get_short_help_str(limit=100)
    except AgentInputLabError as error:  # the other commands still have their help
        return f"({error})"


def _end(ctx: click.Context, error: Exception) -> NoReturn:
    """Say in one line what went wrong; nothing of a request's content is in a library error's text."""
    from agentinputlab.contracts.errors import AgentInputLabError
    from ripieno._printable import printable
    from ripieno.errors import RipienoError

    expected = isinstance(error, (AgentInputLabError, RipienoError, OSError, ValueError, ImportError))
    said = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
    text = printable(" ".join(said.split())) or type(error).__name__
    if not expected:
        # A defect of ours: its text may hold anything, so only its kind is shown.
        text = f"internal error {type(error).__name__} (agentinputlab --debug ... shows where)"
    click.echo(f"agentinputlab: {text}", err=True)
    ctx.exit(EXIT_REFUSED)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.option(
    "--registry",
    "registry_path",
    type=click.Path(path_type=Path),
    help="Registry document to use instead of the packaged one.",
)
@click.version_option(version("ripieno-inputlab"), prog_name="agentinputlab")
@click.pass_context
def agentinputlab(ctx: click.Context, debug: bool, registry_path: Path | None) -> None:
    """Measure, in strictly paired first attempts, whether changing an agent's input helps.

    \b
    Examples:
      agentinputlab smoke
      agentinputlab retail run --arena embedded --treatment plan.plan_and_solve.ps_prompt --out runs/plan
      agentinputlab list --releases

    Exit codes: 0 done; 1 a check failed, or a folder does not verify; 2 wrong usage, input refused or not ready; 3 a
    campaign ran, or stopped by --stop-after-failures, and has failures; 130 interrupted by Ctrl-C.
    """
    ctx.obj = {"debug": debug, "registry": registry_path}
