"""Presenter, environment and scripted ego together give the success rates that were published for this task."""

from __future__ import annotations

import numpy as np
import pytest

from chamber.agents.handover_ego_scripted import ScriptedHandoverEgo
from chamber.envs.handover_place import make_handover_place_env
from chamber.partners import PartnerSpec, load_partner

PROBE_SEEDS = (7000, 7001, 7002, 7003)
EPISODES_PER_SEED = 5
WRIST_CORRECTION_DEG = 25.0
ANCHOR_CELL = {
    "wrist_correction_deg": WRIST_CORRECTION_DEG,
    "reacquire_range_deg": 170.0,
    "regrasp_budget_s": 1.13,
    "regrasp_duration_s": 1.06,
}
PUBLISHED = [  # grasp bias, grasp sigma, lateral sigma, skew bias, skew sigma; success at the anchor cell
    pytest.param((0.0, 2.0, 2e-4, 0.0, 0.05), 1.0, id="matched"),
    pytest.param((15.0, 10.0, 2e-4, 0.2, 0.1), 1.0, id="mismatch_15"),
    pytest.param((30.0, 10.0, 2e-4, 0.2, 0.1), 0.65, id="mismatch_30"),
    pytest.param((45.0, 10.0, 2e-4, 0.2, 0.1), 0.25, id="mismatch_45"),
    pytest.param((15.6982, 11.661, 2e-4, 0.2855, 0.1242), 1.0, id="offgrid_a"),
    pytest.param((18.3353, 11.9689, 3e-4, 0.1793, 0.1134), 0.95, id="offgrid_b"),
]


def success_rate(presenter: tuple[float, ...], *, free_regrasp: bool) -> float:
    names = (
        "grasp_pose_bias_deg", "grasp_pose_sigma_deg", "lateral_sigma_m", "timing_skew_bias_s", "timing_skew_sigma_s",
    )  # fmt: skip
    extra = {name: repr(value) for name, value in zip(names, presenter, strict=True)}
    variant = "matched" if presenter[0] == 0.0 else "mismatched"
    partner = load_partner(PartnerSpec("handover_presenter", 0, None, None, {**extra, "variant": variant}))
    env = make_handover_place_env(free_regrasp=free_regrasp, **ANCHOR_CELL)
    ego = ScriptedHandoverEgo(wrist_correction_deg=WRIST_CORRECTION_DEG)
    rewards = []
    for episode in (seed * 1000 + k for seed in PROBE_SEEDS for k in range(EPISODES_PER_SEED)):
        obs, _ = env.reset(seed=episode)
        partner.reset(seed=episode)
        ego.reset(seed=episode)
        obs = env.step(partner.act(obs))[0]
        rewards.append(env.step(ego.act(obs))[1])
    return float(np.mean(rewards))


@pytest.mark.parametrize(("presenter", "published"), PUBLISHED)
def test_success_at_the_anchor_cell(presenter: tuple[float, ...], published: float):
    assert success_rate(presenter, free_regrasp=False) == pytest.approx(published)


@pytest.mark.parametrize(("presenter", "published"), PUBLISHED)
def test_every_presenter_succeeds_when_regrasps_are_free(presenter: tuple[float, ...], published: float):
    assert success_rate(presenter, free_regrasp=True) == 1.0
