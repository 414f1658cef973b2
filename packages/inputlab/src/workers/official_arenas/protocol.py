"""What arenas, workers and ledgers share: protocol strings, hashes, budgets, payloads, the provider interface."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from agentinputlab.contracts.protocols import (
    CHECKPOINT_INVENTORY_PROTOCOL,
    EXECUTABLE_PAYLOAD_PROTOCOL,
    REPLAY_INVENTORY_PROTOCOL,
    REQUEST_PROTOCOL,
    RESPONSE_PROTOCOL,
    WORKER_PROTOCOL,
)
from ripieno import canonical
from ripieno.errors import InputError
from ripieno.files import sha256_file
from workers.official_arenas._budgets import (
    BUDGET_OVERRIDE_PATH_ENV,
    BUDGET_OVERRIDE_SHA256_ENV,
    SHARED_BUDGET_FIELDS,
    resolve_shared_budget_config,
    shared_budget,
    standard_shared_budget,
    validate_shared_budget,
    visible_shared_budget,
)
from workers.official_arenas._errors import OfficialArenaError
from workers.official_arenas._reading import read_bound_bytes
from workers.official_arenas._usage import USAGE_FIELDS, merge_usage

__all__ = [
    "BUDGET_OVERRIDE_PATH_ENV",
    "BUDGET_OVERRIDE_SHA256_ENV",
    "CHECKPOINT_INVENTORY_PROTOCOL",
    "EXECUTABLE_PAYLOAD_PROTOCOL",
    "MAX_INVENTORY_BYTES",
    "REPLAY_INVENTORY_PROTOCOL",
    "REQUEST_PROTOCOL",
    "RESPONSE_PROTOCOL",
    "SHARED_BUDGET_FIELDS",
    "USAGE_FIELDS",
    "WORKER_PROTOCOL",
    "OfficialArenaError",
    "OfficialArenaProvider",
    "ProviderArmResult",
    "canonical_json",
    "checkpoint_identity_hash",
    "content_hash",
    "helper_sha256",
    "intervention_usage",
    "is_sha256",
    "materialized_state",
    "merge_usage",
    "normalized_trace_hash",
    "read_bound_bytes",
    "require_materialized_budget",
    "resolve_shared_budget_config",
    "sha256_file",
    "shared_budget",
    "standard_shared_budget",
    "trace_hashes",
    "usage_with_intervention",
    "validate_dependency_hashes",
    "validate_shared_budget",
    "visible_shared_budget",
]

MAX_INVENTORY_BYTES = 64 * 2**20
"""Longest checkpoint or replay inventory that is read."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
_WALL_CLOCK_FIELDS = frozenset(
    {
        "timestamp",
        "start_time",
        "end_time",
        "created",
        "created_at",
        "duration",
        "duration_ms",
        "generation_time_seconds",
        "raw_data",  # a server's own answer, with its own ids and times
    }
)


_WALL_CLOCK_KEY = re.compile(f'"(?:{"|".join(sorted(_WALL_CLOCK_FIELDS))})":'.encode())
"""Such a key in canonical text; within a string its quotes would be escaped."""


def canonical_json(value: object) -> str:
    """Write a plain JSON value as its one canonical text (no dataclasses, no enums).

    Raises:
        TypeError: the value holds something that JSON has no type for, or a key that is no string.
        ValueError: it holds NaN, Infinity or a lone surrogate, or is nested too deep.
    """
    return _canonical_bytes(value).decode()


def content_hash(value: object) -> str:
    """Give the lowercase hex SHA-256 of `canonical_json`.

    Raises:
        TypeError: as `canonical_json`.
        ValueError: as `canonical_json`.
    """
    try:
        return canonical.content_hash(value)
    except InputError as error:
        raise _plain_error(error) from error


def _canonical_bytes(value: object) -> bytes:
    try:
        return canonical.canonical_json(value)
    except InputError as error:
        raise _plain_error(error) from error


def _plain_error(error: InputError) -> TypeError | ValueError:
    """The two kinds of bad value; the text of neither carries what the value says."""
    unsupported = re.search(r"is of type (\w+), which JSON cannot say$", str(error))
    if unsupported:
        return TypeError(f"Unsupported canonical value: {unsupported[1]}")
    if "JSON keys are strings" in str(error):
        return TypeError("Unsupported canonical value: a key that is not a string")
    return ValueError("Canonical values are finite numbers, valid Unicode and at most 100 levels deep")


def is_sha256(value: object) -> bool:
    """Tell whether a value is 64 lowercase hex digits."""
    return isinstance(value, str) and _SHA256.fullmatch(value) is not None


def helper_sha256(files: Mapping[str, Path]) -> str:
    """Give the hash of a provider's helper files: that of the file if it is one, else of ``{name: hash}``.

    Raises:
        OfficialArenaError: no file is named.
        IntegrityError: a path is not a regular file.
        OSError: a file cannot be read.
    """
    if not files:
        raise OfficialArenaError("Provider names no helper file")
    hashes = {name: sha256_file(path) for name, path in files.items()}
    return next(iter(hashes.values())) if len(hashes) == 1 else content_hash(hashes)


