"""The scripted ego of pick-and-place: documented first action, its phases, and a whole episode on exact kinematics."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from chamber.agents import PandaJacobianProvider
from chamber.agents.pickplace_ego_scripted import (
    PICKPLACE_EGO_BASE_XYZ,
    PICKPLACE_EGO_UID,
    PICKPLACE_PHASES,
    ScriptedPickPlaceEgo,
)

FloatArray = NDArray[np.float64]

REST = [0.0, math.pi / 8, 0.0, -5 * math.pi / 8, 0.0, 3 * math.pi / 4, math.pi / 4, 0.04, 0.04]
CUBE = (0.0, 0.0, 0.02)
AT_REST = (0.0, 0.0, 0.1698)


def observation(
    *,
    tcp: tuple[float, ...] = AT_REST,
    cube: tuple[float, ...] = CUBE,
    goal: tuple[float, ...] = (0.02, -0.03, 0.2),
    qpos: list[float] | FloatArray = REST,
) -> dict[str, Any]:
    rotation = (0.0, 1.0, 0.0, 0.0)
    return {
        "agent": {PICKPLACE_EGO_UID: {"qpos": np.array([qpos])}, "fetch": {"qpos": np.zeros((1, 15))}},
        "extra": {
            "tcp_pose": np.array([(*tcp, *rotation)]),
            "cube_pose": np.array([(*cube, *rotation)]),
            "goal_pos": np.array([goal]),
        },
    }


def above(distance: float) -> tuple[float, float, float]:
    """A point above the cube."""
    return (CUBE[0], CUBE[1], CUBE[2] + distance)


def in_move() -> ScriptedPickPlaceEgo:
    """An ego that holds the cube."""
    ego = ScriptedPickPlaceEgo()
    ego.act(observation(tcp=above(0.08)))
    for _ in range(9):
        ego.act(observation(tcp=CUBE))
    assert ego.phase == "move"
    return ego


class RecordingMapping(Mapping[str, Any]):
    """A mapping that remembers which keys were read."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self.read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class Tensor:
    """What is needed of a tensor that lives on a device."""

    def __init__(self, values: object) -> None:
        self._values = np.asarray(values)

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> np.ndarray:
        return self._values


def test_constants():
    assert PICKPLACE_EGO_UID == "panda_wristcam"
    assert PICKPLACE_PHASES == ("reach_above", "descend", "grasp", "move", "settle")
    assert PICKPLACE_EGO_BASE_XYZ == (-0.615, 0.0, 0.0)


def test_the_documented_first_action():
    ego = ScriptedPickPlaceEgo()
    action = ego.act(observation())
    assert action.dtype == np.float32
    assert action.shape == (8,)
    np.testing.assert_allclose(action, [0, 1, 0, -0.554626, 0, 1, 0, 1], atol=1e-6)
    assert ego.phase == "reach_above"


def test_a_step_is_the_damped_least_squares_one():
    q = np.array([0.3, 0.2, -0.4, -1.8, 0.3, 1.9, 0.6])
    panda = PandaJacobianProvider()
    offset = np.array([0.004, -0.003, 0.002])
    target = panda.fk_tcp_position(q) + offset
    base = np.array([0.1, 0.2, 0.3])
    ego = ScriptedPickPlaceEgo(base_xyz=base)
    cube = tuple(target + base - [0, 0, 0.08])
    action = ego.act(observation(cube=cube, qpos=[*q, 0.04, 0.04]))
    jacobian, axis = panda.jacobian_6x7(q), panda.fk_tcp_rotation(q)[:, 2]
    error = np.concatenate([2.5 * offset, np.cross(axis, [0, 0, -1])])
    step = jacobian.T @ np.linalg.inv(jacobian @ jacobian.T + 0.01 * np.eye(6)) @ error
    np.testing.assert_allclose(action[:7], np.clip(step / 0.1, -1, 1), atol=1e-6)
    assert np.abs(step).min() < 0.1  # not everything is clipped


