"""How much time does the wrapper around the simulator add to it, and what do resets, copies, pictures and memory cost?

Run `python benchmarks/arm_backend.py`; it writes `results/arm_backend.json` and `results/arm_backend.md`.
The floor of a control step is one bare `mj_step` call of all its physics steps on the same model, from the same states
and with the same controls. Times of one thread are CPU times, so that other users of the machine count little. Rates of
several copies are wall times, with one thread and with all in turns; turns in which others had the cores do not count.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from _common import write_results

from chamber.envs.cocarry import make_cocarry_env
from chamber.envs.coinsert import make_coinsert_env
from chamber.envs.stage1_pickplace import make_stage1_pickplace_env
from chamber.sim._mujoco_bindings import mujoco
from chamber.sim.mujoco_backend import MujocoBackend
from ripieno.randomness import derive_substream

N_EPISODES, N_STEPS = 20, 50
N_COPIES = (8, 16)
N_TURNS = 120
UNDISTURBED_SHARE = 0.95
LARGEST_ACTION = 0.3

TASKS: dict[str, Callable[..., Any]] = {
    "co-carry, rigid holds": make_cocarry_env,
    "co-carry, springs": lambda **options: make_cocarry_env(
        limits="documented", drive_stiffness=2e3, drive_force_limit=60.0, **options
    ),
    "pick-place, two Pandas": lambda **options: make_stage1_pickplace_env(
        condition_id="stage1_pickplace_panda_only_mappo_shared_param", **options
    ),
    "pick-place, Panda and Fetch": lambda **options: make_stage1_pickplace_env(
        condition_id="stage1_pickplace_panda_plus_fetch_ego_aht_happo_per_agent", **options
    ),
    "co-insert": make_coinsert_env,
}

MEMORY_SCRIPT = """
import resource, sys
from chamber.envs.cocarry import make_cocarry_env
import chamber.sim.mujoco_backend
n_environments, n_copies = map(int, sys.argv[1:])
environments = [make_cocarry_env(num_envs=n_copies) for _ in range(n_environments)]
for environment in environments:
    environment.reset(seed=0)
    for _ in range(20):
        environment.rig.advance()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def rig_of(env: Any) -> MujocoBackend:
    return env.unwrapped.rig


