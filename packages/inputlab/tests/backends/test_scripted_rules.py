"""Scripts of a model: what they answer, and what is refused in them."""

import json

import pytest

from agentinputlab.backends.llm import GenerationRequest, ScriptedBackend
from agentinputlab.backends.scripted import MAX_PATTERN_CHARACTERS, NoRuleFitsError, load_rules, parse_rules
from agentinputlab.contracts import ValidationError

TOOL = {"type": "function", "function": {"name": "get_order", "parameters": {"type": "object"}}}


def ask(rules, prompt="hello", **fields):
    return ScriptedBackend(parse_rules({"rules": rules})).generate(GenerationRequest(prompt, **fields))


def test_the_first_rule_that_fits_answers():
    rules = [
        {"when": {"system": "pirate"}, "reply": "Arr"},
        {"when": {"last_user": "hel+o"}, "reply": "Hi"},
        {"reply": "?"},
    ]
    assert ask(rules, system="You are a PIRATE").text == "Arr"
    assert ask(rules).text == "Hi"
    assert ask(rules, "bye").text == "?"


@pytest.mark.parametrize(
    ("condition", "fits"),
    [
        ({"any": "first"}, True),
        ({"last_user": "first"}, False),
        ({"last": "second"}, True),
        ({"last_role": "user"}, True),
        ({"last_role": "tool"}, False),
        ({"turn": 2}, True),
        ({"turn": 1}, False),
        ({"call": 1}, True),
        ({"call": 2}, False),
        ({"model": "scripted"}, True),
        ({"model": "other"}, False),
        ({"tools_offered": True}, True),
        ({"tools_offered": False}, False),
        ({"any": "first", "turn": 1}, False),
    ],
)
def test_every_condition_holds_exactly_when_it_says(condition, fits):
    messages = [{"role": "user", "content": "first"}, {"role": "assistant", "content": "yes"}]
    rules = [{"when": condition, "reply": "fits"}, {"reply": "does not"}]
    assert (ask(rules, "second", messages=messages, tools=[TOOL]).text == "fits") is fits


def test_captured_texts_go_into_replies_and_arguments_and_are_not_read_again():
    rules = [
        {
            "when": {"last_user": r"order (?P<order>\S+) of (\w+)"},
            "reply": "${order} for ${last_user.2}, answer ${turn} of ${model}; $${literal}",
            "tool_calls": [{"name": "get_order", "arguments": {"ids": ["${order}"], "deep": {"n": 1}}}],
        }
    ]
    response = ask(rules, "order ${model} of Ann")
    assert response.text == "${model} for Ann, answer 1 of scripted; ${literal}"
    call = response.tool_calls[0]
    assert json.loads(call["function"]["arguments"]) == {"ids": ["${model}"], "deep": {"n": 1}}
    assert (response.finish_reason, call["function"]["name"]) == ("tool_calls", "get_order")


def test_tool_calls_of_one_conversation_have_distinct_ids():
    rules = [{"tool_calls": [{"name": "a"}, {"name": "b"}]}]
    first = ask(rules)
    answers = [{"role": "tool", "content": "1", "tool_call_id": call["id"]} for call in first.tool_calls]
    second = ask(rules, messages=[{"role": "user", "content": "x"}, first.message, *answers])
    assert len({call["id"] for call in (*first.tool_calls, *second.tool_calls)}) == 4


def test_arguments_can_be_wrong_json_on_purpose():
    assert (
        ask([{"tool_calls": [{"name": "a", "arguments": "{oops"}]}]).tool_calls[0]["function"]["arguments"] == "{oops"
    )


def test_a_reply_ends_where_the_request_says():
    rules = [{"reply": "one two three END four"}]
    short = ask(rules, max_tokens=2)
    assert (short.text, short.finish_reason, short.usage.output_tokens) == ("one two", "length", 2)
    assert ask(rules, stop=("END",)).text == "one two three "


def test_a_request_that_no_rule_fits_is_refused_without_being_quoted():
    with pytest.raises(NoRuleFitsError, match=r"request 1 .*last message by user") as error:
        ask([{"when": {"any": "never"}, "reply": "x"}], "my secret")
    assert "secret" not in str(error.value)


def test_a_message_that_is_too_long_to_be_searched_is_refused():
    with pytest.raises(Exception, match=r"messages\[0\].content has 1000001 characters"):
        ask([{"reply": "x"}], "x" * 1_000_001)


