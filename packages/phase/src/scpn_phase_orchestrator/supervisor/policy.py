"""The default supervisor: a regime per control tick, and the few actions that belong to it."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from scpn_phase_orchestrator.actuation.mapper import ControlAction
from scpn_phase_orchestrator.monitor.boundaries import BoundaryState
from scpn_phase_orchestrator.supervisor.petri_adapter import PetriNetAdapter
from scpn_phase_orchestrator.supervisor.regimes import Regime, RegimeManager
from scpn_phase_orchestrator.upde.metrics import UPDEState

__all__ = ["AdmissionGate", "SupervisorPolicy", "SupervisorPolicyGains"]

_LOGGER = logging.getLogger(__name__)

AdmissionGate = Callable[[list[ControlAction], UPDEState], list[ControlAction]]
"""Takes the proposed actions and the state they answer to; gives the admitted ones, values possibly changed."""


@dataclass(frozen=True)
class SupervisorPolicyGains:
    """How strongly the supervisor acts.

    Attributes:
        k_bump: relative rise of the global coupling when degraded, above 0.
        zeta_bump: rise of the drive strength when critical, above 0.
        k_reduce: relative change of the coupling of the least coherent layer when critical, below 0.
        restore_fraction: share of `k_bump` used in recovery, in (0, 1].

    Raises:
        ValueError: a gain outside its range.
    """

    k_bump: float = 0.05
    zeta_bump: float = 0.1
    k_reduce: float = -0.03
    restore_fraction: float = 0.5

    def __post_init__(self) -> None:
        for name in ("k_bump", "zeta_bump", "k_reduce", "restore_fraction"):
            value: object = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise ValueError(f"{name} must be a finite number, got {value!r}")
        if self.k_bump <= 0.0:
            raise ValueError(f"k_bump must be above 0, got {self.k_bump}")
        if self.zeta_bump <= 0.0:
            raise ValueError(f"zeta_bump must be above 0, got {self.zeta_bump}")
        if self.k_reduce >= 0.0:
            raise ValueError(f"k_reduce must be below 0, got {self.k_reduce}")
        if not 0.0 < self.restore_fraction <= 1.0:
            raise ValueError(f"restore_fraction must be in (0, 1], got {self.restore_fraction}")


class SupervisorPolicy:
    """Decides the regime of a control tick and proposes the actions of that regime.

    | Regime | Actions (knob, scope, value with default gains, time to live in s) |
    |---|---|
    | nominal | none |
    | degraded | K, global, +0.05, 10 |
    | critical | zeta, global, +0.1, 5; K, the layer with the lowest order parameter, -0.03, 5 |
    | recovery | K, global, +0.025, 15 |

    Args:
        regime_manager: holds the regime.
        petri_adapter: a protocol net that proposes the regime instead of the coherence.
        gains: sizes of the actions.
        admission_gate: sees every non-empty proposal and gives what is admitted of it.
        layer_indices: declared index of each layer of the state, for the scope ``layer_<index>``; the positions
            themselves when None.

    Raises:
        ValueError: `layer_indices` repeats an index.
    """

    def __init__(
        self,
        regime_manager: RegimeManager,
        petri_adapter: PetriNetAdapter | None = None,
        gains: SupervisorPolicyGains | None = None,
        admission_gate: AdmissionGate | None = None,
        *,
        layer_indices: Sequence[int] | None = None,
    ) -> None:
        self._regimes = regime_manager
        self._petri_adapter = petri_adapter
        self._gains = SupervisorPolicyGains() if gains is None else gains
        self._admission_gate = admission_gate
        self._layer_indices = None if layer_indices is None else tuple(layer_indices)
        if self._layer_indices is not None and len(set(self._layer_indices)) != len(self._layer_indices):
            raise ValueError(f"layer_indices must differ from each other, got {self._layer_indices}")

    @property
    def regime_manager(self) -> RegimeManager:
        """Holder of the regime."""
        return self._regimes

    def decide(
        self,
        state: UPDEState,
        boundary: BoundaryState,
        petri_ctx: Mapping[str, float] | None = None,
        *,
        step: int | None = None,
    ) -> list[ControlAction]:
        """Advance the regime and give the actions that belong to it.

        With a protocol net and a context the net proposes the regime. Without one, and where the net fails,
        `RegimeManager.evaluate` does.

        Args:
            state: what the step yielded.
            boundary: what is violated.
            petri_ctx: observed variables by name, which the guards of the protocol net read.
            step: simulation step for events and history.
        """
        regime = self._regimes.transition(self._proposal(state, boundary, petri_ctx, step), step=step)
        actions = self._actions_of(regime, state)
        if actions and self._admission_gate is not None:
            actions = self._admission_gate(actions, state)
        _LOGGER.debug("supervisor decide: regime=%s actions=%d", regime.value, len(actions))
        return actions

    def _proposal(
        self,
        state: UPDEState,
        boundary: BoundaryState,
        petri_ctx: Mapping[str, float] | None,
        step: int | None,
    ) -> Regime:
        if self._petri_adapter is not None and petri_ctx is not None:
            proposed = self._petri_adapter.propose(petri_ctx, step=step)
            if proposed is not None:
                return proposed
        return self._regimes.evaluate(state, boundary)

    def _actions_of(self, regime: Regime, state: UPDEState) -> list[ControlAction]:
        if regime is Regime.NOMINAL:
            return []
        gains = self._gains
        if regime is Regime.DEGRADED:
            return [ControlAction("K", "global", gains.k_bump, 10.0, "degraded: boost global coupling")]
        if regime is Regime.RECOVERY:
            restore = gains.k_bump * gains.restore_fraction
            return [ControlAction("K", "global", restore, 15.0, "recovery: gradual coupling restore")]
        actions = [ControlAction("zeta", "global", gains.zeta_bump, 5.0, "critical: increase damping")]
        if state.layers:
            coherences = [layer.R for layer in state.layers]
            position = coherences.index(min(coherences))
            index = position if self._layer_indices is None else self._layer_indices[position]
            why = f"critical: reduce coupling on layer {index}"
            actions.append(ControlAction("K", f"layer_{index}", gains.k_reduce, 5.0, why))
        return actions
