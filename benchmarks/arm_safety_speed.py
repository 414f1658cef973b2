"""How long does arm safety take per control step, and how near is that to its floor?

Run `python benchmarks/arm_safety_speed.py`; it writes `results/arm_safety_speed.json` and `.md`. Every figure is the
wall time of one `ArmSafety.step` from Python on one core, in states that real episodes went through, sorted by where
the answer came from. The floor is the mathematics alone, compiled, in one call from Python on arrays that are packed
already: both arms placed, the way to rest predicted, gaps, rows, and the certificates that the step needs; where the
action is corrected, the bare call of the compiled solver (DAQP) on the same program on top.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import daqp
import numpy as np
from _common import pin_to_one_core, timed, write_results
from numba import njit
from numpy.typing import NDArray

from chamber.arm_safety import ArmSafety, ArmState, arm_states, make_co_carry_guard
from chamber.arm_safety import safety as arm_safety
from chamber.arm_safety._certificate import PartnerSpheres, certify, pair_gaps, sphere_paths
from chamber.arm_safety._kernels import (
    joint_space_inertia,
    place_frames,
    place_spheres,
    predict_path,
    velocity_update,
)
from chamber.arm_safety._rows import PlacedArm, collision_rows, sphere_velocities
from chamber.arm_safety.elbow_drive import (
    PartnerMotion,
    _Episode,
    _finely_watched,
    elbow_drive_scene,
    make_elbow_drive_safety,
)
from chamber.rollout.config import SessionConfig, make_environment, make_team
from chamber.sim import make_backend

LIMIT_US = 5_000.0
"""A tenth of a control step of 50 ms."""
N_STATES, CALLS = 200, 4_000
EPISODES = 12
SITUATIONS = {
    "pass_through": "passes the action through",
    "qp": "corrects it",
    "braking": "brakes",
    "fallback": "finds no action that fits",
}

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Asked:
    """What the filter was asked once, and where its answer came from."""

    action: FloatArray
    ego: ArmState
    partner: ArmState
    source: str


def elbow_drive() -> tuple[ArmSafety, Iterator[Asked]]:
    """Two free arms: the ego drives its elbow at a partner that swings."""
    safety = make_elbow_drive_safety()

    def asked() -> Iterator[Asked]:
        rig = make_backend(_finely_watched(elbow_drive_scene()))
        episode = _Episode(rig, safety, partner_motion=PartnerMotion.SWINGING)
        for seed in range(EPISODES):
            episode.reset(seed)
            for step in range(100):
                action = episode.ego_action()
                ego, partner = episode.state("panda_wristcam"), episode.state("panda_partner")
                answer = safety.step(action, ego, partner)
                yield Asked(action, ego, partner, answer.source.value)
                rig.apply("panda_wristcam", answer.action[None])
                rig.apply("panda_partner", episode.partner_action(step)[None])
                for _ in range(round(0.05 / rig.scene.control_timestep)):
                    rig.advance()
        rig.close()

    return safety, asked()


def co_carry() -> tuple[ArmSafety, Iterator[Asked]]:
    """Two arms on one bar, beside a partner that swings its elbow."""
    config = SessionConfig.of("cocarry", partner="cocarry_erratic", episode_length=120)
    env: Any = make_environment(config)
    team, safety = make_team(config, env), make_co_carry_guard(env.unwrapped)

    def asked() -> Iterator[Asked]:
        for seed in range(EPISODES):
            obs, _ = env.reset(seed=seed)
            team.reset(seed=seed)
            is_over = False
            while not is_over:
                actions = team.act(obs)
                ego, partner = arm_states(env.unwrapped)
                wanted = np.asarray(actions[env.unwrapped.ego_uid], dtype=np.float64)
                answer = safety.step(wanted, ego, partner)
                yield Asked(wanted, ego, partner, answer.source.value)
                obs, _, terminated, truncated, _ = env.step({**actions, env.unwrapped.ego_uid: answer.action})
                is_over = terminated or truncated
        env.close()

    return safety, asked()


@njit(cache=True, error_model="numpy")
def decide(
    mine: Any, other: Any, q: FloatArray, q_dot: FloatArray, other_q: FloatArray, other_q_dot: FloatArray,
    action: FloatArray, still: FloatArray, path: FloatArray, holding_path: FloatArray, centers: FloatArray,
    holding: FloatArray, clearances: FloatArray, holding_clearances: FloatArray, frames: FloatArray,
    path_frames: FloatArray, other_frames: FloatArray, other_centers: FloatArray, gaps: FloatArray,
    rows: FloatArray, right: FloatArray, watched: Any, other_speeds: FloatArray, standoffs: FloatArray,
    speed_limits: FloatArray, alpha: float, sample_time: float, margin: float, n_plans: int,
) -> float:  # fmt: skip
    """All that a step computes, without the checks, the solver and the answer; ``n_plans`` plans are certified."""
    place_frames(other, other_q, other_frames)
    place_spheres(other, other_frames, other_centers)
    place_frames(mine, q, frames)
    update = velocity_update(mine, joint_space_inertia(mine, frames))
    predict_path(mine, update, q, q_dot, still, holding_path)
    sphere_paths(mine, holding_path, path_frames, holding)
    pair_gaps(holding[0], mine.sphere_radii, other_centers, other.sphere_radii, watched, gaps)
    stopped = PlacedArm(path_frames, mine.sphere_links, holding[-1], mine.sphere_radii)
    partner = PlacedArm(other_frames, other.sphere_links, other_centers, other.sphere_radii)
    velocities, _ = sphere_velocities(partner, other_q_dot, other_speeds)
    spheres = PartnerSpheres(other_centers, other.sphere_radii, velocities, other_speeds)
    collision_rows(stopped, partner, velocities, standoffs, watched, alpha, speed_limits, rows, right)
    _, worst = certify(
        holding, holding, gaps, mine.sphere_radii, spheres, sample_time, margin, holding_clearances, holding_clearances
    )
    for _ in range(n_plans):
        predict_path(mine, update, q, q_dot, action, path)
        sphere_paths(mine, path, frames, centers)
        _, worst = certify(
            centers, holding, gaps, mine.sphere_radii, spheres, sample_time, margin, clearances, holding_clearances
        )
    return worst


def floor_call(safety: ArmSafety, states: list[Asked], source: str) -> Callable[[int], object]:
    """The compiled mathematics of the same steps, and the bare solver where a step calls it."""
    n_plans = 1 if source != "braking" else 1 + arm_safety._BISECTIONS
    packed: list[tuple[Any, ...]] = []
    programs: list[list[FloatArray]] = []
    for asked in states:
        safety.step(asked.action, asked.ego, asked.partner)
        mine, other = safety.ego, safety.partner
        packed.append(
            (
                mine.arrays, other.arrays,
                asked.ego.qpos[mine.arm_joints].copy(), asked.ego.qvel[mine.arm_joints].copy(),
                asked.partner.qpos[other.arm_joints].copy(), asked.partner.qvel[other.arm_joints].copy(),
                np.clip(asked.action[:7], -1.0, 1.0), safety._zero_action,
                safety._path, safety._holding_path, safety._centers, safety._holding_centers,
                safety._clearances, safety._holding_clearances, safety._frames, safety._path_frames,
                safety._other_frames, safety._other_centers, safety._gaps, safety._rows, safety._right,
                safety._watched, safety._other_speeds, safety._standoffs, safety._speed_limits,
                safety._alpha, safety._sample_time, safety.tracking_error_m, n_plans,
            )
        )  # fmt: skip
        problem = safety._oscbf._problem
        arrays = (problem.P, problem.q, problem.needed_G, problem.needed_h, problem.lower, problem.sense)
        programs.append([array.copy() for array in arrays])

    def call(k: int) -> object:
        place = k % len(packed)
        worst = decide(*packed[place])
        if source not in {"qp", "fallback"}:
            return worst
        return daqp.solve(*programs[place], primal_tol=1e-10, dual_tol=1e-12, zero_tol=1e-14, sing_tol=1e-16)

    return call


def measure(scene: str, safety: ArmSafety, asked: Iterator[Asked]) -> list[dict[str, object]]:
    by_source: dict[str, list[Asked]] = {source: [] for source in SITUATIONS}
    n_steps = 0
    for one in asked:
        n_steps += 1
        by_source.setdefault(one.source, []).append(one)
    rows: list[dict[str, object]] = []
    for source, situation in SITUATIONS.items():
        found = by_source[source]
        states = [found[place] for place in np.linspace(0, len(found) - 1, min(len(found), N_STATES)).astype(int)]
        if not states:
            continue

        def call(k: int, states: list[Asked] = states) -> object:
            one = states[k % len(states)]
            return safety.step(one.action, one.ego, one.partner)

        step = timed(call, calls=CALLS)
        floor = timed(floor_call(safety, states, source), calls=CALLS)["median"]
        rows.append(
            {
                "scene": scene,
                "the filter": situation,
                "share of the steps": f"{len(found) / n_steps:.1%}",
                "median (us)": step["median"],
                "quartiles (us)": f"{step['quartile_1']} to {step['quartile_3']}",
                "limit (us)": LIMIT_US,
                "floor (us)": floor,
                "share of the floor": round(floor / step["median"], 2),
            }
        )
    return rows


def main() -> None:
    pin_to_one_core()
    write_results(
        "arm_safety_speed",
        title="Speed of one step of arm safety",
        method=f"One `ArmSafety.step` from Python on one core, up to {N_STATES} states per row out of {EPISODES} "
        f"episodes per scene, {CALLS:,} calls. Floor: the compiled mathematics of the same step in one call on packed "
        "arrays, with the bare call of the solver where the action is corrected, and with seven plans instead of one "
        "where the filter brakes, which halves a share six times (whether such a step called the solver before, which "
        "some do, is left out of its floor). A control step lasts 50,000 us; the limit is a tenth of it.",
        columns=[
            "scene",
            "the filter",
            "share of the steps",
            "median (us)",
            "quartiles (us)",
            "limit (us)",
            "floor (us)",
            "share of the floor",
        ],
        rows=[
            *measure("two free arms, elbow drive", *elbow_drive()),
            *measure("two arms on one bar, co-carry", *co_carry()),
        ],
    )


if __name__ == "__main__":
    main()
