"""What the safety stack did in a run, in constant time per step, and the gate that judges it from the log alone.

Symbols: λ is the slack of a pair of robots in m/s², see `concerto.safety.conformal`. Every step is reduced to the mean
of λ over the pairs; mean, variance and steady state are those of this series, the extremes are those of single pairs.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple, cast

from concerto.safety.api import LambdaDict
from ripieno.errors import InputError

__all__ = ["FINAL_EVENT", "AuditExit", "AuditVerdict", "SafetyAggregator", "audit_gate"]

FINAL_EVENT = "safety_telemetry_final"
"""Name of the event that sums up a run."""

_TAIL_FRACTION = 10
"""The steady state is the mean over the last n // 10 of n steps."""

_KEPT_WITHOUT_A_LOOK = 4096
"""Values beyond twice the tail that may pile up before those that are no longer needed go."""

_LARGEST_UNREAD = 1024
"""Steps that are remembered before they are counted."""

_PINNED_TOLERANCE = 1e-6
_CONSTANT_VARIANCE = 1e-12


@dataclass
class _Statistics:
    """Running statistics of a series: the update of Welford (1962), the merge of Chan, Golub & LeVeque (1979)."""

    n: int = 0
    mean: float = 0.0
    sum_of_squares: float = 0.0
    """Sum of squared deviations from the mean."""
    n_pair_values: int = 0
    highest: float = -math.inf
    lowest: float = math.inf
    n_fallback_fires: int = 0
    n_qp_infeasible: int = 0
    n_braking_fires: int = 0

    def add(self, value: float) -> None:
        self.n += 1
        deviation = value - self.mean
        self.mean += deviation / self.n
        self.sum_of_squares += deviation * (value - self.mean)

    def merged(self, other: _Statistics) -> _Statistics:
        """Give the statistics of both series, one after the other."""
        n = self.n + other.n
        deviation = other.mean - self.mean
        weight = other.n / n if n else 0.0
        return _Statistics(
            n=n,
            mean=self.mean + deviation * weight if self.n else other.mean,
            sum_of_squares=self.sum_of_squares + other.sum_of_squares + deviation**2 * self.n * weight,
            n_pair_values=self.n_pair_values + other.n_pair_values,
            highest=max(self.highest, other.highest),
            lowest=min(self.lowest, other.lowest),
            n_fallback_fires=self.n_fallback_fires + other.n_fallback_fires,
            n_qp_infeasible=self.n_qp_infeasible + other.n_qp_infeasible,
            n_braking_fires=self.n_braking_fires + other.n_braking_fires,
        )

    @property
    def variance(self) -> float:
        """Population variance."""
        return self.sum_of_squares / self.n if self.n else 0.0

    def extreme(self, value: float) -> float | None:
        """Give an extreme; None where steps were seen but no pair, because a pair has none then."""
        if self.n_pair_values:
            return value
        return None if self.n else 0.0


