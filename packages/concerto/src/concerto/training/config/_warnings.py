"""What is legal in a configuration, and yet goes to waste."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from concerto.training.config._composing import environment_keys
from concerto.training.config._models import EgoAHTConfig

__all__ = ["configuration_warnings", "environment_warnings"]


def configuration_warnings(cfg: EgoAHTConfig) -> list[str]:
    """Say what of a run will go to waste or come out otherwise than one may think; each line says what will happen."""
    return [*_of_the_budget(cfg), *_of_the_batches(cfg), *_of_the_records(cfg), *_of_the_rest(cfg)]


def environment_warnings(config_path: Path, overrides: Sequence[str] = ()) -> list[str]:
    """Say which settings of a file, which `read_config` accepts with these overrides, the environment decided.

    Raises:
        ImportError: Hydra is not installed.
    """
    return [
        f"{key} comes from the environment: its value becomes part of the record, as plain text"
        for key in environment_keys(config_path, overrides)
    ]


def _played_frames(cfg: EgoAHTConfig) -> int:
    """Frames that are really played: whole steps of all environments."""
    return cfg.total_frames // cfg.env.num_envs * cfg.env.num_envs


def _of_the_budget(cfg: EgoAHTConfig) -> Iterator[str]:
    played = _played_frames(cfg)
    if played < cfg.total_frames:
        yield (
            f"total_frames={cfg.total_frames} is no multiple of env.num_envs={cfg.env.num_envs}: "
            f"{played} frames will be played, the last {cfg.total_frames - played} will not"
        )
    per_update = cfg.happo.rollout_length * cfg.env.num_envs
    rollout = f"happo.rollout_length={cfg.happo.rollout_length}"
    if cfg.env.num_envs > 1:
        rollout += f" times env.num_envs={cfg.env.num_envs}"
    if per_update > played:
        yield f"{rollout} is more than the {played} frames of the run: there will be no update, and nothing is learned"
    elif tail := played % per_update:
        yield (
            f"the {played} frames of the run are no multiple of {rollout}: the last {tail} will be played and not "
            f"learned from"
        )
    if cfg.env.episode_length > played // cfg.env.num_envs:
        yield (
            f"env.episode_length={cfg.env.episode_length} is more than the {played // cfg.env.num_envs} steps of the "
            f"run: an episode that is not ended by its task will stay unfinished"
        )


def _of_the_batches(cfg: EgoAHTConfig) -> Iterator[str]:
    n_transitions, batch_size = cfg.happo.rollout_length * cfg.env.num_envs, cfg.happo.batch_size
    if n_transitions < batch_size:
        yield (
            f"happo.batch_size={batch_size} is more than the {n_transitions} transitions of a rollout: every epoch "
            f"will be one gradient step on all of them"
        )
    elif n_transitions % batch_size:
        n_batches = n_transitions // batch_size
        size = n_transitions // n_batches
        last = n_transitions - size * (n_batches - 1)
        sizes = f"{n_batches - 1} batches of {size} and one of {last}" if n_batches > 1 else f"one batch of {last}"
        yield (
            f"the {n_transitions} transitions of a rollout are no multiple of happo.batch_size={batch_size}: an epoch "
            f"will be {sizes}"
        )


def _of_the_records(cfg: EgoAHTConfig) -> Iterator[str]:
    played = _played_frames(cfg)
    if cfg.checkpoint_every > played:
        yield (
            f"checkpoint_every={cfg.checkpoint_every} is more than the {played} frames of the run: "
            f"only the final policy will be saved"
        )
    elif cfg.checkpoint_every < cfg.env.num_envs:
        yield (
            f"checkpoint_every={cfg.checkpoint_every} is less than env.num_envs={cfg.env.num_envs}: "
            f"there will be one checkpoint per step of all environments"
        )
    recorder = cfg.rollout_recorder
    if recorder.enabled and recorder.interval_frames > played:
        yield (
            f"rollout_recorder.interval_frames={recorder.interval_frames} is more than the {played} frames of the "
            f"run: no episode will be recorded"
        )


def _of_the_rest(cfg: EgoAHTConfig) -> Iterator[str]:
    if cfg.runtime.device in {"cuda", "mps"} and cfg.runtime.deterministic_torch:
        yield (
            f"runtime.deterministic_torch=true has no effect on {cfg.runtime.device!r}: "
            f"equal seeds will agree statistically, not byte for byte"
        )
    if cfg.exploratory.partner_static_override:
        yield (
            "exploratory.partner_static_override=true: the partner will stand still, the log will say so, "
            "and no gate accepts the run"
        )
