"""The co-carry controllers on the simulated rig."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chamber.envs.cocarry import CoCarryEnv, cocarry_matched_controller_specs, make_cocarry_env
from chamber.envs.stage1_vector import Stage1AutoResetWrapper
from chamber.partners import PartnerSpec, load_partner

EGO, PARTNER = "panda_wristcam", "panda_partner"
HORIZON = 100


def team(partner_key: str = "cocarry_impedance", **extra: str) -> dict[str, Any]:
    seats = cocarry_matched_controller_specs()
    return {
        EGO: load_partner(PartnerSpec("cocarry_impedance", 0, None, None, seats[EGO])),
        PARTNER: load_partner(PartnerSpec(partner_key, 0, None, None, {**seats[PARTNER], **extra})),
    }


def carry(env: CoCarryEnv, controllers: dict[str, Any], *, seed: int) -> tuple[bool, int, dict[str, Any]]:
    """Play one episode to its end: success, steps, and what the last step reports."""
    obs, _ = env.reset(seed=seed)
    for controller in controllers.values():
        controller.reset(seed=seed)
    for step in range(1, HORIZON + 1):
        obs, _, terminated, _, info = env.step({uid: arm.act(obs) for uid, arm in controllers.items()})
        if terminated:
            return True, step, info
    return False, HORIZON, info


@pytest.fixture(scope="module")
def rig() -> CoCarryEnv:
    return make_cocarry_env(episode_length=HORIZON, root_seed=3, limits="documented")


@pytest.mark.parametrize("seed", range(6))
def test_the_matched_pair_carries_the_bar_level_to_the_goal_as_soon_as_it_may_succeed(rig: CoCarryEnv, seed: int):
    success, steps, info = carry(rig, team(), seed=seed)
    assert success
    assert steps == 15
    assert info["max_tilt_deg"] < 0.2
    assert info["max_stress_proxy"] < 4.0


@pytest.mark.parametrize(
    ("partner_key", "extra"),
    [
        ("cocarry_stiff_impedance", {}),
        ("cocarry_admittance", {}),
        ("cocarry_slew_impedance", {}),
        ("cocarry_nullspace_impedance", {}),
        ("cocarry_impedance", {"lag_steps": "3"}),
        ("cocarry_impedance", {"posture_gain": "0.1"}),
    ],
)
def test_the_reference_copes_with_partners_of_other_habits(rig: CoCarryEnv, partner_key: str, extra: dict[str, str]):
    success, _, _ = carry(rig, team(partner_key, **extra), seed=1)
    assert success


def test_the_reference_does_not_cope_with_a_partner_that_feels_nothing(rig: CoCarryEnv):
    success, _, info = carry(rig, team("cocarry_blind_impedance"), seed=1)
    assert not success
    assert info["max_tilt_deg"] > 15.0


@pytest.mark.parametrize("seed", range(3))
def test_a_bar_that_one_arm_drops_swings_as_wide_as_in_the_physics_the_task_was_made_with(seed: int):
    env = make_cocarry_env(condition_id="cocarry_single_arm_positive_control", root_seed=seed, limits="documented")
    arm, idle = team()[EGO], np.zeros(8)
    obs, _ = env.reset(seed=seed)
    is_over = False
    while not is_over:
        obs, _, success, is_over, info = env.step({EGO: arm.act(obs), PARTNER: idle})
        assert not success
    assert 74.0 < info["max_tilt_deg"] < 78.0


def test_copies_that_begin_anew_by_themselves_are_carried_as_each_would_be_alone():
    n, horizon = 3, 20
    together = Stage1AutoResetWrapper(
        make_cocarry_env(episode_length=horizon, root_seed=7, num_envs=n, limits="documented")
    )
    alone = [make_cocarry_env(episode_length=horizon, root_seed=7, limits="documented") for _ in range(n)]
    extra = {"lag_steps": "2"}
    batched, single = team(**extra), [team(**extra) for _ in range(n)]
    obs, _ = together.reset(seed=0)
    seen = [env.reset(seed=place)[0] for place, env in enumerate(alone)]
    n_ends = 0
    for _ in range(45):
        obs, _, terminated, truncated, _ = together.step({uid: arm.act_batch(obs) for uid, arm in batched.items()})
        ended = np.flatnonzero(terminated | truncated)
        for arm in batched.values():
            arm.reset_rows(ended)
        for place, (env, arms) in enumerate(zip(alone, single, strict=True)):
            action = {uid: arm.act(seen[place]) for uid, arm in arms.items()}
            seen[place], _, is_success, is_cut, _ = env.step(action)
            assert (is_success or is_cut) == (place in ended)
            if place in ended:
                n_ends += 1
                seen[place], _ = env.reset()
                for arm in arms.values():
                    arm.reset()
            for name, value in seen[place]["extra"].items():
                assert obs["extra"][name][place].tobytes() == value[0].tobytes(), (name, place)
    assert n_ends >= 6
