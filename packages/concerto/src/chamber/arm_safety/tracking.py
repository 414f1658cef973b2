"""How well the predicted motion of an arm agrees with the simulated one: the number that the certificate must absorb.

`measure_joints` looks at one joint after the other, `measure_plans` at random motions of the whole arm: a simulated
arm is set in motion, what an action followed by holding still will do is predicted, the simulator does it, and the
two are compared at every physics step. `ArmSafety` allows for ``DEFAULT_TRACKING_ERROR_M``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chamber.arm_safety import _kernels
from chamber.arm_safety._action_semantics import step_map
from chamber.arm_safety._certificate import sphere_paths
from chamber.arm_safety.arm_model import ArmModel, arm_of_scene
from chamber.sim import RigBackend, make_backend
from chamber.sim.robots import robot_model
from chamber.sim.scene import RobotSpec, SceneSpec
from ripieno.randomness import derive_substream

__all__ = ["JointTracking", "PlanTracking", "measure_joints", "measure_plans"]

FloatArray = NDArray[np.float64]

_UID = "arm"
_CONTROL_TIMESTEP = 0.05
_PHYSICS_TIMESTEP = 0.002
_SUBSTEPS = 25
_HOLDING_STEPS = 2


@dataclass(frozen=True, slots=True)
class JointTracking:
    """One joint of a simulated arm in one control step, measured and predicted.

    Attributes:
        joint: its name.
        velocity_at_start: rad/s.
        action: of this joint; the others get zero.
        displacement, predicted_displacement: after the control step, rad.
        velocity, predicted_velocity: at its end, rad/s.
        stopping_displacement, predicted_stopping_displacement: after two more steps of holding still, rad.
        velocity_after_one_hold, velocity_after_two_holds: what is left then, rad/s.
    """

    joint: str
    velocity_at_start: float
    action: float
    displacement: float
    predicted_displacement: float
    velocity: float
    predicted_velocity: float
    stopping_displacement: float
    predicted_stopping_displacement: float
    velocity_after_one_hold: float
    velocity_after_two_holds: float


@dataclass(frozen=True, slots=True)
class PlanTracking:
    """The largest distances between simulated and predicted motion in one plan: an action, then holding still.

    Attributes:
        joint_speed: of the fastest joint when the plan began, rad/s.
        joint_error: rad.
        sphere_error_m: of the centre of any sphere, over all physics steps, m.
        speed_after_one_hold, speed_after_two_holds: of the fastest sphere, m/s.
        acceleration_error: of the mean acceleration of the tool centre point over the first step, m/s^2.
    """

    joint_speed: float
    joint_error: float
    sphere_error_m: float
    speed_after_one_hold: float
    speed_after_two_holds: float
    acceleration_error: float


def measure_joints(*, robot: str = "panda_wristcam") -> tuple[JointTracking, ...]:
    """Measure every joint by itself, from rest and against and along a motion that actions of full size brought about.

    Args:
        robot: name of the robot model.
    """
    arm, rig = _arm(robot), _rig(robot)
    ready = robot_model(robot).ready_qpos
    rows = list[JointTracking]()
    for joint in range(arm.n_joints):
        alone = np.zeros(arm.n_joints)
        alone[joint] = 1.0
        for before, action in ((0, 0.5), (0, 1.0), (4, 1.0), (4, 0.0), (4, -1.0)):
            rig.reset({_UID: ready[None]}, {})
            for _ in range(before):
                _control_step(rig, arm, alone)
            q, q_dot = _joints(rig, arm)
            predicted = _predict(arm, q, q_dot, action * alone)
            linear = step_map(arm, q)
            trace = [_control_step(rig, arm, command)[-1] for command in (action * alone, 0 * alone, 0 * alone)]
            rows.append(
                JointTracking(
                    joint=arm.chain.table.joint_names[joint],
                    velocity_at_start=float(q_dot[joint]),
                    action=action,
                    displacement=float(trace[0][0][joint] - q[joint]),
                    predicted_displacement=float(predicted[_kernels.SAMPLES_PER_STEP, joint] - q[joint]),
                    velocity=float(trace[0][1][joint]),
                    predicted_velocity=float(
                        (linear.velocity_per_velocity @ q_dot + linear.velocity_per_action @ (action * alone))[joint]
                    ),
                    stopping_displacement=float(trace[2][0][joint] - q[joint]),
                    predicted_stopping_displacement=float(predicted[-1, joint] - q[joint]),
                    velocity_after_one_hold=float(trace[1][1][joint]),
                    velocity_after_two_holds=float(trace[2][1][joint]),
                )
            )
    rig.close()
    return tuple(rows)


def measure_plans(n_plans: int, *, robot: str = "panda_wristcam", root_seed: int = 0) -> tuple[PlanTracking, ...]:
    """Measure plans from motions in random postures: actions of full size and of random size, kept, reversed, stopped.

    Args:
        n_plans: how many, >= 1.
        robot: name of the robot model.
        root_seed: seed of postures and actions.
    """
    arm, rig = _arm(robot), _rig(robot)
    model = robot_model(robot)
    rng = derive_substream("arm_safety.tracking", root_seed=root_seed).default_rng()
    rows = list[PlanTracking]()
    for _ in range(n_plans):
        qpos = model.ready_qpos.copy()
        # Away from the limits, which the drive pushes against and the prediction does not know.
        qpos[model.arm_joints] = arm.joint_lower + (arm.joint_upper - arm.joint_lower) * rng.uniform(0.15, 0.85, 7)
        rig.reset({_UID: qpos[None]}, {})
        before = rng.uniform(-1.0, 1.0, arm.n_joints)
        if rng.random() < 0.5:
            before = np.sign(before)
        for _ in range(int(rng.integers(0, 6))):
            _control_step(rig, arm, before)
        choices = (before, -before, np.zeros(arm.n_joints), rng.uniform(-1.0, 1.0, arm.n_joints), -np.sign(before))
        rows.append(_measure_plan(rig, arm, choices[int(rng.integers(len(choices)))]))
    rig.close()
    return tuple(rows)


def _measure_plan(rig: RigBackend, arm: ArmModel, action: FloatArray) -> PlanTracking:
    q, q_dot = _joints(rig, arm)
    predicted = _predict(arm, q, q_dot, action)
    predicted_centers = _centers(arm, predicted)
    linear = step_map(arm, q)
    jacobian = arm.tcp(q)[1]
    dt = _CONTROL_TIMESTEP
    wanted = jacobian @ (linear.velocity_per_velocity @ q_dot + linear.velocity_per_action @ action - q_dot) / dt

    states = [(q, q_dot)]
    for command in (action, np.zeros(arm.n_joints), np.zeros(arm.n_joints)):
        states += _control_step(rig, arm, command)
    joint_path = np.array([position for position, _ in states])
    centers = _centers(arm, joint_path)
    joint_error = sphere_error = 0.0
    for place, fraction, physics_step in _between_samples(len(joint_path)):
        expected = (1.0 - fraction) * predicted[place] + fraction * predicted[place + 1]
        expected_centers = (1.0 - fraction) * predicted_centers[place] + fraction * predicted_centers[place + 1]
        joint_error = max(joint_error, float(np.abs(expected - joint_path[physics_step]).max()))
        distances = np.linalg.norm(expected_centers - centers[physics_step], axis=1)
        sphere_error = max(sphere_error, float(distances.max()))
    speeds = np.linalg.norm(np.diff(centers, axis=0), axis=2).max(axis=1) / _PHYSICS_TIMESTEP
    after, after_velocity = states[_SUBSTEPS]
    accelerated = (arm.tcp(after)[1] @ after_velocity - jacobian @ q_dot) / dt
    return PlanTracking(
        joint_speed=float(np.abs(q_dot).max()),
        joint_error=joint_error,
        sphere_error_m=sphere_error,
        speed_after_one_hold=float(speeds[2 * _SUBSTEPS - 1]),
        speed_after_two_holds=float(speeds[3 * _SUBSTEPS - 1]),
        acceleration_error=float(np.linalg.norm(accelerated - wanted)),
    )


def _between_samples(n_states: int) -> Iterator[tuple[int, float, int]]:
    """Give, for every physics step, the sample before it and the fraction of the way to the next one."""
    per_sample = _SUBSTEPS / _kernels.SAMPLES_PER_STEP
    last = round((n_states - 1) / per_sample) - 1
    for physics_step in range(n_states):
        place = min(int(physics_step / per_sample), last)
        yield place, physics_step / per_sample - place, physics_step


def _arm(robot: str) -> ArmModel:
    return arm_of_scene(_scene(robot, _CONTROL_TIMESTEP), _UID)


def _rig(robot: str) -> RigBackend:
    """Give a rig that advances by one physics step, so that its motion can be seen between control steps."""
    return make_backend(_scene(robot, _PHYSICS_TIMESTEP))


def _scene(robot: str, control_timestep: float) -> SceneSpec:
    return SceneSpec(
        robots=(RobotSpec(uid=_UID, model=robot),),
        physics_timestep=_PHYSICS_TIMESTEP,
        control_timestep=control_timestep,
    )


def _control_step(rig: RigBackend, arm: ArmModel, action: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
    """Apply an action for one control step; give the arm joints after every physics step."""
    command = np.zeros((1, robot_model(rig.scene.robots[0].model).action_dim))
    command[0, : arm.n_joints] = action
    rig.apply(_UID, command)
    states = list[tuple[FloatArray, FloatArray]]()
    for _ in range(_SUBSTEPS):
        rig.advance()
        states.append(_joints(rig, arm))
    return states


def _joints(rig: RigBackend, arm: ArmModel) -> tuple[FloatArray, FloatArray]:
    return rig.qpos(_UID)[0, arm.arm_joints].copy(), rig.qvel(_UID)[0, arm.arm_joints].copy()


def _predict(arm: ArmModel, q: FloatArray, q_dot: FloatArray, action: FloatArray) -> FloatArray:
    path = np.empty((1 + (1 + _HOLDING_STEPS) * _kernels.SAMPLES_PER_STEP, arm.n_joints))
    update = _kernels.velocity_update(arm.arrays, arm.mass_matrix(q))
    _kernels.predict_path(arm.arrays, update, q, q_dot, action, path)
    return path


def _centers(arm: ArmModel, path: FloatArray) -> FloatArray:
    centers = np.empty((len(path), len(arm.sphere_links), 3))
    sphere_paths(arm.arrays, path, np.empty((arm.n_joints + 2, 3, 4)), centers)
    return centers
