"""Whoever connects and says nothing, or little, or too slowly, takes neither the server nor its memory."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import httpx
import pytest

from agentinputlab.backends.chat import ChatReply
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.model_server import ChatServer
from agentinputlab.server import LoopbackServer, default_service

TOKEN = "correct-horse-battery-staple-01"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
LIMIT = 3
READ_SECONDS = 1.0
STATE = {"query": "q"}


def chat(**limits: Any) -> ChatServer:
    return ChatServer(lambda _: ChatReply("hello"), token=TOKEN, **limits)


def toolkit(**limits: Any) -> LoopbackServer:
    return LoopbackServer(default_service(), token=TOKEN, **limits)


def port_of(server: Any) -> int:
    address = server.url if isinstance(server, LoopbackServer) else server.base_url.removesuffix("/v1")
    return int(address.rsplit(":", 1)[1])


@pytest.fixture(params=[chat, toolkit], ids=["model", "toolkit"])
def server(request: pytest.FixtureRequest) -> Iterator[Any]:
    with request.param(max_connections=LIMIT, read_seconds=READ_SECONDS) as running:
        yield running


def path_of(server: Any) -> str:
    return "/v1/health" if isinstance(server, LoopbackServer) else "/v1/models"


def connect(server: Any) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port_of(server)), timeout=10)


def rest_of(connection: socket.socket) -> bytes:
    answer = b""
    while part := connection.recv(65536):
        answer += part
    return answer


def asked(server: Any) -> httpx.Response:
    return httpx.get(f"http://127.0.0.1:{port_of(server)}{path_of(server)}", headers=HEADERS, trust_env=False)


def until(holds: Callable[[], bool]) -> None:
    for _ in range(200):
        if holds():
            return
        time.sleep(0.02)
    raise AssertionError("it never came about")


def test_one_connection_too_many_is_told_so_and_when_to_come_back(server: Any) -> None:
    with ExitStack() as stack:
        for _ in range(LIMIT):
            stack.enter_context(closing(connect(server)))
        until(lambda: asked(server).status_code == 503)
        answer = asked(server)
        assert answer.headers["Retry-After"] == "1"
        assert answer.headers["Connection"] == "close"
        assert answer.json()["error"]["code"] == "too_many_connections"
        waiting = stack.enter_context(closing(connect(server)))  # it says nothing, and is told all the same
        assert rest_of(waiting).startswith(b"HTTP/1.1 503 ")
    until(lambda: asked(server).status_code == 200)


def test_many_that_say_nothing_take_no_thread_beyond_the_limit(server: Any) -> None:
    before = threading.active_count()
    with ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(closing(connect(server)))
        until(lambda: asked(server).status_code == 503)
        assert threading.active_count() - before <= LIMIT
    until(lambda: asked(server).status_code == 200)
    until(lambda: threading.active_count() <= before)


@pytest.mark.parametrize("part", ["line", "headers", "body"])
def test_a_request_that_drips_is_ended_and_its_place_is_free_again(server: Any, part: str) -> None:
    path = "/v1/interventions" if isinstance(server, LoopbackServer) else "/v1/chat/completions"
    head = f"POST {path} HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {TOKEN}\r\n"
    begun = {
        "line": "P",
        "headers": head,
        "body": f"{head}Content-Type: application/json\r\nContent-Length: 500000\r\n\r\n",
    }[part]
    started = time.monotonic()
    with closing(connect(server)) as connection:
        connection.sendall(begun.encode())
        connection.settimeout(0.1)
        answer = b""
        while not answer and time.monotonic() - started < 10 * READ_SECONDS:
            try:
                answer = connection.recv(65536)
            except TimeoutError:
                connection.sendall(b"x")
        lasted = time.monotonic() - started
        connection.settimeout(10)
        assert answer.startswith(b"HTTP/1.1 408 ")
        body = json.loads((answer + rest_of(connection)).partition(b"\r\n\r\n")[2])
    assert body["error"]["code"] in ("request_timeout", "too_slow")
    assert lasted >= 0.9 * READ_SECONDS
    until(lambda: asked(server).status_code == 200)


def test_a_request_in_pieces_that_comes_in_time_is_answered(server: Any) -> None:
    request = f"GET {path_of(server)} HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n".encode()
    with closing(connect(server)) as connection:
        for start in range(0, len(request), 40):
            connection.sendall(request[start : start + 40])
            time.sleep(0.02)
        assert rest_of(connection).startswith(b"HTTP/1.1 200 ")


def test_the_time_starts_anew_with_every_request_of_a_connection(server: Any) -> None:
    with httpx.Client(headers=HEADERS, trust_env=False, limits=httpx.Limits(max_connections=1)) as client:
        for _ in range(3):
            answer = client.get(f"http://127.0.0.1:{port_of(server)}{path_of(server)}")
            assert answer.status_code == 200
            assert answer.headers.get("Connection") != "close"
            time.sleep(0.6 * READ_SECONDS)


def test_a_model_may_think_longer_than_a_request_may_take() -> None:
    def respond(_: dict[str, Any]) -> ChatReply:
        time.sleep(0.6)
        return ChatReply("thought")

    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    with ChatServer(respond, read_seconds=0.3) as server:
        answer = httpx.post(f"{server.base_url}/chat/completions", json=body, trust_env=False)
    assert answer.json()["choices"][0]["message"]["content"] == "thought"


@pytest.mark.parametrize("limits", [{"max_connections": 0}, {"read_seconds": 0.0}, {"read_seconds": -1.0}])
def test_limits_that_let_nobody_in_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(limits))):
        chat(**limits)
    with pytest.raises(ValueError, match="positive"):
        toolkit(**limits)


def test_an_intervention_and_a_completion_are_answered_at_the_limit(server: Any) -> None:
    """The last place is a place."""
    with ExitStack() as stack:
        for _ in range(LIMIT - 1):
            stack.enter_context(closing(connect(server)))
        until(lambda: asked(server).status_code == 200)
        if isinstance(server, LoopbackServer):
            body: dict[str, Any] = {"release_id": "baseline.no_op", "state": STATE}
            url = f"{server.url}/v1/interventions"
        else:
            body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
            url = f"{server.base_url}/chat/completions"
        until(lambda: httpx.post(url, json=body, headers=HEADERS, trust_env=False).status_code == 200)
