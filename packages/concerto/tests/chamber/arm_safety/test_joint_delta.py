"""The map of one control step of a joint drive: exact for the integrator, and right in its limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chamber.agents.joint_delta import JointDeltaDrive

DRIVE = JointDeltaDrive()
INERTIAS = st.floats(0.0, 10.0)


def _simulate(inertia: float, target: float, velocity: float, drive: JointDeltaDrive = DRIVE) -> tuple[float, float]:
    """Follow the physics steps of the integrator one by one."""
    position = 0.0
    for _ in range(drive.substeps):
        force = drive.stiffness * (target - position) - drive.damping * velocity
        velocity += drive.physics_timestep * force / (inertia + drive.physics_timestep * drive.damping)
        position += drive.physics_timestep * velocity
    return position, velocity


@given(inertia=INERTIAS, target=st.floats(-0.1, 0.1), velocity=st.floats(-2.0, 2.0))
def test_response_is_what_the_physics_steps_do(inertia: float, target: float, velocity: float) -> None:
    response = DRIVE.response(inertia)
    position, speed = _simulate(inertia, target, velocity)
    assert response.position_per_target * target + response.position_per_velocity * velocity == pytest.approx(
        position, abs=1e-12
    )
    assert response.velocity_per_target * target + response.velocity_per_velocity * velocity == pytest.approx(
        speed, abs=1e-11
    )


def test_response_tends_to_the_differential_equation_for_short_physics_steps() -> None:
    drive = JointDeltaDrive(physics_timestep=1e-5, substeps=5000)
    inertia, dt = 1.0, 0.05
    fast, slow = ((-100.0 - sign * math.sqrt(100.0**2 - 4000.0)) / 2.0 for sign in (1.0, -1.0))
    # Both roots of m s^2 + c s + k: from rest at distance 1, and from the target with velocity 1.
    distance = (slow * math.exp(fast * dt) - fast * math.exp(slow * dt)) / (slow - fast)
    displacement = (math.exp(slow * dt) - math.exp(fast * dt)) / (slow - fast)
    response = drive.response(inertia)
    assert response.position_per_target == pytest.approx(1.0 - distance, rel=2e-3)
    assert response.position_per_velocity == pytest.approx(displacement, rel=2e-3)


def test_a_weightless_joint_follows_its_drive_at_once() -> None:
    response = DRIVE.response(0.0)
    assert response.position_per_velocity == 0.0
    assert response.velocity_per_velocity == 0.0
    assert response.position_per_target == pytest.approx(1.0 - 0.98**25)
    assert response.stopping_position_per_velocity == 0.0


@given(inertia=INERTIAS, action=st.floats(-1.0, 1.0), velocity=st.floats(-1.0, 1.0))
def test_stopping_point_is_an_integrator_of_the_action(inertia: float, action: float, velocity: float) -> None:
    response = DRIVE.response(inertia)
    stop = response.stopping_position_per_velocity * velocity
    position, speed = _simulate(inertia, 0.1 * action, velocity)
    shifted = position + response.stopping_position_per_velocity * speed
    assert shifted - stop == pytest.approx(response.stopping_position_per_target * 0.1 * action, abs=1e-12)
    for _ in range(60):  # holding still: every step aims at where it is
        step, speed = _simulate(inertia, 0.0, speed)
        position += step
    assert position == pytest.approx(shifted, abs=1e-6)


def test_gain_of_the_stopping_point_hardly_depends_on_the_inertia() -> None:
    gains = DRIVE.response(np.linspace(0.0, 5.0, 200)).stopping_position_per_target
    assert gains.shape == (200,)
    assert gains.min() > 0.396
    assert gains.max() < 0.404


def test_cartesian_map_is_the_mean_acceleration_of_a_joint_with_unit_lever() -> None:
    cartesian = DRIVE.cartesian_map(1.0)
    action, velocity = 0.4, 0.3
    _, after = _simulate(1.0, 0.1 * action, velocity)
    assert cartesian.scale * action + cartesian.drift_rate * velocity == pytest.approx((after - velocity) / 0.05)


@pytest.mark.parametrize("inertia", [-0.1, math.nan, math.inf])
def test_impossible_inertia_is_refused(inertia: float) -> None:
    with pytest.raises(ValueError, match="inertia must be finite and >= 0"):
        DRIVE.response([1.0, inertia])


@pytest.mark.parametrize(
    "name", ["stiffness", "damping", "torque_limit", "action_scale", "physics_timestep", "substeps"]
)
def test_impossible_drive_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        JointDeltaDrive(**{name: 0})
