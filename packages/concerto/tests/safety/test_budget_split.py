"""Shares of two robots in one right-hand side."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concerto.safety.budget_split import (
    SUPPORTED_STRATEGIES,
    BudgetSplitStrategy,
    ProportionalBudgetSplit,
    RelativeDegreeAwareBudgetSplit,
    make_budget_split,
)


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_shares_are_proportional_and_sum_to_one(alpha_i, alpha_j):
    beta_i, beta_j = ProportionalBudgetSplit().split(alpha_i, alpha_j)
    assert beta_i + beta_j == 1.0
    assert 0.0 <= beta_i <= 1.0
    assert beta_i == pytest.approx(alpha_i / (alpha_i + alpha_j))


@pytest.mark.parametrize("capacity", [0.0, -1.0, float("nan"), float("inf")])
def test_capacities_out_of_range_are_refused(capacity):
    with pytest.raises(ValueError, match="alpha_i"):
        ProportionalBudgetSplit().split(capacity, 1.0)
    with pytest.raises(ValueError, match="alpha_j"):
        ProportionalBudgetSplit().split(1.0, capacity)


def test_strategies_are_made_by_name_and_the_reserved_one_refuses_at_once():
    assert SUPPORTED_STRATEGIES == ("proportional", "relative_degree_aware")
    assert isinstance(make_budget_split("proportional"), BudgetSplitStrategy)
    assert isinstance(RelativeDegreeAwareBudgetSplit(), BudgetSplitStrategy)
    with pytest.raises(NotImplementedError):
        make_budget_split("relative_degree_aware")
    with pytest.raises(NotImplementedError):
        RelativeDegreeAwareBudgetSplit().split(1.0, 1.0)
    with pytest.raises(ValueError, match="'fair'"):
        make_budget_split("fair")
