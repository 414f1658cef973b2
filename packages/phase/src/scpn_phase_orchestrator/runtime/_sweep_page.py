"""The page of a sweep: the answer, the picture, the means, what ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ripieno.report import Figure, Section, Table, render_page

if TYPE_CHECKING:
    from scpn_phase_orchestrator.binding.types import BindingSpec

__all__ = ["MAX_COMBINATIONS", "render_sweep_page"]

MAX_COMBINATIONS = 500
"""Most combinations that the page lists; it says how many it leaves out."""


def render_sweep_page(
    spec: BindingSpec, config: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], picture: str
) -> str:
    """Give the page of a finished sweep.

    Args:
        spec: what was varied.
        config: what the run folder records: ``variations``, ``seeds``, ``steps``, ``policy_enabled``, ``method``.
        rows: one per cell, at least one.
        picture: the figure, one ``<svg>`` element.
    """
    settings = list(config["variations"])
    means = _means(settings, rows)
    shown = means[:MAX_COMBINATIONS]
    left_out = len(means) - len(shown)
    more = f" The first {len(shown)}; {left_out:,} more are in results.csv." if left_out else ""
    section = Section(
        "What came out",
        _measures_text(spec),
        figures=[Figure(picture, _caption(settings), f"Results of {len(rows)} runs over {_listed(settings)}.")],
        tables=[
            Table(
                (*settings, "R of good", "lock of bad", "score", "achieved"),
                [
                    (*values, r_good, lock_bad, score, f"{achieved} of {count}")
                    for values, r_good, lock_bad, score, achieved, count in shown
                ],
                f"Means over the seeds, a row a combination; each run is a row of results.csv.{more}",
            )
        ],
    )
    return render_page(
        title=f"{spec.name}: a sweep over {_listed(settings)}",
        lead=_answer(settings, means),
        sections=[section, Section("What ran", tables=[_facts(spec, config, rows)])],
    )


_Mean = tuple[tuple[float, ...], float, float | None, float, int, int]
"""Values of the settings, R of good, lock of bad and score as means, seeds that achieved, seeds."""


def _means(settings: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[_Mean]:
    groups: dict[tuple[float, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[path] for path in settings), []).append(row)
    means: list[_Mean] = []
    for values, members in groups.items():
        r_good, score = (sum(row[name] for row in members) / len(members) for name in ("r_good", "score"))
        locks = [row["lock_bad"] for row in members if row["lock_bad"] is not None]
        achieved = sum(row["outcome"] == "achieved" for row in members)
        means.append((values, r_good, sum(locks) / len(locks) if locks else None, score, achieved, len(members)))
    return means


def _answer(settings: Sequence[str], means: Sequence[_Mean]) -> str:
    always = sum(achieved == count for *_, achieved, count in means)
    values, _, _, score, achieved, count = max(means, key=lambda mean: mean[3])
    where = ", ".join(f"{path} = {value:g}" for path, value in zip(settings, values, strict=True))
    return (
        f"The objective was achieved on every seed by {always} of {len(means)} combinations. The best mean score, "
        f"{score:.3f}, is that of {where}, which achieved it on {achieved} of {count} seeds."
    )


def _measures_text(spec: BindingSpec) -> str:
    return (
        "R, 1 when all phases agree, is that of all good layers together; lock is the coherence of a bad layer beyond "
        "what unrelated phases show by chance, 0 when free and 1 when locked, here the highest of the bad layers. The "
        "score is the weighted mean of the good layers' R and of one minus the bad layers' lock; 1 is best. A run has "
        f"achieved its objective when every good layer has a mean R of at least {spec.supervisor.good_target:g} and "
        f"every bad one a lock of at most {spec.supervisor.bad_ceiling:g}, at its end."
    )


def _caption(settings: Sequence[str]) -> str:
    if len(settings) == 1:
        return (
            f"Against {settings[0]}: the mean over the seeds as a line, from the lowest to the highest seed as a band."
        )
    others = " Other settings are averaged." if len(settings) > 2 else ""
    return f"Mean score over {settings[0]} and {settings[1]}; bright is good.{others}"


def _facts(spec: BindingSpec, config: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Table:
    seeds = config["seeds"]
    facts = [
        ("spec", spec.name),
        ("runs", len(rows)),
        ("steps of a run", f"{config['steps']} of {spec.sample_period_s:g} s"),
        ("supervised", bool(config["policy_enabled"])),
        ("integration", config["method"] or spec.integration.method),
        ("seeds", f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0])),
        *(
            (path, f"{len(values)} from {min(values):g} to {max(values):g}")
            for path, values in config["variations"].items()
        ),
    ]
    return Table(("what", "value"), facts, "The sweep at a glance.")


def _listed(names: Sequence[str]) -> str:
    return " and ".join(names) if len(names) < 3 else f"{', '.join(names[:-1])} and {names[-1]}"
