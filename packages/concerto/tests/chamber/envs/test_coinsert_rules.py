"""The rules of co-insert that need no simulator: bore, geometry, success, reward, gates, limits, the start aside."""

from __future__ import annotations

import json
import math
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chamber.partners.coinsert_impedance
from chamber.agents.panda_jacobian import PandaJacobianProvider
from chamber.envs import coinsert
from chamber.envs._coinsert_scene import bore_geoms, coinsert_scene, probe_bore_geoms
from chamber.envs._coinsert_start import moved_aside
from chamber.envs.coinsert import (
    COINSERT_CLEARANCE_SET_M,
    COINSERT_PEG_HALF_LENGTH_M,
    COINSERT_READY_QPOS,
    coinsert_capability_gate_floor,
    coinsert_conditions,
    coinsert_realism_compliance_line,
    coinsert_reward,
    coinsert_socket_inner_half_width,
    derive_force_limit,
    evaluate_coinsert_success,
    insertion_geometry,
    make_coinsert_env,
    resolve_coinsert_condition,
    resolve_coinsert_limits,
)
from chamber.sim.scene import Shape, finger_group

UPRIGHT = (1.0, 0.0, 0.0, 0.0)
UPSIDE_DOWN = (0.0, 1.0, 0.0, 0.0)


def pose(xyz: Any, quaternion: Any = UPRIGHT) -> np.ndarray:
    return np.array([[*xyz, *quaternion]], dtype=np.float64)


def turned(quaternion: Any, by: Any) -> np.ndarray:
    """The product ``by * quaternion``."""
    w1, x1, y1, z1 = by
    w2, x2, y2, z2 = quaternion
    return np.array(
        [
            w1 * w2 - x1 * x2 - y1 * y2 - z1 * z2,
            w1 * x2 + x1 * w2 + y1 * z2 - z1 * y2,
            w1 * y2 - x1 * z2 + y1 * w2 + z1 * x2,
            w1 * z2 + x1 * y2 - y1 * x2 + z1 * w2,
        ]
    )


# --- bore and scene -------------------------------------------------------------------------------------------


def test_the_bore_touches_a_circle_of_half_the_peg_and_half_the_clearance() -> None:
    widths = [1000 * coinsert_socket_inner_half_width(clearance) for clearance in COINSERT_CLEARANCE_SET_M]
    assert widths == pytest.approx([8.5, 8.25, 8.1])
    assert coinsert_socket_inner_half_width(0.002, peg_diameter_m=0.02) == pytest.approx(0.011)


def test_a_round_bore_is_a_floor_and_twelve_walls() -> None:
    geoms = bore_geoms(1e-3)
    assert len(geoms) == 13
    assert all(geom.shape is Shape.BOX for geom in geoms)
    floor, *walls = geoms
    assert floor.size == pytest.approx((0.03, 0.03, 0.005))
    assert floor.position == pytest.approx((0.0, 0.0, -0.055))
    for wall in walls:
        assert tuple(1000 * value for value in wall.size) == pytest.approx((10.75, 10.0385, 25.0), abs=1e-4)
        assert 1000 * math.hypot(*wall.position[:2]) == pytest.approx(19.25)
        assert wall.position[2] == pytest.approx(-0.025)
    angles = sorted(math.degrees(math.atan2(wall.position[1], wall.position[0])) % 360.0 for wall in walls)
    assert angles == pytest.approx([30.0 * place for place in range(12)])


@given(clearance=st.floats(1e-4, 2e-3), angle=st.floats(0.0, 2.0 * math.pi), beyond=st.floats(1e-6, 0.015))
def test_the_walls_leave_the_bore_free_and_close_everything_around_it(
    clearance: float, angle: float, beyond: float
) -> None:
    walls = bore_geoms(clearance)[1:]
    inner = coinsert_socket_inner_half_width(clearance)

    def is_in_a_wall(radius: float) -> bool:
        point = radius * np.array([math.cos(angle), math.sin(angle)])
        for wall in walls:
            out = np.array(wall.position[:2]) / math.hypot(*wall.position[:2])
            along, across = point @ out, point @ np.array([-out[1], out[0]])
            centre = math.hypot(*wall.position[:2])
            if abs(along - centre) <= wall.size[0] and abs(across) <= wall.size[1]:
                return True
        return False

    assert not is_in_a_wall(inner - 1e-9)
    corner = inner / math.cos(math.pi / 12)
    assert is_in_a_wall(min(corner + beyond, 0.0299))


