"""The page of a session: what came out, who played, what it looked like, and how to check it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chamber import tasks
from chamber.rollout.guard import Guard
from chamber.rollout.pictures import png_bytes
from chamber.rollout.references import reference
from chamber.rollout.session import RoundRecord, SessionRecord
from chamber.rollout.snapshots import Snapshot
from ripieno.report import Figure, Section, Table, Verdict, png_to_svg, render_page
from ripieno.statistics import wilson_interval

__all__ = ["RoundWords", "headline", "render_session_page", "round_headline"]

_MOST_METRICS = 6
"""Columns of the episode table that belong to the task."""
_CONTACTS = (
    "A contact begins when the discs of the two robots overlap; the smallest gap is the distance between them at their "
    "nearest, below 0 where they do. It is the ego's fault unless the ego is at rest in the step in which it begins. "
    "Nothing happens to the robots in a contact: the task knows no collision."
)
_SHOWN_FIRST = ("smallest_gap_m", "contacts", "contacts_at_fault", "interventions")
_UNITS = {"deg": "degrees", "m": "m", "n": "N", "s": "s"}
"""Last word of a metric's name -> unit."""
_UNITS_OF = {"centroid_to_goal": "m", "max_stress_proxy": "N"}
"""Units of metrics whose documented names do not say it."""
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
        what = "1 episode" if n == 1 else f"{n} episodes"
        reward = f"{name}{what} of {played.config.slug}; it has no success, the mean reward is {mean:.3f}."
        return f"{reward}{_contacts(played)}"
    low, high = wilson_interval(played.n_successes, n)
    return (
        f"{name}{played.n_successes} of {n} episodes of {played.config.slug} end in success "
        f"(95 % interval of the rate: {low:.2f} to {high:.2f})."
    )


def _contacts(played: RoundRecord) -> str:
    """How often the robots touched, of a round in which somebody watched."""
    metrics = [episode["metrics"] for episode in played.episodes]
    if not all("contacts_at_fault" in values for values in metrics):
        return ""
    n = sum(int(values["contacts"]) for values in metrics)
    at_fault = sum(int(values["contacts_at_fault"]) for values in metrics)
    stack = "With" if played.config.guard is Guard.ON else "Without"
    return f" {stack} the safety stack: {n} {'contact' if n == 1 else 'contacts'}, {at_fault} at the ego's fault."


def _what_counts(played: RoundRecord) -> str:
    """What the columns of contacts mean, where there are some."""
    return f"\n\n{_CONTACTS}" if _contacts(played) else ""


@dataclass(frozen=True, slots=True)
class RoundWords:
    """What a page says about a round.

    Attributes:
        heading: of its section.
        text: its first paragraph.
    """

    heading: str
    text: str


def render_session_page(
    record: SessionRecord,
    snapshots: Sequence[Snapshot] = (),
    *,
    title: str | None = None,
    lead: str | None = None,
    words: Mapping[str, RoundWords] | None = None,
    verdict: Verdict | None = None,
) -> str:
    """Make the HTML page of a session; equal records and pictures give equal bytes.

    Args:
        record: what was recorded.
        snapshots: pictures, see `chamber.rollout.session.run_session`.
        title: of the page; the task's own by default.
        lead: under the title; what came out of every round by default.
        words: what to say about a round, by its name.
        verdict: what the page says before anything else; by default, of a single round, how many episodes succeed.
    """
    first = record.rounds[0]
    sections = [_round(played, snapshots, (words or {}).get(played.name)) for played in record.rounds]
    return render_page(
        title=title or tasks.get(first.config.task_id, first.config.version).title,
        lead=headline(record) if lead is None else lead,
        verdict=verdict or (_verdict(first) if len(record.rounds) == 1 else None),
        sections=[*sections, _how_to_check()],
        footer=f"Configuration {record.config_sha256}.",
    )


def _verdict(played: RoundRecord) -> Verdict | None:
    n = len(played.episodes)
    if n == 0 or any(episode["success"] is None for episode in played.episodes):
        return None
    if played.n_successes == n:
        said = "The episode ends in success." if n == 1 else f"Every one of the {n} episodes ends in success."
        return Verdict("good", "All succeed", said)
    if played.n_successes == 0:
        said = "The episode ends without success." if n == 1 else f"Not one of the {n} episodes ends in success."
        return Verdict("bad", "None succeeds", said)
    return Verdict("warning", "Some succeed", f"{played.n_successes} of {n} episodes end in success.")


def _round(played: RoundRecord, snapshots: Sequence[Snapshot], words: RoundWords | None) -> Section:
    config = played.config
    spec = tasks.get(config.task_id, config.version)
    known = reference(config.task_id)
    if words is None:
        success = f"\n\nSuccess: {known.success}" if known.success else ""
        words = RoundWords(f"{played.name}: {spec.title}", spec.notes.replace("`", "") + success)
    about = known.conditions.get(config.condition or "", "")
    condition = f"Condition {config.condition}: {about}. " if about else ""
    first, last = config.initial_state_seed(0), config.initial_state_seed(config.episodes - 1)
    seeds = f"with seed {first}" if first == last else f"with the seeds {first} to {last}"
    shots = [shot for shot in snapshots if shot.round_name == played.name]
    return Section(
        heading=words.heading,
        text=f"{words.text}\n\n{round_headline(played)} {condition}Episodes begin {seeds}.{_what_counts(played)}",
        figures=[_strip(shots, of=f"the first episode of {played.name}")] if shots else [],
        tables=[_controllers(played), _episodes(played)],
    )


def _strip(shots: Sequence[Snapshot], *, of: str) -> Figure:
    """Pictures side by side, from left to right in time."""
    strip = np.concatenate([shot.frame for shot in shots], axis=1)
    words = " ".join(shot.caption for shot in shots)
    return Figure(
        svg=png_to_svg(png_bytes(strip)),
        caption=f"From left to right, {of}. {words}",
        alt=f"{len(shots)} pictures of {of}: {words}",
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
        ["Episode", "Seed", "Success", "Steps", "Reward", *map(_column, metrics)],
        rows,
        caption=f"The episodes of {played.name}; numbers of the task are those of the last control step.",
    )


def _column(metric: str) -> str:
    """Give the heading of a metric's column, as in ``smallest gap (m)``."""
    words, _, last = metric.rpartition("_")
    unit = _UNITS_OF.get(metric) or (_UNITS.get(last) if words else None)
    name = metric if unit is None or metric in _UNITS_OF else words
    return name.replace("_", " ") + (f" ({unit})" if unit else "")


def _metrics(values: Mapping[str, Any]) -> list[str]:
    """Names of the numbers worth a column: those of the guard, then the task's own."""
    numbers = [name for name, value in values.items() if isinstance(value, float) and name not in _SHOWN_FIRST]
    return [*(name for name in _SHOWN_FIRST if name in values), *numbers][:_MOST_METRICS]


def _how_to_check() -> Section:
    return Section(
        heading="How to check this page",
        text="""
'ripieno verify FOLDER' checks every byte of the folder that holds this page against run.json and the hash chain in
events.jsonl. 'chamber replay FOLDER' also plays every episode again and compares every action, observation and
reward: bit for bit on the kind of machine that recorded them, within a tolerance elsewhere. Then it makes this page
again, with its pictures, and compares.
""",
    )
