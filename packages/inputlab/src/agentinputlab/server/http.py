"""The service behind a socket of this machine: token, limits, headers, and nothing logged."""

from __future__ import annotations

import hmac
import json
import threading
from types import TracebackType
from typing import Any, Self

from agentinputlab.model_server._connections import MAX_CONNECTIONS, READ_SECONDS, BoundedServer, TimedHandler
from agentinputlab.server.service import Answer, ToolkitService
from ripieno.canonical import strict_loads
from ripieno.errors import InputError

__all__ = ["MAX_BODY_BYTES", "MIN_TOKEN_CHARACTERS", "LoopbackServer", "check_token"]

MAX_BODY_BYTES = 2**20
MIN_TOKEN_CHARACTERS = 24
_HOST = "127.0.0.1"


def check_token(token: str | None) -> str:
    """Give the token if it can protect anything.

    Raises:
        ValueError: it is missing, shorter than 24 characters, or holds something else than printable ASCII.
    """
    if token is None or len(token) < MIN_TOKEN_CHARACTERS or not (token.isascii() and token.isprintable()):
        raise ValueError(f"the token must have at least {MIN_TOKEN_CHARACTERS} printable ASCII characters")
    return token


class LoopbackServer:
    """Serves a `ToolkitService` on 127.0.0.1 while the ``with`` block runs."""

    def __init__(
        self,
        service: ToolkitService,
        *,
        token: str,
        port: int = 0,
        max_connections: int = MAX_CONNECTIONS,
        read_seconds: float = READ_SECONDS,
    ) -> None:
        """Bind the socket.

        Args:
            service: what is served.
            token: what a client must present as ``Authorization: Bearer TOKEN``.
            port: 0 takes a free one.
            max_connections: open at once; one more is answered 503 with ``Retry-After``, unread.
            read_seconds: within which a request has to arrive after its first byte, or it is answered 408.

        Raises:
            ValueError: the token is too weak, or a limit is not positive.
            OSError: the port is taken.
        """
        expected = check_token(token).encode("ascii")
        if max_connections < 1 or not read_seconds > 0:
            raise ValueError(f"limits must be positive, got {max_connections} connections and {read_seconds} seconds")
        handler = type("Handler", (_Handler,), {"service": service, "expected": expected})
        busy = Answer.error(503, "too_many_connections", "Too many connections are open; try again.")
        self._server = BoundedServer(
            (_HOST, port),
            handler,
            max_connections=max_connections,
            read_seconds=read_seconds,
            busy=json.dumps(busy.body).encode(),
        )
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"http://{_HOST}:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(TimedHandler):
    service: ToolkitService
    expected: bytes
    server_version = "agentinputlab"
    sys_version = ""

    def refuse_late(self) -> None:
        self._answer(Answer.error(408, "too_slow", "The request did not arrive in time."))

    def do_GET(self) -> None:  # noqa: N802 - the name of the base class
        if not self._is_authorized():
            return
        routes = {"/v1/health": self.service.health, "/v1/catalog": self.service.catalog}
        route = routes.get(self.path)
        self._answer(route() if route else _not_found())

    def do_POST(self) -> None:  # noqa: N802 - the name of the base class
        if not self._is_authorized():
            return
        if self.path != "/v1/interventions":
            self._answer(_not_found())
            return
        refusal = self._refusal_of_body()
        if refusal is not None:
            self._answer(refusal)
            return
        data = self.rfile.read(_size(self.headers["Content-Length"]))
        try:
            request = strict_loads(data, max_bytes=MAX_BODY_BYTES)
        except InputError:
            self._answer(Answer.error(400, "invalid_body", "The body must be one JSON value without duplicate keys."))
            return
        self._answer(self._guarded(request))

    def _guarded(self, request: Any) -> Answer:
        try:
            return self.service.intervene(request)
        except Exception:  # noqa: BLE001 - the client learns that it was us, and nothing about what was sent
            return Answer.error(500, "internal_error", "The service failed.")

    def _is_authorized(self) -> bool:
        given = self.headers.get("Authorization", "").encode("utf-8", "replace")
        if hmac.compare_digest(given, b"Bearer " + self.expected):
            return True
        self._answer(Answer.error(401, "unauthorized", "A bearer token is needed.", **{"WWW-Authenticate": "Bearer"}))
        return False

    def _refusal_of_body(self) -> Answer | None:
        """Look at the headers only: nothing is read before they are acceptable."""
        if "Transfer-Encoding" in self.headers:
            return Answer.error(400, "invalid_body", "Chunked bodies are not taken; send Content-Length.")
        length = self.headers.get("Content-Length")
        if length is None:
            return Answer.error(411, "invalid_body", "Content-Length is needed.")
        if not (length.isascii() and length.isdigit()):
            return Answer.error(400, "invalid_body", "Content-Length must be a number.")
        if _size(length) > MAX_BODY_BYTES:
            return Answer.error(413, "body_size", f"The body must not be longer than {MAX_BODY_BYTES} bytes.")
        if self.headers.get_content_type() != "application/json":
            return Answer.error(415, "content_type", "Content-Type must be application/json.")
        return None

    def _answer(self, answer: Answer) -> None:
        data = json.dumps(answer.body, ensure_ascii=False).encode()
        # An answer before the body was read leaves the rest of it on the connection.
        self.close_connection = self.close_connection or answer.status >= 400
        self.send_response(answer.status)
        for name, value in {
            "Content-Type": "application/json; charset=utf-8",
            "Content-Length": str(len(data)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Connection": "close" if self.close_connection else "keep-alive",
            **answer.headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is no request of ours as everything else is refused: the standard page quotes the client."""
        self.request_version = self.protocol_version  # an unreadable request line must not pass for HTTP/0.9
        self._answer(Answer.error(code, "bad_request", "The request line or a header is not acceptable."))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Log nothing: paths and errors can hold what a client sent."""


def _size(digits: str) -> int:
    """Give a Content-Length; one with more digits than any acceptable size is merely too large."""
    significant = digits.lstrip("0")
    return int(significant or "0") if len(significant) <= len(str(MAX_BODY_BYTES)) else MAX_BODY_BYTES + 1


def _not_found() -> Answer:
    return Answer.error(404, "not_found", "There is nothing here.")
