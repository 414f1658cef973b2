"""The chat server as any client sees it, over a real socket."""

import json
import socket
import threading
import time

import httpx
import pytest

from agentinputlab.backends.scripted import parse_rules
from agentinputlab.contracts import ValidationError
from agentinputlab.model_server import ChatReply, ChatServer, ToolCall

HELLO = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


@pytest.fixture
def server():
    with ChatServer(lambda _: ChatReply("one  two\n three"), max_body_bytes=100_000) as running:
        yield running


def post(server, body, **headers):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.post(f"{server.base_url}/chat/completions", content=content, headers=headers, trust_env=False)


def events(response):
    lines = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_an_answer_has_the_shape_that_clients_expect(server):
    response = post(server, HELLO)
    body = response.json()
    assert response.status_code == 200
    assert body["object"] == "chat.completion"
    assert body["model"] == "m"
    assert body["choices"][0]["message"] == {"role": "assistant", "content": "one  two\n three"}
    assert body["choices"][0]["finish_reason"] == "stop"
    counts = {"prompt_tokens": 1, "completion_tokens": 3, "total_tokens": 4}
    assert body["usage"] == counts | {"token_counter": "agentinputlab.word_punctuation.v1"}


def test_the_same_request_gives_the_same_bytes(server):
    assert post(server, HELLO).content == post(server, HELLO).content


def test_a_stream_says_the_same_as_a_plain_answer(server):
    response = post(server, HELLO | {"stream": True, "stream_options": {"include_usage": True}})
    assert response.headers["content-type"].startswith("text/event-stream")
    chunks = events(response)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks[:-1]]
    assert deltas[0]["role"] == "assistant"
    assert "".join(delta.get("content") or "" for delta in deltas) == "one  two\n three"
    assert len(deltas) > 4
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert (chunks[-1]["choices"], chunks[-1]["usage"]["completion_tokens"]) == ([], 3)
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}


def test_a_stream_without_the_option_has_no_usage(server):
    assert not any("usage" in chunk for chunk in events(post(server, HELLO | {"stream": True})))


@pytest.mark.parametrize("text", ["", " ", "\n\na", "a ", "a\n", "é  ü"])
def test_no_blank_is_lost_in_a_stream(text):
    with ChatServer(lambda _: ChatReply(text)) as server:
        chunks = events(post(server, HELLO | {"stream": True}))
    assert "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks) == text


def test_tool_calls_come_whole_and_in_pieces():
    reply = ChatReply(tool_calls=(ToolCall("f", '{"a": 1}'), ToolCall("g", "{}", call_id="mine")))
    with ChatServer(lambda _: reply) as server:
        message = post(server, HELLO | {"tools": [TOOL]}).json()["choices"][0]["message"]
        chunks = events(post(server, HELLO | {"tools": [TOOL], "stream": True}))
    assert message["content"] is None
    assert [(call["id"], call["function"]["name"]) for call in message["tool_calls"]] == [
        ("call_1_1", "f"),
        ("mine", "g"),
    ]
    pieces = {}
    for chunk in chunks:
        for piece in chunk["choices"][0]["delta"].get("tool_calls", ()):
            whole = pieces.setdefault(piece["index"], {"arguments": ""})
            whole["arguments"] += piece["function"]["arguments"]
            whole["name"] = piece["function"].get("name", whole.get("name"))
    assert pieces == {0: {"name": "f", "arguments": '{"a": 1}'}, 1: {"name": "g", "arguments": "{}"}}
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"model": None}, "model"),
        ({"model": " "}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": "x", "mood": 1}]}, "messages[0].mood"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
        ({"messages": [{"role": "user", "content": "x", "tool_calls": []}]}, "messages[0].tool_calls"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"id": "1"}]}]}, "messages[0].tool_calls[0].function"),
        ({"temperature": 3}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"top_p": -1}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"n": 2}, "n"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": {"x": 1}}, "stream_options.x"),
        ({"stop": ["a"] * 5}, "stop"),
        ({"stop": [""]}, "stop[0]"),
        ({"seed": "1"}, "seed"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"type": "web"}]}, "tools[0].type"),
        ({"tool_choice": "maybe"}, "tool_choice"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_wrong_field_is_named_and_never_reaches_the_model(change, param):
    asked = []

    def respond(body):
        asked.append(body)
        return ChatReply("x")

    with ChatServer(respond) as server:
        response = post(server, HELLO | change)
    error = response.json()["error"]
    assert (response.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert asked == []
    assert (server.counts.requests, server.counts.refused) == (1, 1)


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b'{"model": "m", "model": "n"}', b"\xff", b'{"a": NaN}', b"[" * 500, b'{"\\ud800": 1}', b""]
)
def test_a_body_that_is_no_strict_json_object_is_refused(server, body):
    response = post(server, body)
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"


