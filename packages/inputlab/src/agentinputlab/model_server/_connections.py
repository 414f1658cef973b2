"""What keeps a server on this machine alive whoever connects: a limit of open connections, and an end to slow requests.

Both loopback servers stand on it. A connection beyond the limit is told 503 with ``Retry-After``; a request that has
begun and does not arrive in time is told 408. Neither waits for anybody.
"""

from __future__ import annotations

import contextlib
import io
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["MAX_CONNECTIONS", "READ_SECONDS", "BoundedServer", "TimedHandler"]

MAX_CONNECTIONS = 32
"""Connections that are open at once: each has a thread and, at most, one request in memory."""
READ_SECONDS = 30.0
"""A request, header and body, has to arrive within this time after its first byte."""
IDLE_SECONDS = 30.0
"""A connection on which no request begins is closed after this time."""
_LINGER_SECONDS = 1.0
_MOST_LINGERING = 64
_DRAINED_BYTES = 2**16


class BoundedServer(ThreadingHTTPServer):
    """A server that answers at most so many connections at once.

    Args:
        address: host and port.
        handler: of requests.
        max_connections: open at once; what comes on top is answered at once and not read.
        read_seconds: within which a request has to arrive after its first byte.
        busy: body of the answer to a connection beyond the limit, as JSON text.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self, address: tuple[str, int], handler: Any, *, max_connections: int, read_seconds: float, busy: bytes
    ) -> None:
        self.read_seconds = read_seconds
        self._places = threading.BoundedSemaphore(max_connections)
        self._turned_away: list[tuple[float, socket.socket]] = []
        self._busy = (
            b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\nRetry-After: 1\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
            b"Connection: close\r\n\r\n%b" % (len(busy), busy)
        )
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread of its own, or turn it away."""
        if not self._places.acquire(blocking=False):
            self._turn_away(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and give the place back when the connection is closed."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def _turn_away(self, request: socket.socket) -> None:
        """Say so and close a little later: closed at once, the answer would be lost on a client that still sends."""
        request.setblocking(False)
        with contextlib.suppress(OSError):  # a client that is gone needs no answer
            request.send(self._busy)
            request.shutdown(socket.SHUT_WR)
        self._turned_away.append((time.monotonic() + _LINGER_SECONDS, request))
        if len(self._turned_away) > _MOST_LINGERING:
            self.shutdown_request(self._turned_away.pop(0)[1])

    def service_actions(self) -> None:
        """Close what was turned away, once the client has read it or its time is over."""
        if self._turned_away:
            now = time.monotonic()
            waiting = [(until, request) for until, request in self._turned_away if now < until and _is_open(request)]
            kept = {request for _, request in waiting}
            for _, request in self._turned_away:
                if request not in kept:
                    self.shutdown_request(request)
            self._turned_away = waiting

    def server_close(self) -> None:
        """Close the port, and what was turned away."""
        super().server_close()
        while self._turned_away:
            self.shutdown_request(self._turned_away.pop()[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: the standard text would hold a traceback, and a connection that broke is no news."""


def _is_open(request: socket.socket) -> bool:
    """Read away what the client still sends; tell whether it may send more."""
    try:
        return bool(request.recv(_DRAINED_BYTES))
    except BlockingIOError:
        return True
    except OSError:
        return False


class _TimedReader(io.RawIOBase):
    """Bytes of a connection, until the time of the request that they belong to is over."""

    def __init__(self, connection: socket.socket, *, idle_seconds: float, read_seconds: float) -> None:
        self._connection = connection
        self._idle_seconds = idle_seconds
        self._read_seconds = read_seconds
        self._until: float | None = None
        self.is_late = False

    def begin(self) -> None:
        """Expect a new request; its time starts with its first byte."""
        self._until = None
        self.is_late = False

    def readable(self) -> bool:
        return True

    def _seconds_left(self) -> float:
        if self._until is None:
            return self._idle_seconds
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request did not arrive in time")
        return left

    def readinto(self, buffer: Any, /) -> int:
        try:
            self._connection.settimeout(self._seconds_left())
            count = self._connection.recv_into(buffer)
        except TimeoutError:
            self.is_late = self._until is not None
            raise
        finally:
            self._connection.settimeout(self._idle_seconds)  # of an answer that nobody reads
        if self._until is None and count:
            self._until = time.monotonic() + self._read_seconds
        return count


class TimedHandler(BaseHTTPRequestHandler):
    """Reads requests against a deadline; a subclass says in `refuse_late` that one did not arrive."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    server: BoundedServer  # pyright: ignore[reportIncompatibleVariableOverride] - the base class is written this way

    def setup(self) -> None:
        """Put the deadline between the connection and whoever reads it."""
        super().setup()
        self.rfile.close()
        self._reader = _TimedReader(self.connection, idle_seconds=IDLE_SECONDS, read_seconds=self.server.read_seconds)
        self.rfile = io.BufferedReader(self._reader)

    def handle_one_request(self) -> None:
        """Answer one request, or say that it came too slowly."""
        self._reader.begin()
        super().handle_one_request()
        if self._reader.is_late:
            self.command = self.requestline = ""
            self.request_version = self.protocol_version
            with contextlib.suppress(OSError):
                self.refuse_late()
                self.wfile.flush()

    def refuse_late(self) -> None:
        """Answer 408 and close."""
        raise NotImplementedError
