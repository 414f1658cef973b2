"""The page of a session: what came out, who played, what it looked like, and how to check it."""

from __future__ import annotations

from collections.abc import Sequence

from chamber import tasks
from chamber.rollout.pictures import png_bytes
from chamber.rollout.session import SessionRecord, Snapshot
from ripieno.report import Figure, Section, Table, Verdict, png_to_svg, render_page
from ripieno.statistics import wilson_interval

__all__ = ["headline", "render_session_page"]

_MOST_METRICS = 5
"""Columns of the episode table that belong to the task."""


def headline(record: SessionRecord) -> str:
    """Say what came out, in one sentence."""
    n = len(record.episodes)
    if all(episode["success"] is None for episode in record.episodes):
        mean = sum(float(episode["total_reward"]) for episode in record.episodes) / n
        return f"{n} episodes of {record.config.slug}; this task has no success, the mean reward is {mean:.3f}."
    low, high = wilson_interval(record.n_successes, n)
    return (
        f"{record.n_successes} of {n} episodes of {record.config.slug} end in success "
        f"(95 % interval of the rate: {low:.2f} to {high:.2f})."
    )


def render_session_page(record: SessionRecord, snapshots: Sequence[Snapshot] = ()) -> str:
    """Make the HTML page of a session; equal records and pictures give equal bytes."""
    spec = tasks.get(record.config.task_id, record.config.version)
    sections = [_what_was_played(record), _pictures(snapshots), _episodes(record), _how_to_check(record)]
    return render_page(
        title=spec.title,
        lead=headline(record),
        verdict=_verdict(record),
        sections=[section for section in sections if section is not None],
        footer=f"{record.config.slug}, seed {record.config.seed}, configuration {record.config_sha256}.",
    )


def _verdict(record: SessionRecord) -> Verdict | None:
    n = len(record.episodes)
    if any(episode["success"] is None for episode in record.episodes):
        return None
    if record.n_successes == n:
        return Verdict("good", "All succeed", f"Every one of the {n} episodes ends in success.")
    if record.n_successes == 0:
        return Verdict("bad", "None succeeds", f"Not one of the {n} episodes ends in success.")
    return Verdict("warning", "Some succeed", f"{record.n_successes} of {n} episodes end in success.")


def _what_was_played(record: SessionRecord) -> Section:
    config = record.config
    spec = tasks.get(config.task_id, config.version)
    condition = f" Condition: {config.condition}." if config.condition else ""
    first, last = config.initial_state_seed(0), config.initial_state_seed(config.episodes - 1)
    return Section(
        heading="What was played",
        text=f"{spec.title}.{condition} {spec.notes}\n\nEpisodes begin with the seeds {first} to {last}.",
        tables=[
            Table(
                ["Robot", "Controller", "Parameters"],
                [
                    [uid, seat["name"], ", ".join(f"{key} {value}" for key, value in seat["parameters"].items())]
                    for uid, seat in record.team.items()
                ],
                caption="Who acts for whom.",
            )
        ],
    )


def _pictures(snapshots: Sequence[Snapshot]) -> Section | None:
    if not snapshots:
        return None
    return Section(
        heading="The first episode",
        figures=[
            Figure(svg=png_to_svg(png_bytes(snapshot.frame)), caption=snapshot.caption, alt=snapshot.caption)
            for snapshot in snapshots
        ],
    )


def _episodes(record: SessionRecord) -> Section:
    metrics = [
        name
        for name, value in (record.episodes[0]["metrics"] if record.episodes else {}).items()
        if isinstance(value, float)
    ][:_MOST_METRICS]
    words = {True: "yes", False: "no", None: "-"}
    rows: list[list[object]] = [
        [
            episode["episode_idx"] + 1,
            episode["initial_state_seed"],
            words[episode["success"]],
            episode["n_steps"],
            f"{float(episode['total_reward']):.3f}",
            *(f"{float(episode['metrics'][name]):.4g}" for name in metrics),
        ]
        for episode in record.episodes
    ]
    return Section(
        heading="Episode by episode",
        text="Numbers of the task are those of the last control step of an episode.",
        tables=[
            Table(
                ["Episode", "Seed", "Success", "Steps", "Reward", *(name.replace("_", " ") for name in metrics)],
                rows,
                caption="One row per episode, in the order in which they were played.",
            )
        ],
    )


def _how_to_check(record: SessionRecord) -> Section:
    return Section(
        heading="How to check this page",
        text=f"""
'ripieno verify FOLDER' checks every byte of the folder that holds this page against run.json and the hash chain in
events.jsonl. 'chamber replay FOLDER' also plays all {len(record.episodes)} episodes again and compares every action,
every observation and every reward: bit for bit on the kind of machine that recorded them, within a stated tolerance
elsewhere.
""",
    )
