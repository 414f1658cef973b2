"""The rows of the filter against finite differences, and the certificate against a plain computation."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from chamber.arm_safety import ArmModel, _kernels
from chamber.arm_safety._certificate import EVADING_RESERVE_MS, PartnerSpheres, certify, pair_gaps, sphere_paths
from chamber.arm_safety._rows import PlacedArm, collision_rows, sphere_velocities
from chamber.sim.robots import robot_model

READY = robot_model("panda_wristcam").ready_qpos[:7]


def _placed(arm: ArmModel, q: np.ndarray) -> PlacedArm:
    frames = np.empty((arm.n_joints + 2, 3, 4))
    _kernels.place_frames(arm.arrays, q, frames)
    return PlacedArm(frames, arm.arrays.sphere_links, arm.spheres(q).centers, arm.arrays.sphere_radii)


def _rows(
    ego: ArmModel,
    partner: ArmModel,
    q: np.ndarray,
    other_q: np.ndarray,
    other_q_dot: np.ndarray,
    *,
    watched: np.ndarray | None = None,
    limit: float = 0.8,
    capacity: int = 10_000,
) -> tuple[np.ndarray, np.ndarray]:
    mine, other = _placed(ego, q), _placed(partner, other_q)
    n_mine, n_other = len(ego.sphere_links), len(partner.sphere_links)
    rows, right = np.empty((capacity, 7)), np.empty(capacity)
    count = collision_rows(
        mine,
        other,
        sphere_velocities(other, other_q_dot, np.zeros(n_other))[0],
        np.full(n_other, 0.05),
        np.ones((n_mine, n_other), dtype=bool) if watched is None else watched,
        5.0,
        np.full(7, limit),
        rows,
        right,
    )
    return rows[:count], right[:count]


def _random(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return (
        READY + rng.uniform(-0.6, 0.6, 7), READY + rng.uniform(-0.6, 0.6, 7), rng.uniform(-0.5, 0.5, 7),
        rng.uniform(-0.8, 0.8, 7),
    )  # fmt: skip


def _all_gaps(ego: ArmModel, partner: ArmModel, q: np.ndarray, other_q: np.ndarray) -> np.ndarray:
    mine, other = ego.spheres(q), partner.spheres(other_q)
    distances = np.linalg.norm(mine.centers[:, None] - other.centers[None], axis=2)
    return distances - mine.radii[:, None] - other.radii[None]


def test_a_row_is_the_rate_of_its_gap(ego: ArmModel, partner: ArmModel) -> None:
    """With one pair watched, ``-A w`` is how fast the gap grows by the arm's motion, and b says what is allowed."""
    tried = 0
    for seed in range(40):
        q, other_q, other_q_dot, w = _random(seed)
        gaps = _all_gaps(ego, partner, q, other_q)
        i, j = np.unravel_index(np.argmin(gaps), gaps.shape)
        watched = np.zeros(gaps.shape, dtype=bool)
        watched[i, j] = True
        rows, right = _rows(ego, partner, q, other_q, other_q_dot, watched=watched)
        if len(rows) == 0:
            continue
        tried += 1
        step = 1e-6
        own = (_all_gaps(ego, partner, q + step * w, other_q) - _all_gaps(ego, partner, q - step * w, other_q))[i, j]
        np.testing.assert_allclose(-rows[0] @ w, own / (2 * step), atol=1e-6)
        after, before = (_all_gaps(ego, partner, q, other_q + sign * step * other_q_dot) for sign in (1, -1))
        closing = max(0.0, -(after - before)[i, j] / (2 * step))
        np.testing.assert_allclose(right[0], 5.0 * (gaps[i, j] - 0.05) - closing, atol=1e-6)
    assert tried > 20


def test_excess_speed_is_that_of_the_fastest_sphere_beyond_its_declaration(partner: ArmModel) -> None:
    _, other_q, _, other_q_dot = _random(2)
    step = 1e-6
    before, after = (partner.spheres(other_q + sign * step * other_q_dot).centers for sign in (-1, 1))
    speeds = np.linalg.norm(after - before, axis=1) / (2 * step)
    declared = np.random.default_rng(2).uniform(0.0, 0.5, len(speeds))
    velocities, excess = sphere_velocities(_placed(partner, other_q), other_q_dot, declared)
    np.testing.assert_allclose(velocities, (after - before) / (2 * step), atol=1e-8)
    np.testing.assert_allclose(excess, (speeds - declared).max(), atol=1e-8)


