"""The fields of a training configuration, and what makes two configurations the same cell."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

__all__ = [
    "EgoAHTConfig",
    "EnvConfig",
    "ExploratoryConfig",
    "HAPPOHyperparams",
    "PartnerConfig",
    "RolloutRecorderConfig",
    "RuntimeConfig",
    "SafetyConfig",
    "ShapingConfig",
    "WandbConfig",
    "config_fingerprint",
    "validated_copy",
]

Text = Annotated[str, StringConstraints(min_length=1, pattern=r"\S")]
Count = Annotated[int, Field(gt=0, lt=2**63)]
Natural = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0.0)]
Bound = Annotated[float, Field(gt=0.0, le=1e9)]
"""Far above whatever it bounds, and yet a number of single precision."""
NonNegative = Annotated[float, Field(ge=0.0)]
Slack = Annotated[float, Field(ge=-1e9, le=1e9)]
"""Far above what physics asks for, and yet its square is a number."""
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
PositiveFraction = Annotated[float, Field(gt=0.0, le=1.0)]

_TASKS_WITH_CONDITIONS = ("cocarry", "stage1_pickplace")
_FINGERPRINT_HEX = 16
_NOT_IDENTITY = ("artifacts_root", "log_dir", "wandb")
"""Where a run writes is no part of what it is."""
_LATER_FIELDS: Mapping[str, frozenset[str]] = {
    "happo": frozenset({"entropy_coef", "max_grad_norm", "value_clip", "target_kl", "lr_decay"}),
}
"""Fields that came after fingerprints were published: with their default they leave no trace in it."""


def _without_nul(folder: Path) -> Path:
    if "\0" in str(folder):
        raise ValueError(f"must be a path without a null character, got {str(folder)!r}")
    return folder


Folder = Annotated[Path, AfterValidator(_without_nul)]


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_flag_for_another_value(cls, value: object, info: ValidationInfo) -> object:
        """Refuse ``seed: yes``, which YAML reads as true and Python would take for 1."""
        if isinstance(value, bool) and cls.model_fields[info.field_name or ""].annotation is not bool:
            raise ValueError(f"must not be a flag, got {str(value).lower()}")
        return value


class WandbConfig(_Settings):
    """Weights & Biases, a copy of the record for looking at; the JSONL stays the record.

    Attributes:
        enabled: whether runs are sent; the mode (online, offline) comes from ``WANDB_MODE``.
        project: one project for all runs, filtered by tags.
    """

    enabled: bool = False
    project: Text = "concerto-chamber"


class EnvConfig(_Settings):
    """The task that is stepped.

    Attributes:
        task: its name, such as ``mpe_cooperative_push``, ``stage0_smoke``, ``stage1_pickplace`` or ``cocarry``.
        episode_length: control steps until the time limit.
        agent_uids: ego and partner, in this order.
        condition_id: needed by tasks whose conditions share their uids.
        num_envs: environments stepped as one batch; more than one excludes the safety stack.
        mask_partner_obs: whether the ego is blind to partner and coupling, on co-carry.
    """

    task: Text
    episode_length: Count = 50
    agent_uids: tuple[Text, Text] = ("ego", "partner")
    condition_id: str | None = None
    num_envs: Count = 1
    mask_partner_obs: bool = False

    @field_validator("agent_uids")
    @classmethod
    def _uids_differ(cls, uids: tuple[str, str]) -> tuple[str, str]:
        if uids[0] == uids[1]:
            raise ValueError(f"must be two different uids, got {list(uids)}")
        return uids


class PartnerConfig(_Settings):
    """The frozen partner.

    Attributes:
        class_name: its key in the registry of partners.
        seed: of its own random stream.
        checkpoint_step: training step of its weights, where it has any.
        weights_uri: its weights, ``local://...``.
        extra: its parameters; every value is text, so numbers are quoted in YAML.
    """

    class_name: Text = "scripted_heuristic"
    seed: int = 0
    checkpoint_step: int | None = None
    weights_uri: str | None = None
    extra: dict[str, str] = Field(default_factory=dict[str, str])


class HAPPOHyperparams(_Settings):
    """The learner: HAPPO with one learning agent, which is PPO (Schulman et al. 2017, arXiv 1707.06347).

    Attributes:
        lr: step size of Adam, actor and critic.
        gamma: discount.
        gae_lambda: of generalised advantage estimation (Schulman et al. 2016, arXiv 1506.02438).
        clip_eps: bound of the probability ratio's distance from 1.
        n_epochs: passes over a rollout per update.
        rollout_length: steps per environment between two updates.
        batch_size: transitions per gradient step.
        hidden_dim: width of both hidden layers of actor and critic.
        entropy_coef: weight of the entropy bonus.
        max_grad_norm: the actor's gradient is scaled down to this norm.
        value_clip: bound of the critic's change within one update; None for no bound.
        target_kl: an update ends early when the policy has moved this far; None for never.
        lr_decay: ``linear`` takes the step size to zero over the run.
    """

    lr: Positive = 3e-4
    gamma: Fraction = 0.99
    gae_lambda: Fraction = 0.95
    clip_eps: Bound = 0.2
    n_epochs: Count = 4
    rollout_length: Count = 1024
    batch_size: Count = 256
    hidden_dim: Count = 64
    entropy_coef: NonNegative = 0.01
    max_grad_norm: Positive = 10.0
    value_clip: Bound | None = None
    target_kl: Positive | None = None
    lr_decay: Literal["none", "linear"] = "none"


class RuntimeConfig(_Settings):
    """Where the learner computes.

    Attributes:
        device: ``auto`` takes CUDA, else MPS, else the CPU; a named device that is missing is an error.
        deterministic_torch: have torch use deterministic algorithms; only the CPU is affected.
    """

    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    deterministic_torch: bool = True


class SafetyConfig(_Settings):
    """The safety stack between the ego's policy and the environment.

    Attributes:
        enabled: whether it is there.
        saturation_threshold: share of the acceleration capacity at which the conformal slack counts as saturated.
        cbf_gamma: rate of the control barrier function, 1/s.
        lambda_safe: slack that a partner swap starts from.
        n_warmup_steps: steps after a swap that adapt faster.
        predictor_kind: how the partner's motion is forecast.
        tau_brake: time to collision below which the ego brakes, seconds.
        clamp_floor_ratio: share of the capacity that the slack is clamped to; below `saturation_threshold`.
    """

    enabled: bool = False
    saturation_threshold: PositiveFraction = 0.9
    cbf_gamma: Positive = 5.0
    lambda_safe: Slack = 0.0
    n_warmup_steps: Natural = 50
    predictor_kind: Literal["constant_velocity"] = "constant_velocity"
    tau_brake: Positive = 0.100
    clamp_floor_ratio: PositiveFraction = 0.7

    @model_validator(mode="after")
    def _clamps_before_it_saturates(self) -> Self:
        if self.clamp_floor_ratio >= self.saturation_threshold:
            raise ValueError(
                f"clamp_floor_ratio must be less than saturation_threshold ({self.saturation_threshold:g}), "
                f"got {self.clamp_floor_ratio:g}"
            )
        return self


class RolloutRecorderConfig(_Settings):
    """Episodes that are played for the record while training goes on.

    Attributes:
        enabled: whether any are.
        interval_frames: training frames between two recordings.
        per_step_jsonl: whether steps are written besides the video.
        episodes_per_record: episodes per recording.
        fps: frames per second of the video.
    """

    enabled: bool = False
    interval_frames: Count = 25_000
    per_step_jsonl: bool = True
    episodes_per_record: Count = 1
    fps: Count = 20


class ShapingConfig(_Settings):
    """Potential-based rewards of training, which leave the optimum where it is (Ng, Harada & Russell 1999, theorem 1).

    Attributes:
        settle_alpha: weight of arm speed while the object is placed, on stage-1 pick and place; 0 for none.
        settle_qvel_cap: joint speed from which the weight grows no more, rad/s.
        transport_pbrs_coeff: weight of the bar's distance from the goal, on co-carry; 0 for none.
    """

    settle_alpha: NonNegative = 0.0
    settle_qvel_cap: Positive = 0.7
    transport_pbrs_coeff: NonNegative = 0.0


class ExploratoryConfig(_Settings):
    """Deviations for exploring, which no gate accepts.

    Attributes:
        partner_static_override: whether the partner's actions are replaced by zeros.
    """

    partner_static_override: bool = False


class EgoAHTConfig(_Settings):
    """Everything that fixes a training run: one learning ego, one frozen partner, one environment, one seed.

    Attributes:
        algo: name of the algorithm, the ``run_kind`` of the log.
        seed: root of every random stream.
        total_frames: environment steps of the run, over all environments.
        checkpoint_every: frames between two checkpoints.
        artifacts_root: checkpoints go below this, into ``artifacts/``.
        log_dir: the log goes here.
        wandb, env, partner, happo, runtime, safety, rollout_recorder, shaping, exploratory: the parts.

    Example:
        >>> EgoAHTConfig.model_validate({"env": {"task": "mpe_cooperative_push"}}).happo.rollout_length
        1024
    """

    algo: Text = "ego_aht_happo"
    seed: Natural = 0
    total_frames: Count = 100_000
    checkpoint_every: Count = 10_000
    artifacts_root: Folder = Path("./artifacts")
    log_dir: Folder = Path("./logs")
    wandb: WandbConfig = Field(default_factory=WandbConfig)
    env: EnvConfig
    partner: PartnerConfig = Field(default_factory=PartnerConfig)
    happo: HAPPOHyperparams = Field(default_factory=HAPPOHyperparams)
    runtime: RuntimeConfig = Field(default_factory=RuntimeConfig)
    safety: SafetyConfig = Field(default_factory=SafetyConfig)
    rollout_recorder: RolloutRecorderConfig = Field(default_factory=RolloutRecorderConfig)
    shaping: ShapingConfig = Field(default_factory=ShapingConfig)
    exploratory: ExploratoryConfig = Field(default_factory=ExploratoryConfig)

    @model_validator(mode="after")
    def _parts_fit_each_other(self) -> Self:
        env, task = self.env, self.env.task
        if task in _TASKS_WITH_CONDITIONS and not env.condition_id:
            raise ValueError(
                f"env.condition_id must name a condition of {task!r}, whose conditions share their uids, "
                f"got {env.condition_id!r}"
            )
        if env.num_envs > self.total_frames:
            raise ValueError(
                f"env.num_envs must be at most total_frames ({self.total_frames}), or nothing is stepped, "
                f"got {env.num_envs}"
            )
        if env.num_envs > 1 and self.safety.enabled:
            raise ValueError(
                f"env.num_envs must be 1 with safety.enabled: the safety stack is not vectorised, got {env.num_envs}"
            )
        if env.num_envs > 1 and task == "cocarry":
            raise ValueError(
                f"env.num_envs must be 1 for 'cocarry', whose partner sees the first environment only, "
                f"got {env.num_envs}"
            )
        if env.mask_partner_obs and task != "cocarry":
            raise ValueError(f"env.mask_partner_obs must be false for any task but 'cocarry', got true for {task!r}")
        if self.shaping.settle_alpha > 0.0 and task != "stage1_pickplace":
            raise ValueError(
                f"shaping.settle_alpha must be 0 for any task but 'stage1_pickplace', "
                f"got {self.shaping.settle_alpha:g} for {task!r}"
            )
        if self.shaping.transport_pbrs_coeff > 0.0 and task != "cocarry":
            raise ValueError(
                f"shaping.transport_pbrs_coeff must be 0 for any task but 'cocarry', "
                f"got {self.shaping.transport_pbrs_coeff:g} for {task!r}"
            )
        return self


def config_fingerprint(cfg: EgoAHTConfig) -> str:
    """Give the first 16 hex digits of the SHA-256 over everything that makes a run what it is.

    Paths and Weights & Biases are left out. So are fields that came later than the first fingerprints, while they
    have their default: a run of the same meaning keeps its fingerprint.
    """
    exclude: dict[str, Any] = dict.fromkeys(_NOT_IDENTITY, True)
    for name, later in _LATER_FIELDS.items():
        part: BaseModel = getattr(cfg, name)
        fields = type(part).model_fields
        exclude[name] = {field for field in later if getattr(part, field) == fields[field].default}
    text = cfg.model_dump_json(exclude=exclude)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:_FINGERPRINT_HEX]


def validated_copy(cfg: EgoAHTConfig, **updates: object) -> EgoAHTConfig:
    """Give a copy with other values, checked like a new configuration (``model_copy`` checks nothing).

    Args:
        cfg: stays as it is.
        **updates: new values by field. A mapping for a part changes the named fields of that part only; a model
            replaces the whole part.

    Raises:
        pydantic.ValidationError: a value is refused, or there is no such field.

    Example:
        >>> cfg = EgoAHTConfig.model_validate({"env": {"task": "mpe_cooperative_push"}})
        >>> validated_copy(cfg, seed=3, env={"episode_length": 25}).env.episode_length
        25
    """
    # Values of the wrong type are the validator's business, not the serialiser's.
    values = cfg.model_dump(warnings=False)
    for name, update in updates.items():
        if isinstance(update, BaseModel):
            values[name] = update.model_dump(warnings=False)
        elif isinstance(update, Mapping) and isinstance(values.get(name), dict):
            values[name] |= update
        else:
            values[name] = update
    return EgoAHTConfig.model_validate(values)
