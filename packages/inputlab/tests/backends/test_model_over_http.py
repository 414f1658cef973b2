"""The HTTP backend against real servers: good answers, every injected fault, and servers that mean harm."""

import base64
import json
import traceback

import pytest

from agentinputlab.backends.chat import ChatRefusalError
from agentinputlab.backends.llm import (
    ContextLengthExceededError,
    GenerationRequest,
    LLMBackend,
    OpenAICompatibleBackend,
    OpenAICompatibleError,
    OpenAICompatibleResponseError,
    OpenAICompatibleTransportError,
    ScriptedBackend,
)
from agentinputlab.backends.scripted import parse_rules
from agentinputlab.contracts import CapabilityError, ValidationError
from agentinputlab.model_server import ChatServer

KEY = "sk-planted-0123456789/+abc"
GOOD = {
    "model": "m",
    "choices": [{"message": {"role": "assistant", "content": "Paris"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1},
}
REQUEST = GenerationRequest("capital of France? my-private-question", seed=1)


def backend(base_url, **fields):
    return OpenAICompatibleBackend(
        "m", base_url, {"revision": "r1"}, **{"api_key": KEY, "timeout_seconds": 5, **fields}
    )


def everything_said(error):
    """All that a console or a log could show of an error, its causes and contexts included."""
    return "".join(traceback.format_exception(error)) + repr(error.__cause__) + repr(error.__context__)


def changed(**fields):
    return json.dumps(GOOD | fields).encode()


def with_content(text):
    return changed(choices=[{"message": {"content": text}, "finish_reason": "stop"}])


def test_an_answer_comes_back_with_its_usage_and_its_tool_calls():
    rules = parse_rules(
        {"rules": [{"when": {"tools_offered": True}, "tool_calls": [{"name": "f"}]}, {"reply": "Hi é"}]}
    )
    tool = {"type": "function", "function": {"name": "f"}}
    with ChatServer(rules.respond, token=KEY) as server:
        model = backend(server.base_url)
        assert isinstance(model, LLMBackend)
        for request in (REQUEST, GenerationRequest("x", tools=[tool], system="s", stop=("q",))):
            assert model.generate(request) == ScriptedBackend(rules, model_id="m").generate(request)
    assert (server.counts.answered, server.counts.requests) == (2, 2)


def test_500_whose_body_contains_the_key_gives_an_error_without_the_body_and_no_second_attempt(raw_server, http):
    body = f"stack trace with {KEY} and my-private-question".encode()
    with raw_server(http(body, status="500 Oops")) as server:
        with pytest.raises(OpenAICompatibleTransportError) as error:
            backend(server.base_url).generate(REQUEST)
        assert len(server.requests) == 1
    assert str(error.value) == "model endpoint answered with HTTP status 500"
    assert error.value.http_status == 500
    said = everything_said(error.value)
    assert KEY not in said
    assert "stack trace with" not in said
    assert "127.0.0.1" not in said.replace("File", "")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (changed(usage=None), "usage is missing"),
        (changed(usage={"prompt_tokens": 3}), "usage.completion_tokens"),
        (changed(usage={"prompt_tokens": True, "completion_tokens": 1}), "usage.prompt_tokens"),
        (changed(usage={"prompt_tokens": 3, "completion_tokens": -1}), "usage.completion_tokens"),
        (changed(usage={"prompt_tokens": 3, "completion_tokens": 1.0}), "usage.completion_tokens"),
        (changed(choices=[]), "choices"),
        (changed(choices=[{"message": {"content": None}, "finish_reason": "stop"}]), "neither content nor"),
        (changed(choices=[{"message": {"content": 3}, "finish_reason": "stop"}]), "content is not a string"),
        (changed(choices=[{"message": {"content": "x"}}]), "finish_reason"),
        (
            changed(choices=[{"message": {"tool_calls": [{"id": "1"}]}, "finish_reason": "x"}]),
            r"tool_calls\[0\].function",
        ),
        (b'{"model": "a", "model": "b"}', "strict JSON"),
        (json.dumps(GOOD).encode()[:-1], "strict JSON"),
        (b"[" * 5000 + b"]" * 5000, "strict JSON"),
        (b'{"usage": NaN}', "strict JSON"),
        (b"\xff", "strict JSON"),
        (b"[]", "the response is missing or not an object"),
    ],
)
def test_an_answer_that_lacks_something_is_an_error_never_a_default(raw_server, http, answer, problem):
    with raw_server(http(answer)) as server:
        with pytest.raises(OpenAICompatibleResponseError, match=problem):
            backend(server.base_url).generate(REQUEST)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        with_content(f"your key is {KEY}"),
        with_content(KEY).replace(b"planted", rb"\u0070lanted"),
        with_content(KEY).replace(b"/", rb"\/"),
        with_content(json.dumps({"k": KEY}).replace("sk-", "\\u0073k-")),
        with_content(json.dumps(json.dumps({"k": KEY}).replace("sk-", "\\u0073k-"))),
        with_content(KEY.replace("/", "%2F").replace("+", "%2B")),
        with_content(KEY.replace("-", "&#45;")),
        with_content(base64.b64encode(KEY.encode()).decode()),
        changed(**{KEY: 1}),
        changed(model=KEY),
        f"no JSON but {KEY}".encode(),
    ],
)
def test_an_answer_that_repeats_the_key_is_refused_in_every_spelling(raw_server, http, answer):
    with raw_server(http(answer)) as server, pytest.raises(OpenAICompatibleResponseError) as error:
        backend(server.base_url).generate(REQUEST)
    assert str(error.value) == "model endpoint repeated the key in its answer"
    assert KEY not in everything_said(error.value)


