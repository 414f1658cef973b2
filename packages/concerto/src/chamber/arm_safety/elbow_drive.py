"""The evaluation of arm safety: a blind ego drives its elbow at another arm, with `ArmSafety` and without.

Two Pandas stand face to face, a little to the side of each other, and their arms can touch. The ego does not see the
partner: it pulls its elbow, the origin of link 4, at the place where the middle of the partner's forearm was when the
episode began, and goes on pulling. The partner holds still, or swings its first four joints.

Without the filter every such episode ends in contact. What is looked at is the simulator's own contact force between
the two arms, every 10 ms, and the smallest distance between the spheres that cover them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from chamber.arm_safety.arm_model import ArmModel, arm_of_scene
from chamber.arm_safety.safety import ArmSafety, ArmState
from chamber.envs._table import table_body
from chamber.partners._servo_kernels import damped_command
from chamber.sim import RigBackend, make_backend
from chamber.sim.robots import robot_model
from chamber.sim.scene import (
    BodySpec,
    CameraSpec,
    ContactRule,
    GeomSpec,
    Motion,
    RobotSpec,
    SceneSpec,
    Shape,
    arm_group,
    finger_group,
)
from concerto.safety.stack import SafetySource
from ripieno.randomness import derive_substream

__all__ = [
    "PARTNER_MAX_SPEED_MS",
    "ElbowDriveResult",
    "ElbowDriveRow",
    "PartnerMotion",
    "elbow_drive_scene",
    "make_elbow_drive_safety",
    "render_elbow_drive",
    "run_elbow_drive",
]

FloatArray = NDArray[np.float64]

_EGO, _PARTNER = "panda_wristcam", "panda_partner"
_ROBOTS = (_EGO, _PARTNER)
_CAMERA = "side"
_BASE_X_M, _BASE_Y_M, _BASE_Z_M = 0.42, 0.13, 0.3
_ELBOW_LINK, _FOREARM_LINK = 4, 5
_FOREARM_POINT = (0.0, 0.0, -0.15)  # in the frame of link 5: half-way from elbow to wrist
_CONTROL_TIMESTEP, _LOOK_TIMESTEP = 0.05, 0.01
_LOOKS = 5
_STEP_M = 0.04
"""How far the elbow is asked to move per control step, m."""
_POSTURE_JITTER_RAD = 0.12
_SMALLEST_START_GAP_M = 0.12
_SWING_AMPLITUDE_RAD = (0.22, 0.12, 0.14, 0.12)
_SWING_PERIOD_S = (4.0, 7.0)
_FREE_GAP_M = 0.03  # nearer than this the ego may already push the partner

PARTNER_MAX_SPEED_MS = 0.5
"""Largest speed of any sphere of the partner that is declared; `ElbowDriveRow.partner_speed_ms` is what it did, m/s."""


class PartnerMotion(StrEnum):
    """What the partner does."""

    STILL = "still"
    """It holds the joint positions of the start."""
    SWINGING = "swinging"
    """Sines of 4 to 7 s around the start, in its first four joints."""


@dataclass(frozen=True, slots=True)
class ElbowDriveRow:
    """One episode.

    Attributes:
        seed: of the episode.
        min_gap_m: smallest distance between the spheres of the two arms, m; negative is an overlap of the covers, which
            stick out of the arms by at most a centimetre each.
        max_contact_force_n: largest contact force between the arms, N; 0.0 when they never touched.
        interventions: control steps in which the filter did not return the nominal action.
        source_counts: control steps by the source of their action.
        elbow_travel_m: how far the elbow was from its start at most, m.
        partner_speed_ms: largest speed of any sphere of the partner while nothing was nearer than 3 cm, m/s.
    """

    seed: int
    min_gap_m: float
    max_contact_force_n: float
    interventions: int
    source_counts: Mapping[str, int]
    elbow_travel_m: float
    partner_speed_ms: float


@dataclass(frozen=True, slots=True)
class ElbowDriveResult:
    """Episodes of one kind.

    Attributes:
        partner_motion: what the partner did.
        with_safety: whether `ArmSafety` filtered the actions of the ego.
        rows: one per episode.
    """

    partner_motion: PartnerMotion
    with_safety: bool
    rows: tuple[ElbowDriveRow, ...]

    @property
    def n_collisions(self) -> int:
        """Episodes with contact between the arms."""
        return sum(row.max_contact_force_n > 0.0 for row in self.rows)

    @property
    def min_gap_m(self) -> float:
        """Smallest distance in any episode, m."""
        return min(row.min_gap_m for row in self.rows)

    def to_jsonable(self) -> dict[str, object]:
        """Give the result as values that JSON can hold."""
        return {
            "partner_motion": self.partner_motion.value,
            "with_safety": self.with_safety,
            "n_collisions": self.n_collisions,
            "rows": [{**asdict(row), "source_counts": dict(row.source_counts)} for row in self.rows],
        }


def elbow_drive_scene() -> SceneSpec:
    """Describe two arms on pedestals; every part of one may touch every part of the other, and nothing else."""
    groups = [(arm_group(uid), finger_group(uid)) for uid in _ROBOTS]
    return SceneSpec(
        robots=(
            RobotSpec(uid=_EGO, model=_EGO, base_position=(-_BASE_X_M, -_BASE_Y_M, _BASE_Z_M)),
            RobotSpec(uid=_PARTNER, model=_PARTNER, base_position=(_BASE_X_M, _BASE_Y_M, _BASE_Z_M), base_yaw=math.pi),
        ),
        bodies=(
            table_body(),
            _pedestal(f"{_EGO}_pedestal", -_BASE_X_M, -_BASE_Y_M),
            _pedestal(f"{_PARTNER}_pedestal", _BASE_X_M, _BASE_Y_M),
        ),
        contacts=tuple(ContactRule(mine, other) for mine in groups[0] for other in groups[1]),
        cameras=(
            CameraSpec(
                name=_CAMERA,
                width=640,
                height=480,
                field_of_view=0.62,
                position=(0.0, -0.3, 2.3),
                target=(0.0, 0.0, 0.6),
            ),
        ),
        physics_timestep=0.002,
        control_timestep=_CONTROL_TIMESTEP,
    )


def _pedestal(name: str, x: float, y: float) -> BodySpec:
    """Give a block under a base that keeps the hand of a driven elbow above the table; it touches nothing."""
    half = (0.12, 0.12, _BASE_Z_M / 2.0)
    block = GeomSpec(name="block", shape=Shape.BOX, size=half, rgba=(0.35, 0.38, 0.42, 1.0))
    return BodySpec(name=name, motion=Motion.FIXED, geoms=(block,), position=(x, y, half[2]))


def make_elbow_drive_safety(*, partner_max_speed: float = PARTNER_MAX_SPEED_MS) -> ArmSafety:
    """Give the filter of the evaluation.

    Args:
        partner_max_speed: what is declared of the partner, m/s.
    """
    scene = elbow_drive_scene()
    ego, partner = (arm_of_scene(scene, uid) for uid in _ROBOTS)
    return ArmSafety(ego=ego, partner=partner, partner_max_speed=partner_max_speed)


def run_elbow_drive(
    seeds: Iterable[int],
    *,
    partner_motion: PartnerMotion = PartnerMotion.STILL,
    with_safety: bool = True,
    partner_max_speed: float = PARTNER_MAX_SPEED_MS,
    n_steps: int = 100,
) -> ElbowDriveResult:
    """Run one episode per seed.

    Args:
        seeds: of the episodes; start, target and partner are functions of the seed alone.
        partner_motion: what the partner does.
        with_safety: whether the ego's actions pass through `ArmSafety`.
        partner_max_speed: what is declared to it of the partner, m/s.
        n_steps: control steps per episode.

    Raises:
        ChamberEnvCompatibilityError: there is no simulator.
    """
    safety = make_elbow_drive_safety(partner_max_speed=partner_max_speed)
    episode = _Episode(make_backend(_finely_watched(elbow_drive_scene())), safety, partner_motion=partner_motion)
    rows = [_run(episode, seed, with_safety=with_safety, n_steps=n_steps) for seed in seeds]
    episode.rig.close()
    return ElbowDriveResult(partner_motion, with_safety, tuple(rows))


def render_elbow_drive(seed: int = 0, *, n_steps: int = 100) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Draw how one episode with a partner that holds still ends: without the filter, and with it.

    Returns:
        The moment of the first contact, and the last moment of the run that was stopped, each of shape
        ``(480, 640, 3)``.

    Raises:
        ChamberEnvCompatibilityError: there is no simulator, or no rendering on this machine.
    """
    rig = make_backend(_finely_watched(elbow_drive_scene()))
    episode = _Episode(rig, make_elbow_drive_safety(), partner_motion=PartnerMotion.STILL)
    pictures = list[NDArray[np.uint8]]()
    for with_safety in (False, True):
        _run(episode, seed, with_safety=with_safety, n_steps=n_steps, until_contact=True)
        pictures.append(episode.rig.render(_CAMERA).rgb)
    episode.rig.close()
    return pictures[0], pictures[1]


