"""Age of Information: how old the newest thing is that was heard of each robot."""

from __future__ import annotations

import math
from collections.abc import Mapping

from chamber.comm.api import CommPacket

__all__ = ["AoIClock", "aoi_ms"]


class AoIClock:
    """One age counter per uid (Ballotta & Talak 2024). The caller says when and by how much time passes.

    Ages are in the unit of ``dt``. A channel ticks by 1.0 per ``encode``, so ages inside packets count ticks.
    """

    def __init__(self) -> None:
        self._ages: dict[str, float] = {}

    def mark_fresh(self, uid: str) -> None:
        """Set the age of ``uid`` to zero; an unknown uid is counted from now on."""
        self._ages[uid] = 0.0

    def tick(self, dt: float) -> None:
        """Let ``dt`` pass for every known uid.

        Raises:
            ValueError: ``dt`` is negative or not finite; nothing has aged then.
        """
        if not (math.isfinite(dt) and dt >= 0.0):
            raise ValueError(f"tick dt must be non-negative; got {dt!r}, and it must be finite")
        for uid in self._ages:
            self._ages[uid] += dt

    def aoi(self, uid: str) -> float:
        """Give the age of ``uid``.

        Raises:
            KeyError: it was never heard of.
        """
        return self._ages[uid]

    def snapshot(self) -> dict[str, float]:
        """Give all ages as a dictionary of its own, in the order in which the uids were first heard of."""
        return dict(self._ages)

    def reset(self) -> None:
        """Forget every uid."""
        self._ages.clear()


def aoi_ms(packet: CommPacket | Mapping[str, Mapping[str, float]], *, tick_period_ms: float) -> dict[str, float]:
    """Give the ages of a packet in milliseconds instead of ticks.

    Args:
        packet: anything with an ``aoi`` entry.
        tick_period_ms: time between two packets, that is the control step of the environment.

    Raises:
        ValueError: ``tick_period_ms`` is not finite and positive.
    """
    require_tick_period(tick_period_ms)
    return {uid: age * tick_period_ms for uid, age in packet["aoi"].items()}


def require_tick_period(tick_period_ms: float) -> None:
    """Refuse a time between packets that is not finite and positive.

    Raises:
        ValueError: it is not.
    """
    if not (math.isfinite(tick_period_ms) and tick_period_ms > 0.0):
        raise ValueError(f"tick_period_ms must be finite and > 0, got {tick_period_ms!r}")
