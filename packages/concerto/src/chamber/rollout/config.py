"""What a session plays, as one checked record, and how the record becomes an environment and a team."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from chamber import tasks
from chamber.errors import ChamberEnvCompatibilityError
from chamber.partners._parameters import UnknownParameters
from chamber.rollout.guard import Guard, guarded
from chamber.rollout.pictures import require_package
from chamber.rollout.references import reference
from chamber.rollout.team import Seat, Team, registered_seat
from chamber.rollout.trained import trained_seat, with_states
from ripieno.errors import InputError

__all__ = [
    "EPISODES_PER_SEED",
    "PartnerChoice",
    "SessionConfig",
    "TrainedEgo",
    "make_environment",
    "make_team",
    "rehearse",
    "why_no_pictures",
]

EPISODES_PER_SEED = 1000


class PartnerChoice(BaseModel):
    """A registered partner in place of the reference's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    parameters: dict[str, str] = Field(default_factory=dict[str, str])


class TrainedEgo(BaseModel):
    """A policy from a checkpoint in place of the reference's ego.

    Attributes:
        checkpoint_sha256: hash of the checkpoint's payload: exactly this policy.
        run_id: the training run that wrote it.
        step: frames that it had learned from.
        is_blind: whether it was trained without the partner and the bar in its state, and is played so.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    checkpoint_sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    run_id: str
    step: int
    is_blind: bool = False

    @property
    def file_name(self) -> str:
        """Name of the checkpoint in the folder of a session."""
        return f"checkpoints/{self.checkpoint_sha256[:16]}.pt"


class SessionConfig(BaseModel):
    """Everything that decides what a session plays.

    Attributes:
        task_id, version: the task.
        condition: its condition; None for a task without any.
        episodes: how many, at most 1000.
        seed: which block of starts.
        ego: the policy that plays the ego; None for the reference team's.
        partner: who plays the partner; None for the reference team's.
        episode_length: control steps until the horizon; None for the task's own.
        guard: what stands between the ego's controller and its arm.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    task_id: str
    version: int
    condition: str | None
    episodes: Annotated[int, Field(ge=1, le=EPISODES_PER_SEED)]
    seed: Annotated[int, Field(ge=0, lt=2**31)]
    ego: TrainedEgo | None = None
    partner: PartnerChoice | None = None
    episode_length: Annotated[int, Field(ge=1)] | None = None
    guard: Guard = Guard.OFF

    @classmethod
    def of(
        cls,
        task: str,
        *,
        condition: str | None = None,
        episodes: int = 1,
        seed: int = 0,
        ego: TrainedEgo | None = None,
        partner: str | None = None,
        partner_parameters: dict[str, str] | None = None,
        episode_length: int | None = None,
        guard: Guard = Guard.OFF,
    ) -> SessionConfig:
        """Give the configuration of a session of a task, by name or by name and version (``cocarry@v2``).

        Raises:
            InputError: no such task, version or condition, or a number is out of range.
        """
        task_id, version = _task_and_version(task)
        try:
            spec = tasks.get(task_id, version)
        except KeyError as error:
            raise InputError(str(error.args[0])) from error
        if partner is None and partner_parameters:
            raise InputError("parameters of a partner need a partner; give its name too")
        try:
            return cls(
                task_id=task_id,
                version=spec.version,
                condition=reference(task_id).condition(condition),
                episodes=episodes,
                seed=seed,
                ego=ego,
                partner=None if partner is None else PartnerChoice(name=partner, parameters=partner_parameters or {}),
                episode_length=episode_length,
                guard=guard,
            )
        except ValidationError as error:
            first = error.errors()[0]
            raise InputError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}, got {first['input']!r}") from error

    @property
    def slug(self) -> str:
        """Name and version of the task."""
        return f"{self.task_id}@v{self.version}"

    def initial_state_seed(self, episode_idx: int) -> int:
        """Give the seed of the reset of an episode."""
        return self.seed * EPISODES_PER_SEED + episode_idx