def test_pairs_that_are_left_out_cannot_be_violated(ego: ArmModel, partner: ArmModel) -> None:
    for seed in range(10):
        q, other_q, other_q_dot, _ = _random(seed)
        rows, _ = _rows(ego, partner, q, other_q, other_q_dot)
        everything, bounds = _rows(ego, partner, q, other_q, other_q_dot, limit=100.0)  # nothing is out of reach
        assert len(rows) < len(everything)
        kept = {tuple(row) for row in rows}
        for row, bound in zip(everything, bounds, strict=True):
            if tuple(row) not in kept:
                assert 0.8 * np.abs(row).sum() <= max(bound, 0.0) + 1e-12


def test_full_arrays_keep_the_rows_that_leave_the_least(ego: ArmModel, partner: ArmModel) -> None:
    q, other_q, other_q_dot, _ = _random(3)
    rows, right = _rows(ego, partner, q, other_q, other_q_dot)
    few, few_right = _rows(ego, partner, q, other_q, other_q_dot, capacity=5)
    shares = np.sort(right / (0.8 * np.abs(rows).sum(axis=1)))
    assert len(rows) > 5
    np.testing.assert_allclose(np.sort(few_right / (0.8 * np.abs(few).sum(axis=1))), shares[:5])


def test_coincident_spheres_are_told_to_separate(ego: ArmModel) -> None:
    rows, right = _rows(ego, ego, READY, READY, np.zeros(7))
    assert np.isfinite(rows).all()
    assert right.min() < 0.0


# --- the certificate --------------------------------------------------------------------------------------------


def _centers(arm: ArmModel, q: np.ndarray, q_dot: np.ndarray, action: np.ndarray) -> np.ndarray:
    """Give the spheres along a plan, shape ``(16, N, 3)``."""
    path = np.empty((16, 7))
    _kernels.predict_path(arm.arrays, _kernels.velocity_update(arm.arrays, arm.mass_matrix(q)), q, q_dot, action, path)
    centers = np.empty((16, len(arm.sphere_links), 3))
    sphere_paths(arm.arrays, path, np.empty((9, 3, 4)), centers)
    return centers


@given(seed=st.integers(0, 10_000), speed=st.floats(0.0, 1.0), margin=st.floats(0.0, 0.1))
@settings(max_examples=150, deadline=None)
def test_a_plan_is_certified_when_it_is_clear_or_as_clear_as_at_rest_or_gives_way(
    ego: ArmModel, partner: ArmModel, seed: int, speed: float, margin: float
) -> None:
    """The certificate in plain array operations."""
    q, other_q, q_dot, action = _random(seed)
    rng = np.random.default_rng(seed)
    other = partner.spheres(other_q)
    speeds = np.where(np.arange(len(other)) % 3 == 0, 0.0, speed)
    velocities = rng.uniform(-0.3, 0.3, (len(other), 3))
    watched = rng.random((len(ego.sphere_links), len(other))) < 0.8
    plans = [_centers(ego, q, q_dot, wanted) for wanted in (np.zeros(7), action)]
    gaps = np.empty(watched.shape)
    smallest, i, j = pair_gaps(plans[0][0], ego.arrays.sphere_radii, other.centers, other.radii, watched, gaps)
    assert gaps[i, j] == smallest == gaps.min()
    spheres = PartnerSpheres(other.centers, other.radii, velocities, speeds)
    found = [np.empty(16), np.empty(16)]
    for centers, out in zip(plans, found, strict=True):
        certified, worst = certify(
            centers, plans[0], gaps, ego.arrays.sphere_radii, spheres, 0.01, margin, out, found[0]
        )

    times = 0.01 * np.arange(16)[:, None, None]
    reach = ego.arrays.sphere_radii[None, :, None] + other.radii[None, None] + margin
    ahead = other.centers[None] + velocities[None] * times
    held, planned = (np.linalg.norm(plan[:, :, None] - other.centers[None, None], axis=3) - reach for plan in plans)
    held_ahead, planned_ahead = (np.linalg.norm(plan[:, :, None] - ahead[:, None], axis=3) - reach for plan in plans)
    clear, clear_held = (np.where(watched[None], gap - speeds * times, np.inf) for gap in (planned, held))
    smallest, smallest_held = (np.minimum(values.min(axis=(1, 2)), 0.0) for values in (clear, clear_held))
    np.testing.assert_allclose(worst, clear.min(), atol=1e-12)
    np.testing.assert_allclose(found[1], smallest, atol=1e-12)
    comes_nearer = (clear < -1e-9) & (planned < held - 1e-9)
    is_likely_clear = (planned_ahead >= EVADING_RESERVE_MS * times) | (planned_ahead >= held_ahead - 1e-9)
    gives_way = (smallest >= smallest_held - 1e-9).all() and is_likely_clear[comes_nearer].all()
    assert certified == (not comes_nearer.any() or gives_way)