def test_the_bore_of_the_probe_is_square() -> None:
    _, *walls = probe_bore_geoms(1e-3)
    assert len(walls) == 4
    for wall in walls:
        thin = min(wall.size[:2])
        assert 1000 * (max(map(abs, wall.position[:2])) - thin) == pytest.approx(8.5)
        assert 1000 * (max(map(abs, wall.position[:2])) + thin) == pytest.approx(30.0)


@pytest.mark.parametrize("condition_id", sorted(coinsert_conditions()))
def test_fingers_pass_through_peg_and_socket(condition_id: str) -> None:
    condition = resolve_coinsert_condition(condition_id)
    scene = coinsert_scene(condition, clearance_m=1e-3, friction=0.4, fidelity_probe=False)
    pairs = [frozenset({rule.first, rule.second}) for rule in scene.contacts]
    fingers = {finger_group(uid) for uid in condition.agent_uids}
    assert frozenset({"peg", "coinsert_socket"}) in pairs
    assert not any(pair & fingers and pair & {"peg", "coinsert_socket"} for pair in pairs)
    assert (scene.physics_timestep, scene.substeps) == (0.001, 50)
    [stiff] = [rule for rule in scene.contacts if {rule.first, rule.second} == {"peg", "coinsert_socket"}]
    assert (stiff.friction, stiff.time_constant, stiff.impedance) == (0.4, 0.002, (0.95, 0.99))


# --- conditions and gates -------------------------------------------------------------------------------------


def test_an_unknown_condition_is_refused_with_the_known_ones() -> None:
    assert resolve_coinsert_condition("coinsert_matched_reference").single_inserter is False
    assert resolve_coinsert_condition("coinsert_single_inserter_positive_control").single_inserter is True
    with pytest.raises(ValueError, match=r"coinsert_matched_reference.*coinsert_single_inserter_positive_control.*'x'"):
        resolve_coinsert_condition("x")


def test_the_table_of_conditions_is_a_copy() -> None:
    coinsert_conditions().clear()
    assert len(coinsert_conditions()) == 2


def test_the_gate_is_a_margin_below_the_reference_but_never_below_its_floor() -> None:
    assert coinsert_capability_gate_floor(0.9) == 0.75
    assert coinsert_capability_gate_floor(1.2) == pytest.approx(0.95)
    assert coinsert_capability_gate_floor(0.9, floor=0.1, margin=0.5) == pytest.approx(0.4)


def test_the_compliance_line_says_who_the_partner_is() -> None:
    line = coinsert_realism_compliance_line(
        partner_uid="panda_partner",
        partner_class="coinsert_reference_holder",
        frozen_assert_passed=True,
        forbidden_imports_absent=True,
        condition_id="coinsert_matched_reference",
    )
    assert line == (
        "realism_compliance condition_id=coinsert_matched_reference partner_uid=panda_partner "
        "partner_class=coinsert_reference_holder frozen_assert_passed=true forbidden_imports_absent=true "
        "shielded_attrs=[fit,learn,load_state_dict,named_parameters,set_weights,train,update,update_params] "
        "adr=ADR-009§Consequences,proposed-ADR-018§1"
    )


@pytest.mark.parametrize(("frozen", "absent"), [(False, True), (True, False), (False, False)])
def test_the_compliance_line_is_not_given_without_its_checks(frozen: bool, absent: bool) -> None:
    with pytest.raises(ValueError, match="must be True, got False"):
        coinsert_realism_compliance_line(
            partner_uid="p",
            partner_class="c",
            frozen_assert_passed=frozen,
            forbidden_imports_absent=absent,
            condition_id="x",
        )


def test_inserter_and_environment_agree_on_the_chamfer() -> None:
    assert coinsert.COINSERT_CHAMFER_M == chamber.partners.coinsert_impedance.COINSERT_CHAMFER_M


# --- geometry -------------------------------------------------------------------------------------------------


def test_depth_is_counted_from_the_mouth_into_the_socket() -> None:
    socket = pose((0.1, 0.2, 0.3))
    above = insertion_geometry(pose((0.1, 0.2, 0.3 + 0.040 + 0.012), UPSIDE_DOWN), socket)
    inside = insertion_geometry(pose((0.1, 0.2, 0.3), UPSIDE_DOWN), socket)
    assert above.depth_m == pytest.approx([-0.012])
    assert inside.depth_m == pytest.approx([0.040])
    assert inside.axis_align_deg == pytest.approx([0.0], abs=1e-9)
    assert inside.lateral_offset_m == pytest.approx([0.0], abs=1e-12)


def test_a_peg_that_points_out_of_the_socket_is_half_a_turn_off() -> None:
    assert insertion_geometry(pose((0.0, 0.0, 0.0)), pose((0.0, 0.0, 0.0))).axis_align_deg == pytest.approx([180.0])


