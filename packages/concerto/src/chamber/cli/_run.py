"""``chamber run``: play episodes, record them, say what came out."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chamber._progress import progress_bar
from chamber.cli._options import parameters_of, what_is_played

if TYPE_CHECKING:
    from chamber.rollout.config import SessionConfig
    from chamber.rollout.session import SessionResult
    from chamber.rollout.snapshots import SessionPictures

__all__ = ["run_command"]


@click.command("run")
@what_is_played
@click.option("--episodes", type=click.IntRange(1, 1000), default=1, show_default=True, help="Episodes to play.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Run folder to make; it must not exist. Default: runs/TASK-<UTC timestamp>.",
)
@click.option("--video", type=click.Path(path_type=Path), help="Also write a video (.mp4 or .gif) of all episodes.")
@click.option("--no-pictures", is_flag=True, help="Leave the pictures out of the page; nothing is rendered.")
@click.option("--force", is_flag=True, help="Replace the video if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def run_command(
    task: str,
    condition: str | None,
    seed: int,
    partner: str | None,
    partner_parameters: tuple[str, ...],
    guard: str,
    episode_length: int | None,
    episodes: int,
    out: Path | None,
    video: Path | None,
    no_pictures: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Play episodes of a task with its reference team, and record them.

    The run folder holds every action, observation and reward, a page to look at, and what 'ripieno verify' and
    'chamber replay' need to check them.

    \b
    Examples:
      chamber run cocarry --episodes 5 --video out.mp4
      chamber run cocarry --condition cocarry_single_arm_positive_control
      chamber run cocarry --partner cocarry_stiff_impedance --out runs/stiff
      chamber run cocarry --partner cocarry_erratic --guard on
      chamber run cocarry --import lazy --partner lazy
    """
    from chamber.rollout.config import SessionConfig
    from chamber.rollout.guard import Guard
    from chamber.rollout.page import headline

    config = SessionConfig.of(
        task,
        condition=condition,
        episodes=episodes,
        seed=seed,
        partner=partner,
        partner_parameters=parameters_of(partner_parameters),
        episode_length=episode_length,
        guard=Guard(guard),
    )
    folder = out if out is not None else Path("runs") / f"{config.task_id}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    result = _play(config, folder, video=video, no_pictures=no_pictures, force=force)
    summary = {
        "folder": str(folder),
        "page": str(folder / "index.html"),
        "video": None if video is None else str(video),
        "digest": result.digest,
        "headline": headline(result.record),
        "episodes": result.record.n_episodes,
        "successes": sum(played.n_successes for played in result.record.rounds),
    }
    if as_json:
        click.echo(json.dumps(summary))
        return
    click.echo(summary["headline"])
    if video is not None:
        click.echo(f"Video: {video}")
    click.echo(f"Look at {folder / 'index.html'}; check with: ripieno verify {folder} --expect {result.digest}")


def _play(config: SessionConfig, folder: Path, *, video: Path | None, no_pictures: bool, force: bool) -> SessionResult:
    from chamber.rollout.config import make_environment
    from chamber.rollout.page import render_session_page
    from chamber.rollout.pictures import PictureFile, require_picture_path
    from chamber.rollout.session import run_session
    from ripieno.errors import InputError

    if video is not None and no_pictures:
        raise InputError("--video needs pictures; leave --no-pictures out")
    if video is not None and video.absolute() == folder.absolute():
        raise InputError(f"--video and --out are both {video}; give one of them another name")
    if video is not None:
        require_picture_path(video, overwrite=force)
    rounds = {config.task_id: config}
    pictures = None if no_pictures else _pictures(config, wanted=video is not None)
    with progress_bar(config.episodes) as progress:
        if video is None or pictures is None:
            return run_session(rounds, folder, page=render_session_page, pictures=pictures, progress=progress)
        with closing(make_environment(config)) as env:
            frames_per_second = env.metadata["render_fps"]
        with PictureFile(video, frames_per_second=frames_per_second, overwrite=force) as file:
            pictures.video = file.add
            return run_session(rounds, folder, page=render_session_page, pictures=pictures, progress=progress)


def _pictures(config: SessionConfig, *, wanted: bool) -> SessionPictures | None:
    """Pictures when the task has a camera and this machine can render; a page without them otherwise."""
    from chamber.rollout.config import why_no_pictures
    from chamber.rollout.snapshots import SessionPictures

    problem = why_no_pictures(config)
    if problem is None:
        return SessionPictures(take=lambda env: env.unwrapped.picture())
    if wanted:
        raise problem
    click.echo(f"chamber: no pictures on the page: {problem}", err=True)
    return None