def validate_dependency_hashes(value: object, *, name: str = "locked_dependency_hashes") -> dict[str, str]:
    """Give a checked copy of a map from dependency to SHA-256.

    Raises:
        OfficialArenaError: it is not a non-empty object of non-blank names and 64 lowercase hex digits each.
    """
    if (type(value) is not dict and not isinstance(value, Mapping)) or not value:
        raise OfficialArenaError(f"{name} must be a non-empty object")
    hashes = cast("Mapping[object, object]", value)
    for key, item in hashes.items():
        if not isinstance(key, str) or not key.strip() or not is_sha256(item):
            raise OfficialArenaError(f"{name} must map non-blank names to 64 lowercase hex digits")
    return dict(cast("Mapping[str, str]", hashes))


_IDENTITY = ("benchmark_id", "checkpoint_id", "source_revision", "origin_state_hash", "replay_identity")


def checkpoint_identity_hash(origin: Mapping[str, Any], *, hash_of: Callable[[object], str] = content_hash) -> str:
    """Give the hash that a payload carries as ``checkpoint_identity_hash``.

    Args:
        origin: a checkpoint row or an atomic request; ``benchmark_id``, ``checkpoint_id``, ``source_revision``,
            ``origin_state_hash`` and ``replay_identity`` count.
        hash_of: gives the content hash of an object of these; a faster one fits where more is known of them.

    Raises:
        OfficialArenaError: one of the five is missing.
    """
    try:
        identity = {name: origin[name] for name in _IDENTITY}
    except KeyError:
        raise OfficialArenaError(f"Checkpoint identity needs {', '.join(_IDENTITY)}") from None
    return hash_of(identity)


def normalized_trace_hash(trace: object) -> str:
    """Give the hash of a trace without its wall-clock fields: equal trajectories hash equally."""
    return content_hash(_without_wall_clock(trace))


def trace_hashes(trace: object, canonical_text: bytes | None = None) -> tuple[str, str]:
    """Give the content hash of a trace and its `normalized_trace_hash`.

    Args:
        trace: the trace.
        canonical_text: its canonical JSON, if it is known.
    """
    text = _canonical_bytes(trace) if canonical_text is None else canonical_text
    digest = hashlib.sha256(text).hexdigest()
    return digest, normalized_trace_hash(trace) if _WALL_CLOCK_KEY.search(text) else digest


def _without_wall_clock(value: object) -> object:
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        return {key: _without_wall_clock(item) for key, item in items if key not in _WALL_CLOCK_FIELDS}
    if isinstance(value, list | tuple):
        return [_without_wall_clock(item) for item in cast("Sequence[object]", value)]
    return value


# --- payloads -----------------------------------------------------------------------------------------------


def materialized_state(
    payload: Mapping[str, Any], *, hash_of: Callable[[object], str] = content_hash
) -> dict[str, Any]:
    """Give the visible state that an arm starts from, after its hashes were checked.

    Args:
        payload: arm payload.
        hash_of: gives the content hash of a value; a faster one fits where more is known of the payload.

    Raises:
        OfficialArenaError: another schema or protocol, or the state does not have the hash that the payload says.
    """
    if type(payload.get("schema_version")) is not int or payload["schema_version"] != 1:
        raise OfficialArenaError("Payload schema_version must be 1")
    if payload.get("protocol") != EXECUTABLE_PAYLOAD_PROTOCOL:
        raise OfficialArenaError(f"Payload protocol must be {EXECUTABLE_PAYLOAD_PROTOCOL}")
    execution = _execution(payload)
    given = execution.get("materialized_state")
    if type(given) is not dict and not isinstance(given, Mapping):
        raise OfficialArenaError("Payload materialized_state must be an object")
    state = dict(cast("Mapping[str, Any]", given))
    try:
        digest = hash_of(state)
    except (TypeError, ValueError) as error:
        raise OfficialArenaError("Payload materialized_state is not a JSON value") from error
    if digest != execution.get("output_state_hash"):
        raise OfficialArenaError("Payload materialized_state differs from output_state_hash")
    if execution.get("input_state_hash") != payload.get("visible_state_hash"):
        raise OfficialArenaError("Payload input_state_hash differs from visible_state_hash")
    return state


