"""A supervisor that looks at what the spec calls good and bad, layer by layer.

Raising the coupling of everything whenever the mean coherence is low also synchronises the layers that should stay
apart. Here every layer has its own error: a good one when its mean R is below ``good_target``, a bad one when its lock
level is above ``bad_ceiling``. Each error asks for the first lever with authority left, and the levers of the layer
itself come before those that move every layer:

=========  ====================================================================================
layer      levers, in order
=========  ====================================================================================
good       K of the layer up, K global up, zeta of the layer up, zeta global up
bad        K of the layer down, alpha of the layer up, zeta of the layer down, K global down, zeta global down
=========  ====================================================================================

Where good and bad layers ask a global lever for opposite things, the declared weights decide. A good layer never
raises a global lever while a bad layer that has no lever of its own is close to its ceiling, and a bad layer that has a
K of its own never asks for less coupling of everybody.

What was set for bad layers is held: an offset whose time to live is about to end is renewed while the objective stands.
What was raised for good layers is given back in small steps while they are well above what is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from scpn_phase_orchestrator.actuation.mapper import ControlAction
from scpn_phase_orchestrator.binding.types import BindingSpec
from scpn_phase_orchestrator.exceptions import PolicyError
from scpn_phase_orchestrator.monitor.boundaries import BoundaryState
from scpn_phase_orchestrator.monitor.coherence import CoherenceWindow
from scpn_phase_orchestrator.supervisor.petri_adapter import PetriNetAdapter
from scpn_phase_orchestrator.supervisor.regimes import REGIME_RANK, RegimeManager
from scpn_phase_orchestrator.supervisor.verdict import longest_bad_beat_s

__all__ = ["KnobReadout", "ObjectiveSupervisor"]

STEP_SIZES = {"K": (1.0, 0.05, 0.5), "alpha": (1.0, 0.1, 0.6), "zeta": (0.3, 0.02, 0.2)}
"""Step of a knob: a factor on the error, the least and the greatest step (a share of the gain; rad; rad/s)."""
RELEASE_SIZES = {"K": 0.05, "zeta": 0.02}
"""Greatest part of a raised knob that is given back in one decision, in the same units."""
URGENCY = 2.0
"""Factor on the error while a hard boundary is violated."""
RENEW_PERIODS = 3.0
"""Control periods before its end at which an offset is renewed."""
LEFT_ALONE_SHARE = 0.5
"""Share of the ceiling below which a bad layer is left alone, so that it does not sit on the edge."""
GAIN_FLOOR = 0.01
"""K gains change by factors, so that a gain of 0 could never be raised again: the supervisor stops here."""
HOLD_PERIODS = 20
"""Time to live of an action, in control periods."""
WINDOW_PERIODS = (10.0, 100.0)
"""Least and greatest memory of the layer means, in control periods, unless the spec sets ``window_s``."""
NEAR_CEILING = 0.7
"""Share of the ceiling from which a bad layer without a lever of its own stops global increases."""
NOMINAL_SHARE = 0.8
"""Share of the ceiling above which no regime is nominal: a layer that locks now and then must not pass for free."""
DISPUTED_BAND = 0.1
"""Net demand below which a common lever stays where it is while layers ask it for opposite things."""
DEGRADED_CAP = 0.55
"""Coherence that the regime manager sees at most while a bad layer is near its ceiling or a good one apart."""

_GLOBAL_VERBS = {
    "K": ("strengthen all coupling", "weaken all coupling"),
    "zeta": ("strengthen the drive of all layers", "weaken the drive of all layers"),
}


class KnobReadout(Protocol):
    """What the supervisor reads of the knobs."""

    def value(self, knob: str, scope: str) -> float:
        """Resulting value of a knob."""
        ...

    def is_offset(self, knob: str, scope: str) -> bool:
        """Whether an action moved it away from its base."""
        ...

    def base(self, knob: str) -> float:
        """Value of a knob that nothing has moved."""
        ...

    def limits(self, knob: str, scope: str) -> tuple[float, float]:
        """Bounds of the resulting value."""
        ...

    def ttl_left_s(self, knob: str, scope: str) -> float:
        """Seconds until it returns to its base; 0 at base."""
        ...


@dataclass(frozen=True)
class _Lever:
    knob: str
    scope: str
    direction: int
    verb: str


@dataclass(frozen=True)
class _Wish:
    """What one layer wants: more order (direction 1) or less (-1), how badly, and why."""

    layer: int
    direction: int
    error: float
    weight: float
    reason: str


@dataclass(frozen=True)
class _Move:
    lever: _Lever
    value: float
    reason: str


class ObjectiveSupervisor:
    """Decide from the declared good and bad layers; see the module's description."""

    def __init__(
        self,
        spec: BindingSpec,
        regime_manager: RegimeManager,
        *,
        petri_adapter: PetriNetAdapter | None = None,
    ) -> None:
        """Prepare the levers of every layer.

        Raises:
            PolicyError: an actuator has increment semantics: its limits do not bound a resulting value.
        """
        for actuator in spec.actuators:
            if actuator.resolved_semantics != "value":
                raise PolicyError(
                    f"actuator {actuator.name!r}: the strategy 'objectives' needs limits on the resulting value; "
                    "set 'semantics: value'"
                )
        self.regime_manager = regime_manager
        self._petri_adapter = petri_adapter
        self._settings = spec.supervisor
        # Aim half-way between the target and full coherence; half-way again is where levers are given back.
        self._aim = 0.5 * (1.0 + spec.supervisor.good_target)
        self._enough = 0.5 * (1.0 + self._aim)
        self._left_alone = LEFT_ALONE_SHARE * spec.supervisor.bad_ceiling
        self._weights = (spec.objectives.good_weight, spec.objectives.bad_weight)
        self._names = [layer.name for layer in spec.layers]
        position = {layer.index: k for k, layer in enumerate(spec.layers)}
        self._good = [position[index] for index in spec.objectives.good_layers if index in position]
        self._bad = [position[index] for index in spec.objectives.bad_layers if index in position]
        actuated = {(actuator.knob, actuator.scope) for actuator in spec.actuators}
        scopes = {k: f"layer_{layer.index}" for k, layer in enumerate(spec.layers)}
        self._levers = {k: _own_levers(scopes[k], k in self._bad, actuated) for k in (*self._good, *self._bad)}
        # A bad layer whose own coupling can be taken away gains nothing when everybody's is weakened.
        self._global_knobs = {
            k: [
                knob
                for knob in ("K", "zeta")
                if (knob, "global") in actuated
                and not (knob == "K" and k in self._bad and ("K", scopes[k]) in actuated)
            ]
            for k in self._levers
        }
        self._raised_for_good = [knob for knob in ("K", "zeta") if (knob, "global") in actuated]
        self._held: set[tuple[str, str]] = set()  # what this supervisor has moved itself; rules keep their own times
        self._period_s = spec.control_period_s
        window_s = self._settings.window_s or _default_window_s(spec)
        sizes = [max(1, len(layer.oscillator_ids)) for layer in spec.layers]
        self.window = CoherenceWindow(sizes, window_s / spec.sample_period_s)

    def observe(self, layer_r: NDArray[np.float64]) -> None:
        """Take the order parameters of one step, shape ``(L,)``; called every step."""
        self.window.update(layer_r)

    def coherence(self) -> float:
        """Give the one number that regimes are proposed from, 0 to 1.

        The weighted mean of the good layers' R and of one minus the bad layers' lock level; capped below the nominal
        threshold while a bad layer is locked or a good layer has come apart.
        """
        mean_r, lock = self.window.mean_r, self.window.lock
        total = weight = 0.0
        is_broken = False
        if self._good:
            good = mean_r[self._good]
            total += self._weights[0] * float(good.mean())
            weight += self._weights[0]
            is_broken = float(good.min()) < min(DEGRADED_CAP, self._settings.good_target)
        if self._bad:
            bad = lock[self._bad]
            total += self._weights[1] * (1.0 - float(bad.mean()))
            weight += self._weights[1]
            recent = self.window.plain_lock[self._bad]
            highest = max(float(bad.max()), float(recent.max()))
            is_broken = is_broken or highest > NOMINAL_SHARE * self._settings.bad_ceiling
        value = total / weight if weight > 0.0 else 1.0
        return min(value, DEGRADED_CAP) if is_broken else value

    def decide(
        self,
        boundary: BoundaryState,
        knobs: KnobReadout,
        petri_ctx: Mapping[str, float] | None = None,
        *,
        step: int,
    ) -> list[ControlAction]:
        """Move the regime and propose actions.

        Args:
            boundary: violations of this step; a hard one makes the regime critical and the steps twice as large.
            knobs: the knobs as they stand.
            petri_ctx: observation for a protocol net, if there is one.
            step: simulation step, for events.

        Returns:
            Actions, not yet projected onto the limits.
        """
        proposed = self.regime_manager.evaluate(None, boundary, coherence=self.coherence())
        if self._petri_adapter is not None and petri_ctx is not None:
            of_net = self._petri_adapter.propose(petri_ctx, step=step) or proposed
            proposed = max(proposed, of_net, key=REGIME_RANK.__getitem__)
        self.regime_manager.transition(proposed, step=step)
        urgency = URGENCY if boundary.hard_violations else 1.0
        wishes = self._wishes()
        moves = self._answers(wishes, knobs, urgency)
        moves += self._releases(knobs, with_common=all(move.lever.scope != "global" for move in moves))
        ttl_s = HOLD_PERIODS * self._period_s
        actions = [ControlAction(move.lever.knob, move.lever.scope, move.value, ttl_s, move.reason) for move in moves]
        moved = {(move.lever.knob, move.lever.scope) for move in moves}
        actions.extend(
            ControlAction(knob, scope, 0.0, ttl_s, "hold what was set")
            for knob, scope in sorted(self._held - moved)
            if knobs.is_offset(knob, scope) and knobs.ttl_left_s(knob, scope) < RENEW_PERIODS * self._period_s
        )
        self._held |= moved
        return actions

    def _wishes(self) -> list[_Wish]:
        mean_r, lock = self.window.mean_r, self.window.lock
        wishes: list[_Wish] = []
        for k in self._bad:
            error = float(lock[k]) - self._left_alone
            if error > 0.0:
                reason = f"{self._names[k]} should stay apart, lock {lock[k]:.2f}"
                wishes.append(_Wish(k, -1, error, self._weights[1], reason))
        for k in self._good:
            error = self._aim - float(mean_r[k])
            if error > 0.0:
                reason = f"{self._names[k]} should hold together, R {mean_r[k]:.2f}"
                wishes.append(_Wish(k, 1, error, self._weights[0], reason))
        return wishes

    def _answers(self, wishes: list[_Wish], knobs: KnobReadout, urgency: float) -> list[_Move]:
        """Move the first lever of each layer that has authority left; where it has none, ask a common one."""
        moves: list[_Move] = []
        shared: dict[str, list[_Wish]] = {}
        for wish in wishes:
            lever = _first_with_authority(self._levers[wish.layer], knobs)
            if lever is not None:
                moves.append(_Move(lever, _amount(lever, urgency * wish.error), f"{wish.reason}: {lever.verb}"))
                continue
            common = [_Lever(knob, "global", wish.direction, "") for knob in self._global_knobs[wish.layer]]
            lever = _first_with_authority(common, knobs)
            if lever is not None:
                shared.setdefault(lever.knob, []).append(wish)
        for knob, asked in shared.items():
            moves.extend(self._settled(knob, asked, urgency))
        return moves

    def _settled(self, knob: str, wishes: list[_Wish], urgency: float) -> list[_Move]:
        """Settle what the layers ask of one common lever by their weights."""
        net = sum(wish.direction * wish.weight * wish.error for wish in wishes)
        is_up = net > 0.0
        is_disputed = len({wish.direction for wish in wishes}) > 1
        if net == 0.0 or (is_disputed and abs(net) < DISPUTED_BAND) or (is_up and self._is_a_bad_layer_exposed()):
            return []
        lever = _Lever(knob, "global", 1 if is_up else -1, _GLOBAL_VERBS[knob][0 if is_up else 1])
        reasons = "; ".join(wish.reason for wish in wishes if wish.direction == lever.direction)
        return [_Move(lever, _amount(lever, urgency * abs(net)), f"{reasons}: {lever.verb}")]

    def _releases(self, knobs: KnobReadout, *, with_common: bool) -> list[_Move]:
        """Give back what was raised for good layers that have more order than they need."""
        mean_r = self.window.mean_r
        have_enough = [k for k in self._good if mean_r[k] > self._enough]
        moves = [move for k in have_enough for move in _release(self._levers[k], knobs)]
        if with_common and have_enough and len(have_enough) == len(self._good):
            moves.extend(_release([_Lever(knob, "global", 1, "") for knob in self._raised_for_good], knobs))
        return moves

    def _is_a_bad_layer_exposed(self) -> bool:
        """Whether a bad layer that has no lever of its own is close to its ceiling."""
        near = NEAR_CEILING * self._settings.bad_ceiling
        lock = self.window.lock
        return any(not self._levers[k] and lock[k] > near for k in self._bad)


