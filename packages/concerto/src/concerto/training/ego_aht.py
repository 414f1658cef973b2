"""The training loop: one learning ego, one frozen partner, one environment or N copies of it, one seed.

`train` sets a run up, records it and hands out its curve and trainer. `_Run.step_to_the_end` is the loop itself:

    act -> partner acts -> safety decides -> env steps -> observe -> (update) -> (checkpoint) -> (reset)

It never drops a step, never changes the rollout in the middle of a run, and never trains the partner. On one machine,
equal configurations and seeds give equal bytes, also when a run is interrupted and resumed.
"""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from concerto.safety.api import AgentSnapshot, Bounds, EgoOnlySafetyFilter, SafetyState
from concerto.training._random_ego import RandomEgoTrainer, make_random_trainer
from concerto.training._resuming import (
    RESUME_FORMAT,
    RESUME_KEY,
    ResumePoint,
    RunningEpisode,
    layer_that_cannot_save,
    load_env_state,
    observation_sha256,
    read_resume_point,
    refusing_malformed_state,
    replay,
    to_tensors,
)
from concerto.training._safety_drivers import FilterDriver, SafetyBuilder, StackDriver, make_safety_driver
from concerto.training._window import EpisodeBook, Outcome, RolloutWindow, read_outcome
from concerto.training.checkpoints import (
    LOCAL_URI_SCHEME,
    CheckpointError,
    CheckpointMetadata,
    resolve_uri,
    save_checkpoint,
    writable_folder,
)
from concerto.training.config import EgoAHTConfig, config_fingerprint
from concerto.training.logging import (
    RunContext,
    RunLogger,
    bind_run_logger,
    compute_run_metadata,
    log_eval,
    log_scalars,
    make_wandb_run_sink,
)
from concerto.training.protocols import (
    EgoTrainer,
    EnvLike,
    PartnerLike,
    ResumableEnv,
    ResumableTrainer,
    RewardCurve,
    RewardSeries,
    SafetyDecision,
    SafetyDriver,
    TrainerFactory,
    TrainingInterrupted,
    TrainingProgress,
)
from concerto.training.safety_telemetry import SafetyAggregator
from concerto.training.seeding import derive_substream
from ripieno.errors import InputError, StorageError

if TYPE_CHECKING:
    from concerto.safety.emergency import EmergencyController

__all__ = [
    "EgoTrainer",
    "EnvLike",
    "FilterDriver",
    "PartnerLike",
    "RandomEgoTrainer",
    "RewardCurve",
    "SafetyDecision",
    "SafetyDriver",
    "StackDriver",
    "TrainerFactory",
    "TrainingInterrupted",
    "TrainingProgress",
    "TrainingResult",
    "train",
]

_CHECKPOINT_FOLDER = "artifacts"
_PROGRESS_PERIOD_S = 0.1


class _CurveAndTrainer(NamedTuple):
    curve: RewardCurve
    trainer: EgoTrainer


class TrainingResult(_CurveAndTrainer):
    """What a run gives: ``curve, trainer = train(...)``.

    The trainer keeps its weights, so an evaluation needs no checkpoint.

    Attributes:
        curve: what the ego earned.
        trainer: the learner after its last update.
        context: identity of the run, with the final ``safety_telemetry``; None for a pair that was made by hand.
    """

    context: RunContext | None = None

    def __new__(cls, curve: RewardCurve, trainer: EgoTrainer, *, context: RunContext | None = None) -> TrainingResult:
        """Put curve and trainer into the tuple, the context beside it."""
        result = super().__new__(cls, curve, trainer)
        result.context = context
        return result


