"""One line for what went wrong, whichever layer said it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import click

__all__ = ["answered"]


@contextmanager
def answered(ctx: click.Context) -> Generator[None]:
    """Turn what the worker side raises on purpose into one line on stderr; Ctrl-C says that nothing is lost."""
    from workers.official_arenas.protocol import OfficialArenaError

    try:
        yield
    except OfficialArenaError as error:
        if ctx.find_root().params.get("debug"):
            raise
        # The texts of these errors are fixed sentences of ours: they quote no request and no conversation.
        raise _Refused(str(error)) from error
    except KeyboardInterrupt:
        click.echo("Stopped. What was recorded stays; the same command goes on from there.", err=True)
        ctx.exit(130)


class _Refused(click.ClickException):
    exit_code = 2

    def show(self, file: object = None) -> None:
        click.echo(f"agentinputlab: {self.message}", err=True)
