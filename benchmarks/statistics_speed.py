"""How long does the cluster bootstrap take, and what share of that is drawing the random numbers?"""

from __future__ import annotations

import numpy as np
from _common import pin_to_one_core, timed, write_results

from ripieno.randomness import derive_substream
from ripieno.statistics import cluster_bootstrap

N_RESAMPLES, N_SEEDS, N_EPISODES = 10_000, 5, 20
LIMIT_MS = 200.0


def plain_loop(values: dict[int, np.ndarray], rng: np.random.Generator) -> None:
    """The draws of the documented procedure, one call of the generator at a time; no statistic is computed."""
    keys = list(values)
    for _ in range(N_RESAMPLES):
        for cluster in rng.integers(0, len(keys), size=len(keys)):
            rng.integers(0, len(values[keys[cluster]]), size=len(values[keys[cluster]]))


def main() -> None:
    pin_to_one_core()
    data = derive_substream("benchmark.statistics.data").default_rng()
    stream = derive_substream("benchmark.statistics.draws")
    rows: list[dict[str, object]] = []
    for label, sample in (
        ("success (0 or 1)", {s: (data.random(N_EPISODES) < 0.7).astype(float) for s in range(N_SEEDS)}),
        ("real-valued", {s: data.random(N_EPISODES) for s in range(N_SEEDS)}),
    ):
        ours = timed(
            lambda _, sample=sample: cluster_bootstrap(sample, n_resamples=N_RESAMPLES, rng=stream.default_rng()),
            calls=15, warm_up=2, unit=1e6,
        )  # fmt: skip
        rows.append({"values": label, "what": "cluster_bootstrap", **ours, "limit (ms)": LIMIT_MS})
    draws = N_RESAMPLES * N_SEEDS * (1 + N_EPISODES)
    raw = timed(lambda _: stream.default_rng().bit_generator.random_raw(draws // 2), calls=15, warm_up=2, unit=1e6)
    rows.append({"values": f"{draws:,} bounded integers", "what": "floor: the raw random words alone", **raw})
    loop = timed(lambda _: plain_loop(sample, stream.default_rng()), calls=3, warm_up=1, unit=1e6)
    rows.append({"values": f"{draws:,} bounded integers", "what": "the documented loop's draws in plain NumPy", **loop})
    write_results(
        "statistics_speed",
        title="Speed of the cluster bootstrap",
        method=f"{N_RESAMPLES:,} replicates of {N_SEEDS} seeds x {N_EPISODES} episodes on one core, "
        "with the documented order of draws; milliseconds.",
        columns=["values", "what", "median", "quartile_1", "quartile_3", "limit (ms)"],
        rows=rows,
    )


if __name__ == "__main__":
    main()
