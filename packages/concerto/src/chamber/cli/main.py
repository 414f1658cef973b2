"""Where the console script ``chamber`` starts."""

from __future__ import annotations

import warnings

import click

from chamber.cli._app import chamber

__all__ = ["main"]


def main() -> None:
    """Run ``chamber``."""
    warnings.showwarning = _say_in_one_line
    chamber(prog_name="chamber")


def _say_in_one_line(message: Warning | str, *_where: object) -> None:
    """Say a warning without the line of code that it comes from."""
    click.echo(f"warning: {' '.join(str(message).split())}", err=True)


if __name__ == "__main__":
    main()
