"""From a protocol net to regimes: the marked places say how the system does."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

from scpn_phase_orchestrator.binding.types import ProtocolNetSpec, ProtocolTransitionSpec
from scpn_phase_orchestrator.exceptions import PolicyError
from scpn_phase_orchestrator.supervisor.events import EventBus
from scpn_phase_orchestrator.supervisor.petri_net import Arc, Marking, PetriNet, Place, Transition, parse_guard
from scpn_phase_orchestrator.supervisor.regimes import REGIME_RANK, Regime

__all__ = ["PetriNetAdapter", "petri_net_from_protocol"]

_LOGGER = logging.getLogger(__name__)


class PetriNetAdapter:
    """Advances a protocol net once per control tick and reads a regime from its marking.

    Args:
        net: the net.
        marking: its first marking.
        place_to_regime: regime of each place that stands for one, as `Regime` or as its name in any case.
        event_bus: receives a ``petri_transition`` event, with the name as detail, whenever a transition fires.

    Raises:
        PolicyError: `place_to_regime` is empty, or it or the marking names a place unknown to the net, or a regime is
            unknown.
    """

    def __init__(
        self,
        net: PetriNet,
        marking: Marking,
        place_to_regime: Mapping[str, Regime | str],
        event_bus: EventBus | None = None,
    ) -> None:
        if not place_to_regime:
            raise PolicyError("place_regime must give at least one place a regime, got none")
        self._regimes = {place: _regime(name, place) for place, name in place_to_regime.items()}
        for what, places in (("place_regime", self._regimes), ("initial marking", marking.tokens)):
            unknown = sorted(set(places) - net.place_names)
            if unknown:
                known = ", ".join(sorted(net.place_names))
                raise PolicyError(f"{what} names places unknown to the net: {', '.join(unknown)} (known: {known})")
        self._net = net
        self._marking = marking
        self._event_bus = event_bus
        self._calls = 0
        self._failures = 0

    @classmethod
    def from_protocol(cls, protocol: ProtocolNetSpec, event_bus: EventBus | None = None) -> PetriNetAdapter:
        """Build net, marking and regimes from the `protocol_net` of a binding spec.

        Raises:
            PolicyError: the declaration is malformed; the message names the place of the fault.
        """
        net, marking = petri_net_from_protocol(protocol)
        return cls(net, marking, protocol.place_regime, event_bus)

    @property
    def marking(self) -> Marking:
        """Where the tokens are now."""
        return self._marking

    @property
    def regime(self) -> Regime:
        """The most severe regime among the marked places, NOMINAL when none of them stands for one."""
        regimes = [self._regimes[place] for place in self._marking.tokens if place in self._regimes]
        return max(regimes, key=REGIME_RANK.__getitem__, default=Regime.NOMINAL)

    @property
    def failures(self) -> int:
        """How many times `propose` had no answer because `step` failed."""
        return self._failures

    def propose(self, ctx: Mapping[str, float], *, step: int | None = None) -> Regime | None:
        """Do as `step`, but log and count a failure of any kind and give None.

        A supervisor goes on by its own measure then: a wrong net must not stop the control of a run.
        """
        try:
            return self.step(ctx, step=step)
        except Exception:
            self._failures += 1
            _LOGGER.exception("protocol net failed (failure %d); the coherence decides in its place", self._failures)
            return None

    def step(self, ctx: Mapping[str, float], *, step: int | None = None) -> Regime:
        """Fire at most one transition and give the regime afterwards.

        Args:
            ctx: observed variables by name; only those that guards read are looked at.
            step: simulation step that the event carries; the number of this call (from 1) when None.

        Raises:
            PolicyError: a variable that a guard reads is not a finite number; the net has not moved.
        """
        self._calls += 1
        seen: dict[str, float] = {}
        for metric in self._net.guard_metrics:
            value: object = ctx.get(metric)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
                raise PolicyError(f"variable '{metric}' of a guard must be a finite number, got {value!r}")
            seen[metric] = float(value)
        self._marking, fired = self._net.step(self._marking, seen)
        if fired is not None and self._event_bus is not None:
            self._event_bus.emit("petri_transition", self._calls if step is None else step, fired.name)
        return self.regime


def petri_net_from_protocol(protocol: ProtocolNetSpec) -> tuple[PetriNet, Marking]:
    """Build the net and the initial marking that a binding spec declares.

    Raises:
        PolicyError: a malformed arc, guard, count or name; the message names the place of the fault.
    """
    transitions = [_transition(one, f"protocol_net.transitions[{i}]") for i, one in enumerate(protocol.transitions)]
    return PetriNet([Place(name) for name in protocol.places], transitions), Marking(dict(protocol.initial))


def _transition(declared: ProtocolTransitionSpec, path: str) -> Transition:
    inputs = [_arc(arc, f"{path}.inputs[{i}]") for i, arc in enumerate(declared.inputs)]
    outputs = [_arc(arc, f"{path}.outputs[{i}]") for i, arc in enumerate(declared.outputs)]
    try:
        guard = parse_guard(declared.guard) if declared.guard else None
    except PolicyError as error:
        raise PolicyError(f"{path}.guard: {error}") from error
    return Transition(declared.name, inputs, outputs, guard)


def _arc(declared: Mapping[str, Any] | object, path: str) -> Arc:
    if not isinstance(declared, Mapping) or "place" not in declared or not set(declared) <= {"place", "weight"}:
        raise PolicyError(f"{path} must be a mapping with 'place' and optionally 'weight', got {declared!r}")
    try:
        return Arc(declared["place"], declared.get("weight", 1))
    except PolicyError as error:
        raise PolicyError(f"{path}: {error}") from error


def _regime(name: object, place: str) -> Regime:
    if isinstance(name, Regime):
        return name
    if isinstance(name, str) and name.upper() in Regime.__members__:
        return Regime[name.upper()]
    raise PolicyError(f"regime of place '{place}' must be one of {', '.join(Regime.__members__)}, got {name!r}")
