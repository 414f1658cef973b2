"""How long does one call of a hand-written arm controller take, and how near is that to its floor?

Run `python benchmarks/partner_controllers.py`; it writes `results/partner_controllers.json` and `.md`. A call is one
`act` from Python on one core with observations as the tasks give them, float32 with a leading axis of 1. The floor is
the compiled part alone, on packed arrays: one pass over the chain and the control law.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from _common import pin_to_one_core, timed, write_results

from chamber.agents import PandaJacobianProvider
from chamber.agents.xarm6_jacobian import XArm6JacobianProvider
from chamber.partners import PartnerSpec, load_partner
from chamber.partners._servo_kernels import damped_command, servo_on_chain
from chamber.partners.cocarry_policy_shift import COCARRY_POLICY_SHIFT_CANDIDATES
from ripieno.randomness import derive_substream

LIMIT_US = 60.0
N_OBSERVATIONS, CALLS = 256, 20_000
BATCH, BATCH_CALLS = 256, 500

READY = np.array([0.0, np.pi / 8, 0.0, -5 * np.pi / 8, 0.0, 3 * np.pi / 4, -np.pi / 4, 0.04, 0.04])
XARM6_READY = np.array([0.0, -0.084, -0.8, 0.0, 0.692, 0.0, *np.zeros(6)])
COCARRY = ("cocarry_impedance", "cocarry_blind_impedance", *COCARRY_POLICY_SHIFT_CANDIDATES, "cocarry_xarm6_impedance")
COINSERT = ("coinsert_base_inserter", "coinsert_reference_holder")


def observation(rng: np.random.Generator, key: str, n: int) -> dict[str, Any]:
    """What a task shows near the middle of an episode, for n copies."""
    ready = XARM6_READY if "xarm6" in key else READY
    level = np.tile([1.0, 0.0, 0.0, 0.0], (n, 1)) + rng.uniform(-0.02, 0.02, (n, 4))
    down = np.tile([0.0, 1.0, 0.0, 0.0], (n, 1)) + rng.uniform(-1e-3, 1e-3, (n, 4))
    fields = {
        "goal_pos": rng.uniform([-0.02, 0.1, 0.26], [0.02, 0.14, 0.3], (n, 3)),
        "bar_pose": np.hstack([rng.uniform([-0.02, 0.08, 0.2], [0.02, 0.12, 0.3], (n, 3)), level]),
        "peg_pose": np.hstack([rng.uniform([-5e-4, -5e-4, 0.03], [5e-4, 5e-4, 0.05], (n, 3)), down]),
        "receptacle_pose": np.hstack([rng.uniform(-1e-3, 1e-3, (n, 3)), np.tile([1.0, 0.0, 0.0, 0.0], (n, 1))]),
    }
    qpos = ready + rng.uniform(-0.1, 0.1, (n, len(ready)))
    return {
        "agent": {"arm": {"qpos": qpos.astype(np.float32)}},
        "extra": {name: value.astype(np.float32) for name, value in fields.items()},
    }


def floor_call(key: str) -> Callable[[int], object]:
    """The compiled calls that one `act` makes, on arrays that are packed already."""
    arm = XArm6JacobianProvider() if "xarm6" in key else PandaJacobianProvider()
    joints = np.array([XARM6_READY[:6] if "xarm6" in key else READY[:7]])
    if key in COINSERT:
        motion = np.full(6, 1e-3)
        return lambda _: damped_command(arm.fk_and_jacobian(joints[0]).jacobian, motion, 0.04)
    target, base, turn = np.full((1, 3), 0.2), np.zeros(3), np.eye(3)
    postures, integrals = np.zeros(joints.shape), np.zeros((1, 3))

    origins = arm.chain.origins
    return lambda _: servo_on_chain(
        target, base, turn, origins, joints, postures, 2.5, 0.6, 0.03, 0.04, 0.12, 0.6, integrals
    )


def measure(key: str) -> dict[str, object]:
    rng = derive_substream(f"benchmark.partner_controllers.{key}", root_seed=0).default_rng()
    seen = [observation(rng, key, 1) for _ in range(N_OBSERVATIONS)]
    partner: Any = load_partner(PartnerSpec(key, 0, None, None, {"uid": "arm"}))
    call = timed(lambda k: partner.act(seen[k % N_OBSERVATIONS]), calls=CALLS)
    floor = timed(floor_call(key), calls=CALLS)["median"]
    row: dict[str, object] = {
        "partner": key,
        "median": f"{call['median']} us",
        "quartiles": f"{call['quartile_1']} to {call['quartile_3']}",
        "limit": f"<= {LIMIT_US:g} us" if key == "cocarry_impedance" else "",
        "floor": f"{floor} us",
        "share of the floor": round(floor / call["median"], 2),
    }
    if key in COCARRY:
        batch = [observation(rng, key, BATCH) for _ in range(8)]
        partner.reset()
        times = timed(lambda k: partner.act_batch(batch[k % 8]), calls=BATCH_CALLS, warm_up=20)
        row["in a batch"] = f"{times['median'] / BATCH:.3f} us"
    return row


def main() -> None:
    pin_to_one_core()
    write_results(
        "partner_controllers",
        title="Speed of the hand-written arm controllers",
        method=f"One `act` from Python on one core, {N_OBSERVATIONS} random observations, {CALLS:,} calls; in a batch: "
        f"`act_batch` of {BATCH} environments, per environment. Floor: the compiled part of the same call on packed "
        "arrays, one pass over the chain and the control law; the rest is reading the observation and the memory of "
        "the controller. A control step lasts 50,000 us.",
        columns=["partner", "median", "quartiles", "limit", "floor", "share of the floor", "in a batch"],
        rows=[measure(key) for key in (*COCARRY, *COINSERT)],
    )


if __name__ == "__main__":
    main()
