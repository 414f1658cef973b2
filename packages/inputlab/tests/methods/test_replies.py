"""Reading what a model answered: the form that was asked for, or an error that never repeats the answer."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentinputlab.algorithms._replies import MAX_REPLY_CHARACTERS, Reply
from agentinputlab.contracts import AlgorithmOutputError

SECRET = "zebra-4711"

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text("abc", max_size=3), children, max_size=3),
    max_leaves=8,
)


def reply(text):
    return Reply("plan.some.release", "stage_1", text)


def test_text_is_stripped():
    assert reply("  a passage\n").text() == "a passage"


@pytest.mark.parametrize("text", ["", "   \n\t", "x" * (MAX_REPLY_CHARACTERS + 1), "half \ud800"])
def test_text_that_is_none_is_refused_with_release_and_stage(text):
    with pytest.raises(AlgorithmOutputError, match=r"plan\.some\.release: the reply of stage 'stage_1'"):
        reply(text).text()


def test_a_line_is_exactly_one_line():
    assert reply("\nWhat is the capital?\n").line() == "What is the capital?"
    with pytest.raises(AlgorithmOutputError, match="must be one line, got 2"):
        reply("one\ntwo").line()


def test_lines_lose_their_numbers_and_bullets_but_not_their_own_digits():
    text = "1. look up\n2) check\n(3) tell\n- 4 items\n* 5-star\n\n2026 was warm"
    assert reply(text).lines(at_most=6) == ("look up", "check", "tell", "4 items", "5-star", "2026 was warm")


def test_lines_outside_the_limits_are_refused():
    with pytest.raises(AlgorithmOutputError, match="must list 1 to 2 entries, got 3"):
        reply("a\nb\nc").lines(at_most=2)
    with pytest.raises(AlgorithmOutputError, match="must list 2 to 3 entries, got 1"):
        reply("a").lines(at_least=2, at_most=3)
    with pytest.raises(AlgorithmOutputError, match="4 characters in entry 2"):
        reply("a\nbbbb").lines(at_most=2, max_characters=3)


@pytest.mark.parametrize(
    "text",
    ['{"a": 1}', 'Sure:\n```json\n{"a": 1}\n```\nDone.', '```\n{"a": 1}\n```', 'Here it is: {"a": 1} - good luck'],
)
def test_a_json_object_is_found_in_fences_and_between_sentences(text):
    assert reply(text).json_object().only("a").integer("a", low=0, high=9) == 1


@pytest.mark.parametrize(
    "text",
    [
        "no object",
        "} {",
        '{"a": 1',
        '[1, {"a": 1}] {"b": 2}',
        '{"a": 1} {"b": 2}',
        f'{{"{SECRET}": 1, "{SECRET}": 2}}',
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a": "\\ud800"}',
        '{"a": ' + "[" * 30 + "]" * 30 + "}",
        '```json\n{"a": 1}\n```\n```json\n{"a": 2}\n```',
    ],
)
def test_what_two_readers_could_understand_differently_is_refused_without_being_quoted(text):
    with pytest.raises(AlgorithmOutputError) as caught:
        reply(text).json_object()
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), json_values, max_size=4))
def test_every_json_object_is_read_back(value):
    assert reply("Answer: " + json.dumps(value)).json_object().fields == value


def test_fields_are_read_with_their_type_and_named_with_their_path():
    found = reply(
        json.dumps(
            {
                "text": " hello ",
                "list": ["a", "b"],
                "rows": [{"n": 3}],
                "map": {"k": 1},
                "share": 0.25,
                "count": 2,
                "ids": [1, 2],
                "sure": True,
                "kind": "b",
            }
        )
    ).json_object()
    assert found.text("text") == "hello"
    assert found.texts("list", at_most=2) == ("a", "b")
    assert found.mapping("map") == {"k": 1}
    assert found.number("share", low=0, high=1) == 0.25
    assert found.integer("count", low=0, high=2) == 2
    assert found.integers("ids", low=1, high=2, at_most=2) == (1, 2)
    assert found.boolean("sure") is True
    assert found.choice("kind", ("a", "b")) == "b"
    (row,) = found.objects("rows", at_most=1)
    with pytest.raises(AlgorithmOutputError, match=r"integer from 0 to 1 in rows\[0\]\.n"):
        row.integer("n", low=0, high=1)


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda found: found.text("absent"), "lacks the field absent"),
        (lambda found: found.only("value", "absent"), "lacks the field absent"),
        (lambda found: found.only(), "must have exactly the fields"),
        (lambda found: found.text("value"), "must have text in value"),
        (lambda found: found.texts("value", at_most=1), "must have a list in value"),
        (lambda found: found.objects("value", at_most=1), "must have a list in value"),
        (lambda found: found.mapping("value"), "must have an object in value"),
        (lambda found: found.number("value", low=0, high=1), "must have a number"),
        (lambda found: found.integer("value", low=0, high=1), "must have an integer"),
        (lambda found: found.choice("value", ("a",)), "must have one of a in value"),
    ],
)
def test_a_boolean_is_neither_text_nor_number_nor_list(read, message):
    with pytest.raises(AlgorithmOutputError, match=message):
        read(reply('{"value": true}').json_object())


def test_errors_of_wrong_fields_do_not_quote_the_answer():
    found = reply(json.dumps({"kind": SECRET, "long": SECRET * 10})).json_object()
    for read in (
        lambda: found.choice("kind", ("a", "b")),
        lambda: found.number("kind", low=0, high=1),
        lambda: found.boolean("kind"),
        lambda: found.text("long", max_characters=5),
    ):
        with pytest.raises(AlgorithmOutputError) as caught:
            read()
        assert SECRET not in str(caught.value)
