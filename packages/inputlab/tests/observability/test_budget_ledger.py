"""The account of a run: what it refuses, what it records, and that threads cannot cheat it."""

from __future__ import annotations

import math
import threading
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentinputlab.contracts import BudgetExceededError, ExecutionBudget, ValidationError
from agentinputlab.observability import BudgetLedger, ResourceUsage

CALL = ResourceUsage(model_calls=1)


def test_second_model_call_under_a_cap_of_one_is_refused_and_stays_refused_when_the_error_is_swallowed() -> None:
    ledger = BudgetLedger(ExecutionBudget(max_model_calls=1))
    ledger.reserve(CALL)
    with pytest.raises(BudgetExceededError, match="model_calls 2, allowed 1"):
        ledger.reserve(CALL)
    assert ledger.usage.model_calls == 1
    assert ledger.reservation_rejections == ("model_calls",)
    assert ledger.actual_violations == ()
    with pytest.raises(BudgetExceededError):
        ledger.require_within_budget()


def test_actual_overage_is_recorded_and_every_later_charge_raises() -> None:
    ledger = BudgetLedger(ExecutionBudget(max_output_tokens=10))
    with pytest.raises(BudgetExceededError, match="output_tokens 12, allowed 10"):
        ledger.charge_actual(ResourceUsage(output_tokens=12))
    assert ledger.usage.output_tokens == 12
    assert ledger.actual_violations == ("output_tokens",)
    for charge in (ledger.charge, ledger.charge_actual, ledger.reserve, ledger.reserve_pending):
        with pytest.raises(BudgetExceededError):
            charge(ResourceUsage(retrieval_calls=1))


def test_an_unpriced_call_under_a_cost_cap_is_an_unknown_cost() -> None:
    ledger = BudgetLedger(ExecutionBudget(max_cost_usd=1.0))
    with pytest.raises(BudgetExceededError, match="unknown_cost"):
        ledger.charge_actual(ResourceUsage(model_calls=1, unpriced_model_calls=1))
    assert ledger.actual_violations == ("unknown_cost",)


@pytest.mark.parametrize(
    ("budget", "usage", "dimension"),
    [
        (ExecutionBudget(max_model_calls=0), CALL, "model_calls"),
        (ExecutionBudget(max_retrieval_calls=0), ResourceUsage(retrieval_calls=1), "retrieval_calls"),
        (ExecutionBudget(max_tool_calls=0), ResourceUsage(tool_calls=1), "tool_calls"),
        (ExecutionBudget(max_output_tokens=0), ResourceUsage(output_tokens=1), "output_tokens"),
        (ExecutionBudget(max_context_tokens=0), ResourceUsage(input_tokens=1), "context_tokens"),
        (ExecutionBudget(max_cost_usd=0), ResourceUsage(cost_usd=1e-9), "cost_usd"),
        (ExecutionBudget(max_cost_usd=0), ResourceUsage(compute_cost_usd=1e-9), "cost_usd"),
    ],
)
def test_a_cap_of_zero_means_none(budget: ExecutionBudget, usage: ResourceUsage, dimension: str) -> None:
    ledger = BudgetLedger(budget)
    ledger.reserve(ResourceUsage(embedding_calls=5))  # what the cap is not about still fits
    with pytest.raises(BudgetExceededError):
        ledger.reserve(usage)
    assert ledger.reservation_rejections == (dimension,)


def test_a_promise_holds_its_minimum_until_it_is_settled_by_what_was_used() -> None:
    ledger = BudgetLedger(ExecutionBudget(max_model_calls=2))
    first = ledger.reserve_pending(CALL)
    second = ledger.reserve_pending(CALL)
    assert ledger.usage == ResourceUsage()
    assert ledger.remaining("model_calls") == 0
    with pytest.raises(BudgetExceededError):
        ledger.reserve(CALL)
    ledger.cancel_pending(first)
    ledger.commit_pending(second, ResourceUsage(model_calls=1, output_tokens=7))
    assert ledger.usage == ResourceUsage(model_calls=1, output_tokens=7)
    assert ledger.remaining("model_calls") == 1
    for settle in (ledger.cancel_pending, lambda promise: ledger.commit_pending(promise, CALL)):
        with pytest.raises(ValidationError, match="settled before"):
            settle(second)


