"""What a run used: calls, tokens, seconds, money."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from operator import add
from typing import Any, cast

from agentinputlab.contracts._checks import exact_fields, finite, text, whole

__all__ = ["UNREPORTED_TOKEN_COUNTER", "ResourceUsage", "external_token_counter", "normalize_external_usage"]

UNREPORTED_TOKEN_COUNTER = "unreported"  # noqa: S105 - an identity, not a secret
"""Recorded beside token counts whose source does not say how it counted."""
_SECONDS_AND_MONEY = ("cpu_seconds", "accelerator_seconds", "cost_usd", "compute_cost_usd")
_REQUIRED_FROM_OUTSIDE = ("model_calls", "retrieval_calls", "input_tokens", "output_tokens")


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """Amounts that add up; every one is finite and at least 0.

    Attributes:
        model_calls: calls of a language model, failed ones too.
        retrieval_calls: calls of a retriever or of a vector search.
        tool_calls: calls of tools.
        embedding_calls: calls of an embedder.
        unpriced_model_calls: model calls whose price nobody knows; their cost is not in `cost_usd`.
        input_tokens: tokens read by models, added up over all calls.
        output_tokens: tokens generated.
        cpu_seconds: processor time.
        accelerator_seconds: time on a GPU or the like.
        cost_usd: money for priced model calls.
        compute_cost_usd: money for processor and accelerator time.
    """

    model_calls: int = 0
    retrieval_calls: int = 0
    tool_calls: int = 0
    embedding_calls: int = 0
    unpriced_model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cpu_seconds: float = 0.0
    accelerator_seconds: float = 0.0
    cost_usd: float = 0.0
    compute_cost_usd: float = 0.0

    def __post_init__(self) -> None:
        amounts = self._amounts()
        if (
            tuple(map(type, amounts)) == _KINDS
            and min(amounts) >= 0
            and math.isfinite(sum(amounts[-len(_SECONDS_AND_MONEY) :]))
        ):
            return  # as nearly always; what is wrong, and whether anything is, is found out below
        for name in _AMOUNTS:
            value = getattr(self, name)
            if type(value) is int and value >= 0 and name not in _SECONDS_AND_MONEY:
                continue  # as nearly all are; the message below is made only where it may be needed
            check = finite if name in _SECONDS_AND_MONEY else whole
            check(value, f"ResourceUsage.{name}", minimum=0)

    def __add__(self, other: ResourceUsage) -> ResourceUsage:
        if not isinstance(cast("object", other), ResourceUsage):
            return NotImplemented
        return ResourceUsage(*map(add, self._amounts(), other._amounts()))

    @property
    def is_zero(self) -> bool:
        """Whether nothing was used."""
        return not any(self._amounts())

    @property
    def total_cost_usd(self) -> float:
        """Money for model calls and for compute time."""
        return self.cost_usd + self.compute_cost_usd

    def as_dict(self) -> dict[str, int | float]:
        """Give all amounts by name, and ``total_cost_usd``."""
        amounts = dict(zip(_AMOUNTS, self._amounts(), strict=True))
        amounts["total_cost_usd"] = self.total_cost_usd
        return amounts

    def _amounts(self) -> tuple[Any, ...]:
        """All fields in order, seconds and money last; every run adds and checks some of these."""
        return (
            self.model_calls,
            self.retrieval_calls,
            self.tool_calls,
            self.embedding_calls,
            self.unpriced_model_calls,
            self.input_tokens,
            self.output_tokens,
            self.cpu_seconds,
            self.accelerator_seconds,
            self.cost_usd,
            self.compute_cost_usd,
        )


_AMOUNTS = tuple(field.name for field in fields(ResourceUsage))
_KINDS = tuple(float if name in _SECONDS_AND_MONEY else int for name in _AMOUNTS)


def normalize_external_usage(envelope: object) -> ResourceUsage:
    """Give the usage that a program outside reports. What it does not say is never taken for free.

    Args:
        envelope: mapping with ``model_calls, retrieval_calls, input_tokens, output_tokens``, and optionally the other
            fields of `ResourceUsage` and ``token_counter`` (see `external_token_counter`). Without ``cost_usd`` all
            its model calls are unpriced.

    Raises:
        ValidationError: a field is unknown, missing, negative or of the wrong type; it is named.
    """
    mapping = exact_fields(
        envelope, "external usage", allowed=(*_AMOUNTS, "token_counter"), required=_REQUIRED_FROM_OUTSIDE
    )
    external_token_counter(mapping)
    amounts: dict[str, Any] = {name: value for name, value in mapping.items() if name != "token_counter"}
    model_calls = whole(amounts["model_calls"], "external usage.model_calls")
    if "cost_usd" not in amounts:
        amounts["unpriced_model_calls"] = model_calls
    return ResourceUsage(**amounts)


def external_token_counter(envelope: Mapping[str, Any]) -> str:
    """Give the identity of what counted the tokens of an external usage, or `UNREPORTED_TOKEN_COUNTER`."""
    return text(envelope.get("token_counter", UNREPORTED_TOKEN_COUNTER), "external usage.token_counter")
