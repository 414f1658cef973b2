"""``ripieno demo cocarry``: two arms carry a bar, one arm cannot, and a partner that misbehaves is kept away."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chamber.rollout.arm_rounds import (
    GUARDED,
    MATCHED,
    UNGUARDED,
    demo_page,
    demo_rounds,
    smallest_gap_m,
    verdict_text,
)

if TYPE_CHECKING:
    from chamber.rollout.config import SessionConfig
    from chamber.rollout.snapshots import SessionPictures

__all__ = ["run_demo"]


@click.command("cocarry")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Run folder to make; it must not exist. Default: runs/cocarry-<UTC timestamp>.",
)
@click.option("--episodes", type=click.IntRange(1, 100), default=3, show_default=True, help="Episodes per round.")
@click.option("--no-pictures", is_flag=True, help="Leave the pictures out of the page; nothing is rendered.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
def run_demo(out: Path | None, episodes: int, no_pictures: bool, as_json: bool) -> None:
    """Let two arms carry a bar, with one arm missing, and beside a partner that misbehaves.

    Four rounds from the same starts, each episode recorded step by step. It verifies its own output and says where to
    look.

    Example: ripieno demo cocarry --out runs/arms
    """
    from chamber._progress import progress_bar
    from chamber.rollout._demo_ending import say_ending
    from chamber.rollout.page import headline
    from chamber.rollout.session import run_session

    rounds = demo_rounds(episodes)
    folder = out if out is not None else Path("runs") / f"cocarry-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    pictures = None if no_pictures else _pictures(rounds[MATCHED])
    with progress_bar(episodes * len(rounds)) as progress:
        result = run_session(rounds, folder, page=demo_page, pictures=pictures, progress=progress)
    record = result.record
    say_ending(
        folder,
        result.digest,
        as_json=as_json,
        headlines=[verdict_text(record)],
        summary={
            "headline": headline(record),
            "smallest_gap_m": {name: smallest_gap_m(record, name) for name in (MATCHED, UNGUARDED, GUARDED)},
        },
        next_step=f"play it again with: chamber replay {folder}",
    )


def _pictures(config: SessionConfig) -> SessionPictures | None:
    from chamber.rollout.config import why_no_pictures
    from chamber.rollout.snapshots import SessionPictures

    problem = why_no_pictures(config)
    if problem is not None:
        click.echo(f"no pictures on the page: {problem}", err=True)
        return None
    return SessionPictures(take=lambda env: env.unwrapped.picture())
