"""How long does the kinematics of an arm take per call and per configuration, and how near is that to its floor?

Run `python benchmarks/arm_kinematics.py`; it writes `results/arm_kinematics.json` and `results/arm_kinematics.md`.
A single call is measured as a controller makes it, from Python, on one core. Its floor is the call of a compiled
function that takes the same two arrays and only allocates its result, plus the work of one configuration in a batch:
no compiled kernel can be called from Python faster. The floor of a batch is the sines and cosines alone, which every
formula needs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from _common import pin_to_one_core, timed, write_results
from numba import njit
from numpy.typing import NDArray

from chamber.agents import PandaJacobianProvider
from chamber.agents._arm_provider import ArmJacobianProvider
from chamber.agents.xarm6_jacobian import XArm6JacobianProvider
from ripieno.randomness import derive_substream

LIMIT_US = 10.0
BATCH = 4096
N_CONFIGURATIONS = 512

FloatArray = NDArray[np.float64]


@njit(cache=True)
def allocate_only(origins: FloatArray, q: FloatArray) -> FloatArray:
    return np.empty((q.shape[0], 6, q.shape[1]))


@njit(cache=True)
def sines_and_cosines(q: FloatArray) -> float:
    total = 0.0
    for k in range(q.shape[0]):
        for joint in range(q.shape[1]):
            total += np.sin(q[k, joint]) + np.cos(q[k, joint])
    return total


POSE_OF_A_STEP = 3 * (4 * (3 + 2) + 1 + (4 + 2))
"""Operations that place one frame: for each row 4 columns of 3 products and 2 sums, the sum of positions, and the turn
of 2 columns with 4 products and 2 sums. A chain has one step per joint and one for its tail."""
COLUMN = 3 + 6 + 3
"""Operations of a column of a linear Jacobian: a difference, and a cross product of 6 products and 3 differences."""
TURN_BACK = 9 * (3 + 2)
"""Operations that turn a joint's frame to that of its link."""
POINT = 3 * (3 + 2) + 3 * (3 + 3)
"""Operations that place a point of a link."""
ELBOW = 4


def random_joints(provider: ArmJacobianProvider, count: int, name: str) -> FloatArray:
    table = provider.chain.table
    rng = derive_substream(f"benchmark.arm_kinematics.{name}", root_seed=0).default_rng()
    return rng.uniform(table.lower, table.upper, (count, len(table.joints)))


def per_configuration(call: Callable[[FloatArray], object], joints: FloatArray) -> dict[str, float]:
    """Microseconds per configuration of batched calls."""
    times = timed(lambda _: call(joints), calls=200, warm_up=3)
    return {name: round(value / len(joints), 4) for name, value in times.items()}


def measure_arm(name: str, provider: ArmJacobianProvider) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    singles = random_joints(provider, N_CONFIGURATIONS, name)
    batch = random_joints(provider, BATCH, f"{name}.batch")
    chain = provider.chain
    full_jacobian = provider.jacobian_6x7 if isinstance(provider, PandaJacobianProvider) else provider.jacobian_6x6
    origins = np.zeros((chain.n_joints + 1, 3, 4))
    bare = timed(lambda k: allocate_only(origins, singles[k % N_CONFIGURATIONS][None]), calls=20_000)["median"]
    trigonometry = per_configuration(sines_and_cosines, batch)["median"]
    point = np.array([0.0, 0.0, 0.1])
    pose = POSE_OF_A_STEP * (chain.n_joints + 1)
    columns = COLUMN * chain.n_joints

    def of_elbow(q: FloatArray) -> FloatArray:
        return chain.point_jacobian(q, ELBOW, point)

    calls = {
        "position": (provider.fk_tcp_position, chain.tcp_position, pose),
        "rotation": (provider.fk_tcp_rotation, chain.tcp_rotation, pose),
        f"Jacobian 3 x {chain.n_joints}": (lambda q: provider(None, q), chain.jacobian, pose + columns),
        f"Jacobian 6 x {chain.n_joints}": (full_jacobian, chain.jacobian, pose + columns),
        "position, rotation, Jacobian": (provider.fk_and_jacobian, chain.tcp_kinematics, pose + columns),
        "poses of all links": (
            chain.link_transforms,
            chain.link_transforms,
            pose + TURN_BACK * (chain.n_joints + 1),
        ),
        "Jacobian of a point of the elbow": (of_elbow, of_elbow, pose + POINT + COLUMN * ELBOW),
    }
    for what, (single, many, operations) in calls.items():
        in_batch = per_configuration(many, batch)
        alone = timed(lambda k, single=single: single(singles[k % N_CONFIGURATIONS]), calls=20_000)
        floor = bare + in_batch["median"]
        rows.append(
            {
                "arm": name,
                "what": what,
                **alone,
                "floor": round(floor, 2),
                "share of the floor": round(floor / alone["median"], 2),
                "in a batch": in_batch["median"],
                "batch floor": trigonometry,
                "operations": operations,
            }
        )
    return rows


def main() -> None:
    pin_to_one_core()
    rows = measure_arm("panda", PandaJacobianProvider()) + measure_arm("xarm6", XArm6JacobianProvider())
    write_results(
        "arm_kinematics",
        title="Speed of the arms' kinematics",
        method=f"Wall time on one core, microseconds: of one call from Python, and per configuration in a batch of "
        f"{BATCH}. Limit of a call: {LIMIT_US:g}. Floor of a call: a compiled function that only allocates the result, "
        "plus the work of one configuration; floor of a batch: its sines and cosines alone. Operations: additions and "
        "multiplications of one configuration beside them.",
        columns=[*rows[0]],
        rows=rows,
        limit_us=LIMIT_US,
    )


if __name__ == "__main__":
    main()
