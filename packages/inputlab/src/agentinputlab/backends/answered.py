"""Who answered: the name and the fingerprint that an endpoint gives itself, noted beside what was asked of it.

A plan names a model; which one answers is up to the endpoint. Whoever asks models runs them in `noting_answers` and
keeps what comes out.

Examples:
    >>> with noting_answers() as answered:
    ...     note_answer("small", {"model": "small-2", "system_fingerprint": "fp_1"})
    ...     note_answer("small", {"model": "small-2", "system_fingerprint": "fp_1"})
    >>> answered.record()["answers"]
    [{'asked_for': 'small', 'model': 'small-2', 'system_fingerprint': 'fp_1', 'count': 2}]
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

__all__ = ["ANSWERED_BY_PROTOCOL", "AnsweredBy", "note_answer", "noting_answers"]

ANSWERED_BY_PROTOCOL = "agentinputlab.answered-by.v1"
_LONGEST_NAME = 200
_MOST_NAMES = 100
"""More names than this are no identity; what comes on top is counted together."""


class AnsweredBy:
    """What endpoints called themselves, and how often."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str | None, str | None]] = Counter()
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        """Whether any endpoint answered."""
        return bool(self._counts)

    def add(self, asked_for: str, model: str | None, fingerprint: str | None) -> None:
        """Count one answer."""
        row = (asked_for, model, fingerprint)
        with self._lock:
            if row not in self._counts and len(self._counts) >= _MOST_NAMES:
                row = (asked_for, "(further names)", None)
            self._counts[row] += 1

    def record(self) -> dict[str, Any]:
        """Give it as JSON values: one row per name and fingerprint, sorted."""
        rows = sorted(self._counts.items(), key=lambda item: tuple(part or "" for part in item[0]))
        return {
            "protocol": ANSWERED_BY_PROTOCOL,
            "answers": [
                {"asked_for": asked_for, "model": model, "system_fingerprint": fingerprint, "count": count}
                for (asked_for, model, fingerprint), count in rows
            ],
        }


_NOTED: ContextVar[AnsweredBy | None] = ContextVar("answered_by", default=None)


@contextmanager
def noting_answers() -> Generator[AnsweredBy]:
    """Collect what is noted meanwhile in this thread, and in tasks and threads that got its context."""
    answered = AnsweredBy()
    token = _NOTED.set(answered)
    try:
        yield answered
    finally:
        _NOTED.reset(token)


def note_answer(asked_for: str, answer: object) -> None:
    """Note who gave an answer; outside `noting_answers` it does nothing.

    Args:
        asked_for: the model that was asked for.
        answer: an OpenAI-style completion; of it, only ``model`` and ``system_fingerprint`` are looked at.
    """
    answered = _NOTED.get()
    if answered is not None and isinstance(answer, Mapping):
        answered.add(asked_for, _name(answer.get("model")), _name(answer.get("system_fingerprint")))


def _name(value: object) -> str | None:
    """Give a name as one printable line; an endpoint may say anything."""
    if not isinstance(value, str) or not value.strip():
        return None
    return "".join(character if character.isprintable() else "?" for character in value[:_LONGEST_NAME])