def make_environment(config: SessionConfig, *, render: bool = False) -> Any:
    """Build the environment of a session.

    Raises:
        InputError: the task has none, or takes no option that the configuration sets.
        ChamberEnvCompatibilityError: the simulator cannot be used.
    """
    overrides: dict[str, Any] = {}
    if config.condition is not None:
        overrides["condition_id"] = config.condition
    if config.episode_length is not None:
        overrides["episode_length"] = config.episode_length
    if render:
        overrides["render_mode"] = "rgb_array"
    try:
        env = tasks.make(config.task_id, version=config.version, **overrides)
    except NotImplementedError as error:
        raise InputError(str(error)) from error
    except TypeError as error:
        raise InputError(f"{config.slug} does not take all of {', '.join(overrides)}: {error}") from error
    except ValueError as error:
        raise InputError(f"{config.slug}: {error}") from error
    return env if config.ego is None else with_states(env, is_blind=config.ego.is_blind)


def why_no_pictures(config: SessionConfig) -> InputError | ChamberEnvCompatibilityError | None:
    """Give the reason why no picture of a session can be made here, or None.

    Raises:
        InputError: the environment cannot be built at all.
        ChamberEnvCompatibilityError: likewise.
    """
    with closing(make_environment(config)) as env:
        if "rgb_array" not in env.metadata.get("render_modes", ()):
            return InputError(f"{config.slug} has no camera: it is neither simulated in space nor drawn")
    with closing(make_environment(config, render=True)) as env:
        env.reset(seed=0)
        try:
            require_package("PIL")
            env.unwrapped.picture()
        except ChamberEnvCompatibilityError as error:
            return error
    return None


def make_team(config: SessionConfig, env: Any, *, checkpoints: Mapping[str, Path] | None = None) -> Team:
    """Give the team of a session: the reference team, with the ego, partner and guard that the configuration names.

    Args:
        config: of the session.
        env: its environment.
        checkpoints: file of the ego's checkpoint by its SHA-256.

    Raises:
        InputError: the partner does not exist or refuses its parameters, the ego's checkpoint is missing, damaged or
            does not fit, or there is no guard for this task.
        ImportError: a trained ego needs PyTorch, which is not installed.
    """
    team = reference(config.task_id).build(env, config.condition)
    if config.ego is not None:
        team = team.replaced(trained_seat(config.ego, env, team.seats[0].uid, checkpoints or {}, task=config.slug))
    if config.partner is not None:
        team = team.replaced(_seat_of_chosen(config.partner, team.seats[-1]))
    return guarded(team, env, config.guard)


def _seat_of_chosen(partner: PartnerChoice, before: Seat) -> Seat:
    """Give the place of the reference's partner to another, with those of its parameters that the other has, too.

    Raises:
        InputError: the partner does not exist, refuses its parameters, or has no parameter of a chosen name.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnknownParameters)
        parameters = {**before.parameters, **partner.parameters}
        try:
            return registered_seat(before.uid, partner.name, parameters)
        except UnknownParameters as unknown:
            if unknown.keys & partner.parameters.keys():
                raise InputError(f"partner {partner.name!r} of {before.uid!r}: {unknown}") from unknown
            kept = {key: value for key, value in parameters.items() if key not in unknown.keys}
            return registered_seat(before.uid, partner.name, kept)


def rehearse(config: SessionConfig, env: Any, team: Team) -> None:
    """Play one control step beside a chosen partner, so that one of another task is refused before anything is kept.

    Raises:
        InputError: the partner's action is none of this task.
    """
    if config.partner is None:
        return
    seed = config.initial_state_seed(0)
    obs, _ = env.reset(seed=seed)
    team.reset(seed=seed)
    action = team.act(obs)
    try:
        env.step(action)
    except ValueError as error:
        raise InputError(f"partner {config.partner.name!r} does not fit {config.slug}: {error}") from error


def _task_and_version(task: str) -> tuple[str, int | None]:
    task_id, separator, version = task.partition("@v")
    if not separator:
        return task, None
    if not version.isdigit():
        raise InputError(f"a task is named like cocarry or cocarry@v2, got {task!r}")
    return task_id, int(version)
