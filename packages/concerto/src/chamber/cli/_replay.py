"""``chamber replay``: play a recorded session again."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chamber._progress import progress_bar
from chamber.cli._options import importing

if TYPE_CHECKING:
    from chamber.rollout.replay import Replay

__all__ = ["replay_command"]


@click.command("replay")
@importing
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.pass_context
def replay_command(ctx: click.Context, folder: Path, as_json: bool) -> None:
    """Play a recorded session again and compare.

    First the folder is verified. Then every episode is played again from its seed, and every action, observation and
    reward is compared: bit for bit when this machine has the processor features and package versions of the one that
    recorded it, within a tolerance otherwise. So is what the log says became of each episode. The table episodes.json
    and the page index.html are made again from the log, and the pictures from the episodes, and compared with those of
    the folder; what could not be compared is said.

    \b
    Examples:
      chamber replay runs/first
      chamber replay --import lazy runs/lazy

    Exit code 0: it came out as recorded; 1: it did not, or the folder does not verify.
    """
    from chamber.cli._groups import EXIT_NEGATIVE
    from chamber.rollout.replay import replay_session
    from chamber.rollout.session import read_session

    with progress_bar(read_session(folder).n_episodes) as progress:
        replay = replay_session(folder, progress=progress)
    if as_json:
        click.echo(json.dumps({"holds": replay.holds, **asdict(replay)}))
    else:
        how = "bit for bit" if replay.tolerance == 0.0 else f"within {replay.tolerance:g} (another kind of machine)"
        identical = sum(episode.is_identical for episode in replay.episodes)
        click.echo(f"{identical} of {len(replay.episodes)} episodes are identical; compared {how}.")
        for episode in replay.episodes:
            if not episode.is_identical:
                where = f"{episode.round_name}, episode {episode.episode_idx + 1}: {episode.where}"
                click.echo(f"{where} differs by {episode.largest_difference:g}")
        click.echo("Of every episode: actions, observations, rewards, seed, and what became of it.")
        for file in replay.files:
            click.echo(f"{file.name} {file.words}.")
        if len(replay.episodes) < replay.n_planned:
            click.echo(f"It was interrupted: {replay.n_planned} episodes were planned.")
        click.echo(_conclusion(replay))
    if not replay.holds:
        ctx.exit(EXIT_NEGATIVE)


def _conclusion(replay: Replay) -> str:
    if not replay.holds:
        return "The session does not come out as it was recorded."
    left = [file.name for file in replay.files if file.holds is None]
    return f"The session holds, but for what was not compared: {', '.join(left)}." if left else "The session holds."