def _execution(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    execution = payload.get("intervention_execution")
    if type(execution) is not dict and not isinstance(execution, Mapping):
        raise OfficialArenaError("Payload intervention_execution must be an object")
    return cast("Mapping[str, Any]", execution)


def intervention_usage(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Give what the intervention itself used, in the eleven fields (a reported total cost is not counted twice).

    Raises:
        OfficialArenaError: the usage is missing or malformed.
    """
    return merge_usage(_reported_usage(payload))


def usage_with_intervention(payload: Mapping[str, Any], usage: Mapping[str, Any]) -> dict[str, Any]:
    """Give what an arm used together with its intervention: `intervention_usage` merged with ``usage``.

    Raises:
        OfficialArenaError: either is missing or malformed.
    """
    return merge_usage(_reported_usage(payload), usage)


def _reported_usage(payload: Mapping[str, Any]) -> dict[str, Any]:
    usage = _execution(payload).get("usage")
    if type(usage) is not dict and not isinstance(usage, Mapping):
        raise OfficialArenaError("Payload usage must be an object")
    reported = dict(cast("Mapping[str, Any]", usage))
    reported.pop("total_cost_usd", None)
    return reported


def require_materialized_budget(payload: Mapping[str, Any], budget: Mapping[str, Any] | None) -> dict[str, Any]:
    """Give the budget of the arm's materialized state, which must be the shared one.

    Args:
        payload: arm payload.
        budget: shared budget of the config, or None when the config has none.

    Raises:
        OfficialArenaError: the budget is missing, or differs from the shared one.
    """
    materialized = materialized_state(payload).get("budget")
    if type(materialized) is not dict and not isinstance(materialized, Mapping):
        raise OfficialArenaError("Payload materialized_state has no budget")
    arm_budget = dict(cast("Mapping[str, Any]", materialized))
    if budget is not None and arm_budget != visible_shared_budget(budget):
        raise OfficialArenaError("Payload budget differs from the shared budget")
    return arm_budget


# --- providers ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProviderArmResult:
    """What one played arm gave.

    Attributes:
        metrics: the scorer's numbers by name; finite, at least one.
        trace: the trajectory as a JSON value, a list of messages or an object with ``messages``, not empty; it stays
            private, `workers.official_arenas._trace_measurement` says what of it is public.
        usage: what the arm used, in the fields of `merge_usage`.
        runtime_instance_id: 64 characters, different for every runtime.
    """

    metrics: Mapping[str, float]
    trace: Any
    usage: Mapping[str, Any] = field(default_factory=dict[str, Any])
    runtime_instance_id: str = ""

    def __post_init__(self) -> None:
        metrics = cast("object", self.metrics)
        if (type(metrics) is not dict and not isinstance(metrics, Mapping)) or not metrics:
            raise OfficialArenaError("Arm metrics must be a non-empty object")
        for name, value in cast("Mapping[object, object]", metrics).items():
            number = (type(value) is float or type(value) is int) and math.isfinite(cast("float", value))
            if not isinstance(name, str) or not name.strip() or not number:
                raise OfficialArenaError("Arm metrics must map non-blank names to finite numbers")
        if (type(self.trace) is not dict and not isinstance(self.trace, Mapping | list | tuple)) or not self.trace:
            raise OfficialArenaError("Arm trace must be a non-empty object or list")
        merge_usage(self.usage)
        identity = cast("object", self.runtime_instance_id)
        if not isinstance(identity, str) or len(identity) != 64:
            raise OfficialArenaError("Arm runtime_instance_id must be 64 characters")


class OfficialArenaProvider(Protocol):
    """An arena: tasks, a simulated user, tools and a scorer behind one interface.

    A provider module has a ``factory()`` without arguments that gives one. `workers.official_arenas.providers`
    holds the table of those that a worker accepts.
    """

    @property
    def benchmark_id(self) -> str:
        """Name that all results of this arena carry."""
        ...

    @property
    def source_revision(self) -> str:
        """Revision of the tasks and rules, 40 hex digits."""
        ...

    @property
    def scorer_id(self) -> str:
        """Name of the scorer."""
        ...

    @property
    def scorer_revision(self) -> str:
        """Hash of everything that decides a score."""
        ...

    @property
    def seed(self) -> int:
        """The one seed of captures and arms (17)."""
        ...

    @property
    def split_sizes(self) -> Mapping[str, int]:
        """Number of tasks per split."""
        ...

    def source_files(self) -> Mapping[str, Path]:
        """Give everything that decides an arm's outcome: repository-relative name -> file."""
        ...

    def helper_files(self) -> Mapping[str, Path]:
        """Give the files, some of `source_files`, that `helper_sha256` covers."""
        ...

    def task_ids(self, config: Mapping[str, Any]) -> list[str]:
        """Give the task ids of the configured split, in official order, as many as the config limits."""
        ...

    def doctor(self, config: Mapping[str, Any]) -> tuple[str, ...]:
        """Give what stops this arena here; empty when it can run."""
        ...

    def capture(self, config: Mapping[str, Any], *, output_root: Path) -> Sequence[Mapping[str, Any]]:
        """Give one five-field record per task; raises when any task was not captured."""
        ...

    def capture_batch(
        self,
        config: Mapping[str, Any],
        *,
        output_root: Path,
        durable: bool = True,
        on_task: Callable[[str, str], None] | None = None,
    ) -> dict[str, Any]:
        """Play every task to its first user message, once; ``on_task`` is told task id and status after each."""
        ...

    def run_arm(
        self,
        config: Mapping[str, Any],
        *,
        replay_record: Mapping[str, Any],
        arm_payload: Mapping[str, Any],
        seed: int,
        role: str,
        work_dir: Path,
        durable: bool = True,
    ) -> ProviderArmResult:
        """Play one arm from the protected origin to its end and score it."""
        ...

    def _validate_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Give the checked config with the shared budget resolved."""
        ...

    def _first_turn(self, config: Mapping[str, Any], task_id: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Give the record of one task and the usage of its exactly one user generation (None: unknown)."""
        ...
