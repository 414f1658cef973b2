"""What `arm_memory.py` runs in a process of its own: it builds and plays a task and tells what each stage took.

Imports stand where they are measured. `python _arm_memory_stages.py TASK CONDITION N_COPIES` prints one JSON object; a
task without conditions has the condition `-`. One copy is played by the reference team to the end of its episode,
several are moved at random.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

ROLLUP = Path("/proc/self/smaps_rollup")
STEPS_AT_RANDOM = 50


def memory_mb() -> dict[str, float]:
    """Resident memory of this process, and what of it is no file."""
    fields = {line.split(":")[0]: line.split()[1] for line in ROLLUP.read_text(encoding="ascii").splitlines()[1:]}
    return {name: int(fields[field]) / 1024 for name, field in (("rss", "Rss"), ("own", "Anonymous"))}


def peak_mb() -> float:
    """The most that was ever resident."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines())
    return int(status["VmHWM"].split()[0]) / 1024


def main() -> None:
    stages: dict[str, dict[str, float]] = {}
    task_id, condition, n_copies = sys.argv[1], None if sys.argv[2] == "-" else sys.argv[2], int(sys.argv[3])
    stages["Python"] = memory_mb()
    for library in ("numpy", "gymnasium"):
        import_module(library)
    stages["NumPy, Gymnasium"] = memory_mb()
    from chamber import tasks
    from chamber.rollout.references import reference

    options: dict[str, Any] = {} if condition is None else {"condition_id": condition}
    if n_copies > 1:
        options["num_envs"] = n_copies
    stages["imports"] = memory_mb()
    env = tasks.make(task_id, **options)
    stages["made"] = memory_mb()
    if n_copies == 1:
        team = reference(task_id).build(env, condition)
        team.reset(seed=0)
        obs, _ = env.reset(seed=0)
        is_over = False
        while not is_over:
            obs, _, terminated, truncated, _ = env.step(team.act(obs))
            is_over = terminated or truncated
    else:
        env.reset(seed=0)
        env.action_space.seed(0)
        for _ in range(STEPS_AT_RANDOM):
            env.step(env.action_space.sample())
    stages["played"] = memory_mb()
    loaded = [name for name in ("numba", "llvmlite", "scipy", "OpenGL") if name in sys.modules]
    print(json.dumps({"stages": stages, "peak": peak_mb(), "loaded": loaded}))


if __name__ == "__main__":
    main()
