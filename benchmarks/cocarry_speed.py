"""How fast is co-carry with both scripted controllers, how much of a step is physics, and who takes the rest?

Run `python benchmarks/cocarry_speed.py`; it writes `results/cocarry_speed.json` and `results/cocarry_speed.md`. A rate
is control steps (20 Hz, 25 physics steps each) per second of process CPU time on one core, from the time of single
steps. The floor is `mj_step` alone over the same episodes with the same controls. Floor and steps take turns, so that
both see the same machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from _common import pin_to_one_core, write_results

from chamber.envs.cocarry import (
    CoCarryEnv,
    cocarry_matched_controller_specs,
    cocarry_xarm6_controller_spec,
    make_cocarry_env,
)
from chamber.envs.cocarry_obs import CoCarryEgoStateSynthesizer
from chamber.partners import FrozenPartner, PartnerSpec, load_partner
from chamber.sim._mujoco_bindings import mujoco

CONDITIONS = {
    "two Pandas": "cocarry_matched_panda_pair",
    "one Panda holds": "cocarry_single_arm_positive_control",
    "Panda and xArm6": "cocarry_xarm6_partner",
}
LIMIT_STEPS_PER_SECOND, LIMIT_SHARE, LIMIT_RESET_MS = 400, 0.70, 5.0
STEPS, ROUNDS, RESETS = 320, 10, 100


@dataclass(frozen=True, slots=True)
class Episode:
    """One whole episode: the actions, and the controls of every step as the simulator got them."""

    seed: int
    actions: list[dict[str, Any]]
    controls: list[np.ndarray]


def controllers(env: CoCarryEnv) -> dict[str, FrozenPartner]:
    extras = {**cocarry_matched_controller_specs(), "xarm6_robotiq": cocarry_xarm6_controller_spec()}
    keys = {"xarm6_robotiq": "cocarry_xarm6_impedance"}
    return {
        uid: load_partner(PartnerSpec(keys.get(uid, "cocarry_impedance"), 0, None, None, extras[uid]))
        for uid in env.agent_uids
    }


def play(env: CoCarryEnv, pair: dict[str, FrozenPartner], seed: int) -> Episode:
    episode = Episode(seed, [], [])
    obs, _ = env.reset(seed=seed)
    for controller in pair.values():
        controller.reset(seed=seed)
    for _ in range(STEPS):
        action = {uid: controller.act(obs) for uid, controller in pair.items()}
        obs, *_ = env.step(action)
        episode.actions.append(action)
        episode.controls.append(env.rig._datas[0].ctrl.copy())
    return episode


def times_of_steps(step: Callable[[int], None]) -> list[int]:
    """CPU nanoseconds of each of `STEPS` steps."""
    times = []
    for k in range(STEPS):
        started = time.process_time_ns()
        step(k)
        times.append(time.process_time_ns() - started)
    return times


def measure(name: str, condition: str) -> dict[str, object]:
    env = make_cocarry_env(condition_id=condition)
    pair = controllers(env)
    model, data = env.rig._model, env.rig._datas[0]
    with_states = CoCarryEgoStateSynthesizer(env, partner_arm_dof=6 if "xarm6" in condition else 7)
    play(env, pair, 0)

    def physics(episode: Episode) -> Callable[[int], None]:
        def step(k: int) -> None:
            data.ctrl[:] = episode.controls[k]
            mujoco.mj_step(model, data, env.rig.scene.substeps)

        return step

    def environment(stepped: Any, episode: Episode) -> Callable[[int], None]:
        return lambda k: stepped.step(episode.actions[k])

    def everything() -> Callable[[int], None]:
        obs = env.privileged_observation()

        def step(_: int) -> None:
            nonlocal obs
            obs, *_rest = env.step({uid: controller.act(obs) for uid, controller in pair.items()})

        return step

    times: dict[str, list[int]] = {"floor": [], "all": [], "environment": [], "with states": []}
    for seed in range(ROUNDS):
        episode = play(env, pair, seed)
        for what, measured in times.items():
            env.reset(seed=seed)
            for controller in pair.values():
                controller.reset(seed=seed)
            step = {
                "floor": lambda episode=episode: physics(episode),
                "all": everything,
                "environment": lambda episode=episode: environment(env, episode),
                "with states": lambda episode=episode: environment(with_states, episode),
            }[what]()
            measured.extend(times_of_steps(step))
    resets = []
    for seed in range(RESETS):
        started = time.process_time()
        env.reset(seed=seed)
        resets.append(1e3 * (time.process_time() - started))
    env.close()
    medians = {what: float(np.median(values)) / 1e3 for what, values in times.items()}
    slow, fast = 1e9 / np.percentile(times["all"], [75, 25])
    return {
        "scene": name,
        "steps/s": round(1e6 / medians["all"]),
        "quartiles": f"{slow:.0f} to {fast:.0f}",
        "over whole episodes": round(1e9 / float(np.mean(times["all"]))),
        "floor: mj_step alone": round(1e6 / medians["floor"]),
        "share of the floor": round(medians["floor"] / medians["all"], 2),
        "physics (us)": round(medians["floor"]),
        "environment (us)": round(medians["environment"] - medians["floor"]),
        "both controllers (us)": round(medians["all"] - medians["environment"]),
        "state vectors (us)": round(medians["with states"] - medians["environment"]),
        "reset (ms)": round(float(np.median(resets)), 2),
    }


def main() -> None:
    pin_to_one_core()
    rows = [measure(name, condition) for name, condition in CONDITIONS.items()]
    write_results(
        "cocarry_speed",
        title="Speed of co-carry",
        method=(
            f"CPU time of single control steps with both scripted controllers, medians and quartiles of {ROUNDS} "
            f"episodes of {STEPS} steps, given as steps per second; 'over whole episodes' is their mean, with whatever "
            f"else the machine did. Limits for two Pandas: {LIMIT_STEPS_PER_SECOND} steps per second, a share of "
            f"{LIMIT_SHARE}, {LIMIT_RESET_MS:.0f} ms for a reset. State vectors are what `make_cocarry_training_env` "
            "adds."
        ),
        columns=list(rows[0]),
        rows=rows,
        limits={
            "steps_per_second": LIMIT_STEPS_PER_SECOND,
            "share_of_the_floor": LIMIT_SHARE,
            "reset_ms": LIMIT_RESET_MS,
        },
    )


if __name__ == "__main__":
    main()
