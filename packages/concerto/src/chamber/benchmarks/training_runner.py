"""From a checked configuration to a finished training run: environment, partner and safety stack are built here.

The loop itself is `concerto.training.ego_aht.train`, which knows none of them. The functions that build the parts of a
safety stack ask the environment for *hooks*: ``build_control_models``, ``build_bounds``, ``build_agent_snapshots``,
``build_partner_motion`` and ``control_timestep``. A hook is found through any number of wrappers, whether or not they
forward attributes. An environment without a hook gets a documented default from the single builders, but no safety
stack: a certificate that rests on guessed dynamics is none.

Needs the extra ``train``; environments with arms need ``chamber`` too. Importing this module needs neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from chamber.errors import ActionError
from chamber.partners.api import FrozenPartner, PartnerSpec
from chamber.partners.registry import load_partner
from concerto.safety.api import (
    AgentControlModel,
    AgentSnapshot,
    Bounds,
    DoubleIntegratorControlModel,
    EgoOnlySafetyFilter,
    JacobianControlModel,
    SafetyState,
)
from concerto.safety.emergency import (
    CartesianAccelEmergencyController,
    EmergencyController,
    JacobianEmergencyController,
)
from ripieno.errors import InputError

if TYPE_CHECKING:
    import gymnasium as gym

    from chamber.benchmarks._rollout_recording import RolloutRecording
    from concerto.safety.stopping import PartnerMotionBound
    from concerto.training.config import EgoAHTConfig, EnvConfig, PartnerConfig
    from concerto.training.ego_aht import TrainingResult
    from concerto.training.logging import RunLogger
    from concerto.training.protocols import (
        EgoTrainer,
        EnvLike,
        PartnerLike,
        SafetyDriver,
        TrainerFactory,
        TrainingProgress,
    )

__all__ = [
    "TASKS",
    "UnknownPartnerError",
    "build_bounds_for_env",
    "build_control_models",
    "build_emergency_controllers",
    "build_env",
    "build_partner",
    "build_safety_driver",
    "build_safety_dt",
    "build_safety_filter",
    "build_safety_snapshot_builder",
    "run_training",
]

SnapshotBuilder = Callable[[Any], "dict[str, AgentSnapshot]"]

DEFAULT_BOUNDS = Bounds(
    action_linf_component=1.0,
    cartesian_accel_capacity=1.0,
    action_rate=10.0,
    comm_latency_ms=0.0,
    force_limit=50.0,
)
"""Bounds of an environment that declares none."""
DEFAULT_CONTROL_TIMESTEP_S = 0.02
_WORDS_FOR_TOO_LARGE = ("allocate memory", "out of memory", "overflow")
"""What PyTorch says when a tensor fits nowhere; it raises a plain RuntimeError."""
EGO_PPO_ALGO = "ego_aht_happo"
"""Name of the algorithm in configurations and logs."""


class UnknownPartnerError(InputError, KeyError):
    """No partner of this class is registered; the message lists those there are."""

    __str__ = Exception.__str__  # a KeyError would show its message in quotes


# --- environment and partner ---------------------------------------------------------------------------------


def build_env(env_cfg: EnvConfig, *, root_seed: int) -> EnvLike:
    """Build the environment of a task.

    What a robot sees is in ``obs["agent"][uid]``, as vectors by name; ``env.observation_space`` and
    ``env.action_space`` say how wide. A learner of your own finds the state of its robot in
    ``obs["agent"][ego_uid]["state"]``, shape ``(O,)``, or ``(N, O)`` with N copies.

    Args:
        env_cfg: what to build.
        root_seed: seed of the run.

    Raises:
        InputError: (a ValueError) an unknown task, a task without the condition it needs, a mask that is not for this
            task, or an argument that the environment refuses.
        ChamberEnvCompatibilityError: the simulator is missing or cannot build the scene.
        ImportError: an optional package is missing; the message says how to install it.
    """
    if env_cfg.mask_partner_obs and env_cfg.task != "cocarry":
        raise InputError(f"env.mask_partner_obs is for the task 'cocarry' only, got task {env_cfg.task!r}")
    if env_cfg.task not in _BUILDERS:
        raise InputError(f"unknown task {env_cfg.task!r}; known: {', '.join(TASKS)}")
    try:
        return _BUILDERS[env_cfg.task](env_cfg, root_seed)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"the task {env_cfg.task!r} refuses its configuration: {error}") from error


def _build_planar_push(env_cfg: EnvConfig, root_seed: int) -> EnvLike:
    _require_one_copy(env_cfg)
    from chamber.envs import MPECooperativePushEnv

    return MPECooperativePushEnv(
        agent_uids=_two_uids(env_cfg), episode_length=env_cfg.episode_length, root_seed=root_seed
    )


def _build_stage0(env_cfg: EnvConfig, root_seed: int) -> EnvLike:
    _require_one_copy(env_cfg)
    from chamber.benchmarks.stage0_smoke_adapter import make_stage0_training_env

    return make_stage0_training_env(
        agent_uids=_two_uids(env_cfg), episode_length=env_cfg.episode_length, root_seed=root_seed
    )


def _build_pickplace(env_cfg: EnvConfig, root_seed: int) -> EnvLike:
    condition_id = _condition_of(env_cfg)
    from chamber.envs.stage1_pickplace import make_stage1_pickplace_env

    return make_stage1_pickplace_env(
        condition_id=condition_id,
        episode_length=env_cfg.episode_length,
        root_seed=root_seed,
        num_envs=env_cfg.num_envs,
    )


def _build_cocarry(env_cfg: EnvConfig, root_seed: int) -> EnvLike:
    condition_id = _condition_of(env_cfg)
    from chamber.envs.cocarry_blind_mask import CoCarryEgoBlindMask
    from chamber.envs.cocarry_obs import make_cocarry_training_env

    env = make_cocarry_training_env(
        condition_id=condition_id,
        episode_length=env_cfg.episode_length,
        root_seed=root_seed,
        num_envs=env_cfg.num_envs,
    )
    return CoCarryEgoBlindMask(env) if env_cfg.mask_partner_obs else env


_BUILDERS: Mapping[str, Callable[[EnvConfig, int], EnvLike]] = {
    "mpe_cooperative_push": _build_planar_push,
    "stage0_smoke": _build_stage0,
    "stage1_pickplace": _build_pickplace,
    "cocarry": _build_cocarry,
}
TASKS = tuple(_BUILDERS)
"""Tasks that can be trained on."""


def _two_uids(env_cfg: EnvConfig) -> tuple[str, str]:
    ego, partner = env_cfg.agent_uids
    return ego, partner


def _require_one_copy(env_cfg: EnvConfig) -> None:
    if env_cfg.num_envs != 1:
        raise InputError(f"env.num_envs must be 1 for {env_cfg.task!r}, which has no copies, got {env_cfg.num_envs}")


def _condition_of(env_cfg: EnvConfig) -> str:
    """Conditions of one task can share their uids, so nothing else says which one is meant."""
    if env_cfg.condition_id is None:
        raise InputError(f"the task {env_cfg.task!r} needs env.condition_id, got None")
    return env_cfg.condition_id


def build_partner(partner_cfg: PartnerConfig) -> FrozenPartner:
    """Build the frozen partner.

    Raises:
        UnknownPartnerError: (a KeyError) no partner of this class; the message lists those there are.
        InputError: (a ValueError) the partner refuses its parameters.
    """
    spec = PartnerSpec(
        class_name=partner_cfg.class_name,
        seed=partner_cfg.seed,
        checkpoint_step=partner_cfg.checkpoint_step,
        weights_uri=partner_cfg.weights_uri,
        extra=dict(partner_cfg.extra),
    )
    try:
        return load_partner(spec)
    except KeyError as error:
        raise UnknownPartnerError(
            f"{error.args[0]}; one of your own has to be imported first (chamber-spike train --import MODULE)"
        ) from error
    except ValueError as error:
        raise InputError(
            f"the partner {partner_cfg.class_name!r} refuses its parameters: {error}; they are partner.extra of the "
            "configuration, from which the override ~partner.extra.NAME takes one out"
        ) from error


# --- the parts of a safety stack -----------------------------------------------------------------------------


def build_control_models(env: gym.Env[Any, Any]) -> Mapping[str, AgentControlModel]:
    """Give how the actions of each robot move it.

    Args:
        env: with the hook ``build_control_models``, whose answer is given as it is; else every robot is taken for a
            double integrator of its action's width, in the order of the action space.

    Raises:
        TypeError: without the hook: the action space is no ``Dict``, or a member no ``Box``.
        ValueError: without the hook: a ``Box`` is not one-dimensional.
    """
    hook = _hook(env, "build_control_models")
    if hook is not None:
        return hook()
    from gymnasium import spaces

    space = env.action_space
    if not isinstance(space, spaces.Dict):
        raise TypeError(f"the action space must be a gymnasium.spaces.Dict, got {type(space).__name__}")
    return {uid: DoubleIntegratorControlModel(uid=uid, action_dim=_width(uid, space[uid])) for uid in space.spaces}


def _width(uid: str, member: object) -> int:
    from gymnasium import spaces

    if not isinstance(member, spaces.Box):
        raise TypeError(f"the action space of {uid!r} must be a gymnasium.spaces.Box, got {type(member).__name__}")
    if len(member.shape) != 1:
        raise ValueError(f"the action space of {uid!r} must be one-dimensional, got shape {member.shape}")
    return member.shape[0]


def build_emergency_controllers(env: gym.Env[Any, Any]) -> dict[str, EmergencyController]:
    """Give how each robot brakes: through its Jacobian if it has one, else by a Cartesian acceleration.

    The control models are those of `build_control_models`, so filter and brakes of an environment agree. Raises what
    `build_control_models` does.
    """
    return {
        uid: JacobianEmergencyController(control_model=model)
        if isinstance(model, JacobianControlModel)
        else CartesianAccelEmergencyController()
        for uid, model in build_control_models(env).items()
    }


def build_bounds_for_env(env: gym.Env[Any, Any]) -> Bounds:
    """Give the limits of actions and forces: the hook ``build_bounds``, else `DEFAULT_BOUNDS`."""
    hook = _hook(env, "build_bounds")
    return DEFAULT_BOUNDS if hook is None else hook()


def build_safety_dt(env: gym.Env[Any, Any], *, fallback: float = DEFAULT_CONTROL_TIMESTEP_S) -> float:
    """Give the control step in seconds: the attribute ``control_timestep``, else ``fallback``.

    An attribute that is no number counts as absent.
    """
    from chamber.envs._forwarding import find_attribute

    try:
        return float(cast("Any", find_attribute(env, "control_timestep")))
    except (TypeError, ValueError):
        return fallback


def build_safety_filter(env: gym.Env[Any, Any]) -> EgoOnlySafetyFilter:
    """Give the barrier filter of the ego alone; it reads no state of the scene. Raises as `build_control_models`."""
    from concerto.safety.cbf_qp import ExpCBFQP

    return ExpCBFQP.ego_only(control_models=build_control_models(env))


def build_safety_snapshot_builder(env: gym.Env[Any, Any]) -> SnapshotBuilder | None:
    """Give what reads the robots' states at every step; None when the environment has no ``build_agent_snapshots``.

    The answer reads the environment it is *called* with, the one that is stepped, which need not be ``env``: a filter
    that looks at another scene sees a world that never moves.
    """
    return None if _hook(env, "build_agent_snapshots") is None else _snapshots_of


def _snapshots_of(env: Any) -> dict[str, AgentSnapshot]:
    hook = _hook(env, "build_agent_snapshots")
    if hook is None:
        raise ValueError(f"{type(env).__name__} has no build_agent_snapshots(), which the safety stack reads")
    return hook()


def build_safety_driver(env: EnvLike, cfg: EgoAHTConfig) -> SafetyDriver:
    """Build the safety stack of a training run from the environment that is stepped.

    Partners are black boxes: the barrier counts on no braking of theirs. Their worst motion is what the environment
    declares with ``build_partner_motion``, else accelerations up to the ego's own capacity.

    Raises:
        InputError: (a ValueError) the environment lacks a hook, or a setting is out of the stack's range.
    """
    environment = cast("gym.Env[Any, Any]", env)
    _require_safety_hooks(environment, task=cfg.env.task)
    ego_uid = cfg.env.agent_uids[0]
    models, bounds = build_control_models(environment), build_bounds_for_env(environment)
    if ego_uid not in models:
        raise InputError(f"the environment has no control model of the ego {ego_uid!r}, it has {sorted(models)}")
    from concerto.safety.stack import SafetyStack
    from concerto.training.ego_aht import StackDriver

    declared = _hook(environment, "build_partner_motion")
    motion: PartnerMotionBound | None = None if declared is None else declared()
    safety = cfg.safety
    try:
        stack = SafetyStack(
            ego_uid=ego_uid,
            control_models=models,
            bounds=bounds,
            dt=build_safety_dt(environment),
            partner_motion=motion,
            partner_braking_fraction=0.0,
            cbf_gamma=safety.cbf_gamma,
            lambda_bound=safety.clamp_floor_ratio * models[ego_uid].max_cartesian_accel(bounds),
            lambda_safe=safety.lambda_safe,
            n_warmup_steps=safety.n_warmup_steps,
            tau_brake=safety.tau_brake,
        )
    except ValueError as error:
        raise InputError(f"the safety stack refuses its configuration: {error}") from error
    read = _hook(environment, "build_agent_snapshots")  # looked up once: the stack reads it at every step
    return StackDriver(stack, lambda stepped: read() if read and stepped is env else _snapshots_of(stepped))


def _require_safety_hooks(env: gym.Env[Any, Any], *, task: str) -> None:
    from chamber.envs._forwarding import find_attribute

    needed = ("build_control_models", "build_bounds", "build_agent_snapshots", "control_timestep")
    missing = [name for name in needed if find_attribute(env, name) is None]
    if missing:
        raise InputError(
            f"the task {task!r} has no safety stack: its environment lacks {', '.join(missing)}; "
            "run it with safety.enabled=false"
        )


def _hook(env: object, name: str) -> Callable[[], Any] | None:
    """Find a method of an environment through its wrappers; None when nobody has it."""
    from chamber.envs._forwarding import find_attribute

    found = find_attribute(env, name)
    return found if callable(found) else None


# --- a whole run ---------------------------------------------------------------------------------------------


def run_training(
    cfg: EgoAHTConfig,
    *,
    trainer_factory: TrainerFactory | None = None,
    repo_root: Path | None = None,
    safety_filter: EgoOnlySafetyFilter | None = None,
    safety_state: SafetyState | None = None,
    safety_bounds: Bounds | None = None,
    safety_snapshot_builder: SnapshotBuilder | None = None,
    safety_dt: float | None = None,
    safety_emergency_controllers: Mapping[str, EmergencyController] | None = None,
    resume_from: Path | None = None,
    progress: Callable[[TrainingProgress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    wandb_tags: Sequence[str] = (),
) -> TrainingResult:
    """Train the ego of one configuration; the environment is closed at the end, whatever the end is.

    Args:
        cfg: what to run.
        trainer_factory: makes the learner, and ``cfg.algo`` is only its name then. By default ``cfg.algo`` must be
            `EGO_PPO_ALGO`, which is `chamber.benchmarks.ego_ppo_trainer.EgoPPOTrainer`.
        repo_root: repository whose commit is recorded; the working directory by default.
        safety_filter: with the other five ``safety_`` arguments, a safety layer of the caller's own, see
            `concerto.training.ego_aht.train`. Without any of them, and with ``cfg.safety.enabled``, the stack of
            `build_safety_driver` is built from the environment of this run.
        safety_state: its slack.
        safety_bounds: its limits.
        safety_snapshot_builder: what it sees.
        safety_dt: its control step, s.
        safety_emergency_controllers: how robots brake; without them, by a Cartesian acceleration, which is wrong for
            arms.
        resume_from: payload of the checkpoint to go on from.
        progress: hears how far the run is.
        should_stop: asked at every iteration; when it says yes, a checkpoint is saved and `TrainingInterrupted` raised.
        wandb_tags: tags of the Weights & Biases run, if there is one.

    Returns:
        ``(curve, trainer)``.

    Raises:
        InputError: (a ValueError) an unknown algorithm, task, partner or setting, or one that no memory holds.
        ImportError: an optional package is missing; the message says how to install it.
    """
    from concerto.training.ego_aht import train

    factory = _default_trainer_factory(cfg.algo) if trainer_factory is None else trainer_factory
    env = build_env(cfg.env, root_seed=cfg.seed)
    recording: RolloutRecording | None = None
    partner: PartnerLike | None = None
    try:
        env = _shaped(env, cfg)
        recording = _recording_of(cfg)
        given = (
            safety_filter,
            safety_state,
            safety_bounds,
            safety_snapshot_builder,
            safety_dt,
            safety_emergency_controllers,
        )
        builds_own_stack = cfg.safety.enabled and all(value is None for value in given)
        partner = _partner_of(cfg)
        return train(
            cfg,
            env=env,
            partner=partner,
            trainer_factory=factory,
            repo_root=repo_root,
            safety_filter=safety_filter,
            safety_state=safety_state,
            safety_bounds=safety_bounds,
            safety_snapshot_builder=safety_snapshot_builder,
            safety_dt=safety_dt,
            safety_emergency_controllers=safety_emergency_controllers,
            safety_builder=(lambda stepped: build_safety_driver(stepped, cfg)) if builds_own_stack else None,
            resume_from=resume_from,
            progress=progress,
            should_stop=should_stop,
            wandb_tags=wandb_tags,
            record_rollout=recording,
        )
    except ActionError as error:
        if partner is not None:
            _refuse_misfit(cfg, env, partner, error)
        raise
    except MemoryError as error:
        raise InputError(f"there is not enough memory for the run: {error}") from error
    finally:
        for closable in (recording, env):
            close = getattr(closable, "close", None)
            if callable(close):
                close()


def _refuse_misfit(cfg: EgoAHTConfig, env: Any, partner: PartnerLike, error: ValueError) -> None:
    """Say that the partner's action has not the shape of its robot's, where a run ended because of that.

    Raises:
        InputError: it has not.
    """
    uid = cfg.env.agent_uids[1]
    space = getattr(getattr(env, "action_space", None), "spaces", {}).get(uid)
    if space is None or cfg.env.num_envs > 1:
        return
    obs, _ = env.reset(seed=cfg.seed)
    partner.reset(seed=cfg.seed)
    shape = np.shape(partner.act(obs, deterministic=True))
    if shape != space.shape:
        raise InputError(
            f"the partner {cfg.partner.class_name!r} does not fit {cfg.env.task}: an action of the robot {uid!r} has "
            f"shape {space.shape}, what the partner gives has {shape}"
        ) from error


def _default_trainer_factory(algo: str) -> TrainerFactory:
    if algo != EGO_PPO_ALGO:  # the log would name an algorithm that nothing learned with
        raise InputError(f"algo must be {EGO_PPO_ALGO!r}, the only algorithm there is a learner of, got {algo!r}")
    return _make_learner


def _make_learner(
    cfg: EgoAHTConfig, *, env: EnvLike, partner: PartnerLike, ego_uid: str, logger: RunLogger | None = None
) -> EgoTrainer:
    """Make the learner; sizes that no memory holds are refused like any other setting."""
    from chamber.benchmarks.ego_ppo_trainer import EgoPPOTrainer

    try:
        return EgoPPOTrainer.from_config(cfg, env=env, partner=partner, ego_uid=ego_uid, logger=logger)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not any(word in str(error) for word in _WORDS_FOR_TOO_LARGE):
            raise
        raise InputError(
            f"there is not enough memory for happo.hidden_dim={cfg.happo.hidden_dim}, "
            f"happo.rollout_length={cfg.happo.rollout_length} and env.num_envs={cfg.env.num_envs}"
        ) from error


def _recording_of(cfg: EgoAHTConfig) -> RolloutRecording | None:
    """Give what records episodes beside the run; None, and nothing is imported or built, when it is switched off."""
    if not cfg.rollout_recorder.enabled:
        return None
    from chamber.benchmarks._rollout_recording import RolloutRecording

    return RolloutRecording(
        cfg,
        build_env=lambda: build_env(cfg.env.model_copy(update={"num_envs": 1}), root_seed=cfg.seed),
        build_partner=lambda: _partner_of(cfg),
        build_driver=(lambda env: build_safety_driver(env, cfg)) if cfg.safety.enabled else None,
    )


def _partner_of(cfg: EgoAHTConfig) -> FrozenPartner:
    partner = build_partner(cfg.partner)
    if not cfg.exploratory.partner_static_override:
        return partner
    from chamber.partners.exploratory.static_override import ExploratoryStaticPartnerOverride

    return ExploratoryStaticPartnerOverride(partner)


def _shaped(env: EnvLike, cfg: EgoAHTConfig) -> EnvLike:
    """Add the shaping of training, potential-based with the training discount; coefficient 0 adds nothing at all."""
    shaping, gamma = cfg.shaping, cfg.happo.gamma
    if shaping.settle_alpha > 0.0:
        from chamber.envs.stage1_shaping import Stage1SettleShapingWrapper
        from chamber.envs.stage1_vector import Stage1AutoResetWrapper

        # Below the wrapper that resets by itself: after its reset, the potential of the last state is gone.
        resets_itself = isinstance(env, Stage1AutoResetWrapper)
        shaped: Any = Stage1SettleShapingWrapper(
            env.env if resets_itself else cast("Any", env),
            alpha=shaping.settle_alpha,
            qvel_cap=shaping.settle_qvel_cap,
            gamma=gamma,
            ego_uid=cfg.env.agent_uids[0],
        )
        env = Stage1AutoResetWrapper(shaped) if resets_itself else shaped
    if shaping.transport_pbrs_coeff > 0.0:
        from chamber.envs.cocarry_shaping import CoCarryTransportPBRSWrapper

        env = CoCarryTransportPBRSWrapper(cast("Any", env), coeff=shaping.transport_pbrs_coeff, gamma=gamma)
    return env
