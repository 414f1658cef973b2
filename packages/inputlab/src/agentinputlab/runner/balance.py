"""The check that the arms of a comparison differ in their treatment and in nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agentinputlab.contracts._checks import texts
from agentinputlab.contracts.dependency import DependencyBinding, TreatmentDefinition
from agentinputlab.contracts.errors import BalanceError, ValidationError

__all__ = ["BalanceAuditor", "BalanceReport"]


@dataclass(frozen=True, slots=True)
class BalanceReport:
    """What the arms have in common.

    Attributes:
        arms: names of the arms.
        unequal_required_slots: slots that must be equal and are not, or that an arm lacks.
        undeclared_differences: other slots that differ without being declared as treatment or as crossed.
    """

    arms: tuple[str, ...]
    unequal_required_slots: tuple[str, ...] = ()
    undeclared_differences: tuple[str, ...] = ()

    @property
    def is_balanced(self) -> bool:
        """The arms differ in nothing but what was declared."""
        return not (self.unequal_required_slots or self.undeclared_differences)

    def as_dict(self) -> dict[str, Any]:
        """Give the report as JSON values."""
        return {**asdict(self), "is_balanced": self.is_balanced}


class BalanceAuditor:
    """Compares what fills the slots of two or more arms.

    Args:
        required_equal: slots that every arm has, filled alike.
        may_differ: slots that are the treatment, or crossed with it.
    """

    def __init__(self, required_equal: Sequence[str] = (), *, may_differ: Sequence[str] = ()) -> None:
        self._required = texts(tuple(required_equal), "required_equal")
        self._may_differ = texts(tuple(may_differ), "may_differ")
        both = sorted(set(self._required) & set(self._may_differ))
        if both:
            raise ValidationError(f"required_equal and may_differ both hold {', '.join(both)}")

    @classmethod
    def for_treatment(cls, treatment: TreatmentDefinition) -> BalanceAuditor:
        """Give the auditor of a treatment: nuisance slots are equal, treatment and crossed slots may differ."""
        return cls(treatment.nuisance_slots, may_differ=(*treatment.treatment_slots, *treatment.crossed_slots))

    def audit(self, arms: Mapping[str, Mapping[str, str | DependencyBinding]]) -> BalanceReport:
        """Compare arms.

        Args:
            arms: name of an arm to its slots, each with what fills it: a binding, or the identity of it.

        Raises:
            ValidationError: fewer than two arms, or a binding stands under another slot than its own.
        """
        if len(arms) < 2:
            raise ValidationError(f"a comparison needs two or more arms, got {len(arms)}")
        filled = {
            arm: {slot: _identity(arm, slot, value) for slot, value in slots.items()} for arm, slots in arms.items()
        }
        slots = dict.fromkeys((*self._required, *(slot for identities in filled.values() for slot in identities)))
        unequal = [slot for slot in slots if len({identities.get(slot) for identities in filled.values()}) > 1]
        missing = [slot for slot in self._required if any(slot not in identities for identities in filled.values())]
        return BalanceReport(
            arms=tuple(arms),
            unequal_required_slots=tuple(slot for slot in self._required if slot in unequal or slot in missing),
            undeclared_differences=tuple(
                slot for slot in unequal if slot not in self._required and slot not in self._may_differ
            ),
        )

    def require_balanced(self, arms: Mapping[str, Mapping[str, str | DependencyBinding]]) -> BalanceReport:
        """Give the report of balanced arms.

        Raises:
            BalanceError: they are not; the slots are named.
        """
        report = self.audit(arms)
        if not report.is_balanced:
            slots = ", ".join((*report.unequal_required_slots, *report.undeclared_differences))
            raise BalanceError(f"the arms {', '.join(report.arms)} differ in {slots}, which is not the treatment")
        return report


def _identity(arm: str, slot: str, value: str | DependencyBinding) -> str:
    if not isinstance(value, DependencyBinding):
        return value
    if value.slot != slot:
        raise ValidationError(f"slot {slot!r} of arm {arm!r} holds a binding of slot {value.slot!r}")
    return value.resolved_hash
