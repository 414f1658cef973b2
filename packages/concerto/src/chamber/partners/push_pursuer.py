"""The hostile partner of the push task."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chamber.partners._push import PushPartner, PushView
from chamber.partners.registry import register_partner

__all__ = ["PursuingPushPartner"]


@register_partner("push_pursuer")
class PursuingPushPartner(PushPartner):
    """Drives at the other robot."""

    def goal(self, view: PushView) -> NDArray[np.float64]:
        """Give the offset of the other robot."""
        return view.other
