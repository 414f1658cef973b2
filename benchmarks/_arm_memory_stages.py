"""What `arm_memory.py` runs in a process of its own: it builds and plays co-carry and tells what each stage took.

Imports stand where they are measured. `python _arm_memory_stages.py N_COPIES` prints one JSON array.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

ROLLUP = Path("/proc/self/smaps_rollup")
STEPS = 320


def memory_mb() -> dict[str, float]:
    """Resident memory of this process; what of it is shared by halves; and what of it is no file."""
    fields = {line.split(":")[0]: line.split()[1] for line in ROLLUP.read_text(encoding="ascii").splitlines()[1:]}
    return {name: int(fields[field]) / 1024 for name, field in (("rss", "Rss"), ("pss", "Pss"), ("own", "Anonymous"))}


def main() -> None:
    stages: list[dict[str, Any]] = []

    def took(stage: str) -> None:
        stages.append({"stage": stage, **memory_mb()})

    n_copies = int(sys.argv[1])
    took("Python")
    import_module("numpy")
    took("import numpy")
    import_module("gymnasium")
    took("import gymnasium")
    from chamber import tasks

    took("from chamber import tasks")
    from chamber.sim._mujoco_bindings import mujoco

    took("import mujoco")
    env = tasks.make("cocarry", num_envs=n_copies)
    took("make the environment")
    from chamber.envs.cocarry import cocarry_matched_controller_specs
    from chamber.partners import PartnerSpec, load_partner

    extras = cocarry_matched_controller_specs()
    arms: dict[str, Any] = {
        uid: load_partner(PartnerSpec("cocarry_impedance", 0, None, None, extras[uid])) for uid in env.agent_uids
    }
    took("load both controllers")
    obs, _ = env.reset(seed=0)
    took("reset")
    for _ in range(STEPS):
        obs, *_ = env.step({uid: arm.act(obs) if n_copies == 1 else arm.act_batch(obs) for uid, arm in arms.items()})
    took(f"{STEPS} steps")
    more = 10 if n_copies == 1 else 1
    others = [tasks.make("cocarry", num_envs=1 if n_copies == 1 else 100) for _ in range(more)]
    for other in others:
        other.reset(seed=0)
        for _ in range(5):
            other.step({uid: other.action_space[uid].sample() for uid in other.agent_uids})
    took("ten more environments, or one of 100 copies")
    loaded = [name for name in ("numba", "llvmlite", "scipy", "OpenGL", "pydantic") if name in sys.modules]
    print(json.dumps({"stages": stages, "loaded": loaded, "simulator": mujoco.__version__}))


if __name__ == "__main__":
    main()
