"""What the co-insert controllers command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from chamber.agents import PandaJacobianProvider
from chamber.envs import coinsert
from chamber.partners import PartnerSpec, load_partner
from chamber.partners.coinsert_impedance import COINSERT_CHAMFER_M, CoInsertBaseInserter, CoInsertReferenceHolder
from chamber.partners.interface import assert_frozen

KEYS = ("coinsert_base_inserter", "coinsert_reference_holder")
DOWN = (0.0, 1.0, 0.0, 0.0)
UP = (1.0, 0.0, 0.0, 0.0)
PRESS = -0.12629792
LIFT = 0.1996805
STILL = [0.0] * 7 + [-1.0]
READY = np.array([0.0, -0.1, 0.0, -2.2, 0.0, 2.1, 0.785, 0.04, 0.04])


class LinearArm:
    """An arm whose joints are the coordinates and turns of its hand; the seventh turns it about z, unseen by J."""

    def __init__(self, urdf_path: str | None = None) -> None:
        pass

    def fk_tcp_rotation(self, qpos_arm: np.ndarray) -> np.ndarray:
        cosine, sine = np.cos(qpos_arm[6]), np.sin(qpos_arm[6])
        return np.array([[cosine, -sine, 0.0], [sine, cosine, 0.0], [0.0, 0.0, 1.0]])

    def jacobian_6x7(self, qpos_arm: np.ndarray) -> np.ndarray:
        return np.eye(6, 7)


@pytest.fixture
def linear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chamber.agents.panda_jacobian.PandaJacobianProvider", LinearArm)


def inserter(**extra: str) -> CoInsertBaseInserter:
    partner = load_partner(PartnerSpec("coinsert_base_inserter", 0, None, None, extra))
    assert isinstance(partner, CoInsertBaseInserter)
    return partner


def holder(**extra: str) -> CoInsertReferenceHolder:
    partner = load_partner(PartnerSpec("coinsert_reference_holder", 0, None, None, extra))
    assert isinstance(partner, CoInsertReferenceHolder)
    return partner


def seen(
    *,
    tip: tuple[float, float, float] = (0.0, 0.0, 0.1),
    mouth: tuple[float, float, float] = (0.0, 0.0, 0.0),
    socket_quaternion: tuple[float, ...] = UP,
    qpos: object = READY,
) -> dict[str, Any]:
    """A peg that points down with its tip at ``tip``; leaves have the leading axis of one environment."""
    peg = (tip[0], tip[1], tip[2] + 0.04, *DOWN)
    return {
        "agent": {"panda_wristcam": {"qpos": np.array([qpos], dtype=np.float32)}},
        "extra": {"peg_pose": np.array([peg]), "receptacle_pose": np.array([[*mouth, *socket_quaternion]])},
    }


@pytest.mark.usefixtures("linear")
class TestInserter:
    def test_documented_commands_of_the_three_branches(self):
        arm = inserter()
        approach = arm.act(seen(tip=(0.01, 0.0, 0.06)))
        assert approach.dtype == np.float32
        np.testing.assert_allclose(approach, [-LIFT, 0, -LIFT, 0, 0, 0, 0, -1], atol=1e-6)
        press = arm.act(seen(tip=(0.0, 0.0, 0.003)))
        np.testing.assert_allclose(press, [0, 0, PRESS, 0, 0, 0, 0, -1], atol=1e-6)
        np.testing.assert_array_equal(arm.act(seen(tip=(0.0, 0.0, -0.039))), STILL)

    def test_a_stuck_peg_is_lifted_with_a_spiral_and_pressed_again(self):
        arm = inserter()
        stuck = seen(tip=(0.0, 0.0, -0.010))
        actions = np.array([arm.act(stuck) for _ in range(15)])
        heights, sideways = actions[:, 2], np.hypot(actions[:, 0], actions[:, 1])
        assert (heights[:9] < 0.0).all()
        np.testing.assert_allclose(heights[9:14], np.full(5, LIFT), atol=1e-6)
        assert heights[14] == pytest.approx(PRESS, abs=1e-6)
        spiralling = sideways > 0.05
        np.testing.assert_array_equal(np.flatnonzero(spiralling), [8, 9, 10, 11, 12])

    def test_the_search_is_a_circle_about_the_axis_of_any_socket(self):
        half = np.sqrt(0.5)
        arm = inserter(ki="0")
        sideways = seen(mouth=(0.0, 0.0, 0.0), socket_quaternion=(half, 0.0, half, 0.0))  # its mouth looks along +x
        sideways["extra"]["peg_pose"] = np.array([[0.03, 0.0, 0.0, half, 0.0, -half, 0.0]])  # tip 10 mm inside
        actions = np.array([arm.act(sideways) for _ in range(13)])
        assert (actions[:8, 0] < 0.0).all()
        np.testing.assert_allclose(actions[9:13, 0], np.full(4, LIFT), atol=1e-6)
        gain = 2.5 * 0.003 / 1.0016 / 0.1
        np.testing.assert_allclose(np.hypot(actions[8:13, 1], actions[8:13, 2]), np.full(5, gain), atol=1e-6)
        turned = np.arctan2(actions[9:13, 2], actions[9:13, 1]) - np.arctan2(actions[8:12, 2], actions[8:12, 1])
        np.testing.assert_allclose(np.abs(np.angle(np.exp(1j * turned))), np.full(4, 0.6), atol=1e-5)

    @pytest.mark.parametrize(("progress_m", "gets_stuck"), [(1.1e-4, False), (0.9e-4, True)])
    def test_progress_of_more_than_a_tenth_of_a_millimetre_is_no_stall(self, progress_m: float, gets_stuck: bool):
        arm = inserter()
        depths = 0.010 + progress_m * np.arange(30)
        actions = [arm.act(seen(tip=(0.0, 0.0, -depth))) for depth in depths]
        assert any(action[2] > 0.0 for action in actions) == gets_stuck

    def test_the_search_knows_a_plane_also_where_the_axis_is_the_x_axis_to_the_last_bit(self):
        arm = inserter(kp="1", ki="0", damping="0", step_max="1")
        stuck = seen(tip=(-0.01, 0.0, 0.0), socket_quaternion=(0.5, 0.5, 0.5, 0.5))
        deeper, *beside = 0.1 * [arm.act(stuck)[:3] for _ in range(9)][-1]
        assert np.hypot(*beside) == pytest.approx(0.003, rel=1e-4)
        assert deeper == pytest.approx(-0.005, rel=1e-4)

    def test_an_approach_ends_a_stall_and_counts_as_the_call_before(self):
        arm = inserter()
        inside, beside = seen(tip=(0.0, 0.0, -0.010)), seen(tip=(0.0013, 0.0, -0.010))
        for _ in range(8):
            assert arm.act(inside)[2] < 0.0
        assert arm.act(beside)[2] > 0.0
        spirals = [abs(arm.act(inside)[1]) > 0.01 for _ in range(8)]
        assert spirals == [False] * 7 + [True]
        fresh = inserter()
        fresh.act(beside)
        assert [abs(fresh.act(inside)[1]) > 0.01 for _ in range(8)] == spirals

    def test_retraction_goes_not_far_out_of_the_mouth(self):
        arm = inserter(ki="0")
        at_mouth = seen(tip=(0.0, 0.0, 0.002))
        actions = [arm.act(at_mouth) for _ in range(10)]
        assert actions[9][2] == pytest.approx(2.5 * 0.003 / 1.0016 / 0.1, abs=1e-6)

    def test_a_peg_beside_the_axis_is_brought_in_front_of_the_mouth(self):
        arm = inserter(ki="0")
        np.testing.assert_allclose(
            arm.act(seen(tip=(0.0013, 0.0, -0.001)))[:3], np.array([-0.0013, 0, 0.005]) * 2.5 / 0.10016, atol=1e-6
        )
        near = arm.act(seen(tip=(0.0011, 0.0, -0.001)))
        assert near[2] < 0.0

    def test_the_depth_asked_for_ends_beyond_the_target(self):
        arm = inserter(ki="0", depth_target="0.03", descend_step="0.05", step_max="1")
        action = arm.act(seen(tip=(0.0, 0.0, -0.027)))
        assert action[2] == pytest.approx(-2.5 * 0.008 / 1.0016 / 0.1, abs=1e-6)

    def test_a_seated_peg_ends_the_retraction_and_empties_the_integral(self):
        arm = inserter()
        for _ in range(9):
            arm.act(seen(tip=(0.0, 0.0, -0.010)))
        np.testing.assert_array_equal(arm.act(seen(tip=(0.0, 0.0, -0.039))), STILL)
        again = arm.act(seen(tip=(0.0, 0.0, -0.010)))
        np.testing.assert_allclose(again, [0, 0, PRESS, 0, 0, 0, 0, -1], atol=1e-6)

    def test_a_turned_base_turns_the_command(self):
        straight, turned = inserter(), inserter(base_xyz="1,0,0", base_yaw_deg="180")
        obs = seen(tip=(0.002, 0.001, 0.006))
        first, second = straight.act(obs), turned.act(obs)
        np.testing.assert_allclose(second[:2], -first[:2], atol=1e-6)
        np.testing.assert_allclose(second[2:], first[2:], atol=1e-6)

    def test_the_envelope_is_the_radius_of_the_search_and_the_chamfer(self):
        assert COINSERT_CHAMFER_M == coinsert.COINSERT_CHAMFER_M
        assert inserter().insertion_envelope_m == {
            "spiral_search_amplitude_m": 0.003,
            "chamfer_capture_radius_m": COINSERT_CHAMFER_M,
            "insertion_envelope_m": 0.0035,
        }
        assert inserter(spiral_amp="0.001").insertion_envelope_m["insertion_envelope_m"] == pytest.approx(0.0015)

    def test_the_integral_is_bounded(self):
        arm = inserter(kp="0", ki="1", step_max="1")
        outside = seen(tip=(0.049, 0.0, 0.004))
        actions = [arm.act(outside)[0] for _ in range(400)]
        assert actions[0] == pytest.approx(-0.05 * 0.049 / 1.0016 / 0.1, abs=1e-6)
        limited = inserter(kp="0", ki="0.05", step_max="1")
        last = [limited.act(outside)[0] for _ in range(400)][-1]
        assert last == pytest.approx(-0.05 * 0.4 / 1.0016 / 0.1, abs=1e-6)

    def test_the_integral_rests_beyond_its_radius(self):
        arm = inserter(kp="0", ki="1", step_max="1")
        for _ in range(5):
            np.testing.assert_array_equal(arm.act(seen(tip=(0.051, 0.0, 0.004))), STILL)


@pytest.mark.usefixtures("linear")
class TestHolder:
    def test_documented_commands(self):
        arm = holder()
        np.testing.assert_array_equal(arm.act(seen()), STILL)
        moved = arm.act(seen(mouth=(0.001, 0.0, -0.002)))
        np.testing.assert_allclose(moved, [-0.01996805, 0, 0.04033546, 0, 0, 0, 0, -1], atol=1e-6)

    def test_it_pulls_softly_along_the_axis_and_across_it_by_gains_of_their_own(self):
        arm = holder(kp_lateral="1", kp_axial="3", ki="0")
        arm.act(seen())
        moved = arm.act(seen(mouth=(0.001, 0.0, 0.001)))
        np.testing.assert_allclose(moved[[0, 2]], [-0.001 / 0.10016, -0.003 / 0.10016], atol=1e-6)

    def test_it_never_looks_at_the_peg(self):
        first, second = holder(), holder()
        for _ in range(3):
            obs, other = seen(mouth=(0.0, 0.001, 0.0)), seen(mouth=(0.0, 0.001, 0.0), tip=(3.0, 0.0, 0.0))
            del other["extra"]["peg_pose"]
            assert first.act(obs).tobytes() == second.act(other).tobytes()

    def test_a_new_episode_holds_where_the_socket_is_then(self):
        arm = holder()
        arm.act(seen())
        arm.reset()
        np.testing.assert_array_equal(arm.act(seen(mouth=(0.001, 0.0, -0.002))), STILL)


def arm_of(key: str, **extra: str) -> Any:
    return load_partner(PartnerSpec(key, 0, None, None, extra))


class TestBoth:
    @pytest.mark.parametrize("key", KEYS)
    def test_it_is_frozen(self, key: str):
        assert_frozen(arm_of(key))

    @pytest.mark.parametrize("key", KEYS)
    @pytest.mark.parametrize(
        "fields", [{}, {"extra": seen()["extra"]}, {"agent": seen()["agent"]}, {"agent": None, "extra": 1.0}]
    )
    def test_without_its_fields_it_stands_still_and_counts(self, key: str, fields: Mapping[str, object]):
        arm = arm_of(key)
        np.testing.assert_array_equal(arm.act(fields), STILL)
        assert arm.n_incomplete_observations == 1

    @pytest.mark.parametrize("key", KEYS)
    @pytest.mark.parametrize("name", ["qpos", "receptacle_pose"])
    def test_a_field_that_is_not_finite_counts_as_missing(self, key: str, name: str):
        obs = seen(tip=(0.0, 0.0, 0.01))
        where = obs["agent"]["panda_wristcam"] if name == "qpos" else obs["extra"]
        where[name] = where[name].copy()
        where[name][0, 2] = np.nan
        arm = arm_of(key)
        np.testing.assert_array_equal(arm.act(obs), STILL)
        assert arm.n_incomplete_observations == 1

    @pytest.mark.parametrize("key", KEYS)
    def test_the_clear_check_passes_after_reset_and_fails_after_any_complete_call(self, key: str):
        arm = arm_of(key)
        arm.assert_episode_state_clear()
        arm.act(seen(tip=(0.001, 0.0, 0.01)))
        with pytest.raises(AssertionError, match=f"{type(arm).__name__} still has state.*call counter"):
            arm.assert_episode_state_clear()
        arm.reset(seed=3)
        arm.assert_episode_state_clear()

    @pytest.mark.usefixtures("linear")
    def test_the_clear_check_names_everything_that_is_left(self):
        arm = inserter()
        for _ in range(8):
            arm.act(seen(tip=(0.0, 0.0, -0.01)))
        with pytest.raises(AssertionError, match=r"counter, integral, held orientation, stall counter, last depth$"):
            arm.assert_episode_state_clear()
        arm.act(seen(tip=(0.0, 0.0, -0.01)))
        with pytest.raises(AssertionError, match=r"held orientation, retract counter, last depth$"):
            arm.assert_episode_state_clear()
        other = holder()
        other.act(seen())
        with pytest.raises(AssertionError, match=r"call counter, held orientation, held mouth$"):
            other.assert_episode_state_clear()

    @pytest.mark.parametrize("key", KEYS)
    def test_equal_sequences_give_equal_bytes_whatever_was_before(self, key: str):
        rng = np.random.default_rng(4)
        sequence = [
            seen(
                tip=(*rng.uniform(-5e-4, 5e-4, 2), depth),
                mouth=(*rng.uniform(-1e-4, 1e-4, 2), 0.0),
                qpos=READY + rng.uniform(-0.02, 0.02, 9),
            )
            for depth in (0.02, 0.01, 0.0, *np.full(14, -0.01), -0.038, -0.01)
        ]
        first, second = arm_of(key), arm_of(key)
        for obs in sequence:
            second.act(obs)
        second.reset()
        for obs in sequence:
            assert first.act(obs).tobytes() == second.act(obs, deterministic=False).tobytes()

    @pytest.mark.usefixtures("linear")
    @pytest.mark.parametrize("key", KEYS)
    @pytest.mark.parametrize(("turned", "asked"), [(0.04, -0.1), (-0.04, 0.1), (0.2, -0.15), (-3.1, 0.15)])
    def test_a_turn_is_undone_by_a_bounded_step(self, key: str, turned: float, asked: float):
        arm = arm_of(key, damping="1")
        still = READY.copy()
        still[6] = 0.0
        seated = {"tip": (0.0, 0.0, -0.04)}
        arm.act(seen(**seated, qpos=still))
        still[6] = turned
        np.testing.assert_allclose(
            arm.act(seen(**seated, qpos=still)), [0, 0, 0, 0, 0, asked / 2.0 / 0.1, 0, -1], atol=1e-6
        )

    @pytest.mark.parametrize("key", KEYS)
    def test_a_hand_that_was_turned_is_turned_back(self, key: str):
        arm, kinematics = arm_of(key), PandaJacobianProvider()
        start = READY[:7]
        tool = kinematics.fk_tcp_position(start)
        seated = seen(tip=(tool[0], tool[1], tool[2] - 0.04), mouth=(tool[0], tool[1], tool[2]))
        wanted = kinematics.fk_tcp_rotation(start)
        q = READY.copy()
        arm.act(seated)
        q[:7] += np.array([0.05, 0.02, -0.05, 0.03, 0.04, -0.03, 0.06])

        def angle() -> float:
            turned = wanted @ kinematics.fk_tcp_rotation(q[:7]).T
            return float(np.arccos(np.clip((np.trace(turned) - 1.0) / 2.0, -1.0, 1.0)))

        before = angle()
        for _ in range(60):
            seated["agent"]["panda_wristcam"]["qpos"] = q[None].copy()
            q[:7] += 0.02 * arm.act(seated)[:7].astype(np.float64)
        assert before > 0.05
        assert angle() < 1e-4

    @pytest.mark.parametrize("key", KEYS)
    @pytest.mark.parametrize("name", ["peg_half_len", "damping", "step_max", "ori_hold_gain", "ki"])
    @pytest.mark.parametrize("text", ["-1", "nan", "much"])
    def test_bad_parameters_are_refused_by_name(self, key: str, name: str, text: str):
        with pytest.raises(ValueError, match=name):
            arm_of(key, **{name: text})

    @pytest.mark.parametrize("key", KEYS)
    def test_a_misspelt_parameter_gives_a_warning(self, key: str):
        with pytest.warns(UserWarning, match=f"{key} has no parameter 'gain'"):
            arm_of(key, gain="2")
