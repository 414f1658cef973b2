"""Requests and responses of language models."""

import dataclasses

import pytest

from agentinputlab.backends.llm import (
    CallableBackend,
    GenerationRequest,
    GenerationResponse,
    LLMBackend,
    ReplayBackend,
    Usage,
    require_capabilities,
)
from agentinputlab.backends.tokens import count_prompt_tokens, count_tokens, first_tokens
from agentinputlab.contracts import AlgorithmOutputError, ArtifactError, CapabilityError, Message, ValidationError

ANSWER = GenerationResponse(text="Paris", model="recorded", finish_reason="stop", usage=Usage(3, 1))


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"prompt": " "}, "prompt"),
        ({"prompt": 3}, "prompt"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"seed": 1.0}, "seed"),
        ({"stop": "x"}, "stop"),
        ({"logprobs": 1}, "logprobs"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 0}, "top_logprobs"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"tools": [{"type": "function"}]}, r"tools\[0\]"),
        ({"messages": [{"role": "robot", "content": "x"}]}, r"messages\[0\].role"),
        ({"messages": [{"role": "user"}]}, r"messages\[0\]"),
        ({"messages": [{"role": "user", "content": "x", "mood": 1}]}, "mood"),
        ({"metadata": {1: 2}}, "metadata"),
    ],
)
def test_a_wrong_field_of_a_request_is_named(fields, named):
    with pytest.raises(ValidationError, match=named):
        GenerationRequest(**{"prompt": "hello", **fields})


def test_the_hash_of_a_request_changes_with_every_field():
    base = GenerationRequest("hello")
    others = {
        "prompt": "hallo",
        "messages": [Message("user", "first")],
        "system": "s",
        "temperature": 0.5,
        "max_tokens": 5,
        "seed": 0,
        "stop": ("x",),
        "logprobs": True,
        "response_format": {"type": "json_object"},
        "tools": [{"type": "function", "function": {"name": "f"}}],
        "metadata": {"stage": 1},
    }
    hashes = {dataclasses.replace(base, **{name: value}).request_hash for name, value in others.items()}
    hashes.add(dataclasses.replace(base, logprobs=True, top_logprobs=2).request_hash)
    assert len(hashes | {base.request_hash}) == len(others) + 2
    assert GenerationRequest("hello").request_hash == base.request_hash


def test_a_request_shows_no_text_when_it_is_printed():
    request = GenerationRequest("secret prompt", messages=[Message("user", "secret message")], system="secret system")
    response = dataclasses.replace(ANSWER, text="secret answer", raw={"x": "secret raw"})
    assert "secret" not in repr(request) + repr(response)


def test_changing_the_callers_messages_afterwards_changes_nothing():
    messages = [{"role": "user", "content": "first"}]
    request = GenerationRequest("hello", messages=messages)
    before = request.request_hash
    messages[0]["content"] = "second"
    assert request.request_hash == before


def test_unknown_usage_is_no_usage():
    for fields in ({"input_tokens": -1}, {"output_tokens": True}, {"cost_usd": float("inf")}):
        with pytest.raises(ValidationError):
            Usage(**{"input_tokens": 1, "output_tokens": 1, **fields})


def test_a_backend_is_not_asked_for_what_it_cannot_do():
    backend = CallableBackend(lambda _: "x", model_id="m", revision="1", callable_id="f", capabilities=["chat"])
    with pytest.raises(CapabilityError, match="json_object, seed"):
        backend.generate(GenerationRequest("hello", seed=1, response_format={"type": "json_object"}))
    assert backend.calls == []
    with pytest.raises(ValidationError, match="telepathy"):
        require_capabilities(backend, ["telepathy"])


def test_a_function_that_gives_a_text_has_its_tokens_counted():
    backend = CallableBackend(lambda request: request.prompt * 2, model_id="m", revision="1", callable_id="f")
    response = backend.generate(GenerationRequest("Hi, you!", system="Be kind."))
    assert (response.text, response.usage) == ("Hi, you!Hi, you!", Usage(4 + 3, 8))
    assert isinstance(backend, LLMBackend)
    assert [request.prompt for request in backend.calls] == ["Hi, you!"]


def test_a_function_that_gives_no_text_is_an_error():
    backend = CallableBackend(lambda _: None, model_id="m", revision="1", callable_id="f")
    with pytest.raises(AlgorithmOutputError, match="NoneType"):
        backend.generate(GenerationRequest("x"))


def test_the_fingerprint_of_a_function_is_its_name_and_revision():
    def backend(revision):
        return CallableBackend(lambda _: "x", model_id="m", revision=revision, callable_id="f")

    assert backend("1").fingerprint() == backend("1").fingerprint() != backend("2").fingerprint()
    with pytest.raises(ValidationError, match="revision"):
        backend(" ")


def test_recorded_answers_come_once_and_in_order():
    backend = ReplayBackend([ANSWER, dataclasses.replace(ANSWER, text="Rome")])
    assert [backend.generate(GenerationRequest("x")).text for _ in range(2)] == ["Paris", "Rome"]
    with pytest.raises(ArtifactError, match="all 2 recorded answers are used up"):
        backend.generate(GenerationRequest("x"))


def test_a_recorded_answer_is_kept_from_another_request():
    request = GenerationRequest("capital of France?")
    backend = ReplayBackend([ANSWER], strict_request_hashes=[request.request_hash])
    with pytest.raises(ArtifactError, match="belongs to request"):
        backend.generate(GenerationRequest("capital of Italy?"))
    assert backend.remaining == 1
    assert backend.generate(request) == ANSWER
    with pytest.raises(ValidationError, match="as many as"):
        ReplayBackend([ANSWER], strict_request_hashes=[request.request_hash] * 2)


def test_tokens_are_words_and_punctuation():
    assert count_tokens("Order #W12, please!") == 6
    assert count_tokens(" \n") == 0
    assert first_tokens("a b, c", 3) == "a b,"
    assert first_tokens("a b", 5) == "a b"
    call = {"id": "1", "type": "function", "function": {"name": "get", "arguments": '{"a": 1}'}}
    assert count_prompt_tokens([{"role": "assistant", "content": None, "tool_calls": [call]}]) == 1 + 7
