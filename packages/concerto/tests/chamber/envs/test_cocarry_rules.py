"""The rules of co-carry as functions: tilt, success, penalty, coupling, conditions, derived limits."""

import json
import math
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chamber.envs import cocarry
from chamber.envs._cocarry_kernels import judge_step
from chamber.envs.cocarry import (
    COCARRY_REWARD_STRESS_TANH_SCALE_N,
    COCARRY_REWARD_STRESS_THRESHOLD_N,
    COCARRY_STRESS_MAX_PROXY_N,
    CoCarryLimits,
    cocarry_conditions,
    cocarry_coupling,
    cocarry_excess_stress_penalty,
    cocarry_matched_controller_specs,
    cocarry_xarm6_controller_spec,
    derive_stress_limits,
    evaluate_cocarry_success,
    resolve_cocarry_condition,
    resolve_cocarry_limits,
    tilt_deg_from_quaternion,
)

HALF = math.sqrt(0.5)
finite = st.floats(-10.0, 10.0)


@pytest.mark.parametrize(
    ("quaternion", "tilt"),
    [
        ((math.cos(math.radians(7.5)), 0.0, math.sin(math.radians(7.5)), 0.0), 15.0),
        ((HALF, 0.0, HALF, 0.0), 90.0),
        ((HALF, HALF, 0.0, 0.0), 0.0),
    ],
)
def test_tilt_is_the_angle_of_the_long_axis_to_the_horizontal(quaternion: tuple[float, ...], tilt: float) -> None:
    assert tilt_deg_from_quaternion(quaternion) == pytest.approx(tilt, abs=1e-6)


@given(st.lists(st.floats(-1.0, 1.0), min_size=4, max_size=4).filter(lambda q: math.hypot(*q) > 0.1), finite)
def test_tilt_changes_neither_with_the_sign_of_the_quaternion_nor_with_yaw(q: list[float], yaw: float) -> None:
    w, x, y, z = np.array(q) / math.hypot(*q)
    c, s = math.cos(yaw / 2), math.sin(yaw / 2)
    turned = (c * w - s * z, c * x - s * y, c * y + s * x, c * z + s * w)
    tilts = tilt_deg_from_quaternion([(w, x, y, z), (-w, -x, -y, -z), turned])
    assert tilts == pytest.approx(np.full(3, tilts[0]), abs=1e-5)
    assert 0.0 <= tilts[0] <= 90.0


def test_tilt_takes_quaternions_of_any_length_and_any_batch() -> None:
    steep = 3.0 * np.array([math.cos(0.1), 0.0, math.sin(0.1), 0.0])
    batch = np.tile(steep / 3.0, (2, 5, 1))
    assert tilt_deg_from_quaternion(batch).shape == (2, 5)
    assert tilt_deg_from_quaternion(batch) == pytest.approx(np.degrees(0.2))
    assert np.isfinite(tilt_deg_from_quaternion(steep))


def test_stress_costs_nothing_below_the_threshold_and_saturates_above() -> None:
    stress = [104.9, 110.0, 120.0, 130.0, 854.0]
    expected = [0.0, 0.0, 0.46211716, 0.76159416, 1.0]
    assert cocarry_excess_stress_penalty(stress) == pytest.approx(np.array(expected), abs=1e-8)
    assert cocarry_excess_stress_penalty(5.0, coeff=2.0, threshold=4.0, scale=1.0) == pytest.approx(2 * math.tanh(1.0))


def test_the_penalty_of_a_tensor_is_a_tensor() -> None:
    class Tensor(np.ndarray):
        """What the penalty uses of a tensor's interface, on an array."""

        def detach(self) -> "Tensor":
            raise AssertionError("the penalty must keep the tensor where it is")

        def clamp(self, *, min: float) -> "Tensor":  # noqa: A002 - torch's name
            return np.maximum(self, min).view(Tensor)

        def tanh(self) -> "Tensor":
            return np.tanh(self).view(Tensor)

    penalty = cocarry_excess_stress_penalty(np.array([100.0, 120.0]).view(Tensor))
    assert isinstance(penalty, Tensor)
    assert np.asarray(penalty) == pytest.approx(np.array([0.0, 0.46211716]))


