"""Co-carry: two arms carry one bar, level, to a goal. Success is joint; one arm alone drops the free end.

This is ``cocarry@v2``. In the first version the forearms overlapped by 57 mm and the bar stood in the fingers at the
start, and the stress that it measured was that collision. Here arms and bar pass through each other, stress is the
force in the holds, and the stress limits were derived again by the documented rule (`chamber.envs._force_limits`).
The documented constants stay here, as defaults of the pure functions and for ``limits="documented"``.
"""

# pyright: reportWildcardImportFromLibrary=false
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import chamber.envs._cocarry_rules as _rules
from chamber.envs._cocarry_kernels import judge_step, reward_of_step
from chamber.envs._cocarry_limits import CoCarryLimits, derive_stress_limits, resolve_cocarry_limits
from chamber.envs._cocarry_rules import *  # noqa: F403 - the task has every name of its rules
from chamber.envs._cocarry_rules import (
    COCARRY_BAR_LENGTH_M,
    COCARRY_BASE_X_M,
    COCARRY_DEFAULT_EPISODE_LENGTH,
    COCARRY_GOAL_CENTROID_XYZ,
    COCARRY_GOAL_JITTER_HALF_M,
    COCARRY_GOAL_THRESH_M,
    COCARRY_READY_QPOS,
    COCARRY_RETRACTED_QPOS,
    COCARRY_REWARD_LEVEL_COEFF,
    COCARRY_REWARD_LEVEL_TANH_SCALE,
    COCARRY_REWARD_NORMALIZER,
    COCARRY_REWARD_SETTLE_COEFF,
    COCARRY_REWARD_STRESS_COEFF,
    COCARRY_REWARD_SUCCESS_BONUS,
    COCARRY_REWARD_TANH_SCALE,
    COCARRY_REWARD_TRANSPORT_COEFF,
    COCARRY_SETTLE_WINDOW_STEPS,
    COCARRY_STATIC_QVEL_THRESH,
    COCARRY_TILT_MAX_DEG,
    COCARRY_XARM6_BASE_X_M,
    COCARRY_XARM6_READY_QPOS,
    CoCarryCondition,
    Coupling,
    cocarry_coupling,
    resolve_cocarry_condition,
)
from chamber.envs._cocarry_scene import BAR, COLLISIONS, GOAL_MARKER, bar_holds, cocarry_scene, level_bar_pose
from chamber.envs._cocarry_stress import STRESS_MEASURES, stress_measure
from chamber.envs._integers import require_integer
from chamber.envs.rig_task import EpisodeStart, RigTaskEnv
from chamber.sim.robots import JointIndex

__all__ = [
    "COLLISIONS",
    "STRESS_MEASURES",
    "CoCarryEnv",
    "CoCarryLimits",
    "derive_stress_limits",
    "make_cocarry_env",
    "resolve_cocarry_limits",
]
__all__ += _rules.__all__

FloatArray = NDArray[np.float64]


