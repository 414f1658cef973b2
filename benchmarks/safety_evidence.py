"""Who is at fault in 10,000 encounters, and what does the filter cost?

Run `python benchmarks/safety_evidence.py`; it writes `results/safety_evidence.json` and `results/safety_evidence.md`.
The encounters are those of `concerto.testing.encounters` (root seed 0), the verdicts those of
`concerto.testing.responsibility`, which knows nothing about the filters. Every table uses the same encounters; in the
last two the partners use more acceleration than they declared. `--encounters` and `--trade-off` make it shorter.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from _common import RESULTS, host

from concerto.testing.encounters import (
    Behaviour,
    Controller,
    ControllerFactory,
    Encounter,
    EncounterOutcome,
    EncounterSettings,
    PartnerOutcome,
    documented_default,
    run_encounters,
    safety_stack,
    unfiltered,
)
from concerto.testing.responsibility import DeclaredMotion, Verdict
from ripieno.canonical import INDENTED_LINE
from ripieno.files import write_atomic
from ripieno.parallel import run_cells

ROOT_SEED = 0
CHUNK = 100  # encounters per task


@dataclass(frozen=True)
class Condition:
    """One controller in one world."""

    name: str
    make_controller: ControllerFactory
    settings: EncounterSettings


def believing(encounter: Encounter, *, acceleration: float, speed: float) -> Controller:
    """The stack, told another worst motion than the partners declare (acceleration in units of the ego's limit)."""
    believed = DeclaredMotion(acceleration * encounter.braking_limit.acceleration, speed)
    return safety_stack(encounter, believed=believed)


CONDITIONS = (
    Condition("no filter", unfiltered, EncounterSettings()),
    Condition("documented default", documented_default, EncounterSettings()),
    Condition("safety stack", safety_stack, EncounterSettings()),
    Condition(
        "safety stack, partners use 1.5x what they declared", safety_stack, EncounterSettings(behaviour_scale=1.5)
    ),
    Condition("safety stack, partners use 3x what they declared", safety_stack, EncounterSettings(behaviour_scale=3.0)),
)

# For the trade-off the partners really use up to 0.5 of the ego's acceleration and 2 m/s, whatever the stack believes.
REAL_ACCELERATION, REAL_SPEED, WIDEST = 0.5, 2.0, 4.0
TRADE_OFF_WORLD = EncounterSettings(
    declared_acceleration=WIDEST * REAL_ACCELERATION,
    declared_speed=WIDEST * REAL_SPEED,
    behaviour_scale=1.0 / WIDEST,
)
BELIEFS = (
    ("0.5 x ego, 2 m/s", 0.5, 2.0),
    ("0.5 x ego", 0.5, math.inf),
    ("1 x ego, 2 m/s", 1.0, 2.0),
    ("1 x ego (default)", 1.0, math.inf),
    ("2 x ego, 2 m/s", 2.0, 2.0),
    ("2 x ego", 2.0, math.inf),
    ("2 m/s alone", 1000.0, 2.0),
)
TRADE_OFF = tuple(
    Condition(name, partial(believing, acceleration=acceleration, speed=speed), TRADE_OFF_WORLD)
    for name, acceleration, speed in BELIEFS
)


@dataclass(frozen=True)
class Task:
    """A chunk of encounters under one condition."""

    condition: Condition
    first: int
    last: int


def run_task(task: Task) -> tuple[list[EncounterOutcome], float]:
    """Outcomes and processor seconds of one chunk."""
    started = time.process_time()
    outcomes = run_encounters(
        range(task.first, task.last),
        task.condition.make_controller,
        root_seed=ROOT_SEED,
        settings=task.condition.settings,
    )
    return outcomes, time.process_time() - started


def run_conditions(conditions: Sequence[Condition], n: int) -> list[tuple[list[EncounterOutcome], float]]:
    """All outcomes of every condition in order of the encounters, with the processor seconds they took."""
    tasks = [Task(condition, k, min(k + CHUNK, n)) for condition in conditions for k in range(0, n, CHUNK)]
    labels = [f"{task.condition.name}: {task.first}-{task.last}" for task in tasks]
    results: list[tuple[list[EncounterOutcome], float]] = [([], 0.0) for _ in conditions]
    for task, cell in zip(tasks, run_cells(run_task, tasks, executor="processes", labels=labels), strict=True):
        if cell.value is None:
            raise click.ClickException(f"{cell.label} failed: {cell.error}")
        position = conditions.index(task.condition)
        outcomes, seconds = cell.value
        results[position] = (results[position][0] + outcomes, results[position][1] + seconds)
    return results


def add_time_lost_in_common(results: dict[str, Any], runs: Sequence[Sequence[EncounterOutcome]]) -> None:
    """Compare the beliefs on the same encounters: those in which the ego arrived whatever the stack was told."""
    common = [row for row in zip(*runs, strict=True) if all(outcome.arrival_s is not None for outcome in row)]
    results["reached_under_every_belief"] = len(common)
    for position, figures in enumerate(results["trade_off"].values()):
        figures["time_lost_in_common_s"] = travel([outcomes[position] for outcomes in common])["time_lost_s"]


def quantiles(values: Iterable[float], levels: Sequence[float]) -> dict[str, float] | None:
    sample = np.array(list(values))
    if sample.size == 0:
        return None
    return {f"{100 * level:g}%": float(value) for level, value in zip(levels, np.quantile(sample, levels), strict=True)}


def contacts(partners: Sequence[PartnerOutcome]) -> dict[str, int]:
    counts = Counter(partner.verdict for partner in partners)
    return {verdict.value: counts[verdict] for verdict in Verdict}


def travel(outcomes: Sequence[EncounterOutcome]) -> dict[str, Any]:
    lost = [o.arrival_s - o.unobstructed_arrival_s for o in outcomes if o.arrival_s is not None]
    return {
        "encounters": len(outcomes),
        "reached_the_goal": len(lost),
        "time_lost_s": quantiles(lost, (0.5, 0.95)),
    }


def summarise(outcomes: Sequence[EncounterOutcome]) -> dict[str, Any]:
    partners = [partner for outcome in outcomes for partner in outcome.partners]
    guilty = sum(outcome.n_at_fault > 0 for outcome in outcomes)
    sources: Counter[str] = Counter()
    for outcome in outcomes:
        sources.update(outcome.sources)
    clear = [partner.clearance_m for partner in partners if partner.verdict is None]
    return {
        **travel(outcomes),
        "partners": len(partners),
        "control_periods": sum(outcome.n_periods for outcome in outcomes),
        "encounters_with_a_contact": sum(outcome.n_contacts > 0 for outcome in outcomes),
        "encounters_at_fault": guilty,
        # With none in n the exact (Clopper-Pearson) one-sided bound is 1 - 0.05^(1/n).
        "upper_95%_bound_of_the_share_at_fault": 1.0 - 0.05 ** (1.0 / len(outcomes)) if guilty == 0 else None,
        "contacts": contacts(partners),
        "contacts_after_a_broken_declaration": sum(partner.broke_its_word for partner in partners),
        "periods_that_gave_up_being_able_to_stop": sum(partner.lapses for partner in partners),
        "actions_out_of_bounds": sum(outcome.out_of_bounds for outcome in outcomes),
        "least_clearance_without_contact_m": min(clear, default=None),
        "clearance_without_contact_m": quantiles(clear, (0.01, 0.05, 0.25, 0.5, 0.75)),
        "actions_by_source": dict(sorted(sources.items())),
        "by_behaviour": {behaviour.value: by_behaviour(outcomes, behaviour) for behaviour in Behaviour},
        "by_number_of_partners": {str(n): by_number(outcomes, n) for n in range(1, 6)},
    }


def by_behaviour(outcomes: Sequence[EncounterOutcome], behaviour: Behaviour) -> dict[str, Any]:
    """Contacts of all partners that behave so; travel of the encounters in which such a partner was the only one."""
    partners = [p for outcome in outcomes for p in outcome.partners if p.behaviour is behaviour]
    alone = [o for o in outcomes if len(o.partners) == 1 and o.partners[0].behaviour is behaviour]
    clear = [p.clearance_m for p in partners if p.verdict is None]
    return {
        "partners": len(partners),
        "contacts": contacts(partners),
        "least_clearance_without_contact_m": min(clear, default=None),
        "alone": travel(alone),
    }


def by_number(outcomes: Sequence[EncounterOutcome], n: int) -> dict[str, Any]:
    chosen = [outcome for outcome in outcomes if len(outcome.partners) == n]
    return {
        **travel(chosen),
        "encounters_with_a_contact": sum(outcome.n_contacts > 0 for outcome in chosen),
        "encounters_at_fault": sum(outcome.n_at_fault > 0 for outcome in chosen),
        "contacts": contacts([partner for outcome in chosen for partner in outcome.partners]),
    }


# ------------------------------------------------------------------------------------------------ as text


def line(cells: Iterable[object]) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    return [line(headers), line(["---"] * len(headers)), *(line(cells) for cells in rows), ""]


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def seconds_lost(figures: dict[str, Any], which: str = "time_lost_s") -> tuple[str, str]:
    lost = figures[which]
    return ("-", "-") if lost is None else (f"{lost['50%']:.2f}", f"{lost['95%']:.2f}")


def metres(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"


VERDICT_HEADERS = ("at fault", "not: at rest", "not: braking")
VERDICT_ORDER = (Verdict.AT_FAULT, Verdict.NOT_AT_FAULT_AT_REST, Verdict.NOT_AT_FAULT_BRAKING)


def verdict_cells(figures: dict[str, Any]) -> list[int]:
    return [figures["contacts"][verdict.value] for verdict in VERDICT_ORDER]


def overview(tables: dict[str, dict[str, Any]]) -> list[str]:
    headers = (
        "controller",
        "encounters",
        "with a contact",
        *(f"contacts {header}" for header in VERDICT_HEADERS),
        "periods that gave up stopping",
        "actions out of bounds",
        "least clearance (m)",
        "reached the goal",
        "time lost, median (s)",
        "95 % (s)",
    )
    return table(
        headers,
        (
            (
                name,
                f["encounters"],
                share(f["encounters_with_a_contact"], f["encounters"]),
                *verdict_cells(f),
                f["periods_that_gave_up_being_able_to_stop"],
                f["actions_out_of_bounds"],
                metres(f["least_clearance_without_contact_m"]),
                share(f["reached_the_goal"], f["encounters"]),
                *seconds_lost(f),
            )
            for name, f in tables.items()
        ),
    )


def details(name: str, figures: dict[str, Any]) -> list[str]:
    clearance = figures["clearance_without_contact_m"]
    periods = figures["control_periods"]
    lines = [f"## {name[0].upper()}{name[1:]}", ""]
    sources = ", ".join(f"{k} {share(v, periods)}" for k, v in figures["actions_by_source"].items())
    lines += [f"Actions by source: {sources} of {periods} control periods.", ""]
    if clearance is not None:
        spread = ", ".join(f"{level}: {metres(value)}" for level, value in clearance.items())
        lines += [f"Least clearance of partners never touched, quantiles (m): {spread}.", ""]
    bound = figures["upper_95%_bound_of_the_share_at_fault"]
    if bound is not None:
        lines += [f"No encounter at fault: with 95 % confidence the share is below {bound:.1e}.", ""]
    lines += table(
        (
            "partner",
            "number",
            *VERDICT_HEADERS,
            "least clearance (m)",
            "reached when alone",
            "time lost, median (s)",
            "95 % (s)",
        ),
        (
            (
                behaviour.replace("_", " "),
                f["partners"],
                *verdict_cells(f),
                metres(f["least_clearance_without_contact_m"]),
                share(f["alone"]["reached_the_goal"], f["alone"]["encounters"]),
                *seconds_lost(f["alone"]),
            )
            for behaviour, f in figures["by_behaviour"].items()
        ),
    )
    return lines + table(
        (
            "partners",
            "encounters",
            "with a contact",
            *VERDICT_HEADERS,
            "reached the goal",
            "time lost, median (s)",
            "95 % (s)",
        ),
        (
            (
                n,
                f["encounters"],
                share(f["encounters_with_a_contact"], f["encounters"]),
                *verdict_cells(f),
                share(f["reached_the_goal"], f["encounters"]),
                *seconds_lost(f),
            )
            for n, f in figures["by_number_of_partners"].items()
        ),
    )


def trade_off_table(tables: dict[str, dict[str, Any]]) -> list[str]:
    return table(
        (
            "the stack believes",
            "contacts at fault",
            "not: at rest",
            "braking share",
            "reached the goal",
            "time lost, median (s)",
            "95 % (s)",
        ),
        (
            (
                name,
                f["contacts"][Verdict.AT_FAULT.value],
                f["contacts"][Verdict.NOT_AT_FAULT_AT_REST.value],
                share(f["actions_by_source"].get("braking", 0), f["control_periods"]),
                share(f["reached_the_goal"], f["encounters"]),
                *seconds_lost(f, "time_lost_in_common_s"),
            )
            for name, f in tables.items()
        ),
    )


ABOUT = """\
Every partner is placed so that it meets the ego on its way, whether it means to or not; one in six drives at the ego
with all it has declared. Nobody avoids the ego. A contact is the ego's fault unless it was at rest, or had been braking
at its limit since the last moment at which it could still stop before the worst declared motion of the partner.
"Periods that gave up stopping" counts control periods at whose start the ego could still stop and whose action gave
that up, contact or not. Actions out of bounds were cut to the bounds before they were applied. Time lost is against the
same ego with nothing in its way, over the encounters in which it reached the goal without any contact.
"""


def markdown(results: dict[str, Any]) -> str:
    where = results["machine"]
    setting = (
        f"Machine: {where['cpu_model']}, {where['cpu_count']} cores, Python {where['python']}, NumPy {where['numpy']}. "
        f"Root seed {results['root_seed']}. Command: `python benchmarks/safety_evidence.py`."
    )
    world = (
        f"Here the partners really use up to {REAL_ACCELERATION} of the ego's acceleration limit and {REAL_SPEED} m/s; "
        "only what the stack is told differs. Time lost is over the encounters in which the ego reached the goal "
        f"whatever the stack was told ({results['reached_under_every_belief']}). The default is the ego's own limit "
        "and no speed: a partner of the ego's own kind can do that much, and a declared speed saves little time beside "
        "it. Whoever knows more about the partners should declare it; whoever must expect faster ones, too."
    )
    lines = [
        "# Safety evidence",
        "",
        setting,
        "",
        ABOUT,
        *overview(results["tables"]),
        "## What the declared bound costs",
        "",
        world,
        "",
        *trade_off_table(results["trade_off"]),
    ]
    for name, figures in results["tables"].items():
        lines += details(name, figures)
    return "\n".join(lines)


@click.command()
@click.option("--encounters", default=10_000, show_default=True, help="Encounters per table.")
@click.option(
    "--trade-off", "n_trade_off", default=2_000, show_default=True, help="Encounters per row of the trade-off."
)
@click.option("--out", default=RESULTS, type=click.Path(file_okay=False, path_type=Path), show_default=False)
def main(encounters: int, n_trade_off: int, out: Path) -> None:
    """Run the encounters under every condition and write the tables."""
    results: dict[str, Any] = {
        "benchmark": "safety_evidence",
        "machine": host(),
        "root_seed": ROOT_SEED,
        "processor_seconds": {},
    }
    for key, conditions, n in (("tables", CONDITIONS, encounters), ("trade_off", TRADE_OFF, n_trade_off)):
        runs = run_conditions(conditions, n)
        results[key] = {c.name: summarise(outcomes) for c, (outcomes, _) in zip(conditions, runs, strict=True)}
        for condition, (_, seconds) in zip(conditions, runs, strict=True):
            results["processor_seconds"][condition.name] = round(seconds, 1)
    add_time_lost_in_common(results, [outcomes for outcomes, _ in runs])
    out.mkdir(parents=True, exist_ok=True)
    write_atomic(out / "safety_evidence.json", INDENTED_LINE.dumps(results))
    write_atomic(out / "safety_evidence.md", markdown(results).encode())
    click.echo(f"wrote {out / 'safety_evidence.json'} and {out / 'safety_evidence.md'}")


if __name__ == "__main__":
    main()
