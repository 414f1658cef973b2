"""The loopback server: who may ask, what is refused before it is read, and that nothing is logged."""

import json
import os
import re
import subprocess
import sys
import threading
from http.client import HTTPConnection

import pytest

from agentinputlab.contracts import InputPatch
from agentinputlab.contracts.errors import AlgorithmOutputError, BudgetExceededError, ValidationError
from agentinputlab.selectors import NoOpIntervention
from agentinputlab.server import LoopbackServer, ToolkitService, default_service
from agentinputlab.server.http import MAX_BODY_BYTES

TOKEN = "correct-horse-battery-staple-01"
STATE = {"query": "Return my order"}


@pytest.fixture(scope="module")
def server():
    with LoopbackServer(default_service(), token=TOKEN) as running:
        yield running


def ask(server, method, path, body=None, *, token=TOKEN, headers=None):
    connection = HTTPConnection(server.url.removeprefix("http://"), timeout=10)
    try:
        given = {"Authorization": f"Bearer {token}"} if token else {}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            given["Content-Type"] = "application/json"
        connection.request(method, path, body, {**given, **(headers or {})})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read()), answer.headers
    finally:
        connection.close()


def error_of(answer):
    return answer[0], answer[1]["error"]["code"]


def test_health_and_catalog_are_there_for_whoever_has_the_token(server):
    status, body, headers = ask(server, "GET", "/v1/health")
    assert (status, body) == (200, {"data": {"status": "ok", "protocol": "agentinputlab.v1"}})
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    _, body, _ = ask(server, "GET", "/v1/catalog")
    assert body["data"]["configured"] == ["baseline.no_op", "plan.plan_and_solve.ps_prompt"]
    assert len(body["data"]["methods"]) == 27


@pytest.mark.parametrize("token", [None, "wrong", TOKEN[:-1], TOKEN + "x", "é" * 30])
def test_without_the_token_nothing_is_answered(server, token):
    headers = {"Authorization": f"Bearer {token}".encode("utf-8", "replace")} if token == "é" * 30 else None
    answer = ask(server, "GET", "/v1/health", token=None if headers else token, headers=headers)
    assert error_of(answer) == (401, "unauthorized")


def test_an_intervention_is_run_and_not_scored(server):
    status, body, _ = ask(
        server, "POST", "/v1/interventions", {"release_id": "plan.plan_and_solve.ps_prompt", "state": STATE}
    )
    assert status == 200
    assert body["data"]["scored"] is False
    assert "plan" in body["data"]["state"]["instruction"]


@pytest.mark.parametrize(
    ("request_body", "expected"),
    [
        ({"release_id": "plan.decomp.full", "state": STATE}, (422, "unavailable")),
        ({"release_id": "no.such", "state": STATE}, (422, "unavailable")),
        ({"release_id": "baseline.no_op", "state": {**STATE, "code": "x"}}, (400, "invalid_request")),
        ({"release_id": "baseline.no_op", "state": STATE, "backend": "http://x"}, (400, "invalid_request")),
        ({"release_id": "baseline.no_op", "state": STATE, "seed": True}, (400, "invalid_request")),
        ({"release_id": "baseline.no_op", "state": {"query": " "}}, (400, "invalid_request")),
        ({"release_id": "baseline.no_op", "state": []}, (400, "invalid_request")),
        ([], (400, "invalid_request")),
        (b'{"a": 1, "a": 2}', (400, "invalid_body")),
        (b"\xff", (400, "invalid_body")),
        (b"[" * 5000, (400, "invalid_body")),
    ],
)
def test_what_is_wrong_gets_its_own_code(server, request_body, expected):
    assert error_of(ask(server, "POST", "/v1/interventions", request_body)) == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Content-Type": "text/plain"}, (415, "content_type")),
        ({"Content-Length": str(MAX_BODY_BYTES + 1)}, (413, "body_size")),
        ({"Content-Length": "9" * 5000}, (413, "body_size")),
        ({"Content-Length": "-1"}, (400, "invalid_body")),
        ({"Content-Length": "٣"}, (400, "invalid_body")),
        ({"Transfer-Encoding": "chunked"}, (400, "invalid_body")),
    ],
)
def test_a_body_is_refused_by_its_headers(server, headers, expected):
    connection = HTTPConnection(server.url.removeprefix("http://"), timeout=10)
    connection.putrequest("POST", "/v1/interventions")
    sent = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", "Content-Length": "2", **headers}
    for name, value in sent.items():
        connection.putheader(name, value.encode("utf-8"))
    connection.endheaders()
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())["error"]["code"]) == expected
    connection.close()


