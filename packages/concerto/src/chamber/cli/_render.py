"""``chamber render``: a picture, a GIF or a video of a task."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click

from chamber._progress import progress_bar
from chamber.cli._options import parameters_of, what_is_played

__all__ = ["render_command"]


@click.command("render")
@what_is_played
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="File to make: .png (the last frame), .gif or .mp4."
)
@click.option("--steps", type=click.IntRange(min=0), help="Control steps to play. Default: until the episode ends.")
@click.option("--camera", metavar="NAME", default="render_camera", show_default=True, help="Camera of the scene.")
@click.option("--fps", type=click.FloatRange(1.0, 120.0), help="Frames per second. Default: real time.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
def render_command(
    task: str,
    condition: str | None,
    seed: int,
    partner: str | None,
    partner_parameters: tuple[str, ...],
    guard: str,
    episode_length: int | None,
    out: Path,
    steps: int | None,
    camera: str,
    fps: float | None,
    force: bool,
) -> None:
    """Make a picture or a video of a task.

    One episode is played by the reference team; a video shows every control step, a PNG the last one.

    \b
    Examples:
      chamber render cocarry --out start.png --steps 0
      chamber render coinsert --out insert.gif --fps 10
      chamber render stage1_pickplace_om --camera workspace --steps 20 --out cell.png
    """
    from chamber.rollout.config import SessionConfig, make_environment, make_team, rehearse, why_no_pictures
    from chamber.rollout.guard import Guard
    from chamber.rollout.pictures import PictureFile, require_picture_path
    from chamber.rollout.snapshots import camera_names
    from ripieno.errors import InputError

    config = SessionConfig.of(
        task,
        condition=condition,
        seed=seed,
        partner=partner,
        partner_parameters=parameters_of(partner_parameters),
        episode_length=episode_length,
        guard=Guard(guard),
    )
    require_picture_path(out, overwrite=force)
    problem = why_no_pictures(config)
    if problem is not None:
        raise problem
    with (
        closing(make_environment(config, render=True)) as env,
        PictureFile(out, frames_per_second=fps or env.metadata["render_fps"], overwrite=force) as file,
        progress_bar(steps or 0) as progress,
    ):
        task_env = env.unwrapped
        cameras = camera_names(env)
        if camera not in cameras:
            raise InputError(f"{config.slug} has no camera {camera!r}; it has {', '.join(cameras)}")
        team = make_team(config, env)
        rehearse(config, env, team)
        obs, _ = env.reset(seed=config.initial_state_seed(0))
        team.reset(seed=config.initial_state_seed(0))
        is_video = out.suffix.lower() != ".png"
        is_over, step = False, 0
        while not is_over and (steps is None or step < steps):
            if is_video:
                file.add(task_env.picture(camera))
            obs, _, terminated, truncated, _ = env.step(team.act(obs))
            is_over, step = terminated or truncated, step + 1
            progress(step, f"control step {step}")
        file.add(task_env.picture(camera))
    click.echo(f"{out}: control step {step} of {config.slug}, frames: {file.n_frames}")
