"""The server: loopback only, a thread per connection up to a limit, strict about what it reads, silent about it."""

from __future__ import annotations

import hmac
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

from agentinputlab.backends.chat import ChatRefusalError, ChatReply, FaultKind, Responder, completion_body
from agentinputlab.contracts._checks import finite, text, texts, whole
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.model_server._bodies import checked_body
from agentinputlab.model_server._connections import MAX_CONNECTIONS, READ_SECONDS, BoundedServer, TimedHandler
from agentinputlab.model_server._render import error_object, json_bytes, stream_events
from ripieno.canonical import strict_loads
from ripieno.errors import InputError

__all__ = ["ChatServer", "ServerCounts"]

MAX_BODY_BYTES = 16 * 2**20
_HOST = "127.0.0.1"


@dataclass(slots=True)
class ServerCounts:
    """What a server did so far; numbers only.

    Attributes:
        requests: requests for a completion.
        answered: of them, answered in full.
        refused: of them, refused because of what they asked.
        faults: of them, answered with something that goes wrong on purpose.
        failed: of them, lost to a defect of the responder or to a client that went away.
        input_tokens: tokens read, of answered requests.
        output_tokens: tokens written, of answered requests.
    """

    requests: int = 0
    answered: int = 0
    refused: int = 0
    faults: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def as_dict(self) -> dict[str, int]:
        """Give the counts by name."""
        return asdict(self)


