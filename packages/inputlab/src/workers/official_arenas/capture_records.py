"""Captured records, split into what interventions may see and what only a worker may read.

The origin is named by the protected content alone: ``visible_state_hash`` and ``model_slot`` stand in the replay record
beside ``protected`` and enter neither ``origin_state_hash`` nor ``replay_identity``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from agentinputlab.contracts.enums import SemanticFamily
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.state import FrozenAgentState
from workers.official_arenas._replay_inventory import origin_state_hash, replay_identity
from workers.official_arenas._screening import gold_texts, screen_visible_state
from workers.official_arenas.protocol import OfficialArenaError, content_hash, validate_dependency_hashes

__all__ = ["CaptureSource", "capture_rows"]

_RECORD_FIELDS = frozenset({"checkpoint_id", "group_key", "visible_state", "eligible_families", "protected"})
_FAMILIES = frozenset(family.value for family in SemanticFamily)

Rows = tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]
"""Visible rows, protected rows, checkpoint ids."""


class CaptureSource(Protocol):
    """What `capture_rows` needs of a provider."""

    @property
    def benchmark_id(self) -> str:
        """Name of the arena."""
        ...

    @property
    def source_revision(self) -> str:
        """Revision of its tasks."""
        ...

    def doctor(self, config: Mapping[str, Any]) -> tuple[str, ...]:
        """Give what stops the arena."""
        ...

    def capture(self, config: Mapping[str, Any], *, output_root: Path) -> Sequence[Mapping[str, Any]]:
        """Give the records."""
        ...


def capture_rows(
    provider: CaptureSource,
    config: Mapping[str, Any],
    *,
    split: str,
    output_root: Path,
    dependencies_by_model_slot: Mapping[str, Mapping[str, str]] | None = None,
    model_slot: str | None = None,
) -> Rows:
    """Capture and split every record.

    Args:
        provider: an arena, or a stand-in that hands over records captured earlier.
        config: its config.
        split: name of the task split, for the visible rows.
        output_root: where the provider keeps its receipts.
        dependencies_by_model_slot: locks per model slot, written in place of the record's own.
        model_slot: slot that the capture was made for, written into every protected row.

    Returns:
        Rows of a checkpoint inventory, records of a replay inventory, checkpoint ids; all in the same order.

    Raises:
        OfficialArenaError: the preflight did not pass, a record is malformed or repeats a checkpoint, or its visible
            state holds something privileged.
    """
    if provider.doctor(config):
        raise OfficialArenaError("Capture preflight did not pass")
    if not split.strip():
        raise OfficialArenaError("Capture split must be non-blank text")
    if model_slot is not None and not model_slot.strip():
        raise OfficialArenaError("Capture model slot must be non-blank text")
    slots = _slots(dependencies_by_model_slot)
    visible_rows: list[dict[str, Any]] = []
    protected_rows: list[dict[str, Any]] = []
    unit_ids: list[str] = []
    for value in provider.capture(config, output_root=output_root):
        record = _checked_record(value)
        checkpoint_id = record["checkpoint_id"]
        if checkpoint_id in unit_ids:
            raise OfficialArenaError("Capture repeats a checkpoint")
        identity = {
            "benchmark_id": provider.benchmark_id,
            "source_revision": provider.source_revision,
            "checkpoint_id": checkpoint_id,
        }
        origin = origin_state_hash(**identity, protected=record["protected"])
        replay = replay_identity(**identity, origin=origin)
        visible = _visible_state(record)
        visible_hash = content_hash(visible)
        locks = validate_dependency_hashes(record["protected"].get("locked_dependency_hashes"), name="Captured locks")
        visible_rows.append(
            {
                **identity,
                "split": split,
                "group_id": _group_id(provider.benchmark_id, record["group_key"]),
                "origin_state_hash": origin,
                "replay_identity": replay,
                "visible_state": visible,
                "visible_state_hash": visible_hash,
                "eligible_families": list(record["eligible_families"]),
                **(
                    {"locked_dependency_hashes": locks}
                    if slots is None
                    else {"locked_dependency_hashes_by_model_slot": slots}
                ),
            }
        )
        protected_rows.append(
            {
                "checkpoint_id": checkpoint_id,
                "origin_state_hash": origin,
                "replay_identity": replay,
                "visible_state_hash": visible_hash,
                **({} if model_slot is None else {"model_slot": model_slot}),
                "protected": dict(record["protected"]),
            }
        )
        unit_ids.append(checkpoint_id)
    return visible_rows, protected_rows, unit_ids


_records = capture_rows  # the documented name


def _group_id(benchmark_id: str, group_key: str) -> str:
    return "group_" + content_hash({"benchmark_id": benchmark_id, "group_key": group_key})


def _slots(value: Mapping[str, Mapping[str, str]] | None) -> dict[str, dict[str, str]] | None:
    if value is None:
        return None
    if not value or any(not slot.strip() for slot in value):
        raise OfficialArenaError("Locks by model slot must be a non-empty object with non-blank names")
    return {slot: validate_dependency_hashes(locks, name="Locks of a model slot") for slot, locks in value.items()}


def _checked_record(value: object) -> Mapping[str, Any]:
    fields = frozenset(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else frozenset[str]()
    if fields != _RECORD_FIELDS:
        raise OfficialArenaError(f"Captured record must have exactly the fields {sorted(_RECORD_FIELDS)}")
    record = cast("Mapping[str, Any]", value)
    for name in ("checkpoint_id", "group_key"):
        if not isinstance(record[name], str) or not record[name].strip():
            raise OfficialArenaError(f"Captured {name} must be non-blank text")
    for name in ("visible_state", "protected"):
        if not isinstance(record[name], Mapping):
            raise OfficialArenaError(f"Captured {name} must be an object")
    families = record["eligible_families"]
    listed = list(cast("Sequence[object]", families)) if isinstance(families, list | tuple) else []
    if (
        not listed
        or len(set(map(str, listed))) != len(listed)
        or not all(isinstance(item, str) and item in _FAMILIES for item in listed)
    ):
        raise OfficialArenaError(f"Captured eligible_families must be distinct names out of {sorted(_FAMILIES)}")
    return record


def _visible_state(record: Mapping[str, Any]) -> dict[str, Any]:
    """Give the state in its full form, whose hash is the state hash that an intervention sees."""
    screen_visible_state(record["visible_state"], gold=gold_texts(record["protected"]))
    try:
        return FrozenAgentState.from_dict(record["visible_state"]).canonical_dict()
    except (ValidationError, TypeError, ValueError) as error:
        raise OfficialArenaError("Captured visible_state is no agent state") from error
