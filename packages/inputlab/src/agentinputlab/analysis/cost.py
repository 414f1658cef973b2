"""What a campaign can cost at most, before anything is spent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agentinputlab.contracts.errors import ValidationError

__all__ = ["CallBound", "CostBound", "bound_cost"]


@dataclass(frozen=True, slots=True)
class CallBound:
    """Upper bounds of one kind of model call.

    Attributes:
        purpose: what the calls are for, e.g. ``"agent, both arms"``.
        slot: the model slot.
        model_calls: calls at most.
        input_tokens: tokens read at most; None when nothing bounds them.
        output_tokens: tokens written at most; None when nothing bounds them.
        input_price: money per million tokens read; None when no price was given.
        output_price: money per million tokens written; None when no price was given.
    """

    purpose: str
    slot: str
    model_calls: int
    input_tokens: int | None
    output_tokens: int | None
    input_price: float | None = None
    output_price: float | None = None

    def __post_init__(self) -> None:
        for name in ("model_calls", "input_tokens", "output_tokens", "input_price", "output_price"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValidationError(f"{name} of {self.purpose!r} must not be negative, got {value!r}")

    @property
    def cost(self) -> float | None:
        """Money at most; None when a bound or a price is missing."""
        if None in (self.input_tokens, self.output_tokens, self.input_price, self.output_price):
            return None
        return (
            float(self.input_tokens or 0) * float(self.input_price or 0.0)
            + float(self.output_tokens or 0) * float(self.output_price or 0.0)
        ) / 1e6


@dataclass(frozen=True, slots=True)
class CostBound:
    """The bounds of a whole campaign. An unknown part makes the total unknown, never zero.

    Attributes:
        calls: one row per purpose and slot.
        model_calls: calls at most.
        input_tokens: tokens read at most, None when a row has no bound.
        output_tokens: tokens written at most, None when a row has no bound.
        cost: money at most, None when a row has no bound or no price.
    """

    calls: tuple[CallBound, ...]
    model_calls: int
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None

    def as_dict(self) -> dict[str, Any]:
        """Give the bounds as JSON values."""
        record = asdict(self)
        record["calls"] = [{**asdict(row), "cost": row.cost} for row in self.calls]
        return record


def bound_cost(calls: Sequence[CallBound]) -> CostBound:
    """Add the bounds up.

    Examples:
        >>> row = CallBound("agent", "small", 16, 1_000_000, 8_000, input_price=0.5, output_price=1.5)
        >>> bound_cost([row]).cost
        0.512
        >>> bound_cost([row, CallBound("judge", "small", 8, None, None)]).cost is None
        True
    """
    rows = tuple(calls)
    costs = [row.cost for row in rows]
    return CostBound(
        calls=rows,
        model_calls=sum(row.model_calls for row in rows),
        input_tokens=_total([row.input_tokens for row in rows]),
        output_tokens=_total([row.output_tokens for row in rows]),
        cost=None if None in costs else float(sum(cost for cost in costs if cost is not None)),
    )


def _total(values: Sequence[int | None]) -> int | None:
    return None if None in values else sum(value for value in values if value is not None)
