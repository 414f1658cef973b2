"""The rows of the filter against finite differences, and the certificate against a plain computation."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from chamber.arm_safety import ArmModel, _kernels
from chamber.arm_safety._certificate import is_certified, pair_gaps, plan_clearance, sphere_paths
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


@given(seed=st.integers(0, 10_000), speed=st.floats(0.0, 1.0), margin=st.floats(0.0, 0.02))
@settings(max_examples=60, deadline=None)
def test_clearance_is_the_smallest_of_all_pairs_and_times(
    ego: ArmModel, partner: ArmModel, seed: int, speed: float, margin: float
) -> None:
    q, other_q, q_dot, action = _random(seed)
    path = np.empty((16, 7))
    update = _kernels.velocity_update(ego.arrays, ego.mass_matrix(q))
    _kernels.predict_path(ego.arrays, update, q, q_dot, action, path)
    centers = np.empty((16, len(ego.sphere_links), 3))
    sphere_paths(ego.arrays, path, np.empty((9, 3, 4)), centers)
    other = partner.spheres(other_q)
    speeds = np.where(np.arange(len(other)) % 3 == 0, 0.0, speed)
    watched = np.random.default_rng(seed).random((len(ego.sphere_links), len(other))) < 0.8
    gaps = np.empty(watched.shape)
    smallest, i, j = pair_gaps(centers[0], ego.arrays.sphere_radii, other.centers, other.radii, watched, gaps)
    clearances = np.empty((2, 16))
    worst = plan_clearance(
        centers, gaps, ego.arrays.sphere_radii, other.centers, other.radii, speeds, 0.01, margin, clearances
    )

    distances = np.linalg.norm(centers[:, :, None] - other.centers[None, None], axis=3)
    now = distances - ego.arrays.sphere_radii[None, :, None] - other.radii[None, None] - margin
    now[:, ~watched] = np.inf
    clear = now - speeds[None, None] * 0.01 * np.arange(16)[:, None, None]
    np.testing.assert_allclose(worst, clear.min(), atol=1e-12)
    np.testing.assert_allclose(clearances[0], np.minimum(clear.min(axis=(1, 2)), 0.0), atol=1e-12)
    np.testing.assert_allclose(clearances[1], np.minimum(now.min(axis=(1, 2)), 0.0), atol=1e-12)
    assert gaps[i, j] == smallest == gaps.min()


def test_a_plan_is_certified_when_it_is_clear_or_nowhere_worse_than_holding_still() -> None:
    clear, near, nearer = np.zeros((2, 4)), np.full((2, 4), -0.01), np.full((2, 4), -0.01)
    nearer[0, 2] = -0.011
    assert is_certified(clear, near)
    assert is_certified(near, near)
    assert not is_certified(near, clear)
    assert not is_certified(nearer, near)
    assert is_certified(near, nearer)
    unknown = clear.copy()
    unknown[1, 0] = np.nan
    assert not is_certified(unknown, near)