def _is_certified(
    first: float, second: float, *, first_velocity: float = 0.0, second_velocity: float = 0.0, max_speed: float = 0.0
) -> bool:
    """Two spheres of an arm beside two of a partner: the first pair overlaps by 5 cm, the second is 20 cm apart.

    ``first`` and ``second`` are how far the plan takes each sphere away from its partner.
    """
    partner = PartnerSpheres(
        np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]),
        np.full(2, 0.1),
        np.array([[first_velocity, 0.0, 0.0], [second_velocity, 0.0, 0.0]]),
        np.full(2, max_speed),
    )
    holding = np.tile([[0.15, 0.0, 0.0], [1.4, 0.0, 0.0]], (4, 1, 1))
    gaps = np.array([[-0.05, np.inf], [np.inf, 0.2]])
    plan = holding.copy()
    plan[1:, 0, 0] += first
    plan[1:, 1, 0] += second
    radii, clearances, held = np.full(2, 0.1), np.empty(4), np.empty(4)
    certify(holding, holding, gaps, radii, partner, 0.01, 0.01, held, held)
    return certify(plan, holding, gaps, radii, partner, 0.01, 0.01, clearances, held)[0]


def test_one_pair_that_is_too_near_excuses_no_other_pair() -> None:
    assert _is_certified(0.0, 0.0)
    assert _is_certified(0.02, -0.18)
    assert not _is_certified(0.02, -0.2), "nearer than the margin, though not as near as the first pair"
    assert not _is_certified(-0.001, 0.0)


def test_a_pair_may_come_nearer_to_give_way_while_it_is_clear_of_the_partner_as_it_moves() -> None:
    """The partner is declared to reach 7 m/s, so nothing is clear of its worst motion; it is measured to be slower."""
    assert _is_certified(0.02, -0.1, max_speed=7.0)
    assert not _is_certified(0.02, -0.1, max_speed=7.0, second_velocity=4.0), "it is there before the plan ends"
    assert _is_certified(0.02, -0.1, max_speed=7.0, second_velocity=-4.0)
    assert not _is_certified(0.02, -0.189, max_speed=7.0), "less than the margin and the reserve is left"
    assert not _is_certified(-0.001, -0.1, max_speed=7.0), "the worst pair must not come nearer"


def test_a_plan_that_is_not_finite_is_not_certified() -> None:
    """Not even by a sphere so far away that it would not be looked at twice."""
    holding = np.tile([[0.3, 0.0, 0.0], [5.0, 0.0, 0.0]], (4, 1, 1))
    radii, gaps = np.full(2, 0.1), np.array([[0.1], [4.8]])
    partner = PartnerSpheres(np.zeros((1, 3)), np.full(1, 0.1), np.zeros((1, 3)), np.zeros(1))
    for sample in (1, 2, 3):
        plan = holding.copy()
        plan[sample, 1] = np.nan
        assert not certify(plan, holding, gaps, radii, partner, 0.01, 0.01, np.empty(4), np.zeros(4))[0]


def test_between_two_samples_no_pair_comes_nearer_than_the_margin_has_room_for(
    ego: ArmModel, partner: ArmModel
) -> None:
    """On straight lines between the samples, which is also what the tracking error is measured against."""
    other = partner.spheres(READY)
    radii = ego.arrays.sphere_radii[None, :, None] + other.radii[None, None]
    nearer = 0.0
    for seed in range(60):
        q, _, q_dot, action = _random(seed)
        centers = _centers(ego, q, 1.5 * q_dot, np.sign(action))
        gaps = np.linalg.norm(centers[:, :, None] - other.centers[None, None], axis=3) - radii
        at_ends = np.minimum(gaps[:-1], gaps[1:])
        for share in (0.25, 0.5, 0.75):
            between = (1.0 - share) * centers[:-1] + share * centers[1:]
            found = np.linalg.norm(between[:, :, None] - other.centers[None, None], axis=3) - radii
            nearer = max(nearer, float((at_ends - found)[at_ends > 0.0].max()))
    assert 0.0 < nearer < 0.0005
