"""Recorded answers in their order: each is given once, and, where that was recorded too, to its own request only."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Generic, TypeVar

from agentinputlab.contracts._checks import digest, entries
from agentinputlab.contracts.errors import ArtifactError, ValidationError

__all__ = ["RecordedOrder"]

T = TypeVar("T")


class RecordedOrder(Generic[T]):
    """Answers in a row; may be asked from any thread.

    Args:
        answers: the answers, all of one type.
        kind: that type.
        request_hashes: hash of the request that each answer belongs to; empty accepts any request.
        owner: name of the class that replays, for messages.

    Raises:
        ValidationError: an answer is of another type, or the hashes are no hashes or not as many.
    """

    def __init__(self, answers: Sequence[T], kind: type[T], request_hashes: Sequence[str], *, owner: str) -> None:
        self.answers = entries(answers, f"{owner}.responses", kind)
        name = f"{owner}.strict_request_hashes"
        hashes = entries(request_hashes, name, str)
        self.request_hashes = tuple(digest(item, f"{name}[{index}]") for index, item in enumerate(hashes))
        if self.request_hashes and len(self.request_hashes) != len(self.answers):
            raise ValidationError(
                f"{name} must be as many as the responses ({len(self.answers)}), got {len(self.request_hashes)}"
            )
        self._next = 0
        self._lock = threading.Lock()

    @property
    def remaining(self) -> int:
        """How many answers are left."""
        with self._lock:
            return len(self.answers) - self._next

    def take(self, request_hash: str) -> T:
        """Give the next answer; a refused request takes none.

        Raises:
            ArtifactError: no answer is left, or the next one belongs to another request.
        """
        with self._lock:
            position = self._next
            if position == len(self.answers):
                raise ArtifactError(f"all {position} recorded answers are used up")
            if self.request_hashes and request_hash != self.request_hashes[position]:
                raise ArtifactError(
                    f"recorded answer {position + 1} belongs to request {self.request_hashes[position]}, "
                    f"this is {request_hash}"
                )
            self._next += 1
        return self.answers[position]