def test_a_body_without_a_length_is_refused(server):
    connection = HTTPConnection(server.url.removeprefix("http://"), timeout=10)
    connection.putrequest("POST", "/v1/interventions")
    connection.putheader("Authorization", f"Bearer {TOKEN}")
    connection.endheaders()
    assert connection.getresponse().status == 411
    connection.close()


def test_an_unknown_path_is_not_found(server):
    assert error_of(ask(server, "GET", "/v1/secrets")) == (404, "not_found")
    assert error_of(ask(server, "POST", "/v1/health", {})) == (404, "not_found")


class Waiting(NoOpIntervention):
    """Leaves the input alone, when it is let go."""

    started = threading.Event()
    released = threading.Event()

    def propose(self, state, context) -> InputPatch:
        Waiting.started.set()
        assert Waiting.released.wait(10)
        return super().propose(state, context)


@pytest.mark.parametrize("waiting", [0, 1])
def test_one_runs_some_wait_and_the_next_is_told_to_come_back(waiting):
    Waiting.started.clear()
    Waiting.released.clear()
    with LoopbackServer(ToolkitService({"w": Waiting}, waiting=waiting), token=TOKEN) as server:
        answers = []

        def post():
            answers.append(ask(server, "POST", "/v1/interventions", {"release_id": "w", "state": STATE}))

        threads = [threading.Thread(target=post) for _ in range(1 + waiting)]
        threads[0].start()
        assert Waiting.started.wait(10)
        for thread in threads[1:]:
            thread.start()
        busy = None
        for _ in range(200):  # until the waiting one has its place
            busy = ask(server, "GET", "/v1/health")
            if waiting == 0 or server_is_full(server):
                break
        assert busy is not None
        status, body, headers = ask(server, "POST", "/v1/interventions", {"release_id": "w", "state": STATE})
        assert (status, body["error"]["code"], headers["Retry-After"]) == (429, "busy", "1")
        Waiting.released.set()
        for thread in threads:
            thread.join(10)
        assert [answer[0] for answer in answers] == [200] * (1 + waiting)


def server_is_full(server):
    places = server._server.RequestHandlerClass.service._places
    if places.acquire(blocking=False):
        places.release()
        return False
    return True


class Failing(NoOpIntervention):
    """Fails as it is told to."""

    error: Exception = RuntimeError("planted-secret")

    def propose(self, state, context) -> InputPatch:
        raise self.error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError("planted-secret"), (500, "internal_error")),
        (AlgorithmOutputError("planted-secret"), (422, "algorithm_output")),
        (BudgetExceededError("planted-secret"), (422, "budget_exhausted")),
        (ValidationError("planted-secret"), (422, "execution_failed")),
    ],
)
def test_how_an_execution_fails_is_said_without_its_words(error, expected, capfd):
    def factory():
        Failing.error = error
        return Failing()

    with LoopbackServer(ToolkitService({"f": factory}), token=TOKEN) as server:
        answer = ask(server, "POST", "/v1/interventions", {"release_id": "f", "state": STATE})
    assert error_of(answer) == expected
    out, err = capfd.readouterr()
    assert "planted-secret" not in json.dumps(answer[1]) + out + err


@pytest.mark.parametrize("token", [None, "short", "x" * 23, "é" * 30, "a" * 23 + "\n"])
def test_a_weak_token_starts_nothing(token):
    with pytest.raises(ValueError, match="24"):
        LoopbackServer(default_service(), token=token)


def test_the_command_serves_until_it_is_interrupted_and_prints_nothing_of_a_request():
    environment = {**os.environ, "AGENTINPUTLAB_API_TOKEN": TOKEN}
    command = [sys.executable, "-c", "from agentinputlab.api import main; main()", "--port", "0"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        line = process.stdout.readline()
        address = re.search(r"127\.0\.0\.1:\d+", line)[0]
        connection = HTTPConnection(address, timeout=10)
        body = json.dumps({"release_id": "baseline.no_op", "state": {"query": "planted-secret"}})
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        connection.request("POST", "/v1/interventions", body, headers)
        assert connection.getresponse().status == 200
        connection.close()
        process.send_signal(2)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "planted-secret" not in line + out + err
    assert TOKEN not in line + out + err


def test_the_command_without_a_token_ends_with_2():
    environment = {name: value for name, value in os.environ.items() if name != "AGENTINPUTLAB_API_TOKEN"}
    command = [sys.executable, "-c", "from agentinputlab.api import main; main()"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("agentinputlab-serve: AGENTINPUTLAB_API_TOKEN")
