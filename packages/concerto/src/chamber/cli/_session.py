"""What `chamber run` and `chamber play` share: a session is recorded, and what came out is said."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chamber._progress import progress_bar

if TYPE_CHECKING:
    from chamber.rollout.config import SessionConfig
    from chamber.rollout.session import SessionResult
    from chamber.rollout.snapshots import SessionPictures

__all__ = ["folder_for", "record_session", "say_result"]


def folder_for(config: SessionConfig, out: Path | None) -> Path:
    """Give the folder that the user named, or one named after the task and the time."""
    return out if out is not None else Path("runs") / f"{config.task_id}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"


def say_result(result: SessionResult, folder: Path, *, video: Path | None, as_json: bool) -> None:
    """Print what came out and where to look."""
    from chamber.rollout.page import headline

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


def record_session(
    config: SessionConfig,
    folder: Path,
    *,
    video: Path | None,
    no_pictures: bool,
    force: bool,
    checkpoints: Mapping[str, Path] | None = None,
) -> SessionResult:
    """Play a session into its folder, with a page and, if it is wanted, a video.

    Args:
        config: what to play.
        folder: must not exist.
        video: file to make, see `chamber.rollout.pictures.require_picture_path`; None for no video.
        no_pictures: leave the pictures out of the page.
        force: replace the video if it exists.
        checkpoints: file of a trained ego by its SHA-256.
    """
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
        run = partial(
            run_session,
            rounds,
            folder,
            checkpoints=checkpoints,
            page=render_session_page,
            pictures=pictures,
            progress=progress,
        )
        if video is None or pictures is None:
            return run()
        with closing(make_environment(config)) as env:
            frames_per_second = env.metadata["render_fps"]
        with PictureFile(video, frames_per_second=frames_per_second, overwrite=force) as file:
            pictures.video = file.add
            return run()


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
