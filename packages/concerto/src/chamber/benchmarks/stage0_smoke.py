"""Stage 0: three embodiments on one rig, each with its own rate, channels and actions. A check of the machinery.

A Panda acts at 20 Hz, a Fetch at 10 Hz and an Allegro hand at 50 Hz, on a rig that ticks at 100 Hz. Each sees its own
part of its channels, and all hear of each other's tool poses through a link that delays and loses messages. There is
nothing to do and nothing to win.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from chamber.comm.degradation import CommDegradationWrapper
from chamber.comm.fixed_format import FixedFormatCommChannel
from chamber.comm.observed_poses import ObservedPoses
from chamber.comm.profiles import get_profile
from chamber.envs._spaces import Observation
from chamber.envs.action_repeat import PerAgentActionRepeatWrapper
from chamber.envs.comm_shaping import CommShapingWrapper
from chamber.envs.errors import ChamberEnvCompatibilityError
from chamber.envs.rig_task import RENDER_CAMERA, EpisodeStart, RigTaskEnv
from chamber.envs.stage0_state_synth import Stage0StateSynthesizer
from chamber.envs.texture_filter import TextureFilterObsWrapper
from chamber.sim.robots import robot_model
from chamber.sim.scene import CameraSpec, RobotSpec, SceneSpec

__all__ = [
    "DEFAULT_EPISODE_LENGTH",
    "STAGE0_ACTION_RATES_HZ",
    "STAGE0_CONTROL_TIMESTEP_S",
    "STAGE0_KEPT_CHANNELS",
    "Stage0SmokeEnv",
    "make_stage0_env",
]

FloatArray = NDArray[np.float64]

_PANDA, _FETCH, _HAND = "panda_wristcam", "fetch", "allegro_hand_right"
_SMOKE_ROBOT_UIDS = (_PANDA, _FETCH, _HAND)

DEFAULT_EPISODE_LENGTH = 100
"""Ticks; one second."""

STAGE0_CONTROL_TIMESTEP_S = 0.01

STAGE0_ACTION_RATES_HZ: Mapping[str, float] = MappingProxyType({_PANDA: 20.0, _FETCH: 10.0, _HAND: 50.0})
"""How often each robot can change its action."""

STAGE0_KEPT_CHANNELS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        _PANDA: frozenset({"qpos", "qvel"}),
        _FETCH: frozenset({"qpos"}),
        _HAND: frozenset({"qpos", "qvel", "tip_poses"}),
    }
)
"""What each robot is shown of its own channels: the Fetch no velocities, the hand not where its palm is."""

_PALM_LINK = "palm"
_TIP_LINKS = ("link_3.0_tip", "link_7.0_tip", "link_11.0_tip", "link_15.0_tip")
_HAND_CHANNELS: Mapping[str, int] = MappingProxyType({"palm_pose": 7, "tip_poses": 7 * len(_TIP_LINKS)})
_LINK_PROFILE = "factory"
_START_JITTER = 0.02


class Stage0SmokeEnv(RigTaskEnv):
    """The three robots in an empty room, without wrappers; the reward is zero, and only its length ends an episode.

    Every episode starts near the ready poses, each joint but those of grippers up to 0.02 rad or m away.

    Beside ``qpos`` and ``qvel`` the hand has ``palm_pose`` (7) and ``tip_poses`` (28: index, middle, ring, thumb), each
    ``(x, y, z, w, qx, qy, qz)`` in the world. ``obs["extra"]`` has ``<uid>_tcp_pose`` (7) of every robot.

    Args:
        episode_length, root_seed, num_envs, render_mode, render_backend, backend: see `RigTaskEnv`.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 100}  # noqa: RUF012 - as Gymnasium has it

    def __init__(
        self,
        *,
        episode_length: int,
        root_seed: int,
        num_envs: int,
        render_mode: str | None,
        render_backend: str | None,
        backend: str,
    ) -> None:
        super().__init__(
            scene=_scene(),
            agent_uids=_SMOKE_ROBOT_UIDS,
            substream="env.stage0_smoke",
            episode_length=episode_length,
            root_seed=root_seed,
            num_envs=num_envs,
            render_mode=render_mode,
            render_backend=render_backend,
            backend=backend,
        )

    def evaluate(self) -> dict[str, NDArray[Any]]:
        """Give ``success``, which is never."""
        return {"success": np.zeros(self.num_envs, dtype=bool)}

    def step(self, action: Mapping[str, Any]) -> tuple[Observation, Any, Any, Any, dict[str, Any]]:
        """Apply actions as every task does; ``info`` names no success, because there is none to reach."""
        obs, reward, terminated, truncated, info = super().step(action)
        del info["success"]
        return obs, reward, terminated, truncated, info

    def compute_normalized_dense_reward(self, evaluation: Mapping[str, NDArray[Any]]) -> FloatArray:
        """Give zero, shape ``(num_envs,)``."""
        return np.zeros(self.num_envs)

    def privileged_observation(self) -> Observation:
        """Give the observation of the current state, as no wrapper has filtered it."""
        obs = super().privileged_observation()
        tips = np.concatenate([self.rig.link_pose(_HAND, link) for link in _TIP_LINKS], axis=1)
        palm = self.rig.link_pose(_HAND, _PALM_LINK)
        obs["agent"][_HAND].update(palm_pose=palm.astype(np.float32), tip_poses=tips.astype(np.float32))
        return obs

    def _draw_start(self, rng: np.random.Generator) -> EpisodeStart:
        starts: dict[str, FloatArray] = {}
        for uid in _SMOKE_ROBOT_UIDS:
            model = robot_model(uid)
            qpos = model.ready_qpos.copy()
            moving = qpos[model.body_joints]
            qpos[model.body_joints] = moving + rng.uniform(-_START_JITTER, _START_JITTER, moving.shape)
            starts[uid] = np.clip(qpos, model.joint_lower, model.joint_upper)
        return EpisodeStart(starts)

    def _memory(self) -> Mapping[str, NDArray[Any]]:
        return {}

    def _extra_sizes(self) -> Mapping[str, int]:
        return {f"{uid}_tcp_pose": 7 for uid in _SMOKE_ROBOT_UIDS}

    def _extra_observation(self) -> Mapping[str, FloatArray]:
        return {f"{uid}_tcp_pose": self.tcp_pose(uid) for uid in _SMOKE_ROBOT_UIDS}

    def _observation_space(self) -> spaces.Dict:
        declared = super()._observation_space()
        agents: Any = declared["agent"]
        more = {
            name: spaces.Box(-np.inf, np.inf, (self.num_envs, size), np.float32)
            for name, size in _HAND_CHANNELS.items()
        }
        hand = spaces.Dict({**agents[_HAND].spaces, **more})
        return spaces.Dict({**declared.spaces, "agent": spaces.Dict({**agents.spaces, _HAND: hand})})


