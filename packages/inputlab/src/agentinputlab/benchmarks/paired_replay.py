"""The host's side of a pair: what is asked of a bridge, what it has to answer, and the check that the pair is one.

A *bridge* restores one protected origin twice, plays baseline and treatment from it and scores both. The host trusts
none of its words that it can check: both arms must say the same origin, seed and locks, they must have run in two
different runtimes, they must be scored by the same measures, and what they used must fit the request.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, TypeVar

from agentinputlab.benchmarks._arm_spending import check_arm_spending
from agentinputlab.contracts._checks import Record, digest, entries, exact_fields, finite, frozen, put, text, whole
from agentinputlab.contracts.enums import StrEnum
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.protocols import ATOMIC_EXTERNAL_PAIR_CONTRACT
from agentinputlab.contracts.serialization import content_hash, to_jsonable
from agentinputlab.observability.usage import ResourceUsage

__all__ = [
    "ArmRole",
    "AtomicArmReceipt",
    "AtomicArmResult",
    "AtomicExternalReplayRunner",
    "AtomicPairResult",
    "AtomicReplayArm",
    "AtomicReplayBridge",
    "AtomicReplayReceipt",
    "AtomicReplayRequest",
    "PairedReplayRecord",
]

_ORIGIN = ("origin_state_hash", "replay_identity", "seed", "locked_dependency_hashes")
_IDENTITY = ("benchmark_id", "checkpoint_id", "source_revision", *_ORIGIN)
_USAGE_FIELDS = tuple(each.name for each in fields(ResourceUsage))

T = TypeVar("T", bound="AtomicReplayArm | AtomicArmReceipt | AtomicArmResult")


class ArmRole(StrEnum):
    """The two sides of a pair."""

    BASELINE = "baseline"
    TREATMENT = "treatment"


@dataclass(frozen=True, slots=True)
class AtomicReplayArm(Record):
    """One side of what is asked: its role, its id, and the payload to play."""

    role: ArmRole
    arm_id: str
    payload: Mapping[str, Any]

    def __post_init__(self) -> None:
        text(self.arm_id, "arm.arm_id")
        put(self, role=ArmRole(self.role), payload=frozen(self.payload, "arm.payload"))

    @classmethod
    def from_dict(cls, value: object) -> AtomicReplayArm:
        """Give the arm that a mapping describes; exactly its three fields."""
        return cls(**_exact(cls, value, "request arm"))


@dataclass(frozen=True, slots=True)
class AtomicReplayRequest(Record):
    """What is asked of a bridge: two arms from one protected origin.

    Attributes:
        benchmark_id: the benchmark.
        checkpoint_id: the checkpoint.
        source_revision: revision of the benchmark's source.
        origin_state_hash: hash of the protected origin.
        replay_identity: identity of its replay record.
        seed: seed of both arms.
        locked_dependency_hashes: what may not change between the arms, name to SHA-256; not empty.
        arms: one baseline and one treatment with different ids.
    """

    benchmark_id: str
    checkpoint_id: str
    source_revision: str
    origin_state_hash: str
    replay_identity: str
    seed: int
    locked_dependency_hashes: Mapping[str, str]
    arms: tuple[AtomicReplayArm, ...]

    def __post_init__(self) -> None:
        _check_identity(self, "request")
        arms = entries(self.arms, "request.arms", AtomicReplayArm)
        by_role = _by_role(arms, "request.arms")
        if len({arm.arm_id for arm in by_role.values()}) != len(by_role):
            raise ValidationError("request.arms must have different arm_id")
        put(self, arms=arms)

    @classmethod
    def from_dict(cls, value: object) -> AtomicReplayRequest:
        """Give the request that a mapping describes; exactly its eight fields.

        Raises:
            ValidationError: a field is unknown, missing or wrong, and is named.
        """
        mapping = dict(_exact(cls, value, "request"))
        rows: tuple[object, ...] = entries(mapping["arms"], "request.arms", object)
        mapping["arms"] = tuple(AtomicReplayArm.from_dict(row) for row in rows)
        return cls(**mapping)

    def as_dict(self) -> dict[str, Any]:
        """Give the request as JSON values: the ``atomic_request`` of an envelope."""
        return to_jsonable(self)

    @property
    def request_hash(self) -> str:
        """The content hash of `as_dict`."""
        return content_hash(self)


@dataclass(frozen=True, slots=True)
class AtomicArmReceipt(Record):
    """What a bridge says about how one arm was run."""

    role: ArmRole
    arm_id: str
    origin_state_hash: str
    replay_identity: str
    seed: int
    locked_dependency_hashes: Mapping[str, str]
    runtime_instance_id: str
    completed: bool

    def __post_init__(self) -> None:
        text(self.arm_id, "arm receipt.arm_id")
        _check_origin(self, "arm receipt")
        digest(self.runtime_instance_id, "arm receipt.runtime_instance_id")
        if self.completed is not True:
            raise ValidationError(f"arm receipt.completed must be true, got {self.completed!r:.80}")
        put(self, role=ArmRole(self.role))

    @classmethod
    def from_dict(cls, value: object) -> AtomicArmReceipt:
        """Give the receipt that a mapping describes; exactly its eight fields."""
        return cls(**_exact(cls, value, "arm receipt"))


@dataclass(frozen=True, slots=True)
class AtomicReplayReceipt(Record):
    """What a bridge says about how a pair was run: twelve fields, one receipt per arm among them."""

    benchmark_id: str
    checkpoint_id: str
    source_revision: str
    origin_state_hash: str
    replay_identity: str
    seed: int
    locked_dependency_hashes: Mapping[str, str]
    bridge_id: str
    bridge_revision: str
    scorer_id: str
    scorer_revision: str
    arms: tuple[AtomicArmReceipt, ...]

    def __post_init__(self) -> None:
        _check_identity(self, "receipt")
        for name in ("bridge_id", "bridge_revision", "scorer_id", "scorer_revision"):
            text(getattr(self, name), f"receipt.{name}")
        arms = entries(self.arms, "receipt.arms", AtomicArmReceipt)
        _by_role(arms, "receipt.arms")
        put(self, arms=arms)

    @classmethod
    def from_dict(cls, value: object) -> AtomicReplayReceipt:
        """Give the receipt that a mapping describes; exactly its twelve fields.

        Raises:
            ValidationError: a field is unknown, missing or wrong, and is named.
        """
        mapping = dict(_exact(cls, value, "receipt"))
        rows: tuple[object, ...] = entries(mapping["arms"], "receipt.arms", object)
        mapping["arms"] = tuple(AtomicArmReceipt.from_dict(row) for row in rows)
        return cls(**mapping)


@dataclass(frozen=True, slots=True)
class AtomicArmResult(Record):
    """What came out of one arm: exactly role, id, measures, hash of the trace, usage.

    Attributes:
        role: the side of the pair.
        arm_id: the arm.
        metrics: measure to finite number; not empty.
        trace_hash: SHA-256 of the trace, which stays with the bridge.
        usage: the eleven fields of `ResourceUsage`, intervention included.
    """

    role: ArmRole
    arm_id: str
    metrics: Mapping[str, float]
    trace_hash: str
    usage: Mapping[str, float]

    def __post_init__(self) -> None:
        text(self.arm_id, "arm result.arm_id")
        digest(self.trace_hash, "arm result.trace_hash")
        metrics = frozen(self.metrics, "arm result.metrics")
        if not metrics:
            raise ValidationError("arm result.metrics must hold at least one measure")
        for name, value in metrics.items():
            finite(value, f"arm result.metrics[{name!r:.80}]")
        usage = frozen(self.usage, "arm result.usage")
        exact_fields(usage, "arm result.usage", allowed=_USAGE_FIELDS, required=_USAGE_FIELDS)
        ResourceUsage(**usage)  # refuses what is no usage
        put(self, role=ArmRole(self.role), metrics=metrics, usage=usage)

    @classmethod
    def from_dict(cls, value: object) -> AtomicArmResult:
        """Give the result that a mapping describes; exactly its five fields.

        Raises:
            ValidationError: a field is unknown, missing or wrong, and is named.
        """
        return cls(**_exact(cls, value, "arm result"))


@dataclass(frozen=True, slots=True)
class AtomicPairResult(Record):
    """What a bridge answers: receipt, one result per arm, and, by role, what else it measured."""

    receipt: AtomicReplayReceipt
    arms: tuple[AtomicArmResult, ...]
    measurements: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        arms = entries(self.arms, "arms", AtomicArmResult)
        _by_role(arms, "arms")
        put(self, arms=arms, measurements=frozen(self.measurements, "measurements"))

    def arm(self, role: ArmRole) -> AtomicArmResult:
        """Give the result of one side."""
        return _by_role(self.arms, "arms")[role]


@dataclass(frozen=True, slots=True)
class PairedReplayRecord(Record):
    """A checked pair.

    Attributes:
        request_hash: content hash of the request.
        receipt: how it was run.
        baseline: what came out of the baseline.
        treatment: what came out of the treatment.
        deltas: measure to treatment minus baseline.
        measurements: what else the bridge measured.
        contract: the contract that was checked.
    """

    request_hash: str
    receipt: AtomicReplayReceipt
    baseline: AtomicArmResult
    treatment: AtomicArmResult
    deltas: Mapping[str, float]
    measurements: Mapping[str, Any] = field(default_factory=dict[str, Any])
    contract: str = ATOMIC_EXTERNAL_PAIR_CONTRACT

    def __post_init__(self) -> None:
        put(self, deltas=frozen(self.deltas, "deltas"), measurements=frozen(self.measurements, "measurements"))

    def as_dict(self) -> dict[str, Any]:
        """Give the record as JSON values."""
        return to_jsonable(self)

    @property
    def record_hash(self) -> str:
        """The content hash of `as_dict`."""
        return content_hash(self)


class AtomicReplayBridge(Protocol):
    """Something that plays a pair; its four names are those that a receipt must carry."""

    @property
    def bridge_id(self) -> str:
        """Which bridge it is."""
        ...

    @property
    def bridge_revision(self) -> str:
        """Which version of it, code and settings."""
        ...

    @property
    def scorer_id(self) -> str:
        """Which scorer it uses."""
        ...

    @property
    def scorer_revision(self) -> str:
        """Which version of it."""
        ...

    def execute(self, request: AtomicReplayRequest) -> AtomicPairResult:
        """Play both arms, once."""
        ...


class AtomicExternalReplayRunner:
    """Runs a pair through a bridge and checks that what comes back is that pair."""

    def run(self, bridge: AtomicReplayBridge, request: AtomicReplayRequest) -> PairedReplayRecord:
        """Play both arms and give the checked record.

        Raises:
            ValidationError: the answer is about another request, another bridge or scorer, one runtime for both arms,
                another origin, seed or locks, other measures for one arm than for the other, or less usage than an
                intervention alone had, or more than a budget allows.
        """
        result = bridge.execute(request)
        receipt = result.receipt
        for name in _IDENTITY:
            _same(f"receipt.{name}", getattr(receipt, name), getattr(request, name))
        for name in ("bridge_id", "bridge_revision", "scorer_id", "scorer_revision"):
            _same(f"receipt.{name}", getattr(receipt, name), getattr(bridge, name))
        asked, receipts, results = (
            _by_role(request.arms, "request.arms"),
            _by_role(receipt.arms, "receipt.arms"),
            _by_role(result.arms, "arms"),
        )
        for role, arm in asked.items():
            _same(f"receipt of {role}: arm_id", receipts[role].arm_id, arm.arm_id)
            _same(f"result of {role}: arm_id", results[role].arm_id, arm.arm_id)
            check_arm_spending(arm.payload, results[role].usage, role.value)
            for name in _ORIGIN:
                _same(f"receipt of {role}: {name}", getattr(receipts[role], name), getattr(request, name))
        if len({each.runtime_instance_id for each in receipts.values()}) != len(receipts):
            raise ValidationError("both arms ran in one runtime; each needs its own")
        baseline, treatment = results[ArmRole.BASELINE], results[ArmRole.TREATMENT]
        if set(baseline.metrics) != set(treatment.metrics):
            different = ", ".join(sorted(set(baseline.metrics) ^ set(treatment.metrics)))
            raise ValidationError(f"both arms must have the same metrics; only one has {different:.200}")
        return PairedReplayRecord(
            request_hash=request.request_hash,
            receipt=receipt,
            baseline=baseline,
            treatment=treatment,
            deltas={name: _delta(name, treatment.metrics[name], value) for name, value in baseline.metrics.items()},
            measurements=result.measurements,
        )


def _delta(name: str, treatment: float, baseline: float) -> float:
    difference = treatment - baseline
    if not math.isfinite(difference):
        raise ValidationError(f"the difference of metric {name:.80} is too large for a double")
    return difference


def _same(name: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise ValidationError(f"{name} differs from what was asked")


def _exact(kind: type[Any], value: object, name: str) -> Mapping[str, Any]:
    names = tuple(each.name for each in fields(kind))
    return exact_fields(value, name, allowed=names, required=names)


def _by_role(arms: tuple[T, ...], name: str) -> dict[ArmRole, T]:
    result = {arm.role: arm for arm in arms}
    if len(arms) != len(ArmRole) or len(result) != len(ArmRole):
        raise ValidationError(f"{name} must be one baseline and one treatment")
    return result


def _check_identity(record: AtomicReplayRequest | AtomicReplayReceipt, name: str) -> None:
    for each in ("benchmark_id", "checkpoint_id", "source_revision"):
        text(getattr(record, each), f"{name}.{each}")
    _check_origin(record, name)


def _check_origin(record: AtomicReplayRequest | AtomicReplayReceipt | AtomicArmReceipt, name: str) -> None:
    digest(record.origin_state_hash, f"{name}.origin_state_hash")
    digest(record.replay_identity, f"{name}.replay_identity")
    whole(record.seed, f"{name}.seed")
    locks = frozen(record.locked_dependency_hashes, f"{name}.locked_dependency_hashes")
    if not locks:
        raise ValidationError(f"{name}.locked_dependency_hashes must not be empty")
    for lock, value in locks.items():
        digest(value, f"{name}.locked_dependency_hashes[{lock!r:.80}]")
    put(record, locked_dependency_hashes=locks)
