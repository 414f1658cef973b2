"""What a run looked like over time, as arrays over its steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scpn_phase_orchestrator.actuation.mapper import ControlAction
from scpn_phase_orchestrator.binding.types import BindingSpec
from scpn_phase_orchestrator.monitor.coherence import lock_level
from scpn_phase_orchestrator.supervisor.regimes import REGIME_RANK
from scpn_phase_orchestrator.supervisor.verdict import judged_steps

__all__ = ["REGIME_CODES", "HistoryRecorder", "RunHistory"]

FloatArray = NDArray[np.float64]

REGIME_CODES: dict[str, int] = {regime.value: rank for regime, rank in REGIME_RANK.items()}
"""The number that stands for a regime in `RunHistory.regime`."""
_FIRST_ROWS = 1024


@dataclass(frozen=True)
class RunHistory:
    """A run over its ``T`` steps and ``L`` layers.

    Attributes:
        time_s: end of every step, shape ``(T,)``.
        layer_r: order parameter of every layer, shape ``(T, L)``.
        r_good: order parameter of all good layers together, shape ``(T,)``.
        r_bad: the same of the bad layers.
        regime: code of the regime after the decision of the step (`REGIME_CODES`), shape ``(T,)``.
        zeta: drive strength (mean over the oscillators), shape ``(T,)``.
        k_global: gain on all coupling, shape ``(T,)``.
        k_layers: gain of every layer, shape ``(T, L)``.
        final_phases: shape ``(n,)``.
        final_knm: effective coupling of the last step (the base matrix without a step), shape ``(n, n)``.
        layer_names: names in list order.
        layer_sizes: oscillators per layer.
        good_positions: list positions of the good layers.
        bad_positions: list positions of the bad layers.
        actions: every applied action with its step.
        alpha_layers: lag in rad that actions add to every layer, shape ``(T, L)``.
        zeta_layers: drive strength of every layer, shape ``(T, L)``.
        good_target: mean R that a good layer should reach.
        bad_ceiling: lock level that a bad layer should not exceed.
        window_steps: steps at the end of the run that the verdict looks at, at least 1.
        is_supervised: whether somebody decided; otherwise the regime was never judged.
    """

    time_s: FloatArray
    layer_r: FloatArray
    r_good: FloatArray
    r_bad: FloatArray
    regime: NDArray[np.int64]
    zeta: FloatArray
    k_global: FloatArray
    k_layers: FloatArray
    final_phases: FloatArray
    final_knm: FloatArray
    layer_names: tuple[str, ...]
    layer_sizes: tuple[int, ...]
    good_positions: tuple[int, ...]
    bad_positions: tuple[int, ...]
    actions: tuple[tuple[int, ControlAction], ...]
    alpha_layers: FloatArray
    zeta_layers: FloatArray
    good_target: float
    bad_ceiling: float
    window_steps: int
    is_supervised: bool

    def moving_lock(self) -> FloatArray:
        """Give the lock level of every layer over the `window_steps` up to each step, shape ``(T, L)``.

        The last row is what the verdict judges bad layers by. Rows before the window is full are NaN: over less
        than a beat, free oscillators look locked.
        """
        lock = np.full(self.layer_r.shape, np.nan)
        window = self.window_steps
        if window > len(lock):
            return lock
        sizes = np.maximum(np.array(self.layer_sizes, dtype=np.int64), 1)
        sums = np.concatenate((np.zeros((1, len(sizes))), np.cumsum(self.layer_r**2, axis=0)))
        lock[window - 1 :] = lock_level((sums[window:] - sums[:-window]) / window, sizes)
        return lock


class HistoryRecorder:
    """Collects a history row by row."""

    def __init__(self, spec: BindingSpec, *, is_supervised: bool = True) -> None:
        """Start without a row."""
        position = {layer.index: k for k, layer in enumerate(spec.layers)}
        self._labels: dict[str, Any] = {
            "layer_names": tuple(layer.name for layer in spec.layers),
            "layer_sizes": tuple(len(layer.oscillator_ids) for layer in spec.layers),
            "good_positions": tuple(position[i] for i in spec.objectives.good_layers if i in position),
            "bad_positions": tuple(position[i] for i in spec.objectives.bad_layers if i in position),
            "good_target": spec.supervisor.good_target,
            "bad_ceiling": spec.supervisor.bad_ceiling,
            "is_supervised": is_supervised,
        }
        self._spec = spec
        sizes = self._labels["layer_sizes"]
        self._layer_of = np.repeat(np.arange(len(sizes)), sizes)
        self._dt = spec.sample_period_s
        self._rows = 0
        self._layer_r = np.empty((_FIRST_ROWS, len(spec.layers)))
        self._scalars = np.empty((_FIRST_ROWS, 4))
        self._regime = np.empty(_FIRST_ROWS, dtype=np.int64)
        self._k_layers, self._alpha_layers, self._zeta_layers = (
            np.empty((_FIRST_ROWS, len(spec.layers))) for _ in range(3)
        )
        self._actions: list[tuple[int, ControlAction]] = []

    def add(
        self,
        *,
        layer_r: FloatArray,
        r_good: float,
        r_bad: float,
        regime: str,
        zeta: float | FloatArray,
        k_global: float,
        k_layers: tuple[float, ...],
        alpha_layers: tuple[float, ...],
        actions: tuple[ControlAction, ...],
    ) -> None:
        """Take one step; an empty ``k_layers`` stands for 1 everywhere, empty ``alpha_layers`` for 0."""
        row = self._rows
        if row == len(self._regime):
            self._make_room()
        self._layer_r[row] = layer_r
        mean_zeta = zeta if isinstance(zeta, float) else float(np.mean(zeta))
        self._scalars[row] = (r_good, r_bad, mean_zeta, k_global)
        self._regime[row] = REGIME_CODES[regime]
        self._k_layers[row] = k_layers or 1.0
        self._alpha_layers[row] = alpha_layers or 0.0
        self._zeta_layers[row] = self._layer_means(zeta) if isinstance(zeta, np.ndarray) else zeta
        self._actions.extend((row, action) for action in actions)
        self._rows += 1

    def _layer_means(self, values: FloatArray) -> FloatArray:
        """Average one value an oscillator over each layer; 0 for a layer without oscillators."""
        sizes = np.array(self._labels["layer_sizes"])
        return np.bincount(self._layer_of, weights=values, minlength=len(sizes)) / np.maximum(sizes, 1)

    def _make_room(self) -> None:
        """Double the capacity."""
        self._layer_r, self._scalars, self._k_layers, self._alpha_layers, self._zeta_layers = (
            np.concatenate((table, np.empty_like(table)))
            for table in (self._layer_r, self._scalars, self._k_layers, self._alpha_layers, self._zeta_layers)
        )
        self._regime = np.concatenate((self._regime, np.empty_like(self._regime)))

    def finish(self, final_phases: FloatArray, final_knm: FloatArray) -> RunHistory:
        """Give the history of the rows that were added."""
        rows = slice(0, self._rows)
        r_good, r_bad, zeta, k_global = self._scalars[rows].T.copy()
        return RunHistory(
            time_s=self._dt * np.arange(1, self._rows + 1, dtype=np.float64),
            layer_r=self._layer_r[rows].copy(),
            r_good=r_good,
            r_bad=r_bad,
            regime=self._regime[rows].copy(),
            zeta=zeta,
            k_global=k_global,
            k_layers=self._k_layers[rows].copy(),
            final_phases=final_phases,
            final_knm=final_knm,
            actions=tuple(self._actions),
            alpha_layers=self._alpha_layers[rows].copy(),
            zeta_layers=self._zeta_layers[rows].copy(),
            window_steps=judged_steps(self._spec, self._rows),
            **self._labels,
        )
