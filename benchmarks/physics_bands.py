"""Do the two-arm tasks behave as another MuJoCo model of them did?

The bands are what an independent small model of the same tasks gave in MuJoCo ("filtered": arms pass through each other
and through the bar) over four to six episodes per row; `docs/explanation/two-arms.md` says more. Here every row is
played on more seeds, each in an environment of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from _common import pin_to_one_core, write_results

from chamber.agents.pickplace_ego_scripted import ScriptedPickPlaceEgo
from chamber.envs.cocarry import cocarry_matched_controller_specs, make_cocarry_env
from chamber.envs.coinsert import coinsert_matched_controller_specs, make_coinsert_env
from chamber.envs.stage1_pickplace import make_stage1_pickplace_env
from chamber.partners import FrozenPartner, PartnerSpec, load_partner

SEEDS = range(20)
EGO, PARTNER = "panda_wristcam", "panda_partner"
SETTLE_STEPS = 15
SINGLE_ARM = "cocarry_single_arm_positive_control"
PICK_PLACE = "stage1_pickplace_panda_only_mappo_shared_param"
SWING_STEPS = 40
"""Two seconds: more than one turn of a bar that swings from one hand."""
COLUMNS = ("task", "quantity", "band", "measured", "episodes", "within")


@dataclass(frozen=True, slots=True)
class Carried:
    """One episode of co-carry to its horizon, step by step.

    Attributes:
        success_step: first control step with success.
        tilt_deg, stress_n: shape ``(steps,)``.
        distance_m: from the middle of the bar to the goal, shape ``(steps,)``.
    """

    success_step: int | None
    tilt_deg: np.ndarray
    stress_n: np.ndarray
    distance_m: np.ndarray


def controllers(key: str, specs: Mapping[str, Mapping[str, str]], uids: tuple[str, ...]) -> dict[str, FrozenPartner]:
    return {uid: load_partner(PartnerSpec(key, 0, None, None, dict(specs[uid]))) for uid in uids}


def carry(seed: int, condition: str = "cocarry_matched_panda_pair") -> Carried:
    env = make_cocarry_env(condition_id=condition, root_seed=seed, limits="documented")
    holding = (EGO,) if env.single_arm else (EGO, PARTNER)
    arms = controllers("cocarry_impedance", cocarry_matched_controller_specs(), holding)
    still = {uid: np.zeros(env.action_space[uid].shape) for uid in (EGO, PARTNER)}
    obs, _ = env.reset(seed=seed)
    success_step, tilts, stresses, distances, is_over = None, [], [], [], False
    while not is_over:
        obs, _, success, is_over, info = env.step({**still, **{uid: arm.act(obs) for uid, arm in arms.items()}})
        if success and success_step is None:
            success_step = info["elapsed_steps"]
        said = env.get_telemetry()
        tilts.append(float(said["tilt_deg"]))
        stresses.append(float(said["stress_proxy"]))
        distances.append(float(said["centroid_to_goal"]))
    env.close()
    return Carried(success_step, np.array(tilts), np.array(stresses), np.array(distances))


@dataclass(frozen=True, slots=True)
class Inserted:
    """One episode of co-insert to its success: its control step, and how the peg sits then."""

    step: int | None
    lateral_mm: float
    penetration_mm: float


def insert(seed: int, clearance_m: float) -> Inserted:
    env = make_coinsert_env(peg_clearance_m=clearance_m, root_seed=seed, limits="documented")
    specs = coinsert_matched_controller_specs()
    keys = {EGO: "coinsert_base_inserter", PARTNER: "coinsert_reference_holder"}
    arms = {uid: load_partner(PartnerSpec(key, 0, None, None, specs[uid])) for uid, key in keys.items()}
    obs, info = env.reset(seed=seed)
    success, is_over = False, False
    while not (is_over or success):
        obs, _, success, is_over, info = env.step({uid: arm.act(obs) for uid, arm in arms.items()})
    said: Mapping[str, Any] = env.get_telemetry()
    step = int(info["elapsed_steps"]) if success else None
    env.close()
    return Inserted(step, 1e3 * said["lateral_offset_m"], 1e3 * said["max_penetration_m"])


def pick_place(seed: int) -> int | None:
    env, ego = make_stage1_pickplace_env(condition_id=PICK_PLACE, root_seed=seed), ScriptedPickPlaceEgo()
    still = {uid: np.zeros(env.action_space[uid].shape) for uid in (EGO, PARTNER)}
    obs, _ = env.reset(seed=seed)
    step, success, is_over = 0, False, False
    while not (success or is_over):
        obs, _, success, is_over, _ = env.step({**still, EGO: ego.act(obs)})
        step += 1
    env.close()
    return step if success else None


# --- rows ---------------------------------------------------------------------------------------------------


def row(task: str, quantity: str, band: str, values: list[float], is_within: Callable[[float], bool], unit: str = "",
        digits: int = 2) -> dict[str, object]:  # fmt: skip
    """Give the range of what was measured and how many episodes lie within the band."""
    inside = sum(map(is_within, values))
    low, high = f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"
    return {
        "task": task,
        "quantity": quantity,
        "band": f"{band} {unit}".strip(),
        "measured": f"{low if low == high else f'{low} to {high}'} {unit}".strip(),
        "episodes": len(values),
        "within": f"{inside} of {len(values)}",
    }


def at_most(limit: float) -> Callable[[float], bool]:
    return lambda value: value <= limit


def between(low: float, high: float) -> Callable[[float], bool]:
    return lambda value: low <= value <= high


def never() -> float:
    """What stands for a step that never came."""
    return float("inf")


def matched_rows() -> list[dict[str, object]]:
    played = [carry(seed) for seed in SEEDS]
    settled = slice(SETTLE_STEPS, None)
    name = "co-carry, matched pair"
    return [
        row(name, "success at control step", "15", [e.success_step or never() for e in played], between(15, 15),
            digits=0),
        row(name, "largest tilt after settling", "at most 0.17", [e.tilt_deg[settled].max() for e in played],
            at_most(0.17), "degrees"),
        row(name, "largest pin force after settling", "about 3.1", [e.stress_n[settled].max() for e in played],
            between(2.79, 3.41), "N"),
        row(name, "pin force at rest", "about 2.75", [e.stress_n[-1] for e in played], between(2.48, 3.02), "N"),
        row(name, "largest tilt before it", "at most 0.8", [e.tilt_deg[:SETTLE_STEPS].max() for e in played],
            at_most(0.8), "degrees"),
    ]  # fmt: skip


def single_arm_rows() -> list[dict[str, object]]:
    played = [carry(seed, SINGLE_ARM) for seed in SEEDS]
    name, band = "co-carry, one arm", "0.15 to 0.19"
    swings = [e.distance_m[-SWING_STEPS:] for e in played]
    crossing = sum(swing.min() <= 0.19 and swing.max() >= 0.15 for swing in swings)
    return [
        row(name, "episodes that succeed", "none", [float(e.success_step is not None) for e in played], at_most(0),
            digits=0),
        row(name, "largest tilt after settling", "74 to 78", [e.tilt_deg[SETTLE_STEPS:].max() for e in played],
            between(74, 78), "degrees", 1),
        row(name, "distance of the bar at the end", band, [e.distance_m[-1] for e in played], between(0.15, 0.19), "m",
            3),
        {**row(name, "the same over the last two seconds", band, list(np.concatenate(swings)), between(0.15, 0.19), "m",
               3), "episodes": len(played), "within": f"{crossing} of {len(played)} reach it"},
    ]  # fmt: skip


def insert_rows(clearance_mm: float, lateral_mm: float) -> list[dict[str, object]]:
    played = [insert(seed, 1e-3 * clearance_mm) for seed in SEEDS]
    name = f"co-insert, {clearance_mm} mm"
    return [
        row(name, "seated at control step", "15", [e.step or never() for e in played], between(15, 15), digits=0),
        row(name, "lateral offset when seated", f"at most the clearance (there {lateral_mm})",
            [e.lateral_mm for e in played], at_most(clearance_mm), "mm"),
        row(name, "deepest overlap", "below 0.01", [e.penetration_mm for e in played], at_most(0.01), "mm", 4),
    ]  # fmt: skip


def pick_place_rows() -> list[dict[str, object]]:
    steps = [pick_place(seed) or never() for seed in SEEDS]
    return [row("pick-place, scripted ego", "success at control step", "23 to 35", steps, between(23, 35), digits=0)]


def main() -> None:
    pin_to_one_core()
    rows = [
        *matched_rows(),
        *single_arm_rows(),
        *insert_rows(1.0, 0.50),
        *insert_rows(0.5, 0.25),
        *insert_rows(0.2, 0.11),
        *pick_place_rows(),
    ]
    write_results(
        "physics_bands",
        title="The physics of the two-arm tasks beside an independent model",
        method=(
            f"Seeds {SEEDS.start} to {SEEDS.stop - 1}, each in an environment of its own, to the horizon. *Band* is "
            "what an independent small MuJoCo model of the same tasks gave over four to six episodes; *about* counts "
            "what is within a tenth. A bar that one arm drops swings in a cone for the rest of the episode; its "
            "distance at the end is the place in that swing at which the episode stops."
        ),
        columns=COLUMNS,
        rows=rows,
    )


if __name__ == "__main__":
    main()
