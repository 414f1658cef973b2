"""How hard does the reference pair press when it seats the peg, and which force limits follow from that?

Plays `EPISODES` episodes of the matched pair at each clearance, starting up to half a millimetre per axis from the
ready place, and takes the largest forces of each success from its first step on. A limit is 1.25 times their 99th
percentile, rounded up to a newton. With `--publish` they go into the package with the episodes, where `coinsert@v2`
reads them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from _common import write_results
from _limits import publish_if_asked

from chamber.envs._coinsert_limits import COINSERT_LIMITS_DATA
from chamber.envs._force_limits import FORCE_LIMIT_MARGIN, FORCE_LIMIT_PERCENTILE, derive_force_limit
from chamber.envs.coinsert import (
    COINSERT_CLEARANCE_SET_M,
    CoInsertEnv,
    coinsert_matched_controller_specs,
    make_coinsert_env,
)
from chamber.partners.api import FrozenPartner, PartnerSpec
from chamber.partners.registry import load_partner

EPISODES = 100
START_OFFSET_M = 5e-4
CONTROLLERS = {"panda_wristcam": "coinsert_base_inserter", "panda_partner": "coinsert_reference_holder"}


def reference_pair() -> dict[str, FrozenPartner]:
    extras = coinsert_matched_controller_specs()
    return {uid: load_partner(PartnerSpec(name, 0, None, None, extras[uid])) for uid, name in CONTROLLERS.items()}


@dataclass(frozen=True, slots=True)
class Episode:
    """What one episode came to; forces are the largest ones since its start."""

    success: bool
    steps: int
    peak_insert_force_n: float
    peak_couple_wrench_n: float
    max_penetration_m: float


def play(env: CoInsertEnv, pair: dict[str, FrozenPartner], seed: int) -> Episode:
    obs, _ = env.reset(seed=seed)
    for partner in pair.values():
        partner.reset(seed=seed)
    peak_insert = peak_couple = 0.0
    while True:
        obs, _, terminated, truncated, info = env.step({uid: partner.act(obs) for uid, partner in pair.items()})
        telemetry = env.get_telemetry()
        peak_insert = max(peak_insert, telemetry["insert_force_n"])
        peak_couple = max(peak_couple, telemetry["couple_wrench_n"])
        if terminated or truncated:
            return Episode(
                success=bool(terminated),
                steps=info["elapsed_steps"],
                peak_insert_force_n=round(peak_insert, 6),
                peak_couple_wrench_n=round(peak_couple, 6),
                max_penetration_m=round(telemetry["max_penetration_m"], 9),
            )


def columns_of(episodes: list[Episode]) -> dict[str, list[object]]:
    return {field.name: [getattr(episode, field.name) for episode in episodes] for field in fields(Episode)}


def summary(clearance: float, episodes: list[Episode]) -> dict[str, object]:
    successes = [episode for episode in episodes if episode.success]
    return {
        "clearance (mm)": 1000 * clearance,
        "successes": f"{len(successes)}/{len(episodes)}",
        "steps to success": f"{min(e.steps for e in successes)} to {max(e.steps for e in successes)}",
        "largest contact force (N)": round(max(e.peak_insert_force_n for e in successes), 1),
        "largest force in the wrist (N)": round(max(e.peak_couple_wrench_n for e in successes), 1),
        "deepest overlap (micrometres)": round(1e6 * max(e.max_penetration_m for e in successes), 1),
    }


def main() -> None:
    pair = reference_pair()
    played: dict[float, list[Episode]] = {}
    for clearance in COINSERT_CLEARANCE_SET_M:
        env = make_coinsert_env(peg_clearance_m=clearance, start_offset_m=START_OFFSET_M, limits="documented")
        played[clearance] = [play(env, pair, seed) for seed in range(EPISODES)]
        env.close()
    successes = [episode for episodes in played.values() for episode in episodes if episode.success]
    limits = {
        "f_insert_max_n": derive_force_limit([episode.peak_insert_force_n for episode in successes]),
        "f_couple_max_n": derive_force_limit([episode.peak_couple_wrench_n for episode in successes]),
    }
    rule = f"{FORCE_LIMIT_MARGIN} x percentile {FORCE_LIMIT_PERCENTILE} of the peaks of matched successes, rounded up"
    data = {
        "rule": rule,
        "controllers": CONTROLLERS,
        "start_offset_m": START_OFFSET_M,
        "seeds": [0, EPISODES - 1],
        "backend": env.rig.name,
        "limits": limits,
        "episodes": [{"clearance_m": clearance, **columns_of(played[clearance])} for clearance in played],
    }
    publish_if_asked(COINSERT_LIMITS_DATA, data)
    rows = [summary(clearance, episodes) for clearance, episodes in played.items()]
    write_results(
        "coinsert_limits",
        title="Force limits of co-insert",
        method=(
            f"{EPISODES} episodes of the matched reference pair per clearance, starts up to {1000 * START_OFFSET_M} mm "
            f"per axis from the ready place. Limits: contact {limits['f_insert_max_n']:.0f} N, wrist of the holder "
            f"{limits['f_couple_max_n']:.0f} N ({rule}). The limits of the task and their episodes are in "
            f"`chamber/envs/data/{COINSERT_LIMITS_DATA}`."
        ),
        columns=list(rows[0]),
        rows=rows,
        limits=limits,
    )


if __name__ == "__main__":
    main()
