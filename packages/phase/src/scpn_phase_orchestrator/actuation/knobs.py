"""The live state of the four knobs: what actions have moved, for how long, and within which limits.

A knob is a pair of a name (``K``, ``alpha``, ``zeta``, ``Psi``) and a scope (``global`` or ``layer_<index>``). Each has
a base value: 1.0 for the gain ``K``, 0.0 for the lag ``alpha``, the configured drive strength for ``zeta`` and the
present drive phase for ``Psi``. An action moves one knob and starts its time to live anew; when that has passed, the
knob is at its base again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import inf, isfinite
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from scpn_phase_orchestrator.actuation.constraints import ActionProjector
from scpn_phase_orchestrator.actuation.mapper import ControlAction
from scpn_phase_orchestrator.binding.types import VALID_KNOBS, ActuatorMapping, BindingSpec
from scpn_phase_orchestrator.coupling.modulation import Modulation
from scpn_phase_orchestrator.exceptions import PolicyError

__all__ = ["DEFAULT_ZETA_CEILING", "GLOBAL_SCOPE", "KnobLedger", "layer_scope"]

FloatArray = NDArray[np.float64]
Semantics = Literal["increment", "value"]

GLOBAL_SCOPE = "global"
DEFAULT_ZETA_CEILING = 0.5
"""Ceiling of the drive strength where no actuator says otherwise (a stronger base drive raises it to itself)."""


def layer_scope(index: int) -> str:
    """Scope of the layer with this declared index.

    Examples:
        >>> layer_scope(3)
        'layer_3'
    """
    return f"layer_{index}"


@dataclass(frozen=True)
class _Bounds:
    """What the actuators of a knob allow: limits, rate per decision, and what both of them bound."""

    low: float
    high: float
    rate: float
    semantics: Semantics


_HELD = _Bounds(-inf, inf, 0.0, "value")
"""Bounds of a knob that may not move."""


@dataclass(slots=True)
class _Live:
    """A knob that an action has moved.

    Attributes:
        value: the knob value now.
        ttl: steps that are left.
        decided: step of the last action.
        value_before: knob value before the actions of that step.
        action: value of the last action.
        action_before: value of the last action before that step.
    """

    value: float
    ttl: int
    decided: int
    value_before: float
    action: float
    action_before: float


class KnobLedger:
    """Applies actions to knobs, within limits, and lets them expire.

    Limits of an actuator bound the action's value (semantics ``increment``) or the knob value that results (``value``).
    The rate bounds the same quantity against its value before the present step, whatever number of actions that step
    brings. A knob without an actuator of its own scope is bound by the actuator of the global scope; a global knob
    with actuators of layers only is bound by all of these; a knob without any is free, except that the drive strength
    stays within 0 and `DEFAULT_ZETA_CEILING`.
    """

    def __init__(
        self,
        actuators: Sequence[ActuatorMapping],
        *,
        dt: float,
        layer_indices: Sequence[int],
        layer_sizes: Sequence[int],
        base_zeta: float = 0.0,
        base_psi: float = 0.0,
    ) -> None:
        """Start with every knob at its base.

        Args:
            actuators: the declared actuators.
            dt: seconds per step, positive.
            layer_indices: declared indices of the layers in list order.
            layer_sizes: oscillators per layer in the same order.
            base_zeta: configured drive strength.
            base_psi: drive phase in rad.

        Raises:
            PolicyError: an actuator names a knob or scope that does not exist.
        """
        self._dt = dt
        self._position = {layer_scope(index): k for k, index in enumerate(layer_indices)}
        self._sizes = np.asarray(layer_sizes, dtype=np.int64)
        ends = np.cumsum(self._sizes)
        self._slices = [slice(int(end - size), int(end)) for end, size in zip(ends, self._sizes, strict=True)]
        self._live: dict[tuple[str, str], _Live] = {}
        self.base_zeta = base_zeta
        self.base_psi = base_psi
        self._declared = self._merge(actuators)
        self._effective = _with_global_bounds(self._declared)
        self._projector = ActionProjector(
            {key: bounds.rate for key, bounds in self._effective.items() if isfinite(bounds.rate)},
            {key: (b.low, b.high) for key, b in self._effective.items() if isfinite(b.low) and isfinite(b.high)},
        )
        self._resolved: dict[tuple[str, str], _Bounds | None] = {}
        self._modulation: Modulation | None = Modulation()

    @classmethod
    def from_spec(cls, spec: BindingSpec, *, base_zeta: float = 0.0, base_psi: float = 0.0) -> KnobLedger:
        """Make the ledger of a spec."""
        return cls(
            spec.actuators,
            dt=spec.sample_period_s,
            layer_indices=[layer.index for layer in spec.layers],
            layer_sizes=[len(layer.oscillator_ids) for layer in spec.layers],
            base_zeta=base_zeta,
            base_psi=base_psi,
        )

    # What may be moved

    @property
    def actuated(self) -> frozenset[tuple[str, str]]:
        """The (knob, scope) pairs that have an actuator."""
        return frozenset(self._declared)

    def limits(self, knob: str, scope: str) -> tuple[float, float]:
        """Lowest and highest value that the knob may get.

        An actuator with semantics ``increment`` bounds actions, not the knob, which then has the limits of a knob
        without an actuator.
        """
        bounds = self._bounds(knob, scope)
        if bounds is None or bounds.semantics == "increment":
            return self._default_limits(knob)
        return bounds.low, bounds.high

    def action_limits(self, knob: str, scope: str) -> tuple[float, float]:
        """Lowest and highest value of an action, where the actuator bounds actions; else unbounded."""
        bounds = self._bounds(knob, scope)
        return (bounds.low, bounds.high) if bounds is not None and bounds.semantics == "increment" else (-inf, inf)

    def rate(self, knob: str, scope: str) -> float:
        """Largest change per decision of what the limits bound; infinite without a rate limit."""
        bounds = self._bounds(knob, scope)
        return inf if bounds is None else bounds.rate

    def semantics(self, knob: str, scope: str) -> Semantics | None:
        """What limits and rate bound; ``None`` without an actuator."""
        bounds = self._bounds(knob, scope)
        return None if bounds is None else bounds.semantics

    # Where the knobs are

    def base(self, knob: str) -> float:
        """Value of the knob that nothing has moved."""
        return {"K": 1.0, "alpha": 0.0, "zeta": self.base_zeta, "Psi": self.base_psi}[knob]

    def value(self, knob: str, scope: str) -> float:
        """Present value of the knob."""
        live = self._live.get((knob, scope))
        return self.base(knob) if live is None else live.value

    def offset(self, knob: str, scope: str) -> float:
        """Present value of the knob minus its base."""
        live = self._live.get((knob, scope))
        return 0.0 if live is None else live.value - self.base(knob)

    def is_offset(self, knob: str, scope: str) -> bool:
        """Whether an action moved the knob and its time is not over."""
        return (knob, scope) in self._live

    def ttl_left_s(self, knob: str, scope: str) -> float:
        """Seconds after which the knob falls back to its base; 0 when it is there."""
        live = self._live.get((knob, scope))
        return 0.0 if live is None else live.ttl * self._dt

    @property
    def is_at_base(self) -> bool:
        """Whether no knob is moved."""
        return not self._live

    # Time and actions

    def begin_step(self) -> None:
        """Let one step pass: a knob whose time is over is at its base before that step is integrated."""
        for key, live in list(self._live.items()):
            live.ttl -= 1
            if live.ttl <= 0:
                del self._live[key]
                self._changed(key[0])

    def project(self, action: ControlAction, step: int) -> ControlAction:
        """Give the action with the value that limits and rate allow, without applying it.

        Raises:
            PolicyError: knob or scope do not exist, or a number is not finite.
        """
        _, value = self._target(action, step)
        return replace(action, value=value)

    def apply(self, action: ControlAction, step: int) -> ControlAction:
        """Move a knob and start its time to live of ``int(ttl_s / dt)`` steps.

        A value of 0.0 for ``K``, ``alpha`` or ``zeta`` leaves the knob where it is and renews its time.

        Args:
            action: what to do: ``K`` multiplies the gain by ``1 + value``, ``alpha`` and ``zeta`` add, ``Psi`` sets.
            step: simulation step of the decision; actions of one step share the reference of the rate limit.

        Returns:
            The action with the value that was applied.

        Raises:
            PolicyError: knob or scope do not exist, or a number is not finite.
        """
        target, value = self._target(action, step)
        key = (action.knob, action.scope)
        live = self._live.get(key)
        same_step = live is not None and live.decided == step
        before = self.value(*key)
        ttl = int(action.ttl_s / self._dt)
        if ttl < 1:  # over before the next step begins
            self._live.pop(key, None)
        else:
            self._live[key] = _Live(
                value=target,
                ttl=ttl,
                decided=step,
                value_before=live.value_before if live is not None and same_step else before,
                action=value,
                action_before=0.0 if live is None else live.action_before if same_step else live.action,
            )
        self._changed(action.knob)
        return replace(action, value=value)

    def rebase_coupling(self) -> None:
        """Take the coupling as it is now for the new base: gains and lags end."""
        self._drop("K")
        self._drop("alpha")

    def rebase_zeta(self, zeta: float) -> None:
        """Take a drive strength for the new base: the global offset ends, offsets of layers stay."""
        moved = zeta - self.base_zeta
        self.base_zeta = zeta
        self._live.pop(("zeta", GLOBAL_SCOPE), None)
        for (knob, _), live in self._live.items():
            if knob == "zeta":
                live.value += moved
                live.value_before += moved

    def rebase_psi(self, psi: float) -> None:
        """Take a drive phase for the new base: the global override ends."""
        self.base_psi = psi
        self._live.pop(("Psi", GLOBAL_SCOPE), None)

    # What the knobs make of a step

    def modulation(self) -> Modulation:
        """Gains and lags that the knobs put on the base coupling."""
        if self._modulation is None:
            self._modulation = self._make_modulation()
        return self._modulation

    def zeta(self, base: float | None = None) -> float | FloatArray:
        """Drive strength, never negative: one number, or shape ``(n,)`` while a layer has its own.

        Args:
            base: base drive strength in place of the ledger's.
        """
        shift = 0.0 if base is None else base - self.base_zeta
        total = self.value("zeta", GLOBAL_SCOPE) + shift
        layers = self._layers("zeta")
        if not layers:
            return max(0.0, total)
        strengths = np.full(int(self._sizes.sum()), total)
        for position, live in layers:
            strengths[self._slices[position]] += live.value - self.base_zeta
        return np.maximum(strengths, 0.0)

    def psi(self, base: float | None = None) -> float | FloatArray:
        """Drive phase in rad: one number, or shape ``(n,)`` while a layer has its own.

        Args:
            base: phase of the driver at this step in place of the ledger's.
        """
        live = self._live.get(("Psi", GLOBAL_SCOPE))
        common = live.value if live is not None else self.base_psi if base is None else base
        layers = self._layers("Psi")
        if not layers:
            return common
        targets = np.full(int(self._sizes.sum()), common)
        for position, layer in layers:
            targets[self._slices[position]] = layer.value
        return targets

    # Below: how

    def _target(self, action: ControlAction, step: int) -> tuple[float, float]:
        """Knob value that the action leads to, and the value of the action that leads there."""
        knob, scope = action.knob, action.scope
        _check(action)
        bounds = self._bounds(knob, scope)
        live = self._live.get((knob, scope))
        same_step = live is not None and live.decided == step
        current = self.value(knob, scope)
        if action.value == 0.0 and knob != "Psi":
            return current, 0.0
        if bounds is not None and bounds.semantics == "increment":
            previous = 0.0 if live is None else live.action_before if same_step else live.action
            value = self._projector.project(action, previous).value
            return self._within_defaults(knob, _moved(knob, current, value)), value
        wanted = _moved(knob, current, action.value)
        if bounds is None:
            target = self._within_defaults(knob, wanted)
        else:
            previous = live.value_before if live is not None and same_step else current
            target = self._projector.project(replace(action, value=wanted), previous).value
        return target, action.value if target == wanted else _action_between(knob, current, target)

    def _bounds(self, knob: str, scope: str) -> _Bounds | None:
        """What binds this knob: the actuators of its scope, else those of the global scope."""
        key = (knob, scope)
        if key not in self._resolved:
            self._check_scope(knob, scope)
            self._resolved[key] = self._effective.get(key) or self._effective.get((knob, GLOBAL_SCOPE))
        return self._resolved[key]

    def _check_scope(self, knob: str, scope: str) -> None:
        if knob not in VALID_KNOBS:
            raise PolicyError(f"knob must be one of {', '.join(sorted(VALID_KNOBS))}, got {knob!r}")
        if scope != GLOBAL_SCOPE and scope not in self._position:
            known = ", ".join([GLOBAL_SCOPE, *self._position])
            raise PolicyError(f"scope of knob {knob} must be one of {known}, got {scope!r}")

    def _merge(self, actuators: Sequence[ActuatorMapping]) -> dict[tuple[str, str], _Bounds]:
        merged: dict[tuple[str, str], _Bounds] = {}
        for actuator in actuators:
            self._check_scope(actuator.knob, actuator.scope)
            rate = actuator.rate_limit_per_step
            bounds = _Bounds(*actuator.limits, inf if rate is None else rate, actuator.resolved_semantics)
            key = (actuator.knob, actuator.scope)
            merged[key] = _tighter(merged[key], bounds) if key in merged else bounds
        return merged

    def _default_limits(self, knob: str) -> tuple[float, float]:
        return (0.0, max(DEFAULT_ZETA_CEILING, self.base_zeta)) if knob == "zeta" else (-inf, inf)

    def _within_defaults(self, knob: str, value: float) -> float:
        low, high = self._default_limits(knob)
        return min(max(value, low), high)

    def _layers(self, knob: str) -> list[tuple[int, _Live]]:
        """Live knobs of layers, by position of the layer."""
        return [(self._position[s], live) for (k, s), live in self._live.items() if k == knob and s != GLOBAL_SCOPE]

    def _make_modulation(self) -> Modulation:
        gains = [1.0] * len(self._slices)
        for position, live in self._layers("K"):
            gains[position] = live.value
        lags = [self.value("alpha", GLOBAL_SCOPE)] * len(self._slices)
        for position, live in self._layers("alpha"):
            lags[position] += live.value
        return Modulation(
            global_gain=self.value("K", GLOBAL_SCOPE),
            layer_gains=tuple(gains) if any(gain != 1.0 for gain in gains) else (),
            layer_lags=tuple(lags) if any(lag != 0.0 for lag in lags) else (),
        )

    def _changed(self, knob: str) -> None:
        if knob in ("K", "alpha"):
            self._modulation = None

    def _drop(self, knob: str) -> None:
        for key in [key for key in self._live if key[0] == knob]:
            del self._live[key]
        self._changed(knob)


def _check(action: ControlAction) -> None:
    for name, number in (("value", action.value), ("ttl_s", action.ttl_s)):
        if not isfinite(number):
            raise PolicyError(f"{name} of an action on {action.knob} must be finite, got {number}")
    if action.ttl_s < 0.0:
        raise PolicyError(f"ttl_s of an action on {action.knob} must be >= 0, got {action.ttl_s}")


def _moved(knob: str, current: float, value: float) -> float:
    if knob == "Psi":
        return value
    return current * (1.0 + value) if knob == "K" else current + value


def _action_between(knob: str, current: float, target: float) -> float:
    """Value of the action that moves a knob from one value to another."""
    if knob == "Psi":
        return target
    if knob == "K":
        return target / current - 1.0 if current != 0.0 else 0.0
    return target - current


def _with_global_bounds(declared: dict[tuple[str, str], _Bounds]) -> dict[tuple[str, str], _Bounds]:
    """Bind the global scope of a knob that has actuators of layers only by what satisfies all of them."""
    effective = dict(declared)
    for knob in sorted({knob for knob, _ in declared} - {knob for knob, scope in declared if scope == GLOBAL_SCOPE}):
        try:
            effective[knob, GLOBAL_SCOPE] = reduce(_tighter, [b for (k, _), b in declared.items() if k == knob])
        except PolicyError:
            effective[knob, GLOBAL_SCOPE] = _HELD  # they have nothing in common: no global move suits them all
    return effective


def _tighter(first: _Bounds, second: _Bounds) -> _Bounds:
    """Give what satisfies two actuators on one knob.

    Raises:
        PolicyError: they bound different things, or their limits have nothing in common.
    """
    low, high = max(first.low, second.low), min(first.high, second.high)
    if first.semantics != second.semantics or low > high:
        raise PolicyError(
            f"conflicting value bounds for one actuated knob: [{first.low}, {first.high}] ({first.semantics}) and "
            f"[{second.low}, {second.high}] ({second.semantics})"
        )
    return _Bounds(low, high, min(first.rate, second.rate), first.semantics)
