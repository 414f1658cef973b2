"""Scenes a filter is tried in, and the constraint rows that its answer has to satisfy.

The rows are written from the published formula (Wang, Ames & Egerstedt 2017, eqs. 5 to 7, with a linear class-K
function and the conformal slack added), not taken from any filter of this project.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from concerto.safety.api import (
    AgentControlModel,
    AgentSnapshot,
    Bounds,
    DoubleIntegratorControlModel,
    FloatArray,
    LambdaDict,
    SafetyState,
    VelocityCommandControlModel,
    make_lambda_dict,
)

EGO = "m"
"""The ego; partners come before and after it in the alphabet."""
PARTNERS = ("z", "a", "k")
BOUNDS = Bounds(
    action_linf_component=2.0, cartesian_accel_capacity=1.0, action_rate=10.0, comm_latency_ms=0.0, force_limit=50.0
)
_SMALLEST_PSI = 1e-3
_N_TRIED = 400
_N_SWEEPS = 20_000
_SMALLEST_SWEEP = 1e-12


@dataclass(frozen=True)
class Scene:
    """Everything one call of a filter gets.

    Attributes:
        models: control model per uid.
        snapshots: state per uid.
        actions: nominal action per robot the filter controls.
        forecasts: forecast per partner after ``dt``; empty when the filter controls everybody.
        slack: lambda per pair.
        bounds: limits.
        dt: horizon of the forecast, s.
        partner_action_bound: largest change of a partner's action component, for shared control.
    """

    models: Mapping[str, AgentControlModel]
    snapshots: dict[str, AgentSnapshot]
    actions: dict[str, FloatArray]
    forecasts: dict[str, AgentSnapshot]
    slack: LambdaDict
    bounds: Bounds = BOUNDS
    dt: float = 0.1
    partner_action_bound: float | None = None

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The pairs with a row, in the order of the rows."""
        if self.forecasts:
            return [(EGO, uid) for uid in sorted(self.forecasts)]
        return list(itertools.combinations(sorted(self.actions), 2))

    def state(self) -> SafetyState:
        """Give a new safety state with a copy of the slack."""
        return SafetyState(dict(self.slack))

    def box(self, uid: str) -> tuple[FloatArray, FloatArray]:
        """Give the lower and upper limits of a robot's action."""
        nominal, limit = self.actions[uid], self.bounds.action_linf_component
        low, high = np.full(nominal.shape, -limit), np.full(nominal.shape, limit)
        if self.partner_action_bound is not None and uid != EGO:
            low = np.maximum(low, nominal - self.partner_action_bound)
            high = np.minimum(high, nominal + self.partner_action_bound)
        return low, high


@dataclass(frozen=True)
class BarrierRow:
    """The condition ``-n.a_i + n.a_j <= limit`` on the accelerations of a pair, and its barrier value ``h``."""

    normal: FloatArray
    barrier: float
    limit: float

    def excess(self, accel_i: FloatArray, accel_j: FloatArray) -> float:
        """By how much the accelerations break the row, m/s^2; negative is slack."""
        return float(-self.normal @ accel_i + self.normal @ accel_j) - self.limit


def barrier_row(
    snap_i: AgentSnapshot, snap_j: AgentSnapshot, *, alpha: float, gamma: float, slack: float
) -> BarrierRow:
    """Give the row of a pair whose centres are apart.

    With the gap e = |dp| - D, the closing velocity c = n.dv and psi = sqrt(2 alpha e): outside contact h = psi + c
    and limit = (alpha/psi) c + w + gamma h + slack; in contact h = c and limit = w + gamma h + slack, where
    w = (|dv|^2 - c^2)/|dp|.
    """
    separation = snap_i.position - snap_j.position
    velocity = snap_i.velocity - snap_j.velocity
    distance = float(np.linalg.norm(separation))
    normal = separation / distance
    closing = float(normal @ velocity)
    tangential = (float(velocity @ velocity) - closing**2) / distance
    gap = distance - snap_i.radius - snap_j.radius
    if gap <= 0.0:
        return BarrierRow(normal, closing, tangential + gamma * closing + slack)
    psi = max(math.sqrt(2.0 * alpha * gap), _SMALLEST_PSI)
    barrier = psi + closing
    return BarrierRow(normal, barrier, alpha / psi * closing + tangential + gamma * barrier + slack)


