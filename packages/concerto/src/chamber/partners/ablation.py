"""The partner that does nothing, for cells that ask what is left without a partner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from chamber.partners._parameters import positive_integer
from chamber.partners.api import PartnerSpec
from chamber.partners.interface import PartnerBase
from chamber.partners.registry import register_partner

__all__ = ["PARTNER_ABLATED_ZERO_CLASS", "PartnerAblatedZero"]

PARTNER_ABLATED_ZERO_CLASS = "partner_ablated_zero"


@register_partner(PARTNER_ABLATED_ZERO_CLASS)
class PartnerAblatedZero(PartnerBase):
    """Always gives the zero action, so that the recorded identity is that of a real, registered partner.

    Args:
        spec: ``extra["action_dim"]`` is the length of the action; required.

    Raises:
        ValueError: ``action_dim`` is missing or no positive integer.
    """

    required: ClassVar[tuple[str, ...]] = ("action_dim",)
    """Parameters without a default."""

    def __init__(self, spec: PartnerSpec) -> None:
        super().__init__(spec)
        self._action_dim = positive_integer("action_dim", spec.extra.get("action_dim"))

    def act(self, obs: Mapping[str, object], *, deterministic: bool = True) -> NDArray[np.float32]:
        """Give zeros of shape ``(action_dim,)``."""
        return np.zeros(self._action_dim, dtype=np.float32)
