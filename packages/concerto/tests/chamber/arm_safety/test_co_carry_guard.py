"""The guard of co-carry: it leaves the reference alone and keeps clear of a partner that leans its elbow at the ego."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import pytest

from chamber.arm_safety import ArmSafety, _kernels, arm_states, make_co_carry_guard
from chamber.arm_safety._certificate import sphere_paths
from chamber.arm_safety.co_carry_guard import (
    CO_CARRY_PARTNER_MAX_SPEEDS_MS,
    CO_CARRY_TRACKING_ERROR_M,
    CO_CARRY_UNWATCHED,
)
from chamber.envs.cocarry import CoCarryEnv, cocarry_matched_controller_specs, make_cocarry_env
from chamber.partners.api import FrozenPartner, PartnerSpec
from chamber.partners.registry import load_partner


@dataclass
class Carry:
    """What one episode was like."""

    success_step: int | None
    interventions: int
    min_gap_m: float
    goal_distance_m: float
    max_tilt_deg: float
    speeds_ms: dict[str, float]


@pytest.fixture(scope="module")
def env():
    env = make_cocarry_env()
    yield env
    env.close()


@pytest.fixture(scope="module")
def guard(env: CoCarryEnv) -> ArmSafety:
    return make_co_carry_guard(env)


def _team(env: CoCarryEnv, partner: str) -> dict[str, FrozenPartner]:
    keys = {env.ego_uid: "cocarry_impedance", env.partner_uid: partner}
    specs = cocarry_matched_controller_specs()
    return {uid: load_partner(PartnerSpec(key, 0, None, None, specs[uid])) for uid, key in keys.items()}


def _carry(env: CoCarryEnv, guard: ArmSafety, partner: str, *, seed: int, is_guarded: bool, n_steps: int = 90) -> Carry:
    team = _team(env, partner)
    obs, _ = env.reset(seed=seed)
    episode = Carry(None, 0, np.inf, np.inf, 0.0, {})
    links = np.array(guard.partner.sphere_links)
    before = guard.partner.spheres(env.rig.qpos(env.partner_uid)[0, :7]).centers
    for step in range(n_steps):
        action = {uid: controller.act(obs) for uid, controller in team.items()}
        if is_guarded:
            answer = guard.step(action[env.ego_uid], *arm_states(env))
            action[env.ego_uid] = answer.action
            episode.interventions += answer.intervened
        obs, _, terminated, _, info = env.step(action)
        if terminated and episode.success_step is None:
            episode.success_step = step
        episode.min_gap_m = min(episode.min_gap_m, guard.gap(*arm_states(env))[0])
        episode.max_tilt_deg = max(episode.max_tilt_deg, float(obs["extra"]["bar_tilt_deg"].max()))
        after = guard.partner.spheres(env.rig.qpos(env.partner_uid)[0, :7]).centers
        speeds = np.linalg.norm(after - before, axis=1) * env.control_freq
        for link in set(links):
            episode.speeds_ms[link] = max(episode.speeds_ms.get(link, 0.0), float(speeds[links == link].max()))
        before = after
        episode.goal_distance_m = info["centroid_to_goal"]
    return episode


@pytest.mark.parametrize("seed", range(3))
def test_the_matched_pair_carries_on_under_the_guard(env: CoCarryEnv, guard: ArmSafety, seed: int) -> None:
    episode = _carry(env, guard, "cocarry_impedance", seed=seed, is_guarded=True, n_steps=40)
    assert episode.success_step is not None
    assert episode.success_step < 20
    assert episode.interventions < 12
    assert episode.min_gap_m > 0.05


@pytest.mark.parametrize("seed", range(3))
def test_the_guard_keeps_clear_of_an_erratic_partner_and_carries_on(
    env: CoCarryEnv, guard: ArmSafety, seed: int
) -> None:
    alone = _carry(env, guard, "cocarry_erratic", seed=seed, is_guarded=False)
    guarded = _carry(env, guard, "cocarry_erratic", seed=seed, is_guarded=True)
    assert alone.min_gap_m < 0.01
    assert guarded.min_gap_m > 0.03
    assert guarded.goal_distance_m < 0.02
    assert guarded.max_tilt_deg < 15.0
    assert guarded.interventions > 10
    for episode in (alone, guarded):
        for link, speed in episode.speeds_ms.items():
            assert speed <= CO_CARRY_PARTNER_MAX_SPEEDS_MS[link], link


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 20))
def test_the_guard_keeps_clear_of_an_erratic_partner_from_many_starts(
    env: CoCarryEnv, guard: ArmSafety, seed: int
) -> None:
    guarded = _carry(env, guard, "cocarry_erratic", seed=seed, is_guarded=True, n_steps=180)
    assert guarded.min_gap_m > 0.02
    assert guarded.max_tilt_deg < 15.0


@pytest.mark.parametrize(("partner", "is_guarded"), [("cocarry_impedance", False), ("cocarry_erratic", True)])
def test_the_ego_follows_its_plans_beside_the_bar_to_within_the_declared_error(
    env: CoCarryEnv, guard: ArmSafety, partner: str, is_guarded: bool
) -> None:
    team, ego = _team(env, partner), guard.ego
    obs, _ = env.reset(seed=1)
    largest = 0.0
    for step in range(60):
        action = {uid: controller.act(obs) for uid, controller in team.items()}
        if is_guarded:
            action[env.ego_uid] = guard.step(action[env.ego_uid], *arm_states(env)).action
        if step % 3 == 0:
            largest = max(largest, _plan_error(env, ego, np.asarray(action[env.ego_uid]), team[env.partner_uid], obs))
        obs, *_ = env.step(action)
    assert 1e-4 < largest < CO_CARRY_TRACKING_ERROR_M


def _plan_error(env: CoCarryEnv, ego, action: np.ndarray, partner: FrozenPartner, obs) -> float:
    """Let the ego carry out a plan beside a partner that goes on, put everything back; give the largest error, m."""
    rig, uid = env.rig, env.ego_uid
    q, q_dot = rig.qpos(uid)[0, :7].copy(), rig.qvel(uid)[0, :7].copy()
    path = np.empty((16, 7))
    _kernels.predict_path(
        ego.arrays, _kernels.velocity_update(ego.arrays, ego.mass_matrix(q)), q, q_dot, action[:7].astype(float), path
    )
    centers = np.empty((16, len(ego.sphere_links), 3))
    sphere_paths(ego.arrays, path, np.empty((9, 3, 4)), centers)
    saved, partner, error = rig.save_state(0), copy.deepcopy(partner), 0.0
    for step in range(3):
        rig.apply(uid, np.asarray(action, dtype=float)[None] if step == 0 else np.array([[0.0] * 7 + [1.0]]))
        seen = {
            "agent": {env.partner_uid: {"qpos": rig.qpos(env.partner_uid)}},
            "extra": {"goal_pos": obs["extra"]["goal_pos"]},
        }
        rig.apply(env.partner_uid, np.asarray(partner.act(seen), dtype=float)[None])
        rig.advance()
        found = ego.spheres(rig.qpos(uid)[0, :7]).centers
        error = max(error, float(np.linalg.norm(found - centers[5 * (step + 1)], axis=1).max()))
    rig.restore_state(0, saved)
    return error


def test_only_what_the_task_brings_together_is_left_out(guard: ArmSafety) -> None:
    links = sorted(set(guard.ego.sphere_links))
    watched = {(mine, other) for mine in links for other in links} - set(CO_CARRY_UNWATCHED)
    for pair in (("panda_link6", "panda_link4"), ("panda_hand", "panda_link3"), ("panda_link4", "panda_link4")):
        assert pair in watched


def test_a_partner_with_another_arm_is_refused() -> None:
    env = make_cocarry_env(condition_id="cocarry_xarm6_partner")
    with pytest.raises(ValueError, match="two Pandas, but the partner is 'xarm6_robotiq'"):
        make_co_carry_guard(env)
    env.close()
