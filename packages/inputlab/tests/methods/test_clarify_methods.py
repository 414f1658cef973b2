"""When the clarifying methods ask, what they ask, and when they leave the input alone."""

import json

import pytest

from agentinputlab.algorithms.clarify.active_task_disambiguation import ActiveTaskDisambiguation
from agentinputlab.algorithms.clarify.ask_or_assume import AskOrAssumeMonitor
from agentinputlab.algorithms.clarify.future_turns import FutureTurns, mean_gain
from agentinputlab.algorithms.clarify.udcs import (
    LOOK_UP_INSTRUCTION,
    PromptedUncertaintyRoute,
    Route,
    ScoredUncertaintyRoute,
    Uncertainty,
    choose_route,
)
from agentinputlab.contracts import (
    AlgorithmOutputError,
    ArtifactError,
    BudgetExceededError,
    ExecutionBudget,
    FrozenAgentState,
    IntentContract,
    IntentViolationError,
    ValidationError,
)

STATE = FrozenAgentState(query="Exchange the lamp", task_id="t7", tool_names=("get_order",))
QUESTION = "Which lamp do you mean?"


def scores(request, action, question=QUESTION):
    return json.dumps({"request_uncertainty": request, "action_uncertainty": action, "question": question})


def asked(record):
    return record.patch.apply(STATE).metadata.get("clarification_request")


# --- udcs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_uncertainty", "action_uncertainty", "route"),
    [
        (0.5, 0.9, Route.ASK),  # reached by equality, and the question comes before looking up
        (0.49, 0.5, Route.LOOK_UP),
        (0.49, 0.49, Route.PROCEED),
        (1.0, 0.0, Route.ASK),
        (0.0, 0.0, Route.PROCEED),
    ],
)
def test_the_route_follows_from_the_scores(request_uncertainty, action_uncertainty, route, bench):
    uncertainty = Uncertainty(request_uncertainty, action_uncertainty, QUESTION)
    assert choose_route(uncertainty, ask_threshold=0.5, look_up_threshold=0.5) is route
    live = bench.run(PromptedUncertaintyRoute(), STATE, scores(request_uncertainty, action_uncertainty))
    given = {"t7": json.loads(scores(request_uncertainty, action_uncertainty))}
    replayed = bench.run(ScoredUncertaintyRoute(scores=given), STATE, backend=None)
    assert live.patch.operations == replayed.patch.operations
    assert live.patch.metadata["route"] == replayed.patch.metadata["route"] == route
    assert asked(live) == (QUESTION if route is Route.ASK else None)
    assert live.patch.apply(STATE).instruction == (LOOK_UP_INSTRUCTION if route is Route.LOOK_UP else "")
    assert live.status == ("no_op" if route is Route.PROCEED else "success")


@pytest.mark.parametrize(
    "reply",
    [
        scores(1.5, 0),
        scores(0, -0.1),
        scores(True, 0),
        scores("0.4", 0),
        scores(0.9, 0.1, question=""),  # asks, and has no question
        '{"request_uncertainty": 0.1}',
        '{"request_uncertainty": 0.1, "action_uncertainty": 0.1, "question": "", "more": 1}',
        '{"request_uncertainty": NaN, "action_uncertainty": 0.1, "question": ""}',
        "I am quite sure.",
    ],
)
def test_scores_that_are_no_scores_are_refused(reply, bench):
    with pytest.raises(AlgorithmOutputError, match=r"clarify\.udcs"):
        bench.run(PromptedUncertaintyRoute(), STATE, reply)


def test_given_scores_are_found_by_task_and_checked_beforehand(bench):
    method = ScoredUncertaintyRoute(scores={"t7": {"request_uncertainty": 0.1, "action_uncertainty": 0.1}})
    with pytest.raises(ArtifactError, match="no cached uncertainty scores"):
        bench.run(method, FrozenAgentState(query="q", task_id="t8"))
    with pytest.raises(ValidationError, match="task id"):
        bench.run(method, FrozenAgentState(query="q"))
    with pytest.raises(ValidationError, match="lacks the field 'action_uncertainty'"):
        ScoredUncertaintyRoute(scores={"t7": {"request_uncertainty": 0.1}})
    with pytest.raises(ValidationError, match="request_uncertainty must be from 0 to 1"):
        ScoredUncertaintyRoute(scores={"t7": {"request_uncertainty": 2, "action_uncertainty": 0.1}})
    with pytest.raises(ValidationError, match="ask_threshold must be from 0 to 1"):
        PromptedUncertaintyRoute(ask_threshold=1.5)


def test_a_question_is_stopped_when_the_intent_contract_forbids_it(bench):
    contract = IntentContract((), (), (), may_request_clarification=False)
    with pytest.raises(IntentViolationError):
        bench.run(PromptedUncertaintyRoute(), STATE, scores(0.9, 0), intent_contract=contract)


# --- ask or assume ------------------------------------------------------------------------------------------


def verdict(kind, text=""):
    return json.dumps({"verdict": kind, "text": text})


def test_the_monitor_asks_for_what_blocks_and_writes_down_what_is_harmless(bench):
    blocking = bench.run(AskOrAssumeMonitor(), STATE, verdict("blocking", QUESTION))
    assumable = bench.run(AskOrAssumeMonitor(), STATE, verdict("assumable", "The lamp is the one ordered last."))
    clear = bench.run(AskOrAssumeMonitor(), STATE, verdict("clear"))
    strict = bench.run(AskOrAssumeMonitor(may_assume=False), STATE, verdict("assumable", "The last one."))
    assert asked(blocking) == QUESTION
    assert asked(assumable) is None
    assert "The lamp is the one ordered last." in assumable.patch.apply(STATE).instruction
    assert clear.status == strict.status == "no_op"


