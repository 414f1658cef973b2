"""`ArmSafety`: one call per control step that keeps an arm from driving into another arm, and always answers."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chamber.arm_safety import _kernels
from chamber.arm_safety._action_semantics import known_drive
from chamber.arm_safety._certificate import PartnerSpheres, certify, pair_gaps, sphere_paths
from chamber.arm_safety._rows import PlacedArm, collision_rows, sphere_velocities
from chamber.arm_safety.arm_model import ArmModel
from concerto.safety.errors import ConcertoSafetyInfeasible
from concerto.safety.oscbf import (
    DEFAULT_CBF_ALPHA,
    DEFAULT_SLACK_PENALTY,
    DEFAULT_W_OPERATIONAL,
    OSCBF,
    OSCBFConstraints,
)
from concerto.safety.stack import SafetySource

__all__ = ["DEFAULT_TRACKING_ERROR_M", "ArmSafety", "ArmSafetyStep", "ArmState"]

FloatArray = NDArray[np.float64]

DEFAULT_TRACKING_ERROR_M = 0.004
"""How far a sphere of a Panda may be from its predicted path, m; 1.7 times what `chamber.arm_safety.tracking` finds."""

_HOLDING_STEPS = 2
"""Control steps of holding still that a plan looks at behind its action; the joints are at rest then."""
_MAX_ROWS = 16
"""Most collision rows in one filter problem; what they do not see, the certificate does."""
_SLACK_TOLERANCE = 1e-6
"""Slack above this is a row that cannot hold, m/s or rad/s."""
_ROW_BUFFER_M = 0.001
"""How much earlier the rows act than the certificate, so that arms slide along each other instead of stopping, m."""
_TYPICAL_INERTIA = 0.5
"""Where the factor between actions and stopping points is taken, kg m^2; it varies by one per cent over all of them."""
_BISECTIONS = 6
"""Halvings in the search for the largest certified share of an action."""
_ROW_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class ArmState:
    """What is measured of a robot: all its joints in the order of its robot model.

    Attributes:
        qpos: rad or m, shape ``(n_joints,)`` or ``(1, n_joints)``.
        qvel: rad/s or m/s, the same shape.
    """

    qpos: ArrayLike
    qvel: ArrayLike


@dataclass(frozen=True, slots=True, eq=False)
class ArmSafetyStep:
    """The answer of one control step.

    Attributes:
        action: the action to apply, finite and in [-1, 1], shape of the action that was asked for, float64.
        nominal_action: what was asked for.
        filtered_action: the answer before the certificate: the nominal action or its projection.
        source: ``PASS_THROUGH``: the nominal action bit for bit. ``QP``: its projection onto all rows. ``FALLBACK``:
            rows contradicted each other, the answer is certified and relaxes them least. ``BRAKING``: the answer had
            to be scaled down, to zero (hold still) if need be, until its plan was certified.
        gap_m: smallest distance between the surfaces of watched spheres now, m; ``inf`` when no pair is watched.
        pair: the links of that gap, of ego and partner; None when no pair is watched.
        plan_clearance_m: smallest clearance of the plan of `action` from the partner's worst declared motion, with the
            margin taken off, m; negative: the partner is so near that holding still is all that can be promised.
        slack: largest slack of the filter, m/s or rad/s; 0.0 when it was not needed, ``inf`` when it had no answer.
        partner_excess_speed_ms: how much faster than declared the partner is measured, m/s; positive: what is
            guaranteed no longer holds.
        n_rows: collision rows that could matter.
        solve_ms: wall time of the decision, ms.
    """

    action: FloatArray
    nominal_action: FloatArray
    filtered_action: FloatArray
    source: SafetySource
    gap_m: float
    pair: tuple[str, str] | None
    plan_clearance_m: float
    slack: float
    partner_excess_speed_ms: float
    n_rows: int
    solve_ms: float

    @property
    def intervened(self) -> bool:
        """Whether the answer is not the nominal action."""
        return self.source is not SafetySource.PASS_THROUGH

    @property
    def fallback_fired(self) -> bool:
        """Whether the answer did not come from the quadratic program: source ``BRAKING`` or ``FALLBACK``."""
        return self.source in {SafetySource.BRAKING, SafetySource.FALLBACK}


class ArmSafety:
    """Keeps one arm, the ego, from driving into another arm, the partner.

    Both arms are covered by spheres that contain all their collision capsules. One call does, in this order:

    1. `concerto.safety.oscbf.OSCBF` over the velocity of the ego's stopping point: a barrier row per pair of spheres
       that can matter, with the partner's measured closing speed, and rows for joint limits and for the speed that
       actions can reach. Not solved when the nominal action satisfies every row.
    2. The certificate of `chamber.arm_safety._certificate` for the answer. Without it the answer is scaled down until
       it is certified; holding still (zero displacements) is what remains.
    3. A nominal action inside the box that satisfies every row and is certified is returned bit for bit.

    What is guaranteed. Holding still, a zero action, brings the ego to rest (slower than 0.12 m/s) within a plan's
    0.15 s.

    * While holding still keeps every watched pair of spheres clear of the partner's worst declared motion for that
      time, so does every answer: nothing is touched in the coming step, and the ego can be at rest before the partner
      is there.
    * When holding still does not, because the partner has come near, an answer brings a pair either no nearer than
      holding still would, wherever the partner goes, or it gives way: then the smallest clearance from the worst
      motion is at no time smaller than by holding still, and every pair is clear of a partner that goes on as it is
      measured, to within 0.1 m/s. Only a partner that turns on the ego in that moment touches it while it gives way.

    This holds if

    * the first state is one where holding still is enough;
    * every sphere of the ego stays within ``tracking_error_m`` of its predicted path. `chamber.arm_safety.tracking`
      measures that for a free Panda: at most 2.4 mm in 4,000 plans. A payload that is not declared, a closed chain,
      joint limits, or a blow are not in it; and errors of several steps of the second kind add up;
    * no point of the partner is faster than ``partner_max_speed``;
    * actions are applied in full, in the very next control step, in the state that was given.

    What is not guaranteed: that a partner does not run into the ego (the rows make the ego give way as well as its
    joints can); links that are not watched; contacts of the ego with itself, with held things, or with the rest of the
    world; the gripper, which is covered wide open and whose command is only clipped.

    It remembers nothing between calls, so one instance serves any number of episodes, but one thread at a time.

    Args:
        ego: the arm whose actions are decided; its action's first components are its joint displacements.
        partner: the other arm.
        partner_max_speed: largest speed of any point of the partner that is declared, m/s, >= 0; or one per link, by
            name, for every link that has spheres.
        tracking_error_m: distance of the ego from its predicted path that is allowed for, m, >= 0.
        cbf_alpha: decay rate of the barrier, 1/s, > 0.
        joint_alpha: the same for joint limits, 1/s, > 0.
        weight_operational: weight of the hand's motion against that of the joints; a large one makes the arm give way
            with its elbow and leave its hand where it was going.
        unwatched: pairs of links (ego, partner) that may come together, such as two hands on one bar.

    Raises:
        ValueError: an argument is out of range.
        KeyError: an unwatched link does not exist, or a link of the partner has no declared speed.
    """

    def __init__(
        self,
        *,
        ego: ArmModel,
        partner: ArmModel,
        partner_max_speed: float | Mapping[str, float],
        tracking_error_m: float = DEFAULT_TRACKING_ERROR_M,
        cbf_alpha: float = DEFAULT_CBF_ALPHA,
        joint_alpha: float = 10.0,
        weight_operational: float = DEFAULT_W_OPERATIONAL,
        unwatched: Iterable[tuple[str, str]] = (),
    ) -> None:
        if not (math.isfinite(tracking_error_m) and tracking_error_m >= 0.0):
            raise ValueError(f"tracking_error_m must be finite and >= 0, got {tracking_error_m}")
        for name, value in (("cbf_alpha", cbf_alpha), ("joint_alpha", joint_alpha)):
            if not (math.isfinite(value) and value > 0.0):
                raise ValueError(f"{name} must be finite and > 0, got {value}")
        drive = known_drive(ego)
        self.ego = ego
        self.partner = partner
        self.tracking_error_m = float(tracking_error_m)
        self._alpha = float(cbf_alpha)
        self._joint_alpha = float(joint_alpha)
        self._watched = _watched_pairs(ego, partner, unwatched)

        dt = drive.control_timestep
        gain = drive.action_scale * float(drive.response(_TYPICAL_INERTIA).stopping_position_per_target)
        self._velocity_per_action = gain / dt
        self._speed_limits = np.minimum(self._velocity_per_action, ego.joint_velocity_limits)
        self._sample_time = dt / _kernels.SAMPLES_PER_STEP
        horizon = (1 + _HOLDING_STEPS) * dt
        self._other_speeds = np.where(_can_move(partner), _declared_speeds(partner, partner_max_speed), 0.0)
        self._standoffs = self.tracking_error_m + _ROW_BUFFER_M + horizon * self._other_speeds
        self._oscbf = OSCBF(
            n_joints=ego.n_joints,
            weight_operational=weight_operational,
            slack="exact",
            # Multipliers of rows grow with the weights, and slack must stay dearer than any row that can hold.
            slack_penalty=DEFAULT_SLACK_PENALTY * max(1.0, weight_operational**2),
        )

        n, n_spheres, n_others = ego.n_joints, len(ego.sphere_links), len(partner.sphere_links)
        n_samples = 1 + (1 + _HOLDING_STEPS) * _kernels.SAMPLES_PER_STEP
        self._path, self._holding_path = np.empty((n_samples, n)), np.empty((n_samples, n))
        self._centers = np.empty((n_samples, n_spheres, 3))
        self._holding_centers = np.empty((n_samples, n_spheres, 3))
        self._clearances, self._holding_clearances = np.empty(n_samples), np.empty(n_samples)
        self._frames, self._path_frames = np.empty((n + 2, 3, 4)), np.empty((n + 2, 3, 4))
        self._other_frames = np.empty((partner.n_joints + 2, 3, 4))
        self._other_centers = np.empty((n_others, 3))
        self._gaps = np.empty((n_spheres, n_others))
        self._rows, self._right = np.empty((_MAX_ROWS, n)), np.empty(_MAX_ROWS)
        self._joint_rows = np.vstack([np.eye(n), -np.eye(n)])
        self._zero_action = np.zeros(n)

    def step(self, action: ArrayLike, ego: ArmState, partner: ArmState) -> ArmSafetyStep:
        """Decide the action of one control step.

        Args:
            action: wanted action of the ego, shape ``(action_dim,)`` or ``(1, action_dim)``; components beyond the arm
                joints, the gripper's, are only clipped to [-1, 1].
            ego: measured state of the ego.
            partner: measured state of the partner.

        Raises:
            ValueError: something is not finite or has a wrong shape; the message names it.
        """
        started = time.perf_counter()
        n = self.ego.n_joints
        nominal = _finite("action", action)
        if nominal.size < n or nominal.ndim > 2 or nominal.shape[:-1] not in {(), (1,)}:
            raise ValueError(f"action must have shape (action_dim,) with at least {n} components, got {nominal.shape}")
        q, q_dot = _arm_joints("ego", ego, self.ego)
        other_q, other_q_dot = _arm_joints("partner", partner, self.partner)

        gap, nearest = self._survey(q, q_dot, other_q)
        answer = nominal.copy()
        np.clip(answer, -1.0, 1.0, out=answer)
        asked = answer.reshape(-1)[:n]
        n_rows, excess_speed = self._write_rows(other_q_dot)
        upper, lower = self._joint_velocity_bounds()
        velocity = self._velocity_per_action * asked
        rows, right = self._rows[:n_rows], self._right[:n_rows]
        slack = 0.0
        source = SafetySource.PASS_THROUGH
        filtered = asked
        fits = (
            (velocity <= upper + _ROW_TOLERANCE).all()
            and (velocity >= lower - _ROW_TOLERANCE).all()
            and (rows.dot(velocity) <= right + _ROW_TOLERANCE).all()
        )
        if not fits:
            filtered, slack = self._project(velocity, rows, right, upper, lower)
            source = SafetySource.QP if slack <= _SLACK_TOLERANCE else SafetySource.FALLBACK
        share, clearance = self._certified_share(q, q_dot, filtered)
        if share < 1.0:
            source = SafetySource.BRAKING
        elif source is SafetySource.PASS_THROUGH and (answer != nominal).any():
            source = SafetySource.QP  # nearest point of the box
        filtered_action = answer.copy()
        filtered_action.reshape(-1)[:n] = filtered
        answer.reshape(-1)[:n] = filtered if share == 1.0 else share * filtered
        return ArmSafetyStep(
            action=answer,
            nominal_action=nominal,
            filtered_action=filtered_action,
            source=source,
            gap_m=gap,
            pair=nearest,
            plan_clearance_m=clearance,
            slack=slack,
            partner_excess_speed_ms=excess_speed,
            n_rows=n_rows,
            solve_ms=1e3 * (time.perf_counter() - started),
        )

    def gap(self, ego: ArmState, partner: ArmState) -> tuple[float, tuple[str, str] | None]:
        """Give the smallest distance between watched spheres, m, and their links; nothing is decided.

        Raises:
            ValueError: something is not finite or has a wrong shape; the message names it.
        """
        q, q_dot = _arm_joints("ego", ego, self.ego)
        return self._survey(q, q_dot, _arm_joints("partner", partner, self.partner)[0])

    def _survey(self, q: FloatArray, q_dot: FloatArray, other_q: FloatArray) -> tuple[float, tuple[str, str] | None]:
        """Place both arms now, and the ego on its way to rest."""
        mine, other = self.ego.arrays, self.partner.arrays
        _kernels.place_frames(other, other_q, self._other_frames)
        _kernels.place_spheres(other, self._other_frames, self._other_centers)
        _kernels.place_frames(mine, q, self._frames)
        self._update = _kernels.velocity_update(mine, _kernels.joint_space_inertia(mine, self._frames))
        _kernels.predict_path(mine, self._update, q, q_dot, self._zero_action, self._holding_path)
        sphere_paths(mine, self._holding_path, self._path_frames, self._holding_centers)
        gap, i, j = pair_gaps(
            self._holding_centers[0],
            mine.sphere_radii,
            self._other_centers,
            other.sphere_radii,
            self._watched,
            self._gaps,
        )
        return gap, None if i < 0 else (self.ego.sphere_links[i], self.partner.sphere_links[j])

    def _write_rows(self, other_q_dot: FloatArray) -> tuple[int, float]:
        """Write the collision rows; give their number, and how much faster than declared the partner is, m/s."""
        mine, other = self.ego.arrays, self.partner.arrays
        stopped = PlacedArm(self._path_frames, mine.sphere_links, self._holding_centers[-1], mine.sphere_radii)
        partner = PlacedArm(self._other_frames, other.sphere_links, self._other_centers, other.sphere_radii)
        velocities, excess_speed = sphere_velocities(partner, other_q_dot, self._other_speeds)
        self._partner_spheres = PartnerSpheres(self._other_centers, other.sphere_radii, velocities, self._other_speeds)
        n_rows = collision_rows(
            stopped, partner, velocities, self._standoffs, self._watched, self._alpha, self._speed_limits, self._rows,
            self._right,
        )  # fmt: skip
        return n_rows, excess_speed

    def _joint_velocity_bounds(self) -> tuple[FloatArray, FloatArray]:
        """Give upper and lower bounds of the velocity of the stopping point, from joint limits and what actions do.

        A stopping point beyond a limit is brought back as fast as actions can.
        """
        stop = self._holding_path[-1]
        upper = np.minimum(self._joint_alpha * (self.ego.joint_upper - stop), self._speed_limits)
        lower = np.maximum(self._joint_alpha * (self.ego.joint_lower - stop), -self._speed_limits)
        return np.maximum(upper, -self._speed_limits), np.minimum(lower, self._speed_limits)

    def _project(
        self, velocity: FloatArray, rows: FloatArray, right: FloatArray, upper: FloatArray, lower: FloatArray
    ) -> tuple[FloatArray, float]:
        """Give the arm's part of the action nearest to the nominal one under all rows, and the largest slack."""
        n = len(velocity)
        jacobian = np.empty((3, n))
        tcp = np.ascontiguousarray(self._path_frames[n + 1, :, 3])
        _kernels.sphere_jacobian(self._path_frames, n, tcp, jacobian)
        constraints = OSCBFConstraints(np.vstack([rows, self._joint_rows]), np.concatenate([right, upper, -lower]))
        if not (np.isfinite(constraints.a).all() and np.isfinite(constraints.b).all() and np.isfinite(jacobian).all()):
            return self._zero_action, math.inf  # an absurd speed leads beyond the range of float64
        try:
            result = self._oscbf.solve(
                q_dot_nom=velocity, nu_nom=jacobian.dot(velocity), jacobian=jacobian, constraints=constraints
            )
        except ConcertoSafetyInfeasible:
            return self._zero_action, math.inf
        projected = np.clip(result.q_dot / self._velocity_per_action, -1.0, 1.0)
        return (projected, result.max_slack) if np.isfinite(projected).all() else (self._zero_action, math.inf)

    def _certified_share(self, q: FloatArray, q_dot: FloatArray, action: FloatArray) -> tuple[float, float]:
        """Give the largest share of an action whose plan is certified, and the clearance of that plan."""
        _, best = self._certify(self._holding_centers, self._holding_clearances)
        is_certified, clearance = self._plan(q, q_dot, action)
        if is_certified:
            return 1.0, clearance
        share, step = 0.0, 1.0
        for _ in range(_BISECTIONS):
            step *= 0.5
            is_certified, clearance = self._plan(q, q_dot, (share + step) * action)
            if is_certified:
                share, best = share + step, clearance
        return share, best

    def _plan(self, q: FloatArray, q_dot: FloatArray, action: FloatArray) -> tuple[bool, float]:
        mine = self.ego.arrays
        _kernels.predict_path(mine, self._update, q, q_dot, action, self._path)
        sphere_paths(mine, self._path, self._frames, self._centers)
        return self._certify(self._centers, self._clearances)

    def _certify(self, centers: FloatArray, clearances: FloatArray) -> tuple[bool, float]:
        return certify(
            centers, self._holding_centers, self._gaps, self.ego.arrays.sphere_radii, self._partner_spheres,
            self._sample_time, self.tracking_error_m, clearances, self._holding_clearances,
        )  # fmt: skip


