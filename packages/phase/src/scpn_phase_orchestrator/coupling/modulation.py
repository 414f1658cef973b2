"""What knobs, imprint and geometry make of a base coupling, as one small value that a record can carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scpn_phase_orchestrator._arrays import FloatArray, real_scalar
from scpn_phase_orchestrator.coupling.geometry_constraints import CONSTRAINTS, project_knm
from scpn_phase_orchestrator.coupling.knm import CouplingState
from scpn_phase_orchestrator.imprint.state import ImprintState
from scpn_phase_orchestrator.imprint.update import ImprintModel

__all__ = ["IMPRINT_TARGETS", "Modulation"]

IMPRINT_TARGETS = ("K", "alpha", "mu")
"""What an imprint can modulate."""
_FIELDS = {"global_gain", "layer_gains", "layer_lags", "imprint", "imprint_targets", "constraints"}


@dataclass(frozen=True)
class Modulation:
    """How the effective matrices of one step differ from the base matrices.

    The operations have one fixed order, so that a replay gets the same bits:

    1. ``K_ij`` times the global gain, then times ``g_a`` inside layer ``a`` or ``g_a g_b`` between layers ``a`` and
       ``b``; ``alpha_ij`` plus the lag of the layer of the receiver ``i``;
    2. imprint ``m`` as in `ImprintModel`: ``K_ij (1 + m_i)``, ``alpha_ij + clip(m_i - m_j)``, ``mu_i (1 + m_i)``, each
       only when targeted;
    3. geometry constraints, which end with a zero diagonal.

    Attributes:
        global_gain: factor on every edge, 1 as declared.
        layer_gains: factor per layer in list order; empty for 1 everywhere.
        layer_lags: lag in rad per layer of the receiver in list order; empty for 0 everywhere.
        imprint: memory per layer, or per oscillator when it differs inside a layer; ``None`` without imprint.
        imprint_targets: which of `IMPRINT_TARGETS` the imprint acts on.
        constraints: names of geometry constraints, in order of application.
    """

    global_gain: float = 1.0
    layer_gains: tuple[float, ...] = ()
    layer_lags: tuple[float, ...] = ()
    imprint: tuple[float, ...] | None = None
    imprint_targets: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()

    @property
    def is_identity(self) -> bool:
        """Whether the effective matrices are the base matrices."""
        return (
            self.global_gain == 1.0
            and not self.layer_gains
            and not self.layer_lags
            and (self.imprint is None or not self.imprint_targets)
            and not self.constraints
        )

    def apply(self, base: CouplingState, layer_of: NDArray[np.int64]) -> CouplingState:
        """Give the effective coupling.

        Args:
            base: base matrices, shape ``(n, n)``.
            layer_of: position of the layer of every oscillator, shape ``(n,)``.

        Returns:
            A new state that shares the unchanged arrays with the base, and is the base itself for the identity.

        Raises:
            ValueError: a tuple has neither one value per layer nor one per oscillator.
        """
        if self.is_identity:
            return base
        knm, alpha = base.knm, base.alpha
        if self.global_gain != 1.0:
            knm = knm * self.global_gain
        if self.layer_gains:
            gains = self._per_layer("layer_gains", self.layer_gains, layer_of)
            between = gains[:, None] * gains[None, :]
            np.fill_diagonal(between, gains)
            knm = knm * between[layer_of[:, None], layer_of[None, :]]
        if self.layer_lags:
            alpha = alpha + self._per_layer("layer_lags", self.layer_lags, layer_of)[layer_of][:, None]
        if self.imprint is not None and ("K" in self.imprint_targets or "alpha" in self.imprint_targets):
            memory = self._memory(layer_of)
            if "K" in self.imprint_targets:
                knm = ImprintModel.modulate_coupling(knm, memory)
            if "alpha" in self.imprint_targets:
                alpha = ImprintModel.modulate_lag(alpha, memory)
        if self.constraints:
            knm = project_knm(knm, [CONSTRAINTS[name] for name in self.constraints])
        return CouplingState(knm, alpha, base.active_template, base.knm_r)

    def apply_mu(self, mu: FloatArray, layer_of: NDArray[np.int64]) -> FloatArray:
        """Give the effective bifurcation parameters, shape ``(n,)``."""
        if self.imprint is None or "mu" not in self.imprint_targets:
            return mu
        return ImprintModel.modulate_mu(mu, self._memory(layer_of))

    def to_record(self) -> dict[str, Any]:
        """Give the fields that differ from the identity as JSON-safe values."""
        record: dict[str, Any] = {}
        if self.global_gain != 1.0:
            record["global_gain"] = self.global_gain
        if self.layer_gains:
            record["layer_gains"] = list(self.layer_gains)
        if self.layer_lags:
            record["layer_lags"] = list(self.layer_lags)
        if self.imprint is not None and self.imprint_targets:
            record["imprint"] = list(self.imprint)
            record["imprint_targets"] = list(self.imprint_targets)
        if self.constraints:
            record["constraints"] = list(self.constraints)
        return record

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Modulation:
        """Read what `to_record` gave.

        Raises:
            ValueError: a field is unknown, of the wrong type or not finite.
        """
        unknown = sorted(set(record) - _FIELDS)
        if unknown:
            raise ValueError(f"modulation has an unknown field {unknown[0]!r}; known: {', '.join(sorted(_FIELDS))}")
        imprint = record.get("imprint")
        return cls(
            global_gain=real_scalar("modulation global_gain", record.get("global_gain", 1.0)),
            layer_gains=_numbers("layer_gains", record.get("layer_gains", ())),
            layer_lags=_numbers("layer_lags", record.get("layer_lags", ())),
            imprint=None if imprint is None else _numbers("imprint", imprint),
            imprint_targets=_names("imprint_targets", record.get("imprint_targets", ()), IMPRINT_TARGETS),
            constraints=_names("constraints", record.get("constraints", ()), tuple(CONSTRAINTS)),
        )

    def _memory(self, layer_of: NDArray[np.int64]) -> ImprintState:
        """Imprint of every oscillator."""
        memory = np.asarray(self.imprint, dtype=np.float64)
        if len(memory) != len(layer_of):
            memory = self._per_layer("imprint", memory, layer_of)[layer_of]
        return ImprintState(m_k=memory, last_update=0.0)

    def _per_layer(self, name: str, values: Sequence[float] | FloatArray, layer_of: NDArray[np.int64]) -> FloatArray:
        n_layers = int(layer_of.max()) + 1 if len(layer_of) else 0
        if len(values) < n_layers:
            raise ValueError(f"modulation {name} must have a value for each of {n_layers} layers, got {len(values)}")
        return np.asarray(values, dtype=np.float64)


def _numbers(name: str, values: object) -> tuple[float, ...]:
    if not isinstance(values, list | tuple):
        raise ValueError(f"modulation {name} must be a list of numbers, got {values!r}")  # noqa: TRY004 - a bad record
    return tuple(real_scalar(f"modulation {name}", value) for value in values)


def _names(name: str, values: object, known: tuple[str, ...]) -> tuple[str, ...]:
    if not isinstance(values, list | tuple):
        raise ValueError(f"modulation {name} must be a list of names, got {values!r}")  # noqa: TRY004 - a bad record
    for value in values:
        if value not in known:
            raise ValueError(f"modulation {name} must hold names of {', '.join(known)}, got {value!r}")
    return tuple(values)