@pytest.mark.parametrize("reply", [verdict("maybe", "x"), verdict("blocking"), verdict("assumable", " "), "{}"])
def test_a_verdict_without_its_text_is_refused(reply, bench):
    with pytest.raises(AlgorithmOutputError, match=r"clarify\.ask_or_assume"):
        bench.run(AskOrAssumeMonitor(), STATE, reply)


# --- active task disambiguation -----------------------------------------------------------------------------


def readings(*weights):
    return json.dumps({"readings": [{"reading": f"lamp {n}", "weight": w} for n, w in enumerate(weights)]})


def questions(*rows):
    return json.dumps({"questions": [{"question": f"q{n}?", "answers": list(row)} for n, row in enumerate(rows)]})


def test_the_question_with_the_most_information_is_asked(bench):
    candidates = questions(["yes", "yes", "yes", "no"], ["a", "b", "c", "d"], ["x", "x", "y", "y"])
    record = bench.run(ActiveTaskDisambiguation(), STATE, readings(1, 1, 1, 1), candidates)
    assert asked(record) == "q1?"
    assert record.patch.metadata["gain_bits"] == 2.0


def test_of_equally_good_questions_the_first_is_asked(bench):
    record = bench.run(ActiveTaskDisambiguation(), STATE, readings(1, 1), questions(["a", "b"], ["c", "d"]))
    assert asked(record) == "q0?"


def test_a_task_with_one_reading_costs_one_call_and_no_question(bench):
    record = bench.run(ActiveTaskDisambiguation(), STATE, readings(3))
    assert (record.status, record.usage.model_calls) == ("no_op", 1)


def test_readings_in_the_same_words_are_one(bench):
    twice = json.dumps({"readings": [{"reading": "a lamp", "weight": 1}, {"reading": "a lamp", "weight": 2}]})
    assert bench.run(ActiveTaskDisambiguation(), STATE, twice).status == "no_op"


@pytest.mark.parametrize("min_gain_bits", [0.0, 0.5, 1.01])
def test_a_question_that_tells_too_little_is_not_asked(min_gain_bits, bench):
    answers = ["same", "same"] if min_gain_bits < 1 else ["a", "b"]
    method = ActiveTaskDisambiguation(min_gain_bits=min_gain_bits)
    assert bench.run(method, STATE, readings(1, 1), questions(answers)).status == "no_op"


@pytest.mark.parametrize(
    "replies",
    [
        (readings(),),
        (readings(1, 0),),
        (readings(*[1] * 7),),
        (readings(1, 1), questions(["only one"])),
        (readings(1, 1), questions(["a", "b", "c"])),
        (readings(1, 1), '{"questions": []}'),
    ],
)
def test_readings_and_questions_that_do_not_fit_together_are_refused(replies, bench):
    with pytest.raises(AlgorithmOutputError):
        bench.run(ActiveTaskDisambiguation(), STATE, *replies)


# --- future turns -------------------------------------------------------------------------------------------


def futures(*points, answers=("the red one", "the blue one")):
    """Replies of one run: question, answer now, users, then answer and judgement per user."""
    replies = [QUESTION, "Here is a lamp.", json.dumps({"answers": list(answers)})]
    for a, b in points:
        replies += ["Here is your lamp.", json.dumps({"a": a, "b": b})]
    return replies


def test_it_asks_when_simulated_users_gain(bench):
    # The order alternates: for the first user A is the answer now, for the second user B is.
    record = bench.run(FutureTurns(), STATE, *futures((2, 8), (9, 3)))
    assert asked(record) == QUESTION
    assert record.patch.metadata["mean_gain"] == 6.0
    assert record.usage.model_calls == 7


@pytest.mark.parametrize("points", [((5, 5), (5, 5)), ((8, 2), (3, 9)), ((5, 5.8), (5, 5))])
def test_it_answers_when_asking_does_not_pay(points, bench):
    record = bench.run(FutureTurns(), STATE, *futures(*points))
    assert record.status == "no_op"
    assert asked(record) is None


def test_a_question_that_gains_nothing_is_not_asked_even_without_a_margin(bench):
    assert bench.run(FutureTurns(margin=0), STATE, *futures((5, 5), (5, 5))).status == "no_op"


def test_the_mean_gain_by_hand():
    assert mean_gain([(4, 8), (6, 5), (0, 0)]) == 1.0
    with pytest.raises(ValidationError):
        mean_gain([])


def test_three_futures_do_not_fit_into_the_standard_budget(bench):
    replies = futures((2, 8), (9, 3), (2, 8), answers=("a", "b", "c"))
    with pytest.raises(BudgetExceededError):
        bench.run(FutureTurns(futures=3), STATE, *replies)
    roomy = FrozenAgentState(query="Exchange the lamp", budget=ExecutionBudget(max_model_calls=9))
    assert bench.run(FutureTurns(futures=3), roomy, *replies).usage.model_calls == 9


@pytest.mark.parametrize(
    "replies",
    [
        ["two\nlines"],
        [QUESTION, "now", '{"answers": ["one"]}'],
        [QUESTION, "now", '{"answers": ["one", "two", "three"]}'],
        futures((2, 11)),
        futures((2, "8")),
    ],
)
def test_futures_that_are_not_in_the_form_are_refused(replies, bench):
    with pytest.raises(AlgorithmOutputError, match=r"clarify\.future_turns"):
        bench.run(FutureTurns(), STATE, *replies)
