"""How hard do two matched arms pull at the bar, and which stress limit follows from that?

Two scripted impedance arms play `EPISODES` whole episodes. They go on to the horizon after their success, because
holding the bar at the goal must not count as a fight either. The limit is 1.25 times the 99th percentile of the largest
hold force of the successes, rounded up to a newton. With `--publish` it goes into the package with the episodes, where
`cocarry@v2` reads it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib.metadata import version

import numpy as np
from _common import pin_to_one_core, write_results
from _limits import publish_if_asked

from chamber.envs._cocarry_limits import COCARRY_LIMITS_DATA, derive_stress_limits
from chamber.envs._force_limits import FORCE_LIMIT_MARGIN, FORCE_LIMIT_PERCENTILE
from chamber.envs.cocarry import CoCarryEnv, cocarry_matched_controller_specs, make_cocarry_env
from chamber.partners import FrozenPartner, PartnerSpec, load_partner
from ripieno._environment import machine

EPISODES = 200
CONTROLLER = "cocarry_impedance"
PERCENTILES = (50, 90, 99, 100)


@dataclass(frozen=True, slots=True)
class Episode:
    """What one episode came to; forces and tilt count from the end of the settle window."""

    seed: int
    success: bool
    success_step: int | None
    max_stress_until_success_n: float | None
    max_stress_n: float
    final_stress_n: float
    max_tilt_deg: float


def matched_pair() -> dict[str, FrozenPartner]:
    return {
        uid: load_partner(PartnerSpec(CONTROLLER, 0, None, None, extra))
        for uid, extra in cocarry_matched_controller_specs().items()
    }


def play(env: CoCarryEnv, pair: dict[str, FrozenPartner], seed: int) -> Episode:
    obs, _ = env.reset(seed=seed)
    for controller in pair.values():
        controller.reset(seed=seed)
    success_step, until_success, is_over = None, None, False
    while not is_over:
        obs, _, success, is_over, info = env.step({uid: arm.act(obs) for uid, arm in pair.items()})
        if success and success_step is None:
            success_step, until_success = info["elapsed_steps"], round(info["max_stress_proxy"], 4)
    at_the_end = env.get_telemetry()
    return Episode(
        seed=seed,
        success=success_step is not None,
        success_step=success_step,
        max_stress_until_success_n=until_success,
        max_stress_n=round(at_the_end["max_stress_proxy"], 4),
        final_stress_n=round(at_the_end["stress_proxy"], 4),
        max_tilt_deg=round(at_the_end["max_tilt_deg"], 4),
    )


def main() -> None:
    pin_to_one_core()
    env = make_cocarry_env(limits="documented")
    pair = matched_pair()
    episodes = [play(env, pair, seed) for seed in range(EPISODES)]
    successes = [episode for episode in episodes if episode.success]
    limits = derive_stress_limits([episode.max_stress_n for episode in successes])
    rule = (
        f"stress_max_n = {FORCE_LIMIT_MARGIN} x percentile {FORCE_LIMIT_PERCENTILE} of the largest hold force of "
        "matched successes, rounded up; stress_threshold_n and stress_scale_n are 110/130 and 20/130 of it, the "
        "proportions of the documented 130, 110 and 20 N"
    )
    known = machine()
    data = {
        "task": "cocarry@v2",
        "rule": rule,
        "limits": asdict(limits),
        "percentiles_n": _percentiles([episode.max_stress_n for episode in successes]),
        "controllers": dict.fromkeys(pair, CONTROLLER),
        "stress_measure": "wrist",
        "root_seed": env.root_seed,
        "episode_length": env.episode_length,
        "backend": env.rig.name,
        "versions": {package: version(package) for package in ("mujoco", "numba", "numpy")},
        "machine": {name: known[name] for name in ("architecture", "cpu_features", "cpu_model")},
        "episodes": [asdict(episode) for episode in episodes],
    }
    publish_if_asked(COCARRY_LIMITS_DATA, data)
    rows = [
        _row("largest hold force until success (N)", [episode.max_stress_until_success_n for episode in successes]),
        _row("largest hold force until the horizon (N)", [episode.max_stress_n for episode in successes]),
        _row("hold force at the horizon (N)", [episode.final_stress_n for episode in successes]),
        _row("largest tilt until the horizon (degrees)", [episode.max_tilt_deg for episode in successes]),
        _row("success at control step", [episode.success_step for episode in successes]),
    ]
    write_results(
        "cocarry_limits",
        title="Stress limit of co-carry",
        method=(
            f"{len(successes)} of {EPISODES} episodes of the matched pair succeeded. Limit {limits.stress_max_n:.0f} N "
            f"({rule}). The settle window of 15 steps does not count. The limits of the task and their episodes are in "
            f"`chamber/envs/data/{COCARRY_LIMITS_DATA}`."
        ),
        columns=list(rows[0]),
        rows=rows,
        limits=asdict(limits),
    )


def _row(what: str, values: list[float | None]) -> dict[str, object]:
    return {"quantity": what, **_percentiles(values)}


def _percentiles(values: list[float | None]) -> dict[str, float]:
    return {f"p{q}": round(float(np.percentile(np.array(values, dtype=np.float64), q)), 3) for q in PERCENTILES}


if __name__ == "__main__":
    main()
