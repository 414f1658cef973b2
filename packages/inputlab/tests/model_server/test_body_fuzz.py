"""Whatever is sent or scripted, it is understood or refused; nothing falls over."""

import json
import string
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentinputlab.backends.chat import ChatRefusalError, completion_body
from agentinputlab.backends.scripted import ScriptedRules, parse_rules
from agentinputlab.contracts import ValidationError
from agentinputlab.model_server._bodies import _FIELDS, checked_body
from agentinputlab.model_server._render import stream_events

RULES = parse_rules({"rules": [{"when": {"last_user": "a(.*)"}, "reply": "${last_user.1}"}, {"reply": "b"}]})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def objects(required, **optional):
    return st.fixed_dictionaries(required, optional=optional)


FUNCTIONS = objects({}, name=st.text(max_size=3) | JSON, arguments=st.text(max_size=3) | JSON, parameters=JSON)
CALLS = objects({}, id=st.text(max_size=3) | JSON, type=st.just("function"), function=FUNCTIONS | JSON)
PARTS = st.lists(objects({"type": st.just("text")}, text=st.text(max_size=3) | JSON), max_size=2)
MESSAGES = objects(
    {"role": st.sampled_from(["system", "user", "assistant", "tool"]) | JSON},
    content=st.text(max_size=5) | PARTS | JSON,
    tool_calls=st.lists(CALLS, max_size=2) | JSON,
    tool_call_id=st.text(max_size=3) | JSON,
)
TOOLS = st.lists(objects({"type": st.just("function")}, function=FUNCTIONS | JSON), max_size=2)
GOOD_MESSAGES = st.lists(
    objects({"role": st.sampled_from(["system", "user", "assistant"]), "content": st.text(max_size=5) | PARTS}),
    min_size=1,
    max_size=3,
)
GOOD = objects(
    {"model": st.text("ab", min_size=1), "messages": GOOD_MESSAGES},
    stop=st.text(min_size=1, max_size=2),
    max_tokens=st.integers(1, 5),
)
ODD = st.dictionaries(st.sampled_from(list(_FIELDS)), JSON | st.lists(MESSAGES, max_size=2) | TOOLS, max_size=2)
BODIES = st.builds(lambda good, odd: good | odd, GOOD, ODD) | GOOD


@settings(max_examples=150)
@given(BODIES | JSON)
def test_a_body_is_refused_by_field_or_answered_in_both_ways(value):
    refusal, body = None, {}
    try:
        body = checked_body(value)
    except ChatRefusalError as error:
        refusal = error
    if refusal is not None:
        assert (refusal.status, bool(refusal.param)) == (400, True)
        return
    completion = completion_body(RULES.respond(body), body)
    assert completion["usage"]["total_tokens"] >= 0
    streamed = [
        json.loads(event[6:]) for event in stream_events(completion, include_usage=True) if b"[DONE]" not in event
    ]
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in streamed if chunk["choices"])
    assert text == (completion["choices"][0]["message"]["content"] or "")


CONDITIONS = st.dictionaries(
    st.sampled_from(["any", "last", "call", "turn", "tools_offered", "last_role"]) | st.text(), JSON
)
ACTIONS = ["name", "when", "reply", "tool_calls", "finish_reason", "delay_seconds", "error", "fault"]
SCRIPTS = st.lists(
    st.dictionaries(st.sampled_from(ACTIONS), JSON | st.text(string.printable, max_size=6), max_size=4)
    | st.fixed_dictionaries({"reply": st.text(max_size=8), "when": CONDITIONS}),
    max_size=3,
)


@settings(max_examples=150)
@given(st.fixed_dictionaries({"rules": SCRIPTS}) | JSON)
def test_a_script_is_understood_or_refused_with_a_sentence(value):
    with suppress(ValidationError):
        assert isinstance(parse_rules(value), ScriptedRules)


def test_a_script_nested_without_end_is_refused():
    deep = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(ValidationError, match="deep"):
        parse_rules({"rules": [{"tool_calls": [{"name": "f", "arguments": {"a": deep}}]}]})