@pytest.mark.parametrize(
    ("dist", "tilt", "stress", "static", "success"),
    [
        (0.10, 14.99, 129.9, True, True),
        (0.1001, 14.99, 129.9, True, False),
        (0.10, 15.0, 129.9, True, False),
        (0.10, 14.99, 130.0, True, False),
        (0.10, 14.99, 129.9, False, False),
    ],
)
def test_success_has_a_closed_radius_and_open_tilt_and_stress_limits(
    dist: float, tilt: float, stress: float, static: bool, success: bool
) -> None:
    judged = evaluate_cocarry_success(
        centroid_to_goal_dist=dist, max_tilt_deg=tilt, max_stress_proxy=stress, both_static=static
    )
    assert judged.dtype == bool
    assert judged == success


def test_success_broadcasts() -> None:
    judged = evaluate_cocarry_success(
        centroid_to_goal_dist=[[0.05], [0.2]], max_tilt_deg=[1.0, 20.0, 1.0], max_stress_proxy=3.0, both_static=True
    )
    assert judged.tolist() == [[True, False, True], [False, False, False]]


def test_success_takes_other_limits() -> None:
    def judge(**limits: float) -> bool:
        return bool(
            evaluate_cocarry_success(
                centroid_to_goal_dist=0.1, max_tilt_deg=10.0, max_stress_proxy=5.0, both_static=True, **limits
            )
        )

    assert judge()
    assert not judge(goal_thresh=0.09)
    assert not judge(tilt_max_deg=10.0)
    assert not judge(stress_max=5.0)