class _Tail:
    """The last max(1, n // 10) values of a series of n; what it no longer needs is given back."""

    def __init__(self) -> None:
        self._values = array("d")
        self._n = 0
        self._n_kept = _KEPT_WITHOUT_A_LOOK

    def add(self, value: float) -> None:
        self._n += 1
        self._values.append(value)
        if len(self._values) > self._n_kept:
            del self._values[: -self._length]
            self._n_kept = _KEPT_WITHOUT_A_LOOK + 2 * len(self._values)

    @property
    def _length(self) -> int:
        return max(1, self._n // _TAIL_FRACTION)

    def values(self) -> list[float]:
        return self._values[-self._length :].tolist()

    def mean(self) -> float:
        values = self.values()
        return math.fsum(values) / len(values) if values else 0.0

    def load(self, values: list[float], n: int) -> None:
        self._values = array("d", values)
        self._n = n
        self._n_kept = _KEPT_WITHOUT_A_LOOK + 2 * len(values)


@dataclass
class SafetyAggregator:
    """Counts what the safety stack did, per window and over the run.

    Attributes:
        n_pairs: number of pairs that carry a slack.
        cartesian_accel_capacity: what the robots can brake with, m/s².
        saturation_threshold: λ counts as saturated from this part of the capacity on.
        lambda_clamp_bound: λ is clamped to ± this, m/s²; None where it is not.

    Raises:
        InputError: ``n_pairs`` is negative, or a bound is not a number.

    Examples:
        >>> aggregator = SafetyAggregator(n_pairs=1, cartesian_accel_capacity=10.0)
        >>> for value in (0.0, -2.0):
        ...     aggregator.observe({("ego", "partner"): value}, braking_fired=value < 0.0)
        >>> window = aggregator.flush_window_stats()
        >>> window["lambda_mean"], window["lambda_var"], window["n_braking_fires"]
        (-1.0, 1.0, 1)
    """

    n_pairs: int
    cartesian_accel_capacity: float
    saturation_threshold: float = 0.9
    lambda_clamp_bound: float | None = None
    _earlier: _Statistics = field(default_factory=_Statistics, init=False, repr=False)
    _window: _Statistics = field(default_factory=_Statistics, init=False, repr=False)
    _tail: _Tail = field(default_factory=_Tail, init=False, repr=False, compare=False)
    _unread: list[float] = field(default_factory=list[float], init=False, repr=False)
    _n_unread: int = field(default=0, init=False, repr=False)
    """Steps whose slacks are not in the statistics yet: many at once are counted in a third of the time."""

    def __post_init__(self) -> None:
        if self.n_pairs < 0:
            raise InputError(f"n_pairs must be at least 0, got {self.n_pairs}")
        for name in ("cartesian_accel_capacity", "saturation_threshold"):
            if not math.isfinite(getattr(self, name)):
                raise InputError(f"{name} must be finite, got {getattr(self, name)}")

    def observe(
        self,
        lambda_: LambdaDict,
        *,
        fallback_fired: bool = False,
        qp_infeasible: bool = False,
        braking_fired: bool = False,
    ) -> None:
        """Count one step; without pairs its λ counts as 0.

        Raises:
            InputError: (a ValueError) the number of slacks is not ``n_pairs``.
        """
        if len(lambda_) != self.n_pairs:
            raise InputError(f"lambda_ must have {self.n_pairs} pairs, got {len(lambda_)}")
        self._unread.extend(lambda_.values())
        self._n_unread += 1
        if fallback_fired:
            self._window.n_fallback_fires += 1
        if qp_infeasible:
            self._window.n_qp_infeasible += 1
        if braking_fired:
            self._window.n_braking_fires += 1
        if self._n_unread == _LARGEST_UNREAD:
            self._read()

    def _read(self) -> None:
        """Count the slacks that were only remembered."""
        window, tail, n_pairs, slacks = self._window, self._tail, self.n_pairs, self._unread
        for step in range(self._n_unread):
            value = 0.0
            if n_pairs:
                values = slacks[step * n_pairs : (step + 1) * n_pairs]
                value = float(sum(values)) / n_pairs
                window.n_pair_values += n_pairs
                window.highest = max(window.highest, float(max(values)))
                window.lowest = min(window.lowest, float(min(values)))
            window.add(value)
            tail.add(value)
        slacks.clear()
        self._n_unread = 0

    def flush_window_stats(self) -> dict[str, Any]:
        """Give the statistics since the last call, and begin a new window.

        Returns:
            ``n_obs, lambda_mean, lambda_var`` (population variance) ``, lambda_max, lambda_min, n_fallback_fires,
            n_qp_infeasible, n_braking_fires``; zeros for an empty window, None for the extremes of no pairs.
        """
        self._read()
        window = self._window
        self._earlier = self._earlier.merged(window)
        self._window = _Statistics()
        return {
            "n_obs": window.n,
            "lambda_mean": window.mean,
            "lambda_var": window.variance,
            "lambda_max": window.extreme(window.highest),
            "lambda_min": window.extreme(window.lowest),
            "n_fallback_fires": window.n_fallback_fires,
            "n_qp_infeasible": window.n_qp_infeasible,
            "n_braking_fires": window.n_braking_fires,
        }

    def finalise(self, *, safety_enabled: bool, predictor_kind: str = "constant_velocity") -> dict[str, Any]:
        """Sum up the run, which may go on.

        Returns:
            The event `FINAL_EVENT`, its name under ``event``. ``lambda_steady_state`` is the mean over the last tenth
            of the steps, at least one; ``saturated`` says that its absolute value reaches ``saturation_threshold`` of
            the capacity.
        """
        self._read()
        run = self._earlier.merged(self._window)
        steady_state = self._tail.mean()
        is_below = abs(steady_state) < self.saturation_threshold * self.cartesian_accel_capacity
        return {
            "event": FINAL_EVENT,
            "safety_enabled": safety_enabled,
            "predictor_kind": predictor_kind,
            "n_filter_calls": run.n,
            "n_fallback_fires": run.n_fallback_fires,
            "n_qp_infeasible": run.n_qp_infeasible,
            "n_braking_fires": run.n_braking_fires,
            "braking_fire_rate": run.n_braking_fires / run.n if run.n else 0.0,
            "cartesian_accel_capacity": self.cartesian_accel_capacity,
            "saturation_threshold": self.saturation_threshold,
            "lambda_clamp_bound": self.lambda_clamp_bound,
            "lambda_mean": run.mean,
            "lambda_var": run.variance,
            "lambda_max_observed": run.extreme(run.highest),
            "lambda_min_observed": run.extreme(run.lowest),
            "lambda_steady_state": steady_state,
            "saturated": run.n > 0 and not is_below,
        }

    def state(self) -> dict[str, Any]:
        """Give what `load_state` needs to go on exactly here: dictionaries of numbers, and the tail as a list."""
        self._read()
        return {
            "earlier": _numbers_of(self._earlier),
            "window": _numbers_of(self._window),
            "tail": self._tail.values(),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to where `state` was asked.

        Raises:
            InputError: it is not such a state.
        """
        try:
            earlier, window = _Statistics(**state["earlier"]), _Statistics(**state["window"])
            tail = [float(value) for value in state["tail"]]
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"not the state of a SafetyAggregator: {error!r}") from error
        n = earlier.n + window.n
        if len(tail) != min(n, max(1, n // _TAIL_FRACTION)):
            raise InputError(f"not the state of a SafetyAggregator: {n} steps, and {len(tail)} values of their tail")
        self._unread.clear()
        self._n_unread = 0
        self._earlier, self._window = earlier, window
        self._tail.load(tail, n)


def _numbers_of(statistics: _Statistics) -> dict[str, float]:
    return {item.name: getattr(statistics, item.name) for item in fields(statistics)}


# --- the gate -----------------------------------------------------------------------------------------------


class AuditExit(IntEnum):
    """Exit codes of the gate."""

    PASSED = 0
    """Nothing to object to, or the safety stack was off."""
    NO_LOG = 2
    """No such file."""
    NO_SUMMARY = 3
    """The log has no final summary: the run was not finished."""
    SATURATED = 8
    """The steady state of λ is near the capacity, or is no number: the slack no longer says anything."""
    STUCK = 9
    """λ never moved, and not because it is pinned at its clamp: it was not updated."""


class AuditVerdict(NamedTuple):
    """What the gate says: an exit code, and the sentence a person reads."""

    exit_code: AuditExit
    reason: str


def audit_gate(jsonl_path: Path | None) -> AuditVerdict:
    """Judge a run by the last `FINAL_EVENT` of its log.

    In this order: no file; no such event; the stack was off (passes); A, the steady state of |λ| reaches
    ``saturation_threshold`` of the capacity; B, λ is constant (variance at most 1e-12) and not 0 (mean beyond 1e-6),
    unless its mean lies within 1e-6 of the clamp.
    """
    if jsonl_path is None or not jsonl_path.is_file():
        return AuditVerdict(AuditExit.NO_LOG, f"there is no log {jsonl_path}" if jsonl_path else "no log was named")
    final = _last_final_event(jsonl_path)
    if final is None:
        return AuditVerdict(AuditExit.NO_SUMMARY, f"{jsonl_path} has no event {FINAL_EVENT}: the run did not finish")
    if final.get("safety_enabled") is False:
        return AuditVerdict(AuditExit.PASSED, "the safety stack was off: there is nothing to judge")
    return _saturation(final) or _constancy(final)


def _saturation(final: Mapping[str, object]) -> AuditVerdict | None:
    steady_state = _number(final, "lambda_steady_state")
    limit = _number(final, "saturation_threshold") * _number(final, "cartesian_accel_capacity")
    if abs(steady_state) < limit:
        return None
    return AuditVerdict(
        AuditExit.SATURATED, f"λ is saturated: its steady state is {steady_state:g}, and |λ| must stay below {limit:g}"
    )


def _constancy(final: Mapping[str, object]) -> AuditVerdict:
    mean, variance = _number(final, "lambda_mean"), _number(final, "lambda_var")
    clamp = _number(final, "lambda_clamp_bound")
    if abs(mean) <= _PINNED_TOLERANCE or (math.isfinite(mean) and variance > _CONSTANT_VARIANCE):
        return AuditVerdict(AuditExit.PASSED, f"λ is neither saturated nor stuck: mean {mean:g}, variance {variance:g}")
    if abs(mean - math.copysign(clamp, mean)) < _PINNED_TOLERANCE:
        return AuditVerdict(AuditExit.PASSED, f"λ is pinned at its clamp, {math.copysign(clamp, mean):g}, all the time")
    return AuditVerdict(
        AuditExit.STUCK, f"λ never moved: mean {mean:g}, variance {variance:g}, and it is not at a clamp"
    )


def _last_final_event(path: Path) -> dict[str, object] | None:
    final: dict[str, object] | None = None
    with path.open("rb") as stream:
        for line in stream:
            if FINAL_EVENT.encode() not in line:
                continue
            try:
                event = json.loads(line)
            except ValueError:
                continue  # torn by a crash
            if isinstance(event, dict) and cast("dict[str, object]", event).get("event") == FINAL_EVENT:
                final = event
    return final


def _number(event: Mapping[str, object], name: str) -> float:
    """Give a number of the event, NaN (which passes no comparison) where there is none."""
    value = event.get(name)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
