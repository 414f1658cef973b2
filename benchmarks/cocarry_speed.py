"""How fast is co-carry with both scripted controllers, how much of a step is physics, and who takes the rest?

Run `python benchmarks/cocarry_speed.py`; it writes `results/cocarry_speed.json` and `results/cocarry_speed.md`. A rate
is control steps (20 Hz, 25 physics steps each) per second of process CPU time on one core. The floor is `mj_step` alone
over the same episodes with the same controls. Floor and steps take turns, so that both see the same machine.
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
STEPS, ROUNDS, RESETS = 320, 15, 100


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


def microseconds_per_step(run: Callable[[], None]) -> float:
    started = time.process_time()
    run()
    return 1e6 * (time.process_time() - started) / STEPS


def measure(name: str, condition: str) -> dict[str, object]:
    env = make_cocarry_env(condition_id=condition)
    pair = controllers(env)
    model, data = env.rig._model, env.rig._datas[0]
    with_states = CoCarryEgoStateSynthesizer(env, partner_arm_dof=6 if "xarm6" in condition else 7)
    play(env, pair, 0)

    def physics(episode: Episode) -> None:
        for controls in episode.controls:
            data.ctrl[:] = controls
            mujoco.mj_step(model, data, env.rig.scene.substeps)

    def steps(stepped: Any, episode: Episode) -> None:
        for action in episode.actions:
            stepped.step(action)

    def steps_and_controllers() -> None:
        obs = env.privileged_observation()
        for _ in range(STEPS):
            obs, *_ = env.step({uid: controller.act(obs) for uid, controller in pair.items()})

    times: dict[str, list[float]] = {"floor": [], "all": [], "environment": [], "with states": []}
    for seed in range(ROUNDS):
        episode = play(env, pair, seed)
        runs = {
            "floor": lambda episode=episode: physics(episode),
            "all": steps_and_controllers,
            "environment": lambda episode=episode: steps(env, episode),
            "with states": lambda episode=episode: steps(with_states, episode),
        }
        for what, run in runs.items():
            env.reset(seed=seed)
            for controller in pair.values():
                controller.reset(seed=seed)
            times[what].append(microseconds_per_step(run))
    resets = []
    for seed in range(RESETS):
        started = time.process_time()
        env.reset(seed=seed)
        resets.append(1e3 * (time.process_time() - started))
    env.close()
    floor, everything, environment, states = (min(times[what]) for what in times)
    shares = np.array(times["floor"]) / np.array(times["all"])
    slow, usual, fast = np.percentile(1e6 / np.array(times["all"]), [25, 50, 75])
    return {
        "scene": name,
        "steps/s": round(1e6 / everything),
        "usual (quartiles)": f"{usual:.0f} ({slow:.0f} to {fast:.0f})",
        "floor: mj_step alone": round(1e6 / floor),
        "share of the floor": round(floor / everything, 2),
        "usual share": round(float(np.median(shares)), 2),
        "physics (us)": round(floor),
        "environment (us)": round(environment - floor),
        "both controllers (us)": round(everything - environment),
        "state vectors (us)": round(states - environment),
        "reset (ms)": round(float(np.median(resets)), 2),
    }


def main() -> None:
    pin_to_one_core()
    rows = [measure(name, condition) for name, condition in CONDITIONS.items()]
    write_results(
        "cocarry_speed",
        title="Speed of co-carry",
        method=(
            f"Control steps per second of CPU time with both scripted controllers, whole episodes of {STEPS} steps, "
            f"best of {ROUNDS}, because other work on the machine only ever slows one down. 'Usual' is with that work: "
            "the median, and the median share of pairs that were measured one after the other. Limits for two Pandas: "
            f"{LIMIT_STEPS_PER_SECOND} steps per second, a share of {LIMIT_SHARE}, {LIMIT_RESET_MS:.0f} ms for a "
            "reset. State vectors are what `make_cocarry_training_env` adds."
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