@dataclass(frozen=True)
class Rows:
    """The rows of a scene for a filter with these settings.

    Attributes:
        gamma: rate of the class-K function, 1/s.
        partner_braking_fraction: share of an uncontrolled partner's capacity that the barrier counts on.
    """

    gamma: float
    partner_braking_fraction: float

    def of(self, scene: Scene) -> list[BarrierRow]:
        """Give one row per pair of the scene."""
        rows: list[BarrierRow] = []
        for i, j in scene.pairs:
            share = self.partner_braking_fraction if j in scene.forecasts else 1.0
            alpha = scene.models[i].max_cartesian_accel(scene.bounds)
            alpha += share * scene.models[j].max_cartesian_accel(scene.bounds)
            slack = scene.slack[min(i, j), max(i, j)]
            rows.append(barrier_row(scene.snapshots[i], scene.snapshots[j], alpha=alpha, gamma=self.gamma, slack=slack))
        return rows

    def excess(self, scene: Scene, actions: Mapping[str, FloatArray]) -> FloatArray:
        """By how much the actions break each row, relative to its size; positive is a violation."""
        values = [
            row.excess(_acceleration(scene, i, actions), _acceleration(scene, j, actions)) / (1.0 + abs(row.limit))
            for (i, j), row in zip(scene.pairs, self.of(scene), strict=True)
        ]
        return np.array(values)


def _acceleration(scene: Scene, uid: str, actions: Mapping[str, FloatArray]) -> FloatArray:
    snapshot = scene.snapshots[uid]
    if uid in scene.forecasts:
        return (scene.forecasts[uid].velocity - snapshot.velocity) / scene.dt
    return scene.models[uid].action_to_cartesian_accel(snapshot, actions[uid])


class SceneMaker:
    """Random scenes in which a safe action exists and the nominal one is not safe.

    Args:
        rng: source of the scenes.
        rows: settings of the filter under trial.
        ego_only: only the ego is controlled, partners are forecast.
        partner_action_bound: largest change of a partner's action, for shared control.
    """

    def __init__(
        self, rng: np.random.Generator, rows: Rows, *, ego_only: bool, partner_action_bound: float | None
    ) -> None:
        self._rng = rng
        self._rows = rows
        self._ego_only = ego_only
        self._partner_action_bound = partner_action_bound

    def scene(self, *, dim: int, n_partners: int, spread: float, velocity_commands: bool = False) -> Scene:
        """Draw one scene without judging it; partners stand up to ``spread`` metres outside contact."""
        rng, uids = self._rng, [EGO, *PARTNERS[:n_partners]]
        snapshots = {EGO: AgentSnapshot(np.zeros(dim), rng.uniform(-0.6, 0.6, dim), 0.2)}
        for uid in uids[1:]:
            direction = rng.normal(size=dim)
            distance = 0.5 + spread * rng.uniform(0.2, 1.0)
            position = direction / np.linalg.norm(direction) * distance
            snapshots[uid] = AgentSnapshot(position, rng.uniform(-0.6, 0.6, dim), 0.25)
        models: dict[str, AgentControlModel] = {
            uid: VelocityCommandControlModel(uid, dim, 0.1, max_cartesian_accel_value=BOUNDS.cartesian_accel_capacity)
            if velocity_commands
            else DoubleIntegratorControlModel(uid, dim)
            for uid in uids
        }
        limit = BOUNDS.action_linf_component
        controlled = [EGO] if self._ego_only else uids
        slack = make_lambda_dict(uids, ego_uid=EGO if self._ego_only else None)
        return Scene(
            models=models,
            snapshots=snapshots,
            actions={uid: rng.uniform(-limit, limit, dim) for uid in controlled},
            forecasts={uid: self._forecast(snapshots[uid]) for uid in uids[1:]} if self._ego_only else {},
            slack={key: float(rng.uniform(-0.3, 0.3)) for key in slack},
            partner_action_bound=self._partner_action_bound,
        )

    def _forecast(self, snapshot: AgentSnapshot) -> AgentSnapshot:
        velocity = snapshot.velocity + 0.1 * self._rng.uniform(-0.5, 0.5, snapshot.velocity.shape)
        return AgentSnapshot(snapshot.position + 0.1 * velocity, velocity, snapshot.radius)

    def active(self, *, dim: int, n_partners: int, velocity_commands: bool = False) -> Scene:
        """Draw a scene whose nominal action breaks a row although another action in the box breaks none."""
        for _ in range(_N_TRIED):
            scene = self.scene(dim=dim, n_partners=n_partners, spread=1.0, velocity_commands=velocity_commands)
            if self._rows.excess(scene, scene.actions).max() > 0.05 and self._is_feasible(scene):
                return scene
        raise ValueError(f"no scene with {n_partners} partners needs the filter and has a safe action")

    def inactive(self, *, dim: int, n_partners: int) -> Scene:
        """Draw a scene whose nominal action breaks nothing."""
        for _ in range(_N_TRIED):
            scene = self.scene(dim=dim, n_partners=n_partners, spread=6.0)
            if self._rows.excess(scene, scene.actions).max() < -0.05:
                return scene
        raise ValueError(f"no scene with {n_partners} partners is safe without the filter")

    def _is_feasible(self, scene: Scene) -> bool:
        """Look for a safe action among random ones; a miss only costs a scene."""
        for _ in range(_N_TRIED):
            actions = {uid: self._rng.uniform(*scene.box(uid)) for uid in scene.actions}
            if self._rows.excess(scene, actions).max() < -1e-3:
                return True
        return False