def test_a_ledger_belongs_to_one_run_and_only_a_fresh_one_can_be_claimed() -> None:
    ledger = BudgetLedger(ExecutionBudget())
    ledger.claim_for_run("first")
    assert ledger.owner_run_id == "first"
    for run_id in ("first", "second"):
        with pytest.raises(ValidationError, match="belongs to run first"):
            ledger.claim_for_run(run_id)
    used = BudgetLedger(ExecutionBudget())
    used.reserve(CALL)
    assert not used.is_pristine
    with pytest.raises(ValidationError, match="used before"):
        used.claim_for_run("first")


def test_after_its_run_a_ledger_refuses_calls_and_still_records_what_was_used() -> None:
    ledger = BudgetLedger(ExecutionBudget())
    ledger.claim_for_run("run")
    ledger.release_from_run()
    with pytest.raises(ValidationError, match="is over"):
        ledger.reserve(CALL)
    ledger.charge_actual(CALL)
    assert ledger.usage == CALL


def test_an_inner_ledger_counts_on_the_outer_one_and_keeps_its_own_cap() -> None:
    outer = BudgetLedger(ExecutionBudget(max_model_calls=3))
    inner = BudgetLedger(ExecutionBudget(max_model_calls=1), parent=outer)
    inner.reserve(CALL)
    with pytest.raises(BudgetExceededError):
        inner.reserve(CALL)
    assert (inner.usage.model_calls, outer.usage.model_calls) == (1, 1)
    assert outer.reservation_rejections == ()  # the refusal was the inner one's own
    outer.reserve(ResourceUsage(model_calls=2))
    other = BudgetLedger(ExecutionBudget(max_model_calls=9), parent=outer)
    assert other.remaining("model_calls") == 0
    with pytest.raises(BudgetExceededError):
        other.reserve(CALL)
    assert other.usage == ResourceUsage()
    assert other.reservation_rejections == outer.reservation_rejections == ("model_calls",)


@pytest.mark.parametrize("bad", [-1, True, 1.0, "1", None])
def test_usage_refuses_amounts_that_are_none(bad: object) -> None:
    with pytest.raises(ValidationError, match=r"ResourceUsage\.model_calls"):
        ResourceUsage(model_calls=bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [-0.1, float("nan"), float("inf"), True])
def test_usage_refuses_money_that_is_none(bad: float) -> None:
    with pytest.raises(ValidationError, match=r"ResourceUsage\.cost_usd"):
        ResourceUsage(cost_usd=bad)


@given(
    st.lists(
        st.sampled_from([0, 1, 10**400, -1, True, 0.0, -0.0, 0.5, 1e308, -0.5, math.inf, math.nan, "1", None]),
        min_size=len(fields(ResourceUsage)),
        max_size=len(fields(ResourceUsage)),
    )
)
def test_usage_is_refused_exactly_when_one_of_its_amounts_is(amounts: list[Any]) -> None:
    names = [field.name for field in fields(ResourceUsage)]

    def is_refused(**usage: Any) -> bool:
        try:
            ResourceUsage(**usage)
        except ValidationError:
            return True
        return False

    alone = [name for name, amount in zip(names, amounts, strict=True) if is_refused(**{name: amount})]
    assert is_refused(**dict(zip(names, amounts, strict=True))) == bool(alone)


def test_usage_is_zero_until_something_was_used() -> None:
    assert ResourceUsage().is_zero
    assert not any(ResourceUsage(**{field.name: 1}).is_zero for field in fields(ResourceUsage))


