"""Executing recorded steps again, one after the other, and comparing each with what the log says came next."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from operator import is_
from typing import Any, Protocol, cast

import numpy as np

from scpn_phase_orchestrator._arrays import FloatArray
from scpn_phase_orchestrator._compat import TWO_PI
from scpn_phase_orchestrator.coupling.knm import CouplingState
from scpn_phase_orchestrator.coupling.modulation import Modulation
from scpn_phase_orchestrator.runtime._array_references import REFERENCED_ARRAYS, ReferenceTable, array_reference
from scpn_phase_orchestrator.upde.order_params import (
    LayerIndex,
    compute_order_parameter,
    layer_order_parameters,
)

__all__ = [
    "PHASE_TOLERANCE",
    "R_TOLERANCE",
    "DeterminismReport",
    "Mismatch",
    "Reexecution",
    "StepEngine",
    "recorded_arrays",
]

R_TOLERANCE = 1e-12
"""Largest deviation of an order parameter between two backends."""
PHASE_TOLERANCE = 1e-9
"""Largest deviation of a phase (rad) or an amplitude between two backends."""


class StepEngine(Protocol):
    """What a recorded step is executed with: `UPDEEngine` or `StuartLandauEngine`."""

    step: Any


class Mismatch(Exception):  # noqa: N818 - it names what was found
    """A recorded step does not lead to what the log says."""


@dataclass
class DeterminismReport:
    """How far executing the recorded steps again agrees with the log.

    Attributes:
        transitions: recorded pairs of steps of which the first led to the second.
        overridden: pairs that say nothing, because a hook set the phases in between.
        outputs: steps whose order parameters per layer were computed again.
        is_bit_identical: whether every number was equal to the last bit.
        is_exact: whether that was required, because backend and machine are those of the run.
        max_phase_deviation: largest difference of a phase, in rad, around the circle.
        max_amplitude_deviation: largest difference of an amplitude.
        max_r_deviation: largest difference of an order parameter.
        problem: what does not hold, naming the steps; empty when all holds.
    """

    transitions: int = 0
    overridden: int = 0
    outputs: int = 0
    is_bit_identical: bool = True
    is_exact: bool = False
    max_phase_deviation: float = 0.0
    max_amplitude_deviation: float = 0.0
    max_r_deviation: float = 0.0
    problem: str = ""

    @property
    def ok(self) -> bool:
        """Whether every transition holds."""
        return not self.problem


def recorded_arrays(record: Mapping[str, Any], table: ReferenceTable[FloatArray]) -> dict[str, FloatArray]:
    """Give the base arrays of a step record and keep them for the records that refer to them.

    Raises:
        ValueError: a reference to an array that was not recorded, or numbers of no regular shape.
    """
    arrays: dict[str, FloatArray] = {}
    for name in REFERENCED_ARRAYS:
        if name in record:
            array = _numbers(record, name)
            reference = array_reference(array)
        elif f"{name}_ref" in record:
            reference = cast("str", record[f"{name}_ref"])
            found = table.find(name, reference)
            if found is None:
                raise ValueError(f"{name}_ref names {reference!r:.80}, which no record before it holds")
            array = found
        else:
            continue
        table.use(name, reference, value=array)
        arrays[name] = array
    return arrays


def _numbers(record: Mapping[str, Any], name: str) -> FloatArray:
    try:
        array = np.array(record[name], dtype=np.float64)
    except KeyError as error:
        raise ValueError(f"the record has no {name}") from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers, got {record[name]!r:.60}") from error
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite")
    return array


def _number_or_array(record: Mapping[str, Any], name: str) -> float | FloatArray:
    array = _numbers(record, name)
    return array if array.ndim else float(array)


class Reexecution:
    """Executes the step records of one run in order.

    Args:
        engine: as the header says.
        layer_sizes: oscillators per layer; without, modulated layers cannot be replayed, nor order parameters compared.
        table: arrays of the records before.
        is_exact: require equal bits.
        atol: largest deviation of phases and amplitudes, in place of the tolerances of this module.
    """

    def __init__(
        self,
        engine: StepEngine,
        *,
        layer_sizes: list[int] | None = None,
        table: ReferenceTable[FloatArray] | None = None,
        is_exact: bool = False,
        atol: float | None = None,
    ) -> None:
        self._engine = engine
        self._layers = None if layer_sizes is None else LayerIndex.from_sizes(layer_sizes)
        self._layer_of = None if self._layers is None else self._layers.layer_of()
        self._table = ReferenceTable[FloatArray]() if table is None else table
        self._atol = atol
        self._expected: tuple[FloatArray, FloatArray | None] | None = None
        self._last_step: object = None
        self._bases: list[FloatArray | None] = []
        self._modulation: Mapping[str, Any] | None = None
        self._effective: tuple[CouplingState, FloatArray | None] | None = None
        self.report = DeterminismReport(is_exact=is_exact and atol is None)

    def take(self, record: Mapping[str, Any]) -> None:
        """Compare a step record with what the one before led to, and execute it.

        Raises:
            Mismatch: it is something else; the report says so too.
            ValueError: the record cannot be executed.
        """
        phases = _numbers(record, "phases")
        amplitudes = _numbers(record, "amplitudes") if "amplitudes" in record else None
        if self._expected is not None:
            if record.get("phases_overridden") is True:
                self.report.overridden += 1
            else:
                self._compare_inputs(record, phases, amplitudes)
                self.report.transitions += 1
        self._expected = self._execute(record, phases, amplitudes)
        self._last_step = record.get("step")
        self._compare_outputs(record)

    def _execute(
        self, record: Mapping[str, Any], phases: FloatArray, amplitudes: FloatArray | None
    ) -> tuple[FloatArray, FloatArray | None]:
        arrays = recorded_arrays(record, self._table)
        missing = [name for name in ("omegas", "knm", "alpha") if name not in arrays]
        if missing:
            raise ValueError(f"step {record.get('step')!r:.20} has no {missing[0]}")
        zeta, psi = _number_or_array(record, "zeta"), _number_or_array(record, "psi_drive")
        coupling, mu = self._modulated(record.get("modulation"), arrays)
        if amplitudes is None:
            after = self._engine.step(phases, arrays["omegas"], coupling.knm, zeta, psi, coupling.alpha)
            return after, None
        if mu is None or coupling.knm_r is None:
            raise ValueError(f"step {record.get('step')!r:.20} has amplitudes, but lacks mu or knm_r")
        state = np.concatenate((phases, amplitudes))
        epsilon = float(_numbers(record, "epsilon")) if "epsilon" in record else 1.0
        after = self._engine.step(
            state, arrays["omegas"], mu, coupling.knm, coupling.knm_r, zeta, psi, coupling.alpha, epsilon
        )
        return after[: len(phases)], after[len(phases) :]

    def _modulated(
        self, modulation: Mapping[str, Any] | None, arrays: Mapping[str, FloatArray]
    ) -> tuple[CouplingState, FloatArray | None]:
        # Compared by identity: an array of the table is never changed, and equal ones are one object.
        bases = [arrays.get(name) for name in ("knm", "alpha", "knm_r", "mu")]
        is_known = modulation == self._modulation and all(map(is_, bases, self._bases))
        if self._effective is None or not is_known:
            coupling = CouplingState(arrays["knm"], arrays["alpha"], "default", arrays.get("knm_r"))
            mu = arrays.get("mu")
            if modulation is not None:
                change = Modulation.from_record(modulation)
                layer_of = self._layer_of
                if layer_of is None:
                    if change.layer_gains or change.layer_lags or change.imprint is not None:
                        raise ValueError("the header has no layer_sizes, which a modulation of layers needs")
                    layer_of = np.zeros(len(arrays["knm"]), dtype=np.int64)
                coupling = change.apply(coupling, layer_of)
                mu = None if mu is None else change.apply_mu(mu, layer_of)
            self._effective, self._modulation, self._bases = (coupling, mu), modulation, bases
        return self._effective

    def _compare_inputs(self, record: Mapping[str, Any], phases: FloatArray, amplitudes: FloatArray | None) -> None:
        before, amplitudes_before = cast("tuple[FloatArray, FloatArray | None]", self._expected)
        where = f"step {self._last_step!r:.20} does not lead to step {record.get('step')!r:.20}"
        if before.shape != phases.shape or (amplitudes is None) != (amplitudes_before is None):
            self._fail(f"{where}: it has {phases.shape} phases, expected {before.shape}")
        turn = np.abs(before - phases)
        deviation = float(np.minimum(turn, TWO_PI - turn).max(initial=0.0)) if before.size else 0.0
        r_deviation = abs(compute_order_parameter(before)[0] - compute_order_parameter(phases)[0])
        amplitude_deviation = 0.0
        is_same = before.tobytes() == phases.tobytes()
        if amplitudes is not None and amplitudes_before is not None:
            amplitude_deviation = float(np.abs(amplitudes - amplitudes_before).max(initial=0.0))
            is_same = is_same and amplitudes.tobytes() == amplitudes_before.tobytes()
        report = self.report
        report.is_bit_identical = report.is_bit_identical and is_same
        report.max_phase_deviation = max(report.max_phase_deviation, deviation)
        report.max_amplitude_deviation = max(report.max_amplitude_deviation, amplitude_deviation)
        report.max_r_deviation = max(report.max_r_deviation, r_deviation)
        largest = max(deviation, amplitude_deviation)
        if self._atol is not None:
            holds = largest <= self._atol
        elif report.is_exact:
            holds = is_same
        else:
            holds = largest <= PHASE_TOLERANCE and r_deviation <= R_TOLERANCE
        if not holds:
            self._fail(f"{where}: phases or amplitudes differ by {largest:.3g}, R by {r_deviation:.3g}")

    def _compare_outputs(self, record: Mapping[str, Any]) -> None:
        """Compare the order parameters that the record claims with those of the phases after it."""
        if self._layers is None or self._expected is None:
            return
        execution = record.get("channel_runtime")
        if isinstance(execution, Mapping):
            claimed = [layer["raw_R"] for layer in execution["layers"]]
        else:
            claimed = [layer["R"] for layer in record["layers"]]
        found = layer_order_parameters(np.ascontiguousarray(self._expected[0]), self._layers)[0]
        if len(claimed) != len(found):
            self._fail(f"step {self._last_step!r:.20} has {len(claimed)} layers, the header {len(found)}")
        deviation = float(np.abs(np.asarray(claimed, dtype=np.float64) - found).max(initial=0.0))
        self.report.outputs += 1
        self.report.max_r_deviation = max(self.report.max_r_deviation, deviation)
        allowed = R_TOLERANCE if self._atol is None else max(self._atol, R_TOLERANCE)
        if not deviation <= allowed or math.isnan(deviation):
            self._fail(f"step {self._last_step!r:.20} claims order parameters that are off by {deviation:.3g}")

    def _fail(self, problem: str) -> None:
        self.report.problem = problem
        raise Mismatch(problem)
