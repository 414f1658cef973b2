"""Co-insert: one arm puts a peg into the socket that another arm holds in mid-air.

This is ``coinsert@v2``. In the first version the fingers met the rim of the socket 8 mm before the peg was in, so
nobody could solve it. Here fingers and workpieces pass through each other, peg and socket are bodies that are fixed to
the hands, and the force limits were derived by the documented rule (`chamber.envs._force_limits`). At rest means
that no joint is faster than 0.2 rad/s, as in co-carry. The bore is 12 flat walls around an inscribed circle, at steps
of 1 ms. Forces are read once per control step.
"""

# pyright: reportWildcardImportFromLibrary=false
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import chamber.envs._coinsert_rules as _rules
from chamber.envs._coinsert_limits import CoInsertLimits, resolve_coinsert_limits
from chamber.envs._coinsert_rules import *  # noqa: F403 - the task has every name of its rules
from chamber.envs._coinsert_rules import (
    COINSERT_AXIS_ALIGN_TOL_DEG,
    COINSERT_CLEARANCE_SET_M,
    COINSERT_DEFAULT_EPISODE_LENGTH,
    COINSERT_DEPTH_EPS_M,
    COINSERT_DEPTH_TARGET_M,
    COINSERT_EPISODE_LENGTH_MAX,
    COINSERT_EPISODE_LENGTH_MIN,
    COINSERT_PEG_DIAMETER_M,
    COINSERT_PEG_HALF_LENGTH_M,
    COINSERT_PEG_SOCKET_FRICTION,
    COINSERT_PROBE_PEG_HALF_LENGTH_M,
    COINSERT_SETTLE_VEL_THRESH,
    COINSERT_SETTLE_WINDOW_STEPS,
    COINSERT_SOCKET_OUTER_HALF_M,
    COINSERT_STATIC_QVEL_THRESH,
    CoInsertCondition,
    coinsert_reward,
    coinsert_socket_inner_half_width,
    insertion_geometry,
    resolve_coinsert_condition,
)
from chamber.envs._coinsert_scene import CLOSE_CAMERA, HOLD_LINK, PEG, SOCKET, coinsert_scene
from chamber.envs._coinsert_start import (
    COINSERT_HOLDER_QPOS,
    COINSERT_READY_QPOS,
    COINSERT_RETRACTED_QPOS,
    moved_aside,
)
from chamber.envs._force_limits import derive_force_limit
from chamber.envs._integers import require_integer
from chamber.envs.rig_task import EpisodeStart, RigTaskEnv

__all__ = [
    "CLOSE_CAMERA",
    "COINSERT_HOLDER_QPOS",
    "COINSERT_READY_QPOS",
    "COINSERT_RETRACTED_QPOS",
    "CoInsertEnv",
    "CoInsertLimits",
    "derive_force_limit",
    "make_coinsert_env",
    "resolve_coinsert_limits",
]
__all__ += _rules.__all__

FloatArray = NDArray[np.float64]

_GOAL_CENTRE = np.array([0.0, 0.0, 0.2])
_GOAL_JITTER_HALF_M = 0.01
_GRAVITY_M_S2 = 9.81
_LARGEST_START_OFFSET_M = 0.01


