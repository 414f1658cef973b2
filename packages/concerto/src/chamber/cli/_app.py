"""The command tree. Its table is all that ``chamber --help`` has to load."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Any, NoReturn

import click

__all__ = ["COMMANDS", "EXIT_NEGATIVE", "EXIT_REFUSED", "EXIT_STOPPED", "chamber"]

EXIT_NEGATIVE = 1
"""A check or a verdict is against what was given."""
EXIT_REFUSED = 2
"""The input was refused, or something that is needed is not installed."""

EXIT_STOPPED = 130
"""Ctrl-C; a run folder that was begun holds what was played until then."""

COMMANDS: dict[str, tuple[str, str, str]] = {
    "list": ("_list", "list_command", "List tasks, conditions, partners and robots."),
    "run": ("_run", "run_command", "Play episodes of a task with its reference team, and record them."),
    "play": ("_play", "play_command", "Play a trained policy beside any partner, and record it."),
    "render": ("_render", "render_command", "Make a picture or a video of a task."),
    "replay": ("_replay", "replay_command", "Play a recorded session again and compare."),
    "check": ("_check", "check_command", "Judge a task by the checks that every task must pass."),
}
"""Name of a command -> module, attribute, one line of help (which equals the command's own first line)."""


class _LazyGroup(click.Group):
    """A group that loads the module of a command when it is called, and answers errors in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(f"chamber.cli.{module}"), attribute)
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
        except (KeyboardInterrupt, click.Abort):
            click.echo("chamber: stopped", err=True)
            ctx.exit(EXIT_STOPPED)
        except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
            raise  # Click answers them; a reader that has gone, as in `chamber list | head`, silently
        except Exception as error:
            if ctx.params.get("debug"):
                raise
            _end(ctx, error)


def _end(ctx: click.Context, error: Exception) -> NoReturn:
    """Say in one line what went wrong."""
    from chamber.errors import ChamberEnvCompatibilityError
    from ripieno._printable import printable
    from ripieno.errors import IntegrityError, RipienoError

    expected = isinstance(error, (ChamberEnvCompatibilityError, RipienoError, OSError, ImportError))
    said = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
    text = printable(" ".join(said.split())) or type(error).__name__
    if not expected:
        text = f"internal error {type(error).__name__}: {text} (chamber --debug ... shows where)"
    click.echo(f"chamber: {text}", err=True)
    ctx.exit(EXIT_NEGATIVE if isinstance(error, IntegrityError) else EXIT_REFUSED)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.version_option(version("ripieno-concerto"), prog_name="chamber")
def chamber(debug: bool) -> None:
    """Measure how well a robot cooperates with partners it has never met.

    \b
    Examples:
      chamber list
      chamber run cocarry --episodes 5 --video out.mp4
      chamber play --checkpoint RUN_step100000.pt --partner push_pursuer --safety
      chamber render cocarry --out start.png --steps 0

    Exit codes: 0 done; 1 a check or a comparison failed; 2 input refused, or something needed is not installed;
    130 stopped by Ctrl-C.
    """
