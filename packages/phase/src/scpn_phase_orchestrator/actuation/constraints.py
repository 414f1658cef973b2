"""Limits on what an action may do: bounds and rate of the actuator that carries it out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import NamedTuple

from scpn_phase_orchestrator.actuation.mapper import ControlAction
from scpn_phase_orchestrator.binding.types import ActuatorMapping

__all__ = ["ActionProjector", "ActuatorKey"]

ActuatorKey = str | tuple[str, str]
"""``(knob, scope)``; a knob alone stands for its global scope."""


class _Limits(NamedTuple):
    lower: float
    upper: float
    rate: float


_UNLIMITED = _Limits(-math.inf, math.inf, math.inf)


class ActionProjector:
    """Moves the value of an action to the nearest one that its actuator allows.

    Limits belong to a knob and a scope. An action takes those of its own scope; where that scope has none, those of
    the knob's global scope; where there are none either, it passes unchanged.

    Args:
        rate_limits: largest change against the previous value, at least 0.
        value_bounds: lowest and highest value.

    Raises:
        ValueError: a limit that is not finite, bounds out of order, or a negative rate.

    Examples:
        >>> projector = ActionProjector({"K": 0.1}, {"K": (-0.2, 0.4)})
        >>> projector.project(ControlAction("K", "global", 0.5, 10.0, "boost"), previous=0.0).value
        0.1
    """

    def __init__(
        self,
        rate_limits: Mapping[str, float] | Mapping[tuple[str, str], float] | Mapping[ActuatorKey, float],
        value_bounds: Mapping[str, tuple[float, float]]
        | Mapping[tuple[str, str], tuple[float, float]]
        | Mapping[ActuatorKey, tuple[float, float]],
    ) -> None:
        self._limits: dict[tuple[str, str], _Limits] = {}
        for key, bounds in value_bounds.items():
            name = f"value bounds of {_label(key)}"
            lower, upper = (_finite(bound, name) for bound in bounds)
            if lower > upper:
                raise ValueError(f"{name} must be ordered, got ({lower}, {upper})")
            self._limits[_full_key(key)] = _Limits(lower, upper, math.inf)
        for key, limit in rate_limits.items():
            name = f"rate limit of {_label(key)}"
            rate = _finite(limit, name)
            if rate < 0.0:
                raise ValueError(f"{name} must be >= 0, got {rate}")
            full_key = _full_key(key)
            self._limits[full_key] = self._limits.get(full_key, _UNLIMITED)._replace(rate=rate)

    @classmethod
    def from_actuator_mappings(cls, mappings: Iterable[ActuatorMapping]) -> ActionProjector:
        """Take the limits of the declared actuators.

        Raises:
            ValueError: two actuators of one knob and scope have different bounds or rates.
        """
        bounds: dict[ActuatorKey, tuple[float, float]] = {}
        rates: dict[ActuatorKey, float | None] = {}
        for mapping in mappings:
            key = (mapping.knob, mapping.scope)
            where = f"for actuator knob '{mapping.knob}' (scope '{mapping.scope}')"
            declared_bounds, declared_rate = mapping.limits, mapping.rate_limit_per_step
            if bounds.setdefault(key, declared_bounds) != declared_bounds:
                raise ValueError(f"conflicting value bounds {where}: {bounds[key]} and {declared_bounds}")
            if rates.setdefault(key, declared_rate) != declared_rate:
                raise ValueError(f"conflicting rate limits {where}: {rates[key]} and {declared_rate}")
        return cls({key: rate for key, rate in rates.items() if rate is not None}, bounds)

    def project(self, action: ControlAction, previous: float) -> ControlAction:
        """Give a copy of the action whose value is allowed: clamped, moved towards `previous`, clamped again.

        Args:
            action: what is wanted.
            previous: value of the last action on this knob and scope.

        Raises:
            ValueError: the value or the previous value is not finite.
        """
        value = action.value
        if not math.isfinite(value):
            raise ValueError(f"value of an action on {action.knob} ({action.scope}) must be finite, got {value}")
        if not math.isfinite(previous):
            raise ValueError(f"previous value of {action.knob} ({action.scope}) must be finite, got {previous}")
        limits = self._limits.get((action.knob, action.scope)) or self._limits.get((action.knob, "global"))
        if limits is not None:
            lower, upper, rate = limits
            value = min(max(value, lower), upper)
            value = min(max(value, previous - rate), previous + rate)
            value = min(max(value, lower), upper)
        return ControlAction(action.knob, action.scope, value, action.ttl_s, action.justification)


def _full_key(key: ActuatorKey) -> tuple[str, str]:
    return (key, "global") if isinstance(key, str) else key


def _label(key: ActuatorKey) -> str:
    return "{} ({})".format(*_full_key(key))


def _finite(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(f"{name} must be finite numbers, got {value!r}")
    return float(value)
