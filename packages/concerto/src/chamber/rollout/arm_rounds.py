"""The four rounds of ``ripieno demo cocarry``: what is played, and what the page says about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chamber.rollout.config import SessionConfig
    from chamber.rollout.session import SessionRecord
    from chamber.rollout.snapshots import Snapshot

__all__ = [
    "EPISODE_LENGTH",
    "GUARDED",
    "MATCHED",
    "ONE_ARM",
    "UNGUARDED",
    "demo_page",
    "demo_rounds",
    "smallest_gap_m",
    "verdict_text",
]

MATCHED, ONE_ARM, UNGUARDED, GUARDED = "matched", "one-arm", "misbehaving", "misbehaving-guarded"
EPISODE_LENGTH = 120
"""Control steps (6 s) in which a round must succeed or has failed; the reference needs 15."""

_WORDS = {
    MATCHED: (
        "Two arms carry the bar",
        (
            "Two arms hold the ends of a bar in ball joints and carry it level to the goal, the green ball. "
            "Both run the same controller, and neither knows of the other: what they share is the bar."
        ),
    ),
    ONE_ARM: (
        "One arm cannot",
        "The same task with one arm. The free end of the bar drops: the task needs a partner.",
    ),
    UNGUARDED: (
        "A partner that misbehaves",
        (
            "The partner carries as before, but every so often it swings its elbow at our arm, the ego. Nothing "
            "stands in between, and the links of the two arms run into each other: in this task they pass "
            "through, so that a collision shows as a negative distance of the spheres that cover them, the "
            "smallest gap."
        ),
    ),
    GUARDED: (
        "The same partner, with the safety filter",
        (
            "The same partner and the same starts. The ego's actions now pass through arm safety: the wanted "
            "action when it is safe, else the nearest safe one, else holding still. The filter is told how fast "
            "the partner's links may get, and nothing else about it. It keeps the arms apart; it cannot make "
            "the partner carry well."
        ),
    ),
}


def smallest_gap_m(record: SessionRecord, round_name: str) -> float:
    """Give the smallest distance of the watched links in all episodes of a round, m; negative is an overlap."""
    (played,) = (played for played in record.rounds if played.name == round_name)
    return min(float(episode["metrics"]["smallest_gap_m"]) for episode in played.episodes)


def verdict_text(record: SessionRecord) -> str:
    """Say what the four rounds show."""
    by_name = {played.name: played for played in record.rounds}
    n = len(by_name[MATCHED].episodes)
    without, with_guard = (_distance(smallest_gap_m(record, name)) for name in (UNGUARDED, GUARDED))
    return (
        f"Two arms carry the bar to the goal in {by_name[MATCHED].n_successes} of {n} episodes, one arm in "
        f"{by_name[ONE_ARM].n_successes} of {n}. Beside a partner that swings its elbow at ours, the arms {without} "
        f"without the safety filter, and {with_guard} with it."
    )


def _distance(gap_m: float) -> str:
    return f"overlap by {-1e3 * gap_m:.0f} mm" if gap_m < 0.0 else f"stay {1e3 * gap_m:.0f} mm apart"


def demo_rounds(episodes: int) -> dict[str, SessionConfig]:
    """Give what the demo plays, by the name of the round."""
    from chamber.rollout.config import SessionConfig
    from chamber.rollout.guard import Guard

    def config(
        condition: str = "cocarry_matched_panda_pair", *, partner: str | None = None, guard: Guard
    ) -> SessionConfig:
        return SessionConfig.of(
            "cocarry",
            condition=condition,
            episodes=episodes,
            partner=partner,
            guard=guard,
            episode_length=EPISODE_LENGTH,
        )

    return {
        MATCHED: config(guard=Guard.WATCH),
        ONE_ARM: config("cocarry_single_arm_positive_control", guard=Guard.OFF),
        UNGUARDED: config(partner="cocarry_erratic", guard=Guard.WATCH),
        GUARDED: config(partner="cocarry_erratic", guard=Guard.ON),
    }


def demo_page(record: SessionRecord, snapshots: Sequence[Snapshot] = ()) -> str:
    """Make the page of the demo from the record of its four rounds."""
    from chamber.rollout.page import RoundWords, render_session_page
    from ripieno.report import Verdict

    holds = smallest_gap_m(record, GUARDED) > 0.0
    return render_session_page(
        record,
        snapshots,
        title="Two arms carry a bar",
        lead="Four rounds of one task from the same starts, each with another team.",
        words={name: RoundWords(*words) for name, words in _WORDS.items()},
        verdict=Verdict("good" if holds else "bad", "Kept apart" if holds else "Not kept apart", verdict_text(record)),
    )
