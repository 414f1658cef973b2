"""``chamber run``: play episodes, record them, say what came out."""

from __future__ import annotations

from pathlib import Path

import click

from chamber.cli._options import parameters_of, what_is_kept, what_is_played
from chamber.cli._session import folder_for, record_session, say_result

__all__ = ["run_command"]


@click.command("run")
@what_is_played
@what_is_kept
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
    folder = folder_for(config, out)
    result = record_session(config, folder, video=video, no_pictures=no_pictures, force=force)
    say_result(result, folder, video=video, as_json=as_json)
