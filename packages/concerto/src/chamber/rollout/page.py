"""The page of a session: what came out, who played, what it looked like, and how to check it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chamber import tasks
from chamber.rollout._watcher import Snapshot
from chamber.rollout.pictures import png_bytes
from chamber.rollout.session import RoundRecord, SessionRecord
from ripieno.report import Figure, Section, Table, Verdict, png_to_svg, render_page
from ripieno.statistics import wilson_interval

__all__ = ["headline", "render_session_page", "round_headline"]

_MOST_METRICS = 6
"""Columns of the episode table that belong to the task."""
_SHOWN_FIRST = ("smallest_gap_m", "interventions")
_SUCCESS = {True: "yes", False: "no", None: "-"}


def headline(record: SessionRecord) -> str:
    """Say what came out, a sentence per round."""
    return " ".join(round_headline(played, named=len(record.rounds) > 1) for played in record.rounds)


def round_headline(played: RoundRecord, *, named: bool = False) -> str:
    """Say what came out of a round, in one sentence."""
    n = len(played.episodes)
    name = f"{played.name}: " if named else ""
    if n == 0:
        return f"{name}no episode was played to its end."
    if all(episode["success"] is None for episode in played.episodes):
        mean = sum(float(episode["total_reward"]) for episode in played.episodes) / n
        return f"{name}{n} episodes of {played.config.slug}; it has no success, the mean reward is {mean:.3f}."
    low, high = wilson_interval(played.n_successes, n)
    return (
        f"{name}{played.n_successes} of {n} episodes of {played.config.slug} end in success "
        f"(95 % interval of the rate: {low:.2f} to {high:.2f})."
    )


def render_session_page(
    record: SessionRecord,
    snapshots: Sequence[Snapshot] = (),
    *,
    title: str | None = None,
    text: Mapping[str, str] | None = None,
    verdict: Verdict | None = None,
) -> str:
    """Make the HTML page of a session; equal records and pictures give equal bytes.

    Args:
        record: what was recorded.
        snapshots: pictures, see `chamber.rollout.session.run_session`.
        title: of the page; the task's own by default.
        text: what to say about a round, by its name.
        verdict: what the page says before anything else; by default, of a single round, how many episodes succeed.
    """
    first = record.rounds[0]
    words = text or {}
    sections = [_round(played, snapshots, words.get(played.name, "")) for played in record.rounds]
    return render_page(
        title=title or tasks.get(first.config.task_id, first.config.version).title,
        lead=headline(record),
        verdict=verdict or (_verdict(first) if len(record.rounds) == 1 else None),
        sections=[*sections, _how_to_check(record)],
        footer=f"Configuration {record.config_sha256}.",
    )


def _verdict(played: RoundRecord) -> Verdict | None:
    n = len(played.episodes)
    if n == 0 or any(episode["success"] is None for episode in played.episodes):
        return None
    if played.n_successes == n:
        return Verdict("good", "All succeed", f"Every one of the {n} episodes ends in success.")
    if played.n_successes == 0:
        return Verdict("bad", "None succeeds", f"Not one of the {n} episodes ends in success.")
    return Verdict("warning", "Some succeed", f"{played.n_successes} of {n} episodes end in success.")


def _round(played: RoundRecord, snapshots: Sequence[Snapshot], text: str) -> Section:
    config = played.config
    spec = tasks.get(config.task_id, config.version)
    condition = f" Condition: {config.condition}." if config.condition else ""
    first, last = config.initial_state_seed(0), config.initial_state_seed(config.episodes - 1)
    seeds = f"with seed {first}" if first == last else f"with the seeds {first} to {last}"
    return Section(
        heading=f"{played.name}: {spec.title}",
        text=f"{text}\n\n{round_headline(played)}{condition} {spec.notes} Episodes begin {seeds}.",
        figures=[
            Figure(
                svg=png_to_svg(png_bytes(shot.frame)),
                caption=f"{played.name}, first episode. {shot.caption}",
                alt=f"The robots of {config.slug}. {shot.caption}",
            )
            for shot in snapshots
            if shot.round_name == played.name
        ],
        tables=[_controllers(played), _episodes(played)],
    )


def _controllers(played: RoundRecord) -> Table:
    rows = [
        [uid, seat["name"], ", ".join(f"{key} {value}" for key, value in seat["parameters"].items())]
        for uid, seat in played.team.items()
    ]
    return Table(["Robot", "Controller", "Parameters"], rows, caption=f"Who acts for whom in {played.name}.")


def _episodes(played: RoundRecord) -> Table:
    metrics = _metrics(played.episodes[0]["metrics"]) if played.episodes else []
    rows: list[list[object]] = [
        [
            episode["episode_idx"] + 1,
            episode["initial_state_seed"],
            _SUCCESS[episode["success"]],
            episode["n_steps"],
            f"{float(episode['total_reward']):.3f}",
            *(f"{float(episode['metrics'][name]):.4g}" for name in metrics),
        ]
        for episode in played.episodes
    ]
    return Table(
        ["Episode", "Seed", "Success", "Steps", "Reward", *(name.replace("_", " ") for name in metrics)],
        rows,
        caption=f"The episodes of {played.name}; numbers of the task are those of the last control step.",
    )


def _metrics(values: Mapping[str, Any]) -> list[str]:
    """Names of the numbers worth a column: those of the guard, then the task's own."""
    numbers = [name for name, value in values.items() if isinstance(value, float) and name not in _SHOWN_FIRST]
    return [*(name for name in _SHOWN_FIRST if name in values), *numbers][:_MOST_METRICS]


def _how_to_check(record: SessionRecord) -> Section:
    return Section(
        heading="How to check this page",
        text=f"""
'ripieno verify FOLDER' checks every byte of the folder that holds this page against run.json and the hash chain in
events.jsonl. 'chamber replay FOLDER' also plays all {record.n_episodes} episodes again and compares every action, every
observation and every reward: bit for bit on the kind of machine that recorded them, within a tolerance elsewhere.
""",
    )
