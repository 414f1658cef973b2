"""What all tasks on a simulated rig share: seeds, copies, actions, time, pictures. A task adds its scene and its rules.

A task is written once for ``num_envs`` copies: everything it reads and gives has that leading axis. A single
environment (``num_envs=1``) keeps the axis in its observation leaves, which are then of shape ``(1, k)``, and gives
reward and flags as plain numbers, as Gymnasium wants them. (State vectors that a wrapper adds are flat there.)

A task of your own derives from `RigTaskEnv` and writes the methods below that are abstract; the how-to *Bring your own
arm task* does it from the scene to a recorded run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from chamber.envs._actions import checked_actions
from chamber.envs._closing import RefusesWhenClosed
from chamber.envs._copies import chosen_copies, seeds_of_copies
from chamber.envs._integers import require_integer
from chamber.envs._render_backend import resolve_render_backend
from chamber.envs._rig_spaces import rig_observation_space
from chamber.envs._spaces import Observation
from chamber.envs._training_state import array_from, require_same, streams_from_text, text_of_streams
from chamber.envs.errors import ChamberEnvCompatibilityError
from chamber.sim import RigBackend, SceneSpec, make_backend
from chamber.sim.robots import robot_model
from ripieno.randomness import derive_substream

__all__ = ["RENDER_CAMERA", "EpisodeStart", "RigTaskEnv"]

FloatArray = NDArray[np.float64]

RENDER_CAMERA = "render_camera"
"""Name of the camera for people: what `RigTaskEnv.render` shows; the scene of every task has one."""


@dataclass(frozen=True, slots=True)
class EpisodeStart:
    """Where one episode of one copy begins.

    Attributes:
        joint_positions: per robot, shape ``(n_joints,)``.
        body_poses: per free or kinematic body, shape ``(7,)``; others start where the scene puts them.
        goal: goal position in the world, shape ``(3,)``.
    """

    joint_positions: Mapping[str, FloatArray]
    body_poses: Mapping[str, FloatArray] = field(default_factory=dict[str, FloatArray])
    goal: FloatArray = field(default_factory=lambda: np.zeros(3))


class RigTaskEnv(RefusesWhenClosed[Observation, dict[str, Any]], ABC):
    """Base class of tasks that run on a `chamber.sim.backend.RigBackend`.

    ``reset(seed=k)`` starts episode ``k`` of the run that ``root_seed`` names, and with several copies episode ``k +
    i`` in copy i, or ``k[i]`` when a sequence is given; without a seed every copy goes on with its own stream. A start
    depends on nothing else, neither on earlier episodes nor on other copies.

    A task writes `_draw_start`, `_extra_sizes`, `_extra_observation`, `evaluate`, `compute_normalized_dense_reward` and
    `_memory`; one that accumulates something over an episode also `_begin` and `_accumulate`. A step applies the
    actions, advances the rig, and calls `_accumulate`, `evaluate` and `compute_normalized_dense_reward` in this order.

    What a task reads: ``rig`` (the simulator), ``goal`` (shape ``(num_envs, 3)``, m, world), ``elapsed_steps`` (shape
    ``(num_envs,)``, int32), ``num_envs``, ``agent_uids``, `arm_qvel`, `is_static`, `tcp_pose`.

    Args:
        scene: what to build; with a camera called `RENDER_CAMERA`, if it shall be looked at.
        agent_uids: ego first, then its partners: the robots that have observations and actions.
        substream: name under which starts are drawn, e.g. ``"env.my_task"``; the task's own.
        condition_id: name of the condition that is built; None for a task without conditions.
        episode_length: control steps until ``truncated``.
        root_seed: seed of the run.
        num_envs: number of copies.
        render_mode: ``"rgb_array"`` or None.
        render_backend: ``"none"`` switches rendering off; None asks ``CHAMBER_RENDER_BACKEND``.
        backend: ``"auto"`` or ``"mujoco"``.

    Raises:
        ValueError: an argument is out of range, or ``agent_uids`` names no robots of the scene or one twice.
        ChamberEnvCompatibilityError: the simulator is missing or cannot build the scene.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012 - as Gymnasium has it
    reward_mode = "normalized_dense"

    def __init__(
        self,
        *,
        scene: SceneSpec,
        agent_uids: Sequence[str],
        substream: str,
        condition_id: str | None = None,
        episode_length: int,
        root_seed: int = 0,
        num_envs: int = 1,
        render_mode: str | None = None,
        render_backend: str | None = None,
        backend: str = "auto",
    ) -> None:
        episode_length = require_integer("episode_length", episode_length, at_least=1)
        num_envs = require_integer("num_envs", num_envs, at_least=1)
        root_seed = require_integer("root_seed", root_seed, at_least=0)
        if render_mode not in {None, "rgb_array"}:
            raise ValueError(f"render_mode must be 'rgb_array' or None, got {render_mode!r}")
        self.render_mode = render_mode
        self.render_backend = resolve_render_backend(render_backend)
        self.agent_uids = tuple(agent_uids)
        robots = [robot.uid for robot in scene.robots]
        if not self.agent_uids or len({*self.agent_uids} & {*robots}) < len(self.agent_uids):
            raise ValueError(f"agent_uids must name robots of the scene, {robots}, each once, got {self.agent_uids}")
        self._condition_id = condition_id
        self.episode_length = episode_length
        self.root_seed = root_seed
        self.num_envs = num_envs
        self._sensors = tuple(camera for camera in scene.cameras if camera.is_sensor)
        if self._sensors and self.render_backend == "none":
            raise ChamberEnvCompatibilityError(
                f"cameras {[camera.name for camera in self._sensors]} are observations of this task, and rendering is "
                "switched off: leave render_backend and CHAMBER_RENDER_BACKEND unset"
            )
        self.rig: RigBackend = make_backend(scene, num_envs=num_envs, backend=backend)
        self.goal: FloatArray = np.zeros((num_envs, 3))
        self.elapsed_steps: NDArray[np.int32] = np.zeros(num_envs, dtype=np.int32)
        self._models = {robot.uid: robot_model(robot.model) for robot in scene.robots}
        self._widths = {uid: self._models[uid].action_dim for uid in self.agent_uids}
        self._substream = substream
        self._generators: dict[int, np.random.Generator] = {}
        for env in range(num_envs):
            self._start_stream(env, f"{substream}.env{env:04d}")
        self._was_reset = np.zeros(num_envs, dtype=bool)
        self._is_ready = False
        self.action_space = spaces.Dict(
            {
                uid: spaces.Box(-1.0, 1.0, (width,) if num_envs == 1 else (num_envs, width), np.float32)
                for uid, width in self._widths.items()
            }
        )
        self.observation_space = self._observation_space()

    # --- what a task adds -----------------------------------------------------------------------------------

    @abstractmethod
    def _draw_start(self, rng: np.random.Generator) -> EpisodeStart:
        """Draw where one episode of one copy begins; every draw comes from ``rng``, always in the same order."""

    @abstractmethod
    def _extra_sizes(self) -> Mapping[str, int]:
        """Give the number of components of every field of ``obs["extra"]``; it is asked once, while this is built."""

    @abstractmethod
    def _extra_observation(self) -> Mapping[str, FloatArray]:
        """Give every field of ``obs["extra"]``, shape ``(num_envs, size)``; observed as float32."""

    @abstractmethod
    def evaluate(self) -> dict[str, NDArray[Any]]:
        """Give ``success`` and what it is made of, each of shape ``(num_envs,)``; it changes nothing.

        All of it becomes ``info``, and ``success`` ends the episode.
        """

    @abstractmethod
    def compute_normalized_dense_reward(self, evaluation: Mapping[str, NDArray[Any]]) -> FloatArray:
        """Give the reward of the state that was evaluated, at most 1, shape ``(num_envs,)``; all robots share it.

        Args:
            evaluation: what `evaluate` has just given.
        """

    def _begin(self, env_idx: NDArray[np.int64]) -> None:
        """Forget what was accumulated in the copies that were reset; the rig is in its new state already.

        Args:
            env_idx: the copies; none of them after a state was loaded, when what was measured is measured again.
        """

    def _accumulate(self) -> None:
        """Update what is accumulated over an episode, once after every control step."""

    @abstractmethod
    def _memory(self) -> Mapping[str, NDArray[Any]]:
        """Give what a task itself keeps from one step to the next and cannot read from the rig, by name.

        These arrays are saved, and written to in place when a state is loaded; after that `_begin` is called for no
        copies. A task that remembers nothing gives an empty mapping.
        """

    def _start_stream(self, env: int, name: str) -> None:
        """Start the random numbers of a copy anew; a task with more than one consumer adds ``f"{name}.<consumer>"``."""
        self._generators[env] = derive_substream(name, root_seed=self.root_seed).default_rng()

    def _streams(self) -> Mapping[str, dict[int, np.random.Generator]]:
        """Give the random numbers of all copies, by consumer; a task with more than one consumer adds to it."""
        return {"start": self._generators}

    # --- what it is ------------------------------------------------------------------------------------------

    @property
    def condition_id(self) -> str | None:
        """Name of the condition; None for a task without conditions."""
        return self._condition_id

    @property
    def ego_uid(self) -> str:
        """The first robot: the one that is trained or judged."""
        return self.agent_uids[0]

    @property
    def partner_uid(self) -> str:
        """The second robot: the ego's partner, the first of them when there are several."""
        if len(self.agent_uids) < 2:
            raise AttributeError(f"{type(self).__name__} has a single robot, {self.ego_uid!r}, and no partner")
        return self.agent_uids[1]

    # --- the Gymnasium interface ----------------------------------------------------------------------------

    @property
    def control_timestep(self) -> float:
        """Seconds between two steps."""
        return self.rig.scene.control_timestep

    @property
    def control_freq(self) -> float:
        """Steps per second."""
        return 1.0 / self.control_timestep

    def reset(  # pyright: ignore[reportIncompatibleMethodOverride] - copies may get a seed each
        self, *, seed: int | Sequence[int] | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: see the class.
            options: ``{"env_idx": [...]}`` resets these copies only; seeds then belong to them, in order.

        Raises:
            ValueError: a seed is no integer >= 0 or there are not as many seeds as copies; an option is unknown.
            gymnasium.error.ClosedEnvironmentError: it was closed.
        """
        self._require_open("reset")
        env_idx = chosen_copies(options, num_envs=self.num_envs)
        self._seed_generators(seed, env_idx)
        starts = [self._draw_start(self._generators[env]) for env in env_idx]
        self.rig.reset(
            {uid: np.stack([start.joint_positions[uid] for start in starts]) for uid in self._models},
            {name: np.stack([start.body_poses[name] for start in starts]) for name in starts[0].body_poses},
            env_idx=env_idx,
        )
        self.goal[env_idx] = [start.goal for start in starts]
        self.elapsed_steps[env_idx] = 0
        self._was_reset[env_idx] = True
        self._is_ready = bool(self._was_reset.all())
        self._begin(env_idx)
        return self._observation(), {"backend": self.rig.name, "elapsed_steps": self._plain(self.elapsed_steps)}

    def step(self, action: Mapping[str, Any]) -> tuple[Observation, Any, Any, Any, dict[str, Any]]:
        """Apply one action per robot for one control step.

        Args:
            action: per uid shape ``(action_dim,)``, with several copies ``(num_envs, action_dim)``; clipped to [-1, 1],
                which ``info["action_clipped"]`` reports.

        Returns:
            Observation, reward, ``terminated`` (success), ``truncated`` (horizon) and ``info``: what `evaluate` gives,
            ``elapsed_steps``, ``action_clipped`` per uid, and ``backend``.

        Raises:
            ValueError: a robot is missing or unknown, a shape is wrong or a value is not finite; nothing has moved
            then.
            gymnasium.error.ResetNeeded: there was no reset.
            gymnasium.error.ClosedEnvironmentError: it was closed.
        """
        self._require_open("step")
        if not self._is_ready:
            raise gym.error.ResetNeeded("call reset() before step()")
        actions, was_clipped = checked_actions(action, widths=self._widths, num_envs=self.num_envs)
        for uid, command in actions.items():
            self.rig.apply(uid, command)
        self.rig.advance()
        self.elapsed_steps += 1
        self._accumulate()
        evaluation = self.evaluate()
        info = {name: self._plain(value) for name, value in evaluation.items()}
        info["elapsed_steps"] = self._plain(self.elapsed_steps)
        info["action_clipped"] = {uid: self._plain(value) for uid, value in was_clipped.items()}
        info["backend"] = self.rig.name
        return (
            self._observation(),
            self._plain(self.compute_normalized_dense_reward(evaluation)),
            self._plain(evaluation["success"]),
            self._plain(self.elapsed_steps >= self.episode_length),
            info,
        )

    def render(self) -> NDArray[np.uint8] | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Give the picture for people, shape ``(height, width, 3)``, or one per copy; None without a render mode."""
        if self.render_mode is None:
            return None
        if self.num_envs == 1:
            return self.picture(RENDER_CAMERA)
        return np.stack([self.picture(RENDER_CAMERA, env=env) for env in range(self.num_envs)])

    def picture(self, camera: str = RENDER_CAMERA, *, env: int = 0) -> NDArray[np.uint8]:
        """Give what any camera of the scene sees, shape ``(height, width, 3)``.

        Raises:
            KeyError: there is no such camera.
            ChamberEnvCompatibilityError: there is no rendering here, or it is switched off.
        """
        if self.render_backend == "none":
            raise ChamberEnvCompatibilityError(
                "rendering is switched off by render_backend or CHAMBER_RENDER_BACKEND; leave them unset"
            )
        return self.rig.render(camera, env=env).rgb

    def close(self) -> None:
        """Free the simulator; calling it twice does no harm, and after it neither `reset` nor `step` works."""
        super().close()
        self.rig.close()

    def privileged_observation(self) -> Observation:
        """Give the observation of the current state without pictures, as no wrapper has filtered it; for references."""
        return {
            "agent": {
                uid: {
                    "qpos": self.rig.qpos(uid).astype(np.float32),
                    "qvel": self.rig.qvel(uid).astype(np.float32),
                }
                for uid in self.agent_uids
            },
            "extra": {name: value.astype(np.float32) for name, value in self._extra_observation().items()},
        }

    # --- going on where a run was ---------------------------------------------------------------------------

    def save_training_state(self) -> dict[str, Any]:
        """Give all that decides what happens next, in every copy: nested dictionaries of arrays, numbers and text.

        Raises:
            gymnasium.error.ResetNeeded: there was no reset.
        """
        if not self._is_ready:
            raise gym.error.ResetNeeded("call reset() before save_training_state()")
        return {
            **self._identity(),
            "rig": np.stack([self.rig.save_state(env) for env in range(self.num_envs)]),
            **{name: array.copy() for name, array in self._remembered().items()},
            **{
                name: text_of_streams(streams[env] for env in range(self.num_envs))
                for name, streams in self._named_streams().items()
            },
        }

    def load_training_state(self, state: Mapping[str, Any]) -> Observation:
        """Go back to a state that `save_training_state` gave, in this process or another one, to the last bit.

        Args:
            state: arrays may be tensors on the CPU.

        Returns:
            The observation that the last step or reset gave.

        Raises:
            InputError: the state is of another task, condition, number of copies, seed, length of episodes or version
                of the simulator, or a field is missing or wrong; the message names it, and nothing has changed then.
        """
        require_same(state, self._identity())
        rig = array_from(state, "rig", like=np.stack([self.rig.save_state(0)] * self.num_envs))
        remembered = {name: array_from(state, name, like=now) for name, now in self._remembered().items()}
        streams = {name: streams_from_text(state, name, count=self.num_envs) for name in self._named_streams()}
        for env, saved in enumerate(rig):
            self.rig.restore_state(env, saved)
        for name, now in self._remembered().items():
            now[...] = remembered[name]
        for name, generators in self._named_streams().items():
            generators.update(enumerate(streams[name]))
        self._was_reset[:] = True
        self._is_ready = True
        self._begin(np.arange(0))  # no copy forgets anything, but what was measured is measured again
        return self._observation()

    def _identity(self) -> dict[str, Any]:
        """Give what must be the same where a state is loaded."""
        return {
            "task": self._substream,
            "condition_id": self.condition_id,
            "robots": ", ".join(self.agent_uids),
            "num_envs": self.num_envs,
            "root_seed": self.root_seed,
            "episode_length": self.episode_length,
            "simulator": self.rig.name,
        }

    def _remembered(self) -> dict[str, NDArray[Any]]:
        own = {f"memory.{name}": array for name, array in self._memory().items()}
        return {"goal": self.goal, "elapsed_steps": self.elapsed_steps, **own}

    def _named_streams(self) -> dict[str, dict[int, np.random.Generator]]:
        return {f"streams.{name}": generators for name, generators in self._streams().items()}

    # --- shared pieces of tasks -----------------------------------------------------------------------------

    def arm_qvel(self, uid: str) -> FloatArray:
        """Give the joint velocities of an arm without its fingers, rad/s, shape ``(num_envs, arm_dof)``."""
        return self.rig.qvel(uid)[:, self._models[uid].arm_joints]

    def is_static(self, uid: str, threshold: float) -> NDArray[np.bool_]:
        """Say where no joint but those of the gripper is faster than ``threshold``, rad/s, shape ``(num_envs,)``."""
        return np.abs(self.rig.qvel(uid)[:, self._models[uid].body_joints]).max(axis=1) <= threshold

    def tcp_pose(self, uid: str) -> FloatArray:
        """Give the pose of a robot's tool centre point, shape ``(num_envs, 7)``."""
        return self.rig.link_pose(uid, self._models[uid].tcp_link)

    # --- private --------------------------------------------------------------------------------------------

    def _plain(self, values: NDArray[Any]) -> Any:
        """Give a copy: a plain number for a single environment, else an array."""
        return values.item() if self.num_envs == 1 else values.copy()

    def _seed_generators(self, seed: int | Sequence[int] | None, env_idx: NDArray[np.int64]) -> None:
        if seed is None:
            return
        seeds = seeds_of_copies(seed, count=len(env_idx))
        super().reset(seed=seeds[0])  # Gymnasium promises a seeded `np_random`; no task draws from it
        for env, value in zip(env_idx, seeds, strict=True):
            self._start_stream(int(env), f"{self._substream}.episode.{value}")

    def _observation_space(self) -> spaces.Dict:
        return rig_observation_space(
            joints={uid: self._models[uid].n_joints for uid in self.agent_uids},
            extras=self._extra_sizes(),
            sensors=self._sensors,
            num_envs=self.num_envs,
        )

    def _observation(self) -> Observation:
        obs = self.privileged_observation()
        if self._sensors:
            obs["sensor_data"] = {camera.name: self._sensor_picture(camera.name) for camera in self._sensors}
        return obs

    def _sensor_picture(self, camera: str) -> dict[str, NDArray[Any]]:
        pictures = [self.rig.render(camera, env=env) for env in range(self.num_envs)]
        return {
            "rgb": np.stack([picture.rgb for picture in pictures]),
            "depth": np.stack([picture.depth for picture in pictures])[..., None],
        }
