"""Episodes that are played for the record while a run goes on, beside it: nothing of the run sees them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from chamber.observability import RolloutRecorder
from ripieno.randomness import derive_substream

if TYPE_CHECKING:
    from chamber.partners.api import FrozenPartner
    from concerto.training.config import EgoAHTConfig
    from concerto.training.protocols import EgoTrainer, SafetyDriver

__all__ = ["RolloutRecording"]


class RolloutRecording:
    """Plays the present policy without exploration and records it below ``log_dir``.

    Environment, partner and safety stack are the recording's own, without the shaping of training; where nothing can be
    rendered, there are lines but no video.

    Args:
        cfg: the run.
        build_env: makes an environment of the run's task with one copy.
        build_partner: makes another one of the run's partner.
        build_driver: makes a safety driver for an environment; None without safety.
    """

    def __init__(
        self,
        cfg: EgoAHTConfig,
        *,
        build_env: Callable[[], Any],
        build_partner: Callable[[], FrozenPartner],
        build_driver: Callable[[Any], SafetyDriver] | None,
    ) -> None:
        self._cfg = cfg
        self._build_env = build_env
        self._partner = build_partner()
        self._build_driver = build_driver
        self._driver: SafetyDriver | None = None
        self._env: Any = None
        self._has_pictures = True

    def __call__(self, trainer: EgoTrainer, frames: int) -> None:
        """Record the episodes that are due at a number of frames."""
        if self._env is None:
            self._env = self._build_env()
            if self._build_driver is not None:
                self._driver = self._build_driver(self._env)
        env, settings = self._cfg.env, self._cfg.rollout_recorder
        ego_uid, partner_uid = env.agent_uids
        with RolloutRecorder(
            self._cfg.log_dir,
            env.condition_id or env.task,
            frames,
            fps=settings.fps,
            per_step_jsonl=settings.per_step_jsonl,
            ego_uid=ego_uid,
            partner_uid=partner_uid,
        ) as recorder:
            for number in range(settings.episodes_per_record):
                name = f"training.rollout_recorder.{frames}.{number}"
                rng = derive_substream(name, root_seed=self._cfg.seed).default_rng()
                self._record_episode(recorder, trainer, seed=int(rng.integers(0, 2**31 - 1)))

    def _record_episode(self, recorder: RolloutRecorder, trainer: EgoTrainer, *, seed: int) -> None:
        ego_uid, partner_uid = self._cfg.env.agent_uids
        obs, _ = self._env.reset(seed=seed)
        self._partner.reset(seed=seed)
        if self._driver is not None:
            self._driver.start_run(seed)
            self._driver.start_episode()
        recorder.begin_episode(seed=seed)
        is_over = False
        while not is_over:
            action: Any = trainer.act(obs, deterministic=True)
            partner_action = self._partner.act(obs)
            if self._driver is not None:
                action = self._driver.decide(self._env, action, partner_action).action
            obs, reward, terminated, truncated, info = self._env.step({ego_uid: action, partner_uid: partner_action})
            recorder.record_step(
                obs, action, reward, info, terminated=terminated, truncated=truncated, frame=self._picture()
            )
            is_over = bool(terminated) or bool(truncated)

    def _picture(self) -> Any:
        picture = getattr(self._env.unwrapped, "picture", None)
        if picture is None or not self._has_pictures:
            return None
        try:
            return picture()
        except Exception as error:  # noqa: BLE001 - whatever a machine cannot draw must not end a training run
            self._has_pictures = False
            warnings.warn(f"recorded episodes have no pictures: {error}", UserWarning, stacklevel=4)
            return None

    def close(self) -> None:
        """Close the environment of the recordings."""
        if self._env is not None:
            self._env.close()
