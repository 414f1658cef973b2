"""From episodes to numbers, tables and verdicts."""

from __future__ import annotations

import numpy as np
import pytest

from chamber.cell.analysis import compare_pairs, group, select, verdicts
from chamber.cell.config import Condition, DecisionRule, ReportedNumber
from chamber.cell.tables import three_tables
from ripieno.errors import InputError


def test_groups_add_up(small_run):
    outcomes = small_run.record.outcomes
    for condition in Condition:
        parts = [group(outcomes, condition, entry.label) for entry in small_run.cell.partners]
        total = group(outcomes, condition)
        assert total.n_episodes == sum(part.n_episodes for part in parts)
        assert total.contacts_at_fault == sum(part.contacts_at_fault for part in parts)
        assert total.n_successes == sum(part.n_successes for part in parts)
        assert total.closest_distance_m == min(part.closest_distance_m for part in parts)
        assert total.mean_reward == pytest.approx(np.mean([part.mean_reward for part in parts]))


def test_the_stack_removes_every_contact_at_fault_and_there_were_some(small_run):
    assert group(small_run.record.outcomes, Condition.WITH_STACK).contacts_at_fault == 0
    assert group(small_run.record.outcomes, Condition.WITHOUT_STACK).contacts_at_fault > 0


def test_paired_difference_is_the_difference_of_the_means(small_run):
    comparisons = compare_pairs(small_run.cell, small_run.record.outcomes)
    assert [comparison.partner for comparison in comparisons] == ["cooperative", "stubborn", "pursuer", None]
    for comparison in comparisons:
        ci = comparison.difference
        assert ci.mean == pytest.approx(comparison.with_stack - comparison.without_stack)
        assert ci.mean_ci_low <= ci.mean <= ci.mean_ci_high
    assert comparisons == compare_pairs(small_run.cell, small_run.record.outcomes)


def test_one_condition_alone_has_nothing_to_compare(small_run):
    cell = small_run.cell.model_copy(update={"conditions": (Condition.WITH_STACK,)})
    assert compare_pairs(cell, select(small_run.record.outcomes, Condition.WITH_STACK)) == ()


def test_an_interrupted_run_has_tables_of_what_there_is_and_no_totals_of_what_there_is_not(small_run):
    outcomes = [outcome for outcome in small_run.record.outcomes if outcome.trace.partner == "cooperative"]
    report = three_tables(small_run.cell, outcomes)
    assert [row.condition for row in report.table_3] == ["pred/Learn, cooperative"]
    report.check()
    with pytest.raises(InputError, match="no episode with stack beside pursuer"):
        group(outcomes, Condition.WITH_STACK, "pursuer")


@pytest.mark.parametrize("number", list(ReportedNumber))
@pytest.mark.parametrize(("offset", "holds"), [(0.0, True), (-1e-6, False)])
def test_a_verdict_compares_the_measured_number_with_the_limit(small_run, number: ReportedNumber, offset, holds):
    measured = group(small_run.record.outcomes, Condition.WITHOUT_STACK, "stubborn").number(number)
    rule = DecisionRule(
        claim="c", number=number, condition=Condition.WITHOUT_STACK, partner="stubborn", at_most=measured + offset
    )
    cell = small_run.cell.model_copy(update={"decision_rules": (rule,)})
    (verdict,) = verdicts(cell, small_run.record.outcomes)
    assert verdict.value == measured
    assert verdict.holds is holds


def test_limits_include_their_ends():
    rule = DecisionRule(
        claim="c", number=ReportedNumber.SUCCESS_RATE, condition=Condition.WITH_STACK, at_least=0.5, at_most=0.75
    )
    assert [rule.holds(value) for value in (0.49, 0.5, 0.75, 0.76)] == [False, True, True, False]


def test_three_tables_count_what_the_episodes_hold(small_run):
    outcomes = small_run.record.outcomes
    stacked = select(outcomes, Condition.WITH_STACK)
    report = three_tables(small_run.cell, outcomes)
    n_steps = sum(outcome.trace.n_steps for outcome in stacked)
    assert [row.assumption for row in report.table_1] == ["A1", "A2", "A3"]
    assert {row.n_steps for row in report.table_1} == {n_steps}
    assert [row.violations for row in report.table_1][:2] == [0, 0]
    (condition,) = report.table_2
    assert (condition.predictor, condition.conformal_mode) == ("pred", "Learn")
    assert condition.n_episodes == len(stacked)
    assert condition.fallback_fires == sum(outcome.result().fallback_fired for outcome in stacked)
    for row, entry in zip(report.table_3, small_run.cell.partners, strict=True):
        slack = np.concatenate([o.trace.slack_m_s2 for o in stacked if o.trace.partner == entry.label])
        assert row.lambda_mean == pytest.approx(slack.mean())
        assert row.lambda_var == pytest.approx(slack.var())


def test_a_partner_faster_than_declared_is_counted_against_the_first_assumption(small_run):
    safety = small_run.cell.safety.model_copy(update={"partner_max_speed_m_s": 0.5})
    cell = small_run.cell.model_copy(update={"safety": safety})
    assert three_tables(cell, small_run.record.outcomes).table_1[0].violations > 0


def test_an_episode_row_says_what_the_episode_was(small_run):
    for outcome in small_run.record.outcomes:
        row = outcome.result()
        assert row.seed == small_run.cell.root_seed
        assert row.initial_state_seed == outcome.trace.initial_state_seed
        assert row.metadata["condition"] == outcome.trace.condition
        assert row.metadata["partner"] == outcome.trace.partner
        overlap = small_run.cell.task.safety_distance_m - outcome.closest.distance_m
        assert row.constraint_violation_peak == pytest.approx(max(0.0, overlap))
        assert (row.constraint_violation_peak > 0.0) == bool(outcome.contacts)