def _default_window_s(spec: BindingSpec) -> float:
    """Give a memory that covers one beat of every bad layer, so that R of free oscillators is seen to rise and fall."""
    least, greatest = (periods * spec.control_period_s for periods in WINDOW_PERIODS)
    return min(max(least, longest_bad_beat_s(spec)), greatest)


def _own_levers(scope: str, is_bad: bool, actuated: set[tuple[str, str]]) -> list[_Lever]:
    candidates = (
        (
            _Lever("K", scope, -1, "weaken its coupling"),
            _Lever("alpha", scope, 1, "lag its coupling"),
            _Lever("zeta", scope, -1, "weaken its drive"),
        )
        if is_bad
        else (_Lever("K", scope, 1, "strengthen its coupling"), _Lever("zeta", scope, 1, "strengthen its drive"))
    )
    return [lever for lever in candidates if (lever.knob, lever.scope) in actuated]


def _first_with_authority(levers: list[_Lever], knobs: KnobReadout) -> _Lever | None:
    return next((lever for lever in levers if _has_authority(lever, knobs)), None)


def _has_authority(lever: _Lever, knobs: KnobReadout) -> bool:
    low, high = knobs.limits(lever.knob, lever.scope)
    if lever.knob == "K":
        low = max(low, GAIN_FLOOR)
    if lever.knob == "alpha":
        high = min(high, np.pi)
    value = knobs.value(lever.knob, lever.scope)
    room = high - value if lever.direction > 0 else value - low
    return room > 1e-3 * max(1.0, abs(value))


def _release(levers: list[_Lever], knobs: KnobReadout) -> list[_Move]:
    """Give back a small part of what was raised."""
    moves: list[_Move] = []
    for lever in levers:
        value, base = knobs.value(lever.knob, lever.scope), knobs.base(lever.knob)
        if value <= base:
            continue
        amount = max(-RELEASE_SIZES[lever.knob], base / value - 1.0 if lever.knob == "K" else base - value)
        moves.append(_Move(lever, amount, "enough coherence: give back what was raised"))
    return moves


def _amount(lever: _Lever, error: float) -> float:
    """Size of a step with its sign, see `STEP_SIZES`."""
    factor, least, greatest = STEP_SIZES[lever.knob]
    return lever.direction * float(np.clip(factor * error, least, greatest))
