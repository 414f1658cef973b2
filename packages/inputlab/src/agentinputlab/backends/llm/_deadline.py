"""An end for a whole HTTP call: the timeouts of a transport start anew with every byte that drips in."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from typing import Any

__all__ = ["Deadline"]


class Deadline:
    """Shut the connection of a call when its time is up.

    Args:
        seconds: how long the ``with`` block may talk.

    Attributes:
        has_passed: whether the connection was shut.
    """

    def __init__(self, seconds: float) -> None:
        self.has_passed = False
        self._stream: Any = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(seconds, self._pass)
        self._timer.daemon = True

    def __enter__(self) -> Deadline:
        """Start the clock."""
        self._timer.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Stop the clock."""
        self._timer.cancel()

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Learn which connection a request uses; give this to httpx as extension ``trace``."""
        if event in {"connection.connect_tcp.complete", "connection.start_tls.complete"}:
            with self._lock:
                self._stream = info["return_value"]
            if self.has_passed:
                self._shut()

    def _pass(self) -> None:
        self.has_passed = True
        self._shut()

    def _shut(self) -> None:
        with self._lock:
            connection = None if self._stream is None else self._stream.get_extra_info("socket")
        if connection is None:
            return
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # closed already