class CoCarryEnv(RigTaskEnv):
    """The co-carry task on a simulated rig; `make_cocarry_env` makes one from names and numbers.

    Args:
        condition: who carries.
        goal_centre: middle of the region where goals are drawn, m, shape ``(3,)``.
        coupling: how the arms hold the bar.
        is_rigid: they hold it by ball joints that do not give; ``coupling`` is then only a force limit.
        measure: name of the stress measure.
        partner_base_x: where the partner stands, m.
        partner_qpos: where it starts, shape ``(n_joints,)``.
        limits: what stress is too much.
        dwell_steps: control steps in a row for which success must hold.
        collision: one of `COLLISIONS`.
        episode_length, root_seed, num_envs, render_mode, render_backend, backend: see `RigTaskEnv`.
    """

    def __init__(
        self,
        *,
        condition: CoCarryCondition,
        goal_centre: FloatArray,
        coupling: Coupling,
        is_rigid: bool,
        measure: str,
        partner_base_x: float,
        partner_qpos: FloatArray,
        limits: CoCarryLimits,
        dwell_steps: int,
        collision: str,
        episode_length: int,
        root_seed: int,
        num_envs: int,
        render_mode: str | None,
        render_backend: str | None,
        backend: str,
    ) -> None:
        holds = bar_holds(condition)
        self.condition_config = condition
        self.coupling = coupling
        self.limits = limits
        self.dwell_steps = require_integer("dwell_steps", dwell_steps, at_least=1)
        self._goal_centre = goal_centre
        ego, partner = condition.agent_uids
        self._ready = {ego: np.array(COCARRY_READY_QPOS), partner: partner_qpos}
        self._stress_of = stress_measure(measure, holds=holds, coupling=coupling, is_rigid=is_rigid)
        super().__init__(
            scene=cocarry_scene(
                condition,
                holds=holds,
                spring=None if is_rigid else coupling,
                partner_base_x=partner_base_x,
                collision=collision,
            ),
            agent_uids=condition.agent_uids,
            condition_id=condition.condition_id,
            substream="env.cocarry",
            episode_length=episode_length,
            root_seed=root_seed,
            num_envs=num_envs,
            render_mode=render_mode,
            render_backend=render_backend,
            backend=backend,
        )
        self._bar_start = self._level_between_hands()
        self._max_tilt_deg = np.zeros(num_envs)
        self._max_stress = np.zeros(num_envs)
        self._steps_met = np.zeros(num_envs, dtype=np.int64)
        self._holding = tuple(hold.uid for hold in holds)
        self._thresholds = np.array(
            [COCARRY_GOAL_THRESH_M, COCARRY_TILT_MAX_DEG, limits.stress_max_n, COCARRY_STATIC_QVEL_THRESH]
        )
        self._reward_weights = _reward_weights(limits)
        models = [self._models[uid] for uid in self._holding]
        self._arms = tuple(_places(model.arm_joints, model.n_joints) for model in models)
        self._bodies = tuple(_places(model.body_joints, model.n_joints) for model in models)
        self._measure()

    @property
    def single_arm(self) -> bool:
        """Whether the partner stands aside."""
        return self.condition_config.single_arm

    @property
    def goal_centroid(self) -> FloatArray:
        """Where the middle of the bar shall be, m, shape ``(num_envs, 3)``."""
        return self.goal.copy()

    def privileged_transport_distance(self) -> FloatArray:
        """Give the distance of the middle of the bar to the goal, m, shape ``(num_envs,)``."""
        return self._distance.copy()

    def get_telemetry(self) -> dict[str, Any]:
        """Give what happens to the bar: now, and at most since the settle window.

        Returns:
            ``tilt_deg``, ``stress_proxy`` (N), ``centroid_to_goal`` (m), ``max_tilt_deg``, ``max_stress_proxy``: plain
            numbers for a single environment, else arrays of shape ``(num_envs,)``.
        """
        values = {
            "tilt_deg": self._tilt_deg,
            "stress_proxy": self._stress,
            "centroid_to_goal": self._distance,
            "max_tilt_deg": self._max_tilt_deg,
            "max_stress_proxy": self._max_stress,
        }
        return {name: self._plain(value) for name, value in values.items()}

    def evaluate(self) -> dict[str, NDArray[Any]]:
        """Give ``success`` and its parts as they were after the last step, each of shape ``(num_envs,)``."""
        is_placed, is_level, is_unstressed, both_static, is_settled = self._flags
        return {
            "success": self._steps_met >= self.dwell_steps,
            "is_placed": is_placed,
            "is_level": is_level,
            "is_unstressed": is_unstressed,
            "both_static": both_static,
            "is_settled": is_settled,
            "centroid_to_goal": self._distance,
            "max_tilt_deg": self._max_tilt_deg.copy(),
            "max_stress_proxy": self._max_stress.copy(),
        }

    def compute_normalized_dense_reward(self, evaluation: Mapping[str, NDArray[Any]]) -> FloatArray:
        """Give the reward that both robots share, at most 1, shape ``(num_envs,)``.

        ``R = T + L + S * placed - P * settled`` with nearness ``T = 1 - tanh(5 distance)``, levelness
        ``L = 1 - tanh(5 tilt)``, stillness ``S = 1 - tanh(5 max_arm ||qvel||)`` and the stress penalty ``P`` of
        `cocarry_excess_stress_penalty`; a success gives ``R = 5``. The reward is ``R / 5``.
        """
        return reward_of_step(
            self._distance,
            self._tilt_deg,
            self._arm_speed,
            self._stress,
            evaluation["is_placed"],
            evaluation["is_settled"],
            evaluation["success"],
            self._reward_weights,
        )

    # --- what the base class asks for -----------------------------------------------------------------------

    def _draw_start(self, rng: np.random.Generator) -> EpisodeStart:
        jitter = rng.uniform(-COCARRY_GOAL_JITTER_HALF_M, COCARRY_GOAL_JITTER_HALF_M, 3)
        goal = self._goal_centre + jitter
        return EpisodeStart(self._ready, {BAR: self._bar_start, GOAL_MARKER: level_bar_pose(goal)}, goal)

    def _extra_sizes(self) -> Mapping[str, int]:
        return {"goal_pos": 3, "bar_pose": 7, "bar_tilt_deg": 1, "wrist_stress_proxy": 1}

    def _extra_observation(self) -> Mapping[str, FloatArray]:
        return {
            "goal_pos": self.goal,
            "bar_pose": self._bar_pose,
            "bar_tilt_deg": self._tilt_deg[:, None],
            "wrist_stress_proxy": self._stress[:, None],
        }

    def _begin(self, env_idx: NDArray[np.int64]) -> None:
        self._max_tilt_deg[env_idx] = 0.0
        self._max_stress[env_idx] = 0.0
        self._steps_met[env_idx] = 0
        self._measure()

    def _accumulate(self) -> None:
        self._measure(is_new_step=True)

    def _memory(self) -> Mapping[str, NDArray[Any]]:
        return {"max_tilt_deg": self._max_tilt_deg, "max_stress": self._max_stress, "steps_met": self._steps_met}

    def _measure(self, *, is_new_step: bool = False) -> None:
        """Read from the rig, once per step, what evaluation, reward and observation share."""
        self._bar_pose = self.rig.body_pose(BAR)
        self._stress = self._stress_of(self.rig)
        self._distance, self._tilt_deg, self._arm_speed, self._flags = judge_step(
            self._bar_pose,
            self.goal,
            self._stress,
            tuple([self.rig.qvel(uid) for uid in self._holding]),
            self._arms,
            self._bodies,
            self.elapsed_steps,
            COCARRY_SETTLE_WINDOW_STEPS,
            self._thresholds,
            self._max_tilt_deg,
            self._max_stress,
            self._steps_met,
            is_new_step,
        )

    def _level_between_hands(self) -> FloatArray:
        """The pose of the bar whose ends are where the hands are when the arms are ready."""
        copies = self.num_envs
        self.rig.reset({uid: np.tile(qpos, (copies, 1)) for uid, qpos in self._ready.items()}, {})
        ego_hand = self.tcp_pose(self.ego_uid)[0, :3]
        if self.single_arm:
            return level_bar_pose(ego_hand - np.array([COCARRY_BAR_LENGTH_M / 2, 0.0, 0.0]))
        return level_bar_pose((ego_hand + self.tcp_pose(self.partner_uid)[0, :3]) / 2.0)


