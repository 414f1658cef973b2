"""The flat state vectors of co-carry, and the environment that trainers step.

Layout version 2: the sign of the bar's quaternion is the one with w >= 0, so that one orientation is one state.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from chamber.envs._spaces import AnyEnv, Observation
from chamber.envs._state_synthesis import Float32Array, StateField, StateSynthesizer, pose_field
from chamber.envs._training_state import MemorylessWrapper
from chamber.envs.cocarry import COCARRY_DEFAULT_EPISODE_LENGTH, CoCarryEnv, make_cocarry_env
from chamber.envs.errors import ChamberEnvCompatibilityError

__all__ = [
    "COCARRY_STATE_LAYOUT_VERSION",
    "CoCarryEgoStateSynthesizer",
    "adapt_partner_joints",
    "make_cocarry_training_env",
    "with_cocarry_states",
]

COCARRY_STATE_LAYOUT_VERSION = 2
"""Version 1 took the quaternion's sign as the simulator gave it."""

_PANDA_ARM_DOF = 7
_PANDA_FINGERS = 2
_XARM6_UID = "xarm6_robotiq"
_XARM6_ARM_DOF = 6


def adapt_partner_joints(joints: Float32Array, *, arm_dof: int) -> Float32Array:
    """Give joint values of any arm in the nine places of a Panda: seven for the arm, two for the gripper.

    The first ``arm_dof`` values fill the places of the arm and the others those of the gripper; what is too much is
    left out, what is missing is 0. A Panda's nine values stay as they are.

    Args:
        joints: shape ``(n, k)``.
        arm_dof: how many of the k belong to the arm.

    Returns:
        Shape ``(n, 9)``.
    """
    if arm_dof == _PANDA_ARM_DOF and joints.shape[1] == _PANDA_ARM_DOF + _PANDA_FINGERS:
        return joints
    adapted = np.zeros((len(joints), _PANDA_ARM_DOF + _PANDA_FINGERS), dtype=np.float32)
    arm = joints[:, :arm_dof][:, :_PANDA_ARM_DOF]
    gripper = joints[:, arm_dof:][:, :_PANDA_FINGERS]
    adapted[:, : arm.shape[1]] = arm
    adapted[:, _PANDA_ARM_DOF : _PANDA_ARM_DOF + gripper.shape[1]] = gripper
    return adapted


class CoCarryEgoStateSynthesizer(MemorylessWrapper, gym.ObservationWrapper[Observation, Any, Observation]):
    """Adds the ``state`` of both robots to a co-carry environment.

    The ego's (46) is its qpos (9) and qvel (9), the partner's in the places of a Panda (9 and 9), the pose of the bar
    (7), the goal (3). The partner's (18) is its own qpos and qvel in the same places. An ego that was trained beside
    one body therefore fits beside another. A single environment gives flat vectors, n copies give ``(n, 46)``.

    Args:
        env: co-carry environment, or a wrapper that forwards ``ego_uid`` and ``partner_uid``.
        partner_arm_dof: joints of the partner's arm.

    Raises:
        TypeError: a field is missing in the declared space or has another size; the message names it.
        ValueError: ``partner_arm_dof`` is negative.
    """

    def __init__(self, env: AnyEnv, *, partner_arm_dof: int = _PANDA_ARM_DOF) -> None:
        super().__init__(env)
        if partner_arm_dof < 0:
            raise ValueError(f"partner_arm_dof must be >= 0, got {partner_arm_dof}")
        ego, partner = env.get_wrapper_attr("ego_uid"), env.get_wrapper_attr("partner_uid")

        def in_places_of_a_panda(joints: Float32Array) -> Float32Array:
            return adapt_partner_joints(joints, arm_dof=partner_arm_dof)

        partner_joints = tuple(
            StateField(("agent", partner, channel), adapt=in_places_of_a_panda) for channel in ("qpos", "qvel")
        )
        self._synthesize = StateSynthesizer(
            env.observation_space,
            {
                ego: (
                    StateField(("agent", ego, "qpos")),
                    StateField(("agent", ego, "qvel")),
                    *partner_joints,
                    pose_field("extra", "bar_pose"),
                    StateField(("extra", "goal_pos"), size=3),
                ),
                partner: partner_joints,
            },
            owner=type(self).__name__,
        )
        self.observation_space = self._synthesize.observation_space

    def observation(self, observation: Observation) -> Observation:
        """Give a copy of the observation with the states in it.

        Raises:
            TypeError: a field is missing, or has another shape than declared.
        """
        return self._synthesize(observation)


def make_cocarry_training_env(
    *, condition_id: str = "cocarry_matched_panda_pair", episode_length: int | None = None, **options: Any
) -> CoCarryEgoStateSynthesizer:
    """Build a co-carry environment with state vectors.

    Args:
        condition_id: see `chamber.envs.cocarry.cocarry_conditions`.
        episode_length: control steps; None is `chamber.envs.cocarry.COCARRY_DEFAULT_EPISODE_LENGTH`.
        **options: what else `chamber.envs.cocarry.make_cocarry_env` takes.

    Raises:
        ValueError: an argument is unknown or out of range.
        ChamberEnvCompatibilityError: the simulator is missing, or the environment gives another reward than the
            normalised dense one.
    """
    length = COCARRY_DEFAULT_EPISODE_LENGTH if episode_length is None else episode_length
    env = make_cocarry_env(condition_id=condition_id, episode_length=length, **options)
    if env.reward_mode != "normalized_dense":
        env.close()
        raise ChamberEnvCompatibilityError(
            f"training needs reward_mode 'normalized_dense', the environment has {env.reward_mode!r} (ADR-001 §Risks)"
        )
    return with_cocarry_states(env)


def with_cocarry_states(env: CoCarryEnv) -> CoCarryEgoStateSynthesizer:
    """Add the state vectors to a co-carry environment, whichever body its partner has."""
    return CoCarryEgoStateSynthesizer(
        env, partner_arm_dof=_XARM6_ARM_DOF if env.partner_uid == _XARM6_UID else _PANDA_ARM_DOF
    )
