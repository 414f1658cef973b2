"""The wrapper around the planar push task, whose robots are commanded by velocities and know nothing of safety."""

from __future__ import annotations

from typing import Any

import numpy as np

from chamber.envs import MPECooperativePushEnv, PartnerIdAnnotationWrapper
from chamber.envs.mpe_cooperative_push import DT
from concerto.gym import SafetyWrapper
from concerto.safety import AgentSnapshot, Bounds, PartnerMotionBound, VelocityCommandControlModel

RADIUS = 0.1


def snapshots(env: Any) -> dict[str, AgentSnapshot]:
    task = env.unwrapped
    return {uid: AgentSnapshot(task.position(uid), task.velocity(uid), RADIUS) for uid in task.agent_uids}


def wrapped_task() -> SafetyWrapper:
    return SafetyWrapper(
        PartnerIdAnnotationWrapper(MPECooperativePushEnv(), partner_id="0123456789abcdef"),
        build_control_models=lambda _: {"ego": VelocityCommandControlModel("ego", 2, DT, is_immediate=True)},
        build_bounds=lambda _: Bounds(1.0, 10.0, 10.0, 0.0, 50.0),
        build_agent_snapshots=snapshots,
        control_timestep=DT,
        partner_motion=PartnerMotionBound(max_acceleration=np.inf, max_speed=0.5 * np.sqrt(2.0)),
    )


def test_an_ego_that_moves_is_never_in_contact_with_a_slower_partner() -> None:
    env = wrapped_task()
    task: Any = env.unwrapped
    rng = np.random.default_rng(23)
    sources: set[str] = set()
    n_contacts = 0
    for seed in range(40):
        env.reset(seed=seed)
        touched = np.linalg.norm(task.position("ego") - task.position("partner")) < 2 * RADIUS
        if touched:
            continue
        for _ in range(50):
            gap = task.position("partner") - task.position("ego")
            chase = (gap / np.linalg.norm(gap)).astype(np.float32)
            wander = rng.uniform(-0.5, 0.5, 2).astype(np.float32)
            *_, info = env.step({"ego": chase, "partner": wander})
            sources.add(info["safety"]["source"])
            np.testing.assert_allclose(task.velocity("partner"), wander)
            if not touched and info["safety"]["in_contact"]:
                touched = True
                n_contacts += 1
                np.testing.assert_array_equal(task.velocity("ego"), 0.0)
    assert sources - {"pass_through"}
    assert n_contacts > 0, "the partner must run into the resting ego now and then, else nothing was tried"