class TestPhases:
    def test_it_descends_when_it_is_above_the_cube(self):
        ego = ScriptedPickPlaceEgo()
        ego.act(observation(tcp=above(0.08 + 0.0151)))
        assert ego.phase == "reach_above"
        assert ego.act(observation(tcp=above(0.08 + 0.0149)))[7] == 1.0
        assert ego.phase == "descend"

    def test_it_holds_for_eight_steps_before_it_moves(self):
        ego = ScriptedPickPlaceEgo()
        ego.act(observation(tcp=above(0.08)))
        phases = []
        for _ in range(9):
            action = ego.act(observation(tcp=above(-0.002 + 0.0079)))
            phases.append(ego.phase)
            assert action[7] == -1.0
        assert phases == ["grasp"] * 8 + ["move"]

    def test_while_it_grasps_it_stays_where_it_is(self):
        ego = ScriptedPickPlaceEgo()
        ego.act(observation(tcp=above(0.08)))
        panda = PandaJacobianProvider()
        tcp = panda.fk_tcp_position(REST[:7]) + PICKPLACE_EGO_BASE_XYZ
        cube = tuple(tcp + np.array([0.0, 0.0, 0.003]))
        action = ego.act(observation(tcp=tuple(tcp), cube=cube))
        assert ego.phase == "grasp"
        np.testing.assert_allclose(action[:7], 0.0, atol=1e-12)

    def test_several_phases_can_pass_in_one_step(self):
        """A held cube that is at the goal: the ninth step in the grasp both moves and settles."""
        ego = ScriptedPickPlaceEgo()
        ego.act(observation(tcp=above(0.08)))
        phases = []
        for _ in range(9):
            ego.act(observation(tcp=CUBE, goal=CUBE))
            phases.append(ego.phase)
        assert phases == ["grasp"] * 8 + ["settle"]

    def test_a_dropped_cube_is_reached_for_again_with_an_open_gripper(self):
        ego = in_move()
        assert ego.act(observation(tcp=above(0.059)))[7] == -1.0
        assert ego.phase == "move"
        assert ego.act(observation(tcp=above(0.061)))[7] == 1.0
        assert ego.phase == "reach_above"

    def test_it_settles_at_the_goal_and_stays_closed(self):
        ego = in_move()
        ego.act(observation(tcp=CUBE, goal=above(0.0151)))
        assert ego.phase == "move"
        assert ego.act(observation(tcp=CUBE, goal=above(0.0149)))[7] == -1.0
        assert ego.phase == "settle"
        assert ego.act(observation(tcp=CUBE, goal=above(0.1)))[7] == -1.0
        assert ego.phase == "settle"
        ego.act(observation(tcp=above(0.07)))
        assert ego.phase == "reach_above"

    def test_a_regrasp_after_a_drop_holds_for_eight_steps_again(self):
        ego = in_move()
        ego.act(observation(tcp=above(0.08)))
        assert ego.phase == "reach_above"
        ego.act(observation(tcp=above(0.08)))
        assert ego.phase == "descend"
        phases = []
        for _ in range(9):
            ego.act(observation(tcp=CUBE))
            phases.append(ego.phase)
        assert phases == ["grasp"] * 8 + ["move"]

    def test_reset_starts_anew_whatever_the_seed(self):
        ego, fresh = in_move(), ScriptedPickPlaceEgo()
        ego.reset(seed=7)
        assert ego.phase == "reach_above"
        for tcp in [AT_REST, above(0.08), *[CUBE] * 10]:
            assert ego.act(observation(tcp=tcp)).tobytes() == fresh.act(observation(tcp=tcp)).tobytes()
            assert ego.phase == fresh.phase


@pytest.mark.parametrize(
    ("cube_start", "goal"),
    [((0.04, -0.03, 0.02), (-0.02, 0.05, 0.25)), ((-0.05, 0.05, 0.02), (0.05, -0.05, 0.06))],
)
def test_it_picks_the_cube_up_and_holds_it_at_the_goal(cube_start: tuple[float, ...], goal: tuple[float, ...]):
    """Joints get 39 % of the way to their targets per step, as with a drive whose time constant is 0.1 s."""
    panda, base = PandaJacobianProvider(), np.array(PICKPLACE_EGO_BASE_XYZ)
    ego = ScriptedPickPlaceEgo()
    cube, grip = np.array(cube_start), None
    q = np.array(REST)
    for _ in range(60):
        tcp = panda.fk_tcp_position(q[:7]) + base
        if grip is not None:
            cube = tcp + grip
        action = ego.act(observation(tcp=tuple(tcp), cube=tuple(cube), goal=goal, qpos=q))
        if grip is None and ego.phase == "move":
            grip = cube - tcp
        q[:7] += 0.39 * 0.1 * action[:7].astype(float)
    assert ego.phase == "settle"
    assert math.dist(cube, goal) < 0.015
    np.testing.assert_allclose(panda.fk_tcp_rotation(q[:7])[:, 2], [0, 0, -1], atol=0.02)
    assert ego.joint_limit_violations == 0