@pytest.mark.parametrize("degrees", [1e-6, 0.25, 5.0, 90.0, 179.0])
def test_the_angle_between_peg_and_bore_is_exact_also_when_small(degrees: float) -> None:
    half = math.radians(degrees) / 2
    peg = pose((0.0, 0.0, 0.04), turned(UPSIDE_DOWN, (math.cos(half), 0.0, math.sin(half), 0.0)))
    assert insertion_geometry(peg, pose((0.0, 0.0, 0.0))).axis_align_deg == pytest.approx([degrees], rel=1e-9)


def test_the_tip_and_not_the_centre_of_the_peg_counts() -> None:
    geometry = insertion_geometry(pose((0.003, 0.004, 0.02), UPSIDE_DOWN), pose((0.0, 0.0, 0.0)))
    assert geometry.lateral_offset_m == pytest.approx([0.005])
    assert geometry.depth_m == pytest.approx([0.02])
    shorter = insertion_geometry(pose((0.0, 0.0, 0.0), UPSIDE_DOWN), pose((0.0, 0.0, 0.0)), peg_half_length_m=0.02)
    assert shorter.depth_m == pytest.approx([0.02])


unit = st.floats(-1.0, 1.0)
quaternions = (
    st.tuples(unit, unit, unit, unit)
    .filter(lambda q: np.linalg.norm(q) > 0.1)
    .map(lambda q: tuple(np.array(q) / np.linalg.norm(q)))
)
points = st.tuples(unit, unit, unit)


@given(peg=points, peg_turn=quaternions, socket=points, socket_turn=quaternions, shift=points)
def test_geometry_does_not_depend_on_where_the_world_begins(
    peg: Any, peg_turn: Any, socket: Any, socket_turn: Any, shift: Any
) -> None:
    here = insertion_geometry(pose(peg, peg_turn), pose(socket, socket_turn))
    there = insertion_geometry(pose(np.add(peg, shift), peg_turn), pose(np.add(socket, shift), -np.array(socket_turn)))
    for one, other in zip(here, there, strict=True):
        assert one == pytest.approx(other, abs=1e-6)
    tip_to_mouth = np.hypot(here.depth_m, here.lateral_offset_m)
    assert tip_to_mouth <= np.linalg.norm(np.subtract(peg, socket)) + COINSERT_PEG_HALF_LENGTH_M + 1e-9


# --- success, reward, limits ----------------------------------------------------------------------------------

SEATED = {
    "seated_depth_m": 0.038,
    "axis_align_deg": 5.0,
    "peak_insert_force_n": 10.0,
    "peak_couple_wrench_n": 20.0,
    "both_static": True,
    "settled": True,
    "f_insert_max": 10.0,
    "f_couple_max": 20.0,
}


@pytest.mark.parametrize(
    ("change", "succeeds"),
    [
        ({}, True),
        ({"seated_depth_m": 0.03799}, False),
        ({"axis_align_deg": 5.001}, False),
        ({"peak_insert_force_n": 10.001}, False),
        ({"peak_couple_wrench_n": 20.001}, False),
        ({"both_static": False}, False),
        ({"settled": False}, False),
        ({"seated_depth_m": 0.03, "depth_target_m": 0.032}, True),
        ({"seated_depth_m": 0.0379, "depth_eps_m": 0.003}, True),
        ({"axis_align_deg": 6.0, "axis_align_tol_deg": 7.0}, True),
        ({"peak_insert_force_n": 1e9, "f_insert_max": math.inf}, True),
        ({"seated_depth_m": math.nan}, False),
    ],
)
def test_success_is_everything_at_once(change: dict[str, Any], succeeds: bool) -> None:
    assert bool(evaluate_coinsert_success(**{**SEATED, **change})) == succeeds


def test_success_broadcasts() -> None:
    depths = np.array([0.037, 0.038, 0.039])
    assert evaluate_coinsert_success(**{**SEATED, "seated_depth_m": depths}).tolist() == [False, True, True]


def reward(**change: Any) -> float:
    state = {
        "lateral_offset_m": 0.0,
        "seated_depth_m": 0.0,
        "seated": False,
        "peak_couple_wrench_n": 0.0,
        "success": False,
        **change,
    }
    return float(coinsert_reward(**{name: np.array([value]) for name, value in state.items()})[0])