class _Episode:
    """The two arms on a rig that is looked at several times per control step, and the two policies."""

    def __init__(self, rig: RigBackend, safety: ArmSafety, *, partner_motion: PartnerMotion) -> None:
        self.rig = rig
        self.safety = safety
        self.partner_motion = partner_motion
        self._models = {uid: robot_model(uid) for uid in _ROBOTS}

    def reset(self, seed: int) -> None:
        """Draw start, target and partner, and put the rig there."""
        rng = derive_substream(f"arm_safety.elbow_drive.episode.{seed}").default_rng()
        ego, partner = self.safety.ego, self.safety.partner
        while True:
            joints = {uid: model.ready_qpos.copy() for uid, model in self._models.items()}
            for positions in joints.values():
                positions[:7] += rng.uniform(-_POSTURE_JITTER_RAD, _POSTURE_JITTER_RAD, 7)
            still = {uid: ArmState(positions, np.zeros(len(positions))) for uid, positions in joints.items()}
            if self.safety.gap(still[_EGO], still[_PARTNER])[0] >= _SMALLEST_START_GAP_M:
                break
        self.rig.reset({uid: positions[None] for uid, positions in joints.items()}, {})
        self._partner_start = joints[_PARTNER][:7]
        self._target = _point(partner, self._partner_start, _FOREARM_LINK, _FOREARM_POINT)
        self._period = rng.uniform(*_SWING_PERIOD_S, 4)
        self._sign = rng.choice((-1.0, 1.0), 4)
        self.start_elbow = _point(ego, joints[_EGO][:7], _ELBOW_LINK, (0.0, 0.0, 0.0))

    def state(self, uid: str) -> ArmState:
        """Give what is measured of an arm."""
        return ArmState(self.rig.qpos(uid)[0], self.rig.qvel(uid)[0])

    def elbow(self) -> FloatArray:
        """Give where the ego's elbow is, m, shape ``(3,)``."""
        return _point(self.safety.ego, self.rig.qpos(_EGO)[0, :7], _ELBOW_LINK, (0.0, 0.0, 0.0))

    def ego_action(self) -> FloatArray:
        """Pull the elbow at the target as hard as the step allows, without a look at the partner."""
        ego = self.safety.ego
        q = self.rig.qpos(_EGO)[0, :7]
        away = self._target - self.elbow()
        # Rotation of the base: the Jacobian of the chain is in the frame of the base.
        rotation = ego.arrays.base[:, :3]
        jacobian = rotation @ ego.chain.point_jacobian(q, _ELBOW_LINK, (0.0, 0.0, 0.0))
        motion = away * (_STEP_M / max(float(np.linalg.norm(away)), 1e-6))
        return np.append(damped_command(jacobian, motion, 0.05), 1.0)

    def partner_action(self, step: int) -> FloatArray:
        """Hold the start, or follow the swing."""
        action = np.append(np.zeros(7), 1.0)
        if self.partner_motion is PartnerMotion.STILL:
            return action
        reference = self._partner_start.copy()
        angle = 2.0 * math.pi * (step + 1) * _CONTROL_TIMESTEP / self._period
        reference[:4] += self._sign * _SWING_AMPLITUDE_RAD * np.sin(angle)
        action[:7] = np.clip((reference - self.rig.qpos(_PARTNER)[0, :7]) / 0.1, -1.0, 1.0)
        return action

    def contact_force(self) -> float:
        """Give the largest contact force between a part of one arm and a part of the other, N."""
        return max(
            float(np.linalg.norm(self.rig.pair_force(mine(_EGO), other(_PARTNER))[0]))
            for mine in (arm_group, finger_group)
            for other in (arm_group, finger_group)
        )