class CoInsertEnv(RigTaskEnv):
    """The co-insert task on a simulated rig; `make_coinsert_env` makes one from names and numbers.

    Args:
        condition: who holds what.
        peg_clearance_m: diametral.
        peg_socket_friction: sliding friction coefficient.
        fidelity_probe: whether the peg is moved by `set_peg_pose`.
        limits: what force is too much.
        start_offset_m: the peg starts up to this far from its ready place, per axis.
        dwell_steps: control steps in a row for which success must hold.
        episode_length, root_seed, num_envs, render_mode, render_backend, backend: see `RigTaskEnv`.
    """

    def __init__(
        self,
        *,
        condition: CoInsertCondition,
        peg_clearance_m: float,
        peg_socket_friction: float,
        fidelity_probe: bool,
        limits: CoInsertLimits,
        start_offset_m: float,
        dwell_steps: int,
        episode_length: int,
        root_seed: int,
        num_envs: int,
        render_mode: str | None,
        render_backend: str | None,
        backend: str,
    ) -> None:
        self.condition_config = condition
        self.peg_clearance_m = peg_clearance_m
        self.fidelity_probe = fidelity_probe
        self.limits = limits
        self.start_offset_m = start_offset_m
        self.dwell_steps = require_integer("dwell_steps", dwell_steps, at_least=1)
        self.socket_inner_half_width = coinsert_socket_inner_half_width(peg_clearance_m)
        self._peg_half_length = COINSERT_PROBE_PEG_HALF_LENGTH_M if fidelity_probe else COINSERT_PEG_HALF_LENGTH_M
        holder_qpos = COINSERT_RETRACTED_QPOS if condition.single_inserter else COINSERT_HOLDER_QPOS
        inserter, holder = condition.agent_uids
        self._ready = {
            inserter: np.array(COINSERT_RETRACTED_QPOS if fidelity_probe else COINSERT_READY_QPOS),
            holder: np.array(holder_qpos),
        }
        self._static_uids = condition.agent_uids[: 1 if condition.single_inserter else 2]
        super().__init__(
            scene=coinsert_scene(
                condition, clearance_m=peg_clearance_m, friction=peg_socket_friction, fidelity_probe=fidelity_probe
            ),
            agent_uids=condition.agent_uids,
            condition_id=condition.condition_id,
            substream="env.coinsert",
            episode_length=episode_length,
            root_seed=root_seed,
            num_envs=num_envs,
            render_mode=render_mode,
            render_backend=render_backend,
            backend=backend,
        )
        carried_mass = self.rig.carried_mass(self.partner_uid, HOLD_LINK)
        self._weight_in_wrist = np.array([0.0, 0.0, carried_mass * _GRAVITY_M_S2])
        self._peak_insert_force = np.zeros(num_envs)
        self._peak_couple_wrench = np.zeros(num_envs)
        self._max_penetration = np.zeros(num_envs)
        self._ticks_met = np.zeros(num_envs, dtype=np.int64)
        self._measure()

    @property
    def single_inserter(self) -> bool:
        """Whether the holder stands aside and the socket is free."""
        return self.condition_config.single_inserter

    def workpiece_interaction_wrench(self) -> Any:
        """Give the force that the holder's wrist carries beyond the weight of hand and socket, N.

        It holds what the peg pushes with and what it takes to accelerate hand and socket.
        """
        return self._plain(self._couple_wrench)

    def peg_socket_contact_force(self) -> Any:
        """Give the norm of the contact force between peg and socket, N."""
        return self._plain(self._insert_force)

    def peg_socket_penetration(self) -> Any:
        """Give how deep peg and socket overlap, m; compare it with `peg_clearance_m`."""
        return self._plain(self._penetration)

    def get_telemetry(self) -> dict[str, Any]:
        """Give what happens between peg and socket now, and at most in this episode.

        Returns:
            ``seated_depth_m``, ``axis_align_deg``, ``lateral_offset_m``, ``insert_force_n``, ``couple_wrench_n``,
            ``penetration_m`` now; ``max_penetration_m`` since the reset and ``max_penetration_per_clearance``: plain
            numbers for a single environment, else arrays of shape ``(num_envs,)``.
        """
        values = {
            "seated_depth_m": self._insertion.depth_m,
            "axis_align_deg": self._insertion.axis_align_deg,
            "lateral_offset_m": self._insertion.lateral_offset_m,
            "insert_force_n": self._insert_force,
            "couple_wrench_n": self._couple_wrench,
            "penetration_m": self._penetration,
            "max_penetration_m": self._max_penetration,
            "max_penetration_per_clearance": self._max_penetration / self.peg_clearance_m,
        }
        return {name: self._plain(value) for name, value in values.items()}

    def set_peg_pose(self, xyz: Sequence[float] | FloatArray, quat: Sequence[float] | FloatArray) -> None:
        """Place the peg of the fidelity probe, in every copy.

        Args:
            xyz: centre, world, m, shape ``(3,)``, or ``(num_envs, 3)``.
            quat: orientation ``(w, x, y, z)``, shape ``(4,)``, or ``(num_envs, 4)``; the tip is at local +z.

        Raises:
            RuntimeError: this is not the probe; elsewhere the peg is fixed to a hand.
            ValueError: a shape is wrong, a number is not finite, or the quaternion is not of unit length.
        """
        if not self.fidelity_probe:
            raise RuntimeError("set_peg_pose() is for fidelity_probe=True; here the peg is fixed to the ego's hand")
        pose = np.empty((self.num_envs, 7))
        for name, value, part in (("xyz", xyz, pose[:, :3]), ("quat", quat, pose[:, 3:])):
            array = np.asarray(value, dtype=np.float64)
            if array.shape not in {part.shape, part.shape[1:]} or not np.isfinite(array).all():
                raise ValueError(f"{name} must be {part.shape[1]} finite numbers, or that per copy, got {value}")
            part[:] = array
        if np.abs(np.sqrt((pose[:, 3:] ** 2).sum(axis=1)) - 1.0).max() > 1e-6:
            raise ValueError(f"quat must have length 1, got {quat}")
        self.rig.set_body_pose(PEG, pose)
        self._measure()

    def evaluate(self) -> dict[str, NDArray[Any]]:
        """Give ``success`` and its parts as they were after the last step, each of shape ``(num_envs,)``.

        ``success_geom`` is success without the limits of the forces.
        """
        return {
            "success": self._ticks_met >= self.dwell_steps,
            "success_geom": self._is_seated & self._is_static & self._is_settled,
            "seated": self._is_seated,
            "within_force": self._is_within_force(),
            "both_static": self._is_static,
            "settled": self._is_settled,
            "seated_depth_m": self._insertion.depth_m,
            "axis_align_deg": self._insertion.axis_align_deg,
            "lateral_offset_m": self._insertion.lateral_offset_m,
            "peak_insert_force_n": self._peak_insert_force.copy(),
            "peak_couple_wrench_n": self._peak_couple_wrench.copy(),
        }

    def compute_normalized_dense_reward(self, evaluation: Mapping[str, NDArray[Any]]) -> FloatArray:
        """Give the reward that both robots share, at most 1, shape ``(num_envs,)``; see `coinsert_reward`."""
        return coinsert_reward(
            lateral_offset_m=evaluation["lateral_offset_m"],
            seated_depth_m=evaluation["seated_depth_m"],
            seated=evaluation["seated"],
            peak_couple_wrench_n=evaluation["peak_couple_wrench_n"],
            success=evaluation["success"],
        )

    # --- what the base class asks for -----------------------------------------------------------------------

    def _draw_start(self, rng: np.random.Generator) -> EpisodeStart:
        goal = _GOAL_CENTRE + rng.uniform(-_GOAL_JITTER_HALF_M, _GOAL_JITTER_HALF_M, 3)
        if self.start_offset_m == 0.0:
            return EpisodeStart(self._ready, goal=goal)
        offset = rng.uniform(-self.start_offset_m, self.start_offset_m, 3)
        ego_qpos = moved_aside(self._ready[self.ego_uid], offset)
        return EpisodeStart({**self._ready, self.ego_uid: ego_qpos}, goal=goal)

    def _extra_sizes(self) -> Mapping[str, int]:
        return {"goal_pos": 3, "peg_pose": 7, "receptacle_pose": 7}

    def _extra_observation(self) -> Mapping[str, FloatArray]:
        return {"goal_pos": self.goal, "peg_pose": self._peg_pose, "receptacle_pose": self._socket_pose}

    def _begin(self, env_idx: NDArray[np.int64]) -> None:
        self._peak_insert_force[env_idx] = 0.0
        self._peak_couple_wrench[env_idx] = 0.0
        self._max_penetration[env_idx] = 0.0
        self._ticks_met[env_idx] = 0
        self._measure()

    def _accumulate(self) -> None:
        self._measure()
        counts = self.elapsed_steps > COINSERT_SETTLE_WINDOW_STEPS
        np.maximum(self._peak_insert_force, self._insert_force, out=self._peak_insert_force, where=counts)
        np.maximum(self._peak_couple_wrench, self._couple_wrench, out=self._peak_couple_wrench, where=counts)
        np.maximum(self._max_penetration, self._penetration, out=self._max_penetration)
        is_met = self._is_seated & self._is_static & self._is_settled & self._is_within_force()
        self._ticks_met = np.where(is_met, self._ticks_met + 1, 0)

    def _memory(self) -> Mapping[str, NDArray[Any]]:
        return {
            "peak_insert_force": self._peak_insert_force,
            "peak_couple_wrench": self._peak_couple_wrench,
            "max_penetration": self._max_penetration,
            "ticks_met": self._ticks_met,
        }

    def _is_within_force(self) -> NDArray[np.bool_]:
        return (self._peak_insert_force <= self.limits.f_insert_max_n) & (
            self._peak_couple_wrench <= self.limits.f_couple_max_n
        )

    def _measure(self) -> None:
        """Read from the rig, once per step, what evaluation, reward and observation share."""
        self._peg_pose = self.rig.body_pose(PEG)
        self._socket_pose = self.rig.body_pose(SOCKET)
        self._insertion = insertion_geometry(self._peg_pose, self._socket_pose, peg_half_length_m=self._peg_half_length)
        # Beside the socket a tip can be as deep as inside, so it has to be in the bore as well.
        self._is_seated = (
            (self._insertion.depth_m >= COINSERT_DEPTH_TARGET_M - COINSERT_DEPTH_EPS_M)
            & (self._insertion.axis_align_deg <= COINSERT_AXIS_ALIGN_TOL_DEG)
            & (self._insertion.lateral_offset_m <= self.socket_inner_half_width)
        )
        self._insert_force = np.sqrt((self.rig.pair_force(PEG, SOCKET) ** 2).sum(axis=1))
        wrist_force = self.rig.link_wrench(self.partner_uid, HOLD_LINK)[:, :3] - self._weight_in_wrist
        self._couple_wrench = np.sqrt((wrist_force**2).sum(axis=1))
        self._penetration = self.rig.penetration(PEG, SOCKET)
        self._is_static = np.all(
            [self.is_static(uid, COINSERT_STATIC_QVEL_THRESH) for uid in self._static_uids], axis=0
        )
        socket_velocity = self.rig.body_velocity(SOCKET)[:, :3]
        is_socket_at_rest = (socket_velocity**2).sum(axis=1) < COINSERT_SETTLE_VEL_THRESH**2
        self._is_settled = (self.elapsed_steps >= COINSERT_SETTLE_WINDOW_STEPS) & is_socket_at_rest