def test_contents_given_in_parts_are_joined():
    with ChatServer(lambda body: ChatReply(body["messages"][0]["content"])) as server:
        parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
        body = post(server, HELLO | {"messages": [{"role": "user", "content": parts}]}).json()
    assert body["choices"][0]["message"]["content"] == "one two"


def test_bodies_have_limits_and_a_type(server):
    assert post(server, HELLO | {"user": "x" * 100_000}).status_code == 413
    assert post(server, HELLO, Content_Type="text/plain").status_code == 415
    url = f"{server.base_url}/chat/completions"
    assert httpx.post(url, content=iter([b"{}"]), trust_env=False).status_code == 411
    assert post(server, HELLO, Content_Type="application/json; charset=utf-8").status_code == 200


def test_only_the_token_opens_the_door():
    with ChatServer(lambda _: ChatReply("x"), token="open-sesame") as server:
        assert post(server, HELLO).status_code == 401
        assert post(server, HELLO, Authorization="Bearer open").status_code == 401
        assert post(server, HELLO, Authorization="open-sesame").status_code == 401
        assert post(server, HELLO, Authorization="Bearer open-sesame").status_code == 200
        assert httpx.get(f"{server.base_url}/models", trust_env=False).status_code == 401
    assert server.counts.requests == 1


def test_models_are_listed_and_other_paths_are_not_there():
    with ChatServer(lambda _: ChatReply("x"), models=("a", "b")) as server:
        listed = httpx.get(f"{server.base_url}/models", trust_env=False).json()
        assert [row["id"] for row in listed["data"]] == ["a", "b"]
        assert httpx.get(server.base_url, trust_env=False).status_code == 404
        assert httpx.post(f"{server.base_url}/completions", json={}, trust_env=False).status_code == 404


def test_a_defect_of_the_model_is_status_500_and_shows_nothing(capfd):
    def respond(body):
        raise RuntimeError(f"secret {body}")

    with ChatServer(respond) as server:
        response = post(server, HELLO)
        assert post(server, HELLO).status_code == 500
    assert response.json()["error"]["message"] == "the model failed: RuntimeError"
    assert "secret" not in response.text
    assert capfd.readouterr() == ("", "")
    assert server.counts.failed == 2


def test_a_client_that_goes_away_leaves_no_word_and_the_server_running(capfd):
    release = threading.Event()

    def respond(_):
        release.wait(10)
        return ChatReply("word " * 200_000)

    with ChatServer(respond) as server:
        data = json.dumps(HELLO | {"stream": True}).encode()
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            head = (
                f"POST /v1/chat/completions HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
            )
            connection.sendall(f"{head}\r\n\r\n".encode() + data)
        release.set()
        assert post(server, HELLO).status_code == 200
        while server.counts.failed == 0:  # ends when the write to the lost client fails
            time.sleep(0.01)
    assert (server.counts.answered, server.counts.failed) == (1, 1)
    assert capfd.readouterr() == ("", "")


def test_many_clients_are_answered_at_once():
    barrier = threading.Barrier(8)

    def respond(_):
        barrier.wait(20)  # passes only when all eight are being answered
        return ChatReply("x")

    statuses = []
    with ChatServer(respond) as server:
        threads = [threading.Thread(target=lambda: statuses.append(post(server, HELLO).status_code)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert statuses == [200] * 8
    assert server.counts.answered == 8


def test_a_truncated_stream_has_no_end():
    rules = parse_rules({"rules": [{"reply": "one two three four", "fault": "truncated"}]})
    with ChatServer(rules.respond) as server, pytest.raises(httpx.RemoteProtocolError):
        post(server, HELLO | {"stream": True})


def test_a_server_ends_although_a_client_keeps_its_connection():
    with httpx.Client(trust_env=False) as client:
        with ChatServer(lambda _: ChatReply("x")) as server:
            client.get(f"{server.base_url}/models")
        with pytest.raises(httpx.TransportError):
            client.get(f"{server.base_url}/models")


@pytest.mark.parametrize("fields", [{"port": -1}, {"port": 65536}, {"token": ""}, {"token": "é"}, {"models": [""]}])
def test_a_wrong_argument_of_the_server_is_refused(fields):
    with pytest.raises(ValidationError, match=next(iter(fields))):
        ChatServer(lambda _: ChatReply("x"), **fields)
