"""The regime a system is in, and the automaton that moves it from one to the next."""

from __future__ import annotations

import math
from collections import deque
from enum import Enum
from typing import NamedTuple

from scpn_phase_orchestrator.monitor.boundaries import BoundaryState
from scpn_phase_orchestrator.supervisor.events import EventBus
from scpn_phase_orchestrator.upde.metrics import UPDEState

__all__ = ["CRITICAL_COHERENCE", "DEGRADED_COHERENCE", "REGIME_RANK", "Regime", "RegimeManager", "RegimeTransition"]

CRITICAL_COHERENCE = 0.3
"""Below this coherence the proposal is CRITICAL."""
DEGRADED_COHERENCE = 0.6
"""Below this coherence the proposal is DEGRADED, or RECOVERY on the way back from CRITICAL."""


class Regime(Enum):
    """How well the system does, from fine to worst: nominal, degraded, recovery, critical."""

    NOMINAL = "nominal"
    DEGRADED = "degraded"
    CRITICAL = "critical"
    RECOVERY = "recovery"


REGIME_RANK = {Regime.NOMINAL: 0, Regime.DEGRADED: 1, Regime.RECOVERY: 2, Regime.CRITICAL: 3}
"""Severity of each regime; a move to a higher rank is a worsening one."""


class RegimeTransition(NamedTuple):
    """A change of regime and the step at which it happened."""

    step: int
    previous: Regime
    current: Regime


class RegimeManager:
    """Holds the current regime, proposes the next one and decides when a proposal takes effect.

    It starts NOMINAL and may leave at the first call. Two gates stand before a change: a worsening one other than to
    CRITICAL needs `hysteresis_hold_steps` consecutive worsening proposals; after any change the next
    ``cooldown_steps - 1`` calls of `transition` cannot change the regime again; CRITICAL passes both.

    Args:
        hysteresis: how far coherence must rise above 0.6 before a regime worse than NOMINAL is left upwards.
        cooldown_steps: calls of `transition` from one change to the earliest next one.
        event_bus: receives ``regime_transition`` events (``manual`` ones from `force_transition`).
        hysteresis_hold_steps: consecutive worsening proposals that a worsening change needs; 0 and 1 need one.

    Raises:
        ValueError: a hysteresis that is negative or not finite, a count that is no integer >= 0.
    """

    def __init__(
        self,
        hysteresis: float = 0.05,
        cooldown_steps: int = 10,
        event_bus: EventBus | None = None,
        hysteresis_hold_steps: int = 0,
    ) -> None:
        self._leave_coherence = DEGRADED_COHERENCE + _margin(hysteresis)
        self._cooldown_steps = _count(cooldown_steps, "cooldown_steps")
        self._hold_steps = _count(hysteresis_hold_steps, "hysteresis_hold_steps")
        self._event_bus = event_bus
        self._current = Regime.NOMINAL
        self._calls = 0
        self._last_change = -self._cooldown_steps
        self._streak = 0
        self._history: deque[RegimeTransition] = deque(maxlen=100)

    @property
    def current_regime(self) -> Regime:
        """The regime in force."""
        return self._current

    @property
    def transition_history(self) -> list[RegimeTransition]:
        """The newest 100 changes, oldest first (a copy)."""
        return list(self._history)

    def evaluate(self, state: UPDEState | None, boundary: BoundaryState, *, coherence: float | None = None) -> Regime:
        """Propose a regime; nothing changes until `transition` takes the proposal.

        The first line that applies decides, with c the coherence and h the hysteresis:

        | Condition | Proposal |
        |---|---|
        | a hard violation, or c < 0.3 | CRITICAL |
        | c < 0.6 | RECOVERY when now CRITICAL or RECOVERY, else DEGRADED |
        | c < 0.6 + h and not now NOMINAL | RECOVERY when now CRITICAL or RECOVERY, else DEGRADED |
        | now CRITICAL | RECOVERY |
        | otherwise | NOMINAL |

        Args:
            state: its mean layer order parameter is the coherence (0.0 without layers); not looked at, and may be
                None, when `coherence` is given.
            boundary: what is violated now.
            coherence: replaces that mean, so that another strategy can judge by its own measure.

        Raises:
            ValueError: the coherence is not a finite number, or there is neither state nor coherence.
        """
        if coherence is None:
            if state is None:
                raise ValueError("a regime needs a state or a coherence, got neither")
            layers = state.layers
            coherence = sum([layer.R for layer in layers]) / len(layers) if layers else 0.0
        if not -math.inf < coherence < math.inf:
            raise ValueError(f"coherence must be a finite number, got {coherence!r}")
        if boundary.hard_violations or coherence < CRITICAL_COHERENCE:
            return Regime.CRITICAL
        current = self._current
        returning = current is Regime.CRITICAL or current is Regime.RECOVERY
        if coherence < DEGRADED_COHERENCE or (current is not Regime.NOMINAL and coherence < self._leave_coherence):
            return Regime.RECOVERY if returning else Regime.DEGRADED
        return Regime.RECOVERY if current is Regime.CRITICAL else Regime.NOMINAL

    def transition(self, proposed: Regime, *, step: int | None = None) -> Regime:
        """Take a proposal if the gates let it pass.

        Args:
            proposed: usually what `evaluate` gave.
            step: simulation step that event and history carry; the number of this call (from 1) when None.

        Returns:
            The regime in force afterwards.

        Raises:
            ValueError: the proposal is no `Regime`.
        """
        _require_regime(proposed)
        self._calls += 1
        current = self._current
        if proposed is current:
            self._streak = 0
            return current
        if proposed is not Regime.CRITICAL:
            if REGIME_RANK[proposed] > REGIME_RANK[current]:
                self._streak += 1
                if self._streak < self._hold_steps:
                    return current
            else:
                self._streak = 0
            if self._calls - self._last_change < self._cooldown_steps:
                return current
        self._change(proposed, "regime_transition", step)
        return proposed

    def force_transition(self, regime: Regime, *, step: int | None = None) -> Regime:
        """Set the regime whatever the gates say; a change is recorded, posted as ``manual`` and starts the cooldown.

        Raises:
            ValueError: `regime` is no `Regime`.
        """
        _require_regime(regime)
        if regime is not self._current:
            self._change(regime, "manual", step)
        return regime

    def _change(self, regime: Regime, kind: str, step: int | None) -> None:
        previous, self._current = self._current, regime
        self._last_change = self._calls
        self._streak = 0
        moment = self._calls if step is None else step
        self._history.append(RegimeTransition(moment, previous, regime))
        if self._event_bus is not None:
            self._event_bus.emit(kind, moment, f"{previous.value}->{regime.value}")


def _require_regime(value: object) -> None:
    if not isinstance(value, Regime):
        raise ValueError(f"regime must be a Regime, got {value!r}")  # noqa: TRY004 - documented: bad input is a ValueError


def _count(value: object, name: str) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{name} must be an integer >= 0, got {value!r}")
    return value


def _margin(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < math.inf:
        raise ValueError(f"hysteresis must be a finite number >= 0, got {value!r}")
    return float(value)
