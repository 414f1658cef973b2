"""What a process with one environment takes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

LIMIT_MB = 150

PROGRAM = """
import json, sys
from chamber import tasks
from chamber.envs.cocarry import cocarry_matched_controller_specs
from chamber.partners import PartnerSpec, load_partner

env = tasks.make("cocarry")
extras = cocarry_matched_controller_specs()
pair = {uid: load_partner(PartnerSpec("cocarry_impedance", 0, None, None, extras[uid])) for uid in env.agent_uids}
obs, _ = env.reset(seed=0)
is_over = False
while not is_over:
    obs, _, terminated, truncated, info = env.step({uid: arm.act(obs) for uid, arm in pair.items()})
    is_over = terminated or truncated
memory = dict(line.split(":", 1) for line in open("/proc/self/status", encoding="ascii"))
compilers = sorted({"numba", "llvmlite", "scipy"} & set(sys.modules))
print(json.dumps({"peak_mb": int(memory["VmHWM"].split()[0]) / 1024, "compilers": compilers, "won": terminated}))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads what Linux says about a process")
def test_a_process_that_plays_co_carry_fits_in_150_mb_and_loads_no_compiler():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["won"]
    assert told["compilers"] == []
    assert told["peak_mb"] < LIMIT_MB