def train(
    cfg: EgoAHTConfig,
    *,
    env: EnvLike,
    partner: PartnerLike,
    trainer_factory: TrainerFactory | None = None,
    repo_root: Path | None = None,
    safety_filter: EgoOnlySafetyFilter | None = None,
    safety_state: SafetyState | None = None,
    safety_bounds: Bounds | None = None,
    safety_snapshot_builder: Callable[[Any], Mapping[str, AgentSnapshot]] | None = None,
    safety_dt: float | None = None,
    safety_emergency_controllers: Mapping[str, EmergencyController] | None = None,
    safety_builder: SafetyBuilder | None = None,
    resume_from: Path | None = None,
    progress: Callable[[TrainingProgress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    wandb_tags: Sequence[str] = (),
    record_rollout: Callable[[EgoTrainer, int], None] | None = None,
    evaluate: Callable[[EgoTrainer], Mapping[str, float]] | None = None,
) -> TrainingResult:
    """Train one ego beside one frozen partner.

    The record is ``<log_dir>/<run_id>.jsonl``; checkpoints are ``<artifacts_root>/artifacts/<run_id>_step<N>.pt``,
    every ``checkpoint_every`` frames and at the end. A budget that is no multiple of the number of copies is rounded
    down.

    Args:
        cfg: the run.
        env: the environment; it is not closed.
        partner: the frozen partner.
        trainer_factory: makes the learner; None for `RandomEgoTrainer`.
        repo_root: folder with the ``pyproject.toml`` and the commit that name the run; default: the current one.
        safety_filter: first of five parts of a documented safety layer, to be given together, see `FilterDriver`.
        safety_state: its slack; changed in place.
        safety_bounds: its limits.
        safety_snapshot_builder: gives the snapshots of the environment it is called with.
        safety_dt: its control period, s.
        safety_emergency_controllers: braking per uid; None for robots whose actions are accelerations.
        safety_builder: makes the safety driver for the environment that is stepped; in place of the five parts.
        resume_from: payload of a checkpoint of the same configuration; the run goes on there, in the same log, and
            gives the same curve and the same later checkpoints as if it had never stopped.
        progress: told how far the run is, about ten times a second, and once at the end.
        should_stop: asked once per iteration; True saves a checkpoint and raises `TrainingInterrupted`.
        wandb_tags: labels of the copy in Weights & Biases, when ``cfg.wandb.enabled``.
        record_rollout: called with trainer and frames every ``rollout_recorder.interval_frames`` frames when
            ``rollout_recorder.enabled``; it must leave environment, partner and trainer of the run as they are.
        evaluate: called with the trainer at the end; gives the results of the ``eval`` event. None for the means over
            the last ten training episodes, under the condition ``training_last_10_episodes``.

    Returns:
        Curve and trainer, and the run's context.

    Raises:
        InputError: (a ValueError) the safety layer is wired wrongly, and nothing was opened or built; or the learner
            diverged.
        CheckpointError: the checkpoint cannot be resumed, or none can be saved; a folder that cannot be written into is
            refused before anything is opened or built.
        TrainingInterrupted: ``should_stop`` said so.
        ImportError: an extra is missing; the message says how to install it.
    """
    driver = make_safety_driver(
        cfg,
        env,
        safety_filter=safety_filter,
        state=safety_state,
        bounds=safety_bounds,
        snapshot_builder=safety_snapshot_builder,
        dt=safety_dt,
        emergency_controllers=safety_emergency_controllers,
        safety_builder=safety_builder,
    )
    config_hash = config_fingerprint(cfg)
    point = None if resume_from is None else read_resume_point(resume_from, config_hash=config_hash)
    context = here = _context_of(cfg, config_hash, Path.cwd() if repo_root is None else repo_root)
    if point is not None:  # a run that goes on keeps the name and the launch commit it began with
        began = point.metadata
        context = replace(here, run_id=began.run_id, git_sha=began.git_sha, pyproject_hash=began.pyproject_hash)
    with writable_folder(resolve_uri(f"{LOCAL_URI_SCHEME}{_CHECKPOINT_FOLDER}", artifacts_root=cfg.artifacts_root)):
        logger = _open_logger(cfg, context, wandb_tags, resume=point is not None)
    with logger:
        try:
            if point is None:
                logger.info("training_start", total_frames=cfg.total_frames, checkpoint_every=cfg.checkpoint_every)
            trainer = _make_trainer(trainer_factory or make_random_trainer, cfg, env, partner, logger)
            run = _Run(
                cfg, env, partner, trainer, driver, logger, context, config_hash,
                progress=progress, should_stop=should_stop, record_rollout=record_rollout,
            )  # fmt: skip
            if point is None:
                run.begin()
            else:
                run.go_on_from(point)
                # Not before: for a reader this line takes back what the log says about later steps.
                _log_resumption(logger, point.metadata, here)
            run.step_to_the_end()
            return run.finish(evaluate)
        except TrainingInterrupted:
            raise
        except BaseException as error:
            with suppress(StorageError):  # a full disk must not hide what went wrong
                logger.error("training_aborted", error=type(error).__name__, message=str(error))  # noqa: TRY400
            raise


class _Run:
    """One run: its parts, and where it is."""

    def __init__(
        self,
        cfg: EgoAHTConfig,
        env: EnvLike,
        partner: PartnerLike,
        trainer: EgoTrainer,
        driver: SafetyDriver | None,
        logger: RunLogger,
        context: RunContext,
        config_hash: str,
        *,
        progress: Callable[[TrainingProgress], None] | None,
        should_stop: Callable[[], bool] | None,
        record_rollout: Callable[[EgoTrainer, int], None] | None,
    ) -> None:
        self.cfg = cfg
        self.env = env
        self.partner = partner
        self.trainer = trainer
        self.driver = driver
        self.logger = logger
        self.context = context
        self.config_hash = config_hash
        self.progress = progress
        self.should_stop = should_stop
        self.record_rollout = record_rollout if cfg.rollout_recorder.enabled else None

        self.n_envs = cfg.env.num_envs
        self.total_frames = cfg.total_frames // self.n_envs * self.n_envs
        self.frames = 0
        self.obs: Any = None
        self.step_rewards = RewardSeries()
        self.curve = RewardCurve(context.run_id, self.step_rewards)
        self.checkpoint_steps: list[int] = []
        self.book = EpisodeBook(self.curve, n_envs=self.n_envs)
        self.window = RolloutWindow(getattr(env, "gripper_index", None))
        self.telemetry: SafetyAggregator | None = None
        self.episode = RunningEpisode(0, cfg.seed)

        accepted = inspect.signature(trainer.observe).parameters.values()
        self.is_told_executed = any(
            parameter.name == "executed_action" or parameter.kind is parameter.VAR_KEYWORD for parameter in accepted
        )
        self.can_resume = isinstance(trainer, ResumableTrainer) and (
            self.n_envs == 1 or layer_that_cannot_save(env) is None
        )
        self.started = self.last_report = time.perf_counter()
        self.frames_before = 0

    # --- the loop -----------------------------------------------------------------------------------------------

    def step_to_the_end(self) -> None:
        """Step until the budget is used up."""
        cfg, env, partner, trainer = self.cfg, self.env, self.partner, self.trainer
        ego_uid, partner_uid = cfg.env.agent_uids
        while self.frames < self.total_frames:
            if self.should_stop is not None and self.should_stop():
                self.interrupt()
            if self.episode.has_ended:  # of one copy; N copies reset themselves
                self.begin_next_episode()

            nominal = trainer.act(self.obs)
            partner_action = partner.act(self.obs)
            try:
                action = nominal if self.driver is None else self.decide(self.driver, nominal, partner_action)
                self.obs, reward, terminated, truncated, info = env.step({ego_uid: action, partner_uid: partner_action})
            except ValueError as error:
                self.refuse_divergence(nominal, error)
                raise
            outcome = read_outcome(reward, terminated, truncated, n_envs=self.n_envs)
            self.frames += self.n_envs
            self.record(nominal, outcome, info)
            self.observe(outcome, info, action)

            if self.frames % (cfg.happo.rollout_length * self.n_envs) == 0:
                trainer.update()
                self.log_update(outcome.mean_reward)
            if self.has_passed(cfg.checkpoint_every) or self.frames == self.total_frames:
                self.checkpoint_steps.append(self.frames)
                self.curve.checkpoint_paths.append(self.save())
            if self.record_rollout is not None and self.has_passed(cfg.rollout_recorder.interval_frames):
                self.record_rollout(trainer, self.frames)
            if self.progress is not None:
                self.report_progress(self.progress)

    def refuse_divergence(self, nominal: NDArray[Any], error: ValueError) -> None:
        """Say that the learner is at fault, where its action is no number.

        Raises:
            InputError: it is.
        """
        if not np.isfinite(np.asarray(nominal)).all():
            raise InputError(
                f"the learner diverged: after {self.frames} frames the action of the robot "
                f"{self.cfg.env.agent_uids[0]!r} is not finite; a smaller happo.lr may help"
            ) from error

    def decide(self, driver: SafetyDriver, nominal: NDArray[Any], partner_action: Any) -> NDArray[Any]:
        """Let the safety driver decide, and count what it had to do."""
        action, has_braked, has_fallen_back, is_infeasible, _ = driver.decide(self.env, nominal, partner_action)
        if self.telemetry is None:  # a driver may learn its pairs at its first decision
            self.telemetry = self.new_telemetry(driver, n_pairs=len(driver.lambda_))
        self.telemetry.observe(
            driver.lambda_,
            fallback_fired=has_fallen_back,
            qp_infeasible=is_infeasible,
            braking_fired=has_braked,
        )
        return action

    def record(self, nominal: NDArray[Any], outcome: Outcome, info: Mapping[str, Any]) -> None:
        """Count the step, in the curve, in the window, and for a resumed run."""
        self.window.add(outcome.mean_reward, info, nominal)
        first = self.book.n_finished
        for number, ended in enumerate(self.book.record(outcome, info), first):
            self.logger.info("episode_end", step=self.frames, episode=number, reward=ended.reward, length=ended.length)
        if self.n_envs == 1:
            self.episode.has_ended = bool(outcome.done)
            if self.can_resume:
                self.episode.nominal_actions.append(np.array(nominal))

    def observe(self, outcome: Outcome, info: Mapping[str, Any], action: NDArray[Any]) -> None:
        """Tell the trainer what its action led to."""
        optional: dict[str, Any] = {"executed_action": action} if self.is_told_executed else {}
        if self.n_envs > 1:
            optional["final_obs"] = info.get("final_observation")
        self.trainer.observe(self.obs, outcome.reward, outcome.done, truncated=outcome.truncated, **optional)

    def has_passed(self, interval: int) -> bool:
        """Whether the last iteration reached or passed a multiple of an interval of frames."""
        return self.frames // interval > (self.frames - self.n_envs) // interval

    # --- episodes -----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin the first episode, with the seed of the run."""
        if self.driver is not None:
            self.driver.start_run(self.cfg.seed)
        self.reset(self.episode)

    def begin_next_episode(self) -> None:
        """Begin the next episode, with the seed that its number names."""
        index = self.episode.index + 1
        rng = derive_substream(f"training.episode.{index}", root_seed=self.cfg.seed).default_rng()
        self.reset(RunningEpisode(index, int(rng.integers(0, 2**31 - 1))))

    def reset(self, episode: RunningEpisode) -> None:
        """Reset everything that forgets at the beginning of an episode."""
        self.episode = episode
        self.obs, _ = self.env.reset(seed=episode.seed)
        self.partner.reset(seed=episode.seed)
        if self.driver is not None:
            episode.driver_state = self.driver.state()
            self.driver.start_episode()

    # --- what is written ----------------------------------------------------------------------------------------

    def log_update(self, last_reward: float) -> None:
        """Write what the rollout was like, and start the next window."""
        if self.telemetry is not None:
            self.logger.info("safety_telemetry", step=self.frames, **self.telemetry.flush_window_stats())
        self.logger.info("rollout_update", step=self.frames, last_reward=last_reward)
        log_scalars(self.logger, step=self.frames, namespace="rollout", **self.window.scalars())
        self.window.clear()

    def save(self) -> Path:
        """Save a checkpoint at the present frame."""
        context = self.context
        payload = dict(self.trainer.state_dict())
        if self.can_resume:
            trainer = cast("ResumableTrainer", self.trainer)
            payload[RESUME_KEY] = {
                "format": RESUME_FORMAT,
                "trainer": trainer.training_state(),
                "env": to_tensors(cast("ResumableEnv", self.env).save_training_state()) if self.n_envs > 1 else None,
                "loop": to_tensors(self.state()),
            }
        path = save_checkpoint(
            state_dict=payload,
            uri=self.checkpoint_uri(self.frames),
            metadata=CheckpointMetadata(
                context.run_id, context.seed, self.frames, context.git_sha, context.pyproject_hash, sha256=""
            ),
            artifacts_root=self.cfg.artifacts_root,
        )
        self.logger.info("checkpoint_saved", step=self.frames, path=str(path))
        return path

    def checkpoint_uri(self, step: int) -> str:
        return f"{LOCAL_URI_SCHEME}{_CHECKPOINT_FOLDER}/{self.context.run_id}_step{step}.pt"

    def interrupt(self) -> None:
        """Save what can be saved, unless the last iteration did, and end."""
        is_saved = bool(self.checkpoint_steps) and self.checkpoint_steps[-1] == self.frames
        # A run that was resumed from another folder has its last checkpoint there.
        is_here = is_saved and self.curve.checkpoint_paths[-1].is_file()
        path = self.curve.checkpoint_paths[-1] if is_here else self.save()
        self.logger.info("training_interrupted", step=self.frames, path=str(path))
        raise TrainingInterrupted(path, can_resume=self.can_resume)

    def report_progress(self, progress: Callable[[TrainingProgress], None], *, is_last: bool = False) -> None:
        """Tell how far the run is, at most ten times a second."""
        now = time.perf_counter()
        if now - self.last_report < _PROGRESS_PERIOD_S and not is_last:
            return
        self.last_report = now
        frames_per_second = (self.frames - self.frames_before) / max(now - self.started, 1e-9)
        progress(
            TrainingProgress(
                frames=self.frames,
                total_frames=self.total_frames,
                episodes=self.book.n_finished,
                mean_reward_last_10=self.book.mean_reward_of_last,
                frames_per_second=frames_per_second,
            )
        )

    def finish(self, evaluate: Callable[[EgoTrainer], Mapping[str, float]] | None) -> TrainingResult:
        """File the episodes that the budget cut, and write the last events."""
        if self.progress is not None:
            self.report_progress(self.progress, is_last=True)
        n_partial = self.book.close()
        condition = self.cfg.env.condition_id or self.cfg.env.task
        results = evaluate(self.trainer) if evaluate is not None else self.book.summary()
        if results:
            name = condition if evaluate is not None else "training_last_10_episodes"
            log_eval(self.logger, step=self.frames, condition=name, **results)
        telemetry = self.telemetry or self.new_telemetry(self.driver, n_pairs=0)
        summary = telemetry.finalise(
            safety_enabled=self.driver is not None, predictor_kind=self.cfg.safety.predictor_kind
        )
        event = str(summary.pop("event"))
        self.logger.info(event, **summary)
        self.logger.info(
            "training_end",
            n_episodes=len(self.curve.per_episode_ego_rewards),
            n_partial_episodes=n_partial,
            n_checkpoints=len(self.curve.checkpoint_paths),
        )
        return TrainingResult(self.curve, self.trainer, context=replace(self.context, safety_telemetry=summary))

    def new_telemetry(self, driver: SafetyDriver | None, *, n_pairs: int) -> SafetyAggregator:
        return SafetyAggregator(
            n_pairs=n_pairs,
            cartesian_accel_capacity=0.0 if driver is None else driver.capacity,
            saturation_threshold=self.cfg.safety.saturation_threshold,
            lambda_clamp_bound=None if driver is None else driver.lambda_bound,
        )

    # --- going on -----------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Give where the run is; what the trainer knows is not part of it."""
        return {
            "config_hash": self.config_hash,
            "frames": self.frames,
            "observation_sha256": observation_sha256(self.obs),
            "episode": self.episode.state(),
            "telemetry": None if (t := self.telemetry) is None else {"n_pairs": t.n_pairs, **t.state()},
            "window": self.window.state(),
            "book": self.book.state(),
            "curve": {
                "per_step": np.asarray(self.step_rewards),
                "per_episode": np.array(self.curve.per_episode_ego_rewards, dtype=np.float64),
                "checkpoint_steps": np.array(self.checkpoint_steps, dtype=np.int64),
            },
        }

    def go_on_from(self, point: ResumePoint) -> None:
        """Bring everything back to where it was when a checkpoint was saved."""
        if not isinstance(self.trainer, ResumableTrainer):
            raise CheckpointError(
                f"{type(self.trainer).__name__} cannot be resumed: it has no load_state_dict, training_state and "
                "load_training_state"
            )
        with refusing_malformed_state(point.path):
            self.take_over(point)
            sha256 = str(point.loop["observation_sha256"])
        if self.n_envs > 1:
            self.partner.reset(seed=self.cfg.seed)
            self.obs = load_env_state(self.env, point.env, sha256=sha256)
        else:
            n_played = len(self.episode.nominal_actions)
            self.obs = replay(
                self.episode,
                env=self.env,
                partner=self.partner,
                driver=self.driver,
                uids=self.cfg.env.agent_uids,
                rewards=self.step_rewards[len(self.step_rewards) - n_played :],
                sha256=sha256,
            )

    def take_over(self, point: ResumePoint) -> None:
        """Take over the state that a checkpoint holds; the world is not where it was yet."""
        loop, trainer = point.loop, cast("ResumableTrainer", self.trainer)
        trainer.load_state_dict(point.trainer_state_dict)
        trainer.load_training_state(point.trainer)
        self.frames = self.frames_before = loop["frames"]
        self.window.load_state(loop["window"])
        self.book.load_state(loop["book"])
        self.step_rewards.extend(loop["curve"]["per_step"].tolist())
        self.curve.per_episode_ego_rewards.extend(loop["curve"]["per_episode"].tolist())
        self.checkpoint_steps.extend(loop["curve"]["checkpoint_steps"].tolist())
        root = self.cfg.artifacts_root
        self.curve.checkpoint_paths.extend(
            resolve_uri(self.checkpoint_uri(step), artifacts_root=root) for step in self.checkpoint_steps
        )
        if self.driver is not None:
            self.driver.start_run(self.cfg.seed)
            if loop["telemetry"] is not None:
                self.telemetry = self.new_telemetry(self.driver, n_pairs=loop["telemetry"]["n_pairs"])
                self.telemetry.load_state(loop["telemetry"])
        self.episode = RunningEpisode.from_state(loop["episode"])


def _open_logger(cfg: EgoAHTConfig, context: RunContext, wandb_tags: Sequence[str], *, resume: bool) -> RunLogger:
    sink = make_wandb_run_sink(
        cfg.wandb, context, tags=wandb_tags, config_extras={"config": cfg.model_dump(mode="json")}, resume=resume
    )
    try:
        path = cfg.log_dir / f"{context.run_id}.jsonl"
        return bind_run_logger(context, jsonl_path=path, wandb_sink=sink, resume=resume)
    except BaseException:
        if sink is not None:
            sink.close()
        raise


def _context_of(cfg: EgoAHTConfig, config_hash: str, repo_root: Path) -> RunContext:
    extra = {"task": cfg.env.task, "partner_class": cfg.partner.class_name, "config_hash": config_hash}
    if cfg.exploratory.partner_static_override:
        extra["exploratory_partner_static"] = "true"
    if cfg.env.mask_partner_obs:  # whoever plays the policy has to know
        extra["mask_partner_obs"] = "true"
    return compute_run_metadata(
        seed=cfg.seed, run_kind=cfg.algo, repo_root=repo_root, extra=extra, config_fingerprint=config_hash
    )


def _log_resumption(logger: RunLogger, began: CheckpointMetadata, here: RunContext) -> None:
    """Write where the run goes on, and whether by the program that began it."""
    logger.info(
        "training_resumed",
        step=began.step,
        checkpoint_sha256=began.sha256,
        resumed_git_sha=here.git_sha,
        resumed_pyproject_hash=here.pyproject_hash,
    )
    if (here.git_sha, here.pyproject_hash) != (began.git_sha, began.pyproject_hash):
        warnings.warn(
            f"the run began at commit {began.git_sha[:12]} and goes on at {here.git_sha[:12]}: it ends with the bits "
            "of an uninterrupted run only if nothing that it uses has changed",
            UserWarning,
            stacklevel=3,
        )


def _make_trainer(
    factory: Callable[..., EgoTrainer], cfg: EgoAHTConfig, env: EnvLike, partner: PartnerLike, logger: RunLogger
) -> EgoTrainer:
    """Call a factory, with the logger if it has a parameter for it."""
    accepted = inspect.signature(factory).parameters.values()
    takes_logger = any(p.name == "logger" or p.kind is p.VAR_KEYWORD for p in accepted)
    optional = {"logger": logger} if takes_logger else {}
    return factory(cfg, env=env, partner=partner, ego_uid=cfg.env.agent_uids[0], **optional)