def _watched_pairs(ego: ArmModel, partner: ArmModel, unwatched: Iterable[tuple[str, str]]) -> NDArray[np.bool_]:
    mine, other = np.array(ego.sphere_links), np.array(partner.sphere_links)
    watched = np.ones((len(mine), len(other)), dtype=np.bool_)
    for ego_link, partner_link in unwatched:
        for arm, links, link in ((ego, mine, ego_link), (partner, other, partner_link)):
            if link not in links:
                raise KeyError(f"{arm.uid!r} has no sphere on a link {link!r}; it has {sorted(set(arm.sphere_links))}")
        watched[np.ix_(mine == ego_link, other == partner_link)] = False
    return watched


def _declared_speeds(partner: ArmModel, max_speed: float | Mapping[str, float]) -> FloatArray:
    """Give the largest declared speed of every sphere, m/s."""
    by_link = max_speed if isinstance(max_speed, Mapping) else dict.fromkeys(partner.sphere_links, max_speed)
    for link in partner.sphere_links:
        if link not in by_link:
            raise KeyError(f"partner_max_speed must hold link {link!r} of {partner.uid!r}, got {sorted(by_link)}")
        if not (math.isfinite(by_link[link]) and by_link[link] >= 0.0):
            raise ValueError(f"partner_max_speed of {link!r} must be finite and >= 0, got {by_link[link]}")
    return np.array([by_link[link] for link in partner.sphere_links], dtype=np.float64)


