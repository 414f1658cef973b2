"""Endpoints that never come to an end: looking whether somebody is there ends all the same."""

import socket
import threading
import time

import httpx
import pytest

from agentinputlab.backends.llm._probe import probe_status

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.fixture
def endless(request):
    """A server that sends one beginning, then the same bytes until the other side is gone."""
    beginning, more, pause = request.param
    listener = socket.create_server(("127.0.0.1", 0))
    sent = {"bytes": 0}

    def serve():
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            try:
                connection.sendall(beginning)
                while True:
                    connection.sendall(more)
                    sent["bytes"] += len(more)
                    time.sleep(pause)
            except OSError:
                return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1", sent, thread
    listener.close()


@pytest.mark.parametrize("endless", [(HEAD, b"A: b\r\n", 0.05)], indirect=True)
def test_headers_that_drip_are_no_answer(endless):
    url, _, thread = endless
    with pytest.raises(httpx.HTTPError):
        probe_status(url, 0.3)
    thread.join(timeout=30)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    "endless",
    [(HEAD + b"\r\n", b" ", 0.05), (HEAD + b"\r\n", b"x" * 65536, 0.0)],
    ids=["dripping", "flooding"],
    indirect=True,
)
def test_a_body_without_end_is_not_read(endless):
    url, sent, thread = endless
    assert probe_status(url, 30) == 200
    thread.join(timeout=30)
    assert not thread.is_alive()
    assert sent["bytes"] < 64 * 2**20
