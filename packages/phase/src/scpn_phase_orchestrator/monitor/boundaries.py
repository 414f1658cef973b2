"""Ranges that observed variables must stay in, and which of them are broken."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import NamedTuple, Protocol

from scpn_phase_orchestrator.binding.types import BoundaryDef

__all__ = ["BoundaryObserver", "BoundaryState", "EventSink"]

_LOGGER = logging.getLogger(__name__)

_LARGEST = sys.float_info.max
"""Stands for a missing bound: every finite number is inside, infinities and NaN are not."""


@dataclass
class BoundaryState:
    """The violations of one observation, as messages: all of them, and split by severity."""

    violations: list[str] = field(default_factory=list[str])
    soft_violations: list[str] = field(default_factory=list[str])
    hard_violations: list[str] = field(default_factory=list[str])


class EventSink(Protocol):
    """What takes the events; `supervisor.events.EventBus` is one."""

    def emit(self, kind: str, step: int, detail: str = "") -> None:
        """Record that something of this kind happened at this simulation step."""
        ...


class _Range(NamedTuple):
    variable: str
    lower: float
    upper: float
    is_soft: bool
    definition: BoundaryDef


class BoundaryObserver:
    """Compares observed variables with their declared ranges.

    A boundary of a severity other than ``soft`` and ``hard`` is reported once, when the observer is made, and counts
    as hard.

    Args:
        defs: the boundaries; bounds themselves are inside the range, and ``None`` leaves that side open.

    Examples:
        >>> observer = BoundaryObserver([BoundaryDef("floor", "R", lower=0.25, upper=None, severity="hard")])
        >>> observer.observe({"R": 0.2}).hard_violations
        ['floor: R=0.2 outside [0.25, None]']
        >>> observer.observe({"R": 0.25}).violations
        []
    """

    def __init__(self, defs: Iterable[BoundaryDef]) -> None:
        self._ranges: list[_Range] = []
        for definition in defs:
            if definition.severity not in {"soft", "hard"}:
                _LOGGER.warning(
                    "boundary '%s' has the unknown severity %r; it counts as hard",
                    definition.name,
                    definition.severity,
                )
            lower = -_LARGEST if definition.lower is None else float(definition.lower)
            upper = _LARGEST if definition.upper is None else float(definition.upper)
            self._ranges.append(_Range(definition.variable, lower, upper, definition.severity == "soft", definition))
        self._event_bus: EventSink | None = None
        self._calls = 0

    def set_event_bus(self, event_bus: EventSink | None) -> None:
        """Post one ``boundary_breach`` event per observation with violations to this bus; None stops that."""
        self._event_bus = event_bus

    def observe(self, values: Mapping[str, float], *, step: int | None = None) -> BoundaryState:
        """Compare the values with every boundary whose variable is among them.

        Args:
            values: variables by name; those without a boundary are ignored.
            step: simulation step that the event carries; the number of this call (from 1) when None.

        Returns:
            The violations in the order of the boundaries.

        Raises:
            ValueError: a value with a boundary is not a finite real number.
        """
        self._calls += 1
        broken: list[tuple[_Range, float]] = []
        for one in self._ranges:
            value = values.get(one.variable)
            if value is None:
                continue
            number = value if value.__class__ is float else _real(value, one.variable)
            if one.lower <= number <= one.upper:
                continue
            if not abs(number) <= _LARGEST:
                raise ValueError(f"boundary variable '{one.variable}' must be finite, got {number}")
            broken.append((one, number))
        return self._report(broken, step) if broken else BoundaryState()

    def _report(self, broken: list[tuple[_Range, float]], step: int | None) -> BoundaryState:
        state = BoundaryState()
        for one, value in broken:
            bounds = f"[{one.definition.lower}, {one.definition.upper}]"
            message = f"{one.definition.name}: {one.variable}={value:.4g} outside {bounds}"
            state.violations.append(message)
            (state.soft_violations if one.is_soft else state.hard_violations).append(message)
        if self._event_bus is not None:
            moment = self._calls if step is None else step
            self._event_bus.emit("boundary_breach", moment, "; ".join(state.violations))
        return state


def _real(value: object, variable: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(  # noqa: TRY004 - documented: bad input is a ValueError that names the variable
            f"boundary variable '{variable}' must be a real number, got {value!r}"
        )
    return float(value)
