"""Options and small pieces that several commands share."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from chamber.cli._groups import wants_traceback

__all__ = ["importing", "parameters_of", "starts_and_partner", "what_is_kept", "what_is_played"]

_Command = TypeVar("_Command", bound=Callable[..., Any])


def importing(command: _Command) -> _Command:
    """Add ``--import``, which brings in partners and tasks that are no part of the package."""
    return click.option(
        "--import",
        "modules",
        multiple=True,
        metavar="MODULE",
        expose_value=False,
        callback=_import_modules,
        help="Import this first, from the current folder or installed: a module of yours with a partner or a task.",
    )(command)


def _import_modules(ctx: click.Context, param: click.Parameter, modules: tuple[str, ...]) -> None:
    if modules:
        sys.path.insert(0, str(Path.cwd()))
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:
            if wants_traceback(ctx):
                raise
            raise click.BadParameter(f"{module!r}: {type(error).__name__}: {error}", ctx, param) from error


def starts_and_partner(command: _Command) -> _Command:
    """Add the options that say in which starts, and beside whom, a task is played."""
    return _decorated(
        command,
        importing,
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
    )


def what_is_played(command: _Command) -> _Command:
    """Add the argument TASK and the options that say what of it is played."""
    return _decorated(
        command,
        click.argument("task", metavar="TASK"),
        starts_and_partner,
        click.option(
            "--guard",
            type=click.Choice(["off", "watch", "on"]),
            default="off",
            show_default=True,
            help="Safety of the ego: measure how near the robots come (watch), or keep them apart (on).",
        ),
    )


def what_is_kept(command: _Command) -> _Command:
    """Add the options that say how much is played and where it goes."""
    return _decorated(
        command,
        click.option(
            "--episodes", type=click.IntRange(1, 1000), default=1, show_default=True, help="Episodes to play."
        ),
        click.option(
            "--out",
            type=click.Path(path_type=Path),
            help="Run folder to make; it must not exist. Default: runs/TASK-<UTC timestamp>.",
        ),
        click.option(
            "--video", type=click.Path(path_type=Path), help="Also write a video (.mp4 or .gif) of all episodes."
        ),
        click.option("--no-pictures", is_flag=True, help="Leave the pictures out of the page; nothing is rendered."),
        click.option("--force", is_flag=True, help="Replace the video if it exists."),
        click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object."),
    )


def _decorated(command: _Command, *decorators: Callable[[_Command], _Command]) -> _Command:
    """Apply decorators so that ``--help`` lists their options in this order."""
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
