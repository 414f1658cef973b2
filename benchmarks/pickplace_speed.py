"""How fast is pick-place, how much of it is physics, and how surely does the scripted ego solve it?

Run `python benchmarks/pickplace_speed.py`; it writes `results/pickplace_speed.json` and `results/pickplace_speed.md`.
Rates are control steps (20 Hz, 25 physics steps each) per second of process CPU time on one core. The floor is
`mj_step` alone over the same episodes with the same controls.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from _common import pin_to_one_core, write_results

from chamber.agents.pickplace_ego_scripted import ScriptedPickPlaceEgo
from chamber.envs.stage1_pickplace import make_stage1_pickplace_env
from chamber.sim._mujoco_bindings import mujoco

CONDITIONS = {
    "two Pandas": "stage1_pickplace_panda_only_mappo_shared_param",
    "Panda and Fetch": "stage1_pickplace_panda_plus_fetch_ego_aht_happo_per_agent",
    "Panda and Fetch, four cameras": "stage1_pickplace_vision_plus_force_torque_plus_proprio",
}
EGO = "panda_wristcam"
LIMIT_STEPS_PER_SECOND = 700
N_EPISODES, N_SUCCESS_EPISODES, N_REPEATS = 20, 100, 5


@dataclass(frozen=True)
class Episode:
    """What happened: the state it began in, the actions and the controls of every step."""

    seed: int
    start: np.ndarray
    actions: list[dict[str, np.ndarray]]
    controls: list[np.ndarray]
    is_success: bool


def play(env, seed: int) -> Episode:
    """One episode of the scripted ego beside a partner that does nothing."""
    ego, task = ScriptedPickPlaceEgo(), env.unwrapped
    still = {uid: np.zeros(space.shape) for uid, space in env.action_space.spaces.items()}
    obs, _ = env.reset(seed=seed)
    actions, controls = [], []
    start = task.rig.save_state(0)
    for _ in range(task.episode_length):
        action = {**still, EGO: ego.act(obs)}
        obs, _, terminated, _, _ = env.step(action)
        actions.append(action)
        controls.append(task.rig._datas[0].ctrl.copy())
        if terminated:
            break
    return Episode(seed, start, actions, controls, is_success=terminated)


def best_rate(run, n_steps: int) -> float:
    """Steps per CPU second, the best of a few runs: other work on the machine only ever slows one down."""
    seconds = []
    for _ in range(N_REPEATS):
        started = time.process_time()
        run()
        seconds.append(time.process_time() - started)
    return n_steps / min(seconds)


def measure(name: str, condition: str, *, n_episodes: int) -> dict[str, object]:
    env = make_stage1_pickplace_env(condition_id=condition)
    rig = env.unwrapped.rig
    episodes = [play(env, seed) for seed in range(n_episodes)]
    n_steps = sum(len(episode.actions) for episode in episodes)

    def steps_alone() -> None:
        for episode in episodes:
            env.reset(seed=episode.seed)
            for action in episode.actions:
                env.step(action)

    def physics_alone() -> None:
        model, data = rig._model, rig._datas[0]
        for episode in episodes:
            rig.restore_state(0, episode.start)
            for controls in episode.controls:
                data.ctrl[:] = controls
                mujoco.mj_step(model, data, rig.scene.substeps)

    def resets() -> None:
        for episode in episodes:
            env.reset(seed=episode.seed)

    floor = best_rate(physics_alone, n_steps)
    rate = best_rate(steps_alone, n_steps)
    with_ego = best_rate(lambda: [play(env, episode.seed) for episode in episodes], n_steps)
    reset_rate = best_rate(resets, n_episodes)
    env.close()
    return {
        "scene": name,
        "steps/s": round(rate),
        "with the scripted ego": round(with_ego),
        "floor: mj_step alone": round(floor),
        "share of the floor": round(rate / floor, 2),
        "reset (ms)": round(1e3 / reset_rate, 2),
    }


def measure_success(name: str, condition: str) -> dict[str, object]:
    env = make_stage1_pickplace_env(condition_id=condition)
    episodes = [play(env, seed) for seed in range(N_SUCCESS_EPISODES)]
    env.close()
    lengths = [len(episode.actions) for episode in episodes if episode.is_success]
    low, median, high = np.percentile(lengths, [5, 50, 95])
    return {
        "scene": name,
        "episodes": len(episodes),
        "placed": len(lengths),
        "steps, median": int(median),
        "steps, 5 % to 95 %": f"{low:.0f} to {high:.0f}",
        "steps, least and most": f"{min(lengths)} to {max(lengths)}",
    }


def main() -> None:
    pin_to_one_core()
    state_based = list(CONDITIONS.items())[:2]
    rows = [measure(name, condition, n_episodes=N_EPISODES) for name, condition in state_based]
    rows.append(measure(*list(CONDITIONS.items())[2], n_episodes=2))
    success = [measure_success(name, condition) for name, condition in state_based]
    outcome = "; ".join(
        f"{row['scene']}: {row['placed']} of {row['episodes']} placed, median step {row['steps, median']} "
        f"({row['steps, 5 % to 95 %']} hold 90 %, {row['steps, least and most']} all)"
        for row in success
    )
    write_results(
        "pickplace_speed",
        title="Speed of pick-place",
        method=(
            f"Control steps per second of CPU time, {N_EPISODES} episodes of the scripted ego beside a partner that "
            "does nothing (two episodes with cameras: four pictures of 128 x 128 per step, drawn in software), "
            f"best of {N_REPEATS}. Limit for the state-based scenes: {LIMIT_STEPS_PER_SECOND}. The scripted ego over "
            f"seeds 0 to {N_SUCCESS_EPISODES - 1}: {outcome}."
        ),
        columns=list(rows[0]),
        rows=rows,
        success=success,
        limit_steps_per_second=LIMIT_STEPS_PER_SECOND,
    )


if __name__ == "__main__":
    main()
