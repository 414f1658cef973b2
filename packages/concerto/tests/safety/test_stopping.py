"""The stopping certificate against dense sampling and against partners that do their worst."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concerto.safety.stopping import EgoBrakes, PartnerMotionBound, WorstMotions, plan_clearance, stopping_distance

INF = math.inf


def ego_at(plan, t):
    """Ego position at time t of a list of (duration, position, velocity, acceleration) segments."""
    for duration, p, v, a in plan:
        if t <= duration:
            return p + v * t + 0.5 * a * t * t
        t -= duration
    duration, p, v, a = plan[-1]
    return p + v * duration + 0.5 * a * duration**2


def simulated_plan(p, v, a, dt, capacity):
    """The stopping plan, stepped as an actuator would: one acceleration per control period."""
    plan = [(dt, p, v, a)]
    p, v = p + v * dt + 0.5 * a * dt * dt, v + a * dt
    while (speed := float(np.linalg.norm(v))) > 1e-12:
        brake = -min(capacity, speed / dt) * v / speed
        plan.append((dt, p, v, brake))
        p, v = p + v * dt + 0.5 * brake * dt * dt, v + brake * dt
    return plan


def sampled_clearance(plan, partners, n=4001):
    """Clearance by dense sampling, taking at each instant the better of the two balls."""
    total = sum(segment[0] for segment in plan)
    smallest = INF
    for t in np.linspace(0.0, total, n):
        ego = ego_at(plan, t)
        for p, v, distance, accel, speed in partners:
            clear = -INF
            if accel < INF:
                clear = float(np.linalg.norm(ego - p - v * t)) - distance - 0.5 * accel * t * t
            if speed < INF:
                clear = max(clear, float(np.linalg.norm(ego - p)) - distance - speed * t)
            smallest = min(smallest, clear)
    return smallest


def certificate(p, v, a, dt, partners, capacity, *, is_immediate=False):
    dim = len(p)
    brakes = EgoBrakes(
        np.eye(dim), np.zeros(dim), np.zeros((dim, dim)), np.zeros((dim, dim)), capacity, 1e9, is_immediate, holds=True
    )
    positions, velocities = (np.array([q[k] for q in partners]).reshape(-1, dim) for k in (0, 1))
    distances, accelerations, speeds = (np.array([q[k] for q in partners], dtype=float) for k in (2, 3, 4))
    return plan_clearance(p, v, a, dt, brakes, WorstMotions(positions, velocities, distances, accelerations, speeds))


def random_case(seed):
    rng = np.random.default_rng(seed)
    dim = int(rng.integers(2, 4))
    capacity = float(rng.uniform(0.5, 4.0))
    p, v = rng.uniform(-1, 1, dim), rng.uniform(-2, 2, dim)
    a = rng.uniform(-1, 1, dim)
    a *= capacity / max(float(np.linalg.norm(a)), 1e-9) * rng.uniform(0, 1)
    partners = []
    for _ in range(int(rng.integers(1, 4))):
        accel, speed = float(rng.uniform(0, 2)), float(rng.uniform(0.5, 3))
        which = int(rng.integers(0, 3))
        accel, speed = (accel, INF) if which == 0 else (INF, speed) if which == 1 else (accel, speed)
        partners.append(
            (
                rng.uniform(-4, 4, dim),
                rng.uniform(-1, 1, dim) * 0.28,
                float(rng.uniform(0.1, 1)),
                accel,
                speed,
            )
        )
    return p, v, a, float(rng.uniform(0.01, 0.2)), capacity, partners


@pytest.mark.parametrize("seed", range(150))
def test_clearance_is_a_tight_lower_bound_of_dense_sampling(seed):
    p, v, a, dt, capacity, partners = random_case(seed)
    exact = sampled_clearance(simulated_plan(p, v, a, dt, capacity), partners)
    bound = certificate(p, v, a, dt, partners, capacity)
    assert bound <= exact + 1e-9
    if all(q[4] == INF for q in partners):
        # One ball per partner: what is lost is the chord's deviation, of the path and of the growing radius.
        tolerance, strongest = 1e-3 * min(q[2] for q in partners), max(q[3] for q in partners)
        assert bound >= exact - tolerance * (1 + strongest / capacity) - strongest * dt * dt / 8 - 1e-4


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9))
def test_ego_braking_from_a_certified_action_is_never_hit_while_it_moves(seed):
    p, v, a, dt, capacity, partners = random_case(seed)
    if certificate(p, v, a, dt, partners, capacity) < 0.0:
        return
    rng = np.random.default_rng(seed + 1)
    plan = simulated_plan(p, v, a, dt, capacity)
    fine = 20
    for partner_p, partner_v, distance, accel, speed in partners:
        q, w, t = partner_p.copy(), partner_v.copy(), 0.0
        for _ in range(len(plan)):
            for _ in range(fine):
                h = dt / fine
                towards = ego_at(plan, t) - q
                towards /= max(float(np.linalg.norm(towards)), 1e-9)
                if accel < INF:
                    push = accel * towards if rng.random() < 0.8 else accel * _unit(rng, len(p))
                    after = w + push * h
                    if speed < INF and np.linalg.norm(after) > speed:
                        push = np.zeros(len(p))
                        if np.linalg.norm(w) > speed:
                            return
                    q, w = q + w * h + 0.5 * push * h * h, w + push * h
                else:
                    q = q + speed * towards * h
                t += h
                assert np.linalg.norm(ego_at(plan, t) - q) >= distance - 1e-9


def _unit(rng, dim):
    x = rng.normal(size=dim)
    return x / np.linalg.norm(x)


def test_head_on_clearance_to_a_standing_partner_is_gap_minus_stopping_distance():
    partners = [(np.array([3.0, 0.0]), np.zeros(2), 0.5, 0.0, INF)]
    clearance = certificate(np.zeros(2), np.array([1.5, 0.0]), np.zeros(2), 0.05, partners, 1.0)
    assert clearance == pytest.approx(3.0 - 0.5 - 1.5 * 0.05 - 1.5**2 / 2, abs=6e-4)


def test_immediate_velocity_plan_is_one_straight_step():
    partners = [(np.array([0.5, 0.0]), np.zeros(2), 0.2, INF, 1.0)]
    dt = 0.1
    forward = certificate(np.zeros(2), np.zeros(2), np.array([10.0, 0.0]), dt, partners, 10.0, is_immediate=True)
    assert forward == pytest.approx(0.5 - 0.1 - 0.2 - 0.1, abs=1e-12)
    away = certificate(np.zeros(2), np.zeros(2), np.array([-10.0, 0.0]), dt, partners, 10.0, is_immediate=True)
    assert away == pytest.approx(0.3, abs=1e-12)


def test_no_partner_means_unlimited_clearance_and_no_brakes_mean_none():
    assert certificate(np.zeros(2), np.ones(2), np.zeros(2), 0.1, [], 1.0) == INF
    partners = [(np.array([9.0, 0.0]), np.zeros(2), 0.5, 0.0, INF)]
    assert certificate(np.zeros(2), np.ones(2), np.zeros(2), 0.1, partners, 0.0) == -INF


@pytest.mark.parametrize(
    ("speed", "limit", "dt"), [(1.0, 2.0, 0.1), (1.3, 0.7, 0.05), (0.01, 5.0, 0.1), (0.0, 1.0, 0.1)]
)
def test_stopping_distance_equals_the_stepped_actuator(speed, limit, dt):
    x, v = 0.0, speed
    while v > 1e-12:
        brake = min(limit, v / dt)
        x, v = x + v * dt - 0.5 * brake * dt * dt, v - brake * dt
    assert stopping_distance(speed, braking_limit=limit, dt=dt) == pytest.approx(x, abs=1e-12)
    assert x >= speed**2 / (2 * limit) - 1e-12
    assert x <= speed**2 / (2 * limit) + limit * dt**2 / 8 + 1e-12


@pytest.mark.parametrize("values", [(-1.0, INF), (math.nan, 1.0), (INF, INF), (1.0, -0.1), (1.0, math.nan)])
def test_senseless_declarations_are_refused(values):
    with pytest.raises(ValueError, match="max_"):
        PartnerMotionBound(*values)
