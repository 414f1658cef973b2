"""The console script ``chamber-spike``: training runs. Its table is all that ``--help`` has to load."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import version

import click

from chamber.cli._groups import CommandTable, LazyGroup, warnings_in_one_line

__all__ = ["COMMANDS", "main", "spike"]

COMMANDS: CommandTable = {
    "train": ("_spike_train", "train_command", "Train an ego beside a frozen partner."),
    "list-configs": ("_spike_configs", "list_configs_command", "List the configurations that come with the package."),
}

_NAME = "chamber-spike"


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``chamber-spike``.

    Args:
        argv: arguments after the command's name; those of the process by default.

    Returns:
        The exit code: 0 done; 2 the input was refused, or something needed is not installed; 3 the learning-signal
        check did not pass; 130 stopped by Ctrl-C (143 by SIGTERM).
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    with warnings_in_one_line(_NAME):
        try:
            spike.main(arguments, prog_name=_NAME, obj=arguments)
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 0
    return 0


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(version("ripieno-concerto"), prog_name=_NAME)
@click.pass_context
def spike(ctx: click.Context) -> None:
    """Train robots that cooperate with partners they cannot train.

    \b
    Examples:
      chamber-spike list-configs
      chamber-spike train --config mpe_cooperative_push --out runs/first
      chamber-spike train --config my.yaml --override seed=3 --check-guarantee

    Exit codes: 0 done; 2 input refused, or something needed is not installed; 3 the learning-signal check did not pass;
    130 stopped by Ctrl-C, and the command that goes on was printed.
    """
    if ctx.invoked_subcommand is None:
        click.echo(f"{_NAME}  (CHAMBER {version('ripieno-concerto')})\n")
        click.echo(ctx.get_help())


if __name__ == "__main__":
    raise SystemExit(main())
