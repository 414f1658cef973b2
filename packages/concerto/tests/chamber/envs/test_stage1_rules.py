"""Conditions and control models of pick-place, and how it is scored; no simulator runs here."""

from __future__ import annotations

import math

import numpy as np
import pytest

from chamber.envs import stage1_pickplace
from chamber.envs._stage1_scoring import is_pressed_open, normalized_reward
from chamber.envs.stage1_pickplace import build_control_models_for_condition, resolve_condition
from concerto.safety.api import AgentSnapshot, DoubleIntegratorControlModel, JacobianControlModel

HOMOGENEOUS = "stage1_pickplace_panda_only_mappo_shared_param"
HETEROGENEOUS = "stage1_pickplace_panda_plus_fetch_ego_aht_happo_per_agent"
VISION_ONLY = "stage1_pickplace_vision_only"
VISION_AND_FORCE = "stage1_pickplace_vision_plus_force_torque_plus_proprio"
CONDITIONS = (HOMOGENEOUS, HETEROGENEOUS, VISION_ONLY, VISION_AND_FORCE)

SNAPSHOT = AgentSnapshot(np.zeros(3), np.zeros(3), 0.1)


def test_an_unknown_condition_is_refused_with_the_four_names() -> None:
    with pytest.raises(ValueError, match=r"ADR-007 §Discipline") as refusal:
        resolve_condition("x")
    assert all(name in str(refusal.value) for name in CONDITIONS)


@pytest.mark.parametrize(
    ("name", "partner", "obs_mode", "is_om", "has_force_torque"),
    [
        (HOMOGENEOUS, "panda_partner", "state_dict", False, False),
        (HETEROGENEOUS, "fetch", "state_dict", False, False),
        (VISION_ONLY, "fetch", "rgb+depth+state_dict", True, False),
        (VISION_AND_FORCE, "fetch", "rgb+depth+state_dict", True, True),
    ],
)
def test_conditions_say_who_acts_and_what_is_seen(
    name: str, partner: str, obs_mode: str, is_om: bool, has_force_torque: bool
) -> None:
    assert resolve_condition(name) == (name, ("panda_wristcam", partner), obs_mode, is_om, has_force_torque)


def test_control_models_of_a_condition_are_documented_kinds_with_documented_sizes() -> None:
    models = build_control_models_for_condition(HETEROGENEOUS)
    assert list(models) == ["panda_wristcam", "fetch"]
    ego, fetch = models["panda_wristcam"], models["fetch"]
    assert isinstance(ego, JacobianControlModel)
    assert (ego.action_dim, ego.position_dim, ego.max_cartesian_accel_value) == (8, 3, 10.0)
    assert isinstance(fetch, DoubleIntegratorControlModel)
    assert fetch.action_dim == 2
    assert build_control_models_for_condition(HETEROGENEOUS, fetch_action_dim=13)["fetch"].action_dim == 13
    with pytest.raises(NotImplementedError):
        ego.action_to_cartesian_accel(SNAPSHOT, np.zeros(8))
    with pytest.raises(ValueError, match="x"):
        build_control_models_for_condition("x")


def test_both_pandas_get_the_jacobian_that_is_given() -> None:
    models = build_control_models_for_condition(
        HOMOGENEOUS, jacobian_fn=lambda _: 2.0 * np.eye(3, 4), panda_action_dim=4
    )
    assert list(models) == ["panda_wristcam", "panda_partner"]
    for uid, model in models.items():
        assert model.uid == uid
        np.testing.assert_array_equal(model.action_to_cartesian_accel(SNAPSHOT, np.arange(4.0)), [0.0, 2.0, 4.0])


def test_spheres_too_small_for_their_robot_are_refused_by_name_value_and_minimum() -> None:
    with pytest.raises(ValueError, match=r"'fetch' must be >= 0\.3 m, got 0\.29"):
        stage1_pickplace._validate_safety_radii({"fetch": 0.29})
    with pytest.raises(ValueError, match="nan"):
        stage1_pickplace._validate_safety_radii({"fetch": math.nan})
    stage1_pickplace._validate_safety_radii({"other": 0.0})
    stage1_pickplace._validate_safety_radii({"fetch": 0.30, "panda_wristcam": 0.08})
    with pytest.raises(ValueError, match="'other'"):
        stage1_pickplace._validate_safety_radii({"other": 0.0}, minimums={"other": 0.1})


def test_a_finger_is_pressed_by_half_a_newton_within_85_degrees_of_where_it_opens() -> None:
    upright = np.array([[1.0, 0.0, 0.0, 0.0]])
    opening = np.array([0.0, 1.0, 0.0])

    def pressed(force: list[float], quaternion: np.ndarray = upright) -> bool:
        return bool(is_pressed_open(np.array([force]), quaternion, opening)[0])

    assert pressed([0.0, 0.5, 0.0])
    assert not pressed([0.0, 0.499, 0.0])
    assert not pressed([0.0, -5.0, 0.0])
    for degrees, expected in ((84.9, True), (85.1, False)):
        angle = math.radians(degrees)
        assert pressed([0.0, 10 * math.cos(angle), 10 * math.sin(angle)]) is expected
    quarter_turn_about_z = np.array([[math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5)]])
    assert pressed([-1.0, 0.0, 0.0], quarter_turn_about_z)
    assert not pressed([1.0, 0.0, 0.0], quarter_turn_about_z)


def test_the_reward_is_its_formula_over_five_and_one_on_success() -> None:
    rng = np.random.default_rng(0)
    n = 16
    tcp, cube, goal, qvel = (rng.normal(scale=0.2, size=(n, k)) for k in (7, 7, 3, 7))
    grasped, placed = rng.random(n) < 0.5, rng.random(n) < 0.5
    near = lambda distance: 1.0 - np.tanh(5.0 * distance)  # noqa: E731
    expected = (
        near(np.linalg.norm(tcp[:, :3] - cube[:, :3], axis=1))
        + grasped
        + grasped * near(np.linalg.norm(cube[:, :3] - goal, axis=1))
        + placed * near(np.linalg.norm(qvel, axis=1))
    ) / 5.0
    nothing = np.zeros(n, dtype=bool)
    np.testing.assert_allclose(normalized_reward(tcp, cube, goal, qvel, grasped, placed, nothing), expected, rtol=1e-12)
    np.testing.assert_array_equal(normalized_reward(tcp, cube, goal, qvel, grasped, placed, ~nothing), np.ones(n))


def test_one_copy_is_scored_as_many_are_to_the_last_bit() -> None:
    rng = np.random.default_rng(12)
    n, axis = 200, np.array([0.3, -0.9, math.sqrt(0.1)])
    forces, quaternions = rng.normal(scale=0.5, size=(n, 3)), rng.normal(size=(n, 4))
    quaternions /= np.linalg.norm(quaternions, axis=1, keepdims=True)
    forces[0] = 0.0
    pressed = is_pressed_open(forces, quaternions, axis)
    assert 0 < pressed.sum() < n
    columns = [rng.normal(scale=0.2, size=(n, width)) for width in (7, 7, 3, 7)]
    flags = [rng.random(n) < 0.5 for _ in range(3)]
    rewards = normalized_reward(*columns, *flags)
    for k in range(n):
        row = slice(k, k + 1)
        assert is_pressed_open(forces[row], quaternions[row], axis).tobytes() == pressed[row].tobytes()
        alone = normalized_reward(*[column[row] for column in columns], *[flag[row] for flag in flags])
        assert alone.tobytes() == rewards[row].tobytes()
