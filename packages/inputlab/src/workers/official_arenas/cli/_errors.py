"""One line for what went wrong, whichever layer said it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import click

from workers.official_arenas.cli._show import EXIT_FAILURES

__all__ = ["answered"]


@contextmanager
def answered(ctx: click.Context) -> Generator[None]:
    """Turn what the worker side raises on purpose into one line on stderr; Ctrl-C says that nothing is lost.

    The exit code is 1 for a folder that does not verify, 3 for a campaign that stopped because its pairs failed, and
    2 for everything else that is refused.
    """
    from ripieno._printable import printable
    from ripieno.errors import IntegrityError
    from workers.official_arenas.campaign._stopping import CampaignStoppedError
    from workers.official_arenas.protocol import OfficialArenaError

    try:
        yield
    except (OfficialArenaError, IntegrityError) as error:
        if ctx.find_root().params.get("debug"):
            raise
        # The texts of these errors are fixed sentences of ours: they quote no request and no conversation.
        if isinstance(error, IntegrityError):
            raise _DoesNotVerify(printable(" ".join(str(error).split()))) from error
        raise (_Stopped if isinstance(error, CampaignStoppedError) else _Refused)(str(error)) from error
    except KeyboardInterrupt:
        click.echo("Stopped. What was recorded stays; the same command goes on from there.", err=True)
        ctx.exit(130)


class _Refused(click.ClickException):
    exit_code = 2

    def show(self, file: object = None) -> None:
        click.echo(f"agentinputlab: {self.message}", err=True)


class _DoesNotVerify(_Refused):
    exit_code = 1


class _Stopped(_Refused):
    exit_code = EXIT_FAILURES
