"""The differential-privacy noise service: the request, its test vector, the preflight."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

import pytest

from scpn_phase_orchestrator.supervisor.federated_dp_noise_service import (
    DpNoiseNodePrivacyBudget,
    DpNoiseServiceRequestManifest,
    build_dp_noise_service_deployment_preflight_manifest,
    build_dp_noise_service_manifest,
)


def request(**changes: Any) -> DpNoiseServiceRequestManifest:
    arguments: dict[str, Any] = {
        "epsilon": 3.0,
        "delta": 1e-6,
        "sensitivity": 1.0,
        "noise_multiplier": 1.1,
        "node_count": 2,
        "seed_hash": "ab" * 32,
        "policy_keys": ("zeta", "K"),
        "node_budgets": (DpNoiseNodePrivacyBudget("a", 0.5), DpNoiseNodePrivacyBudget("b", 0.25)),
    }
    return DpNoiseServiceRequestManifest(**{**arguments, **changes})


def preflight(response: Any = None, **changes: Any) -> Any:
    labels: dict[str, Any] = {
        "mechanism_label": "gaussian",
        "privacy_accountant_owner": "privacy team",
        "seed_custody_label": "hsm-1",
        "budget_issuer_label": "issuer",
        "service_endpoint_label": "https://noise.example",
        "operator_approved": True,
    }
    answer = response or build_dp_noise_service_manifest(request())
    return build_dp_noise_service_deployment_preflight_manifest(request(), answer, **{**labels, **changes})


def test_documented_test_vector_and_budget() -> None:
    manifest = build_dp_noise_service_manifest(request())
    assert manifest.to_audit_record()["noise_vector"] == [["K", -1.211809788075], ["zeta", 1.661008620343]]
    assert (manifest.privacy_budget_spent, manifest.privacy_budget_remaining) == (0.75, 2.25)
    assert manifest.request_hash == "3e66f24ec6ef354a508d6603b2e8bd8d7d7834a13e5ecb90248d98b42dab3d50"
    assert manifest.readiness == {"ready": True, "reason": "offline_review_only_manifest_ready"}
    assert manifest.audit_record_hash == manifest.expected_hash()


def test_the_vector_is_labelled_as_what_it_is() -> None:
    record = build_dp_noise_service_manifest(request()).to_audit_record()
    assert record["noise_kind"] == "deterministic_test_vector"
    assert record["mechanism"] == "gaussian"


def test_the_vector_is_gaussian_with_the_stated_deviation() -> None:
    keys = tuple(f"k{index:04d}" for index in range(4000))
    values = [value for _, value in build_dp_noise_service_manifest(request(policy_keys=keys)).noise_vector]
    assert statistics.fmean(values) == pytest.approx(0.0, abs=0.06)
    assert statistics.pstdev(values) == pytest.approx(1.1, abs=0.04)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"epsilon": 0.0}, "epsilon must be positive"),
        ({"epsilon": 2e6}, "epsilon must be at most"),
        ({"delta": 1.0}, "delta must be below 1"),
        ({"sensitivity": True}, "sensitivity must be a number"),
        ({"noise_multiplier": float("inf")}, "noise_multiplier must be a finite number"),
        ({"node_count": 3}, "node_count is 3, node_budgets has 2"),
        ({"seed_hash": "AB" * 32}, "seed_hash must be 64 lowercase hex digits"),
        ({"policy_keys": ("K", "K")}, "policy_keys must be unique"),
        ({"policy_keys": ()}, "policy_keys must be non-empty"),
        ({"epsilon": 0.7}, "privacy budget exceeded"),
        ({"node_budgets": (DpNoiseNodePrivacyBudget("a", 0.1),) * 2}, "must be unique"),
    ],
)
def test_a_request_that_breaks_a_rule_is_refused_by_name(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        request(**changes)


def test_a_negative_budget_is_refused() -> None:
    with pytest.raises(ValueError, match="epsilon_spent must be non-negative"):
        DpNoiseNodePrivacyBudget("a", -0.1)


def test_a_complete_deployment_is_ready() -> None:
    manifest = preflight()
    assert manifest.deployment_ready is True
    assert manifest.deployment_reason == "offline_deployment_preflight_ready"
    assert manifest.service_execution_permitted is False


def test_what_is_missing_is_a_verdict_in_words() -> None:
    manifest = preflight(privacy_accountant_owner="", operator_approved=False)
    assert manifest.deployment_ready is False
    assert manifest.deployment_reason == "privacy_accountant_owner is required; operator approval required"


def test_a_broken_link_is_a_reason() -> None:
    other = build_dp_noise_service_manifest(request(epsilon=4.0))
    assert "response does not answer this request" in preflight(other).deployment_reason
    assert "epsilon of the response differs" in preflight(other).deployment_reason
    careless = build_dp_noise_service_manifest(request(delta=1e-3))
    assert "delta of the response differs" in preflight(careless).deployment_reason
    edited = replace(build_dp_noise_service_manifest(request()), privacy_budget_remaining=9.0)
    assert preflight(edited).deployment_reason == "response hash does not fit its content"
