"""The console script ``concerto``: which Concerto this is, and where its commands are."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from concerto import __version__

__all__ = ["main"]


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="concerto")
def concerto() -> None:
    """Print the version of Concerto, the safety filter and the training beside black-box partners.

    Concerto is a library; what runs and looks at it are the commands of Chamber.

    \b
    Examples:
      concerto
      chamber-spike train --config mpe_cooperative_push
      chamber-analyze list-runs --archive-root logs
      ripieno doctor
    """
    click.echo(f"CONCERTO {__version__}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run ``concerto`` and return; only a usage error exits, with code 2.

    Args:
        arguments: of the command line. By default the process's own if it is the console script, else none: a program
            that calls this has arguments of its own.
    """
    if arguments is None:
        arguments = sys.argv[1:] if Path(sys.argv[0]).stem == "concerto" else []
    try:
        concerto.main(list(arguments), prog_name="concerto", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main(sys.argv[1:])