def test_a_redirect_is_not_followed(raw_server, http):
    with raw_server(http(changed())) as target:
        answer = http(b"", status="307 Temporary Redirect", headers=[f"Location: {target.base_url}/chat/completions"])
        with raw_server(answer) as server, pytest.raises(OpenAICompatibleTransportError) as error:
            backend(server.base_url).generate(REQUEST)
        assert target.requests == []
    assert error.value.http_status == 307


def test_a_compressed_answer_is_refused(raw_server, http):
    with raw_server(http(b"x", headers=["Content-Encoding: gzip"])) as server:
        with pytest.raises(OpenAICompatibleResponseError, match="compressed"):
            backend(server.base_url).generate(REQUEST)
        assert b"accept-encoding: identity" in server.requests[0].lower()


def test_an_endless_answer_is_cut_off_at_16_mib(raw_server):
    head = b"HTTP/1.1 200 OK\r\n\r\n"
    with (
        raw_server(head, *[b" " * 2**20] * 40) as server,
        pytest.raises(OpenAICompatibleResponseError, match="longer than 16777216 bytes"),
    ):
        backend(server.base_url).generate(REQUEST)


@pytest.mark.parametrize("drop", [b"X: 1\r\n", b"\r\n "])
def test_an_answer_that_drips_in_ends_with_the_timeout(raw_server, drop):
    with raw_server(b"HTTP/1.1 200 OK\r\n", *[drop] * 100, pause=0.05) as server:
        with pytest.raises(OpenAICompatibleTransportError, match="in time"):
            backend(server.base_url, timeout_seconds=0.3).generate(REQUEST)
        assert len(server.requests) == 1


def test_a_text_that_cannot_be_sent_is_not_quoted(raw_server, http):
    with raw_server(http(changed())) as server:
        with pytest.raises(ValidationError, match="UTF-8") as error:
            backend(server.base_url).generate(GenerationRequest("secret \ud800"))
        assert server.requests == []
    assert "secret" not in str(error.value)
    assert error.value.__context__ is None


def test_nobody_listening_is_an_error_without_an_address(raw_server):
    with raw_server() as server:
        pass
    with pytest.raises(OpenAICompatibleTransportError) as error:
        backend(server.base_url).generate(REQUEST)
    assert error.value.http_status is None
    assert server.base_url not in everything_said(error.value)
    assert KEY not in everything_said(error.value)


def test_proxies_and_netrc_of_the_environment_are_not_used(raw_server, http, monkeypatch, tmp_path):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password planted\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with raw_server(http(changed())) as server:
        assert backend(server.base_url, api_key=None).generate(REQUEST).text == "Paris"
        assert b"authorization" not in server.requests[0].lower()


def test_the_key_comes_from_the_environment_when_the_call_is_made(raw_server, http, monkeypatch):
    with raw_server(http(changed())) as server:
        model = backend(server.base_url, api_key=None, api_key_env="MY_KEY", extra_headers={"X-Team": "a"})
        monkeypatch.setenv("MY_KEY", KEY)
        model.generate(REQUEST)
    assert f"authorization: bearer {KEY}".lower().encode() in server.requests[0].lower()
    assert b"x-team: a" in server.requests[0].lower()
    assert KEY not in repr(model)


def test_what_is_sent_is_the_request_and_the_extra_fields(raw_server, http):
    with raw_server(http(changed())) as server:
        backend(server.base_url, extra_body={"top_k": 3}).generate(REQUEST)
    assert json.loads(server.requests[0].partition(b"\r\n\r\n")[2]) == {
        "model": "m",
        "messages": [{"role": "user", "content": REQUEST.prompt}],
        "temperature": 0.0,
        "max_tokens": 512,
        "seed": 1,
        "top_k": 3,
    }


FAULTS = [
    {"error": {"status": 503, "body": {"error": {"message": f"{KEY}"}}}},
    {"fault": "drop_connection"},
    {"fault": "truncated", "reply": "a long enough answer"},
    {"fault": "malformed_json", "reply": "x"},
    {"fault": "missing_usage", "reply": "x"},
    {"fault": "oversized_body"},
    {"fault": "key_echo", "reply": "here you are: "},
]


@pytest.mark.parametrize("rule", FAULTS, ids=lambda rule: rule.get("fault", "error"))
def test_an_injected_fault_is_the_same_exception_over_http_and_in_this_process(rule):
    rules = parse_rules({"rules": [rule]})
    with ChatServer(rules.respond, token=KEY) as server, pytest.raises(OpenAICompatibleError) as over_http:
        backend(server.base_url).generate(REQUEST)
    with pytest.raises(OpenAICompatibleError) as in_process:
        ScriptedBackend(rules).generate(REQUEST)
    assert type(over_http.value) is type(in_process.value)
    assert getattr(over_http.value, "http_status", 0) == getattr(in_process.value, "http_status", 0)
    assert KEY not in everything_said(over_http.value)
    assert (server.counts.requests, server.counts.faults) == (1, 1)


