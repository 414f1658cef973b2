"""The command tree. Its table is all that ``chamber --help`` has to load."""

from __future__ import annotations

from importlib.metadata import version

import click

from chamber.cli._groups import CommandTable, LazyGroup

__all__ = ["COMMANDS", "chamber"]

COMMANDS: CommandTable = {
    "list": ("_list", "list_command", "List tasks, conditions, partners and robots."),
    "run": ("_run", "run_command", "Play episodes of a task with its reference team, and record them."),
    "play": ("_play", "play_command", "Play a trained policy beside any partner, and record it."),
    "render": ("_render", "render_command", "Make a picture or a video of a task."),
    "replay": ("_replay", "replay_command", "Play a recorded session again and compare."),
    "check": ("_check", "check_command", "Judge a task by the checks that every task must pass."),
}


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
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