class ChatServer:
    """Serve a responder at ``http://127.0.0.1:PORT/v1`` while the ``with`` block runs.

    Speaks ``POST /v1/chat/completions`` (plain and streaming, tool calls, usage) and ``GET /v1/models``. Requests are
    checked field by field before the responder sees them. Nothing of a request is ever logged.

    Args:
        responder: from a checked body to an answer. It is called from several threads at once.
        port: port to listen on; 0 takes a free one.
        models: names that ``/v1/models`` lists; any name may be asked for.
        token: what ``Authorization: Bearer ...`` must carry, or None to let everybody on this machine in.
        max_body_bytes: longest accepted request.
        max_connections: open at once; one more is answered 503 with ``Retry-After``, unread.
        read_seconds: within which a request has to arrive after its first byte, or it is answered 408.

    Raises:
        ValidationError: an argument is wrong.
        OSError: the port cannot be had.

    Examples:
        >>> with ChatServer(lambda body: ChatReply("Paris")) as server:
        ...     server.base_url.startswith("http://127.0.0.1:")
        True
    """

    def __init__(
        self,
        responder: Responder,
        *,
        port: int = 0,
        models: Sequence[str] = ("scripted",),
        token: str | None = None,
        max_body_bytes: int = MAX_BODY_BYTES,
        max_connections: int = MAX_CONNECTIONS,
        read_seconds: float = READ_SECONDS,
    ) -> None:
        if whole(port, "ChatServer.port") > 65535:
            raise ValidationError(f"ChatServer.port must be 0 to 65535, got {port}")
        if token is not None and not text(token, "ChatServer.token").isascii():
            raise ValidationError("ChatServer.token must be ASCII")
        self.responder = responder
        self.models = texts(list(models), "ChatServer.models")
        self.max_body_bytes = whole(max_body_bytes, "ChatServer.max_body_bytes", minimum=1)
        self.counts = ServerCounts()
        self._token = token
        self._lock = threading.Lock()
        busy = error_object("too many connections are open", kind="server_error", code="too_many_connections")
        self._http = _HttpServer(
            (_HOST, port),
            _Handler,
            max_connections=whole(max_connections, "ChatServer.max_connections", minimum=1),
            read_seconds=_positive(read_seconds, "ChatServer.read_seconds"),
            busy=json_bytes(busy),
        )
        self._http.chat = self
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._http.server_address[1])

    @property
    def base_url(self) -> str:
        """Address for clients, ending in ``/v1``."""
        return f"http://{_HOST}:{self.port}/v1"

    def __enter__(self) -> ChatServer:
        """Start to answer."""
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Stop, and close the port and every connection."""
        self._http.shutdown()
        self._http.close_connections()
        self._http.server_close()
        if self._thread is not None:
            self._thread.join()

    def add(self, **amounts: int) -> None:
        """Add to the counts."""
        with self._lock:
            for name, amount in amounts.items():
                setattr(self.counts, name, getattr(self.counts, name) + amount)

    def admits(self, authorization: str | None) -> bool:
        """Tell whether a request with this header may come in."""
        if self._token is None:
            return True
        given = (authorization or "").encode("latin-1", "replace")
        return hmac.compare_digest(given, f"Bearer {self._token}".encode())


def _positive(seconds: float, name: str) -> float:
    if finite(seconds, name) <= 0:
        raise ValidationError(f"{name} must be positive, got {seconds!r}")
    return seconds


class _HttpServer(BoundedServer):
    chat: ChatServer

    def __init__(self, *arguments: Any, **limits: Any) -> None:
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        super().__init__(*arguments, **limits)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._open_lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._open_lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        """End idle connections, whose threads would otherwise wait for the next request."""
        with self._open_lock:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue  # the other side was faster


class _Handler(TimedHandler):
    wbufsize = -1  # whole answers leave in one piece
    disable_nagle_algorithm = True
    server: _HttpServer  # pyright: ignore[reportIncompatibleVariableOverride] - the base class is written this way

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        """Log nothing."""

    def version_string(self) -> str:
        return "agentinputlab"

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is no request of ours as everything else is refused: the standard page quotes the client."""
        self.request_version = self.protocol_version  # an unreadable request line must not pass for HTTP/0.9
        self._refuse_unread(code, "the request line or a header is not acceptable", "bad_request")

    def refuse_late(self) -> None:
        self._refuse_unread(408, "the request did not arrive in time", "request_timeout")

    def do_GET(self) -> None:  # noqa: N802 - the name of the base class
        chat = self.server.chat
        if not self._is_admitted():
            return
        if self.path != "/v1/models":
            self._refuse(404, "no such path", code="not_found")
            return
        rows = [{"id": name, "object": "model", "created": 0, "owned_by": "local"} for name in chat.models]
        self._send(200, {"object": "list", "data": rows})

    def do_POST(self) -> None:  # noqa: N802 - the name of the base class
        chat = self.server.chat
        data = self._read()
        if data is None or not self._is_admitted():
            return
        if self.path != "/v1/chat/completions":
            self._refuse(404, "no such path", code="not_found")
            return
        chat.add(requests=1)
        try:
            body = checked_body(_parsed(data))
            reply = chat.responder(body)
        except ChatRefusalError as error:
            chat.add(refused=1)
            self._refuse(error.status, str(error), code=error.code, param=error.param)
            return
        except Exception as error:  # noqa: BLE001 - a defect of the responder must not end the server or leave a traceback
            chat.add(failed=1)
            self._refuse(500, f"the model failed: {type(error).__name__}", code="internal_error", kind="server_error")
            return
        self._answer(reply, body)

    def _is_admitted(self) -> bool:
        if self.server.chat.admits(self.headers.get("Authorization")):
            return True
        self._refuse(401, "a bearer token is needed", code="invalid_api_key", kind="authentication_error")
        return False

    def _read(self) -> bytes | None:
        """Read the body, or answer why it is not read and close."""
        limit = self.server.chat.max_body_bytes
        length = self.headers.get("Content-Length")
        if self.headers.get("Transfer-Encoding") is not None:
            return self._refuse_unread(411, "a Content-Length is needed, chunks are not read", "length_required")
        if length is None or not (length.isascii() and length.isdigit()):
            return self._refuse_unread(411, "a Content-Length is needed", "length_required")
        if len(length) > 18 or int(length) > limit:
            return self._refuse_unread(413, f"the body may have at most {limit} bytes", "body_size")
        content_type = self.headers.get_content_type() if "Content-Type" in self.headers else ""
        if content_type != "application/json":
            return self._refuse_unread(415, "Content-Type must be application/json", "content_type")
        data = self.rfile.read(int(length))
        return data if len(data) == int(length) else None

    def _refuse_unread(self, status: int, message: str, code: str) -> None:
        self.close_connection = True
        self._refuse(status, message, code=code)

    def _answer(self, reply: ChatReply, body: dict[str, Any]) -> None:
        chat = self.server.chat
        if reply.delay_seconds:
            time.sleep(reply.delay_seconds)
        fault = reply.fault
        if fault is None:
            completion = completion_body(reply, body)
            usage = completion["usage"]
            # Counted before the last byte leaves: whoever has the answer finds it in the counts.
            chat.add(answered=1, input_tokens=usage["prompt_tokens"], output_tokens=usage["completion_tokens"])
            try:
                self._complete(completion, body)
            except OSError:  # the client went away
                self.close_connection = True
                chat.add(answered=-1, failed=1)
            return
        chat.add(faults=1)
        if fault.kind is FaultKind.HTTP_ERROR:
            self._send(fault.status, fault.body)
        elif fault.kind is FaultKind.DROP_CONNECTION:
            self.close_connection = True
        elif fault.kind is FaultKind.OVERSIZED_BODY:
            self._send_bytes(200, b'{"padding": "' + b"x" * fault.size_bytes + b'"}')
        else:
            self._complete_wrongly(fault.kind, completion_body(reply, body), body)

    def _complete_wrongly(self, kind: FaultKind, completion: dict[str, Any], body: dict[str, Any]) -> None:
        if kind is FaultKind.TRUNCATED:
            self._truncate(completion, body)
        elif kind is FaultKind.MALFORMED_JSON:
            self._send_bytes(200, json_bytes(completion)[:-1] + b",}")
        elif kind is FaultKind.MISSING_USAGE:
            self._complete({key: item for key, item in completion.items() if key != "usage"}, body)
        else:
            key = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
            message = completion["choices"][0]["message"]
            message["content"] = f"{message['content'] or ''}{key}"
            self._complete(completion, body)

    def _complete(self, completion: dict[str, Any], body: dict[str, Any]) -> None:
        if not body.get("stream"):
            self._send(200, completion)
            return
        self._begin_stream()
        for event in stream_events(completion, include_usage=_wants_usage(body)):
            self._write_chunk(event)
        self._write_chunk(b"")
        self.wfile.flush()

    def _truncate(self, completion: dict[str, Any], body: dict[str, Any]) -> None:
        """Stop in the middle and close; a plain answer keeps the length that it announced."""
        self.close_connection = True
        if not body.get("stream"):
            data = json_bytes(completion)
            self._begin(200, length=len(data))
            self.wfile.write(data[: len(data) // 2])
            return
        events = list(stream_events(completion, include_usage=_wants_usage(body)))
        self._begin_stream()
        for event in events[: len(events) // 2]:
            self._write_chunk(event)

    def _begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _write_chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _refuse(
        self, status: int, message: str, *, code: str, param: str | None = None, kind: str = "invalid_request_error"
    ) -> None:
        self._send(status, error_object(message, kind=kind, code=code, param=param))

    def _send(self, status: int, value: object) -> None:
        self._send_bytes(status, value.encode() if isinstance(value, str) else json_bytes(value))

    def _send_bytes(self, status: int, data: bytes) -> None:
        self._begin(status, length=len(data))
        if self.command != "HEAD":
            self.wfile.write(data)
        self.wfile.flush()

    def _begin(self, status: int, *, length: int) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(length))
        self.send_header("Cache-Control", "no-store")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()


def _parsed(data: bytes) -> object:
    try:
        return cast("object", strict_loads(data))
    except InputError:
        # The parser's own text may quote a key of the body.
        raise ChatRefusalError("the body is not strict JSON", code="invalid_json") from None


def _wants_usage(body: dict[str, Any]) -> bool:
    return bool((body.get("stream_options") or {}).get("include_usage"))
