"""Scores of short answers: known values of the SQuAD and HotpotQA definitions, and their properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentinputlab.analysis import summarise_pairs
from agentinputlab.contracts import ValidationError
from agentinputlab.metrics import (
    exact_match,
    harm,
    jaccard,
    normalise_answer,
    pair_scores,
    score_answer,
    token_f1,
    token_overlap,
)

texts = st.text(st.characters(codec="utf-8"), max_size=40)


@pytest.mark.parametrize(
    ("prediction", "answer", "expected_match", "expected_f1"),
    [
        ("The Beatles", "beatles", 1.0, 1.0),
        ("U.S.A.", "usa", 1.0, 1.0),
        ("in the city of Paris", "Paris", 0.0, 0.4),
        ("Paris Paris", "Paris", 0.0, 2 / 3),
        ("London", "Paris", 0.0, 0.0),
        ("yes indeed", "yes", 0.0, 0.0),
        ("no", "no", 1.0, 1.0),
        ("", "", 1.0, 1.0),
        ("", "Paris", 0.0, 0.0),
        ("the", "a", 1.0, 1.0),
    ],
)
def test_exact_match_and_f1_have_the_known_values(prediction, answer, expected_match, expected_f1):
    assert exact_match(prediction, answer) == expected_match
    assert token_f1(prediction, answer) == pytest.approx(expected_f1)


@given(texts, texts)
def test_f1_and_overlap_are_symmetric_and_between_0_and_1(first, second):
    assert token_f1(first, second) == token_f1(second, first)
    assert 0.0 <= token_f1(first, second) <= 1.0
    forth, back = token_overlap(first, second), token_overlap(second, first)
    assert (forth.precision, forth.recall) == (back.recall, back.precision)
    assert jaccard(first, second) == jaccard(second, first)


@given(texts)
def test_every_text_agrees_with_itself_and_normalising_twice_changes_nothing(text):
    assert exact_match(text, text) == token_f1(text, text) == token_overlap(text, text).f1 == jaccard(text, text) == 1.0
    assert normalise_answer(normalise_answer(text)) == normalise_answer(text)


def test_the_best_accepted_answer_counts():
    assert score_answer("New York City", ["NYC", "New York City", "York"]) == (1.0, 1.0)
    with pytest.raises(ValidationError, match="at least one accepted answer"):
        score_answer("x", [])


def test_overlap_counts_repeats_on_both_sides():
    assert token_overlap("a a b", "a b b b") == pytest.approx((2 / 3, 0.5, 4 / 7))


def test_a_missing_score_stays_in_the_denominator():
    pairs = pair_scores(["t1", "t2", "t3"], {"t1": 0.0, "t2": 1.0}, {"t1": 1.0, "t3": 1.0})
    assert [(pair.baseline, pair.treatment) for pair in pairs] == [(0.0, 1.0), (1.0, None), (None, 1.0)]
    summary = summarise_pairs(pairs)
    assert (summary.expected, summary.wins, summary.unresolved) == (3, 1, 2)


def test_unknown_and_doubled_tasks_are_refused():
    with pytest.raises(ValidationError, match="treatment has a score for 'x'"):
        pair_scores(["t"], {}, {"x": 1.0})
    with pytest.raises(ValidationError, match="distinct"):
        pair_scores(["t", "t"], {}, {})


def test_harm_counts_broken_and_mended_tasks_and_a_lost_treatment_as_broken():
    pairs = pair_scores(
        ["a", "b", "c", "d", "e"],
        {"a": 1.0, "b": 1.0, "c": 0.0, "d": 0.0},
        {"a": 1.0, "c": 1.0, "d": 0.0, "e": 1.0},
    )
    assert harm(pairs) == (0.5, 0.5)
    assert harm(()) == (0.0, 0.0)