def make_stage0_env(
    *,
    render_mode: str | None = None,
    render_backend: str | None = None,
    episode_length: int = DEFAULT_EPISODE_LENGTH,
    root_seed: int = 0,
    backend: str = "auto",
) -> gym.Env[Observation, dict[str, Any]]:
    """Build the rig with its wrappers: rates, then channels, then messages, then a flat ``state`` for every robot.

    Robots broadcast the poses of their tools, ``obs["comm"]["pose"][uid]``, through a link of the profile ``factory``;
    one tick of the link is one tick of the rig.

    Args:
        render_mode: ``"rgb_array"`` or None.
        render_backend: see `chamber.envs._render_backend.resolve_render_backend`.
        episode_length: ticks until ``truncated``.
        root_seed: seed of the run, also of losses and delays; ``reset(seed=...)`` gives an episode its own.
        backend: see `chamber.sim.make_backend`.

    Raises:
        ValueError: an argument is out of range.
        ChamberEnvCompatibilityError: the simulator is missing or cannot build the scene.
    """
    rig = Stage0SmokeEnv(
        episode_length=episode_length,
        root_seed=root_seed,
        num_envs=1,
        render_mode=render_mode,
        render_backend=render_backend,
        backend=backend,
    )
    channel = CommDegradationWrapper(
        FixedFormatCommChannel(
            state_adapter=ObservedPoses({uid: ("extra", f"{uid}_tcp_pose") for uid in _SMOKE_ROBOT_UIDS})
        ),
        get_profile(_LINK_PROFILE),
        tick_period_ms=1000.0 * rig.control_timestep,
        root_seed=root_seed,
        vary_episodes=True,
    )
    require_known_channels(rig.observation_space, STAGE0_KEPT_CHANNELS)
    rated = PerAgentActionRepeatWrapper(rig, action_repeats(rig.control_freq, STAGE0_ACTION_RATES_HZ))
    filtered = TextureFilterObsWrapper(rated, STAGE0_KEPT_CHANNELS)
    return Stage0StateSynthesizer(CommShapingWrapper(filtered, channel))


def action_repeats(control_freq: float, rates_hz: Mapping[str, float]) -> dict[str, int]:
    """Give for how many ticks an action of each robot holds.

    Args:
        control_freq: ticks per second.
        rates_hz: uid to actions per second.

    Raises:
        ValueError: a rate is no whole fraction of the tick rate; it could not be kept.
    """
    repeats: dict[str, int] = {}
    for uid, rate in rates_hz.items():
        repeats[uid] = max(1, round(control_freq / rate))
        if not math.isclose(repeats[uid] * rate, control_freq, rel_tol=1e-9):
            raise ValueError(f"the rate of {uid!r}, {rate:g} Hz, must be a whole fraction of {control_freq:g} Hz")
    return repeats


def require_known_channels(space: spaces.Space[Any], kept: Mapping[str, frozenset[str]]) -> None:
    """Refuse a set of kept channels that names what is not there, because it would blank everything.

    Raises:
        ChamberEnvCompatibilityError: a robot or a channel is not in the observation space; the message lists those
            that are.
    """
    agents: Any = space["agent"] if isinstance(space, spaces.Dict) else {}
    for uid, channels in kept.items():
        known = set(agents[uid].spaces) if uid in agents.spaces else None
        if known is None or not channels <= known:
            there = f"the robots {sorted(agents.spaces)}" if known is None else f"the channels {sorted(known)}"
            wrong = repr(uid) if known is None else f"{sorted(channels - known)} of {uid!r}"
            raise ChamberEnvCompatibilityError(
                f"the kept channels name {wrong}, which is not observed; there are {there} (ADR-001 §Risks)"
            )


def _scene() -> SceneSpec:
    """The three robots, out of each other's reach."""
    return SceneSpec(
        robots=(
            RobotSpec(uid=_PANDA, model=_PANDA, base_position=(-0.8, 0.0, 0.0)),
            RobotSpec(uid=_FETCH, model=_FETCH, base_position=(1.1, 0.3, 0.0), base_yaw=math.pi),
            RobotSpec(uid=_HAND, model=_HAND, base_position=(0.35, 0.9, 0.35)),
        ),
        cameras=(
            CameraSpec(
                name=RENDER_CAMERA,
                width=640,
                height=480,
                field_of_view=0.85,
                position=(0.2, 2.6, 1.4),
                target=(0.15, 0.1, 0.45),
            ),
        ),
        control_timestep=STAGE0_CONTROL_TIMESTEP_S,
    )
