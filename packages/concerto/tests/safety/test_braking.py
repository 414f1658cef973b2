"""Time to collision and the braking override."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concerto.safety.api import AgentSnapshot, Bounds, JacobianControlModel
from concerto.safety.braking import DEFAULT_TAU_BRAKE, compute_min_ttc, maybe_brake
from concerto.safety.emergency import CartesianAccelEmergencyController, JacobianEmergencyController
from ripieno.randomness import derive_substream

BOUNDS = Bounds(1.0, 1.0, 10.0, 0.0, 50.0)
seeds = st.integers(0, 2**32 - 1)


def snap(position, velocity=(0.0, 0.0), radius: float = 0.25) -> AgentSnapshot:
    return AgentSnapshot(np.array(position, dtype=float), np.array(velocity, dtype=float), radius)


def head_on(speed: float) -> dict[str, AgentSnapshot]:
    return {"a": snap((0.0, 0.0), (speed, 0.0)), "b": snap((1.0, 0.0))}


def no_actions(*uids: str) -> dict[str, np.ndarray]:
    return {uid: np.zeros(2) for uid in uids}


def random_team(seed: int, *, n: int = 4, dim: int = 2) -> dict[str, AgentSnapshot]:
    rng = derive_substream("test.safety.braking", root_seed=seed).default_rng()
    return {
        f"robot{k}": AgentSnapshot(rng.uniform(-1, 1, dim), rng.uniform(-3, 3, dim), rng.uniform(0.05, 0.3))
        for k in range(n)
    }


# --- documented answers -------------------------------------------------------------------------------------


def test_time_to_collision_of_a_head_on_approach() -> None:
    assert compute_min_ttc(head_on(2.0)) == {("a", "b"): 0.25}
    assert compute_min_ttc(head_on(5.0)) == {("a", "b"): 0.1}


def test_braking_starts_below_the_threshold_and_not_at_it() -> None:
    assert DEFAULT_TAU_BRAKE == 0.1
    assert maybe_brake(no_actions("a", "b"), head_on(5.0), bounds=BOUNDS) == (None, False)
    override, fired = maybe_brake(no_actions("a", "b"), head_on(6.0), bounds=BOUNDS)
    assert fired
    np.testing.assert_array_equal(override["a"], [-1.0, 0.0])
    np.testing.assert_array_equal(override["b"], [1.0, 0.0])


def test_a_robot_squeezed_from_two_sides_gets_no_acceleration() -> None:
    snaps = {"l": snap((-0.4, 0.0)), "m": snap((0.0, 0.0)), "r": snap((0.4, 0.0))}
    override, fired = maybe_brake(no_actions("l", "m", "r"), snaps, bounds=BOUNDS)
    assert fired
    np.testing.assert_array_equal(override["l"], [-1.0, 0.0])
    np.testing.assert_array_equal(override["m"], [0.0, 0.0])
    np.testing.assert_array_equal(override["r"], [1.0, 0.0])


def test_overlapping_robots_have_no_time_left_even_while_they_separate() -> None:
    snaps = {"a": snap((0.0, 0.0), (-1.0, 0.0)), "b": snap((0.3, 0.0), (1.0, 0.0))}
    assert compute_min_ttc(snaps) == {("a", "b"): 0.0}
    assert maybe_brake(no_actions("a", "b"), snaps, bounds=BOUNDS)[1]


@pytest.mark.parametrize(
    "velocity", [(0.0, 0.0), (-2.0, 0.0), (0.0, 3.0), (1e-7, 0.0)], ids=["rest", "away", "past", "too slow"]
)
def test_robots_that_never_touch_have_infinite_time(velocity) -> None:
    assert compute_min_ttc({"a": snap((0.0, 0.0), velocity), "b": snap((1.0, 0.0))}) == {("a", "b"): math.inf}


def test_coincident_centres_are_pushed_apart_along_x() -> None:
    snaps = {"a": snap((0.0, 0.0)), "b": snap((0.0, 0.0))}
    override, fired = maybe_brake(no_actions("a", "b"), snaps, bounds=BOUNDS)
    assert fired
    np.testing.assert_array_equal(override["a"], [1.0, 0.0])
    np.testing.assert_array_equal(override["b"], [-1.0, 0.0])


def test_fewer_than_two_robots_never_brake() -> None:
    assert compute_min_ttc({}) == {}
    assert compute_min_ttc({"a": snap((0.0, 0.0))}) == {}
    assert maybe_brake(no_actions("a"), {"a": snap((0.0, 0.0))}, bounds=BOUNDS) == (None, False)


def test_robots_out_of_danger_keep_the_same_array() -> None:
    snaps = {**head_on(6.0), "c": snap((9.0, 9.0))}
    actions = no_actions("a", "b", "c")
    override, _ = maybe_brake(actions, snaps, bounds=BOUNDS)
    assert list(override) == ["a", "b", "c"]
    assert override["c"] is actions["c"]
    assert override["a"] is not actions["a"]
    np.testing.assert_array_equal(actions["a"], [0.0, 0.0])


def test_own_controllers_are_used() -> None:
    model = JacobianControlModel(uid="a", action_dim=3, position_dim=2, jacobian_fn=lambda _: np.eye(2, 3))
    controllers = {
        "a": JacobianEmergencyController(control_model=model),
        "b": CartesianAccelEmergencyController(),
    }
    actions = {"a": np.zeros(3), "b": np.zeros(2)}
    override, _ = maybe_brake(actions, head_on(6.0), bounds=BOUNDS, emergency_controllers=controllers)
    np.testing.assert_allclose(override["a"], [-1.0, 0.0, 0.0], atol=1e-5)
    np.testing.assert_array_equal(override["b"], [1.0, 0.0])


def test_a_controlled_robot_in_danger_needs_a_controller() -> None:
    controllers = {"a": CartesianAccelEmergencyController()}
    with pytest.raises(KeyError, match="'b'"):
        maybe_brake(no_actions("a", "b"), head_on(6.0), bounds=BOUNDS, emergency_controllers=controllers)


# --- properties ---------------------------------------------------------------------------------------------


@given(seeds, st.sampled_from([2, 3]))
def test_time_to_collision_agrees_with_dense_sampling(seed, dim) -> None:
    snaps = random_team(seed, n=2, dim=dim)
    (time_to_collision,) = compute_min_ttc(snaps).values()
    a, b = snaps.values()

    def gap(t):
        offsets = (a.position - b.position) + np.multiply.outer(t, a.velocity - b.velocity)
        return np.linalg.norm(offsets, axis=-1) - (a.radius + b.radius)

    times = np.linspace(0.0, 20.0, 20_001)
    touching = times[gap(times) <= 0.0]
    if time_to_collision == math.inf:
        assert touching.size == 0
    elif time_to_collision == 0.0:
        assert gap(0.0) <= 0.0
    else:
        assert gap(time_to_collision) == pytest.approx(0.0, abs=1e-9)
        assert (gap(np.linspace(0.0, time_to_collision, 1000)[:-1]) > 0.0).all()
        if touching.size:
            assert time_to_collision <= touching[0] <= time_to_collision + 0.001 or touching.size < 3


@given(seeds)
def test_renaming_the_robots_renames_the_answer(seed) -> None:
    snaps = random_team(seed)
    actions = no_actions(*snaps)
    new_name = dict(zip(snaps, ["zeta", "alpha", "mu", "beta"], strict=True))
    override, fired = maybe_brake(actions, snaps, bounds=BOUNDS, tau_brake=0.3)
    renamed, renamed_fired = maybe_brake(
        {new_name[uid]: action for uid, action in actions.items()},
        {new_name[uid]: snapshot for uid, snapshot in snaps.items()},
        bounds=BOUNDS,
        tau_brake=0.3,
    )
    assert fired == renamed_fired
    for uid in override or {}:
        np.testing.assert_allclose(renamed[new_name[uid]], override[uid], atol=1e-9)


@given(seeds)
def test_a_pair_alone_is_pushed_in_opposite_directions(seed) -> None:
    snaps = random_team(seed, n=2)
    override, fired = maybe_brake(no_actions(*snaps), snaps, bounds=BOUNDS, tau_brake=1.0)
    if fired:
        first, second = override.values()
        np.testing.assert_allclose(first, -second, atol=1e-12)
        offset = next(iter(snaps.values())).position - snaps["robot1"].position
        assert first @ offset > 0.0


@given(seeds, st.floats(-math.pi, math.pi))
def test_turning_the_scene_turns_the_answer(seed, angle) -> None:
    rotation = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    snaps = random_team(seed)
    turned = {
        uid: replace(s, position=rotation @ s.position, velocity=rotation @ s.velocity) for uid, s in snaps.items()
    }
    times, turned_times = compute_min_ttc(snaps), compute_min_ttc(turned)
    for pair in times:
        if 1e-3 < times[pair] < 10.0:  # not at a grazing or touching boundary
            assert turned_times[pair] == pytest.approx(times[pair], rel=1e-5)
    override, fired = maybe_brake(no_actions(*snaps), snaps, bounds=BOUNDS, tau_brake=0.25)
    turned_override, turned_fired = maybe_brake(no_actions(*snaps), turned, bounds=BOUNDS, tau_brake=0.25)
    if fired and turned_fired and all(abs(t - 0.25) > 1e-6 and t != 0.0 for t in times.values()):
        for uid in override:
            np.testing.assert_allclose(turned_override[uid], rotation @ override[uid], atol=1e-6)


@given(seeds)
def test_overrides_never_exceed_the_capacity(seed) -> None:
    bounds = Bounds(1.0, 2.5, 10.0, 0.0, 50.0)
    snaps = random_team(seed, n=6, dim=3)
    override, fired = maybe_brake({uid: np.zeros(3) for uid in snaps}, snaps, bounds=bounds, tau_brake=1.0)
    if fired:
        assert max(np.linalg.norm(action) for action in override.values()) <= 2.5 * (1 + 1e-12)


# --- options ------------------------------------------------------------------------------------------------


def test_a_body_without_an_action_is_an_uncontrolled_obstacle() -> None:
    override, fired = maybe_brake(no_actions("a"), head_on(6.0), bounds=BOUNDS)
    assert fired
    assert list(override) == ["a"]
    np.testing.assert_array_equal(override["a"], [-1.0, 0.0])


def test_two_obstacles_about_to_touch_are_nobodys_business() -> None:
    snaps = {**head_on(6.0), "ego": snap((9.0, 9.0))}
    assert maybe_brake(no_actions("ego"), snaps, bounds=BOUNDS) == (None, False)


def test_time_to_collision_alone_lets_a_fast_robot_come_too_near() -> None:
    """At 4 m/s and 0.11 s before contact the brake of 1 m/s^2 cannot stop it any more."""
    fast = {"a": snap((0.0, 0.0), (4.0, 0.0)), "b": snap((0.5 + 4.0 * 0.11, 0.0))}
    assert not maybe_brake(no_actions("a"), fast, bounds=BOUNDS)[1]
    assert maybe_brake(no_actions("a"), fast, bounds=BOUNDS, stopping_reaction_time=0.0)[1]


@pytest.mark.parametrize("dt", [0.01, 0.05])
@pytest.mark.parametrize("speed", [0.5, 2.0, 6.0])
def test_stopping_trigger_stops_in_front_of_a_resting_obstacle(speed, dt) -> None:
    position, velocity, obstacle = 0.0, speed, snap((25.0, 0.0))
    for _ in range(int(60.0 / dt)):
        snaps = {"ego": snap((position, 0.0), (velocity, 0.0)), "wall": obstacle}
        override, fired = maybe_brake(
            no_actions("ego"), snaps, bounds=BOUNDS, tau_brake=1e-6, stopping_reaction_time=2.0 * dt
        )
        acceleration = float(override["ego"][0]) if fired else 0.0
        new_velocity = max(velocity + acceleration * dt, 0.0)
        position += 0.5 * (velocity + new_velocity) * dt
        velocity = new_velocity
        assert position <= 24.5
    assert position == pytest.approx(24.5, abs=speed * 3.0 * dt)


def test_stopping_trigger_leaves_separating_robots_alone() -> None:
    snaps = {"a": snap((0.0, 0.0), (-5.0, 0.0)), "b": snap((0.6, 0.0))}
    assert maybe_brake(no_actions("a", "b"), snaps, bounds=BOUNDS, stopping_reaction_time=0.1) == (None, False)


def test_a_squeezed_robot_can_be_made_to_brake() -> None:
    snaps = {"l": snap((-0.4, 0.0)), "m": snap((0.0, 0.0), (0.0, 2.0)), "r": snap((0.4, 0.0))}
    override, _ = maybe_brake(no_actions("l", "m", "r"), snaps, bounds=BOUNDS, brake_when_squeezed=True)
    np.testing.assert_array_equal(override["m"], [0.0, -1.0])


# --- refusals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("field", ["position", "velocity", "radius"])
def test_non_finite_snapshots_are_named(field, bad) -> None:
    value = bad if field == "radius" else np.array([0.0, bad])
    snaps = {"a": snap((0.0, 0.0)), "b": replace(snap((1.0, 0.0)), **{field: value})}
    with pytest.raises(ValueError, match=rf"snaps\['b'\]\.{field} must be finite"):
        compute_min_ttc(snaps)


def test_snapshots_must_fit_each_other() -> None:
    with pytest.raises(ValueError, match=r"snaps\['b'\]\.velocity"):
        compute_min_ttc({"a": snap((0.0, 0.0)), "b": snap((1.0, 0.0), (0.0, 0.0, 0.0))})
    with pytest.raises(ValueError, match=r"snaps\['b'\]\.position"):
        compute_min_ttc({"a": snap((0.0, 0.0)), "b": snap((1.0, 0.0, 0.0), (0.0, 0.0, 0.0))})
    with pytest.raises(ValueError, match=r"snaps\['b'\]\.radius must be >= 0"):
        compute_min_ttc({"a": snap((0.0, 0.0)), "b": snap((1.0, 0.0), radius=-0.1)})


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
def test_numbers_out_of_range_are_named(bad) -> None:
    with pytest.raises(ValueError, match="tau_brake"):
        maybe_brake(no_actions("a", "b"), head_on(6.0), bounds=BOUNDS, tau_brake=bad)
    limits = Bounds(1.0, bad, 10.0, 0.0, 50.0)
    with pytest.raises(ValueError, match="cartesian_accel_capacity"):
        maybe_brake(no_actions("a", "b"), head_on(6.0), bounds=limits)
    with pytest.raises(ValueError, match="cartesian_accel_capacity"):
        maybe_brake(no_actions("a", "b"), head_on(0.1), bounds=limits, stopping_reaction_time=0.1)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_non_finite_actions_are_named(bad) -> None:
    with pytest.raises(ValueError, match=r"proposed_action\['b'\] must be finite"):
        maybe_brake({"a": np.zeros(2), "b": np.array([0.0, bad])}, head_on(0.1), bounds=BOUNDS)
    with pytest.raises(ValueError, match="stopping_reaction_time"):
        maybe_brake(no_actions("a"), head_on(0.1), bounds=BOUNDS, stopping_reaction_time=bad)