def make_cocarry_env(
    *,
    condition_id: str = "cocarry_matched_panda_pair",
    episode_length: int = COCARRY_DEFAULT_EPISODE_LENGTH,
    root_seed: int = 0,
    num_envs: int = 1,
    render_mode: str | None = None,
    render_backend: str | None = None,
    goal_centroid: Sequence[float] | None = None,
    drive_stiffness: float | None = None,
    drive_damping: float | None = None,
    drive_force_limit: float | None = None,
    stress_measure: str = "wrist",
    xarm6_base_x: float | None = None,
    xarm6_ready_qpos: Sequence[float] | None = None,
    limits: str = "v2",
    dwell_steps: int = 1,
    collision: str = "filtered",
    backend: str = "auto",
) -> CoCarryEnv:
    """Build a co-carry environment.

    Args:
        condition_id: see `cocarry_conditions`.
        episode_length: control steps until ``truncated``.
        root_seed: seed of the run.
        num_envs: number of copies.
        render_mode: ``"rgb_array"`` or None.
        render_backend: see `chamber.envs._render_backend.resolve_render_backend`.
        goal_centroid: middle of the region where goals are drawn, m; None is `COCARRY_GOAL_CENTROID_XYZ`.
        drive_stiffness: None is a rigid ball joint in each hand; else a spring, N/m, for softer or saturating holds.
        drive_damping: of the spring, N s/m; None is a tenth of the stiffness, times one second.
        drive_force_limit: of the spring, N; None is no limit.
        stress_measure: one of `STRESS_MEASURES`.
        xarm6_base_x: where the xArm6 partner stands, m; only for its condition.
        xarm6_ready_qpos: where it starts, 12 joints; only for its condition.
        limits: ``"v2"`` or ``"documented"``, see `resolve_cocarry_limits`.
        dwell_steps: control steps in a row for which success must hold.
        collision: ``"filtered"``: arms and bar pass through each other; ``"legacy"``: they touch, for comparison with
            the first version of the task.
        backend: see `chamber.sim.make_backend`.

    Raises:
        ValueError: an argument is unknown or out of range.
        ChamberEnvCompatibilityError: the simulator is missing or cannot build the scene.

    Example:
        >>> env = make_cocarry_env()  # doctest: +SKIP
        >>> obs, info = env.reset(seed=5)  # doctest: +SKIP
        >>> obs["extra"]["bar_pose"].shape  # doctest: +SKIP
        (1, 7)
    """
    condition = resolve_cocarry_condition(condition_id)
    partner_base_x, partner_qpos = _partner_start(condition, base_x=xarm6_base_x, ready_qpos=xarm6_ready_qpos)
    goal_centre = COCARRY_GOAL_CENTROID_XYZ if goal_centroid is None else goal_centroid
    return CoCarryEnv(
        condition=condition,
        goal_centre=_vector("goal_centroid", goal_centre, size=3),
        coupling=cocarry_coupling(drive_stiffness, drive_damping, drive_force_limit),
        is_rigid=drive_stiffness is None,
        measure=stress_measure,
        partner_base_x=partner_base_x,
        partner_qpos=partner_qpos,
        limits=resolve_cocarry_limits(limits),
        dwell_steps=dwell_steps,
        collision=collision,
        episode_length=episode_length,
        root_seed=root_seed,
        num_envs=num_envs,
        render_mode=render_mode,
        render_backend=render_backend,
        backend=backend,
    )


