"""Groups of commands: they load a command when it is called, and answer every error in one line."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NoReturn

import click

__all__ = [
    "EXIT_NEGATIVE",
    "EXIT_NOT_LEARNING",
    "EXIT_REFUSED",
    "EXIT_STOPPED",
    "CommandTable",
    "LazyGroup",
    "OneLineGroup",
    "wants_traceback",
    "warnings_in_one_line",
]

EXIT_NEGATIVE = 1
"""A check or a verdict is against what was given."""
EXIT_REFUSED = 2
"""The input was refused, or something that is needed is not installed."""
EXIT_NOT_LEARNING = 3
"""A learning curve does not pass the learning-signal check, and the caller asked."""
EXIT_STOPPED = 130
"""Ctrl-C; a run folder that was begun holds what was played until then."""

CommandTable = Mapping[str, tuple[str, str, str]]
"""Name of a command -> module, attribute, one line of help (which equals the command's own first line)."""


@contextmanager
def warnings_in_one_line(name: str) -> Generator[None]:
    """Have warnings said without the line of code that they come from, after the name of the command."""

    def say(message: Warning | str, *_where: object) -> None:
        from ripieno._printable import printable

        click.echo(f"{name}: warning: {printable(' '.join(str(message).split()))}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = say
        yield


def wants_traceback(ctx: click.Context) -> bool:
    """Whether ``--debug`` was given, to the group or to a command that has it of its own."""
    return bool(ctx.find_root().params.get("debug") or ctx.meta.get("debug"))


class OneLineGroup(click.Group):
    """A group that answers errors in one line, unless ``--debug`` was given."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, click.Abort):
            click.echo(f"{ctx.info_name}: stopped", err=True)
            ctx.exit(EXIT_STOPPED)
        except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
            raise  # Click answers them; a reader that has gone, as in `chamber list | head`, silently
        except SystemExit as end:  # of a partner or an imported module: no command of ours ends like this
            click.echo(f"{ctx.info_name}: foreign code called for the end of the process: {end!r}", err=True)
            ctx.exit(EXIT_REFUSED)
        except Exception as error:
            if wants_traceback(ctx):
                raise
            _end(ctx, error)


class LazyGroup(OneLineGroup):
    """A group whose commands stand in a table: ``--help`` loads none of them.

    Args:
        table: the commands.
    """

    def __init__(self, *args: Any, table: CommandTable, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._table:
            return None
        module, attribute, _ = self._table[cmd_name]
        command: click.Command = getattr(import_module(f"chamber.cli.{module}"), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in self._table.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self._table and not name.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(name, self._table, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            ctx.fail(f"No such command '{name}'.{hint}")
        return super().resolve_command(ctx, args)


def _end(ctx: click.Context, error: Exception) -> NoReturn:
    """Say in one line what went wrong."""
    from chamber.errors import ChamberEnvCompatibilityError
    from ripieno._printable import printable
    from ripieno.errors import IntegrityError, RipienoError

    is_expected = isinstance(error, (ChamberEnvCompatibilityError, RipienoError, OSError, ImportError))
    said = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
    text = printable(" ".join(said.split())) or type(error).__name__
    if not is_expected:
        text = f"internal error {type(error).__name__}: {text} (--debug shows where)"
    click.echo(f"{ctx.info_name}: {text}", err=True)
    for note in getattr(error, "__notes__", ()):
        click.echo(f"{ctx.info_name}: {note}", err=True)
    ctx.exit(EXIT_NEGATIVE if isinstance(error, IntegrityError) else EXIT_REFUSED)