def _run(
    episode: _Episode,
    seed: int,
    *,
    with_safety: bool,
    n_steps: int,
    until_contact: bool = False,
) -> ElbowDriveRow:
    episode.reset(seed)
    safety, rig = episode.safety, episode.rig
    gaps, forces, travels, speeds = list[float](), [0.0], [0.0], [0.0]
    sources = Counter[str]()
    partner_centers = safety.partner.spheres(rig.qpos(_PARTNER)[0, :7]).centers
    for step in range(n_steps):
        action = episode.ego_action()
        if with_safety:
            answer = safety.step(action, episode.state(_EGO), episode.state(_PARTNER))
            action = answer.action
            sources[answer.source.value] += 1
        rig.apply(_EGO, action[None])
        rig.apply(_PARTNER, episode.partner_action(step)[None])
        for _ in range(_LOOKS):
            rig.advance()
            gaps.append(safety.gap(episode.state(_EGO), episode.state(_PARTNER))[0])
            forces.append(episode.contact_force())
            moved = safety.partner.spheres(rig.qpos(_PARTNER)[0, :7]).centers
            if gaps[-1] >= _FREE_GAP_M:
                speeds.append(float(np.linalg.norm(moved - partner_centers, axis=1).max()) / _LOOK_TIMESTEP)
            partner_centers = moved
        travels.append(float(np.linalg.norm(episode.elbow() - episode.start_elbow)))
        if until_contact and max(forces) > 0.0:
            break
    return ElbowDriveRow(
        seed=seed,
        min_gap_m=min(gaps),
        max_contact_force_n=max(forces),
        interventions=sources.total() - sources[SafetySource.PASS_THROUGH.value],
        source_counts=dict(sorted(sources.items())),
        elbow_travel_m=max(travels),
        partner_speed_ms=max(speeds),
    )


def _finely_watched(scene: SceneSpec) -> SceneSpec:
    """Give the scene with shorter steps: targets stay, so that a control step is several of them."""
    return replace(scene, control_timestep=_LOOK_TIMESTEP)


def _point(arm: ArmModel, q: FloatArray, link: int, offset: tuple[float, float, float]) -> FloatArray:
    """Give where a point of a link is in the world, m, shape ``(3,)``."""
    pose = arm.chain.link_transforms(q)[link]
    in_base = pose[:3, :3] @ np.array(offset) + pose[:3, 3]
    return arm.arrays.base[:, :3] @ in_base + arm.arrays.base[:, 3]
