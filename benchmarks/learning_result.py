"""Does the shipped planar configuration learn, and is what it learned safe beside strangers?

Run `python benchmarks/learning_result.py`; it writes `results/learning_result.json` and `results/learning_result.md`.
Three seeds of `chamber-spike train --config mpe_cooperative_push`, each judged three ways: by the check of its learning
curve's slope, against an ego that acts at random, and in the preregistered cell `planar_push_trained` beside three
partners that it has never met. `tests/chamber/benchmarks/test_learning_result.py` asserts what is shown here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from _common import write_results
from _learning import CONFIG, EVALUATION_EPISODES, LAST_EPISODES, SEEDS, SeedResult, measure, untrained_rewards

from chamber.cell.config import Condition
from chamber.configs import shipped_config_path
from concerto.training.config import load_config

WITH, WITHOUT = Condition.WITH_STACK, Condition.WITHOUT_STACK


def row(result: SeedResult) -> dict[str, object]:
    """One row of the table."""
    report, training, evaluation = result.report, result.training, result.evaluation
    return {
        "seed": result.seed,
        "slope per episode": round(report.slope, 5),
        "p": f"{report.p_value:.1e}",
        "check": report.status.name,
        "last 100: trained": round(training.trained, 1),
        "last 100: random": round(training.random, 1),
        "last 100: margin (SE)": round(training.margin, 1),
        "new starts: trained": round(evaluation.trained, 1),
        "new starts: random": round(evaluation.random, 1),
        "new starts: margin (SE)": round(evaluation.margin, 1),
        "at fault, stack on": _per_partner(result, WITH),
        "at fault, stack off": _per_partner(result, WITHOUT),
        "claims of the cell": f"{sum(result.claims.values())} of {len(result.claims)} hold",
    }


def _per_partner(result: SeedResult, condition: Condition) -> str:
    return " / ".join(map(str, result.contacts_at_fault(condition).values()))


def cell_rows(results: Sequence[SeedResult]) -> list[dict[str, Any]]:
    """Everything that the cell counted, for the JSON file."""
    return [
        {"seed": result.seed, "partner": partner, "condition": condition.value, **asdict(numbers)}
        for result in results
        for (partner, condition), numbers in result.cell.items()
    ]


def main() -> None:
    """Measure all seeds and write the results."""
    results: list[SeedResult] = []
    for seed in SEEDS:
        with TemporaryDirectory() as scratch:
            results.append(measure(seed, Path(scratch)))
    rows = [row(result) for result in results]
    partners = " / ".join(results[0].contacts_at_fault(WITH))
    n_episodes = next(iter(results[0].cell.values())).n_episodes
    untrained = untrained_rewards(load_config(config_path=shipped_config_path(CONFIG)))
    write_results(
        "learning_result",
        title="What the shipped planar configuration learns",
        method=(
            f"{results[0].frames:,} frames per seed beside the frozen `scripted_heuristic`. Rewards are sums over the "
            "50 steps of an episode, in metres; 0 is best. An ego that acts at random has the same starts. Last "
            f"{LAST_EPISODES}: of the training, with exploration. New starts: {EVALUATION_EPISODES} episodes that "
            "training has not seen, the same for all seeds, without exploration; there an ego at rest earns "
            f"{untrained['at rest']:.1f}, and one that drives straight to the landmark farther from the partner "
            f"{untrained['rule']:.1f}. Margins are differences of means in standard errors of the difference, as if "
            f"the starts were not the same. At fault: contacts at the ego's fault beside {partners}, {n_episodes} "
            "episodes each, of the preregistered cell `planar_push_trained`, judged by `chamber.cell.contacts`."
        ),
        columns=list(rows[0]),
        rows=rows,
        cell=cell_rows(results),
        new_starts_untrained=untrained,
    )


if __name__ == "__main__":
    main()
