"""What calls and seconds cost. No price is built in: a price that nobody gave is unknown, not zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import cast

from agentinputlab.contracts._checks import finite, put, text
from agentinputlab.contracts.errors import ValidationError

__all__ = ["ComputePrice", "ModelPrice", "PricingCatalog"]


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """Price of a model in US dollars per million tokens read and per million tokens generated."""

    input_per_million: float
    output_per_million: float

    def __post_init__(self) -> None:
        finite(self.input_per_million, "ModelPrice.input_per_million", minimum=0)
        finite(self.output_per_million, "ModelPrice.output_per_million", minimum=0)

    def cost_usd(self, *, input_tokens: int, output_tokens: int) -> float:
        """Give the price of one call in US dollars."""
        return (input_tokens * self.input_per_million + output_tokens * self.output_per_million) / 1e6


@dataclass(frozen=True, slots=True)
class ComputePrice:
    """Price of machine time in US dollars per hour of a processor and of an accelerator."""

    cpu_per_hour: float = 0.0
    accelerator_per_hour: float = 0.0

    def __post_init__(self) -> None:
        finite(self.cpu_per_hour, "ComputePrice.cpu_per_hour", minimum=0)
        finite(self.accelerator_per_hour, "ComputePrice.accelerator_per_hour", minimum=0)

    def cost_usd(self, *, cpu_seconds: float, accelerator_seconds: float = 0.0) -> float:
        """Give the price of some machine time in US dollars."""
        return (cpu_seconds * self.cpu_per_hour + accelerator_seconds * self.accelerator_per_hour) / 3600


@dataclass(frozen=True, slots=True)
class PricingCatalog:
    """Prices by model id.

    Attributes:
        prices: model id -> price. A model that is not here is unpriced.
        compute: price of machine time; None leaves it out of the account.
    """

    prices: Mapping[str, ModelPrice] = field(default_factory=dict[str, ModelPrice])
    compute: ComputePrice | None = None

    def __post_init__(self) -> None:
        if not isinstance(cast("object", self.prices), Mapping):
            raise ValidationError(f"PricingCatalog.prices must be a mapping, got {type(self.prices).__name__}")
        for model_id, price in self.prices.items():
            text(model_id, "a model id of PricingCatalog.prices")
            if not isinstance(cast("object", price), ModelPrice):
                raise ValidationError(
                    f"PricingCatalog.prices[{model_id!r}] must be a ModelPrice, got {type(price).__name__}"
                )
        compute = cast("object", self.compute)
        if compute is not None and not isinstance(compute, ComputePrice):
            raise ValidationError(
                f"PricingCatalog.compute must be a ComputePrice or None, got {type(self.compute).__name__}"
            )
        put(self, prices=MappingProxyType(dict(self.prices)))

    def price_of(self, model_id: str) -> ModelPrice | None:
        """Give the price of a model, or None when nobody gave one."""
        return self.prices.get(model_id)

    def cost_usd(self, model_id: str, *, input_tokens: int, output_tokens: int) -> float | None:
        """Give the price of one call in US dollars, or None when the model has no price."""
        price = self.price_of(model_id)
        return None if price is None else price.cost_usd(input_tokens=input_tokens, output_tokens=output_tokens)
