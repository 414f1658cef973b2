"""A live history hook may drop messages and rewrite two texts; everything else is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.official_arenas.protocol import OfficialArenaError
from workers.official_arenas.providers._live_history import transform_history

CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "name": "get_a", "arguments": {}}]}
RESULT = {"role": "tool", "content": "{}", "tool_call_id": "c1"}
HISTORY = [
    {"role": "system", "content": "policy"},
    {"role": "assistant", "content": "Hi!"},
    {"role": "user", "content": "Where is it?"},
    CALL,
    RESULT,
    {"role": "assistant", "content": "There."},
    {"role": "user", "content": "Thanks."},
]
LEFT = {"model_calls": 1, "input_tokens": 100, "output_tokens": None}


class Hook:
    def __init__(self, messages, usage=None, **surplus):
        self.answer = {"messages": messages, "usage": usage or {}, **surplus}

    def transform(self, messages, *, state, remaining_budget):
        return self.answer

    def fingerprint(self):
        return "f" * 64


def transformed(messages, usage=None, **surplus):
    return transform_history(Hook(messages, usage, **surplus), HISTORY, state={}, remaining_budget=LEFT)


def without(*indices):
    return [message for index, message in enumerate(HISTORY) if index not in indices]


def test_untouched_history_stays():
    result = transformed(HISTORY)
    assert result.kept == tuple(range(7))
    assert result.messages == tuple(HISTORY)


def test_call_and_result_go_together_and_two_texts_may_be_rewritten():
    shown = without(1, 3, 4)
    shown[0] = {**shown[0], "content": "shorter policy"}
    shown[1] = {**shown[1], "content": "Where is order 7?"}
    result = transformed(shown, {"model_calls": 1, "input_tokens": 100, "output_tokens": 10**9})
    assert result.kept == (0, 2, 5, 6)
    assert result.usage["model_calls"] == 1


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([], "non-empty list"),
        ("text", "non-empty list"),
        ([1], "must be objects"),
        (without(0), "must keep the system"),
        (without(2), "must keep the system"),
        (without(3), "result without its call"),
        (without(4), "call without its result"),
        ([*HISTORY, {"role": "user", "content": "new"}], "may only drop"),
        ([*HISTORY[:5], HISTORY[6], HISTORY[5]], "may only drop"),
        ([*HISTORY, HISTORY[6]], "may only drop"),
        ([{**HISTORY[0], "content": " "}, *HISTORY[1:]], "may only drop"),
        ([{**HISTORY[0], "name": "x"}, *HISTORY[1:]], "may only drop"),
        ([*HISTORY[:6], {**HISTORY[6], "content": "Cancel it."}], "may only drop"),
    ],
)
def test_history_that_says_something_else_is_refused(messages, message):
    with pytest.raises(OfficialArenaError, match=message):
        transformed(messages)


@pytest.mark.parametrize(
    ("usage", "message"),
    [
        ({"tool_calls": 1}, "may not use tools"),
        ({"retrieval_calls": 1}, "may not use tools"),
        ({"model_calls": 2}, "used 2 model_calls, left were 1"),
        ({"input_tokens": 101}, "left were 100"),
        ({"model_calls": -1}, "Usage"),
    ],
)
def test_hook_shares_the_caps(usage, message):
    with pytest.raises(OfficialArenaError, match=message):
        transformed(HISTORY, usage)


def test_answer_has_exactly_two_fields():
    with pytest.raises(OfficialArenaError, match="exactly messages and usage"):
        transformed(HISTORY, surplus=1)


def test_hook_cannot_change_the_history_it_was_given():
    class Vandal(Hook):
        def transform(self, messages, *, state, remaining_budget):
            messages[6]["content"] = "Cancel it."
            return {"messages": messages, "usage": {}}

    with pytest.raises(OfficialArenaError, match="may only drop"):
        transform_history(Vandal([]), HISTORY, state={}, remaining_budget=LEFT)


@given(st.sets(st.sampled_from([1, 5, 6])), st.booleans())
def test_any_balanced_selection_is_accepted_in_order(dropped, drop_call):
    gone = dropped | ({3, 4} if drop_call else set())
    assert transformed(without(*gone)).kept == tuple(index for index in range(7) if index not in gone)
