"""What happened in a run: events and the bus that hands them on.

Every event carries the simulation step at which it happened, whoever posted it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["EVENT_KINDS", "EventBus", "RegimeEvent"]

EVENT_KINDS = frozenset({"boundary_breach", "r_threshold", "regime_transition", "manual", "petri_transition"})


@dataclass(frozen=True)
class RegimeEvent:
    """One thing that happened.

    Attributes:
        kind: one of `EVENT_KINDS`.
        step: simulation step, at least 0.
        detail: what a person reads.

    Raises:
        ValueError: an unknown kind or a step that is no integer >= 0.
    """

    kind: str
    step: int
    detail: str = ""

    def __post_init__(self) -> None:
        if self.kind not in EVENT_KINDS:
            raise ValueError(f"event kind must be one of {', '.join(sorted(EVENT_KINDS))}, got {self.kind!r}")
        if type(self.step) is not int or self.step < 0:
            raise ValueError(f"event step must be an integer >= 0, got {self.step!r}")


class EventBus:
    """Delivers events to its subscribers at once and remembers the newest ones.

    A subscriber's exception reaches whoever posted; the event is in the history by then.

    Args:
        maxlen: how many events `history` keeps.

    Raises:
        ValueError: `maxlen` is no integer >= 1.
    """

    def __init__(self, maxlen: int = 200) -> None:
        if type(maxlen) is not int or maxlen < 1:
            raise ValueError(f"maxlen must be an integer >= 1, got {maxlen!r}")
        self._history: deque[RegimeEvent] = deque(maxlen=maxlen)
        self._subscribers: list[Callable[[RegimeEvent], None]] = []
        self._count = 0

    @property
    def history(self) -> list[RegimeEvent]:
        """The newest events, oldest first (a copy)."""
        return list(self._history)

    @property
    def count(self) -> int:
        """How many events were posted since the beginning or the last `clear`, also those no longer in `history`."""
        return self._count

    def subscribe(self, callback: Callable[[RegimeEvent], None]) -> None:
        """Call `callback` with every event from now on; subscribing it again changes nothing."""
        if callback not in self._subscribers:
            self._subscribers.append(callback)

    def unsubscribe(self, callback: Callable[[RegimeEvent], None]) -> None:
        """Stop calling `callback`; one that is not subscribed is ignored."""
        if callback in self._subscribers:
            self._subscribers.remove(callback)

    def post(self, event: RegimeEvent) -> None:
        """Record an event and deliver it to every subscriber, in the order of subscription."""
        self._history.append(event)
        self._count += 1
        for callback in tuple(self._subscribers):
            callback(event)

    def emit(self, kind: str, step: int, detail: str = "") -> None:
        """Make the event and `post` it."""
        self.post(RegimeEvent(kind, step, detail))

    def clear(self) -> None:
        """Forget all events; subscribers stay."""
        self._history.clear()
        self._count = 0