def _can_move(arm: ArmModel) -> NDArray[np.bool_]:
    """Say which spheres can change their place: none of the base, nor of the first link on the axis of its joint."""
    links, points = arm.arrays.sphere_links, arm.arrays.sphere_points
    is_on_axis = (links == 1) & (np.hypot(points[:, 0], points[:, 1]) < 1e-9)
    return (links > 0) & ~is_on_axis


def _arm_joints(who: str, state: ArmState, arm: ArmModel) -> tuple[FloatArray, FloatArray]:
    """Give the arm joints of a measured state, each of shape ``(n,)``."""
    found = list[FloatArray]()
    for name, value in (("qpos", state.qpos), ("qvel", state.qvel)):
        values = _finite(f"{name} of the {who}", value)
        if values.ndim == 2 and len(values) == 1:
            values = values[0]
        if values.shape != (arm.n_robot_joints,):
            raise ValueError(f"{name} of the {who} must have shape ({arm.n_robot_joints},), got {values.shape}")
        found.append(np.ascontiguousarray(values[arm.arm_joints]))
    return found[0], found[1]


def _finite(name: str, value: ArrayLike) -> FloatArray:
    try:
        given = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers: {error}") from None
    if given.dtype.kind not in "biuf":  # NumPy would drop imaginary parts and read texts
        raise ValueError(f"{name} must be numbers: got {type(value).__name__} of {given.dtype}")
    if np.ma.is_masked(value):  # a sensor that gave nothing; beneath the mask lie numbers that nobody measured
        raise ValueError(f"{name} must be numbers: entries are masked")
    array = np.array(given, dtype=np.float64)
    if array.ndim == 0 or not np.isfinite(array).all():
        raise ValueError(f"{name} must be a finite vector, got {array.tolist()}")
    return array