def make_coinsert_env(
    *,
    condition_id: str = "coinsert_matched_reference",
    episode_length: int = COINSERT_DEFAULT_EPISODE_LENGTH,
    root_seed: int = 0,
    num_envs: int = 1,
    render_mode: str | None = None,
    render_backend: str | None = None,
    peg_clearance_m: float = COINSERT_CLEARANCE_SET_M[0],
    peg_socket_friction: float = COINSERT_PEG_SOCKET_FRICTION,
    fidelity_probe: bool = False,
    f_insert_max: float | None = None,
    f_couple_max: float | None = None,
    limits: str = "v2",
    start_offset_m: float = 0.0,
    dwell_steps: int = 1,
    backend: str = "auto",
) -> CoInsertEnv:
    """Build a co-insert environment.

    Args:
        condition_id: see `coinsert_conditions`.
        episode_length: control steps until ``truncated``, 250 to 320.
        root_seed: seed of the run.
        num_envs: number of copies.
        render_mode: ``"rgb_array"`` or None.
        render_backend: see `chamber.envs._render_backend.resolve_render_backend`.
        peg_clearance_m: diametral; `COINSERT_CLEARANCE_SET_M` has those that are studied.
        peg_socket_friction: sliding friction coefficient.
        fidelity_probe: a square peg that `CoInsertEnv.set_peg_pose` moves replaces the one of the ego, which stands
            aside, over a square socket that is held in mid-air: to measure what contacts do.
        f_insert_max: largest contact force of a success, N; None takes it from ``limits``.
        f_couple_max: largest force in the holder's wrist of a success, N; None takes it from ``limits``.
        limits: ``"v2"`` or ``"documented"``, which means no limits; see `resolve_coinsert_limits`.
        start_offset_m: the peg starts up to this far from its ready place, per axis; 0 starts every episode alike.
        dwell_steps: control steps in a row for which success must hold.
        backend: see `chamber.sim.make_backend`.

    Raises:
        ValueError: an argument is unknown or out of range.
        ChamberEnvCompatibilityError: the simulator is missing or cannot build the scene.

    Example:
        >>> env = make_coinsert_env(peg_clearance_m=2e-4)  # doctest: +SKIP
        >>> obs, info = env.reset(seed=5)  # doctest: +SKIP
        >>> obs["extra"]["peg_pose"].shape  # doctest: +SKIP
        (1, 7)
    """
    condition = resolve_coinsert_condition(condition_id)
    if not COINSERT_EPISODE_LENGTH_MIN <= episode_length <= COINSERT_EPISODE_LENGTH_MAX:
        raise ValueError(
            f"episode_length must be in [{COINSERT_EPISODE_LENGTH_MIN}, {COINSERT_EPISODE_LENGTH_MAX}], "
            f"got {episode_length}"
        )
    if not 0.0 < peg_clearance_m < 2.0 * COINSERT_SOCKET_OUTER_HALF_M - COINSERT_PEG_DIAMETER_M:
        raise ValueError(f"peg_clearance_m must be > 0 and leave a wall of the socket, got {peg_clearance_m}")
    if not 0.0 <= peg_socket_friction < np.inf:
        raise ValueError(f"peg_socket_friction must be finite and >= 0, got {peg_socket_friction}")
    if not 0.0 <= start_offset_m <= _LARGEST_START_OFFSET_M:
        raise ValueError(f"start_offset_m must be in [0, {_LARGEST_START_OFFSET_M}], got {start_offset_m}")
    for name, limit in (("f_insert_max", f_insert_max), ("f_couple_max", f_couple_max)):
        if limit is not None and not limit > 0.0:
            raise ValueError(f"{name} must be > 0, got {limit}")
    base = resolve_coinsert_limits(limits)
    return CoInsertEnv(
        condition=condition,
        peg_clearance_m=peg_clearance_m,
        peg_socket_friction=peg_socket_friction,
        fidelity_probe=fidelity_probe,
        limits=CoInsertLimits(
            base.f_insert_max_n if f_insert_max is None else f_insert_max,
            base.f_couple_max_n if f_couple_max is None else f_couple_max,
        ),
        start_offset_m=start_offset_m,
        dwell_steps=dwell_steps,
        episode_length=episode_length,
        root_seed=root_seed,
        num_envs=num_envs,
        render_mode=render_mode,
        render_backend=render_backend,
        backend=backend,
    )