def nearest_distance(scene: Scene, row: BarrierRow) -> float:
    """Distance from the nominal action to the nearest safe one, for double integrators and a single row.

    The optimum of ``min |u - nominal|^2`` under one row and a box is ``clip(nominal + mu g)`` with the smallest
    multiplier ``mu >= 0`` that satisfies the row, found here by bisection.
    """
    i, j = scene.pairs[0]
    controlled = [uid for uid in (i, j) if uid in scene.actions]
    gain = np.concatenate([row.normal if uid == i else -row.normal for uid in controlled])
    nominal = np.concatenate([scene.actions[uid] for uid in controlled])
    low = np.concatenate([scene.box(uid)[0] for uid in controlled])
    high = np.concatenate([scene.box(uid)[1] for uid in controlled])
    other = 0.0 if j in scene.actions else float(row.normal @ _acceleration(scene, j, {}))
    smallest, largest = 0.0, 1e3
    for _ in range(200):
        middle = 0.5 * (smallest + largest)
        if -gain @ np.clip(nominal + middle * gain, low, high) + other <= row.limit:
            largest = middle
        else:
            smallest = middle
    return float(np.linalg.norm(np.clip(nominal + largest * gain, low, high) - nominal))


def distance_to_safety(scene: Scene, rows: list[BarrierRow]) -> float:
    """Distance from the nominal action to the nearest safe one, for double integrators and any number of rows.

    Dykstra's algorithm: projections onto one row or the box at a time, each with the correction of its last turn, tend
    to the projection onto what they have in common.
    """
    uids = list(scene.actions)
    gains: list[FloatArray] = []
    limits: list[float] = []
    for (i, j), row in zip(scene.pairs, rows, strict=True):
        signs = {i: -row.normal, j: row.normal}
        gains.append(np.concatenate([signs.get(uid, 0.0 * row.normal) for uid in uids]))
        limits.append(row.limit if j in scene.actions else row.limit - float(row.normal @ _acceleration(scene, j, {})))
    nominal = np.concatenate([scene.actions[uid] for uid in uids])
    low = np.concatenate([scene.box(uid)[0] for uid in uids])
    high = np.concatenate([scene.box(uid)[1] for uid in uids])
    action = nominal.copy()
    pulls = np.zeros(len(gains))
    correction = np.zeros_like(nominal)
    for _ in range(_N_SWEEPS):
        before = action
        for k, (gain, limit) in enumerate(zip(gains, limits, strict=True)):
            free = action + pulls[k] * gain
            pulls[k] = max(0.0, float(gain @ free) - limit) / float(gain @ gain)
            action = free - pulls[k] * gain
        free = action + correction
        action = np.clip(free, low, high)
        correction = free - action
        if np.abs(action - before).max() < _SMALLEST_SWEEP:
            break
    return float(np.linalg.norm(action - nominal))
