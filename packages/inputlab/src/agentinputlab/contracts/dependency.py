"""What the arms of a comparison depend on, and which of it is the treatment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentinputlab.contracts._checks import Record, frozen, put, text, texts
from agentinputlab.contracts.enums import DependencyRole
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.serialization import content_hash

__all__ = ["DependencyBinding", "TreatmentDefinition"]


@dataclass(frozen=True, slots=True)
class DependencyBinding(Record):
    """One dependency of an arm, resolved.

    Attributes:
        slot: what it is used for, such as ``"retriever"``.
        role: the part it plays in the comparison.
        implementation_id: what fills the slot.
        revision: which version of it.
        config: its settings, JSON values.
    """

    slot: str
    role: DependencyRole
    implementation_id: str
    revision: str
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        for name in ("slot", "implementation_id", "revision"):
            text(getattr(self, name), f"DependencyBinding.{name}")
        put(self, role=DependencyRole(self.role), config=frozen(self.config, "DependencyBinding.config"))

    @property
    def resolved_hash(self) -> str:
        """The content hash of what fills the slot; the role does not count."""
        return content_hash(
            {
                "slot": self.slot,
                "implementation_id": self.implementation_id,
                "revision": self.revision,
                "config": self.config,
            }
        )


@dataclass(frozen=True, slots=True)
class TreatmentDefinition(Record):
    """Which slots may differ between arms, which must not, and which are crossed with the treatment.

    Attributes:
        treatment_id: its name.
        treatment_slots: what the comparison changes; at least one.
        nuisance_slots: what must be equal in all arms.
        crossed_slots: what is varied too, in every arm alike.
    """

    treatment_id: str
    treatment_slots: tuple[str, ...]
    nuisance_slots: tuple[str, ...] = ()
    crossed_slots: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        text(self.treatment_id, "TreatmentDefinition.treatment_id")
        owner: dict[str, str] = {}
        for name in ("treatment_slots", "nuisance_slots", "crossed_slots"):
            slots = texts(getattr(self, name), f"TreatmentDefinition.{name}")
            for slot in slots:
                if slot in owner:
                    raise ValidationError(f"TreatmentDefinition.{name} has {slot!r}, which is in {owner[slot]} too")
                owner[slot] = name
            put(self, **{name: slots})
        if not self.treatment_slots:
            raise ValidationError("TreatmentDefinition.treatment_slots must name at least one slot")
