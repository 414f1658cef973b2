"""Review records for a differential-privacy noise service: request, response, deployment preflight.

The mechanism is the Gaussian one with standard deviation ``sensitivity * noise_multiplier``; budgets compose simply
(they add up). The noise of the response is a *deterministic test vector*: it follows from the request, whose seed hash
is public, so it protects nobody. It lets two implementations of a service compare their arithmetic. All hashes are
the SHA-256 of the canonical JSON of a record; a record's own hash is taken while its field is empty.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ripieno.canonical import CANONICAL
from scpn_phase_orchestrator.exceptions import ValidationError
from scpn_phase_orchestrator.supervisor._review_fields import (
    boolean,
    hex_digest,
    integer,
    non_empty_text,
    non_negative_number,
    positive_number,
    unique_names,
)

__all__ = [
    "DpNoiseNodePrivacyBudget",
    "DpNoiseServiceDeploymentPreflightManifest",
    "DpNoiseServiceManifest",
    "DpNoiseServiceRequestManifest",
    "build_dp_noise_service_deployment_preflight_manifest",
    "build_dp_noise_service_manifest",
]

SCHEMA_NAME = "federated_dp_noise_service"
PREFLIGHT_SCHEMA_NAME = "federated_dp_noise_service_deployment_preflight_manifest"
SCHEMA_VERSION = "1.0.0"
MAX_EPSILON = 1e6
DIGITS = 12
"""Decimal places of noise and budgets."""


@dataclass(frozen=True)
class DpNoiseNodePrivacyBudget:
    """What one node has spent of the privacy budget.

    Attributes:
        node_id: the node.
        epsilon_spent: at least 0.

    Raises:
        ValidationError: a blank identifier or a number that is not allowed.
    """

    node_id: str
    epsilon_spent: float

    def __post_init__(self) -> None:
        non_empty_text(self.node_id, "node_id")
        object.__setattr__(self, "epsilon_spent", non_negative_number(self.epsilon_spent, "epsilon_spent"))


@dataclass(frozen=True)
class DpNoiseServiceRequestManifest:
    """What a service is asked for.

    Attributes:
        epsilon: privacy budget of all nodes together, in (0, 1e6].
        delta: probability of a failure of the guarantee, in (0, 1).
        sensitivity: largest change that one node can make to the sum (L2), above 0.
        noise_multiplier: standard deviation of the noise in units of the sensitivity, above 0.
        node_count: number of nodes, that of the budgets.
        seed_hash: SHA-256 that the test vector is derived from.
        policy_keys: names of the values that get noise; stored sorted.
        node_budgets: one per node.

    Raises:
        ValidationError: a field that is not allowed, or more spent than there is (``privacy budget exceeded``).
    """

    epsilon: float
    delta: float
    sensitivity: float
    noise_multiplier: float
    node_count: int
    seed_hash: str
    policy_keys: tuple[str, ...]
    node_budgets: tuple[DpNoiseNodePrivacyBudget, ...]

    def __post_init__(self) -> None:
        for field in ("epsilon", "delta", "sensitivity", "noise_multiplier"):
            object.__setattr__(self, field, positive_number(getattr(self, field), field))
        if self.epsilon > MAX_EPSILON:
            raise ValidationError(f"epsilon must be at most {MAX_EPSILON:g}, got {self.epsilon!r}")
        if self.delta >= 1.0:
            raise ValidationError(f"delta must be below 1, got {self.delta!r}")
        integer(self.node_count, "node_count", minimum=1)
        hex_digest(self.seed_hash, "seed_hash")
        object.__setattr__(self, "policy_keys", tuple(sorted(unique_names(self.policy_keys, "policy_keys"))))
        object.__setattr__(self, "node_budgets", _budgets(self.node_budgets))
        if len(self.node_budgets) != self.node_count:
            raise ValidationError(f"node_count is {self.node_count}, node_budgets has {len(self.node_budgets)}")
        if self.epsilon_spent > self.epsilon:
            raise ValidationError(f"privacy budget exceeded: {self.epsilon_spent!r} of {self.epsilon!r} spent")

    @property
    def epsilon_spent(self) -> float:
        """What all nodes have spent together."""
        return math.fsum(budget.epsilon_spent for budget in self.node_budgets)

    def to_audit_record(self) -> dict[str, Any]:
        """Give the request as JSON values."""
        return {
            "schema_name": SCHEMA_NAME,
            "schema_version": SCHEMA_VERSION,
            **asdict(self),
            "policy_keys": list(self.policy_keys),
            "node_budgets": [asdict(budget) for budget in self.node_budgets],
        }


def _budgets(budgets: Iterable[DpNoiseNodePrivacyBudget]) -> tuple[DpNoiseNodePrivacyBudget, ...]:
    result = tuple(budgets)
    if not all(isinstance(budget, DpNoiseNodePrivacyBudget) for budget in result):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValidationError("node_budgets must hold DpNoiseNodePrivacyBudget")
    identifiers = [budget.node_id for budget in result]
    if len(set(identifiers)) != len(identifiers):
        duplicate = next(item for item in identifiers if identifiers.count(item) > 1)
        raise ValidationError(f"node ids of node_budgets must be unique, {duplicate!r} is there twice")
    return result


@dataclass(frozen=True)
class DpNoiseServiceManifest:
    """The answer: the deterministic test vector and what is left of the budget.

    Attributes:
        request_hash: hash of the request record.
        noise_vector: pairs of policy key and noise, sorted by key; a test vector, no protection.
        epsilon: budget of the request.
        delta: of the request.
        privacy_budget_spent: sum over nodes (simple composition).
        privacy_budget_remaining: what is left of ``epsilon``.
        readiness: ``{"ready": true, "reason": "offline_review_only_manifest_ready"}``.
        audit_record_hash: hash of this record with this field empty.
        service_execution_permitted: always ``False``.
        raw_data_export_permitted: always ``False``.
        operator_review_required: always ``True``.
        non_actuating: always ``True``.
    """

    request_hash: str
    noise_vector: tuple[tuple[str, float], ...]
    epsilon: float
    delta: float
    privacy_budget_spent: float
    privacy_budget_remaining: float
    readiness: dict[str, Any]
    audit_record_hash: str = ""
    service_execution_permitted: Literal[False] = False
    raw_data_export_permitted: Literal[False] = False
    operator_review_required: Literal[True] = True
    non_actuating: Literal[True] = True

    def to_audit_record(self) -> dict[str, Any]:
        """Give the answer as JSON values."""
        return {
            "schema_name": SCHEMA_NAME,
            "schema_version": SCHEMA_VERSION,
            "mechanism": "gaussian",
            "noise_standard_deviation": "sensitivity * noise_multiplier",
            "noise_kind": "deterministic_test_vector",
            "budget_composition": "simple",
            **asdict(self),
            "noise_vector": [list(pair) for pair in self.noise_vector],
        }

    def expected_hash(self) -> str:
        """Give the hash that ``audit_record_hash`` must be."""
        return CANONICAL.hash({**self.to_audit_record(), "audit_record_hash": ""})


def _gaussian_test_value(seed_hash: str, index: int, key: str, scale: float) -> float:
    """One value of the test vector: Box-Muller on 16 bytes of a hash.

    ``z = sqrt(-2 ln u1) cos(2 pi u2)`` with ``u = (n + 1) / (2**64 + 1)`` for the two big-endian 64-bit numbers
    at the start of ``SHA-256("seed:index:key:scale")``; the result is ``z * scale`` rounded to 12 places.
    """
    digest = hashlib.sha256(f"{seed_hash}:{index}:{key}:{scale}".encode()).digest()
    first, second = ((int.from_bytes(digest[at : at + 8], "big") + 1) / (2**64 + 1) for at in (0, 8))
    return round(math.sqrt(-2.0 * math.log(first)) * math.cos(2.0 * math.pi * second) * scale, DIGITS)


def build_dp_noise_service_manifest(request: DpNoiseServiceRequestManifest) -> DpNoiseServiceManifest:
    """Answer a request with its deterministic test vector.

    Raises:
        TypeError: the request is of another type.

    Examples:
        >>> request = DpNoiseServiceRequestManifest(
        ...     epsilon=3.0, delta=1e-6, sensitivity=1.0, noise_multiplier=1.1, node_count=1, seed_hash="ab" * 32,
        ...     policy_keys=("zeta", "K"), node_budgets=(DpNoiseNodePrivacyBudget("a", 0.5),))
        >>> build_dp_noise_service_manifest(request).noise_vector
        (('K', -1.211809788075), ('zeta', 1.661008620343))
    """
    if not isinstance(request, DpNoiseServiceRequestManifest):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"request must be a DpNoiseServiceRequestManifest, got {type(request).__name__}")
    scale = request.sensitivity * request.noise_multiplier
    unsealed: dict[str, Any] = {
        "request_hash": CANONICAL.hash(request.to_audit_record()),
        "noise_vector": tuple(
            (key, _gaussian_test_value(request.seed_hash, index, key, scale))
            for index, key in enumerate(request.policy_keys)
        ),
        "epsilon": request.epsilon,
        "delta": request.delta,
        "privacy_budget_spent": round(request.epsilon_spent, DIGITS),
        "privacy_budget_remaining": round(request.epsilon - request.epsilon_spent, DIGITS),
        "readiness": {"ready": True, "reason": "offline_review_only_manifest_ready"},
    }
    return DpNoiseServiceManifest(**unsealed, audit_record_hash=DpNoiseServiceManifest(**unsealed).expected_hash())


@dataclass(frozen=True)
class DpNoiseServiceDeploymentPreflightManifest:
    """Whether a service with these owners may be reviewed for deployment. It permits nothing.

    Attributes:
        request_hash: hash of the request record.
        response_hash: ``audit_record_hash`` of the answer.
        mechanism_label: which mechanism the service claims.
        privacy_accountant_owner: who accounts for the budget.
        seed_custody_label: who keeps the real seed.
        budget_issuer_label: who issues budgets.
        service_endpoint_label: where the service would be.
        operator_approved: what the operator said.
        deployment_ready: whether nothing is missing.
        deployment_reason: ``offline_deployment_preflight_ready``, or what is missing, joined by ``"; "``.
        preflight_hash: hash of this record with this field empty.
        service_execution_permitted: always ``False``.
        raw_data_export_permitted: always ``False``.
        operator_review_required: always ``True``.
        non_actuating: always ``True``.
    """

    request_hash: str
    response_hash: str
    mechanism_label: str
    privacy_accountant_owner: str
    seed_custody_label: str
    budget_issuer_label: str
    service_endpoint_label: str
    operator_approved: bool
    deployment_ready: bool
    deployment_reason: str
    preflight_hash: str = ""
    service_execution_permitted: Literal[False] = False
    raw_data_export_permitted: Literal[False] = False
    operator_review_required: Literal[True] = True
    non_actuating: Literal[True] = True

    def to_audit_record(self) -> dict[str, Any]:
        """Give the manifest as JSON values."""
        return {"schema_name": PREFLIGHT_SCHEMA_NAME, "schema_version": SCHEMA_VERSION, **asdict(self)}


def _linkage_reasons(request: DpNoiseServiceRequestManifest, response: DpNoiseServiceManifest) -> list[str]:
    reasons: list[str] = []
    if response.request_hash != CANONICAL.hash(request.to_audit_record()):
        reasons.append("response does not answer this request")
    if response.audit_record_hash != response.expected_hash():
        reasons.append("response hash does not fit its content")
    if response.epsilon != request.epsilon:
        reasons.append("epsilon of the response differs from the request")
    if response.delta != request.delta:
        reasons.append("delta of the response differs from the request")
    return reasons


def build_dp_noise_service_deployment_preflight_manifest(
    request: DpNoiseServiceRequestManifest,
    response: DpNoiseServiceManifest,
    *,
    mechanism_label: str,
    privacy_accountant_owner: str,
    seed_custody_label: str,
    budget_issuer_label: str,
    service_endpoint_label: str,
    operator_approved: bool,
) -> DpNoiseServiceDeploymentPreflightManifest:
    """Say whether request, answer and the declared owners are complete. Not ready is a verdict, no error.

    Raises:
        TypeError: an argument of another type.
        ValidationError: the approval is no boolean.
    """
    if not isinstance(request, DpNoiseServiceRequestManifest):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"request must be a DpNoiseServiceRequestManifest, got {type(request).__name__}")
    if not isinstance(response, DpNoiseServiceManifest):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"response must be a DpNoiseServiceManifest, got {type(response).__name__}")
    labels = {
        "mechanism_label": mechanism_label,
        "privacy_accountant_owner": privacy_accountant_owner,
        "seed_custody_label": seed_custody_label,
        "budget_issuer_label": budget_issuer_label,
        "service_endpoint_label": service_endpoint_label,
    }
    for field, label in labels.items():
        if not isinstance(label, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{field} must be a string, got {type(label).__name__}")
    reasons = [f"{field} is required" for field, label in labels.items() if not label.strip()]
    if not boolean(operator_approved, "operator_approved"):
        reasons.append("operator approval required")
    reasons += _linkage_reasons(request, response)
    unsealed: dict[str, Any] = {
        "request_hash": CANONICAL.hash(request.to_audit_record()),
        "response_hash": response.audit_record_hash,
        **labels,
        "operator_approved": operator_approved,
        "deployment_ready": not reasons,
        "deployment_reason": "; ".join(reasons) or "offline_deployment_preflight_ready",
    }
    record = DpNoiseServiceDeploymentPreflightManifest(**unsealed).to_audit_record()
    return DpNoiseServiceDeploymentPreflightManifest(**unsealed, preflight_hash=CANONICAL.hash(record))
