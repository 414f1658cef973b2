"""Options and small pieces that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import click

__all__ = ["parameters_of", "progress_bar", "what_is_played"]

_Command = TypeVar("_Command", bound=Callable[..., Any])


def what_is_played(command: _Command) -> _Command:
    """Add the argument TASK and the options that say what of it is played."""
    decorators = [
        click.argument("task", metavar="TASK"),
        click.option(
            "--condition", metavar="NAME", help="Condition of the task. Default: its first, see 'chamber list'."
        ),
        click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Block of starts."),
        click.option(
            "--partner", metavar="NAME", help="Registered partner to play beside, instead of the reference's."
        ),
        click.option(
            "--partner-parameter",
            "partner_parameters",
            multiple=True,
            metavar="KEY=VALUE",
            help="Parameter of that partner; may be given several times.",
        ),
        click.option("--episode-length", type=click.IntRange(min=1), help="Control steps until the horizon."),
    ]
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


def parameters_of(pairs: Sequence[str]) -> dict[str, str]:
    """Parse ``KEY=VALUE`` texts.

    Raises:
        click.BadParameter: one has no ``=`` or no key, or a key is given twice.
    """
    parameters: dict[str, str] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise click.BadParameter(f"expected KEY=VALUE, got {pair!r}", param_hint="--partner-parameter")
        if key in parameters:
            raise click.BadParameter(f"{key!r} is given twice", param_hint="--partner-parameter")
        parameters[key] = value
    return parameters


@contextmanager
def progress_bar(total: int) -> Generator[Callable[[int, str], None]]:
    """A progress bar on stderr when it is a terminal, else silence."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("preparing", total=total)
        yield lambda done, words: bar.update(task, completed=done, description=words)
