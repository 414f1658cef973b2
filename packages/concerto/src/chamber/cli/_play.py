"""``chamber play``: a trained policy beside any partner."""

from __future__ import annotations

from pathlib import Path

import click

from chamber.cli._options import parameters_of, starts_and_partner, what_is_kept
from chamber.cli._session import folder_for, record_session, say_result

__all__ = ["play_command"]


@click.command("play")
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path),
    required=True,
    help="Checkpoint (.pt) of a training run; its sidecar lies beside it.",
)
@click.option("--task", metavar="TASK", help="Task to play. Default: the one that the policy was trained for.")
@click.option(
    "--blind",
    is_flag=True,
    help="Hide partner and bar from the policy, which was trained so. Where the log of its run is nearby, it says so.",
)
@starts_and_partner
@click.option(
    "--safety", is_flag=True, help="Put the safety stack (on arms: arm safety) between the policy and its robot."
)
@what_is_kept
def play_command(
    checkpoint: Path,
    task: str | None,
    blind: bool,
    condition: str | None,
    seed: int,
    partner: str | None,
    partner_parameters: tuple[str, ...],
    episode_length: int | None,
    safety: bool,
    episodes: int,
    out: Path | None,
    video: Path | None,
    no_pictures: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Play a trained policy beside any partner, and record it.

    The run folder is that of 'chamber run', and holds the checkpoint too: 'ripieno verify' and 'chamber replay' need
    nothing else. The policy acts without exploration. In the planar task contacts are counted, and whose fault they
    were, with and without --safety.

    \b
    Examples:
      chamber play --checkpoint artifacts/artifacts/RUN_step100000.pt --partner push_pursuer --video out.mp4
      chamber play --checkpoint RUN_step100000.pt --partner push_stubborn --partner-parameter landmark=1 --safety
    """
    from chamber.learning import load_policy
    from chamber.rollout.config import SessionConfig, TrainedEgo
    from chamber.rollout.guard import Guard
    from chamber.rollout.trained import task_of_checkpoint, was_trained_blind

    policy = load_policy(checkpoint, ego_uid="ego")
    config = SessionConfig.of(
        task if task is not None else task_of_checkpoint(checkpoint, policy),
        condition=condition,
        episodes=episodes,
        seed=seed,
        ego=TrainedEgo(
            checkpoint_sha256=policy.checkpoint_sha256,
            run_id=policy.run_id,
            step=policy.step,
            is_blind=blind or was_trained_blind(checkpoint, policy),
        ),
        partner=partner,
        partner_parameters=parameters_of(partner_parameters),
        episode_length=episode_length,
    )
    if safety:
        config = config.model_copy(update={"guard": Guard.ON})
    elif config.task_id == "mpe_cooperative_push":
        config = config.model_copy(update={"guard": Guard.WATCH})
    folder = folder_for(config, out)
    result = record_session(
        config,
        folder,
        video=video,
        no_pictures=no_pictures,
        force=force,
        checkpoints={policy.checkpoint_sha256: checkpoint},
    )
    say_result(result, folder, video=video, as_json=as_json)
