"""Bytes that are no request, sent to both servers over a socket: short refusals, no echo, nothing on the console."""

import json
import os
import signal
import socket
import struct
import subprocess
import sys

import pytest

from agentinputlab.backends.chat import ChatReply
from agentinputlab.model_server import ChatServer
from agentinputlab.server import LoopbackServer, default_service
from agentinputlab.server.http import MAX_BODY_BYTES

TOKEN = "correct-horse-battery-staple-01"
SECRET = b"zq9-what-a-client-sent"


def sent(port, data, *, reset=False):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(data)
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return b""
        answer = b""
        while part := connection.recv(65536):
            answer += part
        return answer


def post(path, body, length):
    lines = [f"POST {path} HTTP/1.1", "Host: here", f"Authorization: Bearer {TOKEN}", "Content-Type: application/json"]
    return "\r\n".join([*lines, f"Content-Length: {length}", "", ""]).encode() + body


def status_of(answer):
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), head, json.loads(body)


@pytest.fixture(scope="module", params=["toolkit", "model"])
def port(request):
    if request.param == "model":
        with ChatServer(lambda _: ChatReply("hello"), token=TOKEN) as server:
            yield server.port
    else:
        with LoopbackServer(default_service(), token=TOKEN) as server:
            yield int(server.url.rsplit(":", 1)[1])


@pytest.mark.parametrize(
    "data",
    [
        SECRET + b" / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/" + SECRET + b"\r\n\r\n",
        b"GET " + SECRET + b" x y z\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"".join(b"H%d: %s\r\n" % (n, SECRET) for n in range(200)) + b"\r\n",
    ],
    ids=["method", "version", "request line", "headers"],
)
def test_what_is_no_request_is_refused_in_json_that_does_not_quote_it(port, data):
    answer = sent(port, data)
    status, head, body = status_of(answer)
    assert 400 <= status <= 599
    assert body["error"]["code"] == "bad_request"
    assert b"Cache-Control: no-store" in head
    assert SECRET not in answer


def test_the_answer_to_head_has_no_body(port):
    head, _, body = sent(port, b"HEAD / HTTP/1.1\r\n\r\n").partition(b"\r\n\r\n")
    assert (head.split()[1], body) == (b"501", b"")


@pytest.mark.parametrize("zeros", [18, 20, 5000])
def test_zeros_before_a_length_do_not_lift_the_bound_of_the_toolkit_server(zeros):
    with LoopbackServer(default_service(), token=TOKEN) as server:
        length = "0" * zeros + str(MAX_BODY_BYTES + 1)
        answer = sent(int(server.url.rsplit(":", 1)[1]), post("/v1/interventions", b"", length))
    status, _, body = status_of(answer)
    assert (status, body["error"]["code"]) == (413, "body_size")


def test_zeros_before_an_acceptable_length_change_nothing():
    body = json.dumps({"release_id": "baseline.no_op", "state": {"query": "q"}}).encode()
    with LoopbackServer(default_service(), token=TOKEN) as server:
        data = post("/v1/interventions", body, "0" * 5000 + str(len(body)))
        data = data.replace(b"Host: here", b"Host: here\r\nConnection: close")
        status, _, answer = status_of(sent(int(server.url.rsplit(":", 1)[1]), data))
    assert (status, answer["data"]["scored"]) == (200, False)


def test_a_temperature_that_no_float_holds_is_the_fault_of_the_request():
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "temperature": 10**400}
    data = json.dumps(body).encode()
    with ChatServer(lambda _: ChatReply("hello"), token=TOKEN) as server:
        request = post("/v1/chat/completions", data, len(data)).replace(
            b"Host: here", b"Host: here\r\nConnection: close"
        )
        status, _, answer = status_of(sent(server.port, request))
        assert server.counts.failed == 0
    assert (status, answer["error"]["param"]) == (400, "temperature")


def test_clients_that_break_off_leave_nothing_on_the_console_of_the_toolkit_server():
    process = subprocess.Popen(
        [sys.executable, "-c", "from agentinputlab.api import main; main()", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "AGENTINPUTLAB_API_TOKEN": TOKEN, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    port = int(process.stdout.readline().split(b"127.0.0.1:")[1].split(b";")[0])
    for _ in range(5):
        sent(port, post("/v1/interventions", b"{", 1000), reset=True)
        sent(port, b"GET", reset=True)
    assert status_of(sent(port, post("/v1/nothing", b"", 0)))[0] == 404
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout, stderr) == (0, b"Stopped.\n", b"")