def test_coupling_defaults_to_the_stiff_unbounded_one_with_a_tenth_of_damping() -> None:
    assert cocarry_coupling() == (2e4, 2e3, 3.4028234663852886e38)
    assert cocarry_coupling(2000.0) == (2000.0, 200.0, 3.4028234663852886e38)
    assert cocarry_coupling(2000.0, 7.0, 30.0) == (2000.0, 7.0, 30.0)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"drive_stiffness": -1.0}, "drive_stiffness"),
        ({"drive_stiffness": math.inf}, "drive_stiffness"),
        ({"drive_damping": -1.0}, "drive_damping"),
        ({"drive_damping": math.nan}, "drive_damping"),
        ({"drive_force_limit": 0.0}, "drive_force_limit"),
        ({"drive_force_limit": math.nan}, "drive_force_limit"),
    ],
)
def test_a_coupling_that_cannot_be_is_refused_by_name(arguments: dict[str, float], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        cocarry_coupling(**arguments)


def test_the_three_conditions_and_no_other_have_names() -> None:
    assert [(c.condition_id, c.agent_uids, c.single_arm) for c in cocarry_conditions()] == [
        ("cocarry_matched_panda_pair", ("panda_wristcam", "panda_partner"), False),
        ("cocarry_single_arm_positive_control", ("panda_wristcam", "panda_partner"), True),
        ("cocarry_xarm6_partner", ("panda_wristcam", "xarm6_robotiq"), False),
    ]
    for condition in cocarry_conditions():
        assert resolve_cocarry_condition(condition.condition_id) == condition
    with pytest.raises(ValueError, match=r"'x'.*matched_panda_pair.*single_arm_positive_control.*xarm6_partner"):
        resolve_cocarry_condition("x")


def test_controllers_are_told_where_they_stand_and_which_end_they_hold() -> None:
    assert cocarry_matched_controller_specs() == {
        "panda_wristcam": {
            "uid": "panda_wristcam",
            "base_xyz": "-0.5,0.0,0.0",
            "base_yaw_deg": "0",
            "end_sign": "1",
            "bar_half_len": "0.115",
        },
        "panda_partner": {
            "uid": "panda_partner",
            "base_xyz": "0.5,0.0,0.0",
            "base_yaw_deg": "180",
            "end_sign": "-1",
            "bar_half_len": "0.115",
        },
    }
    xarm6 = cocarry_xarm6_controller_spec()
    assert (xarm6["base_xyz"], xarm6["base_yaw_deg"], xarm6["end_sign"]) == ("0.35,0.0,0.0", "180", "-1")


def test_documented_constants_keep_their_values() -> None:
    assert (
        COCARRY_STRESS_MAX_PROXY_N,
        COCARRY_REWARD_STRESS_THRESHOLD_N,
        COCARRY_REWARD_STRESS_TANH_SCALE_N,
        cocarry.COCARRY_BASE_X_M,
        cocarry.COCARRY_BAR_LENGTH_M,
        cocarry.COCARRY_BAR_CROSS_SECTION_M,
        cocarry.COCARRY_BAR_MASS_KG,
        cocarry.COCARRY_GRIP_OFFSET_Z_M,
        cocarry.COCARRY_DRIVE_DAMPING_RATIO,
        cocarry.COCARRY_GOAL_CENTROID_XYZ,
        cocarry.COCARRY_GOAL_JITTER_HALF_M,
        cocarry.COCARRY_GOAL_THRESH_M,
        cocarry.COCARRY_TILT_MAX_DEG,
        cocarry.COCARRY_STATIC_QVEL_THRESH,
        cocarry.COCARRY_SETTLE_WINDOW_STEPS,
        cocarry.COCARRY_DEFAULT_EPISODE_LENGTH,
        cocarry.COCARRY_REWARD_TRANSPORT_PBRS_COEFF,
    ) == (130.0, 110.0, 20.0, 0.5, 0.23, 0.025, 0.4, 0.1034, 0.1, (0.0, 0.12, 0.28), 0.02, 0.1, 15.0, 0.2, 15, 320, 1.0)


@pytest.mark.parametrize("stress", [4.9, 5.0, 5.1])
@pytest.mark.parametrize("tilt", [14.9, 15.0, 15.1])
@pytest.mark.parametrize("distance", [0.125, 0.126])
@pytest.mark.parametrize("speed", [0.2, 0.21])
def test_the_judge_of_a_step_compares_as_the_rule(stress: float, tilt: float, distance: float, speed: float) -> None:
    steps_met = np.array([2])
    judge_step(
        np.array([[distance, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]]),
        np.zeros((1, 3)),
        np.array([stress]),
        (np.array([[0.0, -speed]]),),
        (np.array([0]),),
        (np.array([0, 1]),),
        np.array([15], dtype=np.int32),
        15,
        np.array([0.125, 15.0, 5.0, 0.2]),
        np.array([tilt]),
        np.zeros(1),
        steps_met,
        True,
    )
    expected = evaluate_cocarry_success(
        centroid_to_goal_dist=distance,
        max_tilt_deg=tilt,
        max_stress_proxy=stress,
        both_static=speed <= 0.2,
        goal_thresh=0.125,
        stress_max=5.0,
    )
    assert steps_met[0] == (3 if expected else 0)


def test_stress_limits_follow_the_documented_rule() -> None:
    stresses = np.linspace(2.0, 3.0, 101).tolist()
    limits = derive_stress_limits(stresses)
    assert limits.stress_max_n == math.ceil(1.25 * 2.99) == 4
    assert limits.stress_threshold_n == pytest.approx(4 * 110 / 130)
    assert limits.stress_scale_n == pytest.approx(4 * 20 / 130)
    for bad in ([], [1.0, math.nan]):
        with pytest.raises(ValueError, match="peak_force_of_successes"):
            derive_stress_limits(bad)


def test_stored_limits_are_those_of_the_episodes_stored_with_them() -> None:
    text = (files("chamber.envs") / "data" / "cocarry_limits.json").read_text(encoding="utf-8")
    record = json.loads(text)
    successes = [row["max_stress_n"] for row in record["episodes"] if row["success"]]
    assert len(record["episodes"]) >= 100
    assert CoCarryLimits(**record["limits"]) == derive_stress_limits(successes) == resolve_cocarry_limits("v2")
    for name in ("rule", "backend", "versions", "machine", "percentiles_n"):
        assert record[name]


def test_documented_limits_are_still_there_and_others_are_refused() -> None:
    assert resolve_cocarry_limits("documented") == CoCarryLimits(130.0, 110.0, 20.0)
    with pytest.raises(ValueError, match=r"'v2' or 'documented', got 'v3'"):
        resolve_cocarry_limits("v3")
