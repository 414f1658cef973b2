"""What the supervisor wants (`ControlAction`) and which actuators take it (`ActuationMapper`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from scpn_phase_orchestrator.binding.types import ActuatorMapping

__all__ = ["ActuationMapper", "ControlAction"]


@dataclass(slots=True)
class ControlAction:
    """A proposed change of one knob.

    Attributes:
        knob: ``K``, ``alpha``, ``zeta`` or ``Psi``.
        scope: ``global`` or ``layer_<index>``.
        value: amount, in the unit of the knob.
        ttl_s: how long it acts, in seconds.
        justification: why, in words.
    """

    knob: str
    scope: str
    value: float
    ttl_s: float
    justification: str


class ActuationMapper:
    """Turns actions into commands of the declared actuators.

    Args:
        mappings: the actuators.
    """

    def __init__(self, mappings: Iterable[ActuatorMapping]) -> None:
        self._mappings = tuple(mappings)

    def map_actions(self, actions: Iterable[ControlAction]) -> list[dict[str, Any]]:
        """Give one command per action and actuator that takes it.

        An actuator takes the actions on its knob that have its scope, and all global ones.

        Returns:
            Records ``{actuator, knob, scope, value, ttl_s}`` with the actuator's scope and the value clamped to its
            limits, in the order of actions, then actuators.
        """
        return [
            {
                "actuator": mapping.name,
                "knob": mapping.knob,
                "scope": mapping.scope,
                "value": min(max(action.value, mapping.limits[0]), mapping.limits[1]),
                "ttl_s": action.ttl_s,
            }
            for action in actions
            for mapping in self._takers(action)
        ]

    def validate_action(self, action: ControlAction, mapping: ActuatorMapping | None = None) -> bool:
        """Whether the action fits an actuator, with its value inside the limits.

        Args:
            action: the action to judge.
            mapping: the actuator; when None, at least one must take the action and all that do must fit.
        """
        takers = self._takers(action) if mapping is None else [mapping] if _takes(mapping, action) else []
        return bool(takers) and all(taker.limits[0] <= action.value <= taker.limits[1] for taker in takers)

    def _takers(self, action: ControlAction) -> list[ActuatorMapping]:
        return [mapping for mapping in self._mappings if _takes(mapping, action)]


def _takes(mapping: ActuatorMapping, action: ControlAction) -> bool:
    return mapping.knob == action.knob and action.scope in {mapping.scope, "global"}