def test_no_rule_is_status_404_over_http():
    rules = parse_rules({"rules": [{"when": {"any": "never"}, "reply": "x"}]})
    with ChatServer(rules.respond) as server, pytest.raises(OpenAICompatibleTransportError) as over_http:
        backend(server.base_url).generate(REQUEST)
    with pytest.raises(ChatRefusalError):
        ScriptedBackend(rules).generate(REQUEST)
    assert over_http.value.http_status == 404


def test_a_request_beyond_the_capabilities_is_never_sent(raw_server, http):
    with raw_server(http(changed())) as server:
        with pytest.raises(CapabilityError, match="seed"):
            backend(server.base_url, capabilities=["chat"]).generate(REQUEST)
        assert server.requests == []


@pytest.mark.parametrize(
    "url",
    [
        "localhost:80/v1",
        "ftp://localhost/v1",
        "http:///v1",
        "http://me:planted@localhost/v1",
        "http://localhost/v1?key=planted",
        "http://localhost/v1#x",
        "http://localhost/v1/chat/completions",
        "http://localhost/v1/chat/completions/",
        "http://local host/v1",
        "http://localhost:99999/v1",
        "http://[::1/v1",
        "",
    ],
)
def test_a_wrong_address_is_refused_without_being_quoted(url):
    with pytest.raises(ValidationError, match="base_url") as error:
        backend(url)
    assert "planted" not in str(error.value)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"api_key": ""}, "api_key"),
        ({"api_key": "a\r\nX: 1"}, "api_key"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"extra_headers": {"Authorization": "planted"}}, "Authorization"),
        ({"extra_headers": {"X-Api-Key": "planted"}}, "X-Api-Key"),
        ({"extra_headers": {"Cookie": "planted"}}, "Cookie"),
        ({"extra_headers": {"Host": "planted"}}, "Host"),
        ({"extra_headers": {"X-A": "a\r\nplanted: 1"}}, "X-A"),
        ({"extra_headers": {"X A": "a"}}, "extra_headers"),
        ({"extra_body": {"temperature": 1}}, "temperature"),
        ({"extra_body": {"stream": True}}, "stream"),
        ({"capabilities": ["telepathy"]}, "telepathy"),
    ],
)
def test_a_wrong_argument_is_named_and_no_secret_quoted(fields, named):
    with pytest.raises(ValidationError, match=named) as error:
        backend("http://127.0.0.1/v1", **fields)
    assert "planted" not in str(error.value)
    with pytest.raises(ValidationError, match="revision"):
        OpenAICompatibleBackend("m", "http://127.0.0.1/v1", {})


def test_the_fingerprint_names_the_deployment_not_the_port():
    one, two = backend("http://127.0.0.1:1/v1"), backend("http://127.0.0.1:2/v1", api_key="other")
    assert one.fingerprint() == two.fingerprint()
    other = OpenAICompatibleBackend("m", "http://127.0.0.1:1/v1", {"revision": "r2"})
    assert other.fingerprint() != one.fingerprint()


LONG = "This model's maximum context length is 8192 tokens. my-private-question"


@pytest.mark.parametrize(
    ("refusal", "is_about_length"),
    [
        ({"error": {"message": "x", "code": "context_length_exceeded"}}, True),
        ({"error": {"message": "x", "code": 400, "type": "exceed_context_size_error"}}, True),
        ({"object": "error", "message": LONG, "code": 400}, True),
        ({"error": {"message": "tools are beyond me", "code": "unsupported_value"}}, False),
        ({"error": "context_length_exceeded"}, False),
        ({"error": {"code": ["context_length_exceeded"], "message": 3}}, False),
        ([], False),
        ({"error": {"code": "context_length_exceeded", "message": "x" * 70_000}}, False),
    ],
)
def test_a_request_that_is_too_long_for_the_model_has_its_own_error(raw_server, http, refusal, is_about_length):
    with raw_server(http(json.dumps(refusal).encode(), status="400 Bad Request")) as server:
        with pytest.raises(OpenAICompatibleTransportError) as error:
            backend(server.base_url).generate(REQUEST)
        assert len(server.requests) == 1
    assert isinstance(error.value, ContextLengthExceededError) == is_about_length
    assert error.value.http_status == 400
    assert "my-private-question" not in everything_said(error.value)


def test_a_refusal_without_a_readable_reason_is_a_refusal(raw_server, http):
    whole = http(b'{"error": {"code": "context_length_exceeded"}}', status="400 Bad Request")
    for answer in (whole[:-5], http(b"no JSON", status="400 Bad Request")):
        with raw_server(answer) as server, pytest.raises(OpenAICompatibleTransportError) as error:
            backend(server.base_url).generate(REQUEST)
        assert str(error.value) == "model endpoint answered with HTTP status 400"