small = st.integers(0, 3)
usages = st.builds(
    ResourceUsage, model_calls=small, retrieval_calls=small, tool_calls=small, output_tokens=small, input_tokens=small
)
budgets = st.builds(
    ExecutionBudget,
    max_model_calls=st.integers(0, 6),
    max_retrieval_calls=st.integers(0, 6),
    max_tool_calls=st.integers(0, 6),
    max_output_tokens=st.integers(0, 6),
    max_context_tokens=st.none() | st.integers(0, 6),
)


def within(budget: ExecutionBudget, usage: ResourceUsage) -> bool:
    return (
        usage.model_calls <= budget.max_model_calls
        and usage.retrieval_calls <= budget.max_retrieval_calls
        and usage.tool_calls <= budget.max_tool_calls
        and usage.output_tokens <= budget.max_output_tokens
        and (budget.max_context_tokens is None or usage.input_tokens <= budget.max_context_tokens)
    )


@given(budgets, st.lists(usages, max_size=12))
def test_reservations_alone_never_leave_the_budget_and_refusals_change_nothing(
    budget: ExecutionBudget, deltas: list[ResourceUsage]
) -> None:
    ledger = BudgetLedger(budget)
    accepted = ResourceUsage()
    for delta in deltas:
        try:
            ledger.reserve(delta)
        except BudgetExceededError:
            assert not within(budget, accepted + delta)
        else:
            accepted += delta
            assert within(budget, accepted)
        assert ledger.usage == accepted


@given(budgets, st.lists(usages, max_size=12))
def test_what_was_used_is_never_lost_and_a_violation_never_ends(
    budget: ExecutionBudget, deltas: list[ResourceUsage]
) -> None:
    ledger = BudgetLedger(budget)
    total = ResourceUsage()
    for delta in deltas:
        total += delta
        try:
            ledger.charge_actual(delta)
        except BudgetExceededError:
            assert not within(budget, total)
        else:
            assert within(budget, total)
        assert ledger.usage == total
        assert bool(ledger.actual_violations) is not within(budget, total)


@settings(max_examples=25, deadline=None)
@given(
    cap=st.integers(0, 20),
    plans=st.lists(st.lists(st.sampled_from(["reserve", "commit", "cancel"]), max_size=8), min_size=2, max_size=6),
)
def test_threads_together_never_get_more_calls_than_the_cap(cap: int, plans: list[list[str]]) -> None:
    outer = BudgetLedger(ExecutionBudget(max_model_calls=cap))
    ledgers = [BudgetLedger(ExecutionBudget(max_model_calls=cap), parent=outer) for _ in range(2)]
    made: list[int] = []
    refused: list[int] = []
    start = threading.Barrier(len(plans))

    def work(index: int, plan: list[str]) -> None:
        ledger = ledgers[index % 2]
        start.wait()
        for step in plan:
            try:
                if step == "reserve":
                    ledger.reserve(CALL)
                    made.append(index)
                    continue
                promise = ledger.reserve_pending(CALL)
                if step == "commit":
                    ledger.commit_pending(promise, CALL)
                    made.append(index)
                else:
                    ledger.cancel_pending(promise)
            except BudgetExceededError:
                refused.append(index)

    threads = [threading.Thread(target=work, args=(index, plan)) for index, plan in enumerate(plans)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outer.usage.model_calls == len(made) <= cap
    assert sum(ledger.usage.model_calls for ledger in ledgers) == len(made)
    assert outer.pending == ResourceUsage()
    wanted = sum(step != "cancel" for plan in plans for step in plan)
    assert wanted <= len(made) + len(refused)
    assert outer.actual_violations == ()


def test_racing_claims_are_won_by_exactly_one_run() -> None:
    for _ in range(50):
        ledger = BudgetLedger(ExecutionBudget())
        start = threading.Barrier(4)
        winners: list[str] = []

        def claim(name: str, ledger: BudgetLedger = ledger, start: threading.Barrier = start) -> None:
            start.wait()
            try:
                ledger.claim_for_run(name)
            except ValidationError:
                return
            winners.append(name)  # noqa: B023 - the threads end within the loop

        threads = [threading.Thread(target=claim, args=(f"run-{index}",)) for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert winners == [ledger.owner_run_id]
