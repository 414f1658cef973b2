"""A partner that is there and does nothing, whoever it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chamber.partners.api import FrozenPartner
from chamber.partners.interface import PartnerBase

__all__ = ["ExploratoryStaticPartnerOverride"]


class ExploratoryStaticPartnerOverride(PartnerBase):
    """Gives zeros in the shape of what the partner inside would have done.

    It keeps the identity of the partner inside, so the record of a run must say that it was there: the training loop
    writes ``exploratory_partner_static`` into every line of its log.

    Args:
        partner: the partner inside. It goes on seeing every observation, and refuses what it would refuse.
    """

    def __init__(self, partner: FrozenPartner) -> None:
        super().__init__(partner.spec)
        self._partner = partner

    def reset(self, *, seed: int | None = None) -> None:
        """Reset the partner inside."""
        self._partner.reset(seed=seed)

    def act(self, obs: Mapping[str, object], *, deterministic: bool = True) -> NDArray[np.floating[Any]]:
        """Give zeros, of the shape and type of the action of the partner inside."""
        return np.zeros_like(self._partner.act(obs, deterministic=deterministic))
