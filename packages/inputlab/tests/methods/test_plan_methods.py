"""Planning methods against recorded models: what the agent gets to read, and what is refused."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentinputlab.algorithms.plan._soft_budget import SCHEDULES, divide_tokens
from agentinputlab.algorithms.plan.decomp import DecomposedPrompting, SubQuestionList
from agentinputlab.algorithms.plan.llm_compiler import ToolCallPlanner
from agentinputlab.algorithms.plan.plan_and_budget import CachedSoftBudget, LiveSoftBudget
from agentinputlab.algorithms.plan.plan_and_solve import (
    PLAN_HEADING,
    PLAN_REQUEST_PATTERN,
    PS_INSTRUCTION,
    PS_PLUS_INSTRUCTION,
    PlanAndSolvePlusPrompt,
    PlanAndSolvePrompt,
    PlanCall,
)
from agentinputlab.algorithms.plan.self_ask import SELF_ASK_INSTRUCTION, SelfAskLoop, SelfAskPrompt
from agentinputlab.contracts import (
    AlgorithmOutputError,
    ArtifactError,
    BudgetExceededError,
    ExecutionBudget,
    ExternalDependencyError,
    FrozenAgentState,
    InterventionContext,
    ValidationError,
)

STATE = FrozenAgentState(
    query="Exchange the lamp and return the desk.",
    instruction="You are a shop assistant.",
    tool_names=("get_order", "get_product", "exchange"),
)


def added_block(record):
    assert record.status == "success"
    return record.patch.apply(STATE).context[-1].text


# --- plan and solve -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "instruction"),
    [
        (PlanAndSolvePrompt(), PS_INSTRUCTION),
        (PlanAndSolvePlusPrompt(), PS_PLUS_INSTRUCTION),
        (SelfAskPrompt(), SELF_ASK_INSTRUCTION),
    ],
    ids=lambda value: getattr(value, "release_id", ""),
)
def test_prompt_releases_append_one_instruction_and_need_nothing(method, instruction):
    patch = method.propose(STATE, InterventionContext())
    assert patch.apply(STATE).instruction == f"You are a shop assistant.\n\n{instruction}"
    assert len(patch.operations) == 1
    assert patch.trace.counters == {}
    bare = FrozenAgentState(query="q")
    assert method.propose(bare, InterventionContext()).apply(bare).instruction == instruction


def test_requests_to_plan_are_recognised_by_one_rule_and_others_are_not():
    for text in (PS_INSTRUCTION, PS_PLUS_INSTRUCTION, f"{PLAN_HEADING}\n1. look", "Please DEVISE A PLAN for it"):
        assert re.search(PLAN_REQUEST_PATTERN, text.casefold())
    for text in (SELF_ASK_INSTRUCTION, "The payment plan of the customer", "plan b", STATE.instruction):
        assert not re.search(PLAN_REQUEST_PATTERN, text.casefold())


def test_a_plan_call_adds_numbered_steps(bench):
    record = bench.run(PlanCall(), STATE, "- look up the order\n- check the lamp\n- exchange and return")
    assert added_block(record) == (f"{PLAN_HEADING}\n1. look up the order\n2. check the lamp\n3. exchange and return")


def test_a_plan_with_too_many_steps_is_refused(bench):
    with pytest.raises(AlgorithmOutputError, match="must list 1 to 2 entries, got 3"):
        bench.run(PlanCall(max_steps=2), STATE, "a\nb\nc")


# --- decomposed prompting -----------------------------------------------------------------------------------


def test_the_list_of_sub_questions_is_added(bench):
    record = bench.run(SubQuestionList(), STATE, "Which order?\nWhich lamp?")
    assert added_block(record) == "Questions to settle, in this order:\n1. Which order?\n2. Which lamp?"


STEPS = (
    '{"steps": [{"question": "Where is the Eiffel Tower?", "module": "look_up"}, '
    '{"question": "Which country is #1 the capital of? (room #12)", "module": "reason"}]}'
)


def test_modules_answer_in_order_and_answers_stand_in_for_their_numbers(bench):
    record = bench.run(DecomposedPrompting(), STATE, STEPS, "Paris", "France")
    assert added_block(record) == (
        "Questions settled beforehand:\n1. Where is the Eiffel Tower? - Paris\n"
        "2. Which country is Paris the capital of? (room #12) - France"
    )
    assert (record.usage.model_calls, record.usage.retrieval_calls) == (3, 1)


def test_decomposition_needs_a_retriever_only_when_something_is_to_be_looked_up(bench):
    with pytest.raises(ExternalDependencyError, match=r"InterventionContext\(retriever=\.\.\.\)"):
        bench.run(DecomposedPrompting(), STATE, STEPS, retriever=None)
    only_reason = '{"steps": [{"question": "Why?", "module": "reason"}]}'
    assert bench.run(DecomposedPrompting(), STATE, only_reason, "Because.", retriever=None).status == "success"


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ('{"steps": []}', "1 to 4 entries in steps, got 0"),
        ('{"steps": [{"question": "q", "module": "dance"}]}', r"one of look_up, reason in steps\[0\]\.module"),
        ('{"steps": [{"question": "what of #1?", "module": "reason"}]}', "refers in step 1 to an answer"),
        ('{"steps": [{"question": "q"}]}', r"lacks the field steps\[0\]\.module"),
        ("1. a question", "holds no JSON object"),
    ],
)
def test_a_wrong_decomposition_is_refused(bench, reply, message):
    with pytest.raises(AlgorithmOutputError, match=message):
        bench.run(DecomposedPrompting(), STATE, reply)


# --- self-ask -----------------------------------------------------------------------------------------------


def test_the_self_ask_loop_looks_up_answers_and_concludes(bench):
    record = bench.run(
        SelfAskLoop(top_k=1), STATE, "Follow up: Where is the Eiffel Tower?", "Paris", "Final answer: France"
    )
    notes, document = record.patch.apply(STATE).context
    assert notes.text == (
        "Asked and answered beforehand:\nFollow up: Where is the Eiffel Tower?\nIntermediate answer: Paris\n"
        "Final answer: France"
    )
    assert document.block_id == "eiffel"
    assert record.patch.metadata["concluded"] is True
    assert (record.usage.model_calls, record.usage.retrieval_calls) == (3, 1)


def test_a_loop_without_conclusion_keeps_what_it_found_and_says_so(bench):
    method = SelfAskLoop(max_follow_ups=1)
    record = bench.run(method, STATE, "Follow up: capital of Germany?", "Berlin", "Follow up: and then?")
    assert record.patch.metadata["concluded"] is False
    assert record.patch.trace.warnings == ("no conclusion after 1 follow-up questions",)
    assert "and then?" not in record.patch.apply(STATE).context[0].text


def test_a_reply_that_is_neither_follow_up_nor_conclusion_is_refused(bench):
    with pytest.raises(AlgorithmOutputError, match='must be "Follow up'):
        bench.run(SelfAskLoop(), STATE, "I wonder.")


def test_the_default_loop_fits_the_default_budget(bench):
    follow_up = ("Follow up: capital?", "Paris")
    record = bench.run(SelfAskLoop(), STATE, *follow_up, *follow_up, *follow_up, "Final answer: done")
    assert record.usage.model_calls == 7 <= STATE.budget.max_model_calls


# --- plan and budget ----------------------------------------------------------------------------------------

PLAN = [{"text": "look up", "difficulty": 1}, {"text": "exchange", "difficulty": 3.0}]


def test_a_cached_plan_comes_with_tokens_that_add_up(bench):
    method = CachedSoftBudget(plans={STATE.query: PLAN}, total_tokens=100, schedule="uniform")
    text = added_block(bench.run(method, STATE))
    assert text.splitlines()[:3] == [
        PLAN_HEADING,
        "1. look up (about 26 tokens)",
        "2. exchange (about 74 tokens)",
    ]


def test_without_a_total_the_output_tokens_of_the_state_are_divided(bench):
    record = bench.run(CachedSoftBudget(plans={STATE.query: PLAN}), STATE)
    assert sum(record.patch.apply(STATE).context[-1].metadata["tokens"]) == STATE.budget.max_output_tokens


def test_the_live_plan_takes_difficulties_from_the_model(bench):
    reply = '{"parts": [{"text": "look up", "difficulty": 2}, {"text": "exchange", "difficulty": 8}]}'
    record = bench.run(LiveSoftBudget(total_tokens=1000, schedule="uniform"), STATE, reply)
    assert record.patch.apply(STATE).context[-1].metadata["tokens"] == (201, 799)
    with pytest.raises(AlgorithmOutputError, match=r"number from 1 to 10 in parts\[0\]\.difficulty"):
        bench.run(LiveSoftBudget(), STATE, '{"parts": [{"text": "x", "difficulty": 11}]}')


def test_a_missing_plan_and_too_few_tokens_are_refused(bench):
    with pytest.raises(ArtifactError, match="no cached plan"):
        bench.run(CachedSoftBudget(), STATE)
    with pytest.raises(BudgetExceededError, match="1 tokens cannot be divided among 2 parts"):
        bench.run(CachedSoftBudget(plans={STATE.query: PLAN}, total_tokens=1), STATE)


@pytest.mark.parametrize(
    ("plans", "message"),
    [
        ({"q": []}, "at least one part"),
        ({"q": "text"}, "must be a list or tuple"),
        ({"q": [{"text": "x"}]}, "lacks the field 'difficulty'"),
        ({"q": [{"text": "x", "difficulty": 0}]}, "must be positive"),
        ({"q": [{"text": "x", "difficulty": True}]}, "must be a finite number"),
    ],
)
def test_wrong_plans_are_refused_when_given(plans, message):
    with pytest.raises(ValidationError, match=message):
        CachedSoftBudget(plans=plans)


@given(
    st.lists(st.floats(0.01, 100), min_size=1, max_size=12),
    st.integers(12, 5000),
    st.sampled_from(sorted(SCHEDULES)),
)
def test_divided_tokens_add_up_and_nobody_goes_without(difficulties, total, schedule):
    tokens = divide_tokens(total, difficulties, schedule=schedule)
    assert sum(tokens) == total
    assert min(tokens) >= 1


@given(st.integers(2, 10), st.integers(100, 5000), st.sampled_from(sorted(SCHEDULES)))
def test_of_equally_hard_parts_no_later_one_gets_more(count, total, schedule):
    tokens = divide_tokens(total, [1.0] * count, schedule=schedule)
    assert list(tokens) == sorted(tokens, reverse=True)


# --- tool-call planner --------------------------------------------------------------------------------------

CALLS = (
    '{"calls": [{"id": 1, "tool": "get_order", "arguments": {"order_id": "#W1"}, "depends_on": []}, '
    '{"id": 2, "tool": "get_product", "arguments": {"name": "lamp", "limit": "$20"}, "depends_on": []}, '
    '{"id": 3, "tool": "exchange", "arguments": {"items": ["$1", {"new": "$2"}]}, "depends_on": [1, 2]}]}'
)


def test_calls_that_do_not_need_each_other_share_a_round(bench):
    record = bench.run(ToolCallPlanner(), STATE, f"```json\n{CALLS}\n```")
    assert added_block(record) == (
        "Follow this plan of tool calls:\nRound 1:\n"
        '  $1 = get_order({"order_id":"#W1"})\n  $2 = get_product({"limit":"$20","name":"lamp"})\n'
        'Round 2:\n  $3 = exchange({"items":["$1",{"new":"$2"}]})'
    )
    assert record.usage.tool_calls == 0


def call(number, tool="get_order", arguments="{}", depends_on="[]"):
    return f'{{"id": {number}, "tool": "{tool}", "arguments": {arguments}, "depends_on": {depends_on}}}'


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ([call(1, tool="rm")], r"one of get_order, get_product, exchange in calls\[0\]\.tool"),
        ([call(2)], "integer from 1 to 1"),
        ([call(2), call(1)], "number its calls 1, 2, ... in order"),
        ([call(1), call(2, arguments='{"x": "$1"}')], "uses in call 2 a result"),
        ([call(1, depends_on="[2]"), call(2, depends_on="[1]")], "wait for each other"),
        ([call(1, depends_on="[1]")], "wait for each other"),
        ([call(1, arguments="[]")], r"an object in calls\[0\]\.arguments"),
        ([], "1 to 8 entries in calls, got 0"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_refused(bench, calls, message):
    with pytest.raises(AlgorithmOutputError, match=message):
        bench.run(ToolCallPlanner(), STATE, f'{{"calls": [{", ".join(calls)}]}}')


def test_a_state_without_tools_is_refused(bench):
    with pytest.raises(ValidationError, match="has no tool_names"):
        bench.run(ToolCallPlanner(), FrozenAgentState(query="q"))


def test_no_model_call_is_made_beyond_the_budget(bench):
    state = FrozenAgentState(query="q", budget=ExecutionBudget(max_model_calls=2))
    with pytest.raises(BudgetExceededError, match="model_calls 3, allowed 2"):
        bench.run(SelfAskLoop(), state, "Follow up: capital?", "Paris")