def random_actions(rig: MujocoBackend, rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {
        uid: rng.uniform(-LARGEST_ACTION, LARGEST_ACTION, (rig.num_envs, robot.model.action_dim))
        for uid, robot in rig._compiled.robots.items()
    }


def read_all(rig: MujocoBackend) -> None:
    """Read what a task reads of a step: joints, tool centre points, bodies, holds or finger contacts."""
    for uid, robot in rig._compiled.robots.items():
        rig.qpos(uid)
        rig.qvel(uid)
        rig.link_pose(uid, robot.model.tcp_link)
        for link in robot.model.finger_links:
            rig.net_force(uid, link)
    for name in rig._placeable:
        rig.body_pose(name)
    for name in rig._compiled.pins:
        rig.pin_force(name)


def step_times(make: Callable[..., Any]) -> dict[str, np.ndarray]:
    """CPU microseconds of single calls: the bare simulator, `advance`, and all that a task does with the backend."""
    env, bare_env = make(), make()
    rig, bare = rig_of(env), rig_of(bare_env)
    model, data = bare._model, bare._datas[0]
    rng = derive_substream("benchmark.arm_backend.actions").default_rng()
    times: dict[str, list[int]] = {"mj_step": [], "advance": [], "apply, advance and read": []}
    for episode in range(N_EPISODES):
        env.reset(seed=episode)
        for _ in range(N_STEPS):
            actions = random_actions(rig, rng)
            bare.restore_state(0, rig.save_state(0))
            started = time.thread_time_ns()
            for uid, action in actions.items():
                rig.apply(uid, action)
            applied = time.thread_time_ns()
            data.ctrl[:] = rig._datas[0].ctrl
            before_floor = time.thread_time_ns()
            mujoco.mj_step(model, data, rig.scene.substeps)
            after_floor = time.thread_time_ns()
            rig.advance()
            advanced = time.thread_time_ns()
            read_all(rig)
            read = time.thread_time_ns()
            times["mj_step"].append(after_floor - before_floor)
            times["advance"].append(advanced - after_floor)
            times["apply, advance and read"].append((applied - started) + (read - after_floor))
    env.close()
    bare_env.close()
    return {what: np.array(values) / 1e3 for what, values in times.items()}


def step_rows() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for task, make in TASKS.items():
        times = step_times(make)
        floor = np.median(times["mj_step"])
        for what, values in times.items():
            rows.append(
                {
                    "task": task,
                    "what": f"control step: {what}" + (" (floor)" if what == "mj_step" else ""),
                    **spread(values, unit="us"),
                    "share of the floor": "" if what == "mj_step" else round(floor / np.median(values), 2),
                }
            )
    return rows


def spread(values: np.ndarray, *, unit: str) -> dict[str, object]:
    low, median, high = (round(float(value), 2) for value in np.percentile(values, [25, 50, 75]))
    return {"median": median, "quartile_1": low, "quartile_3": high, "unit": unit}


def reset_rows() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for task, make in TASKS.items():
        build, reset = [], []
        for _ in range(5):
            started = time.thread_time_ns()
            env = make()
            build.append((time.thread_time_ns() - started) / 1e6)
        for seed in range(200):
            started = time.thread_time_ns()
            env.reset(seed=seed)
            reset.append((time.thread_time_ns() - started) / 1e6)
        rows.append({"task": task, "what": "build of an environment", **spread(np.array(build), unit="ms")})
        rows.append({"task": task, "what": "reset of an environment", **spread(np.array(reset), unit="ms")})
        env.close()
    return rows


def timed_turn(rig: MujocoBackend) -> tuple[float, float]:
    """Give control steps per second of wall time, summed over the copies, and the cores that this process had."""
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(max(1, 16 // rig.num_envs)):
        rig.advance()
    wall = time.perf_counter() - wall
    return max(1, 16 // rig.num_envs) * rig.num_envs / wall, (time.process_time() - cpu) / wall


def scaling_rows() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    cores = os.sched_getaffinity(0)
    for n in N_COPIES:
        os.sched_setaffinity(0, {max(cores)})
        alone = make_cocarry_env(num_envs=n)
        os.sched_setaffinity(0, cores)
        together = make_cocarry_env(num_envs=n)
        for env in (alone, together):
            env.reset(seed=0)
        turns = np.array([[*timed_turn(rig_of(alone)), *timed_turn(rig_of(together))] for _ in range(N_TURNS)])
        is_undisturbed = (turns[:, 1] > UNDISTURBED_SHARE) & (turns[:, 3] > UNDISTURBED_SHARE * len(cores))
        counted = turns[is_undisturbed] if is_undisturbed.any() else turns
        of = f"{is_undisturbed.sum()} of {N_TURNS} turns undisturbed"
        task = "co-carry, rigid holds"
        rows.append({"task": task, "what": f"{n} copies, 1 thread", **spread(counted[:, 0], unit="steps/s")})
        rows.append(
            {
                "task": task,
                "what": f"{n} copies, {len(cores)} threads ({of})",
                **spread(counted[:, 2], unit="steps/s"),
                "times one thread": round(float(np.median(counted[:, 2] / counted[:, 0])), 2),
            }
        )
        alone.close()
        together.close()
    return rows


def picture_rows() -> list[dict[str, object]]:
    env = make_stage1_pickplace_env(condition_id="stage1_pickplace_vision_only", render_mode="rgb_array")
    env.reset(seed=0)
    rig = rig_of(env)
    rows: list[dict[str, object]] = []
    for camera in rig.scene.cameras:
        times = []
        rig.render(camera.name)
        for _ in range(20):
            started = time.process_time_ns()
            rig.render(camera.name)
            times.append((time.process_time_ns() - started) / 1e6)
        what = (
            f"picture {camera.width} x {camera.height}, {'sensor' if camera.is_sensor else 'for people'}: {camera.name}"
        )
        rows.append({"task": "pick-place, vision", "what": what, **spread(np.array(times), unit="ms")})
    env.close()
    return rows


def memory_rows() -> list[dict[str, object]]:
    def megabytes(*arguments: int) -> float:
        command = [sys.executable, "-c", MEMORY_SCRIPT, *map(str, arguments)]
        return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    nothing, one, many, wide = megabytes(0, 1), megabytes(1, 1), megabytes(9, 1), megabytes(1, 17)
    task = "co-carry, rigid holds"
    return [
        {"task": task, "what": "memory of a process that only imported it", "median": round(nothing), "unit": "MB"},
        {"task": task, "what": "memory of a process with one environment", "median": round(one), "unit": "MB"},
        {"task": task, "what": "every further environment", "median": round((many - one) / 8, 1), "unit": "MB"},
        {
            "task": task,
            "what": "every further copy in an environment",
            "median": round((wide - one) / 16, 1),
            "unit": "MB",
        },
    ]


def main() -> None:
    memory = memory_rows()
    scaling = scaling_rows()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    write_results(
        "arm_backend",
        title="Cost of the simulator's wrapper",
        method=f"{N_EPISODES} episodes of {N_STEPS} control steps with random actions up to {LARGEST_ACTION:g}. Floor: "
        "one `mj_step` call of all physics steps of a control step, from the same state with the same controls; the "
        "share says which part of the time is the floor. CPU times of one thread. Rates of several copies are wall "
        f"times, one thread and all threads in turns, {N_TURNS} times; the medians are over the turns in which this "
        f"process had at least {100 * UNDISTURBED_SHARE:g} % of the cores that it asked for.",
        columns=[
            "task",
            "what",
            "median",
            "quartile_1",
            "quartile_3",
            "unit",
            "share of the floor",
            "times one thread",
        ],
        rows=[*step_rows(), *reset_rows(), *scaling, *memory, *picture_rows()],
        mujoco=mujoco.__version__,
        largest_resident_set_mb=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    )


if __name__ == "__main__":
    main()
