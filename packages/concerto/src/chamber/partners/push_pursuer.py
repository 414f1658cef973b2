"""The hostile partner of the push task."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chamber._planar import PlanarView
from chamber.partners._push import PushPartner
from chamber.partners.registry import register_partner

__all__ = ["PursuingPushPartner"]


@register_partner("push_pursuer")
class PursuingPushPartner(PushPartner):
    """Drives at the other robot."""

    def goal(self, view: PlanarView) -> NDArray[np.float64]:
        """Give the offset of the other robot."""
        return view.other
