"""`ArmSafety`: it always answers inside the box, lets pass what is safe, and never answers worse than holding still."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chamber.arm_safety import ArmModel, ArmSafety, ArmState, _kernels, arm_of_scene
from chamber.arm_safety._certificate import sphere_paths
from chamber.sim.robots import robot_model
from chamber.sim.scene import RobotSpec, SceneSpec
from concerto.safety.stack import SafetySource

READY = robot_model("panda_wristcam").ready_qpos
MARGIN_M = 0.004
MAX_SPEED = 0.4


@pytest.fixture(scope="module")
def safety(ego: ArmModel, partner: ArmModel) -> ArmSafety:
    return ArmSafety(ego=ego, partner=partner, partner_max_speed=MAX_SPEED, tracking_error_m=MARGIN_M)


def _state(q: np.ndarray | None = None, q_dot: np.ndarray | None = None) -> ArmState:
    qpos, qvel = READY.copy(), np.zeros(9)
    if q is not None:
        qpos[:7] = q
    if q_dot is not None:
        qvel[:7] = q_dot
    return ArmState(qpos, qvel)


def _away() -> np.ndarray:
    """Give a posture that turns its back on the other arm."""
    q = READY[:7].copy()
    q[0] = 2.0
    return q


def _random(seed: int, spread: float = 0.6) -> tuple[np.ndarray, ArmState, ArmState]:
    rng = np.random.default_rng(seed)
    action = rng.uniform(-1.0, 1.0, 8)
    if seed % 3 == 0:
        action = np.sign(action)
    ego, partner = (
        _state(READY[:7] + rng.uniform(-spread, spread, 7), rng.uniform(-0.8, 0.8, 7) * (rng.random() < 0.8))
        for _ in range(2)
    )
    return action, ego, partner


def _paths(safety: ArmSafety, action: np.ndarray, ego: ArmState) -> np.ndarray:
    """Give where the spheres of the ego go under an action and holding still after it, shape ``(16, N, 3)``."""
    arm = safety.ego
    q, q_dot = np.asarray(ego.qpos)[:7].copy(), np.asarray(ego.qvel)[:7].copy()
    path = np.empty((16, 7))
    update = _kernels.velocity_update(arm.arrays, arm.mass_matrix(q))
    _kernels.predict_path(arm.arrays, update, q, q_dot, np.asarray(action[:7]), path)
    centers = np.empty((16, len(arm.sphere_links), 3))
    sphere_paths(arm.arrays, path, np.empty((9, 3, 4)), centers)
    return centers


def _gaps(
    safety: ArmSafety, centers: np.ndarray, partner: ArmState, *, velocities: np.ndarray | None = None
) -> np.ndarray:
    """Give the distance of every pair along a path, to the partner where it is now or as it goes on, ``(16, N, M)``."""
    other = safety.partner.spheres(np.asarray(partner.qpos)[:7])
    ahead = 0.0 if velocities is None else velocities[None] * 0.01 * np.arange(16)[:, None, None]
    places = other.centers[None] + ahead
    distances = np.linalg.norm(centers[:, :, None] - places[:, None], axis=3)
    return distances - safety.ego.arrays.sphere_radii[None, :, None] - other.radii[None, None]


def _smallest_gaps(safety: ArmSafety, centers: np.ndarray, partner: ArmState) -> np.ndarray:
    """Give the smallest distance to the partner where it is now at every sample of a path, shape ``(16,)``."""
    return _gaps(safety, centers, partner).min(axis=(1, 2))


# --- passing through --------------------------------------------------------------------------------------------


@given(action=st.lists(st.floats(-1.0, 1.0, width=32), min_size=8, max_size=8))
@settings(max_examples=50, deadline=None)
def test_what_is_safe_passes_bit_for_bit(safety: ArmSafety, action: list[float]) -> None:
    nominal = np.array(action, dtype=np.float32)
    answer = safety.step(nominal, _state(_away()), _state())
    assert answer.source is SafetySource.PASS_THROUGH
    assert not answer.intervened
    np.testing.assert_array_equal(answer.action, nominal)
    np.testing.assert_array_equal(answer.filtered_action, nominal)
    assert answer.slack == 0.0
    assert answer.plan_clearance_m > 0.0


def test_an_action_beyond_the_box_is_clipped_and_counts_as_changed(safety: ArmSafety) -> None:
    answer = safety.step(np.array([3.0, 0, 0, 0, 0, 0, -7.0, 2.0]), _state(_away()), _state())
    np.testing.assert_array_equal(answer.action, [1.0, 0, 0, 0, 0, 0, -1.0, 1.0])
    assert answer.source is SafetySource.QP


def test_the_command_of_the_gripper_is_left_alone(safety: ArmSafety) -> None:
    for seed in range(30):
        action, ego, partner = _random(seed)
        assert safety.step(action, ego, partner).action[7] == action[7]


def test_an_action_keeps_its_shape(safety: ArmSafety) -> None:
    assert safety.step(np.zeros((1, 8)), _state(), _state(_away())).action.shape == (1, 8)
    assert safety.step(np.zeros(7), _state(), _state(_away())).action.shape == (7,)
    batched = ArmState(READY[None], np.zeros((1, 9)))
    assert safety.step(np.zeros(8), batched, batched).action.shape == (8,)


# --- always an answer, never worse than holding still -----------------------------------------------------------


@given(seed=st.integers(0, 1_000_000), spread=st.floats(0.0, 1.5))
@settings(max_examples=300, deadline=None)
def test_there_is_always_a_finite_answer_inside_the_box(safety: ArmSafety, seed: int, spread: float) -> None:
    action, ego, partner = _random(seed, spread)
    answer = safety.step(action, ego, partner)
    for value in (answer.action, answer.filtered_action):
        assert np.isfinite(value).all()
        assert (np.abs(value) <= 1.0).all()
    assert math.isfinite(answer.gap_m)
    assert math.isfinite(answer.slack)
    assert answer.fallback_fired == (answer.source in {SafetySource.BRAKING, SafetySource.FALLBACK})


@pytest.mark.parametrize("speed", [1e3, 1e30, 1e200, 1e307])
def test_even_an_absurd_speed_gets_an_answer(safety: ArmSafety, speed: float) -> None:
    for ego, partner in ((_state(q_dot=np.full(7, speed)), _state()), (_state(), _state(q_dot=np.full(7, -speed)))):
        answer = safety.step(np.ones(8), ego, partner)
        assert np.isfinite(answer.action).all()
        assert (np.abs(answer.action) <= 1.0).all()


def test_a_partner_that_is_faster_than_declared_is_reported(safety: ArmSafety) -> None:
    slow, fast = np.zeros(7), np.zeros(7)
    fast[0] = 2.0
    assert safety.step(np.zeros(8), _state(_away()), _state(q_dot=slow)).partner_excess_speed_ms <= 0.0
    assert safety.step(np.zeros(8), _state(_away()), _state(q_dot=fast)).partner_excess_speed_ms > 0.3


def _clearances(safety: ArmSafety, action: np.ndarray, ego: ArmState, partner: ArmState) -> np.ndarray:
    """Give the clearance of every pair from the partner's worst declared motion along a plan, ``(16, N, M)``.

    Spheres of its base, and those on the axis of its first joint, cannot move.
    """
    speeds = np.where(_moves(safety), MAX_SPEED, 0.0)[None, None]
    growth = speeds * 0.01 * np.arange(16)[:, None, None]
    return _gaps(safety, _paths(safety, action, ego), partner) - growth - MARGIN_M


def test_while_holding_still_is_clear_of_the_worst_motion_so_is_the_answer(safety: ArmSafety) -> None:
    held_back = 0
    for seed in range(700):
        action, ego, partner = _random(seed, 0.4)
        ego.qpos[0] += 0.4  # type: ignore[index]
        if _clearances(safety, np.zeros(7), ego, partner).min() < 0.0:
            continue
        answer = safety.step(action, ego, partner)
        assert _clearances(safety, answer.action, ego, partner).min() >= -1e-7
        held_back += _clearances(safety, action, ego, partner).min() < 0.0
    assert held_back > 10


def test_an_answer_is_as_clear_as_holding_still_or_gives_way(safety: ArmSafety) -> None:
    """Giving way, the smallest clearance of all pairs is at no time smaller than by holding still, and a pair that
    comes nearer is clear of the partner as it moves, to within 0.1 m/s."""
    gave_way = 0
    for seed in range(1000):
        action, ego, partner = _random(seed)
        answer = safety.step(action, ego, partner)
        planned, held = (_clearances(safety, wanted, ego, partner) for wanted in (answer.action, np.zeros(7)))
        comes_nearer = planned < np.minimum(held, 0.0) - 1e-7
        if not comes_nearer.any():
            continue
        gave_way += 1
        smallest, smallest_held = (np.minimum(values.min(axis=(1, 2)), 0.0) for values in (planned, held))
        assert (smallest >= smallest_held - 1e-7).all()
        q, q_dot = (np.asarray(values)[:7] for values in (partner.qpos, partner.qvel))
        before, after = (safety.partner.spheres(q + step * q_dot).centers for step in (-1e-6, 1e-6))
        likely, likely_held = (
            _gaps(safety, _paths(safety, wanted, ego), partner, velocities=(after - before) / 2e-6)
            for wanted in (answer.action, np.zeros(7))
        )
        reserve = 0.1 * 0.01 * np.arange(16)[:, None, None]
        is_clear = (likely >= MARGIN_M + reserve - 1e-6) | (likely >= likely_held - 1e-6)
        assert is_clear[comes_nearer].all()
    assert gave_way > 20


def _moves(safety: ArmSafety) -> np.ndarray:
    """Say which spheres of the partner can change their place: those of the base and on the first axis cannot."""
    turned = READY[:7].copy()
    turned[0] += 0.5
    before, after = (safety.partner.spheres(q).centers for q in (READY[:7], turned))
    return np.linalg.norm(after - before, axis=1) > 1e-9


def test_something_is_stopped_that_would_not_have_been_clear(safety: ArmSafety) -> None:
    """The property above is about something: without the filter it fails for many of the same states."""
    unsafe = 0
    for seed in range(200):
        action, ego, partner = _random(seed)
        holding = _smallest_gaps(safety, _paths(safety, np.zeros(7), ego), partner) - MARGIN_M
        unfiltered = _smallest_gaps(safety, _paths(safety, action, ego), partner) - MARGIN_M
        unsafe += bool((unfiltered < np.minimum(holding, 0.0) - 1e-7).any())
    assert unsafe > 10


def test_the_gap_where_the_arm_would_stop_closes_no_faster_than_the_barrier_allows(safety: ArmSafety) -> None:
    """``h+ >= (1 - alpha dt) h`` for the smallest gap at the stopping point, beside a partner at rest; to 3 mm, because
    rows are linear."""
    standoff = MARGIN_M + 0.001 + 0.15 * MAX_SPEED
    filtered = 0
    for seed in range(300):
        action, ego, partner = _random(seed)
        partner = ArmState(partner.qpos, np.zeros(9))
        answer = safety.step(action, ego, partner)
        now = _smallest_gaps(safety, _paths(safety, np.zeros(7), ego), partner)[-1] - standoff
        if answer.source is not SafetySource.QP or now < 0.0:
            continue
        filtered += 1
        after = _smallest_gaps(safety, _paths(safety, answer.action, ego), partner)[-1] - standoff
        assert after >= (1.0 - 5.0 * 0.05) * now - 0.003
    assert filtered > 20


def test_an_arm_gives_way_to_a_partner_that_comes_near(safety: ArmSafety) -> None:
    """Found for a state where the partner is inside the standoff and closes in: the answer moves the pair apart."""
    moved = 0
    for seed in range(400):
        _, ego, partner = _random(seed)
        gap, _ = safety.gap(ego, partner)
        ego = ArmState(ego.qpos, np.zeros(9))
        if not 0.01 < gap < 0.04:
            continue
        answer = safety.step(np.zeros(8), ego, partner)
        gaps = _smallest_gaps(safety, _paths(safety, answer.action, ego), partner)
        assert gaps[-1] >= gap - 1e-7
        moved += gaps[-1] > gap + 0.002
    assert moved >= 5


def test_the_filter_is_a_function_of_its_arguments(safety: ArmSafety, ego: ArmModel, partner: ArmModel) -> None:
    other = ArmSafety(ego=ego, partner=partner, partner_max_speed=MAX_SPEED, tracking_error_m=MARGIN_M)
    for seed in range(20):
        safety.step(*_random(1000 + seed))
    for seed in range(20):
        first, second = safety.step(*_random(seed)), other.step(*_random(seed))
        np.testing.assert_array_equal(first.action, second.action)
        assert first.source is second.source


# --- joint limits, speeds, links --------------------------------------------------------------------------------


def test_a_joint_stays_inside_its_limits(safety: ArmSafety, ego: ArmModel) -> None:
    q = _away()
    q[3] = ego.joint_upper[3] - 0.02
    into_the_limit = np.zeros(8)
    into_the_limit[3] = 1.0
    answer = safety.step(into_the_limit, _state(q), _state())
    assert answer.source is SafetySource.QP
    assert 0.0 < answer.action[3] < 0.5
    q[3] = ego.joint_upper[3] + 0.01
    assert safety.step(into_the_limit, _state(q), _state()).action[3] < 0.0


def test_links_that_may_come_together_are_not_kept_apart(ego: ArmModel, partner: ArmModel) -> None:
    links = sorted(set(ego.sphere_links))
    everything = [(mine, other) for mine in links for other in links]
    blind = ArmSafety(ego=ego, partner=partner, partner_max_speed=MAX_SPEED, unwatched=everything)
    action, ego_state, partner_state = _random(3)
    answer = blind.step(action, ego_state, partner_state)
    assert answer.source is SafetySource.PASS_THROUGH
    assert answer.gap_m == math.inf
    assert answer.pair is None
    seeing = ArmSafety(ego=ego, partner=partner, partner_max_speed=MAX_SPEED)
    gap, pair = seeing.gap(ego_state, partner_state)
    assert pair is not None
    half_blind = ArmSafety(ego=ego, partner=partner, partner_max_speed=MAX_SPEED, unwatched=[pair])
    assert half_blind.gap(ego_state, partner_state)[0] > gap


def test_a_faster_partner_is_kept_further_away(ego: ArmModel, partner: ArmModel) -> None:
    def let_through(speed: float | dict[str, float]) -> int:
        filters = ArmSafety(ego=ego, partner=partner, partner_max_speed=speed)
        return sum(not filters.step(*_random(seed)).intervened for seed in range(100))

    slow, fast = let_through(0.1), let_through(1.5)
    links = set(partner.sphere_links)
    assert fast < slow
    assert let_through(dict.fromkeys(links, 0.1)) == slow
    assert fast < let_through(dict.fromkeys(links, 0.1) | {"panda_hand": 1.5}) < slow


def test_an_arm_of_another_kind_can_be_the_partner(ego: ArmModel) -> None:
    model = robot_model("xarm6_robotiq")
    scene = SceneSpec(
        robots=(RobotSpec(uid="other", model="xarm6_robotiq", base_position=(0.4, 0.0, 0.2), base_yaw=math.pi),)
    )
    other = arm_of_scene(scene, "other")
    filters = ArmSafety(ego=ego, partner=other, partner_max_speed=0.3)
    answer = filters.step(np.ones(8), _state(), ArmState(model.ready_qpos, np.zeros(model.n_joints)))
    assert np.isfinite(answer.action).all()
    with pytest.raises(ValueError, match="drive of 'other' is not known"):
        ArmSafety(ego=other, partner=ego, partner_max_speed=0.3)


# --- bad input --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_refused_by_name(safety: ArmSafety, bad: float) -> None:
    action, qpos, qvel = np.zeros(8), READY.copy(), np.zeros(9)
    action[2] = qpos[4] = qvel[8] = bad
    with pytest.raises(ValueError, match="action must be a finite vector"):
        safety.step(action, _state(), _state())
    with pytest.raises(ValueError, match="qpos of the ego must be a finite vector"):
        safety.step(np.zeros(8), ArmState(qpos, np.zeros(9)), _state())
    with pytest.raises(ValueError, match="qvel of the partner must be a finite vector"):
        safety.step(np.zeros(8), _state(), ArmState(READY, qvel))


@pytest.mark.parametrize(
    "read",
    [
        lambda values: np.ma.masked_all(values.shape),
        lambda values: np.ma.masked_equal(values, values[1]),
        lambda values: values.astype(complex),
        lambda values: list(map(str, values)),
        lambda values: np.array(list(map(str, values)), dtype=object),
    ],
)
def test_what_is_no_measured_number_is_no_state_and_no_action(safety: ArmSafety, read: Any) -> None:
    with pytest.raises(ValueError, match="qpos of the ego must be numbers"):
        safety.step(np.zeros(8), ArmState(read(READY), np.zeros(9)), _state())
    with pytest.raises(ValueError, match="qvel of the partner must be numbers"):
        safety.step(np.zeros(8), _state(), ArmState(READY, read(np.zeros(9))))
    with pytest.raises(ValueError, match="action must be numbers"):
        safety.step(read(np.zeros(8)), _state(), _state())


def test_a_masked_array_that_hides_nothing_is_a_state(safety: ArmSafety) -> None:
    plain = safety.step(np.zeros(8), ArmState(READY, np.zeros(9)), _state())
    masked = safety.step(np.zeros(8), ArmState(np.ma.array(READY), np.zeros(9)), _state())
    assert np.array_equal(masked.action, plain.action)


def test_wrong_shapes_and_settings_are_refused_by_name(safety: ArmSafety, ego: ArmModel, partner: ArmModel) -> None:
    with pytest.raises(ValueError, match="action must have shape"):
        safety.step(np.zeros(6), _state(), _state())
    with pytest.raises(ValueError, match="action must have shape"):
        safety.step(np.zeros((2, 8)), _state(), _state())
    with pytest.raises(ValueError, match="action must be numbers"):
        safety.step(["a"] * 8, _state(), _state())  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"qpos of the partner must have shape \(9,\), got \(7,\)"):
        safety.step(np.zeros(8), _state(), ArmState(READY[:7], np.zeros(9)))
    for settings_, message in (
        ({"partner_max_speed": -0.1}, "partner_max_speed of"),
        ({"partner_max_speed": math.inf}, "partner_max_speed of"),
        ({"tracking_error_m": math.nan}, "tracking_error_m must be"),
        ({"cbf_alpha": 0.0}, "cbf_alpha must be"),
        ({"joint_alpha": -1.0}, "joint_alpha must be"),
        ({"weight_operational": -1.0}, "weight_operational must be"),
    ):
        with pytest.raises(ValueError, match=message):
            ArmSafety(ego=ego, partner=partner, **{"partner_max_speed": 0.3, **settings_})
    with pytest.raises(KeyError, match="no sphere on a link 'elbow'"):
        ArmSafety(ego=ego, partner=partner, partner_max_speed=0.3, unwatched=[("panda_hand", "elbow")])
    with pytest.raises(KeyError, match="must hold link"):
        ArmSafety(ego=ego, partner=partner, partner_max_speed={"panda_hand": 0.3})