def test_the_fingerprint_follows_the_script():
    def backend(reply):
        return ScriptedBackend(parse_rules({"rules": [{"reply": reply}]}))

    assert backend("a").fingerprint() == backend("a").fingerprint() != backend("b").fingerprint()


@pytest.mark.parametrize(
    ("rule", "place"),
    [
        ({}, r"rules\[0\] must have reply"),
        ({"reply": 3}, r"rules\[0\].reply"),
        ({"reply": "x", "colour": "red"}, "colour"),
        ({"reply": "x", "when": {"mood": "x"}}, "mood"),
        ({"reply": "x", "when": {"any": "("}}, r"rules\[0\].when.any is no regular expression"),
        ({"reply": "x", "when": {"any": "x" * (MAX_PATTERN_CHARACTERS + 1)}}, r"rules\[0\].when.any must have at most"),
        ({"reply": "x", "when": {"call": 0}}, r"rules\[0\].when.call"),
        ({"reply": "x", "when": {"tools_offered": "yes"}}, r"rules\[0\].when.tools_offered"),
        ({"reply": "x", "when": {"last_role": "cat"}}, r"rules\[0\].when.last_role"),
        ({"reply": "x", "when": {"any": "(?P<a>x)", "last": "(?P<a>y)"}}, "the name 'a'"),
        ({"reply": "${who}"}, r"rules\[0\].reply uses \$\{who\}"),
        ({"tool_calls": [{"name": "f", "arguments": {"a": "${any.1}"}}]}, r"tool_calls\[0\].arguments uses"),
        ({"tool_calls": [{"arguments": {}}]}, r"tool_calls\[0\] lacks"),
        ({"tool_calls": [{"name": "f", "arguments": 3}]}, r"tool_calls\[0\].arguments"),
        ({"tool_calls": {"name": "f"}}, "tool_calls must be a list"),
        ({"error": {"status": 200}}, r"rules\[0\].error.status"),
        ({"error": {"body": "x"}}, "lacks the field 'status'"),
        ({"error": {"status": 500}, "reply": "x"}, "cannot both"),
        ({"error": {"status": 500}, "fault": "truncated"}, "both error and fault"),
        ({"fault": "gremlins"}, r"rules\[0\].fault"),
        ({"fault": "http_error"}, r"rules\[0\].fault"),
        ({"reply": "x", "delay_seconds": -1}, r"rules\[0\].delay_seconds"),
        ({"reply": "x", "finish_reason": "bored"}, r"rules\[0\].finish_reason"),
    ],
)
def test_a_wrong_rule_is_named_by_its_place(rule, place):
    with pytest.raises(ValidationError, match=place):
        parse_rules({"rules": [rule]})


@pytest.mark.parametrize(
    "script", [[], {"rules": []}, {"rules": "x"}, {"model": " ", "rules": [{"reply": "x"}]}, {"x": 1}]
)
def test_what_is_no_script_is_refused(script):
    with pytest.raises(ValidationError):
        parse_rules(script)


def test_yaml_and_json_files_say_the_same(tmp_path):
    (tmp_path / "a.yaml").write_text(
        "model: shop\nrules:\n  - when: {last_user: 'h.'}\n    reply: Hi\n  - reply: What?\n"
    )
    script = {"model": "shop", "rules": [{"when": {"last_user": "h."}, "reply": "Hi"}, {"reply": "What?"}]}
    (tmp_path / "a.json").write_text(json.dumps(script))
    one, two = load_rules(tmp_path / "a.yaml"), load_rules(tmp_path / "a.json")
    assert (one.model, one.rules_hash) == (two.model, two.rules_hash) == ("shop", parse_rules(script).rules_hash)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.yaml", "rules:\n- reply: a\n  reply: b\n", "line 2 has the key 'reply' twice"),
        ("a.yaml", "rules: [&x {reply: a}, *x]\n", "alias"),
        ("a.yaml", "rules: [\n", "not YAML"),
        ("a.yaml", "rules: [{reply: !!python/object/apply:os.getcwd []}]\n", "not YAML"),
        ("a.yaml", "[" * 5000, "not YAML"),
        ("a.yaml", "\udcff", "not YAML"),
        ("a.json", '{"rules": [], "rules": []}', "twice"),
        ("a.json", "{", "not JSON"),
        ("a.yaml", "rules: [{reply: 2020-01-01}]\n", r"rules\[0\].reply"),
        ("a.yaml", "", "must be an object"),
    ],
)
def test_a_file_that_is_no_script_is_named(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(ValidationError, match=said) as error:
        load_rules(tmp_path / name)
    assert name in str(error.value)
