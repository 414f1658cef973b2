"""Stage-1 pick-place: a Panda brings a cube to a goal in the air, with a second robot in its cell.

The ego is the Panda with the wrist camera; its partner is a second Panda across the table or a Fetch beside it. The
four conditions vary the partner's body (AS) or what is seen (OM). One robot can do the task alone, which makes it a
control for tasks that need two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chamber.agents.joint_delta import JointDeltaDrive
from chamber.envs._panda_poses import PANDA_RETRACTED_QPOS
from chamber.envs._spaces import AnyEnv
from chamber.envs._stage1_rules import (
    CUBE_HALF_SIZE_M,
    CUBE_SPAWN_CENTRE_XY_M,
    CUBE_SPAWN_HALF_WIDTH_M,
    DEFAULT_EPISODE_LENGTH,
    EGO_UID,
    FETCH_CARTESIAN_ACCEL_CAPACITY_MS2,
    FETCH_SAFETY_RADIUS_M,
    FETCH_UID,
    GOAL_THRESHOLD_M,
    MAX_GOAL_HEIGHT_M,
    MINIMUM_SAFETY_RADIUS_BY_UID,
    PANDA_CARTESIAN_ACCEL_CAPACITY_MS2,
    PANDA_PARTNER_UID,
    PANDA_SAFETY_RADIUS_M,
    STATIC_JOINT_SPEED_RAD_S,
    SYNTHESISED_FT_NOISE_SIGMA_N,
    ConditionConfig,
    build_control_models_for_condition,
    resolve_condition,
    validate_safety_radii,
)
from chamber.envs._stage1_safety import base_rotation, fetch_control_model, panda_control_model, tcp_jacobian
from chamber.envs._stage1_scene import AGENT_BASE_POSE_XYZ, AGENT_BASE_YAW, CUBE, GOAL_MARKER, pickplace_scene
from chamber.envs._stage1_scoring import is_pressed_open, normalized_reward
from chamber.envs.rig_task import EpisodeStart, RigTaskEnv
from chamber.envs.stage1_obs_filter import Stage1ASStateSynthesizer, Stage1OMChannelFilter
from chamber.envs.stage1_vector import Stage1AutoResetWrapper
from chamber.sim.robots import robot_model
from concerto.safety.api import AgentControlModel, AgentSnapshot, Bounds
from ripieno.randomness import derive_substream

__all__ = [
    "CUBE_HALF_SIZE_M",
    "CUBE_SPAWN_CENTRE_XY_M",
    "CUBE_SPAWN_HALF_WIDTH_M",
    "DEFAULT_EPISODE_LENGTH",
    "FETCH_CARTESIAN_ACCEL_CAPACITY_MS2",
    "FETCH_SAFETY_RADIUS_M",
    "GOAL_THRESHOLD_M",
    "MAX_GOAL_HEIGHT_M",
    "PANDA_CARTESIAN_ACCEL_CAPACITY_MS2",
    "PANDA_SAFETY_RADIUS_M",
    "SYNTHESISED_FT_NOISE_SIGMA_N",
    "ConditionConfig",
    "Stage1PickPlaceEnv",
    "build_control_models_for_condition",
    "make_stage1_pickplace_env",
    "resolve_condition",
]

FloatArray = NDArray[np.float64]

_SUBSTREAM_NAME = "env.stage1_pickplace"
_AGENT_BASE_POSE_XYZ = AGENT_BASE_POSE_XYZ
_MINIMUM_SAFETY_RADIUS_BY_UID = MINIMUM_SAFETY_RADIUS_BY_UID
_validate_safety_radii = validate_safety_radii

_SAFETY_RADIUS_BY_UID: Mapping[str, float] = {
    EGO_UID: PANDA_SAFETY_RADIUS_M,
    PANDA_PARTNER_UID: PANDA_SAFETY_RADIUS_M,
    FETCH_UID: FETCH_SAFETY_RADIUS_M,
}


class Stage1PickPlaceEnv(RigTaskEnv):
    """Pick the cube up and hold it still at the goal; `make_stage1_pickplace_env` adds the wrappers of a condition.

    Cube and goal start at random places of a 10 cm square; the goal is up to 30 cm above the cube's rest. The episode
    is won when the cube is within 2.5 cm of the goal while the ego's arm stands still, held or not.

    ``obs["extra"]`` has ``tcp_pose``, ``goal_pos``, ``cube_pose``, ``cube_to_tcp_pos``, ``cube_to_goal_pos`` and
    ``force_torque``: the net contact forces on the ego's two fingers (N, world axes, left then right) with Gaussian
    noise, which stands in for a wrist sensor and is none.

    Args:
        condition_id: see `resolve_condition`.
        episode_length: control steps until ``truncated``.
        root_seed: seed of the run.
        num_envs: number of copies.
        render_mode: ``"rgb_array"`` or None.
        render_backend: ``"none"`` switches rendering off; conditions that observe pictures then cannot be built.
        force_torque_noise_sigma: N per component, >= 0.
        backend: ``"auto"`` or ``"mujoco"``.

    Raises:
        ValueError: an argument is out of range.
        ChamberEnvCompatibilityError: the simulator is missing, or the condition observes pictures and there is no
            rendering.
    """

    SUPPORTED_ROBOTS = ((EGO_UID, PANDA_PARTNER_UID), (EGO_UID, FETCH_UID))

    def __init__(
        self,
        *,
        condition_id: str,
        episode_length: int = DEFAULT_EPISODE_LENGTH,
        root_seed: int = 0,
        num_envs: int = 1,
        render_mode: str | None = None,
        render_backend: str | None = None,
        force_torque_noise_sigma: float = SYNTHESISED_FT_NOISE_SIGMA_N,
        backend: str = "auto",
    ) -> None:
        condition = resolve_condition(condition_id)
        if not (math.isfinite(force_torque_noise_sigma) and force_torque_noise_sigma >= 0.0):
            raise ValueError(f"force_torque_noise_sigma must be finite and >= 0, got {force_torque_noise_sigma}")
        self._condition = condition
        self._goal_thresh = GOAL_THRESHOLD_M
        self._force_torque_noise_sigma = force_torque_noise_sigma
        self._noise_generators: dict[int, np.random.Generator] = {}
        # Of two Pandas that face each other over the same point the second one starts drawn back: with equal joints
        # their hands would be one inside the other.
        self._start_qpos = {uid: robot_model(uid).ready_qpos for uid in condition.agent_uids}
        if PANDA_PARTNER_UID in self._start_qpos:
            self._start_qpos[PANDA_PARTNER_UID] = np.array(PANDA_RETRACTED_QPOS)
        super().__init__(
            scene=pickplace_scene(condition),
            agent_uids=condition.agent_uids,
            condition_id=condition.condition_id,
            substream=_SUBSTREAM_NAME,
            episode_length=episode_length,
            root_seed=root_seed,
            num_envs=num_envs,
            render_mode=render_mode,
            render_backend=render_backend,
            backend=backend,
        )
        self._force_torque_noise: FloatArray = np.zeros((num_envs, 6))
        self._finger_links = self._models[self.ego_uid].finger_links
        self._opening_axes = tuple(
            np.array(self._models[self.ego_uid].opening_axes[link]) for link in self._finger_links
        )
        scene = self.rig.scene
        self._drive = JointDeltaDrive(physics_timestep=scene.physics_timestep, substeps=scene.substeps)
        self._safety_radii = {uid: _SAFETY_RADIUS_BY_UID[uid] for uid in self.agent_uids}
        _validate_safety_radii(self._safety_radii)
        for camera in self._sensors:
            self.rig.render(camera.name)  # a machine without rendering is found out here, not in the first episode

    # --- what the environment is ----------------------------------------------------------------------------

    @property
    def condition_config(self) -> ConditionConfig:
        """The condition."""
        return self._condition

    @property
    def num_envs_requested(self) -> int:
        """Number of copies."""
        return self.num_envs

    # --- episodes -------------------------------------------------------------------------------------------

    def _start_stream(self, env: int, name: str) -> None:
        super()._start_stream(env, name)
        self._noise_generators[env] = derive_substream(f"{name}.force_torque", root_seed=self.root_seed).default_rng()

    def _draw_start(self, rng: np.random.Generator) -> EpisodeStart:
        half_width = CUBE_SPAWN_HALF_WIDTH_M
        cube_xy = CUBE_SPAWN_CENTRE_XY_M + rng.uniform(-half_width, half_width, 2)
        goal_xy = CUBE_SPAWN_CENTRE_XY_M + rng.uniform(-half_width, half_width, 2)
        goal = np.array([*goal_xy, rng.uniform(0.0, MAX_GOAL_HEIGHT_M) + CUBE_HALF_SIZE_M])
        return EpisodeStart(
            joint_positions=self._start_qpos,
            body_poses={
                CUBE: np.array([*cube_xy, CUBE_HALF_SIZE_M, 1.0, 0.0, 0.0, 0.0]),
                GOAL_MARKER: np.array([*goal, 1.0, 0.0, 0.0, 0.0]),
            },
            goal=goal,
        )

    def _begin(self, env_idx: NDArray[np.int64]) -> None:
        self._draw_noise(env_idx)

    def _accumulate(self) -> None:
        self._draw_noise(np.arange(self.num_envs))

    def _memory(self) -> Mapping[str, NDArray[Any]]:
        return {"force_torque_noise": self._force_torque_noise}

    def _streams(self) -> Mapping[str, dict[int, np.random.Generator]]:
        return {**super()._streams(), "force_torque": self._noise_generators}

    def _draw_noise(self, env_idx: NDArray[np.int64]) -> None:
        """Draw the noise of the coming observation once, so that reading it twice gives the same."""
        if self._force_torque_noise_sigma > 0.0:
            for env in env_idx:
                self._force_torque_noise[env] = self._noise_generators[env].normal(
                    0.0, self._force_torque_noise_sigma, 6
                )

    # --- observation, success, reward -----------------------------------------------------------------------

    def _extra_sizes(self) -> Mapping[str, int]:
        return {
            "cube_pose": 7,
            "cube_to_goal_pos": 3,
            "cube_to_tcp_pos": 3,
            "force_torque": 6,
            "goal_pos": 3,
            "tcp_pose": 7,
        }

    def _extra_observation(self) -> Mapping[str, FloatArray]:
        cube, tcp = self.rig.body_pose(CUBE), self.tcp_pose(self.ego_uid)
        forces = [self.rig.net_force(self.ego_uid, link) for link in self._finger_links]
        return {
            "cube_pose": cube,
            "cube_to_goal_pos": self.goal - cube[:, :3],
            "cube_to_tcp_pos": cube[:, :3] - tcp[:, :3],
            "force_torque": np.concatenate(forces, axis=1) + self._force_torque_noise,
            "goal_pos": self.goal,
            "tcp_pose": tcp,
        }

    def evaluate(self) -> dict[str, NDArray[Any]]:
        """Give ``success`` = ``is_obj_placed`` and ``is_robot_static``, and ``is_grasped``, each of shape ``(n,)``."""
        offset = self.goal - self.rig.body_pose(CUBE)[:, :3]
        is_placed = np.einsum("ij,ij->i", offset, offset) <= GOAL_THRESHOLD_M**2
        is_static = self.is_static(self.ego_uid, STATIC_JOINT_SPEED_RAD_S)
        return {
            "is_obj_placed": is_placed,
            "is_grasped": self.is_grasped(),
            "is_robot_static": is_static,
            "success": is_placed & is_static,
        }

    def is_grasped(self) -> NDArray[np.bool_]:
        """Say where both fingers press on the cube, shape ``(n,)``; see `_stage1_scoring.is_pressed_open`."""
        pressed = [
            is_pressed_open(
                self.rig.link_pair_force(self.ego_uid, link, CUBE),
                self.rig.link_pose(self.ego_uid, link)[:, 3:],
                axis,
            )
            for link, axis in zip(self._finger_links, self._opening_axes, strict=True)
        ]
        return pressed[0] & pressed[1]

    def compute_normalized_dense_reward(self, evaluation: Mapping[str, NDArray[Any]]) -> FloatArray:
        """Give the reward in [0, 1], shape ``(n,)``; see `_stage1_scoring.normalized_reward`."""
        return normalized_reward(
            self.tcp_pose(self.ego_uid),
            self.rig.body_pose(CUBE),
            self.goal,
            self.arm_qvel(self.ego_uid),
            evaluation["is_grasped"],
            evaluation["is_obj_placed"],
            evaluation["success"],
        )

    def privileged_settle_state(self) -> dict[str, FloatArray]:
        """Give ``ego_qvel`` (n, 9), ``cube_pos`` (n, 3) and ``goal_pos`` (n, 3) of this instant, for shaping only."""
        return {
            "ego_qvel": self.rig.qvel(self.ego_uid),
            "cube_pos": self.rig.body_pose(CUBE)[:, :3],
            "goal_pos": self.goal.copy(),
        }

    # --- what the safety filter asks ------------------------------------------------------------------------

    def build_control_models(self) -> dict[str, AgentControlModel]:
        """Give how an action of each robot accelerates the centre of its sphere, ego first; they read the live rig.

        A model uses the joint positions of the snapshot it is given, and the measured ones when that has none.
        """
        return {uid: self._fetch_model(uid) if uid == FETCH_UID else self._panda_model(uid) for uid in self.agent_uids}

    def _panda_model(self, uid: str) -> AgentControlModel:
        return panda_control_model(
            uid,
            action_dim=self._widths[uid],
            base_yaw=AGENT_BASE_YAW[uid],
            drive=self._drive,
            measured_arm_qpos=lambda: self._arm_qpos(uid),
        )

    def _fetch_model(self, uid: str) -> AgentControlModel:
        return fetch_control_model(
            uid,
            action_dim=self._widths[uid],
            control_timestep=self.control_timestep,
            measured_heading=lambda: AGENT_BASE_YAW[uid] + float(self._measured(uid)[2]),
        )

    def build_agent_snapshots(self) -> dict[str, AgentSnapshot]:
        """Give where the robots are and how they move at this instant; it changes nothing.

        A Panda is a sphere around its tool centre point, with its arm's joint positions; the Fetch one around its base.

        Raises:
            RuntimeError: there are several copies (run them with ``safety.enabled=false``), or there was no reset.
        """
        return {
            uid: self._fetch_snapshot(uid) if uid == FETCH_UID else self._panda_snapshot(uid) for uid in self.agent_uids
        }

    def _panda_snapshot(self, uid: str) -> AgentSnapshot:
        arm_qpos = self._arm_qpos(uid)
        return AgentSnapshot(
            position=self.tcp_pose(uid)[0, :3].copy(),
            velocity=tcp_jacobian(arm_qpos, AGENT_BASE_YAW[uid]) @ self.arm_qvel(uid)[0],
            radius=self._safety_radii[uid],
            qpos=arm_qpos,
        )

    def _fetch_snapshot(self, uid: str) -> AgentSnapshot:
        self._measured(uid)
        planar_velocity = self.rig.qvel(uid)[0, :2]
        return AgentSnapshot(
            position=self.rig.link_pose(uid, "base_link")[0, :3].copy(),
            velocity=base_rotation(AGENT_BASE_YAW[uid]) @ np.array([*planar_velocity, 0.0]),
            radius=self._safety_radii[uid],
        )

    def build_bounds(self) -> Bounds:
        """Give the limits of a control step; an action component is in [-1, 1], which spans 0.1 rad of a joint."""
        return Bounds(
            action_linf_component=1.0,
            cartesian_accel_capacity=PANDA_CARTESIAN_ACCEL_CAPACITY_MS2,
            action_rate=10.0,
            comm_latency_ms=0.0,
            force_limit=50.0,
        )

    def _arm_qpos(self, uid: str) -> FloatArray:
        return self._measured(uid)[self._models[uid].arm_joints].copy()

    def _measured(self, uid: str) -> FloatArray:
        if self.num_envs > 1:
            raise RuntimeError(
                f"snapshots and control models are for one environment, this one has {self.num_envs} copies; "
                "run it with safety.enabled=false"
            )
        if not self._was_reset.all():
            raise RuntimeError("call reset() before reading where the robots are")
        return self.rig.qpos(uid)[0]


def make_stage1_pickplace_env(
    *,
    condition_id: str,
    episode_length: int = DEFAULT_EPISODE_LENGTH,
    root_seed: int = 0,
    num_envs: int = 1,
    render_mode: str | None = None,
    render_backend: str | None = None,
    force_torque_noise_sigma: float = SYNTHESISED_FT_NOISE_SIGMA_N,
    backend: str = "auto",
) -> AnyEnv:
    """Build pick-place with the observation wrappers of its condition; several copies restart by themselves.

    Args are those of `Stage1PickPlaceEnv`.

    Raises:
        ValueError: an argument is out of range; an unknown condition is found before anything is built.
        ChamberEnvCompatibilityError: the simulator cannot build or show the scene.
    """
    inner = Stage1PickPlaceEnv(
        condition_id=condition_id,
        episode_length=episode_length,
        root_seed=root_seed,
        num_envs=num_envs,
        render_mode=render_mode,
        render_backend=render_backend,
        force_torque_noise_sigma=force_torque_noise_sigma,
        backend=backend,
    )
    env: AnyEnv = Stage1OMChannelFilter(Stage1ASStateSynthesizer(inner))
    return Stage1AutoResetWrapper(env) if num_envs > 1 else env
