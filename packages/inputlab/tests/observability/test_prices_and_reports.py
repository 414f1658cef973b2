"""Prices, and what programs outside report: nothing unknown becomes zero."""

from __future__ import annotations

import pytest

from agentinputlab.contracts import ValidationError
from agentinputlab.observability import (
    UNREPORTED_TOKEN_COUNTER,
    ComputePrice,
    ModelPrice,
    PricingCatalog,
    ResourceLimits,
    ResourceUsage,
    external_token_counter,
    normalize_external_usage,
)

REPORT = {"model_calls": 2, "retrieval_calls": 1, "input_tokens": 30, "output_tokens": 5}


def test_a_report_without_cost_is_unpriced_call_by_call() -> None:
    usage = normalize_external_usage(REPORT)
    assert usage == ResourceUsage(2, 1, unpriced_model_calls=2, input_tokens=30, output_tokens=5)
    assert normalize_external_usage({**REPORT, "cost_usd": 0.5}).unpriced_model_calls == 0


def test_a_report_names_its_token_counter_or_is_marked_as_silent() -> None:
    assert external_token_counter(REPORT) == UNREPORTED_TOKEN_COUNTER
    named = {**REPORT, "token_counter": "endpoint:m"}
    assert external_token_counter(named) == "endpoint:m"
    assert normalize_external_usage(named) == normalize_external_usage(REPORT)


@pytest.mark.parametrize("name", sorted(REPORT))
def test_a_report_that_leaves_out_a_required_amount_is_refused(name: str) -> None:
    partial = {key: value for key, value in REPORT.items() if key != name}
    with pytest.raises(ValidationError, match=name):
        normalize_external_usage(partial)


@pytest.mark.parametrize(
    "change", [{"tokens": 1}, {"model_calls": -1}, {"input_tokens": True}, {"cost_usd": float("nan")}]
)
def test_a_report_with_an_unknown_or_wrong_field_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=next(iter(change))):
        normalize_external_usage({**REPORT, **change})


def test_usage_says_its_total_cost() -> None:
    usage = ResourceUsage(cost_usd=0.25, compute_cost_usd=0.5)
    assert usage.as_dict()["total_cost_usd"] == 0.75
    assert len(usage.as_dict()) == 12


def test_prices_are_per_million_tokens_and_per_hour_and_none_is_built_in() -> None:
    catalog = PricingCatalog({"m": ModelPrice(2.0, 8.0)}, ComputePrice(3.6, 36.0))
    assert catalog.cost_usd("m", input_tokens=500_000, output_tokens=250_000) == 3.0
    assert catalog.cost_usd("other", input_tokens=1, output_tokens=1) is None
    assert catalog.compute is not None
    assert catalog.compute.cost_usd(cpu_seconds=1000, accelerator_seconds=100) == pytest.approx(2.0)
    assert PricingCatalog().prices == {}


def test_a_catalogue_does_not_change_with_the_mapping_it_was_made_of() -> None:
    prices = {"m": ModelPrice(1, 1)}
    catalog = PricingCatalog(prices)
    prices.clear()
    assert catalog.price_of("m") == ModelPrice(1, 1)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: ModelPrice(-1, 0), "input_per_million"),
        (lambda: ComputePrice(float("inf"), 0), "cpu_per_hour"),
        (lambda: PricingCatalog({"m": 3.0}), "prices"),  # type: ignore[dict-item]
        (lambda: ResourceLimits(wall_timeout_seconds=0), "wall_timeout_seconds"),
        (lambda: ResourceLimits(memory_bytes=0), "memory_bytes"),
        (lambda: ResourceLimits(cpus=-1), "cpus"),
        (lambda: ResourceLimits(pids_limit=True), "pids_limit"),
    ],
)
def test_a_wrong_price_or_limit_is_named(make, name: str) -> None:
    with pytest.raises(ValidationError, match=name):
        make()
