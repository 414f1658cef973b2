"""What the co-carry controllers command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chamber.agents import PandaJacobianProvider
from chamber.agents.xarm6_jacobian import XArm6JacobianProvider
from chamber.partners import PartnerSpec, load_partner
from chamber.partners.cocarry_policy_shift import COCARRY_POLICY_SHIFT_CANDIDATES
from chamber.partners.interface import assert_frozen

KEYS = ("cocarry_impedance", "cocarry_blind_impedance", *COCARRY_POLICY_SHIFT_CANDIDATES, "cocarry_xarm6_impedance")
PANDA_KEYS = KEYS[:-1]
READY = np.array([0.0, np.pi / 8, 0.0, -5 * np.pi / 8, 0.0, 3 * np.pi / 4, -np.pi / 4, 0.04, 0.04])
XARM6_READY = np.array([0.0, -0.084, -0.8, 0.0, 0.692, 0.0, *np.zeros(6)])


class LinearArm:
    """An arm whose first three joints are the coordinates of its tool centre point."""

    def __init__(self, urdf_path: str | None = None) -> None:
        self.urdf_path = urdf_path

    def fk_tcp_position(self, qpos_arm: np.ndarray) -> np.ndarray:
        return np.array(qpos_arm[:3])

    def __call__(self, snap: object, qpos_arm: np.ndarray) -> np.ndarray:
        return np.eye(3, len(qpos_arm))

    def jacobian(self, qpos_arm: np.ndarray) -> np.ndarray:
        return np.eye(3, len(qpos_arm))


class Tensor:
    """What a controller needs of a tensor that lives on a device."""

    def __init__(self, values: object) -> None:
        self._values = np.asarray(values)

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> np.ndarray:
        return self._values


@pytest.fixture
def linear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chamber.agents.panda_jacobian.PandaJacobianProvider", LinearArm)
    monkeypatch.setattr("chamber.agents.xarm6_jacobian.XArm6JacobianProvider", LinearArm)


def partner(key: str, **extra: str) -> Any:
    return load_partner(PartnerSpec(key, 0, None, None, extra))


def seated(key: str, **extra: str) -> Any:
    """A controller whose hand, when ready, is near its end of a bar at the origin."""
    if key in PANDA_KEYS[:2]:
        return partner(key, base_xyz="-0.5,0,0", **extra)
    return partner(key, base_xyz="0.35,0,0" if "xarm6" in key else "0.5,0,0", base_yaw_deg="180", **extra)


def seen(goal: object, qpos: object, *, uid: str = "panda_wristcam", **extra: object) -> dict[str, Any]:
    return {"agent": {uid: {"qpos": np.asarray(qpos, dtype=np.float64)}}, "extra": {"goal_pos": goal, **extra}}


def uid_of(key: str) -> str:
    return "xarm6_robotiq" if "xarm6" in key else "panda_wristcam" if key in PANDA_KEYS[:2] else "panda_partner"


def drawn_observations(rng: np.random.Generator, key: str, n: int) -> dict[str, Any]:
    """Joints, goals and bars near to each other, so that commands are not all at their limits."""
    ready = XARM6_READY if "xarm6" in key else READY
    quaternion = np.array([1.0, 0.0, 0.0, 0.0]) + rng.uniform(-0.01, 0.01, (n, 4))
    centre = np.array([0.0, 0.0, 0.17])
    return {
        "agent": {uid_of(key): {"qpos": (ready + rng.uniform(-0.01, 0.01, (n, len(ready)))).astype(np.float32)}},
        "extra": {
            "goal_pos": (centre + rng.uniform(-0.01, 0.01, (n, 3))).astype(np.float32),
            "bar_pose": np.hstack([centre + rng.uniform(-0.01, 0.01, (n, 3)), quaternion]).astype(np.float32),
        },
    }


def row(obs: Mapping[str, Any], place: int) -> dict[str, Any]:
    return {
        name: row(value, place) if isinstance(value, Mapping) else value[place : place + 1]
        for name, value in obs.items()
    }


def bar_pose(*position: float) -> np.ndarray:
    return np.array([*position, 1.0, 0.0, 0.0, 0.0])


@pytest.mark.usefixtures("linear")
class TestReferenceLaw:
    def test_the_target_is_the_own_end_of_the_bar_at_the_goal(self):
        action = partner("cocarry_impedance").act(seen((0.2, 0.0, 0.1), np.zeros(9)))
        assert action.dtype == np.float32
        np.testing.assert_allclose(action, [0.29952076, 0, 0.29952076, 0, 0, 0, 0, 1], atol=1e-6)

    def test_the_integral_grows_near_the_target(self):
        carrier = partner("cocarry_impedance")
        first = [carrier.act(seen((-0.113, 0.0, 0.0), np.zeros(9)))[0] for _ in range(3)]
        np.testing.assert_allclose(first, [0.05051917, 0.05111821, 0.05171725], atol=1e-6)

    @pytest.mark.parametrize("key", ["cocarry_impedance", "cocarry_xarm6_impedance"])
    def test_the_integral_engages_within_12_cm_and_is_bounded_at_60_cm_s(self, key: str):
        def integral_after(error: float, calls: int) -> float:
            gains = {"kp": "0", "ki": "0.1", "step_max": "1", "damping": "0", "bar_half_len": "0"}
            carrier = partner(key, **gains, base_xyz="0,0,0", base_yaw_deg="0")
            obs = seen((error, 0.0, 0.0), np.zeros(12), uid=uid_of(key))
            return [carrier.act(obs)[0] for _ in range(calls)][-1]  # 0.1 I / 0.1

        assert integral_after(0.1199, 1) == pytest.approx(0.05 * 0.1199)
        assert integral_after(0.1201, 1) == 0.0
        assert integral_after(0.1, 119) == pytest.approx(0.05 * 0.1 * 119)
        assert integral_after(0.1, 200) == pytest.approx(0.6)

    def test_a_turned_base_turns_the_command(self):
        turned = partner("cocarry_impedance", base_xyz="1,0,0", base_yaw_deg="180", end_sign="-1")
        action = turned.act(seen((0.2, 0.004, 0.0), np.zeros(9)))
        np.testing.assert_allclose(action[:2], [0.29952076, -0.09984025], atol=1e-6)

    def test_lag_holds_back_the_arm_and_not_the_gripper(self):
        carrier = partner("cocarry_impedance", lag_steps="2")
        obs = seen((0.2, 0.0, 0.1), np.zeros(9))
        actions = [carrier.act(obs) for _ in range(3)]
        np.testing.assert_array_equal(actions[0], [0] * 7 + [1])
        np.testing.assert_array_equal(actions[1], actions[0])
        np.testing.assert_allclose(actions[2], [0.29952076, 0, 0.29952076, 0, 0, 0, 0, 1], atol=1e-6)

    def test_a_call_without_fields_neither_feeds_nor_empties_the_lag(self):
        carrier = partner("cocarry_impedance", lag_steps="1")
        goals = [(0.2, 0.0, 0.0), None, (0.0, 0.2, 0.0), (0.0, 0.0, 0.2)]
        actions = [carrier.act({} if goal is None else seen(goal, np.zeros(9))) for goal in goals]
        for silent in actions[:2]:
            np.testing.assert_array_equal(silent, [0] * 7 + [1])
        np.testing.assert_allclose(actions[2][:3], [0.29952076, 0, 0], atol=1e-6)
        np.testing.assert_allclose(actions[3][1:3], [0.29952076, 0], atol=1e-6)

    @pytest.mark.parametrize("lag", ["11", "-1", "1.0", "x"])
    @pytest.mark.parametrize("key", ["cocarry_impedance", "cocarry_blind_impedance"])
    def test_a_bad_lag_is_refused(self, key: str, lag: str):
        with pytest.raises(ValueError, match=r"lag_steps must be an int in \[0, 10\]"):
            partner(key, lag_steps=lag)
        assert partner(key, lag_steps="10") is not None

    def test_reset_empties_integral_and_lag(self):
        for lag in ("0", "3"):
            carrier = partner("cocarry_impedance", lag_steps=lag)
            obs = seen((-0.113, 0.0, 0.0), np.zeros(9))
            first = [carrier.act(obs).tobytes() for _ in range(6)]
            carrier.reset(seed=9)
            assert [carrier.act(obs).tobytes() for _ in range(6)] == first
            assert len(set(first)) > 1

    def test_a_posture_gain_pulls_joints_back_that_do_not_move_the_tool(self):
        carrier = partner("cocarry_impedance", posture_gain="0.5")
        carrier.act(seen((-0.115, 0.0, 0.0), np.zeros(9)))
        drifted = np.array([0.0, 0.0, 0.0, 0.04, 0.0, -0.02, 0.0, 0.0, 0.0])
        np.testing.assert_allclose(
            carrier.act(seen((-0.115, 0.0, 0.0), drifted)), [0, 0, 0, -0.2, 0, 0.1, 0, 1], atol=1e-6
        )
        plain = partner("cocarry_impedance")
        plain.act(seen((-0.115, 0.0, 0.0), np.zeros(9)))
        np.testing.assert_array_equal(plain.act(seen((-0.115, 0.0, 0.0), drifted)), [0] * 7 + [1])

    def test_the_path_of_the_robot_description_reaches_the_kinematics(self, monkeypatch: pytest.MonkeyPatch):
        paths: list[str | None] = []

        class Recording(LinearArm):
            def __init__(self, urdf_path: str | None = None) -> None:
                super().__init__(urdf_path)
                paths.append(urdf_path)

        monkeypatch.setattr("chamber.agents.panda_jacobian.PandaJacobianProvider", Recording)
        partner("cocarry_impedance")
        partner("cocarry_impedance", urdf_path="arm.urdf")
        assert paths == [None, "arm.urdf"]


@pytest.mark.usefixtures("linear")
class TestBlind:
    def test_it_does_not_see_that_its_joints_jump(self):
        blind = partner("cocarry_blind_impedance", ki="5")
        rng = np.random.default_rng(0)
        goal = (0.2, 0.0, 0.1)
        actions = [blind.act(seen(goal, np.zeros(9)))]
        actions += [blind.act(seen(goal, rng.uniform(-1, 1, 9))) for _ in range(2)]
        for action in actions:
            np.testing.assert_allclose(action, [0.29952076, 0, 0.29952076, 0, 0, 0, 0, 1], atol=1e-6)
        # goals that keep the error at 2 mm show where it believes its first joint to be
        believed = 0.0
        for action in actions:
            believed += 0.1 * float(action[0])
        assert believed == pytest.approx(0.08985623, abs=1e-7)
        probe = blind.act(seen((believed - 0.115 + 0.002, 0.0, believed), np.zeros(9)))
        np.testing.assert_allclose(probe[:3], [0.002 * 2.5 / 1.0016 / 0.1, 0.0, 0.0], atol=1e-6)

    def test_it_integrates_what_it_sent_and_no_error_integral(self):
        blind = partner("cocarry_blind_impedance", ki="5", kp="0.5")
        goal, believed = np.array([-0.065, 0.0, 0.0]), 0.0
        for _ in range(50):
            action = blind.act(seen(goal, np.ones(9) if believed else np.zeros(9)))
            error = 0.05 - believed
            assert action[0] == pytest.approx(0.5 * error / 1.0016 / 0.1, abs=1e-9)
            believed += 0.1 * float(action[0])
        assert 0.0 < believed < 0.05

    def test_it_looks_once_even_when_the_goal_comes_later(self):
        blind = partner("cocarry_blind_impedance")
        unreadable = {"extra": {"goal_pos": (-0.115, 0.0, 0.0)}}
        np.testing.assert_array_equal(blind.act(unreadable), [0] * 7 + [1])
        np.testing.assert_array_equal(blind.act({"agent": seen((0,), np.full(9, 0.002))["agent"]}), [0] * 7 + [1])
        np.testing.assert_allclose(blind.act(unreadable)[:3], [-0.04992013] * 3, atol=1e-6)

    def test_after_a_reset_it_looks_again(self):
        blind = partner("cocarry_blind_impedance")
        obs = seen((-0.115, 0.0, 0.0), np.zeros(9))
        blind.act(obs)
        blind.reset()
        moved = blind.act(seen((-0.115, 0.0, 0.0), np.full(9, 0.002)))
        np.testing.assert_allclose(moved[:3], [-0.04992013] * 3, atol=1e-6)


@pytest.mark.usefixtures("linear")
class TestPolicyShift:
    obs = seen(
        (0.2, 0.0, 0.01), np.zeros(9), uid="panda_partner", bar_pose=np.array([0.1, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    )

    @pytest.mark.parametrize(
        ("key", "expected"),
        [
            ("cocarry_stiff_impedance", [0.5997601, 0, 0.5997601, 0, 0, 0, 0, 1]),
            ("cocarry_admittance", [0.23847377, 0, 0.04173291, 0, 0, 0, 0, 1]),
            ("cocarry_nullspace_impedance", [0.30207667, 0.00334568, 0.24704473, -1, 1, 1, -1, 1]),
        ],
    )
    def test_documented_commands(self, key: str, expected: list[float]):
        np.testing.assert_allclose(partner(key).act(self.obs), expected, atol=1e-6)

    def test_slew_moves_its_target_evenly_and_arrives(self):
        slow = partner("cocarry_slew_impedance")
        heights = [slow.act(self.obs)[2] for _ in range(150)]
        np.testing.assert_allclose(heights[:2], [0.00178286, 0.00356572], atol=1e-6)
        np.testing.assert_allclose(np.diff(heights[:140]), np.full(139, 0.00178286), atol=1e-6)
        np.testing.assert_allclose(heights[139:], np.full(11, 0.24960064), atol=1e-6)

    def test_slew_counts_complete_observations_only(self):
        slow = partner("cocarry_slew_impedance")
        for _ in range(10):
            slow.act({})
        assert slow.act(self.obs)[2] == pytest.approx(0.00178286, abs=1e-6)

    def test_slew_that_sees_the_bar_late_starts_at_its_end_in_world_axes(self):
        slow = partner("cocarry_slew_impedance", base_xyz="0.4,0,0", base_yaw_deg="90")
        blind = {**self.obs, "extra": {"goal_pos": (0.4, 0.0, 0.01)}}
        np.testing.assert_allclose(slow.act(blind)[:3], [0, 0.29952076, 0.24960064], atol=1e-6)  # 11.5 cm along -x
        start = {**self.obs, "extra": {"goal_pos": (0.515, 0.0, 0.0), "bar_pose": bar_pose(0.515, 0.007, 0.0)}}
        # the own end is at (0.4, 0.007, 0): seen from the turned base that is 7 mm along its x, less 2/140 of it
        np.testing.assert_allclose(slow.act(start)[:3], [2.5 * 0.007 * 138 / 140 / 1.0016 / 0.1, 0, 0], atol=1e-6)

    @pytest.mark.parametrize("key", ["cocarry_admittance", "cocarry_slew_impedance"])
    def test_without_a_bar_the_target_is_the_end_at_the_goal(self, key: str):
        obs = seen((0.117, 0.0, 0.0), np.zeros(9), uid="panda_partner")
        kp, damping = (1.2, 0.08) if key == "cocarry_admittance" else (2.5, 0.04)
        expected = kp * 0.002 / (1.0 + damping**2) / 0.1
        np.testing.assert_allclose(partner(key).act(obs)[:3], [expected, 0, 0], atol=1e-6)

    def test_a_bar_without_orientation_lies_along_x(self):
        nothing = {**self.obs, "extra": {**self.obs["extra"], "bar_pose": np.array([0.1, 0.0, 0.0, 0, 0, 0, 0])}}
        for key in ("cocarry_admittance", "cocarry_slew_impedance"):
            np.testing.assert_array_equal(partner(key).act(nothing), partner(key).act(self.obs))

    def test_the_keys_are_in_the_documented_order(self):
        assert COCARRY_POLICY_SHIFT_CANDIDATES == (
            "cocarry_stiff_impedance", "cocarry_admittance", "cocarry_slew_impedance", "cocarry_nullspace_impedance",
        )  # fmt: skip

    @pytest.mark.parametrize("key", COCARRY_POLICY_SHIFT_CANDIDATES)
    def test_gains_cannot_be_set(self, key: str):
        with pytest.warns(UserWarning, match=f"{key} has no parameter 'kp'"):
            tuned = partner(key, kp="0.1")
        np.testing.assert_array_equal(tuned.act(self.obs), partner(key).act(self.obs))


@pytest.mark.usefixtures("linear")
class TestXArm6:
    def test_it_goes_where_its_end_belongs_in_the_plane_and_levels_the_bar(self):
        carrier = partner("cocarry_xarm6_impedance", base_xyz="0,0,0", base_yaw_deg="0")
        half = np.radians(10.0) / 2.0
        tilted = np.array([0.1, 0.0, 0.0, np.cos(half), 0.0, -np.sin(half), 0.0])  # the +x end is up
        action = carrier.act(seen((0.117, 0.001, 0.0), np.zeros(12), uid="xarm6_robotiq", bar_pose=tilted))
        assert action.shape == (7,)
        rise = 2.0 * 0.115 * np.sin(np.radians(10.0))
        expected = np.clip(np.array([0.002, 0.001, rise]) * (2.5 + 0.6 * 0.05), -0.03, 0.03) / 1.0016 / 0.1
        np.testing.assert_allclose(action, [*expected, 0, 0, 0, 0], atol=1e-6)

    def test_bias_and_level_gain_weigh_what_it_sees(self):
        carrier = partner(
            "cocarry_xarm6_impedance", base_xyz="0,0,0", base_yaw_deg="0", ki="0", admit_bias="0.5", level_gain="0"
        )
        obs = seen(
            (0.119, 0.0, 0.001), np.zeros(12), uid="xarm6_robotiq", bar_pose=np.array([0.115, 0, 0.05, 1, 0, 0, 0])
        )
        np.testing.assert_allclose(carrier.act(obs)[:3], np.array([0.002, 0.0, 0.001]) * 2.5 / 1.0016 / 0.1, atol=1e-6)

    def test_without_a_bar_it_follows_the_reference_law(self):
        carrier = partner("cocarry_xarm6_impedance")
        reference = partner("cocarry_impedance", base_xyz="0.5,0,0", base_yaw_deg="180", end_sign="-1")
        for _ in range(3):
            action = carrier.act(seen((0.6, 0.05, 0.1), np.zeros(12), uid="xarm6_robotiq"))
            np.testing.assert_array_equal(action[:6], reference.act(seen((0.6, 0.05, 0.1), np.zeros(9)))[:6])


class TestEveryController:
    @pytest.mark.parametrize("key", KEYS)
    def test_it_is_frozen(self, key: str):
        assert_frozen(partner(key))

    @pytest.mark.parametrize("key", KEYS)
    @pytest.mark.parametrize("fields", [{}, {"agent": 3}, {"extra": {"goal_pos": (0.0, 0.0, 0.0)}}])
    def test_without_its_fields_it_stands_still_and_counts(self, key: str, fields: dict[str, object]):
        carrier = partner(key)
        expected = [0] * 6 + [0] if "xarm6" in key else [0] * 7 + [1]
        np.testing.assert_array_equal(carrier.act(fields), expected)
        assert carrier.n_incomplete_observations == 1
        carrier.reset()
        assert carrier.n_incomplete_observations == 0

    @pytest.mark.parametrize("key", KEYS)
    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_a_field_that_is_not_finite_counts_as_missing_and_leaves_no_trace(self, key: str, bad: float):
        rng = np.random.default_rng(5)
        steps = [drawn_observations(rng, key, 1) for _ in range(4)]
        spoilt = {**steps[1], "extra": {**steps[1]["extra"], "goal_pos": np.array([[bad, 0.0, 0.0]])}}
        extra = {"lag_steps": "1"} if key == "cocarry_impedance" else {}
        troubled, calm = seated(key, **extra), seated(key, **extra)
        for obs in (steps[0], spoilt, *steps[2:]):
            action = troubled.act(obs)
            assert np.isfinite(action).all()
            if obs is spoilt:
                np.testing.assert_array_equal(action[:-1], np.zeros(len(action) - 1))
            else:
                assert action.tobytes() == calm.act(obs).tobytes()
        assert (troubled.n_incomplete_observations, calm.n_incomplete_observations) == (1, 0)

    @pytest.mark.parametrize("key", KEYS)
    def test_arrays_lists_tensors_and_batches_are_read_alike(self, key: str):
        rng = np.random.default_rng(11)
        obs = drawn_observations(rng, key, 1)
        batch = {
            "agent": {uid_of(key): {"qpos": np.vstack([obs["agent"][uid_of(key)]["qpos"], np.ones((2, 12))[:, :9]])}}
            if "xarm6" not in key
            else obs["agent"],
            "extra": obs["extra"],
        }

        def converted(value: Any, leaf: Any) -> Any:
            return {k: converted(v, leaf) for k, v in value.items()} if isinstance(value, dict) else leaf(value)

        expected = partner(key).act(obs).tobytes()
        assert partner(key).act(batch).tobytes() == expected
        for leaf in (Tensor, lambda value: value[0], lambda value: value[0].tolist(), lambda value: Tensor(value[0])):
            assert partner(key).act(converted(obs, leaf)).tobytes() == expected

    @pytest.mark.parametrize("key", KEYS)
    @settings(max_examples=10, deadline=None)
    @given(seed=st.integers(0, 2**32 - 1))
    def test_equal_sequences_give_equal_bytes_whatever_was_before(self, key: str, seed: int):
        rng = np.random.default_rng(seed)
        sequence = [drawn_observations(rng, key, 1) for _ in range(8)]
        first, second = seated(key), seated(key)
        for obs in reversed(sequence):
            second.act(obs)
        second.reset(seed=1)
        for obs in sequence:
            action = first.act(obs, deterministic=False)
            assert action.dtype == np.float32
            assert np.abs(action).max() <= 1.0
            assert action.tobytes() == second.act(obs).tobytes()

    @pytest.mark.parametrize("key", KEYS)
    def test_a_batch_is_answered_as_each_environment_alone(self, key: str):
        extra = {"lag_steps": "2", "posture_gain": "0.1"} if key in PANDA_KEYS[:2] else {}
        rng, n = np.random.default_rng(7), 4
        batched, alone = seated(key, **extra), [seated(key, **extra) for _ in range(n)]
        for step in range(12):
            obs = drawn_observations(rng, key, n)
            if step == 5:
                obs["extra"]["goal_pos"][2] = np.nan
            if step == 8:
                batched.reset_rows([1, 3])
                for place in (1, 3):
                    alone[place].reset()
            expected = np.stack([carrier.act(row(obs, place)) for place, carrier in enumerate(alone)])
            assert batched.act_batch(obs).tobytes() == expected.tobytes()
            assert (np.abs(expected[0, :6]) < 1.0).any()
        assert batched.n_incomplete_observations == 1

    @pytest.mark.parametrize("key", KEYS)
    def test_an_episode_does_not_change_its_number_of_environments(self, key: str):
        rng = np.random.default_rng(2)
        carrier = partner(key)
        carrier.act_batch(drawn_observations(rng, key, 3))
        with pytest.raises(ValueError, match="this episode has 3 environments"):
            carrier.act_batch(drawn_observations(rng, key, 2))
        carrier.reset()
        assert carrier.act_batch(drawn_observations(rng, key, 2)).shape[0] == 2

    def test_a_batch_without_its_fields_is_refused(self):
        with pytest.raises(ValueError, match="'panda_wristcam'"):
            partner("cocarry_impedance").act_batch({"extra": {"goal_pos": np.zeros((2, 3))}})

    @pytest.mark.parametrize("key", KEYS)
    @pytest.mark.parametrize(
        ("extra", "message"),
        [
            ({"base_xyz": "0,0"}, "base_xyz must be exactly 3"),
            ({"base_xyz": "0,nan,0"}, "base_xyz"),
            ({"base_yaw_deg": "north"}, "base_yaw_deg"),
            ({"end_sign": "0"}, "end_sign must be 1 or -1"),
            ({"end_sign": "-2"}, "end_sign"),
            ({"bar_half_len": "-0.1"}, "bar_half_len must be >= 0"),
        ],
    )
    def test_bad_geometry_is_refused_by_name(self, key: str, extra: dict[str, str], message: str):
        with pytest.raises(ValueError, match=message):
            partner(key, **extra)

    @pytest.mark.parametrize("key", ["cocarry_impedance", "cocarry_blind_impedance", "cocarry_xarm6_impedance"])
    @pytest.mark.parametrize("name", ["kp", "ki", "step_max", "damping"])
    @pytest.mark.parametrize("text", ["-0.1", "nan", "inf", "soft", ""])
    def test_bad_gains_are_refused_by_name(self, key: str, name: str, text: str):
        with pytest.raises(ValueError, match=name):
            partner(key, **{name: text})

    @pytest.mark.parametrize("key", KEYS)
    def test_a_misspelt_parameter_gives_a_warning(self, key: str):
        with pytest.warns(UserWarning, match=f"{key} has no parameter 'bar_half_length'; it has .*bar_half_len"):
            partner(key, bar_half_length="0.1", task="cocarry")


class TestOnRealArms:
    """Joints go a fifth of the way to their targets in each step; there is no bar."""

    @pytest.mark.parametrize("key", [key for key in PANDA_KEYS if key != "cocarry_blind_impedance"])
    @pytest.mark.parametrize(("base", "yaw", "sign"), [("-0.5,0,0", "0", "1"), ("0.5,0,0", "180", "-1")])
    def test_a_panda_brings_its_end_to_the_goal(self, key: str, base: str, yaw: str, sign: str):
        carrier = partner(key, uid="arm", base_xyz=base, base_yaw_deg=yaw, end_sign=sign)
        goal, q = np.array([0.0, 0.12, 0.28]), READY.copy()
        arm = PandaJacobianProvider()
        turn = np.diag([-1.0, -1.0, 1.0]) if yaw == "180" else np.eye(3)
        place = np.array([float(part) for part in base.split(",")])
        for _ in range(400):
            tip = place + turn @ arm.fk_tcp_position(q[:7])
            bar = np.array([*(tip - float(sign) * np.array([0.115, 0.0, 0.0])), 1.0, 0.0, 0.0, 0.0])
            q[:7] += 0.02 * carrier.act(seen(goal, q, uid="arm", bar_pose=bar))[:7]
        tip = place + turn @ arm.fk_tcp_position(q[:7])
        np.testing.assert_allclose(tip, goal + float(sign) * np.array([0.115, 0.0, 0.0]), atol=2e-3)

    def test_an_xarm6_brings_its_end_to_the_goal(self):
        carrier = partner("cocarry_xarm6_impedance", base_xyz="0.35,0,0")
        goal, q = np.array([0.0, 0.12, 0.28]), XARM6_READY.copy()
        arm = XArm6JacobianProvider()
        for _ in range(400):
            q[:6] += 0.02 * carrier.act(seen(goal, q, uid="xarm6_robotiq"))[:6]
        tip = np.array([0.35, 0.0, 0.0]) + np.diag([-1.0, -1.0, 1.0]) @ arm.fk_tcp_position(q[:6])
        np.testing.assert_allclose(tip, goal - [0.115, 0.0, 0.0], atol=1e-4)

    def test_a_posture_gain_stops_the_drift_of_an_arm_that_goes_round_in_circles(self):
        """The pseudoinverse is not integrable: closed paths of the tool are open paths of the joints."""
        drifts: dict[str, float] = {}
        for gain in ("0", "0.2"):
            carrier = partner("cocarry_impedance", base_xyz="-0.5,0,0", posture_gain=gain)
            q, after_a_round = READY.copy(), []
            for step in range(1201):
                angle = 2.0 * np.pi * step / 60.0
                goal = np.array([0.0, 0.1 * np.sin(angle), 0.28 + 0.1 * np.cos(angle)])
                q[:7] += 0.02 * carrier.act(seen(goal, q))[:7]
                if step % 60 == 0 and step >= 120:
                    after_a_round.append(q[:7].copy())
            drifts[gain] = float(np.abs(after_a_round[-1] - after_a_round[0]).max())
        assert drifts["0"] > 5.0 * drifts["0.2"]

    def test_a_blind_arm_does_not_believe_in_joints_beyond_their_limits(self):
        blind = partner("cocarry_blind_impedance", base_xyz="-0.5,0,0")
        below = seen((-0.6, 0.0, -0.5), READY)
        commanded = sum(np.float64(blind.act(below)[:7]) for _ in range(200))
        limits = PandaJacobianProvider().chain.table
        assert READY[1] + 0.1 * commanded[1] > limits.upper[1] + 0.5
        # a target where that shoulder is at its limit is reached at once, so that is where it believes to be
        believed = blind._believed[0]
        assert believed[1] == limits.upper[1]
        assert ((believed >= limits.lower) & (believed <= limits.upper)).all()
