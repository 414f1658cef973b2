"""Paired summaries against independent implementations, and what happens to pairs without a score."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from agentinputlab.analysis import (
    Outcome,
    PairedOutcome,
    benjamini_hochberg,
    exact_sign_test,
    holm,
    summarise_pairs,
)
from agentinputlab.contracts.errors import ValidationError

COUNTS = st.integers(0, 40)


@given(wins=COUNTS, losses=COUNTS)
def test_the_sign_test_is_the_exact_mcnemar_test_of_statsmodels(wins, losses):
    expected = mcnemar([[3, losses], [wins, 4]], exact=True).pvalue if wins + losses else 1.0
    assert math.isclose(exact_sign_test(wins, losses).p_value, min(1.0, expected), rel_tol=1e-9)


@given(wins=COUNTS, losses=COUNTS)
def test_the_interval_of_wins_is_clopper_pearson(wins, losses):
    interval = exact_sign_test(wins, losses).win_share
    if wins + losses == 0:
        assert interval == (0.0, 1.0)
        return
    low, high = proportion_confint(wins, wins + losses, method="beta")
    assert math.isclose(interval.low, low, abs_tol=1e-9)
    assert math.isclose(interval.high, high, abs_tol=1e-9)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12))
def test_corrections_are_those_of_statsmodels(p_values):
    assert holm(p_values) == pytest.approx(multipletests(p_values, method="holm")[1])
    assert benjamini_hochberg(p_values) == pytest.approx(multipletests(p_values, method="fdr_bh")[1])


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan])
def test_a_p_value_outside_its_range_is_refused(value):
    with pytest.raises(ValidationError, match="p_values"):
        holm([0.5, value])


def pairs_of(*scores):
    return [PairedOutcome(str(index), *pair) for index, pair in enumerate(scores)]


def test_unresolved_pairs_stay_in_the_denominator():
    summary = summarise_pairs(pairs_of((0.0, 1.0), (0.0, 1.0), (1.0, 1.0), (None, 1.0), (0.0, None)))
    assert (summary.expected, summary.scored, summary.unresolved) == (5, 3, 2)
    assert (summary.wins, summary.losses, summary.ties) == (2, 0, 1)
    assert summary.difference == 2 / 5
    assert summary.difference_bounds == (0.0, 4 / 5)
    assert summary.baseline_mean == pytest.approx(1 / 3)
    assert summary.p_value == 0.5
    assert summary.p_value_worst == 1.0  # two wins against two losses


@given(st.integers(0, 8), st.integers(0, 8), st.integers(0, 6))
def test_no_scores_of_the_unresolved_pairs_give_a_larger_p_value_than_the_worst(wins, losses, unresolved):
    scores = [(0.0, 1.0)] * wins + [(1.0, 0.0)] * losses + [(1.0, 1.0)] + [(None, None)] * unresolved
    possible = [
        exact_sign_test(wins + won, losses + lost).p_value
        for won in range(unresolved + 1)
        for lost in range(unresolved + 1 - won)
    ]
    assert summarise_pairs(pairs_of(*scores), n_resamples=10).p_value_worst == pytest.approx(max(possible))


def test_nothing_scored_claims_nothing():
    summary = summarise_pairs(pairs_of((None, None), (1.0, None)))
    assert summary.p_value is None
    assert summary.baseline_mean is None
    assert summary.difference_bounds == (-1.0, 1.0)


@given(
    st.lists(st.sampled_from([(0.0, 1.0), (1.0, 0.0), (1.0, 1.0), (0.0, 0.0), (None, 1.0)]), min_size=1, max_size=20)
)
def test_swapping_the_arms_mirrors_the_summary(scores):
    ahead = summarise_pairs(pairs_of(*scores), n_resamples=200)
    behind = summarise_pairs(pairs_of(*[(after, before) for before, after in scores]), n_resamples=200)
    assert (ahead.wins, ahead.losses, ahead.ties) == (behind.losses, behind.wins, behind.ties)
    assert ahead.difference == -behind.difference
    assert ahead.p_value == behind.p_value
    assert ahead.difference_bounds[0] == pytest.approx(-behind.difference_bounds[1])


def test_the_interval_contains_the_difference_and_is_the_same_every_time():
    pairs = pairs_of(*[(0.0, 1.0)] * 5, *[(1.0, 0.0)] * 2, *[(1.0, 1.0)] * 5)
    summary = summarise_pairs(pairs, seed=3)
    assert summary.difference_interval.low <= summary.difference <= summary.difference_interval.high
    assert summary == summarise_pairs(pairs, seed=3)


def test_every_outcome_has_a_sentence():
    assert all(outcome.meaning.endswith(".") for outcome in Outcome)


@pytest.mark.parametrize(
    ("pairs", "options", "named"),
    [
        ([], {}, "empty"),
        (pairs_of((0.0, 1.0)) * 2, {}, "distinct"),
        (pairs_of((0.0, 1.0)), {"score_range": 0.0}, "score_range"),
    ],
)
def test_what_cannot_be_summarised_is_refused(pairs, options, named):
    with pytest.raises(ValidationError, match=named):
        summarise_pairs(pairs, **options)


def test_a_score_that_is_not_finite_is_refused():
    with pytest.raises(ValidationError, match="baseline of unit 'a'"):
        PairedOutcome("a", math.nan, 1.0)