def test_the_reward_is_made_of_its_documented_parts() -> None:
    assert reward() == pytest.approx(1.0 / 5.0)
    assert reward(lateral_offset_m=0.02) == pytest.approx((1.0 - math.tanh(1.0)) / 5.0)
    assert reward(seated_depth_m=0.02) == pytest.approx(1.5 / 5.0)
    assert reward(seated_depth_m=0.08) == reward(seated_depth_m=0.04) == pytest.approx(2.0 / 5.0)
    assert reward(seated_depth_m=-0.08) == reward()
    assert reward(seated=True) == pytest.approx(4.0 / 5.0)
    assert reward(peak_couple_wrench_n=80.0) == reward()
    assert reward(peak_couple_wrench_n=160.0) == pytest.approx((1.0 - math.tanh(1.0)) / 5.0)
    assert reward(success=True, peak_couple_wrench_n=1e9) == 1.0


def test_a_force_limit_is_a_quarter_above_the_99th_percentile_rounded_up() -> None:
    assert derive_force_limit([10.0]) == 13.0
    assert derive_force_limit([8.0, 8.0]) == 10.0
    assert derive_force_limit(list(range(101))) == math.ceil(1.25 * 99)


@pytest.mark.parametrize("peaks", [[], [1.0, math.nan], [math.inf]])
def test_a_force_limit_needs_successes(peaks: list[float]) -> None:
    with pytest.raises(ValueError, match="peak_force_of_successes must be finite numbers"):
        derive_force_limit(peaks)


def test_the_limits_in_use_follow_from_the_episodes_beside_them() -> None:
    data = json.loads((files("chamber.envs") / "data" / "coinsert_limits.json").read_text(encoding="utf-8"))
    assert [part["clearance_m"] for part in data["episodes"]] == list(COINSERT_CLEARANCE_SET_M)
    limits = resolve_coinsert_limits("v2")
    for name, derived in (("insert_force", limits.f_insert_max_n), ("couple_wrench", limits.f_couple_max_n)):
        peaks = [
            peak
            for part in data["episodes"]
            for peak, success in zip(part[f"peak_{name}_n"], part["success"], strict=True)
            if success
        ]
        assert len(peaks) >= 270
        assert derive_force_limit(peaks) == derived


def test_the_documented_limits_are_none() -> None:
    limits = resolve_coinsert_limits("documented")
    assert (limits.f_insert_max_n, limits.f_couple_max_n) == (math.inf, math.inf)
    with pytest.raises(ValueError, match="limits must be 'v2' or 'documented', got 'v3'"):
        resolve_coinsert_limits("v3")


# --- the start ------------------------------------------------------------------------------------------------

offsets = st.tuples(*[st.floats(-0.01, 0.01)] * 3)


@given(offset=offsets)
def test_a_tool_that_starts_aside_is_moved_and_not_turned(offset: tuple[float, float, float]) -> None:
    arm = PandaJacobianProvider()
    ready = np.array(COINSERT_READY_QPOS)
    moved = moved_aside(ready, np.array(offset))
    shift = arm.fk_tcp_position(moved[:7]) - arm.fk_tcp_position(ready[:7])
    assert shift == pytest.approx(offset, abs=1e-10)
    assert arm.fk_tcp_rotation(moved[:7]) == pytest.approx(arm.fk_tcp_rotation(ready[:7]), abs=1e-10)
    assert moved[7:].tolist() == [0.04, 0.04]
    assert np.abs(moved - ready).max() < 0.1


def test_a_tool_cannot_start_where_the_arm_does_not_reach() -> None:
    with pytest.raises(ValueError, match="cannot be moved by"):
        moved_aside(np.array(COINSERT_READY_QPOS), np.array([2.0, 0.0, 0.0]))


# --- bad input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"episode_length": 249}, r"episode_length must be in \[250, 320\], got 249"),
        ({"episode_length": 321}, r"episode_length must be in \[250, 320\], got 321"),
        ({"condition_id": "x"}, "condition_id must be one of"),
        ({"peg_clearance_m": 0.0}, "peg_clearance_m must be > 0"),
        ({"peg_clearance_m": 0.05}, "peg_clearance_m must be > 0"),
        ({"peg_clearance_m": math.nan}, "peg_clearance_m must be > 0"),
        ({"peg_socket_friction": -0.1}, "peg_socket_friction must be finite and >= 0"),
        ({"start_offset_m": 0.02}, "start_offset_m must be in"),
        ({"start_offset_m": -1e-3}, "start_offset_m must be in"),
        ({"dwell_steps": 0}, "dwell_steps must be >= 1"),
        ({"f_insert_max": 0.0}, "f_insert_max must be > 0"),
        ({"f_couple_max": math.nan}, "f_couple_max must be > 0"),
        ({"limits": "v1"}, "limits must be 'v2' or 'documented'"),
        ({"num_envs": 0}, "num_envs must be >= 1"),
    ],
)
def test_a_bad_argument_is_refused_before_anything_is_built(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_coinsert_env(**arguments)
