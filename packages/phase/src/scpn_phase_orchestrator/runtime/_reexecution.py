"""Executing recorded steps again, one after the other, and comparing each with what the log says came next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np

from scpn_phase_orchestrator._arrays import FloatArray
from scpn_phase_orchestrator._compat import TWO_PI
from scpn_phase_orchestrator.coupling.knm import CouplingState
from scpn_phase_orchestrator.coupling.modulation import Modulation
from scpn_phase_orchestrator.runtime._array_references import REFERENCED_ARRAYS, ReferenceTable, array_reference
from scpn_phase_orchestrator.runtime._replay_claims import (
    ActionCheck,
    Mismatch,
    check_course,
    check_header,
    check_seen_layers,
    initial_phases,
)
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


@dataclass
class DeterminismReport:
    """How far executing the recorded steps again agrees with the log.

    Attributes:
        transitions: recorded pairs of steps of which the first led to the second.
        overridden: pairs that say nothing, because a hook set the phases in between.
        outputs: steps whose order parameters and mean phases per layer were computed again.
        unexecuted: steps without inputs, which nothing was compared with.
        actions_checked: steps whose gains and lags were compared with the recorded actions.
        knob_resets: how many of these had gains and lags at their base although actions would still hold.
        first_step: number of the first step that was executed.
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
    unexecuted: int = 0
    actions_checked: int = 0
    knob_resets: int = 0
    first_step: int | None = None
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
        values = np.array(record[name])
    except KeyError as error:
        raise ValueError(f"the record has no {name}") from error
    except ValueError as error:
        raise ValueError(f"{name} must be numbers, got {record[name]!r:.60}") from error
    if values.dtype.kind not in "fi":  # text that reads like a number is none, nor is a truth value
        raise ValueError(f"{name} must be numbers, got {record[name]!r:.60}")
    array = values.astype(np.float64, copy=False)
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
        header: what the log says about the run. Without ``layer_sizes`` modulated layers cannot be replayed, nor order
            parameters compared; without ``binding_config`` seed and actions say nothing that could be compared.
        table: arrays of the records before.
        is_exact: require equal bits.
        atol: largest deviation of phases and amplitudes, in place of the tolerances of this module.

    Raises:
        ValueError: the header contradicts itself.
    """

    def __init__(
        self,
        engine: StepEngine,
        header: Mapping[str, Any],
        *,
        table: ReferenceTable[FloatArray] | None = None,
        is_exact: bool = False,
        atol: float | None = None,
    ) -> None:
        self._engine = engine
        check_header(header)
        self._header = header
        self._layers = LayerIndex.from_sizes(header["layer_sizes"]) if "layer_sizes" in header else None
        self._layer_of = None if self._layers is None else self._layers.layer_of()
        self._table = ReferenceTable[FloatArray]() if table is None else table
        self._atol = atol
        self._expected: tuple[FloatArray, FloatArray | None] | None = None
        self._before: Mapping[str, Any] | None = None
        self._raw_before: list[tuple[float, float]] | None = None
        self._actions: ActionCheck | None = None
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
        if self._expected is None:
            self._begin(record, phases)
        elif record.get("phases_overridden") is True:
            self.report.overridden += 1
        else:
            self._compare_inputs(record, phases, amplitudes)
            self.report.transitions += 1
        bases = self._bases
        self._expected = self._execute(record, phases, amplitudes)
        try:
            check_course(record, self._before)
            if self._actions is not None:
                is_base_new = bool(bases) and not all(map(_is_equal, bases[:3], self._bases))
                self._actions.take(record, is_base_new=is_base_new)
                self.report.actions_checked += 1
                self.report.knob_resets = self._actions.resets
        except Mismatch as error:
            self._fail(str(error))
        self._before = record
        self._compare_outputs(record)

    def _begin(self, record: Mapping[str, Any], phases: FloatArray) -> None:
        """Hold the first step against the seed; only from step 0 on it is known where the knobs are."""
        self.report.first_step = record["step"]
        if record["step"] == 0:
            self._actions = ActionCheck.of_run(self._header)
        expected = initial_phases(self._header, record)
        if expected is None:
            return
        if expected.shape != phases.shape or not np.abs(expected - phases).max() <= PHASE_TOLERANCE:
            self._fail(f"step 0 does not begin with the phases of the seed {self._header['seed']}")

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
        is_known = modulation == self._modulation and len(bases) == len(self._bases)
        is_known = is_known and all(one is other for one, other in zip(bases, self._bases, strict=True))
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
        last = cast("Mapping[str, Any]", self._before)["step"]
        where = f"step {last!r:.20} does not lead to step {record['step']!r:.20}"
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
        """Compare order parameters and mean phases that the record claims with those of the phases after it."""
        if self._layers is None or self._expected is None:
            return
        step, execution = record["step"], record.get("channel_runtime")
        seen = [(float(layer["R"]), float(layer["psi"])) for layer in record["layers"]]
        claimed = seen
        if isinstance(execution, Mapping):
            claimed = [(float(layer["raw_R"]), float(layer["raw_psi"])) for layer in execution["layers"]]
        if not len(claimed) == len(seen) == self._layers.layer_count:
            self._fail(f"step {step!r:.20} has {len(claimed)} layers, the header {self._layers.layer_count}")
        found = np.stack(layer_order_parameters(np.ascontiguousarray(self._expected[0]), self._layers), axis=1)
        stated = np.array(claimed, dtype=np.float64).reshape(found.shape)
        deviation = float(np.abs(stated[:, 0] - found[:, 0]).max(initial=0.0))
        # The mean phase of a layer says the less the smaller its R is: compared as arrows, not as angles.
        turn = float(np.abs(_arrows(stated) - _arrows(found)).max(initial=0.0))
        is_same = stated.tobytes() == found.tobytes()
        report = self.report
        report.outputs += 1
        report.is_bit_identical = report.is_bit_identical and is_same
        report.max_r_deviation = max(report.max_r_deviation, deviation)
        allowed = R_TOLERANCE if self._atol is None else max(self._atol, R_TOLERANCE)
        if not (is_same if report.is_exact else max(deviation, turn) <= allowed):
            self._fail(f"step {step!r:.20} claims order parameters that are off by {max(deviation, turn):.3g}")
        if isinstance(execution, Mapping):
            try:
                check_seen_layers(record, claimed, self._raw_before)
            except Mismatch as error:
                self._fail(str(error))
        self._raw_before = claimed

    def _fail(self, problem: str) -> None:
        self.report.problem = problem
        raise Mismatch(problem)


def _is_equal(one: FloatArray | None, other: FloatArray | None) -> bool:
    return one is other or (one is not None and other is not None and np.array_equal(one, other))


def _arrows(layers: FloatArray) -> FloatArray:
    """Give the end of the arrow of each layer, shape ``(L, 2)``, of its R and mean phase."""
    return np.stack((layers[:, 0] * np.cos(layers[:, 1]), layers[:, 0] * np.sin(layers[:, 1])), axis=1)