def _partner_start(
    condition: CoCarryCondition, *, base_x: float | None, ready_qpos: Sequence[float] | None
) -> tuple[float, FloatArray]:
    """Where the partner stands and starts."""
    if condition.condition_id == "cocarry_xarm6_partner":
        qpos = _vector("xarm6_ready_qpos", COCARRY_XARM6_READY_QPOS if ready_qpos is None else ready_qpos, size=12)
        return float(_vector("xarm6_base_x", [COCARRY_XARM6_BASE_X_M if base_x is None else base_x], size=1)[0]), qpos
    if base_x is not None or ready_qpos is not None:
        raise ValueError("xarm6_base_x and xarm6_ready_qpos are only for the condition 'cocarry_xarm6_partner'")
    return COCARRY_BASE_X_M, np.array(COCARRY_RETRACTED_QPOS if condition.single_arm else COCARRY_READY_QPOS)


def _reward_weights(limits: CoCarryLimits) -> FloatArray:
    """The numbers of the reward in the order of `chamber.envs._cocarry_kernels.reward_of_step`."""
    return np.array(
        [
            COCARRY_REWARD_TRANSPORT_COEFF,
            COCARRY_REWARD_LEVEL_COEFF,
            COCARRY_REWARD_SETTLE_COEFF,
            COCARRY_REWARD_STRESS_COEFF,
            COCARRY_REWARD_TANH_SCALE,
            COCARRY_REWARD_LEVEL_TANH_SCALE,
            limits.stress_threshold_n,
            limits.stress_scale_n,
            COCARRY_REWARD_SUCCESS_BONUS,
            COCARRY_REWARD_NORMALIZER,
        ]
    )


def _places(joints: JointIndex, n_joints: int) -> NDArray[np.int64]:
    """The numbers of some joints of a robot."""
    return np.arange(n_joints)[joints]


def _vector(name: str, values: Sequence[float], *, size: int) -> FloatArray:
    vector = np.array(values, dtype=np.float64)
    if vector.shape != (size,) or not np.isfinite(vector).all():
        raise ValueError(f"{name} must be {size} finite numbers, got {values}")
    return vector