class TestReading:
    def test_a_masked_partner_is_never_read(self):
        obs = observation()
        partner = RecordingMapping(obs["agent"]["fetch"])
        obs["agent"]["fetch"] = partner
        agents = RecordingMapping(obs["agent"])
        masked = ScriptedPickPlaceEgo(mask_partner_obs=True, partner_uid="fetch")
        action = masked.act({**obs, "agent": agents})
        assert partner.read == set()
        assert action.tobytes() == ScriptedPickPlaceEgo().act(obs).tobytes()

    def test_masking_its_own_uid_blinds_it(self):
        ego = ScriptedPickPlaceEgo(mask_partner_obs=True, partner_uid=PICKPLACE_EGO_UID)
        with pytest.raises(KeyError, match=r"agent\.panda_wristcam\.qpos"):
            ego.act(observation())

    def test_the_observation_is_not_changed(self):
        obs = observation()
        ScriptedPickPlaceEgo(mask_partner_obs=True).act(obs)
        assert set(obs["agent"]) == {PICKPLACE_EGO_UID, "fetch"}

    def test_of_many_copies_the_first_is_answered(self):
        one, many = observation(), observation()
        for group in (many["extra"], many["agent"][PICKPLACE_EGO_UID]):
            for name, value in group.items():
                group[name] = np.concatenate([value, value + 1.0])
        assert ScriptedPickPlaceEgo().act(many).tobytes() == ScriptedPickPlaceEgo().act(one).tobytes()

    def test_flat_leaves_and_tensors_are_read(self):
        obs = observation()
        expected = ScriptedPickPlaceEgo().act(obs).tobytes()
        flat, tensors = observation(), observation()
        for group in (flat["extra"], flat["agent"][PICKPLACE_EGO_UID]):
            group.update({name: value[0].tolist() for name, value in group.items()})
        for group in (tensors["extra"], tensors["agent"][PICKPLACE_EGO_UID]):
            group.update({name: Tensor(value) for name, value in group.items()})
        assert ScriptedPickPlaceEgo().act(flat).tobytes() == expected
        assert ScriptedPickPlaceEgo().act(tensors).tobytes() == expected

    @pytest.mark.parametrize("field", ["tcp_pose", "cube_pose", "goal_pos"])
    def test_a_missing_field_is_named(self, field: str):
        obs = observation()
        del obs["extra"][field]
        with pytest.raises(KeyError, match=field):
            ScriptedPickPlaceEgo().act(obs)

    @pytest.mark.parametrize("field", ["tcp_pose", "cube_pose", "goal_pos"])
    @pytest.mark.parametrize("value", [[0.0, 0.0], [0.0, math.nan, 0.0], [[math.inf, 0.0, 0.0]]])
    def test_a_field_that_is_short_or_not_finite_is_named(self, field: str, value: object):
        obs = observation()
        obs["extra"][field] = np.array(value)
        ego = ScriptedPickPlaceEgo()
        with pytest.raises(ValueError, match=field):
            ego.act(obs)

    @pytest.mark.parametrize("base", [(0.0, 0.0), (0.0, math.nan, 0.0)])
    def test_a_base_that_is_no_point_is_refused(self, base: tuple[float, ...]):
        with pytest.raises(ValueError, match="base_xyz"):
            ScriptedPickPlaceEgo(base_xyz=base)


def test_joint_limits_that_it_would_leave_are_counted_and_logged_once(caplog: pytest.LogCaptureFixture):
    ego = ScriptedPickPlaceEgo()
    at_limit = [*REST]
    at_limit[3] = -0.07  # stretched out, and told to reach further still
    far_away = observation(qpos=at_limit, cube=(0.6, 0.0, 0.6))
    with caplog.at_level(logging.WARNING, logger="chamber.agents.pickplace_ego_scripted"):
        ego.act(far_away)
        ego.act(far_away)
    assert ego.joint_limit_violations == 2
    assert len(caplog.records) == 1
    assert "panda_joint4" in caplog.text
    ego.reset()
    assert ego.joint_limit_violations == 0
