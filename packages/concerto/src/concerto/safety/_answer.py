"""What one control step of the safety stack answers, and how it is read when somebody asks."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, NamedTuple

from concerto.safety._decide import BRAKING, FALLBACK, PASS_THROUGH, QP, AnswerLayout
from concerto.safety.api import FloatArray, LambdaDict

__all__ = ["SOURCE_OF_CODE", "AnswerReader", "SafetySource", "StackStep"]


class SafetySource(StrEnum):
    """Where an action came from."""

    PASS_THROUGH = "pass_through"  # noqa: S105 - no password
    """The nominal action, bit for bit: it satisfied every row and its stopping plan was certified."""
    QP = "qp"
    """The nearest action to the nominal one that satisfies every barrier row and the box."""
    BRAKING = "braking"
    """Braking along -v, or the certified mix of braking and the projected action."""
    FALLBACK = "fallback"
    """No action satisfied every row: a certified push along the violated rows, or braking along -v."""


SOURCE_OF_CODE = {
    PASS_THROUGH: SafetySource.PASS_THROUGH,
    QP: SafetySource.QP,
    BRAKING: SafetySource.BRAKING,
    FALLBACK: SafetySource.FALLBACK,
}


@dataclass(frozen=True, eq=False)
class StackStep:
    """The answer of one control step. Arrays are fresh float64 arrays of the shape of an action.

    Attributes:
        action: the action to apply; finite and inside the box.
        nominal_action: what was asked for.
        filtered_action: the answer before braking: the nominal action, its projection, or the push.
        source: where `action` came from.
        barrier_values: h per ego pair, m/s; negative is a violation. An overlap counts by its depth, see
            `concerto.safety.cbf_qp.pair_h_value`.
        gaps_m: distance between the surfaces per ego pair, m; negative is an overlap and its depth.
        lambda_: slack per ego pair that was used, m/s^2.
        prediction_loss: conformal loss per ego pair of the step before, in (-1/2, 1/2); None at the first step.
        stopping_margin_m: smallest clearance of the stopping plan of `action` from every partner's worst declared
            motion, m; negative when not even braking is certified, ``inf`` without partners.
        fallback_fired: the action did not come from the quadratic program: source `BRAKING` or `FALLBACK`.
        solve_ms: wall time of the decision, ms.
    """

    action: FloatArray
    nominal_action: FloatArray
    filtered_action: FloatArray
    source: SafetySource
    barrier_values: LambdaDict
    gaps_m: LambdaDict
    lambda_: LambdaDict
    prediction_loss: LambdaDict | None
    stopping_margin_m: float
    fallback_fired: bool
    solve_ms: float

    def __getstate__(self) -> dict[str, Any]:
        """Give all attributes: copies and pickles hold plain values."""
        return {attribute.name: getattr(self, attribute.name) for attribute in fields(self)}

    def to_info(self) -> dict[str, object]:
        """Give the step as values that JSON can hold: pairs become ``"a|b"``, numbers that are not finite None."""

        def finite(value: float) -> float | None:
            return value if math.isfinite(value) else None

        def by_text(values: LambdaDict) -> dict[str, float | None]:
            return {f"{a}|{b}": finite(value) for (a, b), value in values.items()}

        return {
            "action": self.action.tolist(),
            "nominal_action": self.nominal_action.tolist(),
            "filtered_action": self.filtered_action.tolist(),
            "source": self.source.value,
            "barrier_values": by_text(self.barrier_values),
            "gaps_m": by_text(self.gaps_m),
            "lambda": by_text(self.lambda_),
            "prediction_loss": None if self.prediction_loss is None else by_text(self.prediction_loss),
            "stopping_margin_m": finite(self.stopping_margin_m),
            "fallback_fired": self.fallback_fired,
            "solve_ms": self.solve_ms,
        }


class AnswerReader(NamedTuple):
    """Reads attributes of `StackStep` in the numbers that the compiled code wrote."""

    layout: AnswerLayout
    pairs: list[tuple[str, str]]

    def nominal_action(self, numbers: FloatArray, _: bool) -> FloatArray:
        return numbers[self.layout.nominal].copy()

    def filtered_action(self, numbers: FloatArray, _: bool) -> FloatArray:
        return numbers[self.layout.filtered].copy()

    def barrier_values(self, numbers: FloatArray, _: bool) -> LambdaDict:
        return self.by_pair(numbers[self.layout.barriers])

    def gaps_m(self, numbers: FloatArray, _: bool) -> LambdaDict:
        return self.by_pair(numbers[self.layout.gaps])

    def lambda_(self, numbers: FloatArray, _: bool) -> LambdaDict:
        return self.by_pair(numbers[self.layout.slacks])

    def prediction_loss(self, numbers: FloatArray, has_past: bool) -> LambdaDict | None:
        return self.by_pair(numbers[self.layout.losses]) if has_past else None

    def stopping_margin_m(self, numbers: FloatArray, _: bool) -> float:
        return float(numbers[self.layout.margin])

    def by_pair(self, values: FloatArray) -> LambdaDict:
        return dict(zip(self.pairs, values.tolist(), strict=True))


class _ReadOnDemand:
    """Makes one attribute of an answer when it is read; what is in the instance comes before it.

    A loop that trains reads little of an answer, and to make all of it costs more than the decision. So a stack leaves
    out what `AnswerReader` can read in ``_written``. A method ``__getattr__`` would make all other attributes slower.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, step: StackStep | None, owner: type[StackStep]) -> Any:
        written = None if step is None else step.__dict__.get("_written")
        if step is None or written is None:
            raise AttributeError(f"{owner.__name__!r} object has no attribute {self._name!r}")
        reader, numbers, has_past = written
        value = step.__dict__[self._name] = getattr(reader, self._name)(numbers, has_past)
        return value


for _name in ("nominal_action", "filtered_action", "barrier_values", "gaps_m", "lambda_", "prediction_loss",
              "stopping_margin_m"):  # fmt: skip
    setattr(StackStep, _name, _ReadOnDemand(_name))  # not in the class, where it would be a default
